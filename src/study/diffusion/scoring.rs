//! Scores of the groups of one run: a classifier in one setup.

use std::collections::BTreeMap;

use super::config::{Config, Named, Setup};
use super::error::{Result, StudyError};
use super::groups::Group;
use super::rows::{Row, columns};
use crate::explain::diffusion::Made;
use crate::images::{Pair, Pairing};
use crate::score::{
    self, Family, Inputs, JudgeSource, Labels, NamedJudge, PairRow, Selection, Settings,
};
use crate::tensor::{Opened, Precision, WithGradients};
use crate::weights::Registry;

/// A group that is made, with its results in the order of its originals.
pub struct Finished<'a> {
    pub group: Group<'a>,
    pub made: Vec<Made>,
    /// Why originals have no result, by their names.
    pub lost: BTreeMap<String, String>,
    /// What it is made from: see [`Row`].
    pub made_from: String,
}

/// The networks that judge: classifiers, and oracles that are none.
pub fn judges(config: &Config) -> impl Iterator<Item = &Named> {
    config.classifiers.iter().chain(&config.oracles)
}

/// The rows of finished groups.
pub fn rows(
    config: &Config,
    registry: &Registry,
    device: &WithGradients,
    classifier: &Named,
    setup: Setup,
    finished: &[Finished<'_>],
    progress: score::Progress<'_>,
) -> Result<Vec<Row>> {
    let run = format!("{} with {}", classifier.name, setup.name());
    let open = |named: &Named| -> Result<NamedJudge> {
        let card = config.card(registry, &named.card)?;
        let loaded = registry.load(&card)?;
        Ok(NamedJudge {
            name: named.name.clone(),
            source: JudgeSource::Network {
                card: Box::new(card),
                loaded: Box::new(loaded),
            },
        })
    };
    let mut pairing = Pairing {
        pairs: finished.iter().flat_map(pairs).collect(),
        unpaired_originals: Vec::new(),
        unpaired_counterfactuals: Vec::new(),
    };
    score::order(&mut pairing);
    let inputs = Inputs {
        pairing,
        classifier: Some(open(classifier)?),
        oracles: judges(config).map(open).collect::<Result<_>>()?,
        labels: Labels::new(config.card(registry, &classifier.card)?.labels),
        source: None,
        target: None,
        reference: None,
    };
    let settings = Settings {
        selection: Selection {
            families: [Family::Validity, Family::Lp, Family::Lpips, Family::Fid].into(),
            explicit: true,
            embedding: false,
        },
        protocol: config.scores.protocol(),
        seed: config.generation.seed,
        bootstrap: 0,
        ..Settings::default()
    };
    let fail = |source: score::ScoreError| StudyError::Score {
        run: run.clone(),
        source: Box::new(source),
    };
    let journal = tempfile::tempdir()
        .map_err(|e| StudyError::file(&std::env::temp_dir(), format!("cannot write: {e}")))?;
    let place = score::Place {
        journal: journal.path(),
        resume: false,
        maps: None,
    };
    let (_, opened, _) = device.device().open(Precision::F32)?;
    let outcome = match opened {
        Opened::Cpu(cpu) => score::score(&cpu, registry, inputs, &settings, place, progress),
        Opened::Gpu(gpu) => score::score(&gpu, registry, inputs, &settings, place, progress),
    };
    let outcome = outcome.map_err(fail)?;
    let names: Vec<String> = judges(config).map(|n| n.name.clone()).collect();
    let mut rows = Vec::new();
    for one in finished {
        let mut row = Row::new(&classifier.name, setup, &one.group, one.made_from.clone());
        let name = one.group.folder();
        let scored = outcome.scores.groups.iter().find(|g| g.name == name);
        for (column, score) in columns(&names) {
            let (score, spread) = match score.strip_suffix("/std") {
                Some(score) => (score.to_owned(), true),
                None => (score, false),
            };
            let found = scored.and_then(|g| g.scores.get(&score));
            let value = found.and_then(|s| if spread { s.std } else { s.value });
            let value = value.ok_or_else(|| StudyError::NoScore {
                run: run.clone(),
                group: name.clone(),
                column: column.clone(),
                why: found
                    .and_then(|s| s.note.clone())
                    .unwrap_or("it was not computed".into()),
            })?;
            row.values.insert(column, value);
        }
        row.lost = one.lost.clone();
        let count = one.made.len().max(1) as f64;
        let flipped = one.made.iter().filter(|m| m.record.flipped).count() as f64;
        row.values.insert("images".into(), one.made.len() as f64);
        row.values.insert("flip_rate".into(), flipped / count);
        for pair in outcome.pairs.iter().filter(|p| p.group == name) {
            let flipped =
                { one.made.iter() }.any(|m| m.record.original == pair.name && m.record.flipped);
            let verdict = match flipped {
                true => verdict(independent(config, &classifier.name, &names, pair)),
                false => "not flipped",
            };
            row.verdicts.insert(pair.name.clone(), verdict.to_owned());
        }
        rows.push(row);
    }
    Ok(rows)
}

fn pairs<'a>(finished: &'a Finished<'_>) -> impl Iterator<Item = Pair> + 'a {
    let group = &finished.group;
    let there = { group.originals.iter() }.filter(|o| !finished.lost.contains_key(&o.name));
    there.zip(&finished.made).map(|(original, made)| Pair {
        name: original.name.clone(),
        original: original.path.clone(),
        counterfactual: made.at.image.clone(),
        source: Some(group.source.label()),
        target: Some(group.target.label()),
        group: group.folder(),
        method: None,
    })
}

/// Whether networks that take no part in the making call a counterfactual its target: those that only judge, or where there are
/// none, all but the classifier itself.
fn independent(config: &Config, classifier: &str, names: &[String], pair: &PairRow) -> Vec<bool> {
    let independent = |name: &String| match config.oracles.is_empty() {
        true => name != classifier,
        false => config.oracles.iter().any(|o| o.name == *name),
    };
    let said = names.iter().zip(&pair.oracles);
    said.filter(|(name, _)| independent(name))
        .map(|(_, class)| pair.target.as_ref() == Some(class))
        .collect()
}

/// Of a flipped counterfactual. Where nobody independent was asked, nobody knows more than that.
fn verdict(said: Vec<bool>) -> &'static str {
    let agree = said.iter().filter(|yes| **yes).count();
    match (said.len(), 2 * agree > said.len()) {
        (0, _) => "flipped",
        (_, true) => "counterfactual",
        (_, false) => "adversarial",
    }
}

#[cfg(test)]
mod tests {
    use super::verdict;

    #[test]
    fn a_verdict_is_that_of_a_majority_and_none_where_nobody_was_asked() {
        assert_eq!(verdict(vec![]), "flipped");
        assert_eq!(verdict(vec![true, true, false]), "counterfactual");
        assert_eq!(verdict(vec![true, false]), "adversarial");
        assert_eq!(verdict(vec![false]), "adversarial");
    }
}
