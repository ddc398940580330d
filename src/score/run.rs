//! The pipeline: decode ahead on one thread, compute on the others, append to the journal after each batch.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use rayon::prelude::*;

use super::evaluate::{Decoded, EvaluateError, Evaluator, Extremes};
use super::journal::{Journal, JournalError, Record, stamp};
use super::retry::in_parts;
use super::settings::{Family, Protocol, Settings};
use super::work::Work;
use crate::images::{self, Image, ImageError, Limits};
use crate::metrics::MetricBackend;

/// Why a run stopped. What was computed before is in the journal.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("{0}; add --skip-bad to leave such pairs out")]
    Bad(String),
    #[error(transparent)]
    Evaluate(#[from] EvaluateError),
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error(
        "the heat map of {pair:?}: {reason}; what was computed is in the journal: run again with --resume, which makes the heat maps that are missing"
    )]
    Map { pair: String, reason: String },
    #[error(
        "{file} was changed after it had been scored; delete the journal folder to score everything anew"
    )]
    Changed { file: PathBuf },
}

/// Takes the LPIPS heat maps of pairs, by number and name.
pub trait HeatMaps {
    /// Whether that of a pair is there; a run that goes on makes those that are not.
    fn has(&self, pair: usize, name: &str) -> bool;
    /// Values row by row, and their number in a row.
    fn take(&mut self, pair: usize, name: &str, map: &[f32], width: usize) -> Result<(), String>;
}

pub type Maps<'a> = &'a mut dyn HeatMaps;

/// What a run makes progress in when its journal grows, or its heat maps become more.
pub const REFERENCES: &str = "reference images";
pub const PAIRS: &str = "pairs";
pub const MAPS: &str = "heat maps";

/// Told how far a run is: what is being done, how many of how many.
pub type Progress<'a> = &'a mut dyn FnMut(&str, usize, usize);

/// A pair with its images, or why it cannot be used.
struct Item {
    pair: usize,
    stamp: u64,
    images: Result<(Arc<Image>, Image), String>,
}

/// Where the run stands: records there already, what is next.
pub struct Position {
    pub next_reference: usize,
    pub next_pair: usize,
}

impl Position {
    pub fn after(records: &[Record]) -> Self {
        let mut position = Self {
            next_reference: 0,
            next_pair: 0,
        };
        for record in records {
            match record {
                Record::Reference { reference, .. } => position.next_reference = reference + 1,
                Record::Pair(p) => position.next_pair = p.pair + 1,
                Record::Skipped { pair, .. } => position.next_pair = pair + 1,
                Record::Original { .. } => {}
            }
        }
        position
    }
}

/// Runs all that is left; `records` grows by what is found.
pub fn run<B: MetricBackend + 'static>(
    evaluator: &mut Evaluator<'_, B>,
    journal: &mut Journal,
    records: &mut Vec<Record>,
    mut maps: Option<Maps<'_>>,
    progress: Progress<'_>,
) -> Result<(), RunError> {
    check_unchanged(evaluator.work, records)?;
    let position = Position::after(records);
    for record in records.iter() {
        match record {
            Record::Original {
                original, class, ..
            } => drop(evaluator.original_class.insert(*original, *class)),
            Record::Skipped { pair, .. } => drop(evaluator.skipped.insert(*pair)),
            _ => {}
        }
    }
    references(
        evaluator,
        journal,
        records,
        position.next_reference,
        progress,
    )?;
    if let Some(maps) = maps.as_deref_mut() {
        missing_maps(evaluator, records, maps, progress)?;
    }
    pairs(
        evaluator,
        journal,
        records,
        position.next_pair,
        maps,
        progress,
    )
}

fn references<B: MetricBackend + 'static>(
    evaluator: &Evaluator<'_, B>,
    journal: &mut Journal,
    records: &mut Vec<Record>,
    first: usize,
    progress: Progress<'_>,
) -> Result<(), RunError> {
    if !evaluator.settings.selection.realism() {
        return Ok(());
    }
    let limits = limits(evaluator.settings);
    let paths = &evaluator.work.references;
    let mut most = evaluator.settings.batch.max(1);
    for start in (first..paths.len()).step_by(evaluator.settings.batch.max(1)) {
        let end = (start + evaluator.settings.batch.max(1)).min(paths.len());
        let images: Vec<(usize, Result<Image, ImageError>)> = (start..end)
            .into_par_iter()
            .map(|i| (i, images::read(&paths[i], &limits)))
            .collect();
        let (mut good, mut new) = (Vec::new(), Vec::new());
        for (i, image) in images {
            match image {
                Ok(image) => good.push((i, image)),
                Err(e) if evaluator.settings.skip_bad => new.push(Record::Reference {
                    reference: i,
                    features: None,
                    reason: Some(e.to_string()),
                    stamp: stamp(&[&paths[i]]),
                }),
                Err(e) => return Err(RunError::Bad(e.to_string())),
            }
        }
        let found = in_parts(&good, &mut most, |part| evaluator.references(part, journal));
        new.extend(found.results);
        if let Some(error) = found.error {
            let left = good[found.count].0;
            new.retain(|r| !matches!(r, Record::Reference { reference, .. } if *reference > left));
            journal.append(&in_order(new))?;
            if found.count > 0 {
                progress(REFERENCES, left, paths.len());
            }
            return Err(error.into());
        }
        let new = in_order(new);
        journal.append(&new)?;
        records.extend(new);
        progress(REFERENCES, end, paths.len());
    }
    Ok(())
}

fn pairs<B: MetricBackend + 'static>(
    evaluator: &mut Evaluator<'_, B>,
    journal: &mut Journal,
    records: &mut Vec<Record>,
    first: usize,
    mut maps: Option<Maps<'_>>,
    progress: Progress<'_>,
) -> Result<(), RunError> {
    let work = evaluator.work;
    let settings = evaluator.settings;
    let total = work.pairs.len();
    let batch = settings.batch.max(1);
    let mut most = batch;
    // One batch is decoded while another is computed.
    let (send, receive) = sync_channel::<Vec<Item>>(1);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let limits = limits(settings);
            let mut kept: HashMap<usize, Arc<Image>> = HashMap::new();
            for start in (first..total).step_by(batch) {
                let range = start..(start + batch).min(total);
                let items = decode(work, settings, range, &limits, &mut kept);
                if send.send(items).is_err() {
                    return;
                }
            }
        });
        // The channel is moved in, so that an error here ends the decoding thread.
        let receive = receive;
        for items in &receive {
            let (mut good, mut new) = (Vec::new(), Vec::new());
            let mut done = first;
            for item in items {
                done = item.pair + 1;
                match item.images {
                    Ok((original, counterfactual)) => good.push(Decoded {
                        pair: item.pair,
                        stamp: item.stamp,
                        original,
                        counterfactual,
                    }),
                    Err(reason) if settings.skip_bad => {
                        evaluator.skipped.insert(item.pair);
                        new.push(Record::Skipped {
                            pair: item.pair,
                            reason,
                            stamp: item.stamp,
                        });
                    }
                    Err(reason) => return Err(RunError::Bad(reason)),
                }
            }
            let found = in_parts(&good, &mut most, |part| evaluator.batch(part, journal));
            new.extend(found.results);
            if let Some(error) = found.error {
                // What was computed is kept; nothing that comes after the first pair that was not.
                let left = good[found.count].pair;
                new.retain(|r| !matches!(r, Record::Skipped { pair, .. } if *pair > left));
                journal.append(&in_order(new))?;
                if found.count > 0 {
                    progress(PAIRS, left, total);
                }
                return Err(error.into());
            }
            let new = in_order(new);
            journal.append(&new)?;
            records.extend(new);
            progress(PAIRS, done, total);
            if let Some(maps) = maps.as_deref_mut() {
                for decoded in &good {
                    send_map(evaluator, decoded, maps)?;
                    progress(PAIRS, done, total);
                }
            }
        }
        Ok(())
    })
}

/// An error if an image is too small for the backbone of LPIPS.
fn large_enough(
    settings: &Settings,
    file: &Path,
    [width, height]: [usize; 2],
) -> Result<(), String> {
    let perceptual = [Family::Lpips, Family::Diversity];
    let wanted = perceptual.iter().any(|f| settings.selection.has(*f));
    let least = settings.lpips.min_side();
    if !wanted || width.min(height) >= least {
        return Ok(());
    }
    Err(format!(
        "{} is {width}x{height}, too small for LPIPS with {}, which needs {least}x{least}; leave lpips and diversity out with --metrics",
        file.display(),
        settings.lpips.name()
    ))
}

fn limits(settings: &Settings) -> Limits {
    Limits {
        max_pixels: settings.max_pixels,
    }
}

/// Decodes a range of pairs; originals of the range before are reused.
fn decode(
    work: &Work,
    settings: &Settings,
    range: std::ops::Range<usize>,
    limits: &Limits,
    kept: &mut HashMap<usize, Arc<Image>>,
) -> Vec<Item> {
    let needed: Vec<usize> = {
        let mut all: Vec<usize> = range.clone().map(|i| work.pairs[i].original).collect();
        all.sort_unstable();
        all.dedup();
        all
    };
    kept.retain(|original, _| needed.contains(original));
    let fresh: Vec<(usize, Result<Arc<Image>, String>)> = needed
        .into_par_iter()
        .filter(|original| !kept.contains_key(original))
        .map(|original| {
            let image = images::read(&work.originals[original], limits);
            (original, image.map(Arc::new).map_err(|e| e.to_string()))
        })
        .collect();
    let mut bad: HashMap<usize, String> = HashMap::new();
    for (original, image) in fresh {
        match image {
            Ok(image) => drop(kept.insert(original, image)),
            Err(reason) => drop(bad.insert(original, reason)),
        }
    }
    range
        .into_par_iter()
        .map(|pair| {
            let planned = &work.pairs[pair];
            let stamp = stamp(&[&planned.pair.original, &planned.pair.counterfactual]);
            let images = match kept.get(&planned.original) {
                None => Err(bad[&planned.original].clone()),
                Some(original) => images::read(&planned.pair.counterfactual, limits)
                    .map_err(|e| e.to_string())
                    .and_then(|counterfactual| {
                        let sizes = [original.as_ref(), &counterfactual].map(|i| [i.width, i.height]);
                        if sizes[0] == sizes[1] {
                            return large_enough(settings, &planned.pair.counterfactual, sizes[1])
                                .map(|()| (Arc::clone(original), counterfactual));
                        }
                        Err(format!(
                            "{} is {}x{}, but its original {} is {}x{}; the two images of a pair must have one size",
                            planned.pair.counterfactual.display(),
                            sizes[1][0],
                            sizes[1][1],
                            planned.pair.original.display(),
                            sizes[0][0],
                            sizes[0][1],
                        ))
                    }),
            };
            Item {
                pair,
                stamp,
                images,
            }
        })
        .collect()
}

/// Records as a journal has them: what pairs refer to, then pairs by their numbers.
fn in_order(mut records: Vec<Record>) -> Vec<Record> {
    records.sort_by_key(|r| match r {
        Record::Pair(p) => (1, p.pair),
        Record::Skipped { pair, .. } => (1, *pair),
        Record::Original { original, .. } => (0, *original),
        Record::Reference { reference, .. } => (0, *reference),
    });
    records
}

/// The heat maps of pairs in the journal that an earlier run could not write.
fn missing_maps<B: MetricBackend + 'static>(
    evaluator: &mut Evaluator<'_, B>,
    records: &[Record],
    maps: Maps<'_>,
    progress: Progress<'_>,
) -> Result<(), RunError> {
    let work = evaluator.work;
    let limits = limits(evaluator.settings);
    let mut kept = HashMap::new();
    let missing: Vec<usize> = records
        .iter()
        .filter_map(|record| match record {
            Record::Pair(found) => Some(found.pair),
            _ => None,
        })
        .filter(|&pair| !maps.has(pair, &work.pairs[pair].pair.name))
        .collect();
    for (done, &pair) in missing.iter().enumerate() {
        for item in decode(work, evaluator.settings, pair..pair + 1, &limits, &mut kept) {
            let (original, counterfactual) = item.images.map_err(RunError::Bad)?;
            let decoded = Decoded {
                pair,
                stamp: item.stamp,
                original,
                counterfactual,
            };
            send_map(evaluator, &decoded, maps)?;
        }
        progress(MAPS, done + 1, missing.len());
    }
    Ok(())
}

fn send_map<B: MetricBackend + 'static>(
    evaluator: &mut Evaluator<'_, B>,
    decoded: &Decoded,
    maps: &mut dyn HeatMaps,
) -> Result<(), RunError> {
    let Some(map) = evaluator.map(decoded)? else {
        return Ok(());
    };
    let name = &evaluator.work.pairs[decoded.pair].pair.name;
    let width = decoded.original.width;
    maps.take(decoded.pair, name, &map, width)
        .map_err(|reason| RunError::Map {
            pair: name.clone(),
            reason,
        })
}

/// An error if a file of a finished record is not what it was then.
fn check_unchanged(work: &Work, records: &[Record]) -> Result<(), RunError> {
    let changed = records.par_iter().find_map_first(|record| {
        let (files, then): (Vec<&Path>, u64) = match record {
            Record::Pair(p) => (pair_files(work, p.pair), p.stamp),
            Record::Skipped { pair, stamp, .. } => (pair_files(work, *pair), *stamp),
            Record::Reference {
                reference, stamp, ..
            } => (vec![&work.references[*reference]], *stamp),
            Record::Original { .. } => return None,
        };
        (stamp(&files) != then).then(|| files[files.len() - 1].to_path_buf())
    });
    match changed {
        Some(file) => Err(RunError::Changed { file }),
        None => Ok(()),
    }
}

fn pair_files(work: &Work, pair: usize) -> Vec<&Path> {
    let pair = &work.pairs[pair].pair;
    vec![&pair.original, &pair.counterfactual]
}

/// Darkest and brightest pixel of every group, read from all its images (published protocol only).
pub fn extremes(
    work: &Work,
    settings: &Settings,
    progress: Progress<'_>,
) -> Result<Vec<Extremes>, RunError> {
    let perceptual = [Family::Lpips, Family::Diversity];
    let wanted = perceptual.iter().any(|f| settings.selection.has(*f));
    if settings.protocol != Protocol::Published || !wanted {
        return Ok(Vec::new());
    }
    let limits = limits(settings);
    let mut all = Vec::with_capacity(work.groups.len());
    for (done, group) in work.groups.iter().enumerate() {
        let ranges: Vec<Result<Option<[[u8; 2]; 2]>, ImageError>> = group
            .pairs
            .clone()
            .into_par_iter()
            .map(|pair| {
                let p = &work.pairs[pair].pair;
                let original = images::read(&p.original, &limits)?;
                let counterfactual = images::read(&p.counterfactual, &limits)?;
                // A pair that will be refused for its sizes takes no part.
                let same = [original.width, original.height]
                    == [counterfactual.width, counterfactual.height];
                Ok(same.then(|| [range(&original), range(&counterfactual)]))
            })
            .collect();
        let mut extremes = Extremes {
            original: [255, 0],
            counterfactual: [255, 0],
        };
        for found in ranges {
            match found {
                Ok(None) => {}
                Ok(Some([o, c])) => {
                    extremes.original = join(extremes.original, o);
                    extremes.counterfactual = join(extremes.counterfactual, c);
                }
                Err(_) if settings.skip_bad => {}
                Err(e) => return Err(RunError::Bad(e.to_string())),
            }
        }
        all.push(extremes);
        progress("pixel ranges of groups", done + 1, work.groups.len());
    }
    Ok(all)
}

fn range(image: &Image) -> [u8; 2] {
    image
        .pixels
        .iter()
        .fold([255, 0], |[low, high], &p| [low.min(p), high.max(p)])
}

fn join(a: [u8; 2], b: [u8; 2]) -> [u8; 2] {
    [a[0].min(b[0]), a[1].max(b[1])]
}
