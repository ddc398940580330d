//! The networks that score: oracle, label networks and auto-encoders.

use std::collections::BTreeMap;

use super::{Config, Counterfactuals, MadeError, Result};
use crate::nets::build;
use crate::score::samples::Titles;
use crate::score::samples::load::card_range;
use crate::score::samples::{
    self, Autoencoders, LabelModel, Networks, Run, aggregate, counts, evaluate, fingerprints,
};
use crate::score::{Protocol, Scores, Selection};
use crate::tensor::cpu::Cpu;
use crate::tensor::{Backend, StateDict};
use crate::weights::{Registry, Role, sha256};

/// What is computed.
const METRICS: &str = "tcv,en,im1,im2,oracle,lvs,fid:embedding";

/// The networks that score, and in which range.
pub struct Judges {
    autoencoders: Autoencoders<Cpu>,
    oracle: LabelModel<Cpu>,
    labels: Vec<LabelModel<Cpu>>,
    range: [f64; 2],
    protocol: Protocol,
    seed: u64,
}

impl Judges {
    pub fn open(registry: &Registry, config: &Config) -> Result<Self> {
        let load = |name: &str, role: Role| -> Result<_> {
            let card = registry.card(name)?;
            if card.role != role {
                return Err(MadeError::Judge {
                    card: card.name.clone(),
                    what: format!("expected a {}, found a {}", role.name(), card.role.name()),
                });
            }
            // They are given values in the study's range, not pixels.
            let own = card_range(&card.preprocessing);
            let apart = |(a, &b): (&f64, &f32)| (a - f64::from(b)).abs() > 1e-3;
            if own.iter().zip(&config.range).any(apart) {
                let what = format!(
                    "range = {:?}: {} was trained on values in {own:?}; scores of other ranges mean other things \
                     ([quantitative-evaluations] section 4.2)",
                    config.range, card.name
                );
                return Err(MadeError::Config { what });
            }
            let loaded = registry.load(&card)?;
            Ok((card, loaded))
        };
        let model = |label: &str, name: &str| -> Result<LabelModel<Cpu>> {
            let (card, loaded) = load(name, Role::Classifier)?;
            Ok(LabelModel {
                name: label.to_owned(),
                net: build(card.architecture, &Cpu, &loaded.dict, &card.unet)?,
                preprocessing: None,
                architecture: card.architecture.to_string(),
                sha256: loaded.content_sha256(),
            })
        };
        let mut dicts: BTreeMap<String, StateDict> = BTreeMap::new();
        let mut sums = String::new();
        let classes = config.networks.autoencoders.iter().enumerate();
        let named = classes.map(|(class, name)| (class.to_string(), name));
        for (key, name) in named.chain([("all".to_owned(), &config.networks.autoencoder)]) {
            let (_, loaded) = load(name, Role::Autoencoder)?;
            sums.push_str(&loaded.content_sha256());
            dicts.insert(key, loaded.dict);
        }
        let labels = { config.labels.iter() }
            .map(|(label, name)| model(label, name))
            .collect::<Result<_>>()?;
        Ok(Self {
            autoencoders: Autoencoders::new(&Cpu, &dicts, sha256(sums.as_bytes()))?,
            oracle: model("oracle", &config.networks.oracle)?,
            labels,
            range: config.range.map(f64::from),
            protocol: config.protocol,
            seed: config.seed,
        })
    }

    /// All scores of a method. What cannot be computed of its counterfactuals, because there are too few, has no value.
    pub fn score(&self, made: &Counterfactuals) -> Result<Scores> {
        let selection = Selection::parse(METRICS).map_err(|what| MadeError::Config { what })?;
        let run = Run {
            selection: &selection,
            range: self.range,
            protocol: self.protocol,
            reject_invalid: self.protocol.rejects_invalid(),
            skip_bad: false,
        };
        let networks = Networks {
            autoencoders: Some(&self.autoencoders),
            oracles: vec![&self.oracle],
            labels: self.labels.iter().collect(),
        };
        let terms = evaluate(&Cpu, &made.samples, &networks, &run, &mut |_, _| {})?;
        let scores = aggregate(&made.samples, &terms, &run)?;
        let fingerprints = fingerprints(&scores, &networks, &run, Cpu.arithmetic());
        let device = Cpu.describe();
        let titles = Titles {
            name: &made.method,
            method: Some(&made.method),
            classifier: None,
            device: &device,
            seed: self.seed,
        };
        let counts = counts(&made.samples, &terms);
        let oracles = vec![self.oracle.name.clone()];
        Ok(samples::scores(
            &titles,
            scores,
            fingerprints,
            counts,
            &run,
            oracles,
        ))
    }
}
