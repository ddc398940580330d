//! Single samples: all of them as f32, the first with all their terms.

use super::super::check::{Check, Tolerance};
use super::super::folder::Folder;
use super::super::{ConformanceError, Result};
use super::data::Config;
use super::scores::Evaluated;

/// A sum of squares that nearly cancel (a nearly perfect reconstruction) keeps fewer digits.
const SINGLE: Tolerance = Tolerance::both(1e-4, 1e-7);

/// `per_sample_metrics.safetensors`; NaN where a sample is not kept.
pub fn per_sample(
    folder: &Folder,
    config: Config,
    method: &str,
    evaluated: &Evaluated<'_>,
    check: &mut Check,
) -> Result<()> {
    let Some(arrays) = folder.tensors("per_sample_metrics.safetensors")? else {
        return Ok(());
    };
    check.group(format!("{} samples", config.name));
    let terms = &evaluated.terms;
    let ratio = |r: &Option<crate::metrics::interpretability::Ratio>| r.map(|r| r.value());
    let elastic = terms.l1.iter().zip(&terms.l2);
    let lists: [(&str, Vec<Option<f64>>); 3] = [
        (
            "elastic_net",
            elastic
                .map(|(a, b)| a.zip(*b).map(|(a, b)| a + b))
                .collect(),
        ),
        ("im1", terms.im1.iter().map(ratio).collect()),
        ("im2", terms.im2.iter().map(ratio).collect()),
    ];
    for (name, got) in lists {
        let array = format!("{}.{method}.{name}", config.name);
        if !arrays.contains(&array) || got.is_empty() {
            continue;
        }
        let expected = arrays.f32_or_nan(&array)?;
        let skipped: Vec<bool> = expected.iter().map(|v| v.is_nan()).collect();
        let ours: Vec<bool> = got.iter().map(Option::is_none).collect();
        check.identical(
            format!("{method} {name}: which samples count"),
            &skipped,
            &ours,
        );
        let both = expected.iter().zip(&got).filter(|(e, _)| !e.is_nan());
        let (expected, got): (Vec<f64>, Vec<f64>) = both
            .map(|(e, g)| (f64::from(*e), g.unwrap_or(f64::NAN)))
            .unzip();
        let tolerance = match name {
            "elastic_net" => Tolerance::relative(1e-5),
            _ => SINGLE,
        };
        check.close_all(format!("{method} {name}"), &expected, &got, tolerance);
    }
    Ok(())
}

/// `per_sample_first32.csv`.
pub fn rows(
    folder: &Folder,
    config: Config,
    method: &str,
    evaluated: &Evaluated<'_>,
    check: &mut Check,
) -> Result<()> {
    let file = "per_sample_first32.csv";
    let Some(bytes) = folder.bytes(file)? else {
        return Ok(());
    };
    check.group(format!("{} first samples", config.name));
    let wrong = |place: String, expected: &str, found: String| ConformanceError::Content {
        file: folder.name(file),
        place,
        expected: expected.into(),
        found,
    };
    let mut reader = csv::Reader::from_reader(&bytes[..]);
    let unreadable = |e: csv::Error| wrong("rows".into(), "a CSV file", e.to_string());
    let header = reader.headers().map_err(unreadable)?.clone();
    let terms = &evaluated.terms;
    let s = evaluated.samples;
    for record in reader.records() {
        let record = record.map_err(unreadable)?;
        let field = |name: &str| -> Result<&str> {
            let at = header.iter().position(|h| h == name);
            let value = at.and_then(|at| record.get(at));
            value.ok_or_else(|| wrong("header".into(), name, "no such column".into()))
        };
        if field("config")? != config.name || field("method")? != method {
            continue;
        }
        let index = field("index")?;
        let i: usize = index
            .parse()
            .ok()
            .filter(|&i| i < evaluated.count())
            .ok_or_else(|| wrong("index".into(), "the number of a sample", index.into()))?;
        let whole = |name: &str| -> Result<i64> {
            let text = field(name)?;
            text.parse()
                .map_err(|_| wrong(name.into(), "a whole number", text.into()))
        };
        let tcv = s.prediction[i] != -1 && s.prediction[i] != s.original_prediction[i];
        for (name, got) in [
            ("label", evaluated.label[i]),
            ("original_prediction", s.original_prediction[i]),
            ("target_class", s.target[i]),
            ("counterfactual_prediction", s.prediction[i]),
            ("kept", i64::from(terms.kept[i])),
            ("tcv", i64::from(tcv)),
        ] {
            check.equal(format!("{method} {i} {name}"), &whole(name)?, &got);
        }
        let at = |values: &[Option<f64>]| values.get(i).copied().flatten();
        let (l1, l2) = (at(&terms.l1), at(&terms.l2));
        let [im1, im2] = [&terms.im1, &terms.im2].map(|r| r.get(i).copied().flatten());
        for (name, got, tolerance) in [
            ("l1", l1, Tolerance::relative(1e-9)),
            ("l2", l2, Tolerance::relative(1e-9)),
            (
                "elastic_net",
                l1.zip(l2).map(|(a, b)| a + b),
                Tolerance::relative(1e-9),
            ),
            ("im1_numerator", im1.map(|r| r.numerator), SINGLE),
            ("im1_denominator", im1.map(|r| r.denominator), SINGLE),
            ("im1", im1.map(|r| r.value()), SINGLE),
            ("im2_numerator", im2.map(|r| r.numerator), SINGLE),
            (
                "im2_denominator",
                im2.map(|r| r.denominator),
                Tolerance::relative(1e-6),
            ),
            ("im2", im2.map(|r| r.value()), SINGLE),
        ] {
            let text = field(name)?;
            let what = format!("{method} {i} {name}");
            match (text.parse::<f64>(), got) {
                (Ok(expected), Some(got)) => {
                    // Denominators may be given with or without their epsilon.
                    let allowed = match name.ends_with("denominator") {
                        true => Tolerance::both(tolerance.relative, 1.1e-5),
                        false => tolerance,
                    };
                    check.close(what, expected, got, allowed);
                }
                (Err(_), None) if text.is_empty() => {}
                (_, got) => check.equal(what, text, &got.map_or(String::new(), |g| g.to_string())),
            }
        }
    }
    Ok(())
}
