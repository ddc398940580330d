//! What a network learns to tell of an image, as a loss and as shares of right answers.

use candle_core::{Device, Tensor};

use super::data::{Data, Row};
use super::error::{Result, TrainError};
use super::losses::cross_entropy;
use crate::glyphs::CHARACTERS;
use crate::metrics::validity::argmax;
use crate::nets::Classifier;
use crate::tensor::{Array, Backend, StateDict, cpu::Cpu};

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
pub(super) const NUMBERS: usize = 5;

/// Outputs that are the logits of one kind of class.
struct Kind {
    name: &'static str,
    first: usize,
    count: usize,
    right: fn(&Row) -> usize,
}

/// What the outputs of a network mean, for one set of data.
#[derive(Clone, Debug)]
pub struct Meaning {
    pub target: Target,
    /// Whether a network that learns the label also learns the character meanwhile: its outputs after those of the
    /// label, which are cut off in the end.
    pub aided: bool,
    pub labels: usize,
    pub fonts: usize,
    pub characters: usize,
    /// Mean and deviation of the five numbers.
    pub numbers: [[f32; 2]; NUMBERS],
}

impl Meaning {
    pub fn new(target: Target, aided: bool, data: &Data, items: &[usize]) -> Self {
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
            aided: aided && target == Target::Label && !data.labels_only,
            labels: count(|r| r.label).max(2),
            fonts: count(|r| r.font),
            // All of them, whether they occur or not: outputs mean the same whatever the data.
            characters: count(|r| r.character).max(CHARACTERS.len()),
            numbers,
        }
    }

    /// Outputs of the network in training.
    pub fn outputs(&self) -> usize {
        match self.target {
            Target::Label if self.aided => self.labels + self.characters,
            Target::Label => self.labels,
            Target::Character => self.characters,
            Target::Font => self.fonts,
            Target::Attributes => NUMBERS + self.fonts + self.characters,
        }
    }

    /// The kinds of classes among the outputs, in their order.
    fn kinds(&self) -> Vec<Kind> {
        let font = |first| Kind {
            name: "font",
            first,
            count: self.fonts,
            right: |r| r.font,
        };
        let character = |first| Kind {
            name: "character",
            first,
            count: self.characters,
            right: |r| r.character,
        };
        let label = Kind {
            name: "label",
            first: 0,
            count: self.labels,
            right: |r| r.label,
        };
        match self.target {
            Target::Label if self.aided => vec![label, character(self.labels)],
            Target::Label => vec![label],
            Target::Character => vec![character(0)],
            Target::Font => vec![font(0)],
            Target::Attributes => vec![font(NUMBERS), character(NUMBERS + self.fonts)],
        }
    }

    /// The loss of outputs `[n, …, outputs]` for some items.
    pub fn loss(&self, outputs: &Tensor, data: &Data, items: &[usize]) -> Result<Tensor> {
        let outputs = outputs.reshape((items.len(), self.outputs()))?;
        let mut total: Option<Tensor> = None;
        let kinds = self.kinds();
        for kind in &kinds {
            let labels: Vec<usize> = items.iter().map(|&i| (kind.right)(&data.rows[i])).collect();
            let logits = outputs.narrow(1, kind.first, kind.count)?.contiguous()?;
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

    /// Makes trained weights those of the finished network: cuts off outputs that were only there to learn by, where
    /// `head` is the last layer, and adds mean and deviation of the attributes that are numbers. Returns what the
    /// outputs mean now.
    pub fn finish(self, dict: &mut StateDict, head: &str) -> Self {
        if self.target == Target::Attributes {
            for (k, name) in ["attributes.mean", "attributes.deviation"]
                .into_iter()
                .enumerate()
            {
                let data = self.numbers.iter().map(|number| number[k]).collect();
                let shape = vec![NUMBERS];
                dict.insert(name, Array { shape, data });
            }
        }
        if self.aided {
            for name in [format!("{head}.weight"), format!("{head}.bias")] {
                if let Some(mut array) = dict.get(&name).cloned() {
                    let row = array.len() / array.shape[0].max(1);
                    array.data.truncate(self.labels * row);
                    array.shape[0] = self.labels;
                    dict.insert(name, array);
                }
            }
        }
        Self {
            aided: false,
            ..self
        }
    }

    fn standardised(&self, row: &Row) -> [f32; NUMBERS] {
        let values = row.continuous();
        std::array::from_fn(|k| (values[k] - self.numbers[k][0]) / self.numbers[k][1])
    }

    /// Shares of right answers by kind, and for attributes the mean absolute error of each number in deviations.
    /// `images` gives the images of some items.
    pub fn evaluate(
        &self,
        net: &dyn Classifier<Cpu>,
        data: &Data,
        items: &[usize],
        images: impl Fn(&[usize]) -> Result<Array>,
    ) -> Result<Vec<(String, f64)>> {
        let kinds = self.kinds();
        let mut right = vec![0usize; kinds.len()];
        let mut off = [0.0f64; NUMBERS];
        for part in items.chunks(64) {
            let outputs = outputs(net, &images(part)?)?;
            for (row, &item) in part.iter().enumerate() {
                let outputs = outputs.row(row);
                for (right, kind) in right.iter_mut().zip(&kinds) {
                    let best = argmax(&outputs[kind.first..kind.first + kind.count]);
                    *right += usize::from(best == (kind.right)(&data.rows[item]));
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
            .map(|(kind, right)| (kind.name.to_owned(), right as f64 / n))
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
    Ok(Cpu.download(&net.predict(&Cpu, &x)?.logits)?)
}
