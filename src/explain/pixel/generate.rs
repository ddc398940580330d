//! A folder of counterfactuals: images with their records, as those of guided diffusion.

use std::path::Path;

use super::{Explainer, Format, Outcome};
use crate::diffusion::called;
use crate::explain::diffusion::{GenerateError, Made, Met, Place, Progress, Record, Task, Watch};
use crate::images::{self, Image, Limits};
use crate::metrics::validity::argmax;
use crate::tensor::Array;
use crate::weights::sha256;

type Result<T> = std::result::Result<T, GenerateError>;

/// Any other class, as the target of a task.
pub const ANY: usize = usize::MAX;

/// Images of the size and the channels that a network takes, as they are: another size would be another image.
pub fn read(format: &Format, path: &Path) -> Result<Image> {
    let image = images::read(path, &Limits::default())?;
    if [image.height, image.width] != format.size {
        return Err(GenerateError::File {
            path: path.to_owned(),
            what: format!(
                "it is {}x{}, but the explained network takes {}x{} pixels: bring the originals to that size first, so \
                 that they can be compared",
                image.width, image.height, format.size[1], format.size[0]
            ),
        });
    }
    if format.channels == 1 && image.has_colour() {
        return Err(GenerateError::File {
            path: path.to_owned(),
            what: "expected a grey image, as the explained network takes, found colours: convert the originals to grey \
                   first, or explain a network of colour images"
                .into(),
        });
    }
    Ok(image)
}

/// A result that is to be made.
struct Open<'a> {
    task: &'a Task,
    at: Place,
    original_sha256: String,
}

/// The counterfactuals of `tasks` in `out`, by whichever shard; `None` if some are not made yet.
pub fn found(
    settings: &serde_json::Value,
    tasks: &[Task],
    out: &Path,
) -> Result<Option<Vec<Made>>> {
    let mut all = Vec::with_capacity(tasks.len());
    for task in tasks {
        let (at, _, record) = earlier(settings, task, out)?;
        all.push(record.map(|record| Made { at, record }));
    }
    Ok(all.into_iter().collect())
}

/// Place, checksum of the original and record, if there is one, of a task.
fn earlier(
    settings: &serde_json::Value,
    task: &Task,
    out: &Path,
) -> Result<(Place, String, Option<Record>)> {
    let bytes = std::fs::read(&task.original).map_err(|error| GenerateError::File {
        path: task.original.clone(),
        what: format!("cannot read: {error}"),
    })?;
    let original_sha256 = sha256(&bytes);
    let at = Place::new(out, &task.name, 0, 1);
    let mut known = task.clone();
    if task.target == ANY {
        // The class that was reached is known afterwards only; the settings say that any was wanted.
        known.target = at.recorded_target().unwrap_or(ANY);
    }
    let record = at.earlier(settings, &known, &original_sha256)?;
    Ok((at, original_sha256, record))
}

/// A run that is ready: what is to be made is known, and all originals can be read.
pub struct Ready<'a> {
    explainer: &'a Explainer,
    settings: &'a serde_json::Value,
    made: Vec<Made>,
    open: Vec<Open<'a>>,
}

/// Looks at what is there of the counterfactuals of `tasks` in `out`, and at the originals of the others. Writes nothing.
/// `settings` are part of every record.
pub fn prepare<'a>(
    explainer: &'a Explainer,
    settings: &'a serde_json::Value,
    tasks: &'a [Task],
    out: &Path,
) -> Result<Ready<'a>> {
    let (mut made, mut open) = (Vec::new(), Vec::new());
    for task in tasks {
        let (at, original_sha256, record) = earlier(settings, task, out)?;
        match record {
            Some(record) => made.push(Made { at, record }),
            None => {
                read(&explainer.format, &task.original)?;
                open.push(Open {
                    task,
                    at,
                    original_sha256,
                });
            }
        }
    }
    Ok(Ready {
        explainer,
        settings,
        made,
        open,
    })
}

impl Ready<'_> {
    /// Tells of what is there, then makes the rest, `batch` at a time. An original without a counterfactual has a record that says so,
    /// and no image.
    pub fn run(self, batch: usize, watch: &mut dyn Watch) -> Result<()> {
        self.made.iter().for_each(|made| watch.made(made));
        make(self.explainer, self.settings, &self.open, batch, watch)
    }
}

fn make(
    explainer: &Explainer,
    settings: &serde_json::Value,
    open: &[Open<'_>],
    batch: usize,
    watch: &mut dyn Watch,
) -> Result<()> {
    let mut now = Progress {
        all_images: open.len(),
        all_steps: open.len(),
        ..Progress::default()
    };
    for part in open.chunks(batch.max(1)) {
        let originals = part
            .iter()
            .map(|o| read(&explainer.format, &o.task.original));
        let originals = originals.collect::<Result<Vec<Image>>>()?;
        let values = explainer.format.values(originals.iter());
        let targets: Vec<Option<usize>> = { part.iter() }
            .map(|o| (o.task.target != ANY).then_some(o.task.target))
            .collect();
        let before = explainer.probabilities(&values)?;
        let outcomes = attempted(explainer, &values, &before, &targets)?;
        for (i, one) in part.iter().enumerate() {
            let wanted = (i, targets[i]);
            let (pixels, record) = recorded(explainer, &values, wanted, &before[i], &outcomes[i])?;
            let record = Record {
                settings: settings.clone(),
                original: one.task.noise.clone(),
                original_sha256: one.original_sha256.clone(),
                ..record
            };
            let record = Record {
                flipped: record.reached && record.before.is_some_and(|b| b.0 != record.target),
                ..record
            };
            let record = one.at.write(&pixels, explainer.format.size[0], record)?;
            now.images += 1;
            now.steps += 1;
            watch.progress(now);
            watch.made(&Made {
                at: one.at.clone(),
                record,
            });
        }
    }
    Ok(())
}

/// Counterfactuals of those images that are not of their target already; the others have none.
fn attempted(
    explainer: &Explainer,
    values: &Array,
    before: &[Vec<f32>],
    targets: &[Option<usize>],
) -> Result<Vec<Outcome>> {
    let wanted: Vec<usize> = (0..targets.len())
        .filter(|&i| targets[i].is_none() || targets[i] != called(&before[i]))
        .collect();
    let images = super::batch(values, wanted.iter().map(|&i| super::image(values, i)));
    let chosen: Vec<Option<usize>> = wanted.iter().map(|&i| targets[i]).collect();
    let mut found = match wanted.is_empty() {
        true => Vec::new(),
        false => explainer.explain(&images, &chosen)?,
    }
    .into_iter();
    let all = (0..targets.len()).map(|i| {
        let none = Outcome {
            before: argmax(&before[i]),
            found: None,
            evaluations: 1,
        };
        match wanted.contains(&i) {
            true => found.next().unwrap_or(none),
            false => none,
        }
    });
    Ok(all.collect())
}

/// Pixels of a counterfactual of an image with its target, if one was asked for, and what is to be said of it as it is stored.
fn recorded(
    explainer: &Explainer,
    values: &Array,
    (index, asked): (usize, Option<usize>),
    before: &[f32],
    outcome: &Outcome,
) -> Result<(Vec<u8>, Record)> {
    let format = &explainer.format;
    let original = super::image(values, index);
    let opinion = |row: &[f32]| called(row).map(|class| (class, f64::from(row[class])));
    let mut record = Record {
        settings: serde_json::Value::Null,
        original: String::new(),
        original_sha256: String::new(),
        sample: 0,
        target: asked.unwrap_or(outcome.before),
        before: opinion(before),
        after: opinion(before),
        target_probability: 0.0,
        reached: false,
        flipped: false,
        rejected: true,
        image_sha256: None,
        change: 0.0,
        out_of_range: 0.0,
        met: Met::default(),
    };
    let Some(found) = &outcome.found else {
        return Ok((Vec::new(), record));
    };
    let pixels = format.pixels(&found.image);
    let stored = Image {
        width: format.size[1],
        height: format.size[0],
        pixels,
    };
    let seen = format.values([&stored].into_iter());
    let after = explainer.probabilities(&seen)?;
    let row = after.first().map_or(&[][..], Vec::as_slice);
    record.rejected = false;
    record.after = opinion(row);
    let verdict = Verdict::of(row, outcome.before, asked, found.class);
    record.target = verdict.target;
    record.target_probability = verdict.target_probability;
    record.reached = verdict.reached;
    // Records state changes of values from −1 to 1.
    let [low, high] = format.range;
    let pairs = found.image.iter().zip(original);
    let sum: f64 = pairs.map(|(a, b)| f64::from((a - b).abs())).sum();
    record.change = sum / original.len().max(1) as f64 * 2.0 / f64::from(high - low);
    record.met.scale = Some(found.weight);
    Ok((stored.pixels, record))
}

/// Whether a counterfactual is what was wanted.
#[derive(Debug, PartialEq)]
struct Verdict {
    target: usize,
    target_probability: f64,
    reached: bool,
}

impl Verdict {
    /// By the network's probabilities of the stored image. Without a class that was asked for the one that was found is the target.
    fn of(row: &[f32], before: usize, asked: Option<usize>, found: usize) -> Self {
        let target = asked.unwrap_or(found);
        let probability = row.get(target).filter(|p| p.is_finite());
        let wanted = |class| class != before && asked.is_none_or(|target| class == target);
        Self {
            target,
            target_probability: probability.map_or(0.0, |&p| f64::from(p)),
            reached: called(row).is_some_and(wanted),
        }
    }
}

impl From<super::PixelError> for GenerateError {
    fn from(error: super::PixelError) -> Self {
        use super::PixelError as E;
        match error {
            E::Net(error) => error.into(),
            E::Tensor(error) => error.into(),
            E::Weights(error) => error.into(),
            E::Network { name, what } => GenerateError::Network { name, what },
            other => GenerateError::Network {
                name: "counterfactuals in pixel space".into(),
                what: other.to_string(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_probability_is_that_of_the_target_that_was_asked_for() {
        let row = [0.125, 0.625, 0.25];
        let of = |asked, found| Verdict::of(&row, 0, asked, found);
        let verdict = |target, target_probability, reached| Verdict {
            target,
            target_probability,
            reached,
        };
        // The search ended at class 1.
        assert_eq!(of(Some(2), 1), verdict(2, 0.25, false));
        assert_eq!(of(Some(1), 1), verdict(1, 0.625, true));
        assert_eq!(of(None, 1), verdict(1, 0.625, true));
        // What the search found is not what is there once it is stored.
        assert_eq!(of(None, 2), verdict(2, 0.25, true));
        let silent = Verdict::of(&[f32::NAN; 3], 0, Some(2), 1);
        assert_eq!(silent, verdict(2, 0.0, false));
    }
}
