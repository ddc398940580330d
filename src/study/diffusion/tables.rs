//! The tables of a study: `tables.toml` says how `foil tables` reads its CSV, and the same settings print them here.

use std::fmt::Write;
use std::path::Path;

use super::config::{Config, Setup};
use super::error::Result;
use super::scoring::judges;
use crate::report::study_tables::{Document, text};
use crate::study::tables::settings::Layout;
use crate::study::tables::{self, Options, SETTINGS_FILE, STUDY_FILE, TableSettings, TablesError};

/// Layouts and metrics that all studies share.
const COMMON: &str = include_str!("tables.toml");

/// Distances: name, column, score, TeX, meaning.
const DISTANCES: [(&str, &str, &str, &str, &str); 3] = [
    ("D1", "lp_norm_1", "l1", "$D_1$", "L1 distance"),
    ("D1.5", "lp_norm_1_5", "l1_5", "$D_{1.5}$", "L1.5 distance"),
    ("D2", "lp_norm_2", "l2", "$D_2$", "L2 distance"),
];

/// Text of `tables.toml`.
pub fn settings(config: &Config) -> String {
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let mut text = format!(
        "# How `foil tables --from raw.csv --settings tables.toml` reads this study.\n\n{COMMON}"
    );
    for (i, (row, csv, run, latex, meaning)) in DISTANCES.into_iter().enumerate() {
        let unit = [
            "divisor = 1e6\nunit = \"m\"\n",
            "divisor = 1e3\nunit = \"k\"\n",
        ][i.min(1)];
        let _ = writeln!(
            text,
            "[[metric]]\nrow = \"{row}\"\ncsv = \"{csv}\"\nrun = \"{run}\"\nbetter = \"lower\"\n{unit}latex = {}\n\
             meaning = \"{meaning}\"\n",
            quoted(latex)
        );
    }
    for (row, name, meaning) in [
        ("LPIPS", "lpips", "perceptual distance"),
        ("FID", "fid", "Fréchet Inception distance"),
    ] {
        let _ = writeln!(
            text,
            "[[metric]]\nrow = \"{row}\"\ncsv = \"{name}\"\nrun = \"{name}\"\nbetter = \"lower\"\nmeaning = \"{meaning}\"\n"
        );
    }
    for classifier in &config.classifiers {
        let name = quoted(&classifier.name);
        let _ = writeln!(text, "[[classifier]]\nname = {name}\ndata = {name}\n");
    }
    for judge in judges(config) {
        let name = quoted(&judge.name);
        let rest = match judge.untrained {
            true => "better = \"lower\"\ntables = [2]\n",
            false => "",
        };
        let _ = writeln!(text, "[[oracle]]\nname = {name}\ndata = {name}\n{rest}");
    }
    let number = |name: &str| {
        let sources = config.sources.iter().map(|s| (&s.name, s.class));
        let targets = config.targets.iter().map(|t| (&t.name, t.class));
        let found = sources.chain(targets).find(|(n, _)| *n == name);
        found.map_or(0, |(_, class)| class)
    };
    let pairs: Vec<String> = config
        .ideal
        .iter()
        .map(|(source, target)| format!("[{}, {}]", number(source), number(target)))
        .collect();
    let _ = writeln!(
        text,
        "[ideal.published]\npairs = [{}]\n\n[classes]",
        pairs.join(", ")
    );
    let mut classes: Vec<(i64, &String)> = { config.sources.iter() }
        .map(|s| (s.class, &s.name))
        .chain(config.targets.iter().map(|t| (t.class, &t.name)))
        .collect();
    classes.sort();
    classes.dedup_by_key(|c| c.0);
    for (class, name) in classes {
        let _ = writeln!(text, "{class} = {}", quoted(name));
    }
    text
}

/// Text of the tables of `raw.csv` by the settings beside it.
pub fn print(config: &Config, folder: &Path) -> Result<String> {
    document(config, folder)
        .map(|document| text::render(&document))
        .map_err(|error| Box::new(error).into())
}

fn document(config: &Config, folder: &Path) -> std::result::Result<Document, TablesError> {
    let settings = TableSettings::read(&folder.join(SETTINGS_FILE))?;
    let has = |layout: &&Layout| {
        config.setups.contains(&Setup {
            cone_projection: layout.cone_projection,
            xzero_prediction: layout.xzero_prediction,
        })
    };
    let layouts: Vec<&Layout> = settings.tables.iter().filter(has).collect();
    let study = tables::read(&[folder.join(STUDY_FILE)], &settings, &layouts)?;
    let (ideal, _) = settings.ideal_pairs("published")?;
    let options = Options::new(study.protocol, ideal);
    let all = tables::compute(&study, &settings, &layouts, &options)?;
    let pairs: Vec<String> = { config.ideal.iter() }
        .map(|(source, target)| format!("{source} → {target}"))
        .collect();
    let meanings = settings.metrics.iter().filter_map(|m| {
        let meaning = m.meaning.as_ref()?;
        Some(format!("{} = {meaning}", m.row))
    });
    let meanings: Vec<String> = meanings.collect();
    Ok(Document {
        tables: all,
        digits: 3,
        notes: vec![
            format!(
                "{}; OS = an oracle agrees with the classifier; OTA = an oracle says target; \"-\" = the oracle is the \
                 classifier itself.",
                meanings.join("; ")
            ),
            format!("Ideal pairs: {}.", pairs.join(", ")),
            format!(
                "Scores and tables by the {} protocol.",
                study.protocol.name()
            ),
        ],
    })
}
