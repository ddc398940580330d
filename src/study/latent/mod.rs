//! The study of "Evaluating Visual Counterfactual Explainers" (\[bex\]): settings × explainers × runs, Tables 2 and 4, Figures 3, 5 and 6.
//!
//! A piece of it is one explainer in one run in one setting; its result is a file that says what it was made from. A study can be
//! interrupted and resumed, and split over processes that share a folder: whoever finds all pieces there makes the tables.

mod error;
mod figures;
mod pictures;
mod plan;
mod rows;
pub mod scoring;
mod tables;

use std::path::Path;
use std::time::Instant;

pub use error::LatentStudyError;
pub use plan::{Plan, Unit, setting};
pub use rows::Row;

use crate::explain::latent::{
    Explainer, LatentFile, Method, World, builtin, builtin_card, explain_all, read_latents,
    short_levels,
};
use crate::folder::{Lock, is_filled, read_own, write_whole};
use crate::metrics::MetricBackend;
use crate::tensor::WithGradients;
use crate::weights::Registry;
use rows::{About, MADE_FROM, has_latents, latents_path, made_from, read};
use scoring::score;

pub const TABLES: &str = "tables.txt";
pub const CSV: &str = "results.csv";
pub const PROFILE: &str = "profile.svg";
pub const SENSITIVITY: &str = "sensitivity.svg";
pub const PICTURES: &str = "counterfactuals.png";
/// What says that a folder is that of such a study.
const IDENTITY: &str = "latent-study.json";
const MAKER: &str = "foil study latent";

/// What a study was asked to do besides its plan.
pub struct Work<'a> {
    pub out: &'a Path,
    pub resume: bool,
    /// This process does the i-th of n parts, from 1.
    pub shard: (usize, usize),
}

/// What there is of a study.
pub struct Done {
    /// None while pieces are missing.
    pub tables: Option<String>,
    pub rows: usize,
    pub all: usize,
}

/// Runs pieces that are not there; `progress` hears the piece, samples done and all of them.
pub fn run<B: MetricBackend>(
    plan: &Plan,
    work: &Work<'_>,
    registry: &Registry,
    device: &WithGradients,
    backend: &B,
    progress: &mut (dyn FnMut(&str, usize, usize) + Send),
) -> Result<Done, LatentStudyError> {
    plan.check()?;
    let _lock = claim(work)?;
    let units = plan.units();
    let (part, parts) = work.shard;
    let own = |i: usize| i % parts == part - 1;
    // Nothing is made before all that is there is known to fit.
    let mut wanted = Vec::new();
    for (i, unit) in units.iter().enumerate() {
        let identity = identity(registry, device, unit.setting)?;
        let checksum = made_from(&identity, unit, &about(plan));
        let mut there = read(work.out, unit)?;
        if let Some(row) = &there {
            let path = rows::row_path(work.out, unit);
            if row.made_from != checksum {
                return Err(LatentStudyError::Usage(format!(
                    "{}: made with other settings, networks or another version: name another --out",
                    path.display()
                )));
            }
            if own(i) && !work.resume {
                return Err(LatentStudyError::Usage(format!(
                    "{}: results are there: name another --out, or go on with --resume",
                    path.display()
                )));
            }
        }
        // A row whose latents are lost, or are others, is made again.
        if own(i) && there.is_some() && !has_latents(work.out, unit, &checksum) {
            there = None;
        }
        if own(i) && there.is_none() {
            wanted.push((unit, checksum));
        }
    }
    let mut open: Option<Opened> = None;
    for (unit, checksum) in wanted {
        let world = match open.take() {
            Some(opened) if opened.setting == unit.setting => opened,
            _ => Opened::new(plan, registry, device, unit)?,
        };
        piece(plan, work.out, &world, unit, checksum, backend, progress)?;
        open = Some(world);
    }
    let mut found = Vec::new();
    for unit in &units {
        found.extend(read(work.out, unit)?);
    }
    if found.len() < units.len() {
        return Ok(Done {
            tables: None,
            rows: found.len(),
            all: units.len(),
        });
    }
    let text = finish(plan, work.out, &found, registry, device, backend, open)?;
    Ok(Done {
        tables: Some(text),
        rows: found.len(),
        all: found.len(),
    })
}

/// Takes a folder: a new or empty one, or that of such a study. Parts of a study share it.
fn claim(work: &Work<'_>) -> Result<Lock, LatentStudyError> {
    let path = work.out.join(IDENTITY);
    let refuse = || match is_filled(work.out) && !path.exists() {
        true => Err(LatentStudyError::Usage(format!(
            "{}: expected a new or empty folder, or one of an earlier `{MAKER}`, found other files: name another --out",
            work.out.display()
        ))),
        false => Ok(()),
    };
    refuse()?;
    let (part, parts) = work.shard;
    let part = (parts > 1).then(|| format!("{part}of{parts}"));
    let lock = Lock::take(work.out, part.as_deref(), MAKER)?;
    // Another process may have been at work there since it was looked at.
    refuse()?;
    let ours = |said: &serde_json::Value| said["maker"] == MAKER;
    if read_own(&path, MAKER, ours)?.is_none() {
        let text = serde_json::json!({ "maker": MAKER }).to_string() + "\n";
        write_whole(&path, text.as_bytes())?;
    }
    Ok(lock)
}

/// A world and how well its classifier does.
struct Opened {
    setting: crate::explain::latent::Setting,
    world: World,
    accuracy: f64,
}

impl Opened {
    fn new(
        plan: &Plan,
        registry: &Registry,
        device: &WithGradients,
        unit: &Unit,
    ) -> Result<Self, LatentStudyError> {
        let mut world = builtin(
            registry,
            device,
            unit.setting,
            plan.validation,
            plan.variant,
        )?;
        world.choose(plan.samples, plan.variant)?;
        let accuracy = world.accuracy()?;
        Ok(Self {
            setting: unit.setting,
            world,
            accuracy,
        })
    }
}

/// What a setting's world is, without opening it.
fn identity(
    registry: &Registry,
    device: &WithGradients,
    setting: crate::explain::latent::Setting,
) -> Result<serde_json::Value, LatentStudyError> {
    let card = registry.card(&builtin_card(setting));
    let card = card.map_err(crate::explain::latent::LatentError::from)?;
    Ok(serde_json::json!({
        "spurious": setting.spurious, "percent": setting.percent, "classifier": card.sha256, "arithmetic": device.arithmetic(),
    }))
}

/// Settings that all pieces share.
fn about(plan: &Plan) -> serde_json::Value {
    serde_json::json!({
        "n": plan.n, "samples": plan.samples, "validation": plan.validation, "variant": plan.variant,
    })
}

fn piece<B: MetricBackend>(
    plan: &Plan,
    out: &Path,
    opened: &Opened,
    unit: &Unit,
    made_from: String,
    backend: &B,
    progress: &mut (dyn FnMut(&str, usize, usize) + Send),
) -> Result<(), LatentStudyError> {
    let world = &opened.world;
    let started = Instant::now();
    let explainer: Box<dyn Explainer> = unit.method.build(world)?;
    let prepared = started.elapsed().as_secs_f64();
    let name = unit.name();
    let made = explain_all(
        world,
        explainer.as_ref(),
        plan.n,
        unit.run as u64,
        &mut |done, all| {
            progress(&name, done, all);
        },
    )?;
    let seconds = prepared + made.seconds;
    let scored = score(backend, world, &made.z_cf, &made.logits_cf)?;
    let latents = LatentFile {
        z: world.samples.z.clone(),
        z_cf: made.z_cf,
        n: plan.n,
        index: world.samples.index.clone(),
        about: serde_json::json!({
            "explainer": unit.method, "world": world.identity, "seed": unit.run, "version": env!("CARGO_PKG_VERSION"), MADE_FROM: made_from,
        }),
    };
    let about = About {
        unit,
        made_from,
        seconds,
        accuracy: opened.accuracy,
        levels: &world.samples.levels,
    };
    rows::write(out, about, &scored, &latents)?;
    Ok(())
}

/// Tables and figures of all rows.
fn finish<B: MetricBackend>(
    plan: &Plan,
    out: &Path,
    found: &[Row],
    registry: &Registry,
    device: &WithGradients,
    backend: &B,
    open: Option<Opened>,
) -> Result<String, LatentStudyError> {
    let mut text = tables::text(found, &plan.settings);
    let seconds: f64 = found.iter().map(|r| r.seconds).sum();
    for setting in &plan.settings {
        let accuracy = found
            .iter()
            .find(|r| r.spurious == setting.spurious && r.correlation == setting.correlation());
        if let Some(row) = accuracy {
            text.push_str(&format!(
                "{} tied typefaces, correlation {:.2}: the classifier gives {:.1} % of the labels of fresh images; {} samples",
                setting.spurious,
                setting.correlation(),
                100.0 * row.accuracy,
                row.samples
            ));
            if let Some(short) = short_levels(&row.levels, plan.samples) {
                text.push_str(&format!(" (only {short})"));
            }
            text.push_str(&format!(
                ", on average {:.3} from their level of confidence\n",
                row.level_distance()
            ));
        }
    }
    text.push_str(&format!(
        "{} samples of each of eight levels of confidence, {} explanations of each, explainers {}; {seconds:.0} s of explaining in all\n",
        plan.samples,
        plan.n,
        plan.variant.name()
    ));
    write_whole(&out.join(TABLES), text.as_bytes())?;
    write_whole(&out.join(CSV), tables::csv(found).as_bytes())?;
    write_whole(
        &out.join(PROFILE),
        figures::profile_svg(found, &plan.settings).as_bytes(),
    )?;
    write_whole(
        &out.join(SENSITIVITY),
        figures::sensitivity_svg(found, &plan.settings).as_bytes(),
    )?;
    // Pictures are of the last setting.
    let Some(last) = plan.units().pop() else {
        return Ok(text);
    };
    let opened = match open {
        Some(opened) if opened.setting == last.setting => opened,
        _ => Opened::new(plan, registry, device, &last)?,
    };
    let mut shown = Vec::new();
    for method in &plan.methods {
        let unit = Unit {
            setting: last.setting,
            method: *method,
            run: 0,
        };
        let file = read_latents(&latents_path(out, &unit))?;
        if file.z != opened.world.samples.z {
            continue;
        }
        let logits = opened.world.explained().logits(&file.z_cf)?;
        let scored = score(backend, &opened.world, &file.z_cf, &logits)?;
        let exact = &scored.exact;
        shown.push(pictures::choose(
            // The typefaces of pictures have small letters only.
            &Method::name(method).replace('-', " "),
            &file.z,
            &file.z_cf,
            &exact.flags,
            &exact.selected,
        ));
    }
    write_whole(
        &out.join(PICTURES),
        &pictures::sheet(&opened.world, &shown)?,
    )?;
    Ok(text)
}
