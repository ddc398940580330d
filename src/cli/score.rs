//! `foil score`.

mod attempts;
mod samples;

use std::path::{Path, PathBuf};

use anyhow::Context;
use attempts::Run;
use clap::{Args, ValueEnum};

use super::{UsageError, print, say};
use crate::images::{self, Pairing};
use crate::metrics::lpips::LpipsNet;
use crate::report;
use crate::score::{
    self, Family, FidFeatures, JudgeSource, Labels, NamedJudge, Outcome, Protocol, Selection,
    Settings, journal::Journal, write_atomically,
};
use crate::tensor::{Device, Precision, Resize};
use crate::weights::{Registry, Role};

/// Scores pairs of originals and counterfactuals.
#[derive(Args)]
pub struct ScoreArgs {
    /// Folder of original images; or a file of arrays (.npy, .npz, IDX, .safetensors), FILE or FILE::NAME.
    #[arg(
        long,
        value_name = "DIR",
        requires = "counterfactuals",
        conflicts_with = "manifest",
        required_unless_present = "manifest"
    )]
    originals: Option<PathBuf>,
    /// Folder of counterfactuals: same relative paths as the originals; a folder named like an original holds a set. Or a file
    /// of arrays in the order of the originals; arrays orig_pred, q and cf_pred in it are predictions and targets.
    #[arg(
        long,
        value_name = "DIR",
        requires = "originals",
        conflicts_with = "manifest"
    )]
    counterfactuals: Option<PathBuf>,
    /// CSV or JSONL with columns original, counterfactual and optionally source, target, group, method.
    #[arg(long, value_name = "FILE")]
    manifest: Option<PathBuf>,

    /// The classifier to explain: a name of `foil weights list`, or a model card (TOML).
    #[arg(long, value_name = "CARD")]
    classifier: Option<String>,
    /// An oracle; may be given several times.
    #[arg(long, value_name = "CARD")]
    oracle: Vec<String>,
    /// Logits computed elsewhere, [n, classes] in the order of --dry-run: `classifier=FILE`, or an oracle's name.
    #[arg(long, value_name = "NAME=FILE")]
    logits: Vec<String>,
    /// Class of the originals (name or number), where the pairs do not say it.
    #[arg(long, value_name = "LABEL")]
    source: Option<String>,
    /// Class the counterfactuals should have.
    #[arg(long, value_name = "LABEL")]
    target: Option<String>,
    /// Class names: one per line, or a JSON array. Default: those of the classifier's card.
    #[arg(long, value_name = "FILE")]
    labels: Option<PathBuf>,

    /// Comma-separated metrics or families: validity, lp, elastic_net, lpips, diversity, fid, kid,
    /// inception_score, prdc, all. Default: all but the last three. Of samples (arrays, or images of one size): en, tcv, im1, im2,
    /// oracle, lvs, fid:embedding.
    #[arg(long, value_name = "LIST", value_parser = Selection::parse)]
    metrics: Option<Selection>,
    /// Auto-encoders of all classes in one file: tensors ae_K.encoder.conv1.weight, …, ae_all.… (im1, im2).
    #[arg(long, value_name = "FILE")]
    autoencoders: Option<PathBuf>,
    /// The auto-encoder of a class, or of `all` classes; may be given several times.
    #[arg(long, value_name = "CLASS=CARD")]
    autoencoder: Vec<String>,
    /// A classifier of some label of the images, for its Label Variation Score; may be given several times.
    #[arg(long, value_name = "NAME=CARD")]
    label_model: Vec<String>,
    /// Classes that the classifier predicted for the originals, in their order; of folders in that of --dry-run (samples).
    #[arg(long, value_name = "FILE")]
    original_predictions: Option<String>,
    /// Target classes of the counterfactuals, in the same order (samples); -1 where the method failed.
    #[arg(long, value_name = "FILE")]
    targets: Option<String>,
    /// Classes that the classifier predicted for the counterfactuals, in the same order (samples); -1 where the method failed.
    #[arg(long, value_name = "FILE")]
    predictions: Option<String>,
    /// Name of the method that made the counterfactuals, for tables (samples).
    #[arg(long, value_name = "NAME")]
    method: Option<String>,
    /// Backbone of LPIPS: alex, vgg or squeeze.
    #[arg(long, value_name = "NET", default_value = "alex")]
    lpips: LpipsNet,
    /// Features of FID, KID and precision/recall: 64, 192, 768, 2048 or embedding (of the classifier).
    #[arg(long, value_name = "N", default_value = "64")]
    fid_features: FidFeatures,
    /// How images come to 299x299 before FID.
    #[arg(long, value_enum, default_value_t = ResizeArg::Tf1)]
    fid_resize: ResizeArg,
    /// Real images for FID and its kin instead of the originals; a subfolder named like a target or group is used for it.
    #[arg(long, value_name = "DIR")]
    reference: Option<PathBuf>,
    /// `exact`: as the paper defines; `published`: as the study's code computed.
    #[arg(long, value_enum, default_value_t = ProtocolArg::Exact)]
    protocol: ProtocolArg,
    /// Leave counterfactuals that the classifier does not call the target out of closeness, diversity and realism; samples
    /// (tcv, im1, im2, oracle, lvs) of the exact protocol are left out without it.
    #[arg(long)]
    reject_invalid: bool,
    /// Of samples in the exact protocol: keep counterfactuals that the classifier does not call the target in every score.
    #[arg(long, conflicts_with = "reject_invalid")]
    keep_invalid: bool,
    /// Values of black and white: in them L1, L1.5, L2 and elastic net are measured, and networks see samples. Default: -1,1;
    /// none for arrays of other values than 8-bit pixels that a network looks at.
    #[arg(long, value_name = "LO,HI", allow_hyphen_values = true, value_parser = parse_range)]
    range: Option<[f64; 2]>,
    /// Neighbours of precision/recall/density/coverage.
    #[arg(long, value_name = "K", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    neighbours: u32,
    /// Bootstrap replicates of FID and KID intervals; 0 for none.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(0..=10_000))]
    bootstrap: u32,

    /// Device: auto, cpu, wgpu, wgpu:N, wgpu:software or cuda[:N]; see `foil devices`.
    #[arg(long, value_name = "D", default_value = "auto")]
    device: Device,

    /// How a GPU keeps activations and weights: f32, or f16, which moves half the bytes and rounds each to 11 bits. Sums
    /// are f32 either way. Part of every fingerprint.
    #[arg(long, value_name = "P", default_value = "f32")]
    precision: Precision,

    /// Pairs computed together; results do not depend on it.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=4096))]
    batch: u32,
    /// Seed of subsets and bootstrap.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Largest image that is read, in pixels.
    #[arg(long, value_name = "N")]
    max_pixels: Option<u64>,

    /// Folder for scores.json, pairs.csv and the journal of partial results.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Continue an interrupted run in --out.
    #[arg(long, requires = "out")]
    resume: bool,
    /// Write a heat map of LPIPS for each pair to OUT/maps.
    #[arg(long, requires = "out")]
    maps: bool,
    /// Skip and count images that cannot be read or paired in size, instead of stopping.
    #[arg(long)]
    skip_bad: bool,
    /// List the pairs that would be scored as CSV, and stop.
    #[arg(long)]
    dry_run: bool,
    /// Print scores.json on standard output instead of the table.
    #[arg(long)]
    json: bool,
    /// No progress and no notes on standard error.
    #[arg(long, short)]
    quiet: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum ResizeArg {
    Tf1,
    Halfpixel,
    Antialias,
}

#[derive(Clone, Copy, ValueEnum)]
enum ProtocolArg {
    Exact,
    Published,
}

pub(super) fn parse_range(text: &str) -> Result<[f64; 2], String> {
    let parsed = text
        .split_once(',')
        .and_then(|(low, high)| Some([low.trim().parse().ok()?, high.trim().parse().ok()?]));
    match parsed {
        Some([low, high]) if low < high && f64::is_finite(low) && f64::is_finite(high) => {
            Ok([low, high])
        }
        _ => Err("expected two numbers LO,HI with LO < HI, such as 0,1".into()),
    }
}

impl ScoreArgs {
    fn settings(&self) -> Settings {
        let defaults = Settings::default();
        Settings {
            selection: self.metrics.clone().unwrap_or(defaults.selection),
            lpips: self.lpips,
            fid_features: match &self.metrics {
                Some(selection) if selection.embedding => FidFeatures::Embedding,
                _ => self.fid_features,
            },
            fid_resize: match self.fid_resize {
                ResizeArg::Tf1 => Resize::Tf1,
                ResizeArg::Halfpixel => Resize::HalfPixel,
                ResizeArg::Antialias => Resize::Antialias,
            },
            protocol: match self.protocol {
                ProtocolArg::Exact => Protocol::Exact,
                ProtocolArg::Published => Protocol::Published,
            },
            reject_invalid: self.reject_invalid,
            range: self.range.unwrap_or(defaults.range),
            seed: self.seed,
            bootstrap: self.bootstrap as usize,
            neighbours: self.neighbours as usize,
            skip_bad: self.skip_bad,
            maps: self.maps,
            max_pixels: self.max_pixels.unwrap_or(defaults.max_pixels),
            batch: self.batch as usize,
            ..defaults
        }
    }

    fn pairing(&self) -> anyhow::Result<Pairing> {
        let mut pairing = match (&self.manifest, &self.originals, &self.counterfactuals) {
            (Some(manifest), _, _) => images::read_manifest(manifest)?,
            (None, Some(originals), Some(counterfactuals)) => {
                images::pair_folders(originals, counterfactuals)?
            }
            _ => {
                let why = "give --originals DIR and --counterfactuals DIR, or --manifest FILE";
                return Err(UsageError(why.into()).into());
            }
        };
        score::order(&mut pairing);
        Ok(pairing)
    }

    /// Classifier, oracles and the class names they share.
    fn judges(
        &self,
        registry: &Registry,
        pairing: &Pairing,
    ) -> anyhow::Result<(Option<NamedJudge>, Vec<NamedJudge>, Labels)> {
        let mut labels = Labels::default();
        let mut network = |name: &str, keep_labels: bool| -> anyhow::Result<NamedJudge> {
            let card = registry.card(name)?;
            if card.role != Role::Classifier {
                let role = card.role.name();
                let why = format!("{name} is no classifier: the role of its card is {role}");
                return Err(UsageError(why).into());
            }
            let loaded = registry.load(&card)?;
            if keep_labels {
                labels = Labels::new(card.labels.clone());
            }
            Ok(NamedJudge {
                name: card.name.clone(),
                source: JudgeSource::Network {
                    card: Box::new(card),
                    loaded: Box::new(loaded),
                },
            })
        };
        let mut classifier = match &self.classifier {
            Some(name) => Some(network(name, true).context("--classifier")?),
            None => None,
        };
        let mut oracles = Vec::new();
        for name in &self.oracle {
            oracles.push(network(name, false).context("--oracle")?);
        }
        for given in &self.logits {
            let Some((name, file)) = given
                .split_once('=')
                .filter(|(n, f)| !n.is_empty() && !f.is_empty())
            else {
                let why = format!("--logits {given:?}: expected NAME=FILE");
                return Err(UsageError(why).into());
            };
            let file = PathBuf::from(file);
            let logits = score::logits::read(&file, &pairing.pairs)
                .map_err(|e| anyhow::anyhow!("--logits {name}: {e}"))?;
            let judge = NamedJudge {
                name: name.into(),
                source: JudgeSource::Logits {
                    logits,
                    sha256: crate::weights::sha256(&std::fs::read(&file)?),
                },
            };
            if name != "classifier" {
                oracles.push(judge);
            } else if classifier.is_none() {
                classifier = Some(judge);
            } else {
                let why = "the classifier is given twice: give --classifier CARD or one --logits classifier=FILE";
                return Err(UsageError(why.into()).into());
            }
        }
        let mut seen = std::collections::HashSet::new();
        if let Some(twice) = oracles.iter().find(|o| !seen.insert(o.name.clone())) {
            return Err(UsageError(format!("the oracle {:?} is given twice", twice.name)).into());
        }
        same_classes(&classifier, &oracles)?;
        if let Some(file) = &self.labels {
            labels = Labels::read(file).map_err(|e| anyhow::anyhow!("--labels: {e}"))?;
        }
        Ok((classifier, oracles, labels))
    }
}

/// Oracles are compared with the classifier class by class, so their lists of classes must be the same.
fn same_classes(classifier: &Option<NamedJudge>, oracles: &[NamedJudge]) -> Result<(), UsageError> {
    let labels = |judge: &NamedJudge| match &judge.source {
        JudgeSource::Network { card, .. } => card.labels.clone(),
        JudgeSource::Logits { .. } => Vec::new(),
    };
    let Some(classifier) = classifier else {
        return Ok(());
    };
    let own = labels(classifier);
    for oracle in oracles {
        let other = labels(oracle);
        let differ = own.iter().zip(&other).position(|(a, b)| a != b);
        let lengths = !own.is_empty() && !other.is_empty() && own.len() != other.len();
        if lengths || differ.is_some() {
            let at = differ.unwrap_or(own.len().min(other.len()));
            return Err(UsageError(format!(
                "the oracle {} has other classes than the classifier {} (first at class {at}: {:?} and {:?}); oracles must share the classifier's list of classes",
                oracle.name,
                classifier.name,
                other.get(at).map_or("none", String::as_str),
                own.get(at).map_or("none", String::as_str),
            )));
        }
    }
    Ok(())
}

/// Runs the command; false if a score that was asked for could not be computed.
pub fn run(args: &ScoreArgs) -> anyhow::Result<bool> {
    if samples::asked(args) {
        return samples::run(args);
    }
    for (given, option) in [
        (args.autoencoders.is_some(), "--autoencoders"),
        (!args.autoencoder.is_empty(), "--autoencoder"),
        (!args.label_model.is_empty(), "--label-model"),
        (
            args.original_predictions.is_some(),
            "--original-predictions",
        ),
        (args.targets.is_some(), "--targets"),
        (args.predictions.is_some(), "--predictions"),
        (args.method.is_some(), "--method"),
        (args.keep_invalid, "--keep-invalid"),
    ] {
        if given {
            let why = format!(
                "{option} is for runs over samples; add en, tcv, im1, im2, oracle or lvs to --metrics"
            );
            return Err(UsageError(why).into());
        }
    }
    let pairing = args.pairing()?;
    if args.dry_run {
        return print_pairs(&pairing).map(|()| true);
    }
    let opened = args.device.open(args.precision);
    let (device, opened, why) = opened.map_err(|e| UsageError(e.to_string()))?;
    if !args.quiet {
        say_unpaired(&pairing);
        say(&format!(
            "{} pairs on {device} ({why})",
            pairing.pairs.len()
        ));
    }
    let registry = Registry::open()?;
    let settings = args.settings();
    let temporary;
    let journal = match &args.out {
        Some(out) => {
            let journal = out.join("journal");
            if Journal::is_unfinished(&journal) && !args.resume {
                return Err(score::JournalError::Unfinished { path: journal }.into());
            }
            journal
        }
        None => {
            temporary = tempfile::tempdir().context("cannot make a temporary folder")?;
            temporary.path().to_path_buf()
        }
    };
    let mut maps = MapFolder(match &args.out {
        Some(out) => out.join("maps"),
        None => PathBuf::from("maps"),
    });
    let run = Run {
        args,
        registry: &registry,
        pairing: &pairing,
        journal: &journal,
    };
    let outcome = run.score((device, opened), &settings, args.maps.then_some(&mut maps))?;
    write_results(args, &outcome)?;
    if args.out.is_some() {
        Journal::finish(&journal)
            .with_context(|| format!("{}: cannot write", journal.display()))?;
    }
    if args.json {
        print(&report::json::scores(&outcome.scores))?;
    } else {
        print(&report::table::scores(&outcome.scores))?;
    }
    Ok(report_missing(&outcome, settings.selection.explicit))
}

/// The folder of the heat maps.
struct MapFolder(PathBuf);

impl score::HeatMaps for MapFolder {
    fn has(&self, pair: usize, name: &str) -> bool {
        self.0.join(map_name(pair, name)).is_file()
    }

    fn take(&mut self, pair: usize, name: &str, map: &[f32], width: usize) -> Result<(), String> {
        let file = self.0.join(map_name(pair, name));
        report::heat_map::write(&file, map, width)
            .map_err(|e| format!("cannot write {}: {e}", file.display()))
    }
}

/// `NUMBER-NAME.png`, with every character that could lead out of the folder replaced.
fn map_name(index: usize, name: &str) -> String {
    let plain: String = name
        .chars()
        .map(|c| {
            if c.is_alphanumeric() || "-_. ()".contains(c) {
                c
            } else {
                '_'
            }
        })
        .collect();
    format!("{index:06}-{}.png", plain.trim_start_matches('.'))
}

fn write_results(args: &ScoreArgs, outcome: &Outcome) -> anyhow::Result<()> {
    let Some(out) = &args.out else {
        return Ok(());
    };
    let rows = report::csv::pairs(&outcome.pairs, &outcome.oracles, outcome.lpips_layers)?;
    for (name, bytes) in [
        ("pairs.csv", rows),
        (
            "scores.json",
            report::json::scores(&outcome.scores).into_bytes(),
        ),
    ] {
        write_file(&out.join(name), &bytes)?;
    }
    Ok(())
}

fn write_file(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("{}: cannot make the folder", folder.display()))?;
    }
    write_atomically(path, bytes).with_context(|| format!("{}: cannot write", path.display()))
}

/// Says which metrics that were asked for have no value at all; true if there are none.
fn report_missing(outcome: &Outcome, explicit: bool) -> bool {
    let mut complete = true;
    for group in &outcome.scores.groups {
        for family in Family::ALL {
            let all: Vec<_> = group
                .scores
                .iter()
                .filter(|(name, _)| Family::of(name) == Some(family))
                .collect();
            let missing = !all.is_empty() && all.iter().all(|(_, s)| s.value.is_none());
            if explicit && missing {
                let why = all[0].1.note.as_deref().unwrap_or("no value");
                say(&format!(
                    "error: group {}: {}: {why}",
                    group.name,
                    family.name()
                ));
                complete = false;
            }
        }
    }
    complete
}

fn say_unpaired(pairing: &Pairing) {
    const SHOWN: usize = 10;
    for (what, files) in [
        (
            "originals without a counterfactual",
            &pairing.unpaired_originals,
        ),
        (
            "counterfactuals without an original",
            &pairing.unpaired_counterfactuals,
        ),
    ] {
        if files.is_empty() {
            continue;
        }
        say(&format!("{} {what}:", files.len()));
        for file in files.iter().take(SHOWN) {
            say(&format!("  {}", file.display()));
        }
        if files.len() > SHOWN {
            say(&format!(
                "  … and {} more (all are listed in scores.json)",
                files.len() - SHOWN
            ));
        }
    }
}

fn print_pairs(pairing: &Pairing) -> anyhow::Result<()> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record([
        "index",
        "name",
        "original",
        "counterfactual",
        "source",
        "target",
        "group",
        "method",
    ])?;
    for (i, p) in pairing.pairs.iter().enumerate() {
        let text = |v: &Option<String>| v.clone().unwrap_or_default();
        writer.write_record([
            i.to_string(),
            p.name.clone(),
            p.original.display().to_string(),
            p.counterfactual.display().to_string(),
            text(&p.source),
            text(&p.target),
            p.group.clone(),
            text(&p.method),
        ])?;
    }
    let bytes = writer.into_inner()?;
    print(&String::from_utf8_lossy(&bytes))
}
