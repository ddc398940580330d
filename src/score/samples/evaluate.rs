//! What the networks say of every sample, in batches of one network.

use std::collections::BTreeSet;

use rayon::prelude::*;

use super::networks::{Autoencoders, LabelModel, Networks, Said};
use super::pixels::Scale;
use super::{Pixels, Samples, SamplesError};
use crate::metrics::interpretability::{Ratio, absolute_sum, squared_difference, squared_error};
use crate::metrics::jensen_shannon::{self, Probabilities, jensen_shannon};
use crate::metrics::validity::softmax;
use crate::nets::Autoencoder;
use crate::score::retry::in_batches;
use crate::score::{Family, Protocol, Selection};
use crate::tensor::{Array, Backend};

/// Samples that a network sees at once; results do not depend on it.
pub(super) const BATCH: usize = 128;

/// All terms of all samples; `None` where a sample is not kept or a metric was not asked for.
#[derive(Clone, Debug, Default)]
pub struct Terms {
    /// Samples that count in every score but the validity.
    pub kept: Vec<bool>,
    /// Counterfactuals that are entirely black, failed ones included.
    pub black: Vec<bool>,
    /// Left out because the target is the prediction on the original.
    pub same_target: Vec<bool>,
    pub l1: Vec<Option<f64>>,
    pub l2: Vec<Option<f64>>,
    pub im1: Vec<Option<Ratio>>,
    pub im2: Vec<Option<Ratio>>,
    /// The class that each oracle names for each counterfactual.
    pub oracles: Vec<(String, Vec<Option<usize>>)>,
    /// The largest probability of each oracle.
    pub confidence: Vec<Vec<Option<f64>>>,
    /// Divergence of each label model.
    pub labels: Vec<(String, Vec<Option<f64>>)>,
    /// Embeddings of kept originals and counterfactuals, and their width.
    pub embeddings: Option<(usize, Vec<f32>, Vec<f32>)>,
}

impl Terms {
    /// The terms of the first `n` samples.
    pub fn first(&self, n: usize) -> Self {
        fn cut<T: Clone>(values: &[T], n: usize) -> Vec<T> {
            values.iter().take(n).cloned().collect()
        }
        let kept = self.kept.iter().take(n).filter(|k| **k).count();
        Self {
            kept: cut(&self.kept, n),
            black: cut(&self.black, n),
            same_target: cut(&self.same_target, n),
            l1: cut(&self.l1, n),
            l2: cut(&self.l2, n),
            im1: cut(&self.im1, n),
            im2: cut(&self.im2, n),
            oracles: self
                .oracles
                .iter()
                .map(|(name, classes)| (name.clone(), cut(classes, n)))
                .collect(),
            confidence: self.confidence.iter().map(|c| cut(c, n)).collect(),
            labels: self
                .labels
                .iter()
                .map(|(name, values)| (name.clone(), cut(values, n)))
                .collect(),
            embeddings: self.embeddings.as_ref().map(|(width, real, made)| {
                let rows = kept * width;
                (*width, real[..rows].to_vec(), made[..rows].to_vec())
            }),
        }
    }
}

/// How a run goes.
pub struct Run<'a> {
    pub selection: &'a Selection,
    pub range: [f64; 2],
    pub protocol: Protocol,
    /// Leave samples out whose prediction is not the target. The paper reports scores on valid counterfactuals only, its code
    /// keeps all: see [`Protocol::rejects_invalid`].
    pub reject_invalid: bool,
    /// Leave samples out whose target is the prediction on the original.
    pub skip_bad: bool,
}

/// Checks that samples can be scored: that their parts belong together, that their values are in the range, and that the
/// networks know their classes, whether samples will be kept or not. Costs a look at one image by each oracle.
pub fn check<B: Backend>(
    backend: &B,
    samples: &Samples,
    networks: &Networks<'_, B>,
    run: &Run<'_>,
) -> Result<(), SamplesError> {
    sides(samples, run).map(drop)?;
    known_classes(backend, samples, networks, run)
}

/// Both arrays, checked.
fn sides<'a>(samples: &'a Samples, run: &Run<'_>) -> Result<[Side<'a>; 2], SamplesError> {
    samples.check(run.protocol, run.skip_bad)?;
    let originals = Side::new("originals", &samples.originals, run)?;
    let counterfactuals = match (0..samples.target.len()).all(|i| samples.failed(i)) {
        // There is nothing to stretch to its smallest and largest value.
        true => Side::new(
            "counterfactuals",
            &samples.counterfactuals,
            &Run {
                protocol: Protocol::Exact,
                ..*run
            },
        )?,
        false => Side::new("counterfactuals", &samples.counterfactuals, run)?,
    };
    Ok([originals, counterfactuals])
}

fn known_classes<B: Backend>(
    backend: &B,
    samples: &Samples,
    networks: &Networks<'_, B>,
    run: &Run<'_>,
) -> Result<(), SamplesError> {
    let wants = |family| run.selection.has(family);
    if wants(Family::Im1) || wants(Family::Im2) {
        let set = autoencoders(samples, networks)?;
        let mut wanted = vec![("targets", &samples.target)];
        if wants(Family::Im1) {
            wanted.push(("predictions on the originals", &samples.original_prediction));
        }
        for (what, labels) in wanted {
            for i in (0..labels.len()).filter(|&i| !samples.failed(i)) {
                set.of(labels[i], &format!("{what}, sample {i}"))?;
            }
        }
    }
    if wants(Family::Oracle) {
        let originals = Side::new("originals", &samples.originals, run)?;
        for oracle in &networks.oracles {
            let said = look(backend, oracle, &originals, &[0])?;
            samples.check_classes(&format!("the oracle {}", oracle.name), said.classes())?;
        }
    }
    Ok(())
}

/// The auto-encoders, if they take such images.
fn autoencoders<'a, B: Backend>(
    samples: &Samples,
    networks: &Networks<'a, B>,
) -> Result<&'a Autoencoders<B>, SamplesError> {
    let Some(set) = networks.autoencoders else {
        return Err(SamplesError::input(
            "im1, im2",
            "auto-encoders of the classes",
            "none",
            "give --autoencoders FILE, or --autoencoder CLASS=CARD for each class and all=CARD",
        ));
    };
    if set.channels != samples.counterfactuals.shape[1] {
        return Err(SamplesError::input(
            "auto-encoders",
            format!(
                "networks of {} channels as the images",
                samples.counterfactuals.shape[1]
            ),
            format!("networks of {}", set.channels),
            "give auto-encoders that were trained on such images",
        ));
    }
    Ok(set)
}

/// Computes the terms of all samples. `progress` is told how many of how many passes are done.
pub fn evaluate<B: Backend>(
    backend: &B,
    samples: &Samples,
    networks: &Networks<'_, B>,
    run: &Run<'_>,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Terms, SamplesError> {
    let n = samples.target.len();
    let [originals, counterfactuals] = sides(samples, run)?;
    known_classes(backend, samples, networks, run)?;
    let mut terms = Terms {
        same_target: vec![false; n],
        ..Terms::default()
    };
    terms.black = (0..n)
        .map(|i| {
            let mut values = samples.counterfactuals.image(i).iter();
            values.all(|&v| counterfactuals.scale.apply(v) == run.range[0])
        })
        .collect();
    if run.protocol == Protocol::Exact && run.skip_bad {
        for i in samples.same_target() {
            terms.same_target[i] = true;
        }
    }
    terms.kept = (0..n)
        .map(|i| {
            let dropped = run.protocol == Protocol::Published && terms.black[i];
            let invalid = run.reject_invalid && samples.prediction[i] != samples.target[i];
            !samples.failed(i) && !dropped && !invalid && !terms.same_target[i]
        })
        .collect();
    let kept: Vec<usize> = (0..n).filter(|&i| terms.kept[i]).collect();
    let wants = |family| run.selection.has(family);

    if wants(Family::ElasticNet) || wants(Family::Lp) {
        let found: Vec<(f64, f64)> = kept
            .par_iter()
            .map(|&i| distances(&originals.values(i), &counterfactuals.values(i)))
            .collect();
        (terms.l1, terms.l2) = (vec![None; n], vec![None; n]);
        for (&i, (l1, l2)) in kept.iter().zip(found) {
            (terms.l1[i], terms.l2[i]) = (Some(l1), Some(l2));
        }
    }

    let passes = networks.oracles.len() + networks.labels.len() + 1;
    if wants(Family::Im1) || wants(Family::Im2) {
        reconstructions(
            backend,
            samples,
            networks,
            run,
            &counterfactuals,
            &kept,
            &mut terms,
        )?;
    }
    progress(1, passes);
    let needs_embedding = wants(Family::Fid);
    for (k, oracle) in networks.oracles.iter().enumerate() {
        let of = |side: &Side<'_>| look(backend, oracle, side, &kept);
        let said = of(&counterfactuals)?;
        let classes = said.logits.shape[1];
        let mut named = vec![None; n];
        let mut confidence = vec![None; n];
        for (at, &i) in kept.iter().enumerate() {
            let row = said.logits.row(at);
            named[i] = Some(largest(row, classes));
            let most = match classes {
                1 => 1.0 / (1.0 + (-f64::from(row[0].abs())).exp()),
                _ => softmax(row).into_iter().fold(0.0, f64::max),
            };
            confidence[i] = Some(most);
        }
        terms.confidence.push(confidence);
        terms.oracles.push((oracle.name.clone(), named));
        if k == 0 && needs_embedding {
            let width = said.embedding.shape[1];
            let real = of(&originals)?.embedding.data;
            terms.embeddings = Some((width, real, said.embedding.data));
        }
        progress(k + 2, passes);
    }
    for (k, model) in networks.labels.iter().enumerate() {
        let [real, made] = [&originals, &counterfactuals].map(|side| {
            Ok::<_, SamplesError>(probabilities(&look(backend, model, side, &kept)?.logits))
        });
        let ((classes, real), (_, made)) = (real?, made?);
        let rows = jensen_shannon(
            Probabilities::new(&model.name, classes, &real)?,
            Probabilities::new(&model.name, classes, &made)?,
            jensen_shannon::Protocol::Exact,
        )?;
        let mut divergence = vec![None; n];
        for (&i, row) in kept.iter().zip(rows) {
            divergence[i] = row;
        }
        terms.labels.push((model.name.clone(), divergence));
        progress(networks.oracles.len() + k + 2, passes);
    }
    Ok(terms)
}

/// One array with the way of its values to the range.
struct Side<'a> {
    pixels: &'a Pixels,
    scale: Scale,
    range: [f64; 2],
}

impl<'a> Side<'a> {
    fn new(place: &str, pixels: &'a Pixels, run: &Run<'_>) -> Result<Self, SamplesError> {
        Ok(Self {
            pixels,
            scale: pixels.scale(place, run.range, run.protocol)?,
            range: run.range,
        })
    }

    fn values(&self, i: usize) -> Vec<f64> {
        let values = self.pixels.image(i).iter();
        values.map(|&v| self.scale.apply(v)).collect()
    }

    fn batch(&self, members: &[usize], of: impl Fn(f32) -> f32 + Sync) -> Array {
        let [_, c, h, w] = self.pixels.shape;
        let images = members.iter().flat_map(|&i| self.pixels.image(i));
        Array {
            shape: vec![members.len(), c, h, w],
            data: images.map(|&v| of(v)).collect(),
        }
    }

    /// Values of the range.
    fn in_range(&self, members: &[usize]) -> Array {
        self.batch(members, |v| self.scale.apply(v) as f32)
    }

    /// Values 0..255.
    fn as_pixels(&self, members: &[usize]) -> Array {
        let [low, high] = self.range;
        self.batch(members, |v| {
            ((self.scale.apply(v) - low) / (high - low) * 255.0) as f32
        })
    }
}

/// ‖x − c‖₁ and ‖x − c‖₂.
fn distances(original: &[f64], counterfactual: &[f64]) -> (f64, f64) {
    let changes = original.iter().zip(counterfactual).map(|(a, b)| a - b);
    let (l1, squares) = changes.fold((0.0, 0.0), |(l1, l2), d| (l1 + d.abs(), l2 + d * d));
    (l1, squares.sqrt())
}

fn largest(logits: &[f32], classes: usize) -> usize {
    // One logit is that of the second of two classes.
    if classes == 1 {
        return usize::from(logits[0] > 0.0);
    }
    (1..logits.len()).fold(0, |best, k| if logits[k] > logits[best] { k } else { best })
}

/// Rows of probabilities; one logit is that of a sigmoid.
fn probabilities(logits: &Array) -> (usize, Vec<f64>) {
    let classes = logits.shape[1];
    if classes == 1 {
        let sigmoid = |v: &f32| 1.0 / (1.0 + (-f64::from(*v)).exp());
        return (1, logits.data.iter().map(sigmoid).collect());
    }
    let rows = logits.data.chunks_exact(classes.max(1));
    (classes, rows.flat_map(softmax).collect())
}

/// A model on the members of one side, in order.
fn look<B: Backend>(
    backend: &B,
    model: &LabelModel<B>,
    side: &Side<'_>,
    members: &[usize],
) -> Result<Said, SamplesError> {
    let parts = in_batches(members, BATCH, |batch| {
        let said = model.look(backend, || side.as_pixels(batch), || side.in_range(batch))?;
        for (array, width) in [
            (&said.logits, said.logits.shape[1]),
            (&said.embedding, said.embedding.shape[1]),
        ] {
            if let Some(at) = array.data.iter().position(|v| !v.is_finite()) {
                return Err(SamplesError::NotFinite {
                    network: model.name.clone(),
                    sample: batch[at / width.max(1)],
                    value: array.data[at],
                });
            }
        }
        Ok::<_, SamplesError>(vec![said])
    })?;
    let joined = parts.into_iter().reduce(|mut all, said| {
        for (array, more) in [
            (&mut all.logits, said.logits),
            (&mut all.embedding, said.embedding),
        ] {
            array.shape[0] += more.shape[0];
            array.data.extend(more.data);
        }
        all
    });
    Ok(joined.unwrap_or_else(|| Said {
        logits: Array::zeros([0, 1]),
        embedding: Array::zeros([0, 1]),
    }))
}

/// IM1 and IM2: each class's auto-encoder on the counterfactuals that aim at it, and on those that left it.
fn reconstructions<B: Backend>(
    backend: &B,
    samples: &Samples,
    networks: &Networks<'_, B>,
    run: &Run<'_>,
    side: &Side<'_>,
    kept: &[usize],
    terms: &mut Terms,
) -> Result<(), SamplesError> {
    let n = samples.target.len();
    let set = autoencoders(samples, networks)?;
    let (im1, im2) = (
        run.selection.has(Family::Im1),
        run.selection.has(Family::Im2),
    );
    let members = |class: i64, of: &[i64]| -> Vec<usize> {
        kept.iter().copied().filter(|&i| of[i] == class).collect()
    };
    let mut classes: BTreeSet<i64> = kept.iter().map(|&i| samples.target[i]).collect();
    if im1 {
        classes.extend(kept.iter().map(|&i| samples.original_prediction[i]));
    }
    let mut target_error = vec![0.0; n];
    let mut own_error = vec![0.0; n];
    terms.im2 = vec![None; n];
    let draw = |name: &dyn Fn() -> String, net: &Autoencoder<B>, x: &B::Tensor, batch: &[usize]| {
        let fail = |source| SamplesError::Net {
            network: name(),
            source,
        };
        let drawn = net.reconstruct(backend, x).map_err(fail)?;
        let drawn = backend.download(&drawn).map_err(|e| fail(e.into()))?;
        let size = side.pixels.size();
        match drawn.data.iter().position(|v| !v.is_finite()) {
            None => Ok(drawn.data),
            Some(at) => Err(SamplesError::NotFinite {
                network: name(),
                sample: batch[at / size],
                value: drawn.data[at],
            }),
        }
    };
    for &class in &classes {
        let net = set.of(class, "a sample")?;
        let name = || format!("auto-encoder {class}");
        let upload = |batch: &[usize]| {
            let x = backend.upload(&side.in_range(batch));
            x.map_err(|e| SamplesError::Net {
                network: name(),
                source: e.into(),
            })
        };
        let size = side.pixels.size();
        let aimed = members(class, &samples.target);
        let found = in_batches(&aimed, BATCH, |batch| {
            let x = upload(batch)?;
            let drawn = draw(&name, net, &x, batch)?;
            let all = match im2 {
                true => Some(draw(&|| "auto-encoder all".into(), set.all()?, &x, batch)?),
                false => None,
            };
            let ratios = batch.par_iter().enumerate().map(|(at, &i)| {
                let values = side.values(i);
                let of = at * size..(at + 1) * size;
                let ratio = all.as_ref().map(|all| Ratio {
                    numerator: squared_difference(&drawn[of.clone()], &all[of.clone()]),
                    denominator: absolute_sum(&values),
                });
                (squared_error(&values, &drawn[of]), ratio)
            });
            Ok::<Vec<_>, SamplesError>(ratios.collect())
        })?;
        for (&i, (error, ratio)) in aimed.iter().zip(found) {
            (target_error[i], terms.im2[i]) = (error, ratio);
        }
        if !im1 {
            continue;
        }
        let left = members(class, &samples.original_prediction);
        let found = in_batches(&left, BATCH, |batch| {
            let drawn = draw(&name, net, &upload(batch)?, batch)?;
            let errors = batch.par_iter().enumerate();
            let errors = errors
                .map(|(at, &i)| squared_error(&side.values(i), &drawn[at * size..(at + 1) * size]));
            Ok::<Vec<_>, SamplesError>(errors.collect())
        })?;
        for (&i, error) in left.iter().zip(found) {
            own_error[i] = error;
        }
    }
    if im1 {
        terms.im1 = vec![None; n];
        for &i in kept {
            terms.im1[i] = Some(Ratio {
                numerator: target_error[i],
                denominator: own_error[i],
            });
        }
    }
    Ok(())
}
