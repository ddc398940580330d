//! What judges say about images, and what they say together, in one launch.

use super::Gpu;
use super::any_driver::{AnyBinding, AnyBuffer};
use super::kernels::COMMITTEE;
use super::pieces::{Piece, pieces};
use super::tensor::Tensor;
use crate::{Precision, Shape, TensorError};

/// Most judges of one launch: a workgroup remembers what each of them says.
pub const MOST_JUDGES: usize = 64;

/// Logits of a judge, `[images, classes]`.
#[derive(Clone, Copy)]
pub struct Logits<'a> {
    pub values: &'a [f32],
    pub classes: usize,
}

/// Logits that a network left on the device, `[images, 1, 1, classes]`, or that the host has.
#[derive(Clone, Copy)]
pub enum LogitsAt<'a> {
    Host(Logits<'a>),
    Device(&'a Tensor),
}

/// What was said about one image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// A logit is NaN or infinite, and nothing else of this is meant.
    pub not_finite: bool,
    /// Whether another class has as many votes of the oracles.
    pub tied: bool,
    pub plurality: usize,
    /// Votes for the plurality, and for the target.
    pub most: usize,
    pub for_target: usize,
    /// The class each judge names, the classifier first.
    pub classes: Vec<usize>,
}

/// Images for which something holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Of each judge, the classifier first: images on which it agrees with the classifier, names the target, the label.
    pub judges: Vec<[usize; 3]>,
    /// Plurality is the target, the label, the classifier's class; strict majority is the target; all oracles name the
    /// target; any does.
    pub committee: [usize; 6],
}

impl Gpu {
    /// `wanted` holds label and target of each image; the first judge is the classifier.
    pub fn judge(
        &self,
        judges: &[Logits<'_>],
        wanted: &[[u32; 2]],
    ) -> Result<(Vec<Said>, Totals), TensorError> {
        let row: usize = judges.iter().map(|j| j.classes).sum();
        let images = wanted.len();
        assert!(judges.len() <= MOST_JUDGES, "{} judges", judges.len());
        assert!(
            judges.iter().all(|j| j.values.len() == images * j.classes),
            "a row of logits for each image"
        );
        let mut all = Vec::with_capacity(images);
        let mut totals = Totals {
            judges: vec![[0; 3]; judges.len()],
            ..Totals::default()
        };
        let parts = pieces("committee", images, 1, |p| {
            self.fits(p.images() * row.max(4 + judges.len()))
        })?;
        for Piece { images, .. } in parts {
            let some: Vec<Logits<'_>> = judges
                .iter()
                .map(|j| Logits {
                    values: &j.values[images.start * j.classes..images.end * j.classes],
                    ..*j
                })
                .collect();
            let (said, counted) = self.judge_some(&some, &wanted[images])?;
            all.extend(said);
            for (total, more) in totals.judges.iter_mut().zip(counted.judges) {
                for (t, m) in total.iter_mut().zip(more) {
                    *t += m;
                }
            }
            for (t, m) in totals.committee.iter_mut().zip(counted.committee) {
                *t += m;
            }
        }
        Ok((all, totals))
    }

    /// What is said about each image by judges whose logits lie wherever they do; nothing of the device comes down for
    /// it. `None` if they are too many, are not f32 there, or are more than a kernel may see at once.
    pub fn judge_in_place(
        &self,
        judges: &[LogitsAt<'_>],
        images: usize,
    ) -> Result<Option<Vec<Said>>, TensorError> {
        let mut table: Vec<u32> = Vec::new();
        let mut all = 0;
        for judge in judges {
            let (rows, classes, f32) = match judge {
                LogitsAt::Host(l) => (l.values.len() / l.classes.max(1), l.classes, true),
                LogitsAt::Device(t) => {
                    let Shape { n, h, w, c } = t.shape();
                    (n, h * w * c, t.precision() == Precision::F32)
                }
            };
            if rows != images || !f32 {
                return Ok(None);
            }
            table.extend([all, classes].map(|v| v as u32));
            all += images * classes;
        }
        let words = images * (4 + judges.len());
        if judges.is_empty() || judges.len() > MOST_JUDGES || all == 0 || !self.fits(all.max(words))
        {
            return Ok(None);
        }
        let logits = self.driver.allocate(4 * all)?;
        for (judge, place) in judges.iter().zip(table.chunks(2)) {
            let (to, bytes) = (4 * place[0] as usize, 4 * images * place[1] as usize);
            let uploaded;
            let (from, at) = match judge {
                LogitsAt::Host(l) => {
                    uploaded = self.driver.upload(bytemuck::cast_slice(l.values))?;
                    (&uploaded, 0)
                }
                LogitsAt::Device(t) => (t.buffer()?, 4 * t.offset()),
            };
            self.driver.copy((from, at), (&logits, to), bytes)?;
        }
        let (said, _) = self.judge_buffer(&logits, all, &table, &vec![[0; 2]; images])?;
        Ok(Some(said))
    }

    fn judge_some(
        &self,
        judges: &[Logits<'_>],
        wanted: &[[u32; 2]],
    ) -> Result<(Vec<Said>, Totals), TensorError> {
        let mut values: Vec<f32> = Vec::new();
        let mut table: Vec<u32> = Vec::new();
        for judge in judges {
            table.extend([values.len(), judge.classes].map(|v| v as u32));
            values.extend(judge.values);
        }
        let logits = self.driver.upload(bytemuck::cast_slice(&values))?;
        self.judge_buffer(&logits, values.len(), &table, wanted)
    }

    /// `table` holds the place of the first logit and the number of classes of each judge.
    fn judge_buffer(
        &self,
        logits: &AnyBuffer,
        values: usize,
        table: &[u32],
        wanted: &[[u32; 2]],
    ) -> Result<(Vec<Said>, Totals), TensorError> {
        let (count, images) = (table.len() / 2, wanted.len());
        let (words, counters) = (4 + count, 3 * count + 6);
        let table = self.driver.upload(bytemuck::cast_slice(table))?;
        let wanted = self.driver.upload(bytemuck::cast_slice(wanted))?;
        let said = self.driver.allocate(4 * images * words)?;
        let totals = self.driver.upload(&vec![0; 4 * counters])?;
        let argument = |buffer, words: usize, writes| AnyBinding {
            buffer,
            bytes: 0..4 * words,
            writes,
        };
        let [x, y] = self.grid(images);
        self.launch(
            &COMMITTEE,
            [x, y, 1],
            &[0, count as u32, images as u32, 0],
            &[
                argument(logits, values, false),
                argument(&table, 2 * count, false),
                argument(&wanted, 2 * images, false),
                argument(&said, images * words, true),
                argument(&totals, counters, true),
            ],
        )?;
        let said = self.words(&said, images * words)?;
        let totals = self.words(&totals, counters)?;
        let said = said.chunks_exact(words).map(|s| Said {
            not_finite: s[0] % 2 == 1,
            tied: s[0] >= 2,
            plurality: s[1],
            most: s[2],
            for_target: s[3],
            classes: s[4..].to_vec(),
        });
        let (of_judges, rest) = totals.split_at(3 * count);
        let mut committee = [0; 6];
        committee.copy_from_slice(rest);
        let totals = Totals {
            judges: of_judges.as_chunks::<3>().0.to_vec(),
            committee,
        };
        Ok((said.collect(), totals))
    }

    /// Reads whole numbers.
    fn words(&self, buffer: &AnyBuffer, count: usize) -> Result<Vec<usize>, TensorError> {
        let bytes = self.driver.download(buffer, 0..4 * count)?;
        let words = bytes.as_chunks::<4>().0.iter();
        Ok(words.map(|b| u32::from_ne_bytes(*b) as usize).collect())
    }
}
