//! Single samples: all of them as f32, the first with all their terms.

use std::collections::{BTreeMap, BTreeSet};

use super::super::check::{Check, Tolerance};
use super::super::folder::Folder;
use super::super::{ConformanceError, Result};
use super::data::Config;
use super::lacking::{first_absent, needs};
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

/// `per_sample_first32.csv`: every row has to be checked, or to stand on a file that is absent.
#[derive(Default)]
pub struct Rows {
    header: csv::StringRecord,
    rows: Vec<csv::StringRecord>,
    checked: BTreeSet<(String, String)>,
    there: bool,
}

const FILE: &str = "per_sample_first32.csv";

fn wrong(folder: &Folder, place: &str, expected: &str, found: String) -> ConformanceError {
    ConformanceError::Content {
        file: folder.name(FILE),
        place: place.into(),
        expected: expected.into(),
        found,
    }
}

impl Rows {
    pub fn read(folder: &Folder) -> Result<Self> {
        let Some(bytes) = folder.bytes(FILE)? else {
            return Ok(Self::default());
        };
        let unreadable = |e: csv::Error| wrong(folder, "rows", "a CSV file", e.to_string());
        let mut reader = csv::Reader::from_reader(&bytes[..]);
        let header = reader.headers().map_err(unreadable)?.clone();
        let rows = reader.records().collect::<std::result::Result<_, _>>();
        Ok(Self {
            header,
            rows: rows.map_err(unreadable)?,
            checked: BTreeSet::new(),
            there: true,
        })
    }

    fn field<'r>(
        &self,
        folder: &Folder,
        row: &'r csv::StringRecord,
        name: &str,
    ) -> Result<&'r str> {
        let at = self.header.iter().position(|h| h == name);
        let value = at.and_then(|at| row.get(at));
        value.ok_or_else(|| wrong(folder, "header", name, "no such column".into()))
    }

    /// Rows that nothing has checked: of a file that is absent, or unknown.
    pub fn finish(&self, folder: &Folder, check: &mut Check) -> Result<()> {
        if !self.there {
            return Ok(());
        }
        check.group("first samples");
        check.equal(
            format!("{FILE}: there are rows"),
            &true,
            &!self.rows.is_empty(),
        );
        let mut left: BTreeMap<(String, String), usize> = BTreeMap::new();
        for row in &self.rows {
            let key = (
                self.field(folder, row, "config")?.to_owned(),
                self.field(folder, row, "method")?.to_owned(),
            );
            if !self.checked.contains(&key) {
                *left.entry(key).or_default() += 1;
            }
        }
        for ((config, method), count) in left {
            let what = format!("{FILE}: {count} rows of {config} {method}");
            match first_absent(folder, &needs(&format!("{config}.{method}"))) {
                Some(file) => check.absent(format!("{what} (they need {file}, which is absent)")),
                None => check.unknown(what),
            }
        }
        Ok(())
    }

    /// All rows of one method.
    pub fn check_of(
        &mut self,
        folder: &Folder,
        config: Config,
        method: &str,
        evaluated: &Evaluated<'_>,
        check: &mut Check,
    ) -> Result<()> {
        check.group(format!("{} first samples", config.name));
        let mut any = false;
        for row in &self.rows {
            let own = self.field(folder, row, "config")? == config.name
                && self.field(folder, row, "method")? == method;
            if own {
                any = true;
                let field = |name: &str| self.field(folder, row, name);
                one_row(folder, &field, method, evaluated, check)?;
            }
        }
        if any && evaluated.terms.im1.is_empty() {
            let lacking = format!("autoencoders_{}.safetensors", config.name);
            check.absent(format!(
                "{FILE}: im1 and im2 of {} {method} (they need {lacking}, which is absent)",
                config.name
            ));
        }
        self.checked.insert((config.name.into(), method.into()));
        Ok(())
    }
}

/// One sample with all its terms.
fn one_row<'r>(
    folder: &Folder,
    field: &dyn Fn(&str) -> Result<&'r str>,
    method: &str,
    evaluated: &Evaluated<'_>,
    check: &mut Check,
) -> Result<()> {
    let terms = &evaluated.terms;
    let s = evaluated.samples;
    let index = field("index")?;
    let i: usize = index
        .parse()
        .ok()
        .filter(|&i| i < evaluated.count())
        .ok_or_else(|| wrong(folder, "index", "the number of a sample", index.into()))?;
    let whole = |name: &str| -> Result<i64> {
        let text = field(name)?;
        text.parse()
            .map_err(|_| wrong(folder, name, "a whole number", text.into()))
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
        if name.starts_with("im") && terms.im1.is_empty() {
            continue;
        }
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
    Ok(())
}
