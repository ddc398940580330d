//! What a network learns to tell of an image, as a loss and as shares of right answers.

use candle_core::{Device, Tensor};

use super::data::{Data, Row};
use super::error::{Result, TrainError};
use super::losses::cross_entropy;
use crate::metrics::validity::argmax;
use crate::nets::Classifier;
use crate::tensor::{Array, Backend, cpu::Cpu};

/// What a network learns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The label of the data: parity of the character, with noise if the data has any.
    Label,
    Character,
    Font,
    /// All attributes: five numbers, then fonts, then characters (the order of the published encoder).
    Attributes,
}

/// Numbers among the attributes.
const NUMBERS: usize = 5;

/// What the outputs of a network mean, for one set of data.
#[derive(Clone, Debug)]
pub struct Meaning {
    pub target: Target,
    pub labels: usize,
    pub fonts: usize,
    pub characters: usize,
    /// Mean and deviation of the five numbers.
    pub numbers: [[f32; 2]; NUMBERS],
}

impl Meaning {
    pub fn new(target: Target, data: &Data, items: &[usize]) -> Self {
        let count =
            |value: fn(&Row) -> usize| data.rows.iter().map(value).max().map_or(0, |m| m + 1);
        let numbers = std::array::from_fn(|k| {
            let values = || {
                items
                    .iter()
                    .map(|&i| f64::from(data.rows[i].continuous()[k]))
            };
            let n = items.len().max(1) as f64;
            let mean = values().sum::<f64>() / n;
            let variance = values().map(|v| (v - mean) * (v - mean)).sum::<f64>() / n;
            [mean as f32, (variance.sqrt() as f32).max(1e-6)]
        });
        Self {
            target,
            labels: count(|r| r.label).max(2),
            fonts: count(|r| r.font),
            characters: count(|r| r.character),
            numbers,
        }
    }

    /// Outputs of the network.
    pub fn outputs(&self) -> usize {
        match self.target {
            Target::Label => self.labels,
            Target::Character => self.characters,
            Target::Font => self.fonts,
            Target::Attributes => NUMBERS + self.fonts + self.characters,
        }
    }

    /// Where a kind of class begins among the outputs, how many there are, and the right one.
    fn classes(&self) -> Vec<(&'static str, usize, usize, fn(&Row) -> usize)> {
        let font: fn(&Row) -> usize = |r| r.font;
        let character: fn(&Row) -> usize = |r| r.character;
        match self.target {
            Target::Label => vec![("label", 0, self.labels, |r| r.label)],
            Target::Character => vec![("character", 0, self.characters, character)],
            Target::Font => vec![("font", 0, self.fonts, font)],
            Target::Attributes => vec![
                ("font", NUMBERS, self.fonts, font),
                (
                    "character",
                    NUMBERS + self.fonts,
                    self.characters,
                    character,
                ),
            ],
        }
    }

    /// The loss of outputs `[n, …, outputs]` for some items.
    pub fn loss(&self, outputs: &Tensor, data: &Data, items: &[usize]) -> Result<Tensor> {
        let outputs = outputs.reshape((items.len(), self.outputs()))?;
        let mut total: Option<Tensor> = None;
        let kinds = self.classes();
        for &(_, first, count, right) in &kinds {
            let labels: Vec<usize> = items.iter().map(|&i| right(&data.rows[i])).collect();
            let logits = outputs.narrow(1, first, count)?.contiguous()?;
            let loss = (cross_entropy(&logits, &labels)? / kinds.len() as f64)?;
            total = Some(match total {
                None => loss,
                Some(sum) => (sum + loss)?,
            });
        }
        let total = total.ok_or_else(|| TrainError::Data("nothing to learn".into()))?;
        if self.target != Target::Attributes {
            return Ok(total);
        }
        let numbers: Vec<f32> = items
            .iter()
            .flat_map(|&i| self.standardised(&data.rows[i]))
            .collect();
        let numbers = Tensor::from_vec(numbers, (items.len(), NUMBERS), &Device::Cpu)?;
        let off = (outputs.narrow(1, 0, NUMBERS)?.contiguous()? - numbers)?;
        Ok((total + off.abs()?.mean_all()?)?)
    }

    fn standardised(&self, row: &Row) -> [f32; NUMBERS] {
        let values = row.continuous();
        std::array::from_fn(|k| (values[k] - self.numbers[k][0]) / self.numbers[k][1])
    }

    /// Shares of right answers by kind, and for attributes the mean absolute error of each number in deviations.
    pub fn evaluate(
        &self,
        net: &dyn Classifier<Cpu>,
        data: &Data,
        items: &[usize],
    ) -> Result<Vec<(String, f64)>> {
        let kinds = self.classes();
        let mut right = vec![0usize; kinds.len()];
        let mut off = [0.0f64; NUMBERS];
        for part in items.chunks(64) {
            let outputs = outputs(net, &data.batch(part))?;
            for (row, &item) in part.iter().enumerate() {
                let outputs = outputs.row(row);
                for (right, &(_, first, count, of)) in right.iter_mut().zip(&kinds) {
                    let best = argmax(&outputs[first..first + count]);
                    *right += usize::from(best == of(&data.rows[item]));
                }
                if self.target == Target::Attributes {
                    let expected = self.standardised(&data.rows[item]);
                    for k in 0..NUMBERS {
                        off[k] += f64::from((outputs[k] - expected[k]).abs());
                    }
                }
            }
        }
        let n = items.len().max(1) as f64;
        let mut found: Vec<(String, f64)> = kinds
            .iter()
            .zip(right)
            .map(|(kind, right)| (kind.0.to_owned(), right as f64 / n))
            .collect();
        if self.target == Target::Attributes {
            let names = ["inverse", "scale", "x", "y", "rotation"];
            let errors = names.iter().zip(off);
            found.extend(errors.map(|(name, off)| (format!("{name} error"), off / n)));
        }
        Ok(found)
    }
}

fn outputs(net: &dyn Classifier<Cpu>, images: &Array) -> Result<Array> {
    let x = Cpu.upload(images)?;
    Ok(Cpu.download(&net.predict(&Cpu, &x)?.logits))
}
