//! The loop: batches, gradients, steps, checkpoints.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::adamw::{self, AdamW};
use super::checkpoint::{self, State};
use super::cost::{Cost, Meter};
use super::error::{Result, TrainError};
use crate::stats::random::{Draws, Stream};
use crate::tensor::StateDict;
use crate::tensor::candle::Training;

/// What a run does.
#[derive(Clone, Debug)]
pub struct Plan {
    pub steps: usize,
    pub batch: usize,
    pub seed: u64,
    pub optimiser: AdamW,
    /// Decay of a moving average of the weights, which is then the result.
    pub average: Option<f64>,
    /// Where to keep checkpoints, and after how many steps each.
    pub checkpoint: Option<(PathBuf, usize)>,
    /// Continue from the checkpoint if there is one.
    pub resume: bool,
    /// Options that must be the same when a run is resumed, besides the above.
    pub options: BTreeMap<String, String>,
}

/// How far a run is.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Steps done, and of all.
    pub step: usize,
    pub steps: usize,
    /// Mean of the latest losses, which a resumed run goes on with.
    pub loss: f32,
}

/// A finished run.
#[derive(Clone, Debug)]
pub struct Trained {
    pub weights: StateDict,
    /// Time spent on it, with that of the runs it continued.
    pub cost: Cost,
}

impl Plan {
    /// What makes two runs the same.
    fn identity(&self) -> BTreeMap<String, String> {
        let mut all = self.options.clone();
        all.insert("steps".into(), self.steps.to_string());
        all.insert("batch".into(), self.batch.to_string());
        all.insert("seed".into(), self.seed.to_string());
        let AdamW {
            rate,
            betas: [first, second],
            epsilon,
            decay,
            warm_up,
            clip,
        } = self.optimiser;
        let further =
            format!("betas {first} {second}, epsilon {epsilon}, warm-up {warm_up}, clip {clip}");
        all.insert("rate".into(), rate.to_string());
        all.insert("decay".into(), decay.to_string());
        all.insert("optimiser".into(), further);
        let average = self.average.map_or("none".into(), |a| a.to_string());
        all.insert("average".into(), average);
        all
    }

    /// The items of the batch of a step: each epoch is another order of all `count` items.
    pub fn items(&self, step: usize, count: usize, orders: &mut Orders) -> Vec<usize> {
        let first = step * self.batch;
        (first..first + self.batch)
            .map(|at| orders.of(self.seed, at / count.max(1), count)[at % count.max(1)])
            .collect()
    }
}

/// The order of the items in the latest epochs.
#[derive(Default)]
pub struct Orders(BTreeMap<usize, Vec<usize>>);

impl Orders {
    fn of(&mut self, seed: u64, epoch: usize, count: usize) -> &[usize] {
        self.0.retain(|&e, _| e + 1 >= epoch);
        self.0.entry(epoch).or_insert_with(|| {
            Draws::new(seed, Stream::TRAINING_ORDER, epoch as u64).permutation(count)
        })
    }
}

/// Trains a network.
///
/// `build` makes it from variables, `loss` runs it on the items of a step. The result is the same whether the run was
/// interrupted or not.
pub fn run<N>(
    plan: &Plan,
    initial: StateDict,
    count: usize,
    build: impl Fn(&Training, &StateDict) -> Result<N>,
    loss: impl Fn(&Training, &N, &[usize], usize) -> Result<candle_core::Tensor>,
    mut report: impl FnMut(Progress),
) -> Result<Trained> {
    if count == 0 || plan.batch == 0 {
        return Err(TrainError::Data("there is nothing to train on".into()));
    }
    let identity = plan.identity();
    let mut state = match &plan.checkpoint {
        Some((path, _)) if plan.resume && path.exists() => {
            let state = checkpoint::read(path, &identity, &initial)?;
            if state.average.is_some() != plan.average.is_some() || state.step > plan.steps {
                return Err(TrainError::File {
                    path: path.display().to_string(),
                    what: "not a checkpoint of this run. Delete it and start anew without --resume"
                        .into(),
                });
            }
            state
        }
        _ => State {
            step: 0,
            average: plan.average.map(|_| initial.clone()),
            weights: initial,
            moments: BTreeMap::new(),
            cost: Cost::default(),
            loss: None,
        },
    };
    let (meter, earlier) = (Meter::start(), state.cost);
    let training = Training::new(&state.weights, |_| false)?;
    let net = build(&training, &state.weights)?;
    let mut orders = Orders::default();
    while state.step < plan.steps {
        let step = state.step;
        let items = plan.items(step, count, &mut orders);
        let value = loss(&training, &net, &items, step)?;
        let gradients = value.backward()?;
        let value = value.to_scalar::<f32>()?;
        if !value.is_finite() {
            return Err(TrainError::Diverged { step, loss: value });
        }
        adamw::step(
            &plan.optimiser,
            training.variables(),
            &mut state.moments,
            &gradients,
            step,
            plan.steps,
        )?;
        state.step += 1;
        if let (Some(decay), Some(average)) = (plan.average, &mut state.average) {
            // Early on the average follows the weights more closely.
            let decay = decay.min((1.0 + step as f64) / (10.0 + step as f64));
            mix(average, &training.values(&state.weights)?, decay);
        }
        let loss = state.loss.map_or(value, |mean| 0.98 * mean + 0.02 * value);
        state.loss = Some(loss);
        report(Progress {
            step: state.step,
            steps: plan.steps,
            loss,
        });
        if let Some((path, every)) = &plan.checkpoint
            && (state.step.is_multiple_of((*every).max(1)) || state.step == plan.steps)
        {
            state.weights = training.values(&state.weights)?;
            state.cost = meter.after(earlier);
            checkpoint::write(path, &state, &identity)?;
        }
    }
    Ok(Trained {
        weights: match state.average {
            Some(average) => average,
            None => training.values(&state.weights)?,
        },
        cost: meter.after(earlier),
    })
}

fn mix(average: &mut StateDict, now: &StateDict, decay: f64) {
    let names: Vec<String> = now.iter().map(|(name, _)| name.to_owned()).collect();
    for name in names {
        if let (Some(new), Some(old)) = (now.get(&name), average.get(&name)) {
            let mut mixed = old.clone();
            for (m, &n) in mixed.data.iter_mut().zip(&new.data) {
                *m = (decay * f64::from(*m) + (1.0 - decay) * f64::from(n)) as f32;
            }
            average.insert(name, mixed);
        }
    }
}
