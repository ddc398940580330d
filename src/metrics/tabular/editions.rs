//! All metrics of a row in one edition.

use serde::Serialize;

use super::distances::{
    Mahalanobis, l2, madd_columns, madd_features, mahalanobis_not_inverted, sparsity_columns,
    sparsity_features,
};
use super::realism::{Realism, RealismRules};
use crate::metrics::Result;
use crate::tabular::{Encoding, Rule, Statistics};

/// In which way the metrics are computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Edition {
    /// The formulas of the paper, without the mistakes of its code.
    #[default]
    Paper,
    /// The code that made the published tables.
    V1,
    /// The later package.
    V2,
}

/// A counterfactual (none, or with NaN: not found) with the probability of class 1 there.
pub struct Judged<'a> {
    pub factual: &'a [f64],
    /// Class of the factual.
    pub class: usize,
    pub counterfactual: Option<&'a [f64]>,
    pub probability: f64,
}

/// The scores of one counterfactual; distances only where the class has changed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RowScores {
    /// The class is the other one.
    pub coverage: bool,
    /// v2 asks for encoded columns that make sense as well.
    pub validity: bool,
    pub sparsity: Option<f64>,
    pub l2: Option<f64>,
    pub madd: Option<f64>,
    pub md: Option<f64>,
    /// Mahalanobis distance to the factual; paper edition only.
    pub md_to_factual: Option<f64>,
    pub ruc: bool,
    pub rmc: bool,
    #[serde(skip)]
    pub realism: Realism,
}

/// What all rows of a table share.
pub struct Scorer<'a> {
    pub encoding: &'a Encoding,
    /// Statistics of all rows.
    pub all: Statistics,
    /// Statistics of the training rows.
    pub train: Statistics,
    mahalanobis: Mahalanobis,
    deviation: Vec<f64>,
    rules: Vec<Rule>,
    rules_as_run: Vec<Rule>,
}

impl<'a> Scorer<'a> {
    /// `rules_as_run` are what v1 checks; the schema's own rules are for the paper edition.
    pub fn new(
        encoding: &'a Encoding,
        rows: &[Vec<f64>],
        train: &[Vec<f64>],
        rules_as_run: Vec<Rule>,
    ) -> Result<Self> {
        let all = Statistics::of(rows);
        let mahalanobis = Mahalanobis::new(&all.covariance, encoding.width())?;
        let away = |c: usize| -> f64 {
            let sum: f64 = rows.iter().map(|r| (r[c] - all.mean[c]).abs()).sum();
            sum / rows.len() as f64
        };
        let deviation = (0..encoding.width())
            .map(|c| {
                if all.mad[c] > 0.0 {
                    all.mad[c]
                } else {
                    away(c).max(f64::MIN_POSITIVE)
                }
            })
            .collect();
        Ok(Self {
            encoding,
            train: Statistics::of(train),
            mahalanobis,
            deviation,
            rules: encoding.schema.rules.clone(),
            rules_as_run,
            all,
        })
    }

    /// The Mahalanobis distance of the paper edition.
    pub fn mahalanobis(&self) -> &Mahalanobis {
        &self.mahalanobis
    }

    /// Scores one counterfactual.
    pub fn score(&self, judged: &Judged<'_>, edition: Edition) -> RowScores {
        let found = judged
            .counterfactual
            .filter(|c| c.iter().all(|v| v.is_finite()));
        let p = judged.probability;
        let class = match edition {
            Edition::Paper => usize::from(p > 0.5),
            // Half to even: one half is 0.
            _ => p.round_ties_even() as usize,
        };
        let flipped = found.is_some() && p.is_finite() && class != judged.class;
        let half = (p * 1e5).round_ties_even() / 1e5 == 0.5;
        let coverage = flipped || (edition == Edition::V2 && found.is_some() && half);
        let by = match edition {
            Edition::Paper => RealismRules::Paper,
            Edition::V1 => RealismRules::V1,
            Edition::V2 => RealismRules::V2,
        };
        let rules = match edition {
            Edition::Paper => &self.rules,
            Edition::V1 => &self.rules_as_run,
            Edition::V2 => &Vec::new(),
        };
        let seen = judged.counterfactual.unwrap_or(&[]);
        let realism = match seen.len() == self.encoding.width() {
            true => Realism::of(self.encoding, rules, by, seen),
            false => Realism {
                binary: Some(false),
                one_hot: Some(false),
                ..Realism::default()
            },
        };
        let (ruc, rmc) = (realism.ruc(by), realism.rmc(by));
        let validity = coverage && (edition != Edition::V2 || (ruc && rmc));
        let mut scores = RowScores {
            coverage,
            validity,
            sparsity: None,
            l2: None,
            madd: None,
            md: None,
            md_to_factual: None,
            // v1 and the paper edition check only what has changed its class.
            ruc: ruc && (coverage || edition == Edition::V2),
            rmc: rmc && (coverage || edition == Edition::V2),
            realism,
        };
        if let (Some(other), true) = (found, coverage) {
            self.distances(judged.factual, other, edition, &mut scores);
        }
        scores
    }

    fn distances(&self, factual: &[f64], other: &[f64], edition: Edition, scores: &mut RowScores) {
        let encoding = self.encoding;
        if edition == Edition::Paper {
            scores.sparsity = Some(sparsity_features(encoding, factual, other));
            scores.l2 = Some(l2(factual, other, false));
            scores.madd = Some(madd_features(encoding, &self.deviation, factual, other));
            scores.md = Some(self.mahalanobis.distance(other, &self.all.mean));
            scores.md_to_factual = Some(self.mahalanobis.distance(other, factual));
            return;
        }
        let statistics = if edition == Edition::V1 {
            &self.all
        } else {
            &self.train
        };
        scores.sparsity = Some(sparsity_columns(factual, other));
        scores.l2 = Some(l2(factual, other, true));
        scores.madd = Some(madd_columns(encoding, &statistics.mad, factual, other));
        scores.md = Some(mahalanobis_not_inverted(
            &statistics.covariance,
            factual,
            other,
        ));
    }

    /// MADD as v1 and v2 wrote it to their tables: the n-th covered row gets the value of row n, so that values land on later rows, or none does,
    /// once a row is not covered.
    pub fn madd_misaligned(scores: &[RowScores]) -> Vec<Option<f64>> {
        let mut at = 0;
        let next = |score: &RowScores| {
            let value = score.coverage.then(|| scores[at].madd).flatten();
            at += usize::from(score.coverage);
            value
        };
        scores.iter().map(next).collect()
    }
}

impl Edition {
    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Edition::Paper => "paper",
            Edition::V1 => "v1",
            Edition::V2 => "v2",
        }
    }
}
