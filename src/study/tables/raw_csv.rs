//! The raw results of a study as CSV: a row per classifier, setup, source and target; columns in any order.

use std::collections::BTreeMap;
use std::path::Path;

use super::class::Class;
use super::error::{Result, TablesError};
use super::settings::{Layout, ORACLES, Oracle, TableSettings};
use super::study::{GroupScores, Quantity, classifier_name, oracle};
use crate::score::Protocol;

/// What one file holds.
pub struct RawResults {
    pub groups: Vec<GroupScores>,
    /// Those that the header names.
    pub oracles: Vec<Oracle>,
    pub protocol: Protocol,
}

/// Reads all rows. Columns that no table of `layouts` needs are not looked at.
pub fn read(path: &Path, settings: &TableSettings, layouts: &[&Layout]) -> Result<RawResults> {
    let bytes = std::fs::read(path).map_err(|source| TablesError::Unreadable {
        path: path.into(),
        expected: "a CSV file or a folder of `foil score`",
        source,
    })?;
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    let text = Text { path, bytes };
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err(text.file_error("an empty file"));
    }
    let mut reader = csv::ReaderBuilder::new()
        .trim(csv::Trim::All)
        .flexible(true)
        .from_reader(bytes);
    let header = reader.headers().map_err(|e| text.csv_error(&e))?.clone();
    let names: Vec<&str> = header.iter().collect();
    let plan = Plan::new(&text, &names, settings, layouts)?;
    let mut groups = Vec::new();
    let mut protocol: Option<Protocol> = None;
    let mut place = Place::default();
    for record in reader.records() {
        let record = record.map_err(|e| text.csv_error(&e))?;
        place = text.place(place, record.position().map_or(0, csv::Position::byte));
        let row = Row {
            text: &text,
            names: &names,
            line: place.line,
            record: &record,
        };
        let of_row = plan.protocol(&row, protocol)?;
        protocol = Some(of_row);
        groups.push(plan.group(&row, of_row, settings)?);
    }
    let Some(protocol) = protocol else {
        return Err(text.file_error("a header without rows"));
    };
    Ok(RawResults {
        groups,
        oracles: plan.oracles,
        protocol,
    })
}

/// The beginning of a record.
#[derive(Clone, Copy)]
struct Place {
    byte: usize,
    line: u64,
}

impl Default for Place {
    fn default() -> Self {
        Self { byte: 0, line: 1 }
    }
}

/// The file, for messages.
struct Text<'a> {
    path: &'a Path,
    bytes: &'a [u8],
}

impl Text<'_> {
    fn file_error(&self, found: &str) -> TablesError {
        TablesError::File {
            path: self.path.into(),
            expected: "a CSV file with a header and a row per group".into(),
            found: found.into(),
            advice: "export the results of the study again".into(),
        }
    }

    /// Where the record begins that the reader met at `byte`, counted on from an earlier one: empty lines before it are
    /// not its own.
    fn place(&self, earlier: Place, byte: u64) -> Place {
        let met = usize::try_from(byte).unwrap_or(usize::MAX);
        let met = met.clamp(earlier.byte, self.bytes.len());
        let blank = |b: &&u8| matches!(b, b'\n' | b'\r');
        let byte = met + self.bytes[met..].iter().take_while(blank).count();
        let ends = self.bytes[earlier.byte..byte].iter();
        let ends = ends.filter(|&&b| b == b'\n').count() as u64;
        Place {
            byte,
            line: earlier.line + ends,
        }
    }

    fn csv_error(&self, error: &csv::Error) -> TablesError {
        let byte = error.position().map_or(0, csv::Position::byte);
        let line = self.place(Place::default(), byte).line;
        let found = match error.kind() {
            csv::ErrorKind::Utf8 { err, .. } => {
                format!("other bytes in column {}", err.field() + 1)
            }
            _ => error.to_string(),
        };
        TablesError::Cell {
            path: self.path.into(),
            line,
            column: None,
            expected: "CSV in UTF-8".into(),
            found,
            advice: "save the file as UTF-8",
        }
    }
}

/// One row, for messages.
struct Row<'a> {
    text: &'a Text<'a>,
    names: &'a [&'a str],
    line: u64,
    record: &'a csv::StringRecord,
}

impl Row<'_> {
    fn value(&self, column: usize) -> &str {
        self.record.get(column).unwrap_or_default()
    }

    fn error(&self, column: usize, expected: &str, advice: &'static str) -> TablesError {
        let value = self.value(column);
        TablesError::Cell {
            path: self.text.path.into(),
            line: self.line,
            column: Some(format!("column {} ({})", column + 1, self.names[column])),
            expected: expected.into(),
            found: match value {
                "" => "nothing".into(),
                _ => format!("{value:?}"),
            },
            advice,
        }
    }

    /// Every row must have as many values as the header has names.
    fn check_length(&self) -> Result<()> {
        let (expected, found) = (self.names.len(), self.record.len());
        if expected == found {
            return Ok(());
        }
        let column = match self.names.get(found) {
            Some(name) => format!("column {} ({name})", found + 1),
            None => format!("column {}", expected + 1),
        };
        Err(TablesError::Cell {
            path: self.text.path.into(),
            line: self.line,
            column: Some(column),
            expected: format!("{expected} values, as in the header"),
            found: found.to_string(),
            advice: "complete the row, and see that quotes are closed and values with commas quoted",
        })
    }

    fn boolean(&self, column: usize) -> Result<bool> {
        match self.value(column).to_ascii_lowercase().as_str() {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err(self.error(column, "true or false", "write one of the two")),
        }
    }

    fn number(&self, column: usize) -> Result<f64> {
        let parsed = self.value(column).parse::<f64>().ok();
        parsed.filter(|v| v.is_finite()).ok_or_else(|| {
            self.error(
                column,
                "a finite number",
                "correct it, or leave the whole row out",
            )
        })
    }

    /// A score within what its kind can be.
    fn score(&self, column: usize, kind: Kind, divisor: f64) -> Result<f64> {
        let value = self.number(column)? / divisor;
        // What rounding can add to a sum.
        const SLACK: f64 = 1e-6;
        let (sound, expected) = match kind {
            Kind::Any => (true, ""),
            Kind::Share => (
                (-SLACK..=1.0 + SLACK).contains(&value),
                "a share from 0 to 1",
            ),
            Kind::Distance => (value >= -SLACK, "a distance from 0 up"),
        };
        match sound {
            true => Ok(value),
            false => Err(self.error(column, expected, "correct it, or leave the whole row out")),
        }
    }

    fn class(&self, number: usize, name: Option<usize>) -> Result<Class> {
        let parsed = self.value(number).parse::<i64>().ok();
        let parsed = parsed.filter(|n| *n >= 0).ok_or_else(|| {
            self.error(
                number,
                "the number of a class",
                "give classes by their numbers; names have columns of their own",
            )
        })?;
        let name = name.map(|column| self.value(column));
        Ok(Class {
            number: Some(parsed),
            name: name.filter(|n| !n.is_empty()).map(String::from),
        })
    }
}

/// What a score can be.
#[derive(Clone, Copy)]
enum Kind {
    Share,
    Distance,
    Any,
}

impl Kind {
    /// By the name that `foil score` has for it; of other scores nothing is known.
    fn of(score: &str) -> Self {
        match score {
            "target_accuracy"
            | "original_accuracy"
            | "neither"
            | "flip_rate"
            | "target_confidence"
            | "original_confidence"
            | "oracle_score"
            | "oracle_target_accuracy"
            | "committee_target_accuracy"
            | "target_class_validity" => Kind::Share,
            "l1" | "l1_5" | "l2" | "elastic_net" | "lpips" | "lpips_diversity" | "fid" => {
                Kind::Distance
            }
            _ => Kind::Any,
        }
    }
}

/// Where everything stands in a row.
struct Plan {
    classifier: usize,
    cone_projection: usize,
    xzero_prediction: usize,
    source: (usize, Option<usize>),
    target: (usize, Option<usize>),
    protocol: Option<usize>,
    /// Column, what it holds, what it can be, and what to divide it by.
    quantities: Vec<(usize, Quantity, Kind, f64)>,
    oracles: Vec<Oracle>,
}

impl Plan {
    fn new(
        text: &Text<'_>,
        names: &[&str],
        settings: &TableSettings,
        layouts: &[&Layout],
    ) -> Result<Self> {
        let find = |name: &str| names.iter().position(|n| *n == name);
        for (i, name) in names.iter().enumerate() {
            if let Some(first) = find(name)
                && first != i
                && !name.is_empty()
            {
                return Err(TablesError::Cell {
                    path: text.path.into(),
                    line: 1,
                    column: Some(format!("column {} ({name})", i + 1)),
                    expected: "every column once".into(),
                    found: format!("it in column {} too", first + 1),
                    advice: "remove one of them",
                });
            }
        }
        let mut missing = Vec::new();
        let mut need = |name: &str| {
            find(name).unwrap_or_else(|| {
                if !missing.iter().any(|m| m == name) {
                    missing.push(name.to_owned());
                }
                usize::MAX
            })
        };
        let columns = &settings.columns;
        let mut plan = Self {
            classifier: need(&columns.classifier),
            cone_projection: need(&columns.cone_projection),
            xzero_prediction: need(&columns.xzero_prediction),
            source: (need(&columns.source), find(&columns.source_name)),
            target: (need(&columns.target), find(&columns.target_name)),
            protocol: find(&columns.protocol),
            quantities: Vec::new(),
            oracles: oracles(names, settings),
        };
        for metric in &settings.metrics {
            if layouts.iter().any(|l| l.rows.contains(&metric.row)) {
                let quantity = Quantity::Metric(metric.row.clone());
                let divisor = metric.divisor.unwrap_or(1.0);
                let kind = Kind::of(&metric.run);
                plan.quantities
                    .push((need(&metric.csv), quantity, kind, divisor));
            }
        }
        for oracle in &plan.oracles {
            let shown = |l: &&&Layout| oracle.tables.as_ref().is_none_or(|t| t.contains(&l.number));
            let with_oracles = |l: &&&Layout| l.rows.iter().any(|r| r == ORACLES);
            let shown_in: Vec<&&Layout> =
                layouts.iter().filter(with_oracles).filter(shown).collect();
            for metric in &settings.oracle_metrics {
                if shown_in.iter().any(|l| l.oracle_rows.contains(&metric.row)) {
                    let quantity = Quantity::Oracle {
                        metric: metric.row.clone(),
                        oracle: oracle.name.clone(),
                    };
                    let column = need(&format!("{}{}", metric.csv, oracle.data));
                    let kind = Kind::of(&metric.run);
                    plan.quantities.push((column, quantity, kind, 1.0));
                }
            }
        }
        if missing.is_empty() {
            return Ok(plan);
        }
        let found = match names {
            [one] => format!("one column, {one:?} (values must be separated by commas)"),
            _ => names.join(", "),
        };
        Err(TablesError::MissingColumns {
            path: text.path.into(),
            missing,
            found,
        })
    }

    /// How the scores of a row were computed: as those of the rows before it. A file that does not say it is of the
    /// published study.
    fn protocol(&self, row: &Row<'_>, before: Option<Protocol>) -> Result<Protocol> {
        row.check_length()?;
        let Some(column) = self.protocol else {
            return Ok(Protocol::Published);
        };
        let known = [Protocol::Exact, Protocol::Published];
        let found = known.into_iter().find(|p| p.name() == row.value(column));
        let Some(found) = found else {
            let advice = "say how the scores of this row were computed, or leave the column out";
            return Err(row.error(column, "exact or published", advice));
        };
        match before {
            Some(before) if before != found => {
                let expected = format!("{}, as in the rows before", before.name());
                let advice = "keep scores of different protocols in different files";
                Err(row.error(column, &expected, advice))
            }
            _ => Ok(found),
        }
    }

    fn group(
        &self,
        row: &Row<'_>,
        protocol: Protocol,
        settings: &TableSettings,
    ) -> Result<GroupScores> {
        let classifier = row.value(self.classifier);
        if classifier.is_empty() {
            let advice = "say whose counterfactuals these are";
            return Err(row.error(self.classifier, "the name of a classifier", advice));
        }
        let mut values = BTreeMap::new();
        for (column, quantity, kind, divisor) in &self.quantities {
            // Units are those of one norm over all images of a group.
            let divisor = match protocol {
                Protocol::Published => *divisor,
                Protocol::Exact => 1.0,
            };
            values.insert(quantity.clone(), row.score(*column, *kind, divisor)?);
        }
        Ok(GroupScores {
            place: format!("{}, line {}", row.text.path.display(), row.line),
            classifier: classifier_name(settings, classifier),
            cone_projection: row.boolean(self.cone_projection)?,
            xzero_prediction: row.boolean(self.xzero_prediction)?,
            source: settings.complete(row.class(self.source.0, self.source.1)?),
            target: settings.complete(row.class(self.target.0, self.target.1)?),
            values,
        })
    }
}

/// The oracles that have a column, in the order of the header. Of several prefixes that fit, the longest counts.
fn oracles(names: &[&str], settings: &TableSettings) -> Vec<Oracle> {
    let mut found: Vec<Oracle> = Vec::new();
    for name in names {
        let rest = settings
            .oracle_metrics
            .iter()
            .filter_map(|metric| name.strip_prefix(metric.csv.as_str()))
            .min_by_key(|rest| rest.len());
        if let Some(data) = rest.filter(|data| !data.is_empty()) {
            // The CSV's columns are looked up by the name that it has there itself.
            let oracle = Oracle {
                data: data.to_owned(),
                ..oracle(settings, data)
            };
            if !found.contains(&oracle) {
                found.push(oracle);
            }
        }
    }
    found
}
