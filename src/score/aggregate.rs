//! Records → scores of each group.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::evaluate::EvaluateError;
use super::journal::{Journal, PairRecord, Record};
use super::realism;
use super::scores::{Group, Score, SkippedFile};
use super::settings::{Family, Protocol, Settings};
use super::work::{GroupPlan, Work};
use crate::metrics::MetricBackend;
use crate::metrics::lp::DifferenceSums;
use crate::metrics::validity::{self, Verdict};
use crate::metrics::votes::{Vote, count_votes};

/// The records of a run by what they are about.
pub struct Index<'a> {
    pub pairs: HashMap<usize, &'a PairRecord>,
    pub skipped: BTreeMap<usize, &'a str>,
    pub original_rows: HashMap<usize, usize>,
    pub reference_rows: HashMap<usize, usize>,
    pub bad_references: Vec<(usize, &'a str)>,
}

impl<'a> Index<'a> {
    pub fn new(records: &'a [Record]) -> Self {
        let mut index = Self {
            pairs: HashMap::new(),
            skipped: BTreeMap::new(),
            original_rows: HashMap::new(),
            reference_rows: HashMap::new(),
            bad_references: Vec::new(),
        };
        for record in records {
            match record {
                Record::Pair(p) => drop(index.pairs.insert(p.pair, p)),
                Record::Skipped { pair, reason, .. } => drop(index.skipped.insert(*pair, reason)),
                Record::Original {
                    original,
                    features: Some(row),
                    ..
                } => drop(index.original_rows.insert(*original, *row)),
                Record::Original { .. } => {}
                Record::Reference {
                    reference,
                    features,
                    reason,
                    ..
                } => match (features, reason) {
                    (Some(row), _) => drop(index.reference_rows.insert(*reference, *row)),
                    (None, Some(reason)) => index.bad_references.push((*reference, reason)),
                    (None, None) => {}
                },
            }
        }
        index
    }
}

/// Differences of pixels 0..255 brought to a range of width `high − low`.
pub fn in_range(sums: &DifferenceSums, range: [f64; 2]) -> DifferenceSums {
    let factor = (range[1] - range[0]) / 255.0;
    DifferenceSums {
        absolute: sums.absolute * factor,
        power_1_5: sums.power_1_5 * factor.powf(1.5),
        squared: sums.squared * factor * factor,
    }
}

/// What the committee says of one pair, if there are oracles. Journals of older versions hold the opinions only.
pub fn vote(record: &PairRecord) -> Option<Vote> {
    if record.committee.is_some() {
        return record.committee;
    }
    let votes: Vec<Vec<usize>> = record.oracles.iter().map(|o| vec![o.class]).collect();
    let classes = record.oracles.iter().map(|o| o.class + 1).max()?;
    let ballots = count_votes(&votes, classes).ok()?;
    ballots.first().map(Vote::from)
}

/// The verdict on one pair, if it can be given.
pub fn verdict(record: &PairRecord, target: Option<usize>) -> Option<Verdict> {
    let predicted = record.classifier.as_ref()?.class;
    let target = target?;
    // An unknown source can only not be recognised, which `usize::MAX` does.
    let source = record.source.unwrap_or(usize::MAX);
    let committee = vote(record).map(|b| b.plurality);
    Some(validity::verdict(predicted, committee, source, target))
}

/// Scores of one group.
pub fn group<B: MetricBackend>(
    backend: &B,
    plan: &GroupPlan,
    work: &Work,
    index: &Index<'_>,
    oracles: &[String],
    settings: &Settings,
    journal: &mut Journal,
) -> Result<Group, EvaluateError> {
    let all: Vec<&PairRecord> = plan
        .pairs
        .clone()
        .filter_map(|i| index.pairs.get(&i).copied())
        .collect();
    let mut scores = BTreeMap::new();
    let mut verdicts = BTreeMap::new();
    for record in &all {
        if let Some(v) = verdict(record, work.pairs[record.pair].target) {
            *verdicts.entry(verdict_name(v).to_string()).or_insert(0) += 1;
        }
    }
    if settings.selection.has(Family::Validity) && all.iter().any(|r| r.classifier.is_some()) {
        validity_scores(&all, work, oracles, &mut scores);
    }
    let kept: Vec<&PairRecord> = if settings.reject_invalid {
        all.iter()
            .copied()
            .filter(|r| {
                let class = r.classifier.as_ref().map(|c| c.class);
                class.is_some() && class == work.pairs[r.pair].target
            })
            .collect()
    } else {
        all.clone()
    };
    closeness(&kept, settings, &mut scores);
    let diversity_wanted = work.has_sets || settings.selection.explicit;
    if settings.selection.has(Family::Diversity) && diversity_wanted {
        scores.insert("lpips_diversity".into(), diversity(&all, &kept, work));
    }
    realism::scores(
        backend,
        plan,
        work,
        &kept,
        index,
        settings,
        journal,
        &mut scores,
    )?;
    let originals: BTreeSet<usize> = all.iter().map(|r| work.pairs[r.pair].original).collect();
    let skipped = plan
        .pairs
        .clone()
        .filter(|i| index.skipped.contains_key(i))
        .count();
    Ok(Group {
        name: plan.name.clone(),
        method: plan.method.clone(),
        source: plan.source.clone(),
        target: plan.target.clone(),
        pairs: all.len(),
        skipped,
        originals: originals.len(),
        verdicts,
        scores,
    })
}

/// As printed and stored.
pub fn verdict_name(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Counterfactual => "counterfactual",
        Verdict::Adversarial => "adversarial",
        Verdict::Unflipped => "unflipped",
        Verdict::Other => "other",
        Verdict::Flipped => "flipped",
    }
}

fn validity_scores(
    records: &[&PairRecord],
    work: &Work,
    oracles: &[String],
    scores: &mut BTreeMap<String, Score>,
) {
    let target = |r: &PairRecord| work.pairs[r.pair].target;
    let class = |r: &PairRecord| r.classifier.as_ref().map(|c| c.class);
    let with_target: Vec<&PairRecord> = records
        .iter()
        .copied()
        .filter(|r| target(r).is_some())
        .collect();
    let with_source: Vec<&PairRecord> = records
        .iter()
        .copied()
        .filter(|r| r.source.is_some())
        .collect();
    let both: Vec<&PairRecord> = with_target
        .iter()
        .copied()
        .filter(|r| r.source.is_some())
        .collect();
    let share = |among: &[&PairRecord], test: &dyn Fn(&PairRecord) -> bool| {
        Score::fraction(among.iter().filter(|r| test(r)).count(), among.len())
    };
    let no_target =
        "no target class is known; give --target, a manifest, or SOURCE_to_TARGET folders";
    let no_source = "no source class is known; give --source, a manifest, or a classifier network";
    let or_missing = |among: &[&PairRecord], score: Score, why: &str| {
        if among.is_empty() {
            Score::missing(0, why.into())
        } else {
            score
        }
    };
    let mut put = |name: String, score: Score| drop(scores.insert(name, score));
    let hits = share(&with_target, &|r| class(r) == target(r));
    put(
        "target_accuracy".into(),
        or_missing(&with_target, hits, no_target),
    );
    let stays = share(&with_source, &|r| class(r) == r.source);
    put(
        "original_accuracy".into(),
        or_missing(&with_source, stays, no_source),
    );
    let neither = share(&both, &|r| class(r) != target(r) && class(r) != r.source);
    let why = if with_target.is_empty() {
        no_target
    } else {
        no_source
    };
    put("neither".into(), or_missing(&both, neither, why));
    let confidence = |pick: fn(&PairRecord) -> Option<f64>| {
        Score::mean(&records.iter().filter_map(|r| pick(r)).collect::<Vec<f64>>())
    };
    let of_target = confidence(|r| r.classifier.as_ref().and_then(|c| c.target));
    put(
        "target_confidence".into(),
        or_missing(&with_target, of_target, no_target),
    );
    let of_source = confidence(|r| r.classifier.as_ref().and_then(|c| c.source));
    put(
        "original_confidence".into(),
        or_missing(&with_source, of_source, no_source),
    );
    for (k, oracle) in oracles.iter().enumerate() {
        let says = |r: &PairRecord| r.oracles.get(k).map(|o| o.class);
        put(
            format!("oracle_score/{oracle}"),
            share(records, &|r| says(r) == class(r)),
        );
        let score = share(&with_target, &|r| says(r) == target(r));
        put(
            format!("oracle_target_accuracy/{oracle}"),
            or_missing(&with_target, score, no_target),
        );
    }
    if oracles.is_empty() {
        return;
    }
    type Rule = fn(&PairRecord) -> Option<usize>;
    let rules: [(&str, Rule); 4] = [
        ("plurality", |r| vote(r).map(|b| b.plurality)),
        ("majority", |r| vote(r).and_then(|b| b.strict_majority)),
        ("unanimity", |r| vote(r).and_then(|b| b.unanimous)),
        ("mean_probability", |r| r.mean_probability),
    ];
    for (name, rule) in rules {
        if name == "mean_probability" && records.iter().all(|r| r.mean_probability.is_none()) {
            let why = "the oracles have different numbers of classes";
            put(
                format!("committee_target_accuracy/{name}"),
                Score::missing(0, why.into()),
            );
            continue;
        }
        let score = share(&with_target, &|r| rule(r) == target(r));
        put(
            format!("committee_target_accuracy/{name}"),
            or_missing(&with_target, score, no_target),
        );
    }
}

fn closeness(records: &[&PairRecord], settings: &Settings, scores: &mut BTreeMap<String, Score>) {
    let sums: Vec<DifferenceSums> = records
        .iter()
        .filter_map(|r| r.difference.as_ref())
        .map(|d| in_range(d, settings.range))
        .collect();
    let published = settings.protocol == Protocol::Published;
    let whole = crate::metrics::lp::whole_batch(&sums);
    let mut put = |name: &str, pick: &dyn Fn(&DifferenceSums) -> f64| {
        let score = if published {
            Score {
                value: (!sums.is_empty()).then(|| pick(&whole)),
                n: sums.len(),
                note: Some("one norm over all images of the group, as published".into()),
                ..Score::default()
            }
        } else {
            Score::mean(&sums.iter().map(pick).collect::<Vec<f64>>())
        };
        scores.insert(name.into(), score);
    };
    if settings.selection.has(Family::Lp) {
        put("l1", &|d| d.norms().l1);
        put("l1_5", &|d| d.norms().l1_5);
        put("l2", &|d| d.norms().l2);
    }
    if settings.selection.has(Family::ElasticNet) {
        if published {
            put("elastic_net", &|d| d.elastic_net_published());
        } else {
            put("elastic_net", &|d| d.elastic_net());
        }
    }
    if settings.selection.has(Family::Lpips) {
        let values: Vec<f64> = records.iter().filter_map(|r| r.lpips).collect();
        scores.insert("lpips".into(), Score::mean(&values));
    }
}

/// Mean over sets of the mean LPIPS between two members of a set.
fn diversity(all: &[&PairRecord], kept: &[&PairRecord], work: &Work) -> Score {
    let kept: BTreeSet<usize> = kept.iter().map(|r| r.pair).collect();
    let mut sets: BTreeMap<usize, Vec<&PairRecord>> = BTreeMap::new();
    for record in all {
        sets.entry(work.pairs[record.pair].set)
            .or_default()
            .push(record);
    }
    let mut means = Vec::new();
    for members in sets.values() {
        let mut distances = Vec::new();
        for (at, member) in members.iter().enumerate() {
            for (earlier, distance) in members[..at].iter().zip(&member.to_earlier) {
                if kept.contains(&member.pair) && kept.contains(&earlier.pair) {
                    distances.push(*distance);
                }
            }
        }
        if let Some(mean) = crate::stats::interval::mean(&distances) {
            means.push(mean);
        }
    }
    if means.is_empty() {
        return Score::missing(
            0,
            "no original has two counterfactuals in this group".into(),
        );
    }
    Score::mean(&means)
}

/// Files that were skipped, with reasons.
pub fn skipped_files(work: &Work, index: &Index<'_>) -> Vec<SkippedFile> {
    let pairs = index.skipped.iter().map(|(i, reason)| SkippedFile {
        name: work.pairs[*i].pair.name.clone(),
        reason: (*reason).to_string(),
    });
    let references = index.bad_references.iter().map(|(i, reason)| SkippedFile {
        name: work.references[*i].display().to_string(),
        reason: (*reason).to_string(),
    });
    pairs.chain(references).collect()
}
