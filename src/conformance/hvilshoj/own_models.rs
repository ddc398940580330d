//! The models that were trained for this data set: probabilities, embeddings, oracle score, LVS and FID.

use super::super::Result;
use super::super::check::{Check, Tolerance};
use super::super::error::Of;
use super::super::folder::Folder;
use super::data::{Config, Set};
use super::scores::{Evaluated, triple};
use crate::metrics::MetricBackend;
use crate::metrics::validity::softmax;
use crate::nets::MnistCnn;
use crate::score::Protocol;
use crate::score::samples::{LabelModel, Pixels};
use crate::tensor::Array;

/// The oracle, and the label models (of which it is one).
pub struct Owned<B: MetricBackend> {
    pub oracles: Vec<LabelModel<B>>,
    pub labels: Vec<LabelModel<B>>,
}

pub struct Models<B: MetricBackend> {
    pub networks: Owned<B>,
}

impl<B: MetricBackend + 'static> Models<B> {
    pub fn read(backend: &B, folder: &Folder, config: Config) -> Result<Self> {
        let model = |name: &str| -> Result<Option<LabelModel<B>>> {
            let file = format!("own_model_{name}.safetensors");
            let Some(tensors) = folder.tensors(&file)? else {
                return Ok(None);
            };
            Ok(Some(LabelModel {
                name: name.into(),
                net: Box::new(MnistCnn::new(backend, &tensors.state_dict()?).of(&file)?),
                preprocessing: None,
                architecture: "mnist_cnn".into(),
                sha256: String::new(),
            }))
        };
        let mut networks = Owned {
            oracles: Vec::new(),
            labels: Vec::new(),
        };
        if let Some(oracle) = config.models.first() {
            networks.oracles.extend(model(oracle)?);
        }
        // LVS is a score of data with more than one label.
        if config.models.len() > 1 {
            for name in config.models {
                networks.labels.extend(model(name)?);
            }
        }
        Ok(Self { networks })
    }

    fn all(&self) -> impl Iterator<Item = &LabelModel<B>> {
        let oracles = self.networks.oracles.iter();
        let more = self.networks.labels.iter();
        oracles.chain(more.filter(|m| self.networks.oracles.iter().all(|o| o.name != m.name)))
    }

    /// Outputs on the first images, and accuracy on the originals.
    pub fn probes(
        &self,
        backend: &B,
        folder: &Folder,
        config: Config,
        set: &Set,
        check: &mut Check,
    ) -> Result<()> {
        let outputs = folder.tensors("own_model_outputs_first256.safetensors")?;
        let results = folder.json("own_model_results.json")?;
        for model in self.all() {
            check.group(format!("{} own models", config.name));
            let mut sources = vec![("real", &set.real)];
            let methods = set.methods.iter();
            sources.extend(methods.map(|(name, s)| (name.as_str(), &s.counterfactuals)));
            for (source, pixels) in sources.iter().filter(|_| outputs.is_some()) {
                let Some(outputs) = &outputs else { continue };
                let prefix = format!("{}.{source}.{}", config.name, model.name);
                let [probabilities, embedding] = ["probabilities_first256", "embedding_first64"]
                    .map(|part| format!("{prefix}.{part}"));
                if !outputs.contains(&probabilities) {
                    continue;
                }
                let expected = outputs.f32_of_rank(&probabilities, 2)?;
                let said = look(backend, model, pixels, config, expected.shape[0])?;
                let wide = |v: &[f32]| v.iter().map(|&x| f64::from(x)).collect::<Vec<_>>();
                let got: Vec<f64> = said
                    .0
                    .data
                    .chunks(said.0.shape[1])
                    .flat_map(softmax)
                    .collect();
                let allowed = Tolerance::absolute(1e-5);
                check.close_all(&probabilities, &wide(&expected.data), &got, allowed);
                if outputs.contains(&embedding) {
                    let expected = outputs.f32_of_rank(&embedding, 2)?;
                    let got = said.1.data.get(..expected.len()).unwrap_or_default();
                    check.close_to_peak(&embedding, &expected.data, got, 1e-4);
                }
            }
            let Some(results) = &results else { continue };
            let root = results.root();
            let accuracy = root
                .get("configs")
                .and_then(|c| c.get(config.name))
                .and_then(|c| c.get("real_accuracy"))
                .and_then(|c| c.get(&model.name));
            if let Some(node) = accuracy {
                let n = set.real.len();
                let (logits, _) = look(backend, model, &set.real, config, n)?;
                let labels = match (&set.digit, model.name.contains("digit")) {
                    (Some(digit), true) => digit,
                    _ => &set.label,
                };
                let hits =
                    (0..n).filter(|&i| Ok(labels[i]) == i64::try_from(largest(logits.row(i))));
                let got = hits.count() as f64 / n as f64;
                let two = Tolerance::absolute(2.0 / n as f64);
                check.close(
                    format!("{}: accuracy on originals", model.name),
                    node.f64()?,
                    got,
                    two,
                );
            }
        }
        Ok(())
    }

    /// Oracle, FID and LVS of one method.
    pub fn results(
        &self,
        folder: &Folder,
        config: Config,
        method: &str,
        evaluated: &Evaluated<'_>,
        check: &mut Check,
    ) -> Result<()> {
        check.group(format!("{} own scores", config.name));
        let outputs = folder.tensors("own_model_outputs_first256.safetensors")?;
        if let Some(outputs) = outputs {
            for (name, got) in &evaluated.terms.labels {
                let array = format!("{}.{method}.{name}.js_divergence_first256", config.name);
                if !outputs.contains(&array) {
                    continue;
                }
                let expected = outputs.f32_or_nan(&array)?;
                let got = got.get(..expected.len()).unwrap_or_default();
                let (skipped, ours): (Vec<bool>, Vec<bool>) = expected
                    .iter()
                    .zip(got)
                    .map(|(e, g)| (e.is_nan(), g.is_none()))
                    .unzip();
                check.identical(format!("{array}: which samples count"), &skipped, &ours);
                let both = expected.iter().zip(got).filter(|(e, _)| !e.is_nan());
                let (expected, got): (Vec<f64>, Vec<f64>) = both
                    .map(|(e, g)| (f64::from(*e), g.unwrap_or(f64::NAN)))
                    .unzip();
                // Divergences of nearly equal opinions are differences of probabilities that are 1e-5 apart.
                check.close_all(&array, &expected, &got, Tolerance::both(1e-4, 1e-6));
            }
        }
        let Some(json) = folder.json("own_model_results.json")? else {
            return Ok(());
        };
        let node = json.root().get("configs").and_then(|c| c.get(config.name));
        let Some(node) = node.and_then(|c| c.get(method)) else {
            return Ok(());
        };
        // Repeated from published_results.json, which is read where it stands.
        node.skip_fields(&["Oracle_published", "FID256_published", "LVS_published"]);
        let all = evaluated.count();
        for (key, value) in node.fields()? {
            let (name, n) = limited(key, all);
            let scores = evaluated.scores(n)?;
            let kept = evaluated.terms.kept.iter().take(n).filter(|k| **k).count();
            match (name, self.networks.oracles.first()) {
                ("Oracle", Some(oracle)) => {
                    let score = scores.get(&format!("oracle_score/{}", oracle.name));
                    let two = Tolerance::absolute(2.0 / kept.max(1) as f64);
                    triple(check, &format!("{method} {key}"), &value, score, [two, two])?;
                }
                ("FID256", Some(_)) => {
                    let expected = value.f64s()?;
                    let score = scores.get("fid").cloned().unwrap_or_default();
                    let got = score.value.unwrap_or(f64::NAN);
                    let first = expected.first().copied().unwrap_or(f64::NAN);
                    let what = format!("{method} {key}");
                    check.close(&what, first, got, Tolerance::relative(1e-4));
                    let n = expected.get(1).copied().unwrap_or(f64::NAN);
                    let none = Tolerance::absolute(0.0);
                    check.close(format!("{what} n"), n, score.n as f64, none);
                }
                ("top1_probability_mean_over_kept", Some(_)) => {
                    let confidence = evaluated.terms.confidence.first();
                    let values: Vec<f64> = confidence
                        .into_iter()
                        .flatten()
                        .flatten()
                        .copied()
                        .collect();
                    let got = values.iter().sum::<f64>() / values.len() as f64;
                    let allowed = Tolerance::absolute(1e-5);
                    check.close(
                        format!("{method} mean top probability"),
                        value.f64()?,
                        got,
                        allowed,
                    );
                }
                ("LVS", _) => {
                    for (label, expected) in value.fields()? {
                        let (model, n) = limited(label, all);
                        let scores = evaluated.scores(n)?;
                        let name = format!("label_variation/{model}");
                        if self.networks.labels.iter().all(|m| m.name != model) {
                            continue;
                        }
                        // The reference is of f32 outputs; a tiny divergence keeps fewer digits.
                        let allowed = Tolerance::both(1e-4, 1e-8);
                        let what = format!("{method} LVS {label}");
                        triple(check, &what, &expected, scores.get(&name), [allowed; 2])?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// `NAME_firstN` is of the first N samples.
fn limited(name: &str, all: usize) -> (&str, usize) {
    match name.rsplit_once("_first") {
        Some((name, n)) => (name, n.parse().unwrap_or(all)),
        None => (name, all),
    }
}

fn largest(row: &[f32]) -> usize {
    (1..row.len()).fold(0, |best, k| if row[k] > row[best] { k } else { best })
}

/// Logits and embeddings of the first `n` images.
fn look<B: MetricBackend>(
    backend: &B,
    model: &LabelModel<B>,
    pixels: &Pixels,
    config: Config,
    n: usize,
) -> Result<(Array, Array)> {
    let [_, c, h, w] = pixels.shape;
    let scale = pixels
        .scale(config.name, config.range, Protocol::Exact)
        .of(config.name)?;
    let (mut logits, mut embedding) = (Array::zeros([0, 0]), Array::zeros([0, 0]));
    let members: Vec<usize> = (0..n.min(pixels.len())).collect();
    for batch in members.chunks(128) {
        let values = batch.iter().flat_map(|&i| pixels.image(i));
        let x = Array {
            shape: vec![batch.len(), c, h, w],
            data: values.map(|&v| scale.apply(v) as f32).collect(),
        };
        let said = model
            .look(backend, || x.clone(), || x.clone())
            .of(&model.name)?;
        for (all, more) in [(&mut logits, said.logits), (&mut embedding, said.embedding)] {
            all.shape = vec![all.shape[0] + more.shape[0], more.shape[1]];
            all.data.extend(more.data);
        }
    }
    Ok((logits, embedding))
}
