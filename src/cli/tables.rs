//! `foil tables`: the tables of a study.

use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, ValueEnum};

use super::{UsageError, print};
use crate::report::study_tables::{Document, csv, json, latex, markdown, text};
use crate::score::Protocol;
use crate::study::quantitative::{self, QuantitativeError};
use crate::study::tables::class::{ClassPair, arrow};
use crate::study::tables::settings::{Layout, ORACLES};
use crate::study::tables::{
    self, Options, SHIPPED, Spread, Std, Study, TableSettings, TablesError,
};

/// Prints Tables 2-6 of the diffusion-vce study, from its CSV of raw results or from result folders of `foil score`; or one table
/// of several methods, from result folders of `foil score` over samples (en, tcv, im1, im2, oracle, lvs, fid:embedding).
#[derive(Args)]
pub struct TablesArgs {
    /// CSV files of the study's layout, or folders with such a raw.csv; or result folders of `foil score`, each with a run.toml that says how its
    /// counterfactuals were made (docs/tables.md).
    #[arg(long, value_name = "PATH", num_args = 1.., required_unless_present = "print_settings")]
    from: Vec<PathBuf>,
    /// Which tables: numbers and ranges, such as 2,4-6. Default: all.
    #[arg(long = "table", value_name = "LIST", value_delimiter = ',', value_parser = parse_range)]
    tables: Vec<(u32, u32)>,
    /// How to print.
    #[arg(long, value_enum, default_value_t = Format::Text, conflicts_with = "json")]
    format: Format,
    /// Print JSON, with unrounded numbers and counts of groups.
    #[arg(long)]
    json: bool,

    /// `published`: the conventions of the paper's tables; `exact`: sample stds, stds of paired changes, no group whose target
    /// is its source. Default: the protocol of the scores (of CSV files: published, unless a column `protocol` says otherwise).
    #[arg(long, value_enum)]
    protocol: Option<ProtocolArg>,
    /// Divisor of every std: n or n - 1. Default: by --protocol.
    #[arg(long, value_enum)]
    std: Option<StdArg>,
    /// What ± is in tables of changes: the difference of two stds, or the std of the changes of paired groups.
    /// Default: by --protocol.
    #[arg(long, value_enum)]
    spread: Option<SpreadArg>,
    /// Groups whose target is their source, which no counterfactual needs. Default: by --protocol.
    #[arg(long, value_enum)]
    self_pairs: Option<SelfPairsArg>,
    /// The ideal pairs: `published`, `text` (mashed potato to carbonara, as the paper's text says), another set of the settings,
    /// or SOURCE:TARGET,... by numbers or names. Default: published.
    #[arg(long, value_name = "SET|PAIRS")]
    ideal: Option<String>,
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=15), help = "Decimals; default 2, of samples 4")]
    digits: Option<u8>,
    /// Write Label Variation Scores of several methods as a bar chart (SVG).
    #[arg(long, value_name = "FILE")]
    bars: Option<PathBuf>,

    /// Of samples: the label that the counterfactuals are to change, whose Label Variation Score is desired high (that of all
    /// others low). Default: the one whose label model is the oracle.
    #[arg(long, value_name = "LABEL")]
    explained: Option<String>,

    /// Names, columns, pairs and layouts (TOML); the sections it holds replace the paper's. Default: the tables.toml in the folder of a
    /// study.
    #[arg(long, value_name = "FILE")]
    settings: Option<PathBuf>,
    /// Print the paper's settings, to start from, and stop.
    #[arg(long)]
    print_settings: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    Text,
    Markdown,
    Latex,
    Csv,
}

#[derive(Clone, Copy, ValueEnum)]
enum ProtocolArg {
    Exact,
    Published,
}

#[derive(Clone, Copy, ValueEnum)]
enum StdArg {
    /// Divisor n (ddof 0).
    Population,
    /// Divisor n - 1 (ddof 1).
    Sample,
}

#[derive(Clone, Copy, ValueEnum)]
enum SpreadArg {
    Stds,
    Paired,
}

#[derive(Clone, Copy, ValueEnum)]
enum SelfPairsArg {
    Keep,
    LeaveOut,
}

fn parse_range(text: &str) -> Result<(u32, u32), String> {
    let wrong = |_| "expected table numbers such as 2,4-6".to_owned();
    let (first, last) = text
        .split_once("..")
        .or_else(|| text.split_once('-'))
        .unwrap_or((text, text));
    let first = first.trim().parse().map_err(wrong)?;
    let last = last.trim().parse().map_err(wrong)?;
    match first <= last {
        true => Ok((first, last)),
        false => Err(format!("{first} comes after {last}")),
    }
}

pub fn run(args: &TablesArgs) -> anyhow::Result<()> {
    if args.print_settings {
        return print(SHIPPED);
    }
    let document = if quantitative::holds_samples(&args.from) {
        args.methods()?
    } else if args.explained.is_some() {
        let why = "--explained is about Label Variation Scores; give results of `foil score --metrics lvs` with --from";
        return Err(UsageError(why.into()).into());
    } else if args.bars.is_some() {
        let why = "--bars shows Label Variation Scores; give results of `foil score --metrics lvs` with --from";
        return Err(UsageError(why.into()).into());
    } else {
        args.document().map_err(|error| match error {
            TablesError::Usage(message) => UsageError(message).into(),
            other => anyhow::Error::from(other),
        })?
    };
    if args.json {
        return print(&json::render(&document));
    }
    match args.format {
        Format::Text => print(&text::render(&document)),
        Format::Markdown => print(&markdown::render(&document)),
        Format::Latex => print(&latex::render(&document)),
        Format::Csv => {
            let rows = csv::render(&document).map_err(anyhow::Error::msg)?;
            print(&String::from_utf8_lossy(&rows))
        }
    }
}

impl TablesArgs {
    /// One table of methods scored over samples.
    fn methods(&self) -> anyhow::Result<Document> {
        for (given, option) in [
            (!self.tables.is_empty(), "--table"),
            (self.ideal.is_some(), "--ideal"),
            (self.protocol.is_some(), "--protocol"),
            (self.std.is_some(), "--std"),
            (self.spread.is_some(), "--spread"),
            (self.self_pairs.is_some(), "--self-pairs"),
            (self.settings.is_some(), "--settings"),
        ] {
            if given {
                let why = format!(
                    "{option} is for tables of groups (source to target); --from holds scores of samples, which make one table of \
                     methods: leave it out"
                );
                return Err(UsageError(why).into());
            }
        }
        let methods = quantitative::read_results(&self.from)?;
        let title = "Scores of counterfactuals by method";
        let table = quantitative::table(1, title, &methods, self.explained.as_deref());
        let table = table.map_err(|error| match error {
            QuantitativeError::Usage(why) => UsageError(why).into(),
            other => anyhow::Error::from(other),
        })?;
        if let Some(file) = &self.bars {
            let svg = quantitative::label_variation_svg("Label Variation Score", &methods);
            let svg = svg.ok_or_else(|| {
                UsageError(
                    "--bars: no result has a Label Variation Score; score with --metrics lvs"
                        .into(),
                )
            })?;
            std::fs::write(file, svg).with_context(|| format!("--bars {}", file.display()))?;
        }
        Ok(Document {
            tables: vec![table],
            digits: usize::from(self.digits.unwrap_or(4)),
            notes: Vec::new(),
        })
    }

    fn document(&self) -> Result<Document, TablesError> {
        let own = match &self.settings {
            Some(_) => None,
            None => tables::own_settings(&self.from)?,
        };
        let settings = match self.settings.as_ref().or(own.as_ref()) {
            Some(path) => TableSettings::read(path)?,
            None => TableSettings::shipped()?,
        };
        let layouts = self.layouts(&settings)?;
        let (ideal, ideal_note) = self.ideal(&settings)?;
        let study = tables::read(&self.from, &settings, &layouts)?;
        let protocol = match self.protocol {
            None => study.protocol,
            Some(ProtocolArg::Exact) => Protocol::Exact,
            Some(ProtocolArg::Published) => Protocol::Published,
        };
        let mut options = Options::new(protocol, ideal);
        if let Some(std) = self.std {
            options.std = Some(match std {
                StdArg::Population => Std::Population,
                StdArg::Sample => Std::Sample,
            });
        }
        if let Some(spread) = self.spread {
            options.spread = match spread {
                SpreadArg::Stds => Spread::Stds,
                SpreadArg::Paired => Spread::Paired,
            };
        }
        if let Some(own) = self.self_pairs {
            options.self_pairs = matches!(own, SelfPairsArg::Keep);
        }
        let tables = tables::compute(&study, &settings, &layouts, &options)?;
        let mut notes = legend(&settings, &layouts, &study);
        let pairs: Vec<String> = options.ideal.iter().map(arrow).collect();
        let why = ideal_note.map_or(String::new(), |note| format!(" ({note})"));
        notes.push(format!("Ideal pairs: {}{why}.", pairs.join(", ")));
        notes.push(format!("Tables by the {} protocol.", protocol.name()));
        if let Some(own) = own {
            notes.push(format!("Names and layouts: {}.", own.display()));
        }
        notes.extend(study.notes.iter().map(|note| format!("note: {note}")));
        Ok(Document {
            tables,
            digits: usize::from(self.digits.unwrap_or(2)),
            notes,
        })
    }

    /// The tables asked for, in the order of the settings.
    fn layouts<'a>(&self, settings: &'a TableSettings) -> Result<Vec<&'a Layout>, TablesError> {
        let known: Vec<String> = settings
            .tables
            .iter()
            .map(|t| t.number.to_string())
            .collect();
        for (first, last) in &self.tables {
            for end in [*first, *last] {
                if settings.table(end).is_none() {
                    return Err(TablesError::Usage(format!(
                        "--table: expected numbers of {}, found {end}",
                        known.join(", ")
                    )));
                }
            }
        }
        let asked = |layout: &&Layout| {
            let within = |(first, last): &(u32, u32)| (*first..=*last).contains(&layout.number);
            self.tables.is_empty() || self.tables.iter().any(within)
        };
        Ok(settings.tables.iter().filter(asked).collect())
    }

    /// The ideal pairs asked for: by default those published, or the only set of the settings.
    fn ideal(
        &self,
        settings: &TableSettings,
    ) -> Result<(Vec<ClassPair>, Option<String>), TablesError> {
        const DEFAULT: &str = "published";
        let only = match settings.ideal.len() {
            1 => settings.ideal.keys().next().map(String::as_str),
            _ => None,
        };
        settings.ideal_pairs(self.ideal.as_deref().or(only).unwrap_or(DEFAULT))
    }
}

/// The abbreviations of the rows shown, and what "-" means.
fn legend(settings: &TableSettings, layouts: &[&Layout], study: &Study) -> Vec<String> {
    let mut parts = Vec::new();
    let mut add = |row: &str, meaning: &Option<String>| {
        if let Some(meaning) = meaning {
            parts.push(format!("{row} = {meaning}"));
        }
    };
    for metric in &settings.metrics {
        if layouts.iter().any(|l| l.rows.contains(&metric.row)) {
            add(&metric.row, &metric.meaning);
        }
    }
    for metric in &settings.oracle_metrics {
        let shown = |l: &&Layout| {
            l.rows.iter().any(|r| r == ORACLES) && l.oracle_rows.contains(&metric.row)
        };
        if layouts.iter().any(shown) && !study.oracles.is_empty() {
            add(&metric.row, &metric.meaning);
        }
    }
    parts.push("\"-\" = the oracle is the classifier itself, or no group has a value".into());
    vec![format!("{}.", parts.join("; "))]
}
