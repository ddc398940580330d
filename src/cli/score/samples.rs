//! `foil score` over samples: arrays, or pairs of images of one size, with the metrics of the quantitative evaluations.

use std::path::Path;

use anyhow::Context;

use super::{ProtocolArg, ScoreArgs, write_file};
use crate::cli::progress::Bar;
use crate::cli::{UsageError, print, say};
use crate::images::{self, Limits, Pairing};
use crate::metrics::MetricBackend;
use crate::report;
use crate::score::samples::load::{self, Arrays, Parts};
use crate::score::samples::{self, Networks, Pixels, Run, Samples, SamplesError, Titles};
use crate::score::{Family, FidFeatures, Labels, Protocol, Selection};
use crate::tensor::Opened;
use crate::weights::{Channels, Registry};

/// True if this run is one over samples.
pub fn asked(args: &ScoreArgs) -> bool {
    let named = args.metrics.as_ref().is_some_and(Selection::of_samples);
    let files = [&args.originals, &args.counterfactuals];
    named
        || files
            .iter()
            .any(|f| f.as_deref().is_some_and(samples::files::is_array_file))
}

/// Runs the command; false if a score that was asked for could not be computed.
pub fn run(args: &ScoreArgs) -> anyhow::Result<bool> {
    let selection = selection(args)?;
    let opened = args.device.open(args.precision);
    let (device, opened, why) = opened.map_err(|e| UsageError(e.to_string()))?;
    if !args.quiet {
        say(&format!("samples on {device} ({why})"));
    }
    match opened {
        Opened::Cpu(cpu) => on(&cpu, args, &selection),
        Opened::Gpu(gpu) => on(&gpu, args, &selection),
    }
}

/// What was asked for, if a run over samples can give it.
fn selection(args: &ScoreArgs) -> anyhow::Result<Selection> {
    let possible = [Family::Lp, Family::ElasticNet, Family::Fid];
    let mut selection = match &args.metrics {
        Some(given) => given.clone(),
        None => {
            let mut families: std::collections::BTreeSet<Family> =
                [Family::TargetClassValidity, Family::ElasticNet, Family::Lp].into();
            if args.autoencoders.is_some() || !args.autoencoder.is_empty() {
                families.extend([Family::Im1, Family::Im2]);
            }
            if !args.oracle.is_empty() {
                families.extend([Family::Oracle, Family::Fid]);
            }
            if !args.label_model.is_empty() {
                families.insert(Family::LabelVariation);
            }
            Selection {
                families,
                explicit: false,
                embedding: true,
            }
        }
    };
    let other = selection
        .families
        .iter()
        .find(|f| !possible.contains(f) && !Family::OF_SAMPLES.contains(f));
    let usage = |why: String| anyhow::Error::from(UsageError(why));
    if let Some(other) = other {
        return Err(usage(format!(
            "--metrics: {} is not computed together with tcv, im1, im2, oracle and lvs, nor over arrays; score it in a run of its own",
            other.name()
        )));
    }
    let embedding = selection.embedding || args.fid_features == FidFeatures::Embedding;
    if selection.has(Family::Fid) && !embedding {
        return Err(usage(
            "--metrics: fid over samples is that of the oracle's embedding; write fid:embedding"
                .into(),
        ));
    }
    selection.embedding = embedding;
    for (family, lacking, option) in [
        (
            Family::Oracle,
            args.oracle.is_empty(),
            "an oracle; give --oracle CARD",
        ),
        (
            Family::Fid,
            args.oracle.is_empty(),
            "an oracle, whose embedding it compares; give --oracle CARD",
        ),
        (
            Family::LabelVariation,
            args.label_model.is_empty(),
            "a label model; give --label-model NAME=CARD",
        ),
    ] {
        if selection.has(family) && lacking {
            return Err(usage(format!("{} needs {option}", family.name())));
        }
    }
    for (given, option) in [
        (args.resume, "--resume"),
        (args.maps, "--maps"),
        (args.dry_run, "--dry-run"),
        (args.reference.is_some(), "--reference"),
        (!args.logits.is_empty(), "--logits"),
    ] {
        if given {
            return Err(usage(format!(
                "{option} has no meaning in a run over samples; leave it out"
            )));
        }
    }
    if args.keep_invalid && matches!(args.protocol, ProtocolArg::Published) {
        return Err(usage(
            "--keep-invalid: the published protocol keeps counterfactuals of other classes already; leave it out"
                .into(),
        ));
    }
    Ok(selection)
}

fn on<B: MetricBackend + 'static>(
    backend: &B,
    args: &ScoreArgs,
    selection: &Selection,
) -> anyhow::Result<bool> {
    let registry = Registry::open()?;
    let protocol = match args.protocol {
        ProtocolArg::Exact => Protocol::Exact,
        ProtocolArg::Published => Protocol::Published,
    };
    let range = args
        .range
        .unwrap_or(crate::score::Settings::default().range);
    let mut labels = Labels::default();
    let classifier = match &args.classifier {
        None => None,
        Some(card) => {
            let (model, card) =
                load::label_model(backend, &registry, "--classifier", None, card).map_err(usage)?;
            labels = Labels::new(card.labels);
            Some(model)
        }
    };
    if let Some(file) = &args.labels {
        labels = Labels::read(file).map_err(|e| anyhow::anyhow!("--labels: {e}"))?;
    }
    let mut oracles = Vec::new();
    for card in &args.oracle {
        oracles.push(
            load::label_model(backend, &registry, "--oracle", None, card)
                .map_err(usage)?
                .0,
        );
    }
    let mut models = Vec::new();
    for given in &args.label_model {
        let (name, card) = pair("--label-model", given, "NAME=CARD")?;
        let name = Some(name.as_str());
        models.push(
            load::label_model(backend, &registry, "--label-model", name, &card)
                .map_err(usage)?
                .0,
        );
    }
    for (option, named) in [("--oracle", &oracles), ("--label-model", &models)] {
        let twice = |at: usize| named[..at].iter().any(|other| other.name == named[at].name);
        if let Some(at) = (0..named.len()).find(|&at| twice(at)) {
            let name = &named[at].name;
            let why = format!(
                "{option} {name}: given twice; scores are told apart by names, so give each another"
            );
            return Err(UsageError(why).into());
        }
    }
    let mut cards = Vec::new();
    for given in &args.autoencoder {
        cards.push(pair("--autoencoder", given, "CLASS=CARD")?);
    }
    let file = args.autoencoders.as_ref().map(|f| f.display().to_string());
    let autoencoders =
        load::autoencoders(backend, &registry, file.as_deref(), &cards, range).map_err(usage)?;
    let text = |path: &Option<std::path::PathBuf>| path.as_ref().map(|p| p.display().to_string());
    let arrays = matches!((&args.originals, &args.counterfactuals), (Some(o), Some(c))
        if samples::files::is_array_file(o) || samples::files::is_array_file(c));
    let mut method = args.method.clone();
    let parts = if arrays {
        load::arrays(&Arrays {
            originals: text(&args.originals).unwrap_or_default(),
            counterfactuals: text(&args.counterfactuals).unwrap_or_default(),
            original_predictions: args.original_predictions.clone(),
            targets: args.targets.clone(),
            predictions: args.predictions.clone(),
        })
        .map_err(usage)?
    } else {
        let grey = oracles.iter().chain(&models).chain(&classifier);
        let grey = grey
            .filter_map(|m| m.preprocessing.as_ref())
            .any(|p| p.channels == Channels::Grey);
        let channels = match &autoencoders {
            Some(set) => set.channels,
            None if grey => 1,
            None => 3,
        };
        let pairing = args.pairing()?;
        method = method.or(only_method(&pairing)?);
        decode(args, pairing, &labels, channels)?
    };
    let watched = !oracles.is_empty()
        || !models.is_empty()
        || autoencoders.is_some()
        || (classifier.is_some() && parts.lacks_predictions());
    if args.range.is_none() && watched {
        parts.need_range().map_err(usage)?;
    }
    let samples: Samples = parts
        .complete(backend, classifier.as_ref(), range, protocol)
        .map_err(usage)?;
    let networks = Networks {
        autoencoders: autoencoders.as_ref(),
        oracles: oracles.iter().collect(),
        labels: models.iter().collect(),
    };
    let run = Run {
        selection,
        range,
        protocol,
        reject_invalid: args.reject_invalid || (protocol.rejects_invalid() && !args.keep_invalid),
        skip_bad: args.skip_bad,
    };
    let mut bar = Bar::new(args.quiet);
    let terms = samples::evaluate(backend, &samples, &networks, &run, &mut |done, all| {
        bar.update("networks", done, all);
    });
    bar.finish();
    let terms = terms.map_err(usage)?;
    let found = samples::aggregate(&samples, &terms, &run)?;
    let fingerprints = samples::fingerprints(&found, &networks, &run, backend.arithmetic());
    let counts = samples::counts(&samples, &terms);
    let missing: Vec<String> = found
        .iter()
        .filter(|(_, s)| s.value.is_none())
        .map(|(name, s)| format!("{name}: {}", s.note.as_deref().unwrap_or("no value")))
        .collect();
    let titles = Titles {
        name: method.as_deref().unwrap_or("all"),
        method: method.as_deref(),
        classifier: classifier.as_ref().map(|c| c.name.as_str()),
        device: &backend.describe(),
        seed: args.seed,
    };
    let names = oracles.iter().map(|o| o.name.clone()).collect();
    let mut scores = samples::scores(&titles, found, fingerprints, counts, &run, names);
    let by_range = selection.has(Family::Im1) || selection.has(Family::Im2);
    if let (None, Some(file), true) = (args.range, &args.autoencoders, by_range) {
        let [low, high] = range;
        scores.notes.push(format!(
            "im1, im2: the auto-encoders saw the 8-bit pixels as values from {low} to {high}, for want of --range; {} does \
             not say which values they were trained on",
            file.display()
        ));
    }
    if let Some(out) = &args.out {
        write_file(
            &out.join("pairs.csv"),
            &samples::pairs_csv(&samples, &terms)?,
        )?;
        write_file(
            &out.join("scores.json"),
            report::json::scores(&scores).as_bytes(),
        )?;
    }
    match args.json {
        true => print(&report::json::scores(&scores))?,
        false => print(&report::table::scores(&scores))?,
    }
    for line in &missing {
        say(&format!("error: {line}"));
    }
    Ok(missing.is_empty() || !selection.explicit)
}

fn usage(error: SamplesError) -> anyhow::Error {
    match error {
        SamplesError::Input { .. } => UsageError(error.to_string()).into(),
        SamplesError::Weights(inner) => anyhow::Error::from(*inner),
        other => other.into(),
    }
}

fn pair(option: &str, given: &str, form: &str) -> anyhow::Result<(String, String)> {
    match given.split_once('=') {
        Some((a, b)) if !a.is_empty() && !b.is_empty() => Ok((a.into(), b.into())),
        _ => Err(UsageError(format!("{option} {given:?}: expected {form}")).into()),
    }
}

/// The method of all pairs, if they name one.
fn only_method(pairing: &Pairing) -> anyhow::Result<Option<String>> {
    let names: std::collections::BTreeSet<&String> = pairing
        .pairs
        .iter()
        .filter_map(|p| p.method.as_ref())
        .collect();
    let mut named = names.iter();
    match (named.next(), named.next()) {
        (first, None) => Ok(first.map(|name| (*name).clone())),
        _ => {
            let all: Vec<&str> = names.iter().map(|n| n.as_str()).collect();
            Err(UsageError(format!(
                "--manifest: expected pairs of one method, found {}; score each method in a run of its own, and put them side by side with `foil tables --from`",
                all.join(", ")
            ))
            .into())
        }
    }
}

/// Pairs of images of one size as arrays; `channels` is 1 or 3.
fn decode(
    args: &ScoreArgs,
    pairing: Pairing,
    labels: &Labels,
    channels: usize,
) -> anyhow::Result<Parts> {
    use rayon::prelude::*;
    let limits = Limits {
        max_pixels: args.max_pixels.unwrap_or(Limits::default().max_pixels),
    };
    let read = |path: &Path| -> anyhow::Result<(Vec<f32>, [usize; 2])> {
        let image = images::read(path, &limits)?;
        let pixels = image.pixels.chunks_exact(3);
        if channels == 1 && image.has_colour() {
            return Err(UsageError(format!(
                "{}: expected a grey image, as the networks take, found colours; give networks of colour images",
                path.display()
            ))
            .into());
        }
        let values = (0..channels)
            .flat_map(|k| pixels.clone().map(move |p| f32::from(p[k])))
            .collect();
        Ok((values, [image.height, image.width]))
    };
    let all = |pick: &(dyn Fn(&images::Pair) -> &Path + Sync)| -> anyhow::Result<Pixels> {
        let found: Vec<(Vec<f32>, [usize; 2])> = pairing
            .pairs
            .par_iter()
            .map(|p| read(pick(p)))
            .collect::<anyhow::Result<_>>()?;
        let Some((_, size)) = found.first() else {
            return Err(UsageError("there are no pairs to score".into()).into());
        };
        if let Some(at) = found.iter().position(|(_, s)| s != size) {
            let (found, file) = (found[at].1, pick(&pairing.pairs[at]).display().to_string());
            return Err(UsageError(format!(
                "{file}: expected {}x{} pixels as the first image, found {}x{}; tcv, im1, im2, oracle and lvs take images of one size",
                size[1], size[0], found[1], found[0]
            ))
            .into());
        }
        Ok(Pixels {
            shape: [found.len(), channels, size[0], size[1]],
            values: found.iter().flat_map(|(v, _)| v).copied().collect(),
            eight_bit: true,
        })
    };
    let class = |role: &str, own: &Option<String>, given: &Option<String>, name: &str| {
        let Some(label) = own.as_ref().or(given.as_ref()) else {
            return Ok(None);
        };
        let found = labels.resolve_with_option(label, None);
        found
            .map(|c| i64::try_from(c).ok())
            .map_err(|reason| UsageError(format!("{role} of {name:?}: {reason}")))
    };
    // Files of classes are in the order that --dry-run lists.
    let given = load::classes(
        args.original_predictions.as_deref(),
        args.targets.as_deref(),
        args.predictions.as_deref(),
    )
    .map_err(usage)?;
    let mut targets = given.target.unwrap_or_default();
    let mut sources = Vec::new();
    for p in &pairing.pairs {
        if args.targets.is_none() {
            let target = class("target", &p.target, &args.target, &p.name)?;
            targets.push(target.with_context(|| {
                UsageError(format!(
                    "no target class is known of {:?}; give --target, --targets, a manifest, or SOURCE_to_TARGET folders",
                    p.name
                ))
            })?);
        }
        sources.push(class("source", &p.source, &args.source, &p.name)?);
    }
    // A classifier's own word on the originals counts more than their labels.
    let known: Option<Vec<i64>> = sources.into_iter().collect();
    Ok(Parts {
        originals: all(&|p| &p.original)?,
        counterfactuals: all(&|p| &p.counterfactual)?,
        original_prediction: { given.original_prediction }
            .or(known.filter(|_| args.classifier.is_none())),
        target: targets,
        prediction: given.prediction,
    })
}
