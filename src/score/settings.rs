//! What a scoring run computes, and how.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::metrics::lpips::LpipsNet;
use crate::tensor::Resize;

/// A family of scores that is computed together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    Validity,
    Lp,
    ElasticNet,
    Lpips,
    Diversity,
    Fid,
    Kid,
    InceptionScore,
    Prdc,
    /// Of \[quantitative-evaluations\], over samples; see [`super::samples`].
    TargetClassValidity,
    Im1,
    Im2,
    Oracle,
    LabelVariation,
}

impl Family {
    /// Families that only a run over samples computes.
    pub const OF_SAMPLES: [Family; 5] = [
        Family::TargetClassValidity,
        Family::Im1,
        Family::Im2,
        Family::Oracle,
        Family::LabelVariation,
    ];

    /// Families of a run over pairs of images.
    pub const ALL: [Family; 9] = [
        Family::Validity,
        Family::Lp,
        Family::ElasticNet,
        Family::Lpips,
        Family::Diversity,
        Family::Fid,
        Family::Kid,
        Family::InceptionScore,
        Family::Prdc,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Family::Validity => "validity",
            Family::Lp => "lp",
            Family::ElasticNet => "elastic_net",
            Family::Lpips => "lpips",
            Family::Diversity => "diversity",
            Family::Fid => "fid",
            Family::Kid => "kid",
            Family::InceptionScore => "inception_score",
            Family::Prdc => "prdc",
            Family::TargetClassValidity => "target_class_validity",
            Family::Im1 => "im1",
            Family::Im2 => "im2",
            Family::Oracle => "oracle",
            Family::LabelVariation => "label_variation",
        }
    }

    /// The family a score (by its name in `scores.json`) belongs to.
    pub fn of(score: &str) -> Option<Self> {
        let base = score.split('/').next().unwrap_or(score);
        NAMES.iter().find(|(n, _)| *n == base).map(|(_, f)| *f)
    }

    /// Needs features of the two sets of images.
    pub fn is_realism(self) -> bool {
        matches!(
            self,
            Family::Fid | Family::Kid | Family::Prdc | Family::InceptionScore
        )
    }
}

/// Scores by name and the family that yields them. `/` stands for "one per oracle or rule".
const NAMES: [(&str, Family); 35] = [
    ("target_accuracy", Family::Validity),
    ("original_accuracy", Family::Validity),
    ("neither", Family::Validity),
    ("target_confidence", Family::Validity),
    ("original_confidence", Family::Validity),
    ("oracle_score", Family::Validity),
    ("oracle_target_accuracy", Family::Validity),
    ("committee_target_accuracy", Family::Validity),
    ("l1", Family::Lp),
    ("l1_5", Family::Lp),
    ("l2", Family::Lp),
    ("elastic_net", Family::ElasticNet),
    ("elastic-net", Family::ElasticNet),
    ("lpips", Family::Lpips),
    ("lpips_diversity", Family::Diversity),
    ("diversity", Family::Diversity),
    ("fid", Family::Fid),
    ("kid", Family::Kid),
    ("inception_score", Family::InceptionScore),
    ("is", Family::InceptionScore),
    ("precision", Family::Prdc),
    ("recall", Family::Prdc),
    ("density", Family::Prdc),
    ("coverage", Family::Prdc),
    ("precision-recall", Family::Prdc),
    ("en", Family::ElasticNet),
    ("tcv", Family::TargetClassValidity),
    ("target_class_validity", Family::TargetClassValidity),
    ("im1_numerator", Family::Im1),
    ("im1_denominator", Family::Im1),
    ("im2_numerator", Family::Im2),
    ("im2_denominator", Family::Im2),
    ("lvs", Family::LabelVariation),
    ("label_variation", Family::LabelVariation),
    ("fid:embedding", Family::Fid),
];

/// Which families to compute; `None` means all that the inputs allow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Selection {
    pub families: BTreeSet<Family>,
    /// True if the user named them: then one that cannot be computed is an error.
    pub explicit: bool,
    /// `fid:embedding` was named.
    pub embedding: bool,
}

impl Selection {
    /// What is computed when nothing is asked for.
    pub fn standard() -> Self {
        let families = [
            Family::Validity,
            Family::Lp,
            Family::ElasticNet,
            Family::Lpips,
            Family::Diversity,
            Family::Fid,
        ];
        Self {
            families: families.into(),
            explicit: false,
            embedding: false,
        }
    }

    /// Reads a comma-separated list of score names, family names or `all`.
    pub fn parse(list: &str) -> Result<Self, String> {
        let mut families = BTreeSet::new();
        let mut embedding = false;
        for item in list.split(',').map(str::trim).filter(|s| !s.is_empty()) {
            let base = item.split('/').next().unwrap_or(item);
            if base == "all" {
                families.extend(Family::ALL);
                continue;
            }
            embedding |= base == "fid:embedding";
            let family = Family::ALL
                .into_iter()
                .chain(Family::OF_SAMPLES)
                .find(|f| f.name() == base)
                .or_else(|| NAMES.iter().find(|(n, _)| *n == base).map(|(_, f)| *f));
            families.insert(family.ok_or_else(|| {
                let all = Family::ALL.iter().chain(&Family::OF_SAMPLES);
                let known: Vec<&str> = all.map(|f| f.name()).collect();
                format!(
                    "unknown metric {item:?}; known: {}, the names of single scores (such as l1, precision), and all",
                    known.join(", ")
                )
            })?);
        }
        if families.is_empty() {
            return Err("the list of metrics is empty".into());
        }
        Ok(Self {
            families,
            explicit: true,
            embedding,
        })
    }

    pub fn has(&self, family: Family) -> bool {
        self.families.contains(&family)
    }

    /// True if a metric was named that only a run over samples computes.
    pub fn of_samples(&self) -> bool {
        Family::OF_SAMPLES.iter().any(|f| self.has(*f))
    }

    /// True if features of image sets are needed.
    pub fn realism(&self) -> bool {
        self.families.iter().any(|f| f.is_realism())
    }
}

/// What the numbers follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// What the paper defines.
    #[default]
    Exact,
    /// What the study's code did: one norm over all images of a group, min-max rescaling before LPIPS, pixels
    /// wrapped modulo 256 before FID, TensorFlow-1 resize.
    Published,
}

impl Protocol {
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Exact => "exact",
            Protocol::Published => "published",
        }
    }

    /// Whether samples whose prediction is not the target are left out of all scores but the validity, as the paper of the
    /// quantitative evaluations defines them; its code keeps them.
    pub fn rejects_invalid(self) -> bool {
        self == Protocol::Exact
    }
}

/// Which features FID, KID and precision/recall compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FidFeatures {
    /// Inception features: 64, 192, 768 or 2048.
    Inception(usize),
    /// The classifier's embedding.
    Embedding,
}

impl std::str::FromStr for FidFeatures {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "embedding" => Ok(Self::Embedding),
            "64" | "192" | "768" | "2048" => Ok(Self::Inception(text.parse().unwrap_or(64))),
            _ => Err(format!(
                "unknown features {text:?}; use 64, 192, 768, 2048 or embedding"
            )),
        }
    }
}

/// Settings of a run. All but `batch` and `cache_bytes` are part of what a score means.
#[derive(Clone, Debug)]
pub struct Settings {
    pub selection: Selection,
    pub lpips: LpipsNet,
    pub fid_features: FidFeatures,
    pub fid_resize: Resize,
    pub protocol: Protocol,
    /// Leave pairs whose counterfactual the classifier does not call the target out of closeness, diversity
    /// and realism.
    pub reject_invalid: bool,
    /// Pixel range in which Lp distances are measured.
    pub range: [f64; 2],
    pub seed: u64,
    /// Bootstrap replicates of FID and KID intervals; 0 for none.
    pub bootstrap: usize,
    /// Neighbours of precision/recall/density/coverage.
    pub neighbours: usize,
    /// Subsets of KID and their size (the largest that fits, up to 1000, if `None`).
    pub kid_subsets: usize,
    pub kid_subset_size: Option<usize>,
    pub splits: usize,
    /// Skip and count images that cannot be read instead of stopping.
    pub skip_bad: bool,
    /// Write a heat map of LPIPS for each pair.
    pub maps: bool,
    pub max_pixels: u64,
    /// Pairs computed together; results do not depend on it.
    pub batch: usize,
    /// Most memory for kept LPIPS features.
    pub cache_bytes: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            selection: Selection::standard(),
            lpips: LpipsNet::Alex,
            fid_features: FidFeatures::Inception(64),
            fid_resize: Resize::Tf1,
            protocol: Protocol::Exact,
            reject_invalid: false,
            range: [-1.0, 1.0],
            seed: 0,
            bootstrap: 200,
            neighbours: 5,
            kid_subsets: 100,
            kid_subset_size: None,
            splits: 10,
            skip_bad: false,
            maps: false,
            max_pixels: crate::images::Limits::default().max_pixels,
            batch: 8,
            cache_bytes: 512 << 20,
        }
    }
}

impl Settings {
    pub fn resize_name(&self) -> &'static str {
        match self.fid_resize {
            Resize::Tf1 => "tf1",
            Resize::HalfPixel => "halfpixel",
            Resize::Antialias => "antialias",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_metrics_takes_families_and_single_scores() {
        let s = Selection::parse("lpips, l1,precision,oracle_score/resnet").unwrap();
        let expected = [Family::Validity, Family::Lp, Family::Lpips, Family::Prdc];
        assert_eq!(s.families, expected.into());
        assert!(s.explicit);
    }

    #[test]
    fn an_unknown_metric_is_an_error_that_lists_the_known_ones() {
        let error = Selection::parse("lpips,ssim").unwrap_err();
        assert!(error.contains("ssim") && error.contains("lpips") && error.contains("fid"));
    }
}
