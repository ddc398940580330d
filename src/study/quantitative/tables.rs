//! Methods side by side: mean ± half of the 95 % interval.

use super::{MethodScores, QuantitativeError};
use crate::score::{Fingerprint, Score};
use crate::study::tables::settings::Better;
use crate::study::tables::{Cell, Std, Table, TableRow, Zeros};

const LVS: &str = "label_variation";

/// Rows in the order of the paper: score, name, which is better, factor.
pub(super) const ROWS: [(&str, &str, Better, f64); 12] = [
    ("target_class_validity", "TCV", Better::Higher, 1.0),
    ("elastic_net", "EN", Better::Lower, 1.0),
    ("im1", "IM1", Better::Lower, 1.0),
    ("im1_numerator", "IM1 numerator", Better::Lower, 1.0),
    ("im1_denominator", "IM1 denominator", Better::Higher, 1.0),
    ("im2", "100 IM2", Better::Lower, 100.0),
    ("im2_numerator", "IM2 numerator", Better::Lower, 1.0),
    ("im2_denominator", "IM2 denominator", Better::Higher, 1.0),
    ("fid", "FID of the embedding", Better::Lower, 1.0),
    ("oracle_score", "Oracle", Better::Higher, 1.0),
    (
        "oracle_target_accuracy",
        "Oracle names the target",
        Better::Higher,
        1.0,
    ),
    // Which is better depends on the label.
    (LVS, "LVS", Better::Open, 1.0),
];

/// The label that the counterfactuals are to change: the one that was named, else the one whose label model is an oracle (an
/// oracle judges the explained label), else nobody knows.
fn explained_label<'a>(
    methods: &'a [MethodScores],
    named: Option<&'a str>,
) -> Result<Option<&'a str>, QuantitativeError> {
    let of = |name: &'a String, score: &str| {
        let (base, model) = name.split_once('/')?;
        (base == score).then_some(model)
    };
    let all = || {
        let names = methods.iter().flat_map(|m| m.scores.keys());
        names.filter_map(|name| of(name, LVS))
    };
    if let Some(named) = named {
        let known: std::collections::BTreeSet<&str> = all().collect();
        return match known.contains(named) {
            true => Ok(Some(named)),
            false => Err(QuantitativeError::Usage(format!(
                "explained label {named:?}: expected one of the labels with a Label Variation Score, which are {}",
                match known.is_empty() {
                    true => "none".to_owned(),
                    false => known.into_iter().collect::<Vec<_>>().join(", "),
                }
            ))),
        };
    }
    let by_oracle = |method: &'a MethodScores| {
        let weights = |name: &String| method.fingerprints.get(name)?.weights_sha256.clone();
        let oracle = { method.scores.keys() }.find(|n| n.starts_with("oracle_score/"))?;
        let oracle = weights(oracle)?;
        let mut labels = method.scores.keys();
        labels.find_map(|name| {
            let label = of(name, LVS)?;
            (weights(name).as_ref() == Some(&oracle)).then_some(label)
        })
    };
    Ok(methods.iter().find_map(by_oracle))
}

/// One table of several methods. Scores of one row must have been computed alike. `explained` names the label that the
/// counterfactuals are to change.
pub fn table(
    number: u32,
    title: &str,
    methods: &[MethodScores],
    explained: Option<&str>,
) -> Result<Table, QuantitativeError> {
    let explained = explained_label(methods, explained)?;
    let mut rows = Vec::new();
    for (score, title, better, factor) in ROWS {
        let mut names: Vec<&String> = methods
            .iter()
            .flat_map(|m| m.scores.keys())
            .filter(|name| name.split('/').next() == Some(score))
            .collect();
        names.sort();
        names.dedup();
        for name in names {
            alike(name, methods)?;
            let shown = match name.split_once('/') {
                Some((_, model)) => format!("{title} ({model})"),
                None => title.to_owned(),
            };
            let cell = |m: &MethodScores| {
                m.scores
                    .get(name)
                    .map_or(Cell::Missing, |s| cell(s, factor))
            };
            let better = match (name.split_once('/'), explained) {
                (Some((LVS, label)), Some(explained)) if label == explained => Better::Higher,
                (Some((LVS, _)), Some(_)) => Better::Lower,
                _ => better,
            };
            rows.push(TableRow {
                name: shown,
                latex: None,
                better,
                cells: methods.iter().map(cell).collect(),
            });
        }
    }
    if rows.is_empty() {
        return Err(QuantitativeError::Usage(
            "there are no scores of the quantitative evaluations; score with --metrics en,tcv,im1,im2,oracle,lvs,fid:embedding".into(),
        ));
    }
    let count = |m: &MethodScores| {
        let most = |of: &dyn Fn(&str) -> bool| {
            let own = m.scores.iter().filter(|(name, _)| of(name));
            own.map(|(_, score)| score.n).max()
        };
        let all = most(&|_| true).unwrap_or(0);
        let counted = most(&|name| name != "target_class_validity").unwrap_or(all);
        format!("{}: {counted} of {all}", m.method)
    };
    let counted: Vec<String> = methods.iter().map(count).collect();
    let mut notes = vec![format!(
        "samples that count ({}): in all scores but TCV, which is over all of them",
        counted.join(", ")
    )];
    for method in methods {
        notes.extend(
            method
                .notes
                .iter()
                .map(|n| format!("{}: {n}", method.method)),
        );
    }
    let lvs = rows.iter().any(|row| row.name.starts_with("LVS"));
    match explained {
        _ if !lvs => {}
        Some(label) => notes.push(format!(
            "LVS is desired high for {label}, the label that the counterfactuals are to change, and low for all others"
        )),
        None => notes.push(
            "LVS is desired high for the label that the counterfactuals are to change, and low for all others; which one that is was not said".into(),
        ),
    }
    Ok(Table {
        number,
        title: title.into(),
        std: Std::Population,
        paired: false,
        apart: false,
        zeros: Zeros::Kept,
        against: None,
        columns: methods.iter().map(|m| m.method.clone()).collect(),
        convention: convention(&rows),
        rows,
        notes,
    })
}

fn convention(rows: &[TableRow]) -> String {
    let mut cells = rows.iter().flat_map(|row| &row.cells);
    let shares = match cells.any(|cell| matches!(cell, Cell::Interval { .. })) {
        true => "share [95 % interval of Wilson]; ",
        false => "",
    };
    format!("mean ± half of the 95 % interval over samples; {shares}FID has none")
}

fn cell(score: &Score, factor: f64) -> Cell {
    let Some(mean) = score.value else {
        return Cell::Missing;
    };
    // Half the width of an interval says nothing where the mean is not in its middle.
    let uneven = |[low, high]: &[f64; 2]| {
        (0.5 * (low + high) - mean).abs() > 1e-9 * (high - low).abs().max(mean.abs())
    };
    match score.ci95 {
        Some(ci95) if uneven(&ci95) => Cell::Interval {
            mean: factor * mean,
            ci95: ci95.map(|bound| factor * bound),
            samples: score.n,
        },
        ci95 => Cell::Value {
            mean: factor * mean,
            std: ci95.map(|[low, high]| factor * (high - low) / 2.0),
            groups: score.n,
            against: None,
        },
    }
}

/// Refuses scores of one name that were computed with different networks, ranges or options, or that do not say with which.
fn alike(name: &str, methods: &[MethodScores]) -> Result<(), QuantitativeError> {
    let mut known: Option<(&MethodScores, &Fingerprint)> = None;
    let with: Vec<&MethodScores> = { methods.iter() }
        .filter(|m| m.scores.contains_key(name))
        .collect();
    if with.len() < 2 {
        return Ok(());
    }
    for method in with {
        let Some(own) = method.fingerprints.get(name) else {
            return Err(QuantitativeError::NoFingerprint {
                score: name.into(),
                method: method.method.clone(),
                place: method.place.clone(),
            });
        };
        let Some((first, fingerprint)) = known else {
            known = Some((method, own));
            continue;
        };
        if own == fingerprint {
            continue;
        }
        let of_im = |m: &MethodScores| {
            let mut names = m.scores.keys();
            names.any(|n| n.starts_with("im1") || n.starts_with("im2"))
        };
        // Whichever score shows it first: ranges that differ make IM1 and IM2 incomparable.
        let explanation = match own.range != fingerprint.range && methods.iter().any(of_im) {
            true => {
                ". IM2 divides by the norm of the normalised image, which is large for a dark image in [-0.5, 0.5] and zero in [0, 1], and auto-encoders of another range are other networks: IM1 and IM2 of two ranges have different scales (section 4.2 of the paper)"
            }
            false => "",
        };
        let place = |m: &MethodScores| format!("{} ({})", m.method, m.place);
        return Err(QuantitativeError::Fingerprint {
            score: name.into(),
            first: place(first),
            second: place(method),
            difference: crate::study::tables::runs::difference(fingerprint, own),
            explanation: explanation.into(),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn method(name: &str, range: [f64; 2]) -> MethodScores {
        let fingerprint = Fingerprint {
            metric: "im2".into(),
            protocol: "exact".into(),
            network: Some("autoencoder".into()),
            weights_sha256: Some("ab".into()),
            preprocessing: None,
            range: Some(range),
            options: None,
            arithmetic: None,
            reject_invalid: false,
            foil: "0".into(),
        };
        let score = Score {
            value: Some(0.02),
            n: 9,
            ci95: Some([0.01, 0.03]),
            ..Score::default()
        };
        MethodScores {
            method: name.into(),
            place: "here".into(),
            scores: [("im2".to_owned(), score)].into(),
            fingerprints: [("im2".to_owned(), fingerprint)].into(),
            notes: Vec::new(),
        }
    }

    #[test]
    fn im2_is_printed_times_a_hundred_with_half_of_its_interval() {
        let one = method("GB", [0.0, 1.0]);
        let table = table(1, "t", &[one.clone(), one], None).unwrap();
        assert_eq!(table.rows[0].name, "100 IM2");
        let Cell::Value { mean, std, .. } = table.rows[0].cells[1] else {
            panic!("no value");
        };
        assert!((mean - 2.0).abs() < 1e-12 && (std.unwrap() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn a_score_without_a_fingerprint_is_refused() {
        let mut other = method("GL", [0.0, 1.0]);
        other.fingerprints.clear();
        let error = table(1, "t", &[method("GB", [0.0, 1.0]), other], None).unwrap_err();
        let error = error.to_string();
        assert!(
            error.contains("im2 of GL (here)") && error.contains("fingerprint"),
            "{error}"
        );
    }

    #[test]
    fn im2_of_two_ranges_is_refused_with_the_reason() {
        let both = [method("GB", [-0.5, 0.5]), method("GL", [0.0, 1.0])];
        let error = table(1, "t", &both, None).unwrap_err().to_string();
        for words in ["im2 of GB", "range is", "section 4.2", "[0.0,1.0]"] {
            assert!(error.contains(words), "{words}: {error}");
        }
    }

    #[test]
    fn ranges_that_clash_in_another_row_are_explained_where_there_is_im2() {
        let both = [[-0.5, 0.5], [0.0, 1.0]].map(|range| {
            let mut one = method(&format!("{range:?}"), range);
            let (score, print) = (one.scores["im2"].clone(), one.fingerprints["im2"].clone());
            one.scores.insert("elastic_net".into(), score);
            one.fingerprints.insert("elastic_net".into(), print);
            one
        });
        let error = table(1, "t", &both, None).unwrap_err().to_string();
        assert!(
            error.starts_with("elastic_net") && error.contains("section 4.2"),
            "{error}"
        );
    }

    fn with_labels(method_name: &str, oracle: &str) -> MethodScores {
        let mut one = method(method_name, [0.0, 1.0]);
        for (name, weights) in [
            ("label_variation/digit", "d"),
            ("label_variation/dot", "ab"),
            ("oracle_score/judge", oracle),
        ] {
            let mut fingerprint = one.fingerprints["im2"].clone();
            fingerprint.weights_sha256 = Some(weights.into());
            one.scores.insert(name.into(), one.scores["im2"].clone());
            one.fingerprints.insert(name.into(), fingerprint);
        }
        one
    }

    #[test]
    fn label_variation_is_desired_high_for_the_explained_label_only() {
        let arrows = |oracle: &str, explained: Option<&str>| {
            let table = table(1, "t", &[with_labels("GB", oracle)], explained).unwrap();
            let of = |name: &str| table.rows.iter().find(|r| r.name == name).unwrap().better;
            [of("LVS (digit)"), of("LVS (dot)")]
        };
        // By the oracle, which judges the explained label; by its name; or not known.
        assert_eq!(arrows("ab", None), [Better::Lower, Better::Higher]);
        assert_eq!(arrows("ab", Some("digit")), [Better::Higher, Better::Lower]);
        assert_eq!(arrows("other", None), [Better::Open; 2]);
        let error = table(1, "t", &[with_labels("GB", "ab")], Some("hat")).unwrap_err();
        assert!(error.to_string().contains("digit, dot"), "{error}");
    }

    #[test]
    fn an_uneven_interval_is_shown_with_both_ends() {
        let mut one = method("GB", [0.0, 1.0]);
        let share = Score {
            value: Some(1.0),
            n: 40,
            ci95: Some([0.9124, 1.0]),
            ..Score::default()
        };
        one.scores = [("target_class_validity".to_owned(), share)].into();
        one.notes = vec!["2 of 40 samples: the method failed".into()];
        let table = table(1, "t", &[one], None).unwrap();
        let document = crate::report::study_tables::Document {
            tables: vec![table],
            digits: 4,
            notes: Vec::new(),
        };
        let text = crate::report::study_tables::text::render(&document);
        let line = text.lines().find(|line| line.starts_with("TCV")).unwrap();
        assert!(line.ends_with("1.0000 [0.9124, 1.0000]"), "{text}");
        assert!(
            text.contains("GB: 2 of 40 samples: the method failed"),
            "{text}"
        );
    }
}
