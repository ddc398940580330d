//! What a run over one area found.

use serde::Serialize;

/// One comparison with a golden value.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Case {
    /// Kind of case: cases of one group share their reference and tolerance rule.
    pub group: String,
    pub what: String,
    pub expected: String,
    pub got: String,
    /// |got − expected|, for a list that of its worst value; none where only equality counts.
    pub error: Option<f64>,
    /// The largest error allowed.
    pub tolerance: Option<f64>,
    pub pass: bool,
}

impl Case {
    /// Error as a share of the tolerance: at most 1 passes. Exact cases have 0 or infinity.
    pub fn share(&self) -> f64 {
        match (self.error, self.tolerance) {
            (Some(0.0), _) => 0.0,
            (Some(error), Some(tolerance)) => error / tolerance,
            _ if self.pass => 0.0,
            _ => f64::INFINITY,
        }
    }
}

/// Everything about one area.
#[derive(Clone, Debug, Default, Serialize)]
pub struct AreaReport {
    pub area: String,
    /// The folder, or the set inside the program.
    pub data: String,
    pub cases: Vec<Case>,
    /// Files that cases were read from.
    pub used: Vec<String>,
    /// Files, or parts of files, that no case needs, with the reason.
    pub unused: Vec<(String, String)>,
    /// Files of the layout that are not there, and cases skipped for want of them.
    pub absent: Vec<String>,
    /// Files, fields and cases that nothing here knows how to run.
    pub unknown: Vec<String>,
}

/// Counts of one group of cases.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GroupSummary {
    pub group: String,
    pub cases: usize,
    pub failed: usize,
    /// Largest error as a share of its tolerance.
    pub worst_share: f64,
    /// The case it belongs to.
    pub worst: String,
}

impl AreaReport {
    /// All cases pass, none is unknown, and there is at least one.
    pub fn passed(&self) -> bool {
        !self.cases.is_empty() && self.unknown.is_empty() && self.cases.iter().all(|c| c.pass)
    }

    pub fn failures(&self) -> impl Iterator<Item = &Case> {
        self.cases.iter().filter(|c| !c.pass)
    }

    /// Groups in the order of their first case.
    pub fn groups(&self) -> Vec<GroupSummary> {
        let mut groups: Vec<GroupSummary> = Vec::new();
        for case in &self.cases {
            let at = match groups.iter().position(|g| g.group == case.group) {
                Some(at) => at,
                None => {
                    groups.push(GroupSummary {
                        group: case.group.clone(),
                        cases: 0,
                        failed: 0,
                        worst_share: 0.0,
                        worst: String::new(),
                    });
                    groups.len() - 1
                }
            };
            let group = &mut groups[at];
            group.cases += 1;
            group.failed += usize::from(!case.pass);
            let share = case.share();
            if share.is_nan() || share > group.worst_share {
                group.worst_share = share;
                group.worst = case.what.clone();
            }
        }
        groups
    }
}
