//! Collects comparisons into a report.

use std::fmt::Debug;

use super::report::{AreaReport, Case};

/// Allowed error: `relative · |expected| + absolute`.
#[derive(Clone, Copy, Debug)]
pub struct Tolerance {
    pub relative: f64,
    pub absolute: f64,
}

impl Tolerance {
    pub const fn relative(relative: f64) -> Self {
        Self {
            relative,
            absolute: 0.0,
        }
    }

    pub const fn absolute(absolute: f64) -> Self {
        Self {
            relative: 0.0,
            absolute,
        }
    }

    pub const fn both(relative: f64, absolute: f64) -> Self {
        Self { relative, absolute }
    }

    fn of(self, expected: f64) -> f64 {
        self.relative * expected.abs() + self.absolute
    }
}

pub struct Check {
    group: String,
    report: AreaReport,
}

impl Check {
    pub fn new(area: &str, data: String) -> Self {
        let report = AreaReport {
            area: area.into(),
            data,
            ..AreaReport::default()
        };
        Self {
            group: String::new(),
            report,
        }
    }

    /// Names the group of the cases to come.
    pub fn group(&mut self, name: impl Into<String>) {
        self.group = name.into();
    }

    pub fn finish(mut self) -> AreaReport {
        let report = &mut self.report;
        report.absent.sort();
        report.absent.dedup();
        let mut told = std::collections::BTreeSet::new();
        report.unknown.retain(|what| told.insert(what.clone()));
        report.used.sort();
        report.used.dedup();
        self.report
    }

    /// A part of the folder that is not there, or a case skipped for want of it.
    pub fn absent(&mut self, what: impl Into<String>) {
        self.report.absent.push(what.into());
    }

    pub fn unused(&mut self, what: impl Into<String>, reason: impl Into<String>) {
        self.report.unused.push((what.into(), reason.into()));
    }

    pub fn unknown(&mut self, what: impl Into<String>) {
        self.report.unknown.push(what.into());
    }

    pub fn used(&mut self, file: impl Into<String>) {
        self.report.used.push(file.into());
    }

    /// One number.
    pub fn close(
        &mut self,
        what: impl Into<String>,
        expected: f64,
        got: f64,
        tolerance: Tolerance,
    ) {
        let (error, allowed) = ((got - expected).abs(), tolerance.of(expected));
        self.push(Case {
            group: String::new(),
            what: what.into(),
            expected: expected.to_string(),
            got: got.to_string(),
            error: Some(error),
            tolerance: Some(allowed),
            pass: error <= allowed,
        });
    }

    /// A list, each value with its own tolerance; the worst one is shown.
    pub fn close_all(
        &mut self,
        what: impl Into<String>,
        expected: &[f64],
        got: &[f64],
        tolerance: Tolerance,
    ) {
        let what = what.into();
        if !self.same_length(&what, expected.len(), got.len()) {
            return;
        }
        let share = |at: &usize| {
            let error = (got[*at] - expected[*at]).abs();
            match error == 0.0 {
                true => 0.0,
                false => error / tolerance.of(expected[*at]),
            }
        };
        let worst = (0..expected.len()).max_by(|a, b| share(a).total_cmp(&share(b)));
        let Some(at) = worst else {
            return self.equal(what, &"an empty list", &"an empty list");
        };
        let what = format!("{what} [{} values, worst {at}]", expected.len());
        self.close(what, expected[at], got[at], tolerance);
    }

    /// A tensor: the largest difference, at most `relative` times the largest expected magnitude.
    pub fn close_to_peak(
        &mut self,
        what: impl Into<String>,
        expected: &[f32],
        got: &[f32],
        relative: f64,
    ) {
        let what = what.into();
        if !self.same_length(&what, expected.len(), got.len()) {
            return;
        }
        let peak = expected
            .iter()
            .fold(0.0f64, |m, &v| m.max(f64::from(v.abs())));
        let wide: [Vec<f64>; 2] =
            [expected, got].map(|v| v.iter().map(|&x| f64::from(x)).collect());
        self.close_all(
            what,
            &wide[0],
            &wide[1],
            Tolerance::absolute(relative * peak),
        );
    }

    /// Equality of anything.
    pub fn equal<T: PartialEq + Debug + ?Sized>(
        &mut self,
        what: impl Into<String>,
        expected: &T,
        got: &T,
    ) {
        self.push(Case {
            group: String::new(),
            what: what.into(),
            expected: shorten(format!("{expected:?}")),
            got: shorten(format!("{got:?}")),
            error: None,
            tolerance: None,
            pass: expected == got,
        });
    }

    /// Equality of long lists: the number of values that differ.
    pub fn identical<T: PartialEq>(&mut self, what: impl Into<String>, expected: &[T], got: &[T]) {
        let what = what.into();
        if !self.same_length(&what, expected.len(), got.len()) {
            return;
        }
        let differing = expected.iter().zip(got).filter(|(a, b)| a != b).count();
        let n = expected.len();
        self.push(Case {
            group: String::new(),
            what,
            expected: format!("{n} values, exact"),
            got: format!("{differing} differ"),
            error: None,
            tolerance: None,
            pass: differing == 0,
        });
    }

    fn same_length(&mut self, what: &str, expected: usize, got: usize) -> bool {
        if expected != got {
            self.equal(format!("{what}: number of values"), &expected, &got);
        }
        expected == got
    }

    fn push(&mut self, mut case: Case) {
        case.group.clone_from(&self.group);
        self.report.cases.push(case);
    }
}

fn shorten(text: String) -> String {
    match text.char_indices().nth(90) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}
