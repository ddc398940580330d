//! Tables 2–6 of the study from its published CSV: every cell as printed, and the numbers behind them to 1e-12.

use std::path::PathBuf;

use super::super::check::{Check, Tolerance};
use super::super::folder::Folder;
use super::super::json::Node;
use super::super::{ConformanceError, Result, Source};
use super::settings::schedule;
use crate::report::study_tables::printed;
use crate::score::Protocol;
use crate::study::tables::class::{Class, ClassPair};
use crate::study::tables::settings::{Layout, Named, Oracle, Pairs};
use crate::study::tables::{
    self, Cell, Options, Std, Study, Table, TableSettings, TablesError, compute,
};

const CSV: &str = "published/raw_experimental_results.csv";
const NUMBER: Tolerance = Tolerance::both(1e-12, 1e-12);
const DIGITS: usize = 2;

pub fn run(folder: &Folder, check: &mut Check) -> Result<()> {
    let Source::Folder(root) = folder.source() else {
        return Ok(());
    };
    let Some(json) = folder.json("settings.json")? else {
        return Ok(());
    };
    let described = json.root();
    sampling(&described, check)?;
    for section in [
        "dataset_preprocessing",
        "classifier_input",
        "dvce",
        "dime",
        "table_rules",
    ] {
        if let Some(node) = described.get(section) {
            node.skip();
            check.unused(
                format!("settings.json: {section}"),
                "a description of the originals",
            );
        }
    }
    let experiment = described.at("experiment")?;
    if folder.bytes(CSV)?.is_none() {
        for (_, node) in described.fields()? {
            node.skip();
        }
        check.absent(format!("tables: all cases ({CSV} is absent)"));
        return Ok(());
    }
    let settings = settings(&described)?;
    let layouts: Vec<&Layout> = settings.tables.iter().collect();
    let study =
        tables::read(&[PathBuf::from(root).join(CSV)], &settings, &layouts).map_err(fail)?;
    let ideal = pairs(&experiment.at("ideal_pairs")?)?;
    check.group("the study's groups");
    groups(&experiment, &study, &ideal, check)?;
    let run = Run {
        study,
        settings: &settings,
        options: Options::new(Protocol::Published, ideal),
    };
    if let Some(json) = folder.json("table_printed.json")? {
        run.printed(&json.root(), check)?;
    }
    if let Some(json) = folder.json("table_numeric_groups.json")? {
        run.setups(&json.root().at("groups")?, check)?;
    }
    if let Some(json) = folder.json("table_numeric.json")? {
        run.differences(&json.root(), check)?;
    }
    if let Some(json) = folder.json("table_check.json")? {
        run.what_if(&json.root(), check)?;
    }
    Ok(())
}

fn fail(error: TablesError) -> ConformanceError {
    ConformanceError::Tables(Box::new(error))
}

/// Steps of the published chains.
fn sampling(described: &Node<'_>, check: &mut Check) -> Result<()> {
    let Some(at) = described.get("sampling") else {
        return Ok(());
    };
    check.group("the study's sampling");
    let schedule = schedule(&at)?;
    let start = super::settings::start(&at, &schedule)?;
    for (field, value) in at.fields()? {
        let got = match field {
            "guided_steps" => start,
            "first_respaced_index" => start - 1,
            "first_original_timestep" => schedule.steps[start - 1],
            _ => {
                value.skip();
                continue;
            }
        };
        check.equal(field, &value.usize()?, &got);
    }
    Ok(())
}

fn pairs(node: &Node<'_>) -> Result<Vec<ClassPair>> {
    let class = |number: usize| Class {
        number: i64::try_from(number).ok(),
        name: None,
    };
    let pair = |node: Node<'_>| match node.usizes()?[..] {
        [source, target] => Ok((class(source), class(target))),
        _ => Err(node.wrong("a source and a target")),
    };
    node.items()?.into_iter().map(pair).collect()
}

/// The program's settings with the names, columns and divisors of the folder's.
fn settings(described: &Node<'_>) -> Result<TableSettings> {
    let mut settings = TableSettings::shipped().map_err(fail)?;
    let columns = described.at("csv_classifier_to_column")?.fields()?;
    settings.classifiers = columns
        .into_iter()
        .map(|(data, name)| {
            let (name, data) = (name.str()?.to_owned(), data.to_owned());
            Ok(Named { name, data })
        })
        .collect::<Result<_>>()?;
    let mut oracles: Vec<Oracle> = Vec::new();
    for (column, row) in described.at("csv_metric_to_row")?.fields()? {
        let row = row.str()?;
        let of_oracle = settings.oracle_metrics.iter().find_map(|metric| {
            let name = row.strip_prefix(&metric.row)?.strip_prefix(' ')?;
            Some((
                name.to_owned(),
                column.strip_prefix(&metric.csv)?.to_owned(),
            ))
        });
        if let Some((name, data)) = of_oracle {
            let shipped = settings.oracles.iter().find(|o| o.name == name);
            let oracle = Oracle {
                name,
                data,
                better: shipped.map(|o| o.better).unwrap_or_default(),
                tables: shipped.and_then(|o| o.tables.clone()),
            };
            if !oracles.iter().any(|o| o.name == oracle.name) {
                oracles.push(oracle);
            }
            continue;
        }
        // A unit may stand behind the name.
        let name = row.split(" (").next().unwrap_or(row);
        if let Some(metric) = settings.metrics.iter_mut().find(|m| m.row == name) {
            metric.csv = column.to_owned();
        }
    }
    for column in described.at("csv_columns_dropped")?.strs()? {
        let metrics = settings.oracle_metrics.iter();
        let data = metrics.filter_map(|m| column.strip_prefix(&m.csv));
        if let Some(data) = data.min_by_key(|d| d.len())
            && !oracles.iter().any(|o| o.data == data)
        {
            oracles.push(Oracle {
                name: data.to_owned(),
                data: data.to_owned(),
                better: Default::default(),
                tables: Some(Vec::new()),
            });
        }
    }
    settings.oracles = oracles;
    for (column, divisor) in described.at("csv_metric_divisor")?.fields()? {
        let divisor = divisor.f64()?;
        if let Some(metric) = settings.metrics.iter_mut().find(|m| m.csv == column) {
            metric.divisor = Some(divisor);
        }
    }
    Ok(settings)
}

/// Numbers of rows and groups, and names of classes.
fn groups(
    experiment: &Node<'_>,
    study: &Study,
    ideal: &[ClassPair],
    check: &mut Check,
) -> Result<()> {
    let mut all: Vec<ClassPair> = Vec::new();
    for group in &study.groups {
        let same = |(s, t): &ClassPair| s.is(&group.source) && t.is(&group.target);
        if !all.iter().any(same) {
            all.push((group.source.clone(), group.target.clone()));
        }
    }
    let is_ideal = |(s, t): &ClassPair| ideal.iter().any(|(a, b)| a.is(s) && b.is(t));
    let other: Vec<&ClassPair> = all.iter().filter(|p| !is_ideal(p)).collect();
    for (field, value) in experiment.fields()? {
        match field {
            "rows_in_csv" => check.equal(field, &value.usize()?, &study.groups.len()),
            "groups" => check.equal(field, &value.usize()?, &all.len()),
            "non_ideal_groups" => check.equal(field, &value.usize()?, &other.len()),
            "self_pairs_inside_non_ideal" => {
                let expected = pairs(&value)?;
                let own = other.iter().filter(|(s, t)| s.is(t));
                let own: Vec<&&ClassPair> = own.collect();
                let found = |(s, t): &ClassPair| own.iter().any(|(a, b)| a.is(s) && b.is(t));
                let same = expected.len() == own.len() && expected.iter().all(found);
                check.equal(field, &true, &same);
            }
            "source_classes" | "target_classes" => {
                for (number, name) in value.fields()? {
                    let class = Class::parse(number);
                    let of = |(s, t): &ClassPair| match field {
                        "source_classes" => s.clone(),
                        _ => t.clone(),
                    };
                    let found = all.iter().map(of).find(|c| c.is(&class));
                    let got = found.and_then(|c| c.name);
                    check.equal(
                        format!("{field} {number}"),
                        &Some(name.str()?.to_owned()),
                        &got,
                    );
                }
            }
            "images_per_source_class" => value.skip(),
            _ => {}
        }
    }
    Ok(())
}

struct Run<'a> {
    study: Study,
    settings: &'a TableSettings,
    options: Options,
}

impl Run<'_> {
    fn tables(&self, layouts: &[&Layout], std: Option<Std>) -> Result<Vec<Table>> {
        let options = Options {
            std,
            ..self.options.clone()
        };
        compute(&self.study, self.settings, layouts, &options).map_err(fail)
    }

    fn all(&self, std: Option<Std>) -> Result<Vec<Table>> {
        let layouts: Vec<&Layout> = self.settings.tables.iter().collect();
        self.tables(&layouts, std)
    }

    fn printed(&self, root: &Node<'_>, check: &mut Check) -> Result<()> {
        let tables = self.all(None)?;
        for (name, rows) in root.fields()? {
            let number = name.strip_prefix("table").and_then(|n| n.parse().ok());
            let Some(table) = tables.iter().find(|t| Some(t.number) == number) else {
                continue;
            };
            check.group(format!("table {} as printed", table.number));
            each_cell(table, &rows, |what, cell, expected| {
                let got = printed(cell, table, DIGITS);
                check.equal(what, expected.str()?, &got[..]);
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Means and both stds of every combination of pairs and switches.
    fn setups(&self, groups: &Node<'_>, check: &mut Check) -> Result<()> {
        check.group("means and stds of the setups");
        let Some(base) = self.settings.table(2) else {
            return Ok(());
        };
        for (name, rows) in groups.fields()? {
            let Some((pairs, cone, x0)) = setup(name) else {
                continue;
            };
            let layout = Layout {
                pairs,
                cone_projection: cone,
                xzero_prediction: x0,
                against: None,
                ..base.clone()
            };
            self.both(&layout, name, &rows, check)?;
        }
        Ok(())
    }

    /// The numbers of one table with both stds.
    fn both(&self, layout: &Layout, name: &str, rows: &Node<'_>, check: &mut Check) -> Result<()> {
        for (std, field) in [(Std::Population, "std_ddof0"), (Std::Sample, "std_ddof1")] {
            for table in self.tables(&[layout], Some(std))? {
                each_cell(&table, rows, |what, cell, expected| {
                    let what = format!("{name} {what}");
                    match cell {
                        Cell::Value {
                            mean, std, groups, ..
                        } => {
                            if let Some(n) = expected.get("n") {
                                check.equal(format!("{what} n"), &n.usize()?, groups);
                            }
                            let got = [*mean, std.unwrap_or(f64::NAN)];
                            let expected =
                                [expected.at("mean")?.f64()?, expected.at(field)?.f64()?];
                            check.close_all(format!("{what} {field}"), &expected, &got, NUMBER);
                        }
                        Cell::Own | Cell::Missing | Cell::Interval { .. } => {
                            check.equal(what, &expected.f64_or_null()?, &None);
                        }
                    }
                    Ok(())
                })?;
            }
        }
        Ok(())
    }

    fn differences(&self, root: &Node<'_>, check: &mut Check) -> Result<()> {
        check.group("differences, not rounded");
        // Tables 2 and 3 are a setup and a convention.
        for number in [2, 3] {
            let (node, layout) = (
                root.get(&format!("table{number}")),
                self.settings.table(number),
            );
            if let (Some(node), Some(layout)) = (node, layout) {
                let own = (
                    layout.pairs,
                    layout.cone_projection,
                    layout.xzero_prediction,
                );
                let source = node.at("source")?;
                let said = setup(source.str()?).ok_or_else(|| source.wrong("a setup"))?;
                check.equal(format!("table {number}: source"), &said, &own);
                let std = match layout.std {
                    Std::Population => "ddof 0",
                    Std::Sample => "ddof 1",
                };
                check.equal(format!("table {number}: std"), node.at("std")?.str()?, std);
            }
        }
        for (name, rows) in root.at("differences")?.fields()? {
            let number = name.strip_prefix("table").and_then(|n| n.parse().ok());
            if let Some(layout) = number.and_then(|n| self.settings.table(n)) {
                self.both(layout, name, &rows, check)?;
            }
        }
        Ok(())
    }

    /// How many cells there are, and how many other conventions would change.
    fn what_if(&self, root: &Node<'_>, check: &mut Check) -> Result<()> {
        let published = self.all(None)?;
        check.group("numbers of cells");
        for (name, node) in root.fields()? {
            if name == "what_if" {
                continue;
            }
            let number = name.strip_prefix("table").and_then(|n| n.parse().ok());
            match published.iter().find(|t| Some(t.number) == number) {
                Some(table) => counted(name, table, &node, check)?,
                None => by_people(name, &node, check),
            }
        }
        check.group("cells that other conventions change");
        let Some(node) = root.get("what_if") else {
            return Ok(());
        };
        for (name, node) in node.fields()? {
            match name {
                "std_cells_changing_if_ddof0_is_used" => {
                    let other = self.all(Some(Std::Population))?;
                    for (table, expected) in node.fields()? {
                        let number = table.strip_prefix("table").and_then(|n| n.parse().ok());
                        let changed = changed(&published, &other, number, &[]);
                        check.equal(format!("{name} {table}"), expected.str()?, &changed[..]);
                    }
                }
                "cells_changing_in_table2_TA_LPIPS_FID_if_ddof1_is_used" => {
                    let other = self.all(Some(Std::Sample))?;
                    let changed = changed(&published, &other, Some(2), &["TA", "LPIPS", "FID"]);
                    check.equal(name, node.str()?, &changed[..]);
                }
                // The target is a class of the paper's text, not of the data.
                "cells_changing_in_table2_TA_LPIPS_FID_if_mashed_potato_goes_to_carbonara" => {
                    node.skip();
                    check.unused(
                        format!("table_check.json: {name}"),
                        "names a pair of the text",
                    );
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Numbers of cells of a table; the rest is what people found in the text of the paper.
fn counted(name: &str, table: &Table, node: &Node<'_>, check: &mut Check) -> Result<()> {
    let cells = || table.rows.iter().flat_map(|row| &row.cells);
    let numbers = cells().filter(|cell| matches!(cell, Cell::Value { .. }));
    for (field, value) in node.fields()? {
        let what = format!("{name}.{field}");
        match field {
            "cells" => check.equal(what, &value.usize()?, &cells().count()),
            "cells_with_numbers" => check.equal(what, &value.usize()?, &numbers.clone().count()),
            _ => by_people(&what, &value, check),
        }
    }
    Ok(())
}

fn by_people(what: &str, node: &Node<'_>, check: &mut Check) {
    node.skip();
    check.unused(
        format!("table_check.json: {what}"),
        "found by people in the text of the paper, which is not in the folder",
    );
}

/// `N of M` cells with numbers.
fn changed(a: &[Table], b: &[Table], number: Option<u32>, rows: &[&str]) -> String {
    let (mut count, mut all) = (0, 0);
    for (a, b) in a.iter().zip(b).filter(|(a, _)| Some(a.number) == number) {
        for (x, y) in a.rows.iter().zip(&b.rows) {
            if !rows.is_empty() && !rows.contains(&x.name.as_str()) {
                continue;
            }
            for (x, y) in x.cells.iter().zip(&y.cells) {
                all += usize::from(matches!(x, Cell::Value { .. }));
                count += usize::from(printed(x, a, DIGITS) != printed(y, b, DIGITS));
            }
        }
    }
    format!("{count} of {all}")
}

/// `ideal_cone1_x01` and the like.
fn setup(name: &str) -> Option<(Pairs, bool, bool)> {
    let (pairs, rest) = name.split_once("_cone")?;
    let pairs = match pairs {
        "ideal" => Pairs::Ideal,
        "nonideal" => Pairs::Other,
        _ => return None,
    };
    let (cone, x0) = rest.split_once("_x0")?;
    let switch = |text: &str| match text {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    };
    Some((pairs, switch(cone)?, switch(x0)?))
}

/// Every cell that a table and the file both have; what only the file has stays unread.
fn each_cell(
    table: &Table,
    rows: &Node<'_>,
    mut look: impl FnMut(String, &Cell, Node<'_>) -> Result<()>,
) -> Result<()> {
    for (row, columns) in rows.fields()? {
        let Some(found) = table.rows.iter().find(|r| r.name == row) else {
            continue;
        };
        for (column, expected) in columns.fields()? {
            let at = table.columns.iter().position(|c| c == column);
            if let Some(cell) = at.and_then(|at| found.cells.get(at)) {
                look(format!("{row} {column}"), cell, expected)?;
            }
        }
    }
    Ok(())
}
