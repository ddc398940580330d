//! What every score of a run was computed with, and the plan a journal belongs to.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::scores::{Fingerprint, Group};
use super::settings::{Family, FidFeatures, Settings};
use super::work::Work;
use super::{JudgeSource, NamedJudge};

/// What stands for the network where the user gave logits.
const GIVEN: &str = "logits given by the user";

/// Collects fingerprints while the networks of a run are loaded.
pub struct Fingerprints {
    found: BTreeMap<String, Fingerprint>,
    protocol: String,
    /// How networks may multiply, where not in f32 only.
    arithmetic: Option<String>,
}

impl Fingerprints {
    pub fn new(settings: &Settings, arithmetic: &str) -> Self {
        let mut new = Self {
            found: BTreeMap::new(),
            protocol: settings.protocol.name().into(),
            arithmetic: (arithmetic != "f32").then(|| arithmetic.into()),
        };
        for name in ["l1", "l1_5", "l2", "elastic_net"] {
            new.put(name, |f| f.range = Some(settings.range));
        }
        new
    }

    fn put(&mut self, metric: &str, fill: impl FnOnce(&mut Fingerprint)) {
        let mut fingerprint = Fingerprint {
            metric: metric.into(),
            protocol: self.protocol.clone(),
            network: None,
            weights_sha256: None,
            preprocessing: None,
            range: None,
            options: None,
            arithmetic: None,
            reject_invalid: false,
            foil: env!("CARGO_PKG_VERSION").into(),
        };
        fill(&mut fingerprint);
        if fingerprint
            .network
            .as_deref()
            .is_some_and(|network| network != GIVEN)
        {
            fingerprint.arithmetic.clone_from(&self.arithmetic);
        }
        self.found.insert(metric.into(), fingerprint);
    }

    pub fn judge(&mut self, role: &str, judge: &NamedJudge) {
        self.put(role, |f| match &judge.source {
            JudgeSource::Network { card, loaded } => {
                f.network = Some(card.architecture.name().into());
                f.weights_sha256 = Some(loaded.sha256.clone());
                f.preprocessing = serde_json::to_string(&card.preprocessing).ok();
            }
            JudgeSource::Logits { sha256, .. } => {
                f.network = Some(GIVEN.into());
                f.weights_sha256 = Some(sha256.clone());
            }
        });
    }

    pub fn lpips(&mut self, settings: &Settings, sha256: &str) {
        for metric in ["lpips", "lpips_diversity"] {
            self.put(metric, |f| {
                f.network = Some(format!("lpips v0.1 {}", settings.lpips.name()));
                f.weights_sha256 = Some(sha256.into());
                f.range = Some([-1.0, 1.0]);
            });
        }
    }

    pub fn inception(&mut self, settings: &Settings, size: usize, sha256: &str) {
        for metric in [
            "fid",
            "kid",
            "precision",
            "recall",
            "density",
            "coverage",
            "inception_score",
        ] {
            self.put(metric, |f| {
                f.network = Some(format!("inception_v3_fid, {size} features"));
                f.weights_sha256 = Some(sha256.into());
                f.preprocessing = Some(format!("resize to 299x299: {}", settings.resize_name()));
            });
        }
    }

    /// What a journal must have been made with to be continued. Batch size and threads are not part of it.
    pub fn plan(&self, work: &Work, settings: &Settings) -> Value {
        let mut pairs = Sha256::new();
        for p in &work.pairs {
            for part in [
                p.pair.name.as_str(),
                &p.pair.original.to_string_lossy(),
                &p.pair.counterfactual.to_string_lossy(),
                &p.pair.group,
                p.pair.method.as_deref().unwrap_or_default(),
            ] {
                pairs.update(part.as_bytes());
                pairs.update([0]);
            }
            pairs.update(format!("{:?}{:?}", p.source, p.target));
        }
        for reference in &work.references {
            pairs.update(reference.to_string_lossy().as_bytes());
            pairs.update([0]);
        }
        json!({
            "foil": env!("CARGO_PKG_VERSION"),
            "pairs": work.pairs.len(),
            "files": hex(&pairs.finalize()),
            "protocol": self.protocol,
            "metrics": settings.selection.families,
            "lpips": settings.lpips.name(),
            "fid_features": match settings.fid_features {
                FidFeatures::Inception(n) => json!(n),
                FidFeatures::Embedding => json!("embedding"),
            },
            "fid_resize": settings.resize_name(),
            "skip_bad": settings.skip_bad,
            "maps": settings.maps,
            "networks": self.found,
        })
    }

    /// One fingerprint for every score that the groups hold, and those of the judges.
    pub fn finish(
        mut self,
        groups: &[Group],
        settings: &Settings,
        reference: bool,
    ) -> BTreeMap<String, Fingerprint> {
        let names: BTreeSet<&String> = groups.iter().flat_map(|g| g.scores.keys()).collect();
        self.found
            .retain(|n, _| n == "classifier" || n.starts_with("oracle/") || names.contains(n));
        for name in names {
            let family = Family::of(name);
            let judge = match name.split_once('/') {
                Some(("oracle_score" | "oracle_target_accuracy", oracle)) => {
                    format!("oracle/{oracle}")
                }
                _ => "classifier".to_string(),
            };
            if !self.found.contains_key(name)
                && let Some(like) = self.found.get(&judge).cloned()
            {
                self.found.insert(
                    name.clone(),
                    Fingerprint {
                        metric: name.clone(),
                        ..like
                    },
                );
            }
            let Some(fingerprint) = self.found.get_mut(name) else {
                continue;
            };
            fingerprint.reject_invalid =
                settings.reject_invalid && family != Some(Family::Validity);
            let real = if reference {
                "real set: reference"
            } else {
                "real set: originals"
            };
            fingerprint.options = match family {
                Some(Family::Fid) => Some(real.into()),
                Some(Family::Kid) => Some(format!(
                    "{real}, {} subsets of {}",
                    settings.kid_subsets,
                    settings
                        .kid_subset_size
                        .map_or("at most 1000".into(), |n| n.to_string())
                )),
                Some(Family::Prdc) => Some(format!("{real}, {} neighbours", settings.neighbours)),
                Some(Family::InceptionScore) => Some(format!("{} splits", settings.splits)),
                _ => None,
            };
        }
        self.found
    }
}

/// Lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
