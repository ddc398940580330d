//! `foil tabular datasets`.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;

use crate::cli::{UsageError, print};
use crate::report::aligned::Aligned;
use crate::tabular::{CATALOG, DataSet, Source, balance_scale, tic_tac_toe};

#[derive(Args)]
pub struct DatasetsArgs {
    /// Folder with the prepared tables, <name>.csv each: says of each whether it is there and has the right size
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Write a data set that follows from its rules (BalanceScale or TicTacToe)
    #[arg(long, value_name = "NAME", requires = "out")]
    generate: Option<String>,
    /// Where to write it
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub fn run(args: &DatasetsArgs) -> anyhow::Result<()> {
    if let (Some(name), Some(out)) = (&args.generate, &args.out) {
        let text = match name.as_str() {
            "BalanceScale" => balance_scale(),
            "TicTacToe" => tic_tac_toe(),
            _ => {
                let message = format!(
                    "--generate {name}: expected BalanceScale or TicTacToe; the others are files"
                );
                return Err(UsageError(message).into());
            }
        };
        std::fs::write(out, &text).with_context(|| out.display().to_string())?;
        return print(&format!(
            "{}: {} rows\n",
            out.display(),
            text.lines().count() - 1
        ));
    }
    let mut table = Aligned::new(&[
        "data set",
        "rows",
        "features",
        "file",
        "preparation",
        "found",
    ]);
    for set in &CATALOG {
        let (page, file) = match set.source {
            Source::Generated => ("made by foil", "--generate"),
            Source::Uci(page, file) => (page, file),
        };
        let found = match &args.data {
            None => "-".to_string(),
            Some(folder) => checked(set, &folder.join(format!("{}.csv", set.name)))?,
        };
        table.row(&[
            set.name.into(),
            set.rows.to_string(),
            set.features.to_string(),
            format!("{page}: {file}"),
            set.preparation.into(),
            found,
        ]);
    }
    print(&format!(
        "{table}\nFiles are those of archive.ics.uci.edu. A prepared table is <name>.csv: a header, the features, then `class`; categories come first in \
         mixed tables; beside it schema.json with one schema for each name.\n"
    ))
}

/// Whether a prepared table is there and has the right size.
fn checked(set: &DataSet, path: &std::path::Path) -> anyhow::Result<String> {
    if !path.is_file() {
        return Ok(format!("absent: put it at {}", path.display()));
    }
    let mut reader = csv::Reader::from_path(path).with_context(|| path.display().to_string())?;
    let columns = reader
        .headers()
        .with_context(|| path.display().to_string())?
        .len();
    let rows = reader.records().count();
    Ok(match rows == set.rows && columns == set.features + 1 {
        true => "ok".into(),
        false => format!(
            "{rows} rows of {columns} columns; expected {} of {}",
            set.rows,
            set.features + 1
        ),
    })
}
