//! Image counterfactuals by guided diffusion: originals are noised half way and denoised towards another class.
//!
//! An image's bytes depend on the settings, the seed, the original and what it is called, never on batch, shard, other
//! originals or an interruption: noise is keyed by image, sample and step.

mod chain;
mod files;
mod memory;
mod method;
mod networks;
mod noise;
mod originals;
mod perceptual;

use std::path::{Path, PathBuf};

pub use files::{Made, Met, Place, Record};
pub use method::{Dime, LARGEST_WEIGHT, Method, parse_distance};
pub use networks::{Cards, Networks, check, named, without_gradients};
pub use noise::GivenNoise;

use crate::diffusion::{DiffusionError, Sampler, Schedule, Seeded, in_pixels, spaced};
use crate::folder::FolderError;
use crate::images::ImageError;
use crate::nets::NetError;
use crate::tensor::{Array, Kept, TensorError};
use crate::train::to_pixels;
use crate::weights::WeightsError;
use noise::Source;
use originals::{Opinion, Originals, opinion, probability};

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
pub enum GenerateError {
    #[error("{name}: {what}")]
    Network { name: String, what: String },
    #[error("{}: {what}", path.display())]
    File { path: PathBuf, what: String },
    #[error("memory: {what}")]
    Memory { what: String },
    #[error("{0}")]
    Folder(#[from] FolderError),
    #[error(transparent)]
    Diffusion(#[from] DiffusionError),
    #[error(transparent)]
    Image(#[from] ImageError),
    #[error(transparent)]
    Net(#[from] NetError),
    #[error(transparent)]
    Tensor(#[from] TensorError),
    #[error("{0}")]
    Weights(#[from] WeightsError),
}

pub type Result<T> = std::result::Result<T, GenerateError>;

/// Images at once; results do not depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Batch {
    Images(usize),
    /// As many as fit into so many bytes.
    Memory(u64),
}

/// What to make of every original.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub method: Method,
    /// Respacing of the schedule, as [`spaced`] reads it, and steps of it that are left out at its noisy end.
    pub steps: String,
    pub skip: usize,
    /// Of all methods but DiME, whose nested chains are ancestral ones.
    pub sampler: Sampler,
    /// Counterfactuals of each original, from noise of their own. Guidance acts from the first step on, so that they
    /// share the work on the original, and no step.
    pub samples: usize,
    pub seed: u64,
    /// Noise instead of that of the seed.
    pub noise: Option<GivenNoise>,
    /// Drop what the classifier does not call the target: the rejection step that the study recommends.
    pub reject: bool,
    pub batch: Batch,
}

/// An original and the class it shall become.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    pub original: PathBuf,
    /// Path below the folder of results, without extension.
    pub name: String,
    /// What the noise belongs to: the path of the original below its folder, with `/` between parts.
    pub noise: String,
    pub target: usize,
    /// Place among all originals of the run, of this shard or another.
    pub index: usize,
}

/// How far a run is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    pub images: usize,
    pub all_images: usize,
    /// Steps of single images, as evaluations of the denoiser.
    pub steps: usize,
    pub all_steps: usize,
}

/// What a run tells.
pub trait Watch {
    fn progress(&mut self, progress: Progress);
    /// A result, old or new.
    fn made(&mut self, made: &Made);
}

impl Plan {
    /// What the bytes of a result depend on besides the original: part of every record.
    pub fn identity(&self, networks: &Networks) -> serde_json::Value {
        let mut all = serde_json::json!({
            "method": self.method,
            "steps": self.steps,
            "skip": self.skip,
            "seed": self.seed,
            "noise": self.noise.as_ref().map(|n| &n.sha256),
            "samples": self.samples,
            "reject": self.reject,
            "networks": networks.identity(),
            "arithmetic": networks.arithmetic(),
        });
        // Records of the ancestral chain are those of versions that knew no other.
        if self.sampler != Sampler::default() {
            all["sampler"] = serde_json::json!(self.sampler);
        }
        all
    }

    /// The schedule, and the number of its steps that a chain takes.
    pub fn schedule(&self, networks: &Networks) -> Result<(Schedule, usize)> {
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

    /// Random draws of one image.
    pub fn draws(&self, start: usize) -> usize {
        1 + self.method.evaluations(start)
    }
}

/// A result that is to be made.
struct Open<'a> {
    task: &'a Task,
    sample: usize,
    at: Place,
    original_sha256: String,
}

/// The counterfactuals of `tasks` in `out`, by whichever shard; `None` if some are not made yet. Results of other settings or
/// originals are an error.
pub fn found(
    plan: &Plan,
    networks: &Networks,
    tasks: &[Task],
    out: &Path,
) -> Result<Option<Vec<Made>>> {
    let identity = plan.identity(networks);
    let mut all = Vec::with_capacity(tasks.len() * plan.samples);
    for task in tasks {
        let original_sha256 = originals::checksum(task)?;
        for sample in 0..plan.samples {
            let at = Place::new(out, &task.name, sample, plan.samples);
            let record = at.earlier(&identity, task, &original_sha256)?;
            all.push(record.map(|record| Made { at, record }));
        }
    }
    Ok(all.into_iter().collect())
}

/// A run that is ready: what is to be made is known, and everything that could be looked at before the work was sound.
pub struct Ready<'a> {
    plan: &'a Plan,
    networks: &'a Networks,
    identity: serde_json::Value,
    schedule: Schedule,
    start: usize,
    batch: usize,
    /// Bytes that one image took, where a budget was given.
    measured: Option<u64>,
    made: Vec<Made>,
    open: Vec<Open<'a>>,
}

/// Looks at what is there of the counterfactuals of `tasks` in `out`, at the originals of the others and at the budget of memory.
/// Writes nothing.
pub fn prepare<'a>(
    plan: &'a Plan,
    networks: &'a Networks,
    tasks: &'a [Task],
    out: &Path,
) -> Result<Ready<'a>> {
    let (schedule, start) = plan.schedule(networks)?;
    let identity = plan.identity(networks);
    let (mut made, mut open) = (Vec::new(), Vec::new());
    for task in tasks {
        let original_sha256 = originals::checksum(task)?;
        for sample in 0..plan.samples {
            let at = Place::new(out, &task.name, sample, plan.samples);
            match at.earlier(&identity, task, &original_sha256)? {
                Some(record) => made.push(Made { at, record }),
                None => open.push(Open {
                    task,
                    sample,
                    at,
                    original_sha256: original_sha256.clone(),
                }),
            }
        }
    }
    originals::check(networks, open.iter().map(|o| o.task))?;
    let chain = chain::Chain {
        plan,
        networks,
        schedule: &schedule,
        start,
    };
    let (batch, measured) = match (plan.batch, open.first()) {
        (Batch::Images(n), _) => (n.max(1), None),
        (Batch::Memory(budget), Some(first)) => {
            let target = first.task.target;
            let fitted = memory::fitting(budget, |images| chain.try_step(images, target))?;
            (fitted.images.min(open.len()), Some(fitted.one))
        }
        (Batch::Memory(_), None) => (1, None),
    };
    Ok(Ready {
        plan,
        networks,
        identity,
        schedule,
        start,
        batch,
        measured,
        made,
        open,
    })
}

/// Makes what is not there yet of the counterfactuals of `tasks` in `out`.
pub fn run(
    plan: &Plan,
    networks: &Networks,
    tasks: &[Task],
    out: &Path,
    watch: &mut dyn Watch,
) -> Result<()> {
    prepare(plan, networks, tasks, out)?.run(watch)
}

impl<'a> Ready<'a> {
    /// Tells of what is there, then makes the rest. An image without numbers costs no other one and is an error at the end.
    pub fn run(self, watch: &mut dyn Watch) -> Result<()> {
        let (open, torso) = (self.open.len(), self.networks.torso);
        match self.run_all(watch)?[..] {
            [] => Ok(()),
            [first, ref others @ ..] => Err(GenerateError::File {
                path: first.original.clone(),
                what: format!(
                    "the diffusion of {} of {open} images {}, the others are made: lower --scale or the weight of --distance, or \
                     check the denoiser's card{}",
                    1 + others.len(),
                    NO_NUMBERS,
                    match torso {
                        Kept::F16 => "; f16 ends at 65504, so take --precision bf16 or f32",
                        _ => "",
                    }
                ),
            }),
        }
    }

    /// What a budget of memory comes to.
    pub fn batch_note(&self) -> Option<String> {
        let one = self.measured? as f64 / 1e6;
        let batch = self.batch;
        Some(format!(
            "batches of {batch}: with one image at a time the program takes {one:.0} MB"
        ))
    }

    /// The same; gives the tasks whose images have no numbers, for whoever can do without them.
    pub fn run_all(self, watch: &mut dyn Watch) -> Result<Vec<&'a Task>> {
        self.made.iter().for_each(|made| watch.made(made));
        make(&self, watch)
    }
}

/// What happened to an image that is not made.
pub const NO_NUMBERS: &str = "gave numbers that are none";

fn make<'a>(ready: &Ready<'a>, watch: &mut dyn Watch) -> Result<Vec<&'a Task>> {
    let &Ready {
        plan,
        networks,
        ref identity,
        ref schedule,
        start,
        batch,
        ref open,
        ..
    } = ready;
    let chain = chain::Chain {
        plan,
        networks,
        schedule,
        start,
    };
    let mut known = Originals::default();
    let mut lost = Vec::new();
    let mut now = Progress {
        all_images: open.len(),
        all_steps: open.len() * plan.method.evaluations(start),
        ..Progress::default()
    };
    for part in open.chunks(batch) {
        let originals = known.of(networks, part.iter().map(|o| o.task))?;
        let size = networks.size;
        let values = Array {
            shape: vec![part.len(), 3, size, size],
            data: { originals.iter() }
                .flat_map(|o| o.values.iter().copied())
                .collect(),
        };
        let targets: Vec<usize> = part.iter().map(|o| o.task.target).collect();
        let noise = match &plan.noise {
            Some(given) => {
                let places = part.iter().map(|o| o.task.index * plan.samples + o.sample);
                Source::Given(given, places.collect())
            }
            None => Source::Random(Seeded {
                seed: plan.seed,
                keys: { part.iter() }
                    .map(|o| Seeded::key(&o.task.noise, o.sample))
                    .collect(),
            }),
        };
        let mut met = vec![Met::default(); part.len()];
        let before = now.steps;
        let result = chain.run(&values, &targets, &noise, &mut met, &mut |steps| {
            now.steps += steps;
            watch.progress(now);
        })?;
        let after = networks.logits(&in_pixels(&result))?;
        for (i, one) in part.iter().enumerate() {
            let row = result.row(i);
            if row.iter().any(|v| !v.is_finite()) {
                lost.push(one.task);
                continue;
            }
            let (opinion, target) = (opinion(after.row(i)), one.task.target);
            let class = |opinion: Opinion| opinion.map(|(class, _)| class);
            let reached = class(opinion) == Some(target);
            let record = Record {
                settings: identity.clone(),
                original: one.task.noise.clone(),
                original_sha256: one.original_sha256.clone(),
                sample: one.sample,
                target,
                before: originals[i].opinion,
                after: opinion,
                target_probability: probability(after.row(i), target),
                reached,
                flipped: reached && class(originals[i].opinion).is_some_and(|was| was != target),
                rejected: plan.reject && !reached,
                image_sha256: None,
                change: mean_change(row, &originals[i].values),
                out_of_range: row.iter().filter(|v| v.abs() > 1.0).count() as f64
                    / row.len().max(1) as f64,
                met: met[i].clone(),
            };
            let record = one.at.write(&to_pixels(row), size, record)?;
            now.images += 1;
            watch.made(&Made {
                at: one.at.clone(),
                record,
            });
        }
        // A search for a scale may have ended early.
        let planned = before + part.len() * plan.method.evaluations(start);
        now.all_steps -= planned.saturating_sub(now.steps);
        watch.progress(now);
    }
    Ok(lost)
}

/// Mean absolute difference of values from −1 to 1.
fn mean_change(a: &[f32], b: &[f32]) -> f64 {
    let sum: f64 = a.iter().zip(b).map(|(a, b)| f64::from((a - b).abs())).sum();
    sum / a.len().max(1) as f64
}
