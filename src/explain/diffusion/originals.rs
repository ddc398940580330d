//! Originals: read and asked about once, however many counterfactuals they get.

use std::collections::BTreeMap;

use rayon::prelude::*;

use super::networks::Networks;
use super::{GenerateError, Result, Task};
use crate::diffusion::called;
use crate::images::{self, Limits};
use crate::metrics::validity::softmax;
use crate::tensor::Array;
use crate::train::to_values;
use crate::weights::sha256;

/// Class and probability by the classifier, if it gives numbers.
pub type Opinion = Option<(usize, f64)>;

pub(super) fn opinion(logits: &[f32]) -> Opinion {
    called(logits).map(|class| (class, probability(logits, class)))
}

/// Of a class; 0 if the classifier gives no numbers.
pub(super) fn probability(logits: &[f32], class: usize) -> f64 {
    let found = softmax(logits).get(class).copied();
    found.filter(|p| p.is_finite()).unwrap_or(0.0)
}

/// An original as the networks see it.
#[derive(Clone)]
pub(super) struct Original {
    /// Values from −1 to 1.
    pub values: Vec<f32>,
    pub opinion: Opinion,
}

/// Originals of the present batch, by their place among all.
#[derive(Default)]
pub(super) struct Originals(BTreeMap<usize, Original>);

impl Originals {
    /// Those of a batch; what the last one had is not read again.
    pub fn of<'a>(
        &mut self,
        networks: &Networks,
        tasks: impl Iterator<Item = &'a Task> + Clone,
    ) -> Result<Vec<Original>> {
        let wanted: Vec<&Task> = tasks.clone().collect();
        self.0.retain(|i, _| wanted.iter().any(|t| t.index == *i));
        let mut new: Vec<&Task> = Vec::new();
        for task in &wanted {
            let known = self.0.contains_key(&task.index);
            if !known && new.iter().all(|t| t.index != task.index) {
                new.push(task);
            }
        }
        if !new.is_empty() {
            let values = read(networks, &new)?;
            let logits = networks.logits(&values)?;
            for (i, task) in new.iter().enumerate() {
                let original = Original {
                    values: values.row(i).to_vec(),
                    opinion: opinion(logits.row(i)),
                };
                self.0.insert(task.index, original);
            }
        }
        let known = tasks.filter_map(|task| self.0.get(&task.index).cloned());
        Ok(known.collect())
    }
}

/// The checksum of an original's file: a result belongs to these bytes.
pub(super) fn checksum(task: &Task) -> Result<String> {
    let bytes = std::fs::read(&task.original).map_err(|error| GenerateError::File {
        path: task.original.clone(),
        what: format!("cannot read: {error}"),
    })?;
    Ok(sha256(&bytes))
}

/// Every original can be read and has the size of the denoiser: nobody wants to hear of it after hours of work.
pub(super) fn check<'a>(networks: &Networks, tasks: impl Iterator<Item = &'a Task>) -> Result<()> {
    let all: BTreeMap<usize, &Task> = tasks.map(|task| (task.index, task)).collect();
    let all: Vec<&Task> = all.into_values().collect();
    let found: Vec<Result<()>> = { all.par_iter() }
        .map(|task| sized(networks, task).map(drop))
        .collect();
    found.into_iter().collect()
}

/// Originals as NCHW values from −1 to 1, in the size of the denoiser.
fn read(networks: &Networks, tasks: &[&Task]) -> Result<Array> {
    let mut fitted = Vec::new();
    for task in tasks {
        fitted.push(sized(networks, task)?);
    }
    Ok(to_values(fitted.iter().map(Vec::as_slice), networks.size))
}

/// Pixels of an original of the right size.
fn sized(networks: &Networks, task: &Task) -> Result<Vec<u8>> {
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
    Ok(image.pixels)
}
