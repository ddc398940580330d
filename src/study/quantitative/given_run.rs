//! Scores the counterfactuals that a configuration names: tables, scores, the grid, the bars and the spread over seeds.

use std::collections::BTreeSet;
use std::path::Path;

use super::given::{Data, Given, Judges, Method};
use super::{
    GridColumn, MethodScores, QuantitativeError, counterfactual_grid, label_variation_svg,
    seeds_svg, seeds_table, table,
};
use crate::metrics::MetricBackend;
use crate::report::study_tables::{Document, csv, latex, markdown, text};
use crate::score::samples::load::{self, Arrays};
use crate::score::samples::{
    self, Autoencoders, LabelModel, Networks, Pixels, Run, Samples, SamplesError, Titles,
};
use crate::score::{Family, Protocol, Scores, Selection, write_atomically};
use crate::weights::Registry;

/// What a run left behind.
pub struct Finished {
    /// The tables as text.
    pub text: String,
    /// Files in the folder, beside the scores of each method.
    pub files: Vec<&'static str>,
}

/// Networks in memory.
struct Loaded<B: MetricBackend> {
    autoencoders: Option<Autoencoders<B>>,
    oracles: Vec<LabelModel<B>>,
    labels: Vec<LabelModel<B>>,
}

impl<B: MetricBackend + 'static> Loaded<B> {
    fn read(
        backend: &B,
        registry: &Registry,
        given: &Given,
        judges: &Judges,
    ) -> Result<Self, QuantitativeError> {
        let file = judges.autoencoders.as_ref().map(|f| given.path(f));
        let mut loaded = Self {
            autoencoders: load::autoencoders(backend, registry, file.as_deref(), &[], given.range)?,
            oracles: Vec::new(),
            labels: Vec::new(),
        };
        if let Some(card) = &judges.oracle {
            let card = given.card(card);
            let (model, _) = load::label_model(backend, registry, "oracle", None, &card)?;
            loaded.oracles.push(model);
        }
        for (name, card) in &judges.label_models {
            let (card, name) = (given.card(card), Some(name.as_str()));
            let (model, _) = load::label_model(backend, registry, "label_models", name, &card)?;
            loaded.labels.push(model);
        }
        Ok(loaded)
    }

    /// What these networks can tell.
    fn selection(&self) -> Selection {
        let mut families = vec![Family::TargetClassValidity, Family::ElasticNet];
        if self.autoencoders.is_some() {
            families.extend([Family::Im1, Family::Im2]);
        }
        if !self.oracles.is_empty() {
            families.extend([Family::Oracle, Family::Fid]);
        }
        if !self.labels.is_empty() {
            families.push(Family::LabelVariation);
        }
        Selection {
            families: families.into_iter().collect(),
            explicit: true,
            embedding: true,
        }
    }

    /// Weights by what they are for.
    fn weights(&self) -> BTreeSet<(String, &str)> {
        let autoencoders = { self.autoencoders.iter() }
            .map(|set| ("autoencoders".to_owned(), set.sha256.as_str()));
        // Oracles may have names of their own.
        let oracles = { self.oracles.iter() }.map(|o| ("oracle".to_owned(), o.sha256.as_str()));
        let labels = { self.labels.iter() }
            .map(|model| (format!("label model {}", model.name), model.sha256.as_str()));
        autoencoders.chain(oracles).chain(labels).collect()
    }

    fn networks(&self) -> Networks<'_, B> {
        Networks {
            autoencoders: self.autoencoders.as_ref(),
            oracles: self.oracles.iter().collect(),
            labels: self.labels.iter().collect(),
        }
    }

    /// Whether a method can be scored.
    fn check(&self, backend: &B, given: &Given, samples: &Samples) -> Result<(), SamplesError> {
        let selection = self.selection();
        samples::check(backend, samples, &self.networks(), &run(given, &selection))
    }

    /// All scores of one method.
    fn score(
        &self,
        backend: &B,
        given: &Given,
        method: &str,
        samples: &Samples,
    ) -> Result<Scores, QuantitativeError> {
        let selection = self.selection();
        let (networks, run) = (self.networks(), run(given, &selection));
        let terms = samples::evaluate(backend, samples, &networks, &run, &mut |_, _| {})?;
        let found = samples::aggregate(samples, &terms, &run)?;
        let fingerprints = samples::fingerprints(&found, &networks, &run, backend.arithmetic());
        let device = backend.describe();
        let titles = Titles {
            name: method,
            method: Some(method),
            classifier: None,
            device: &device,
            seed: 0,
        };
        let counts = samples::counts(samples, &terms);
        let names = self.oracles.iter().map(|o| o.name.clone()).collect();
        Ok(samples::scores(
            &titles,
            found,
            fingerprints,
            counts,
            &run,
            names,
        ))
    }
}

fn run<'a>(given: &Given, selection: &'a Selection) -> Run<'a> {
    Run {
        selection,
        range: given.range,
        protocol: given.protocol,
        reject_invalid: given.protocol.rejects_invalid() && !given.keep_invalid,
        skip_bad: given.skip_bad,
    }
}

/// The samples of a method.
fn samples_of<B: MetricBackend + 'static>(
    backend: &B,
    given: &Given,
    method: &Method,
) -> Result<Samples, QuantitativeError> {
    let at = |name: &Option<String>| name.as_ref().map(|n| given.path(n));
    let parts = load::arrays(&Arrays {
        originals: given.path(&given.originals),
        counterfactuals: given.path(&method.counterfactuals),
        original_predictions: at(&method.original_predictions),
        targets: at(&method.targets),
        predictions: at(&method.predictions),
    })?;
    let samples = parts.complete(backend, None, given.range, given.protocol)?;
    let same = samples.same_target();
    if let (Protocol::Exact, false, Some(first)) = (given.protocol, given.skip_bad, same.first()) {
        return Err(QuantitativeError::Usage(format!(
            "method {}, targets, sample {first}: expected a target other than the class that the original has already, found class {} as both ({} such samples); there is nothing to change in such a sample: correct the targets, leave these samples out and count them with `skip_bad = true` in the configuration, or follow the published code with `protocol = \"published\"`",
            method.name,
            samples.target[*first],
            same.len()
        )));
    }
    Ok(samples)
}

fn write(out: &Path, name: &str, bytes: &[u8]) -> Result<(), QuantitativeError> {
    let path = out.join(name);
    let wrong = |e: &dyn std::fmt::Display| QuantitativeError::File {
        place: path.display().to_string(),
        reason: e.to_string(),
    };
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(|e| wrong(&e))?;
    }
    write_atomically(&path, bytes).map_err(|e| wrong(&e))
}

/// All sets of evaluation models but the main one; no two of them are the same.
fn seeds<B: MetricBackend + 'static>(
    backend: &B,
    registry: &Registry,
    given: &Given,
) -> Result<Vec<Loaded<B>>, QuantitativeError> {
    let mut all: Vec<Loaded<B>> = Vec::new();
    for judges in &given.seed {
        let own = Loaded::read(backend, registry, given, judges)?;
        let same = |(_, other): &(&Judges, &Loaded<B>)| other.weights() == own.weights();
        if let Some((first, _)) = given.seed.iter().zip(&all).find(same) {
            let name = |judges: &Judges| judges.name.clone().unwrap_or_default();
            return Err(QuantitativeError::Usage(format!(
                "[[seed]] {:?}: expected evaluation models of its own, found the networks of [[seed]] {:?} under other names; the \
                 same networks twice have no spread: leave one out, or give it networks of another seed",
                name(judges),
                name(first)
            )));
        }
        all.push(own);
    }
    Ok(all)
}

/// Reads every method once, so that a fault of the last one is found before the first one is scored.
fn check<B: MetricBackend + 'static>(
    backend: &B,
    data: Data,
    given: &Given,
    sets: &[&Loaded<B>],
) -> Result<(), QuantitativeError> {
    for method in &given.method {
        let samples = samples_of(backend, given, method)?;
        let (name, channels) = data.images();
        let found = samples.originals.shape[1];
        if found != channels {
            let kind = |n: usize| {
                if n == 1 {
                    "grey images"
                } else {
                    "images of colours"
                }
            };
            return Err(QuantitativeError::Usage(format!(
                "originals: expected {}, as of --data {name}, found {}; give the --data that they are of",
                kind(channels),
                kind(found)
            )));
        }
        for loaded in sets {
            loaded.check(backend, given, &samples).map_err(|error| {
                let of_method = |place: String| format!("method {}, {place}", method.name);
                match error {
                    SamplesError::Input {
                        place,
                        expected,
                        found,
                        advice,
                    } => SamplesError::Input {
                        place: of_method(place),
                        expected,
                        found,
                        advice,
                    },
                    other => other,
                }
            })?;
        }
    }
    Ok(())
}

/// Scores all methods, writes tables, scores, the grid and the bars to `out`, and returns the tables as text. Whatever is wrong with
/// the configuration or a method is found before anything is written; the scores of each method are written as soon as they are there.
pub fn run_given<B: MetricBackend + 'static>(
    backend: &B,
    registry: &Registry,
    data: Data,
    given: &Given,
    out: &Path,
    note: &mut dyn FnMut(&str),
) -> Result<Finished, QuantitativeError> {
    let loaded = Loaded::read(backend, registry, given, &given.judges())?;
    let further = seeds(backend, registry, given)?;
    let sets: Vec<&Loaded<B>> = std::iter::once(&loaded).chain(&further).collect();
    check(backend, data, given, &sets)?;
    let mut methods = Vec::new();
    let mut pictures: Vec<Pixels> = Vec::new();
    for method in &given.method {
        note(&format!("{}: {}", data.table().1, method.name));
        let samples = samples_of(backend, given, method)?;
        let scores = loaded.score(backend, given, &method.name, &samples)?;
        let json = crate::report::json::scores(&scores);
        write(
            out,
            &format!("{}/scores.json", method.name),
            json.as_bytes(),
        )?;
        methods.extend(MethodScores::of(&method.counterfactuals, &scores));
        let n = given.samples.min(samples.originals.len());
        if pictures.is_empty() {
            pictures.push(samples.originals.first(n));
        }
        pictures.push(samples.counterfactuals.first(n));
    }
    let (number, title) = data.table();
    let [low, high] = given.range;
    let title = format!("{title}, values from {low} to {high}");
    let explained = given.explained.as_deref();
    let mut document = Document {
        tables: vec![table(number, &title, &methods, explained)?],
        digits: 4,
        notes: Vec::new(),
    };
    let mut files = vec!["tables.txt", "tables.md", "tables.tex", "tables.csv"];
    let mut spreads = Vec::new();
    for (judges, loaded) in given.seed.iter().zip(&further) {
        spreads.push(of_seed(backend, given, judges, loaded, out, note)?);
    }
    if !spreads.is_empty() {
        let spread = seeds_table(&spreads);
        write(out, "seeds.svg", seeds_svg(&spread).as_bytes())?;
        files.push("seeds.svg");
        document.tables.push(spread);
    }
    let printed = text::render(&document);
    write(out, "tables.txt", printed.as_bytes())?;
    write(out, "tables.md", markdown::render(&document).as_bytes())?;
    write(out, "tables.tex", latex::render(&document).as_bytes())?;
    let rows = csv::render(&document).map_err(|reason| QuantitativeError::File {
        place: "tables.csv".into(),
        reason,
    })?;
    write(out, "tables.csv", &rows)?;
    if let Some(svg) = label_variation_svg("Label Variation Score", &methods) {
        write(out, "lvs.svg", svg.as_bytes())?;
        files.push("lvs.svg");
    }
    let names = std::iter::once("original").chain(given.method.iter().map(|m| m.name.as_str()));
    let columns: Vec<GridColumn<'_>> = { pictures.iter().zip(names) }
        .map(|(pixels, name)| GridColumn {
            name,
            pixels,
            range: given.range,
        })
        .collect();
    let fewest = pictures.iter().map(Pixels::len).min().unwrap_or(0);
    let rows: Vec<usize> = (0..given.samples.min(fewest)).collect();
    let grid = counterfactual_grid(&columns, &rows)?;
    write(out, "counterfactuals.png", &grid)?;
    files.push("counterfactuals.png");
    Ok(Finished {
        text: printed,
        files,
    })
}

/// All methods by one further set of evaluation models.
fn of_seed<B: MetricBackend + 'static>(
    backend: &B,
    given: &Given,
    judges: &Judges,
    loaded: &Loaded<B>,
    out: &Path,
    note: &mut dyn FnMut(&str),
) -> Result<Vec<MethodScores>, QuantitativeError> {
    let name = judges.name.as_deref().unwrap_or_default();
    let mut methods = Vec::new();
    for method in &given.method {
        note(&format!("evaluation models {name}: {}", method.name));
        let samples = samples_of(backend, given, method)?;
        let scores = loaded.score(backend, given, &method.name, &samples)?;
        let json = crate::report::json::scores(&scores);
        let file = format!("{}/seed-{name}.json", method.name);
        write(out, &file, json.as_bytes())?;
        methods.extend(MethodScores::of(&method.counterfactuals, &scores));
    }
    Ok(methods)
}
