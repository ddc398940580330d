//! Checkpoints: parameters, moments, averaged weights and the number of steps, in one safetensors file.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use half::f16;
use safetensors::{Dtype, SafeTensors, tensor::TensorView};

use super::adamw::Moments;
use super::cost::Cost;
use super::error::{Result, TrainError};
use crate::folder::beside;
use crate::tensor::{Array, StateDict};

/// Where a run stands.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    /// Steps done.
    pub step: usize,
    pub weights: StateDict,
    pub moments: BTreeMap<String, Moments>,
    /// Moving average of the weights, if the run keeps one.
    pub average: Option<StateDict>,
    /// Time spent so far, by this run and those it continues.
    pub cost: Cost,
    /// Mean of the latest losses, as shown.
    pub loss: Option<f32>,
}

const SCHEMA: &str = "foil.checkpoint/1";

fn file_error(path: &Path, what: impl ToString) -> TrainError {
    TrainError::File {
        path: path.display().to_string(),
        what: what.to_string(),
    }
}

/// Writes a checkpoint; a crash meanwhile leaves the earlier one. `plan` are the options of the run, by name.
pub fn write(path: &Path, state: &State, plan: &BTreeMap<String, String>) -> Result<()> {
    let mut metadata: HashMap<String, String> = plan
        .iter()
        .map(|(k, v)| (format!("plan.{k}"), v.clone()))
        .collect();
    metadata.insert("schema".into(), SCHEMA.into());
    metadata.insert("step".into(), state.step.to_string());
    metadata.insert("moments".into(), state.moments.len().to_string());
    if let Some(loss) = state.loss {
        metadata.insert("loss".into(), loss.to_string());
    }
    metadata.insert("seconds".into(), state.cost.seconds.to_string());
    metadata.insert("cpu_seconds".into(), state.cost.cpu_seconds.to_string());
    let mut arrays: Vec<(String, Vec<usize>, &[f32])> = Vec::new();
    for (name, array) in state.weights.iter() {
        arrays.push((format!("weight/{name}"), array.shape.clone(), &array.data));
    }
    for (name, array) in state.average.iter().flat_map(StateDict::iter) {
        arrays.push((format!("average/{name}"), array.shape.clone(), &array.data));
    }
    for (name, moments) in &state.moments {
        let len = vec![moments.first.len()];
        arrays.push((format!("first/{name}"), len.clone(), &moments.first));
        arrays.push((format!("second/{name}"), len, &moments.second));
    }
    save(path, arrays, metadata)
}

/// How many bits weights are written with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    Single,
    Half,
}

/// Rounds all values to half precision.
pub fn round_to_half(dict: &mut StateDict) {
    let names: Vec<String> = dict.iter().map(|(name, _)| name.to_owned()).collect();
    for name in names {
        if let Some(mut array) = dict.get(&name).cloned() {
            array
                .data
                .iter_mut()
                .for_each(|v| *v = f16::from_f32(*v).to_f32());
            dict.insert(name, array);
        }
    }
}

/// Writes the weights of a finished network.
pub fn write_weights(path: &Path, dict: &StateDict, precision: Precision) -> Result<()> {
    if precision == Precision::Single {
        let arrays = dict
            .iter()
            .map(|(name, array)| (name.to_owned(), array.shape.clone(), &array.data[..]));
        return save(path, arrays.collect(), HashMap::new());
    }
    let halves: Vec<(String, Vec<usize>, Vec<f16>)> = dict
        .iter()
        .map(|(name, array)| {
            let values = array.data.iter().map(|&v| f16::from_f32(v)).collect();
            (name.to_owned(), array.shape.clone(), values)
        })
        .collect();
    let views = halves.iter().map(|(name, shape, values)| {
        (
            name.clone(),
            Dtype::F16,
            shape.clone(),
            bytemuck::cast_slice(values),
        )
    });
    save_views(path, views.collect(), HashMap::new())
}

/// Writes named arrays of f32.
fn save(
    path: &Path,
    arrays: Vec<(String, Vec<usize>, &[f32])>,
    metadata: HashMap<String, String>,
) -> Result<()> {
    let views = arrays.into_iter();
    let views =
        views.map(|(name, shape, data)| (name, Dtype::F32, shape, bytemuck::cast_slice(data)));
    save_views(path, views.collect(), metadata)
}

/// Writes named arrays beside `path` first, then moves them there.
fn save_views(
    path: &Path,
    arrays: Vec<(String, Dtype, Vec<usize>, &[u8])>,
    metadata: HashMap<String, String>,
) -> Result<()> {
    let views = arrays.into_iter().map(|(name, kind, shape, data)| {
        let view = TensorView::new(kind, shape, data);
        view.map(|view| (name, view))
            .map_err(|e| file_error(path, e))
    });
    let views = views.collect::<Result<Vec<_>>>()?;
    let bytes = safetensors::serialize(views, Some(metadata)).map_err(|e| file_error(path, e))?;
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let mut file = beside(folder).map_err(|e| file_error(path, e))?;
    std::io::Write::write_all(&mut file, &bytes).map_err(|e| file_error(path, e))?;
    file.persist(path).map_err(|e| file_error(path, e.error))?;
    Ok(())
}

/// Whether files can be written beside `path`, and `path` is no folder: asked before hours of training.
pub fn writable(path: &Path) -> Result<()> {
    if path.is_dir() {
        return Err(file_error(
            path,
            "this is a folder; give the name of a file",
        ));
    }
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty());
    let made = beside(folder.unwrap_or(Path::new(".")));
    made.map(drop).map_err(|e| {
        file_error(
            path,
            format!("{e}. Give --out a folder that can be written to"),
        )
    })
}

/// Reads a checkpoint of a run with the same plan, which began with the weights `initial`.
pub fn read(path: &Path, plan: &BTreeMap<String, String>, initial: &StateDict) -> Result<State> {
    let bytes = std::fs::read(path).map_err(|e| file_error(path, e))?;
    let corrupt = |what: String| {
        let what =
            format!("not a whole checkpoint ({what}). Delete it and start anew without --resume");
        file_error(path, what)
    };
    let (_, header) = SafeTensors::read_metadata(&bytes).map_err(|e| corrupt(e.to_string()))?;
    let tensors = SafeTensors::deserialize(&bytes).map_err(|e| corrupt(e.to_string()))?;
    let metadata = header.metadata().clone().unwrap_or_default();
    if metadata.get("schema").map(String::as_str) != Some(SCHEMA) {
        return Err(corrupt(format!("it does not say {SCHEMA}")));
    }
    for (field, now) in plan {
        let was = metadata.get(&format!("plan.{field}"));
        if was != Some(now) {
            return Err(TrainError::OtherRun {
                path: path.display().to_string(),
                field: field.clone(),
                was: was.cloned().unwrap_or_else(|| "not given".into()),
                now: now.clone(),
            });
        }
    }
    let number = |name: &str| metadata.get(name).and_then(|text| text.parse::<f64>().ok());
    let step = metadata.get("step").and_then(|s| s.parse().ok());
    let time = |name: &str| number(name).filter(|v| v.is_finite() && *v >= 0.0);
    let (Some(step), Some(seconds), Some(cpu_seconds)) =
        (step, time("seconds"), time("cpu_seconds"))
    else {
        return Err(corrupt("it has no step or no time".into()));
    };
    let mut state = State {
        step,
        cost: Cost {
            seconds,
            cpu_seconds,
        },
        weights: StateDict::named(path.display().to_string()),
        moments: BTreeMap::new(),
        average: None,
        loss: number("loss").map(|v| v as f32).filter(|v| v.is_finite()),
    };
    for (name, view) in tensors.tensors() {
        let Some((kind, name)) = name.split_once('/') else {
            return Err(corrupt(format!("tensor {name}")));
        };
        if view.dtype() != Dtype::F32 {
            return Err(corrupt(format!("{name} is {:?}", view.dtype())));
        }
        let data = bytemuck::pod_collect_to_vec(view.data());
        let array = Array {
            shape: view.shape().to_vec(),
            data,
        };
        match kind {
            "weight" => state.weights.insert(name, array),
            "average" => state.average.get_or_insert_default().insert(name, array),
            "first" | "second" => {
                let moments = state.moments.entry(name.to_owned());
                let moments = moments.or_insert_with(|| Moments::zeros(0));
                if kind == "first" {
                    moments.first = array.data;
                } else {
                    moments.second = array.data;
                }
            }
            _ => return Err(corrupt(format!("tensor {kind}/{name}"))),
        }
    }
    let moments = metadata.get("moments").and_then(|m| m.parse().ok());
    if moments != Some(state.moments.len()) {
        return Err(corrupt("it has lost moments of the optimiser".into()));
    }
    check(&state, initial).map_err(corrupt)?;
    Ok(state)
}

/// Weights, average and moments must be those of the network that the run trains: a file can be well-formed and still
/// have lost some of them.
fn check(state: &State, initial: &StateDict) -> std::result::Result<(), String> {
    for (what, dict) in [
        ("weight", Some(&state.weights)),
        ("average", state.average.as_ref()),
    ] {
        let Some(dict) = dict else { continue };
        for (name, expected) in initial.iter() {
            let found = dict.get(name).map(|array| &array.shape);
            if found != Some(&expected.shape) {
                let found = found.map_or("nothing".to_owned(), |shape| format!("{shape:?}"));
                let expected = &expected.shape;
                return Err(format!(
                    "{what} {name}: expected {expected:?}, found {found}"
                ));
            }
        }
        if dict.len() != initial.len() {
            let (found, expected) = (dict.len(), initial.len());
            return Err(format!("{found} tensors of {what}, expected {expected}"));
        }
        let broken = dict
            .iter()
            .find(|(_, a)| a.data.iter().any(|v| !v.is_finite()));
        if let Some((name, _)) = broken {
            return Err(format!("{what} {name} is not finite"));
        }
    }
    for (name, moments) in &state.moments {
        let expected = initial.get(name).map(Array::len);
        if [moments.first.len(), moments.second.len()].map(Some) != [expected; 2] {
            return Err(format!("moments of {name}"));
        }
        let sound = moments.first.iter().all(|v| v.is_finite())
            && moments.second.iter().all(|v| v.is_finite() && *v >= 0.0);
        if !sound {
            return Err(format!("moments of {name} are not finite, or negative"));
        }
    }
    Ok(())
}
