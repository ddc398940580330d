//! Image counterfactuals by guided diffusion: originals are noised half way and denoised towards another class.
//!
//! An image's bytes depend on the settings, the seed and its place among all originals, never on batch, shard or an
//! interruption: noise is keyed by image, sample and step.

mod files;
mod networks;

use std::path::{Path, PathBuf};

pub use files::{Made, Record};
pub use networks::Networks;

use crate::diffusion::{
    Chained, DiffusionError, Guidance, Guider, Schedule, Seeded, Strength, spaced,
};
use crate::images::{self, ImageError, Limits};
use crate::metrics::validity::{argmax, softmax};
use crate::nets::NetError;
use crate::tensor::{Array, TensorError};
use crate::train::{to_pixels, to_values};
use crate::weights::WeightsError;

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
pub enum GenerateError {
    #[error("{name}: {what}")]
    Network { name: String, what: String },
    #[error("{}: {what}", path.display())]
    File { path: PathBuf, what: String },
    #[error(transparent)]
    Diffusion(#[from] DiffusionError),
    #[error(transparent)]
    Image(#[from] ImageError),
    #[error(transparent)]
    Net(#[from] NetError),
    #[error(transparent)]
    Tensor(#[from] TensorError),
    #[error(transparent)]
    Weights(#[from] WeightsError),
}

pub type Result<T> = std::result::Result<T, GenerateError>;

/// What to make of every original.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub guidance: Guidance,
    /// Respacing of the schedule, as [`spaced`] reads it, and steps of it that are left out at its noisy end.
    pub steps: String,
    pub skip: usize,
    /// Counterfactuals of each original, from noise of their own.
    pub samples: usize,
    pub seed: u64,
    /// Images at once.
    pub batch: usize,
}

/// An original and the class it shall become.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    pub original: PathBuf,
    /// Path of the original below its folder, without extension: names the results.
    pub name: String,
    pub target: usize,
    /// Place among all originals of the run, of this shard or another.
    pub index: usize,
}

impl Plan {
    /// What the bytes of a result depend on besides the original: part of every record.
    pub fn identity(&self, networks: &Networks) -> serde_json::Value {
        serde_json::json!({
            "guidance": self.guidance,
            "steps": self.steps,
            "skip": self.skip,
            "seed": self.seed,
            "samples": self.samples,
            "networks": networks.identity(),
            "arithmetic": networks.arithmetic(),
        })
    }

    fn schedule(&self, networks: &Networks) -> Result<(Schedule, usize)> {
        let diffusion = networks.diffusion();
        let full = Schedule::new(diffusion.schedule, diffusion.steps)?;
        let schedule = full.respaced(&spaced(diffusion.steps, &self.steps)?)?;
        let start = schedule.len().saturating_sub(self.skip);
        if start == 0 {
            return Err(DiffusionError::Start {
                start,
                steps: schedule.len(),
            }
            .into());
        }
        Ok((schedule, start))
    }
}

/// Makes what is not there yet of the counterfactuals of `tasks` in `out`. `progress` hears of steps of the diffusion done
/// and to do, `made` of every result, old and new.
pub fn run(
    plan: &Plan,
    networks: &Networks,
    tasks: &[Task],
    out: &Path,
    mut progress: impl FnMut(usize, usize),
    mut made: impl FnMut(&Made),
) -> Result<()> {
    let (schedule, start) = plan.schedule(networks)?;
    let identity = plan.identity(networks);
    let mut open = Vec::new();
    for task in tasks {
        for sample in 0..plan.samples {
            let at = files::Place::new(out, task, sample, plan.samples);
            match at.earlier(&identity, task)? {
                Some(record) => made(&Made { at, record }),
                None => open.push((task, sample, at)),
            }
        }
    }
    let guider = Guider {
        schedule: &schedule,
        unet: networks.unet.as_ref(),
        classifier: networks.classifier.as_ref(),
        robust: networks.robust.as_deref(),
        guidance: plan.guidance,
    };
    let total = open.len() * start;
    let mut done = 0;
    for batch in open.chunks(plan.batch.max(1)) {
        let originals = read(networks, batch.iter().map(|(task, _, _)| *task))?;
        let targets: Vec<usize> = batch.iter().map(|(task, _, _)| task.target).collect();
        let noise = Seeded {
            seed: plan.seed,
            keys: batch
                .iter()
                .map(|(task, sample, _)| (task.index * plan.samples + sample) as u64)
                .collect(),
        };
        let mut met = vec![files::Met::default(); batch.len()];
        let end = guider.chain(&originals, &targets, start, &noise, |_, step| {
            done += batch.len();
            for (i, met) in met.iter_mut().enumerate() {
                met.add(step, i);
            }
            progress(done, total);
        })?;
        let Chained { images, clean } = end;
        // DVCE shows the last clean image that was predicted, the others the last sample.
        let result = match plan.guidance.strength {
            Strength::Noise => clean,
            _ => images,
        };
        let (before, after) = (
            networks.logits(&originals)?,
            networks.logits(&seen(&result))?,
        );
        for (i, (task, sample, at)) in batch.iter().enumerate() {
            let row = result.row(i);
            if row.iter().any(|v| !v.is_finite()) {
                return Err(GenerateError::File {
                    path: task.original.clone(),
                    what: "the diffusion gave numbers that are none: lower --scale or the weight of --distance, or \
                           check the denoiser's card"
                        .into(),
                });
            }
            let record = Record {
                settings: identity.clone(),
                original: task.name.clone(),
                sample: *sample,
                target: task.target,
                before: opinion(before.row(i)),
                after: opinion(after.row(i)),
                target_probability: softmax(after.row(i))[task.target],
                flipped: argmax(after.row(i)) == task.target,
                out_of_range: row.iter().filter(|v| v.abs() > 1.0).count() as f64
                    / row.len().max(1) as f64,
                met: met[i].clone(),
            };
            at.write(&to_pixels(row), networks.size, &record)?;
            made(&Made {
                at: at.clone(),
                record,
            });
        }
    }
    Ok(())
}

/// A class and its probability.
fn opinion(logits: &[f32]) -> (usize, f64) {
    let class = argmax(logits);
    (class, softmax(logits)[class])
}

/// Images as a reader of the PNG sees them: cut to the range, in 256 levels.
fn seen(images: &Array) -> Array {
    let mut seen = images.clone();
    for v in &mut seen.data {
        *v = ((v.clamp(-1.0, 1.0) + 1.0) * 127.5).round() / 127.5 - 1.0;
    }
    seen
}

/// Originals as NCHW values from −1 to 1, in the size of the denoiser.
fn read<'a>(networks: &Networks, tasks: impl Iterator<Item = &'a Task>) -> Result<Array> {
    let mut fitted = Vec::new();
    for task in tasks {
        let image = images::read(&task.original, &Limits::default())?;
        if [image.height, image.width] != [networks.size; 2] {
            return Err(GenerateError::File {
                path: task.original.clone(),
                what: format!(
                    "it is {}x{}, but the denoiser draws {s}x{s} pixels: bring the originals to that size first, so \
                     that they can be compared",
                    image.width,
                    image.height,
                    s = networks.size
                ),
            });
        }
        fitted.push(image.pixels);
    }
    Ok(to_values(fitted.iter().map(Vec::as_slice), networks.size))
}
