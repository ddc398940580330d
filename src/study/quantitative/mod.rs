//! Tables 1–3 and the figures of \[quantitative-evaluations\]: scores of several methods side by side.
//!
//! A study is a list of [`MethodScores`], whatever made them: result folders of `foil score`, counterfactuals that a
//! configuration names, or a run that generates its own. [`table`] puts them into one table and refuses scores that were computed
//! with different networks, ranges or protocols.

mod bars;
mod error;
mod fakemnist;
mod given;
mod given_run;
mod grid;
pub mod made;
mod results;
mod seeds;
mod tables;

use std::collections::BTreeMap;

pub use bars::label_variation_svg;
pub use error::QuantitativeError;
pub use fakemnist::{FakeLabels, FakeSet, SEED, fake_labels, fake_mnist};
pub use given::{Data, Given};
pub use given_run::{Finished, run_given};
pub use grid::{GridColumn, counterfactual_grid};
pub use results::{holds_samples, read_results};
pub use seeds::{seeds_svg, seeds_table};
pub use tables::table;

use crate::score::{Fingerprint, Score, Scores};

/// The scores of one method (GB, GL, GEN, …) on one data set.
#[derive(Clone, Debug)]
pub struct MethodScores {
    pub method: String,
    /// Where they come from, for messages.
    pub place: String,
    pub scores: BTreeMap<String, Score>,
    pub fingerprints: BTreeMap<String, Fingerprint>,
    /// What became of samples that failed, are black or were left out.
    pub notes: Vec<String>,
}

impl MethodScores {
    /// One entry for each group of a result; a group without a method is named after itself.
    pub fn of(place: &str, scores: &Scores) -> Vec<Self> {
        let one = |group: &crate::score::Group| Self {
            method: group.method.clone().unwrap_or_else(|| group.name.clone()),
            place: place.into(),
            scores: group.scores.clone(),
            fingerprints: scores.fingerprints.clone(),
            notes: scores.notes.clone(),
        };
        scores.groups.iter().map(one).collect()
    }
}
