//! Methods side by side: mean ± half of the 95 % interval.

use super::{MethodScores, QuantitativeError};
use crate::score::{Fingerprint, Score};
use crate::study::tables::settings::Better;
use crate::study::tables::{Cell, Std, Table, TableRow, Zeros};

/// Rows in the order of the paper: score, name, which is better, factor.
const ROWS: [(&str, &str, Better, f64); 12] = [
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
    ("label_variation", "LVS", Better::Higher, 1.0),
];

/// One table of several methods. Scores of one row must have been computed alike.
pub fn table(
    number: u32,
    title: &str,
    methods: &[MethodScores],
) -> Result<Table, QuantitativeError> {
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
        let n = m.scores.values().map(|s| s.n).max().unwrap_or(0);
        format!("{}: {n} samples", m.method)
    };
    Ok(Table {
        number,
        title: title.into(),
        std: Std::Population,
        paired: false,
        apart: false,
        zeros: Zeros::Kept,
        against: None,
        columns: methods.iter().map(|m| m.method.clone()).collect(),
        rows,
        convention: "mean ± half of the 95 % interval over samples; FID has none".into(),
        notes: vec![
            methods.iter().map(count).collect::<Vec<_>>().join(", "),
            "LVS is desired high for the label that the counterfactuals change, and low for all others".into(),
        ],
    })
}

fn cell(score: &Score, factor: f64) -> Cell {
    match score.value {
        None => Cell::Missing,
        Some(mean) => Cell::Value {
            mean: factor * mean,
            std: score.ci95.map(|[low, high]| factor * (high - low) / 2.0),
            groups: score.n,
            against: None,
        },
    }
}

/// Refuses scores of one name that were computed with different networks, ranges or options.
fn alike(name: &str, methods: &[MethodScores]) -> Result<(), QuantitativeError> {
    let mut known: Option<(&MethodScores, &Fingerprint)> = None;
    for method in methods.iter().filter(|m| m.scores.contains_key(name)) {
        let Some(own) = method.fingerprints.get(name) else {
            continue;
        };
        let Some((first, fingerprint)) = known else {
            known = Some((method, own));
            continue;
        };
        if own == fingerprint {
            continue;
        }
        let ranges = own.range != fingerprint.range;
        let explanation = match name.split('_').next() {
            Some("im2") if ranges => {
                ". IM2 divides by the norm of the normalised image, which is large for a dark image in [-0.5, 0.5] and zero in [0, 1]: its values are of different scales (section 4.2 of the paper)"
            }
            Some("im1") if ranges => {
                ". Auto-encoders of another range are other networks (section 4.2 of the paper)"
            }
            _ => "",
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
        }
    }

    #[test]
    fn im2_is_printed_times_a_hundred_with_half_of_its_interval() {
        let one = method("GB", [0.0, 1.0]);
        let table = table(1, "t", &[one.clone(), one]).unwrap();
        assert_eq!(table.rows[0].name, "100 IM2");
        let Cell::Value { mean, std, .. } = table.rows[0].cells[1] else {
            panic!("no value");
        };
        assert!((mean - 2.0).abs() < 1e-12 && (std.unwrap() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn im2_of_two_ranges_is_refused_with_the_reason() {
        let both = [method("GB", [-0.5, 0.5]), method("GL", [0.0, 1.0])];
        let error = table(1, "t", &both).unwrap_err().to_string();
        for words in ["im2 of GB", "range is", "section 4.2", "[0.0,1.0]"] {
            assert!(error.contains(words), "{words}: {error}");
        }
    }
}
