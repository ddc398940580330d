//! `foil generate`: counterfactuals by guided diffusion.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, ValueEnum};

use super::progress::Bar;
use super::{UsageError, print};
use crate::diffusion::{Cone, ConeRule, Distance, Guidance, Strength, X0};
use crate::explain::diffusion::{self, Made, Networks, Plan, Task};
use crate::images::list_images;
use crate::score::Labels;
use crate::tensor::Device;
use crate::weights::Registry;

/// Makes counterfactuals of images by guided diffusion; defaults are the networks of the glyph world, inside the
/// program.
#[derive(Args)]
pub struct GenerateArgs {
    /// Folder of original images
    #[arg(long, value_name = "DIR")]
    originals: PathBuf,
    /// The class that all of them shall become: a name or number of the classifier's classes
    #[arg(long, value_name = "LABEL", required_unless_present = "targets")]
    target: Option<String>,
    /// A CSV file with the columns file (below --originals) and target, for a class each
    #[arg(long, value_name = "FILE", conflicts_with = "target")]
    targets: Option<PathBuf>,
    /// The classifier to explain: name or path of its card
    #[arg(long, value_name = "CARD", default_value = "glyph_resnet18")]
    classifier: String,
    /// A robust classifier, whose gradient is brought into a cone around that of the explained one
    #[arg(long, value_name = "CARD")]
    robust: Option<String>,
    /// The denoising network
    #[arg(long, value_name = "CARD", default_value = "glyph_ddpm")]
    unet: String,
    /// Kind of guidance: that of the evaluated study, DVCE's, or the classic one
    #[arg(long, value_enum, default_value_t = Method::Guided)]
    method: Method,
    /// What the classifier looks at: the predicted clean image with gradients through the UNet, the same without, or the
    /// noisy image (default: through-unet; openai: off)
    #[arg(long, value_enum)]
    x0: Option<X0Arg>,
    /// Opening of the cone in degrees, or off (default: 30 with --robust)
    #[arg(long, value_name = "DEG|off")]
    cone: Option<String>,
    /// Inside the cone: keep the robust gradient (projection), or drop it, as the public code does (published)
    #[arg(long, value_enum, default_value_t = RuleArg::Projection)]
    cone_rule: RuleArg,
    /// Steps of the diffusion: a number, or sections as in guided-diffusion
    #[arg(long, value_name = "STEPS", default_value = "200")]
    steps: String,
    /// Noisy steps of these to leave out (default: half of them)
    #[arg(long, value_name = "N")]
    skip: Option<usize>,
    /// Weight of the classifier's gradient (default: 0.1; openai: 1)
    #[arg(long)]
    scale: Option<f64>,
    /// Pull towards the original: l1, l1.5 or l2, with a weight behind a colon, or off (default: l1:0.15; openai: off)
    #[arg(long, value_name = "NORM[:WEIGHT]|off")]
    distance: Option<String>,
    /// Counterfactuals of each original
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    samples: u16,
    /// Seed of the noise
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Images at once; results do not depend on it
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=4096))]
    batch: u16,
    /// Device: cpu, or cuda or cuda:N in a program built with --features cuda
    #[arg(long, default_value = "cpu")]
    device: Device,
    /// Folder for the images, a record of each, and manifest.csv for `foil score`
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Keep what an earlier run of the same settings made in --out, and make the rest
    #[arg(long)]
    resume: bool,
    /// Do the i-th of n parts of the originals only
    #[arg(long, value_name = "I/N", value_parser = shard)]
    shard: Option<(usize, usize)>,
    /// No progress on standard error
    #[arg(long, short)]
    quiet: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Method {
    Guided,
    Dvce,
    Openai,
}

#[derive(Clone, Copy, ValueEnum)]
enum X0Arg {
    ThroughUnet,
    AtX0,
    Off,
}

#[derive(Clone, Copy, ValueEnum)]
enum RuleArg {
    Projection,
    Published,
}

fn shard(text: &str) -> Result<(usize, usize), String> {
    let parts = text.split_once('/');
    let parts = parts.and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
    match parts {
        Some((i, n)) if (1..=n).contains(&i) => Ok((i, n)),
        _ => Err("expected I/N with I from 1 to N, such as 2/3".into()),
    }
}

/// Weights beyond this leave the range of numbers.
const LARGEST: f64 = 1e6;

fn usage(message: impl Into<String>) -> anyhow::Error {
    UsageError(message.into()).into()
}

impl GenerateArgs {
    fn guidance(&self) -> anyhow::Result<Guidance> {
        let classic = self.method == Method::Openai;
        let cone = match self.cone.as_deref() {
            None if self.robust.is_some() => Some(30.0),
            None | Some("off") => None,
            Some(text) => match text.parse::<f64>() {
                Ok(degrees) if degrees > 0.0 && degrees < 90.0 => Some(degrees),
                _ => {
                    let why = format!("--cone {text:?}: expected degrees between 0 and 90, or off");
                    return Err(usage(why));
                }
            },
        };
        if cone.is_some() && self.robust.is_none() {
            return Err(usage("--cone: give the robust classifier with --robust"));
        }
        let rule = match self.cone_rule {
            RuleArg::Projection => ConeRule::Projection,
            RuleArg::Published => ConeRule::Published,
        };
        let scale = self.scale.unwrap_or(if classic { 1.0 } else { 0.1 });
        if !(0.0..=LARGEST).contains(&scale) {
            return Err(usage(format!(
                "--scale {scale}: expected a number from 0 to {LARGEST}"
            )));
        }
        Ok(Guidance {
            x0: match self.x0 {
                Some(X0Arg::ThroughUnet) => X0::ThroughUnet,
                Some(X0Arg::AtX0) => X0::AtX0,
                Some(X0Arg::Off) => X0::Off,
                None if classic => X0::Off,
                None => X0::ThroughUnet,
            },
            cone: cone.map(|degrees| Cone { degrees, rule }),
            scale,
            distance: match (self.distance.as_deref(), classic) {
                (None, true) => None,
                (text, _) => distance(text.unwrap_or("l1"))?,
            },
            strength: match self.method {
                Method::Guided => Strength::Mean,
                Method::Dvce => Strength::Noise,
                Method::Openai => Strength::Plain,
            },
            clip: classic,
        })
    }

    /// Originals with their targets, all of them, in the order of their names.
    fn tasks(&self, labels: &Labels) -> anyhow::Result<Vec<Task>> {
        let files = list_images(&self.originals)?;
        let class = |text: &str| labels.resolve(text, None).map_err(usage);
        let all = self.target.as_deref().map(class).transpose();
        let all = all.context("--target")?;
        let mut given = match &self.targets {
            Some(path) => Some(targets(path)?),
            None => None,
        };
        let mut tasks = Vec::new();
        for (index, file) in files.iter().enumerate() {
            let below = file.strip_prefix(&self.originals).unwrap_or(file);
            let shown = below.to_string_lossy().replace('\\', "/");
            let target = match (all, &mut given) {
                (Some(target), _) => target,
                (None, Some(given)) => match given.remove(&shown) {
                    Some(text) => class(&text).context("--targets")?,
                    None => continue,
                },
                (None, None) => return Err(usage("--target or --targets is needed")),
            };
            tasks.push(Task {
                original: file.clone(),
                name: below.with_extension("").to_string_lossy().into_owned(),
                target,
                index,
            });
        }
        if let Some(file) = given.as_ref().and_then(|g| g.keys().next()) {
            let folder = self.originals.display();
            return Err(usage(format!(
                "--targets: there is no image {file} in {folder}"
            )));
        }
        let mut names: Vec<&str> = tasks.iter().map(|t| t.name.as_str()).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|w| w[0] == w[1]) {
            let why = format!(
                "--originals: two images are called {} but for their extension",
                twice[0]
            );
            return Err(usage(why));
        }
        Ok(tasks)
    }
}

/// `l1.5:0.2`, or off.
fn distance(text: &str) -> anyhow::Result<Option<Distance>> {
    if text == "off" {
        return Ok(None);
    }
    let (norm, weight) = text.split_once(':').unwrap_or((text, "0.15"));
    let exponent = norm.strip_prefix('l').and_then(|p| p.parse::<f64>().ok());
    match (exponent, weight.parse::<f64>()) {
        (Some(exponent), Ok(weight))
            if (1.0..=8.0).contains(&exponent) && (0.0..=LARGEST).contains(&weight) =>
        {
            Ok(Some(Distance {
                exponent,
                weight,
                through_unet: false,
            }))
        }
        _ => Err(usage(format!(
            "--distance {text:?}: expected l1, l1.5 or l2 with a weight, such as l1:0.15, or off"
        ))),
    }
}

/// File and target of every line.
fn targets(path: &Path) -> anyhow::Result<BTreeMap<String, String>> {
    let shown = path.display().to_string();
    let mut reader = csv::Reader::from_path(path).with_context(|| shown.clone())?;
    let headers = reader.headers().with_context(|| shown.clone())?.clone();
    let column = |name: &str| {
        let found = headers.iter().position(|h| h.trim() == name);
        found.ok_or_else(|| usage(format!("{shown}: no column {name}")))
    };
    let (file, target) = (column("file")?, column("target")?);
    let mut all = BTreeMap::new();
    for (line, row) in reader.records().enumerate() {
        let row = row.with_context(|| shown.clone())?;
        let get = |k: usize| row.get(k).unwrap_or("").trim().to_owned();
        if all.insert(get(file), get(target)).is_some() {
            let why = format!("{shown}, line {}: {} is there twice", line + 2, get(file));
            return Err(usage(why));
        }
    }
    Ok(all)
}

pub fn run(args: &GenerateArgs) -> anyhow::Result<()> {
    let guidance = args.guidance()?;
    let filled = std::fs::read_dir(&args.out).is_ok_and(|mut entries| entries.next().is_some());
    if filled && !args.resume {
        let out = args.out.display();
        let why = format!("--out {out}: it holds files; --resume goes on with an earlier run");
        return Err(usage(why));
    }
    apart(&args.originals, &args.out)?;
    let device = args.device.with_gradients();
    let device = device.map_err(|e| usage(format!("--device: {e}")))?;
    let registry = Registry::open()?;
    let networks = Networks::open(
        &registry,
        &args.unet,
        &args.classifier,
        args.robust.as_deref(),
        &device,
    )?;
    let labels = Labels::new(networks.labels.clone());
    let mut tasks = args.tasks(&labels)?;
    let originals: BTreeMap<String, PathBuf> = { tasks.iter() }
        .map(|t| (t.name.clone(), t.original.clone()))
        .collect();
    if let Some((i, n)) = args.shard {
        tasks.retain(|task| task.index % n == i - 1);
    }
    if tasks.is_empty() {
        return Err(usage(
            "there is nothing to do: no original is in this shard or has a target",
        ));
    }
    let kept = crate::diffusion::spaced(networks.diffusion().steps, &args.steps)
        .map_err(|e| usage(format!("--steps: {e}")))?
        .len();
    let plan = Plan {
        guidance,
        steps: args.steps.clone(),
        skip: args.skip.unwrap_or(kept / 2),
        samples: usize::from(args.samples),
        seed: args.seed,
        batch: usize::from(args.batch),
    };
    if plan.skip >= kept {
        return Err(usage(format!(
            "--skip {} of {kept} steps: none is left",
            plan.skip
        )));
    }
    std::fs::create_dir_all(&args.out).with_context(|| args.out.display().to_string())?;
    let mut bar = Bar::new(args.quiet);
    let mut made: Vec<Made> = Vec::new();
    let done = diffusion::run(
        &plan,
        &networks,
        &tasks,
        &args.out,
        |done, total| bar.update("steps", done, total),
        |one| made.push(one.clone()),
    );
    bar.finish();
    done?;
    made.sort_by(|a, b| a.at.image.cmp(&b.at.image));
    let name = match args.shard {
        Some((i, n)) => format!("manifest.{i}of{n}.csv"),
        None => "manifest.csv".into(),
    };
    let manifest = args.out.join(name);
    write_manifest(&manifest, &args.out, &made, &originals, &labels)?;
    let count = made.len().max(1) as f64;
    let share =
        |holds: &dyn Fn(&Made) -> bool| made.iter().filter(|m| holds(m)).count() as f64 / count;
    let probability = made
        .iter()
        .map(|m| m.record.target_probability)
        .sum::<f64>()
        / count;
    let unguided = made.iter().filter(|m| m.record.met.unguided > 0).count();
    let mut text = format!(
        "{} counterfactuals in {}: {:.2} reach their target (before: {:.2}), which has a probability of {probability:.2} \
         on average\n",
        made.len(),
        args.out.display(),
        share(&|m| m.record.flipped),
        share(&|m| m.record.before.0 == m.record.target),
    );
    if unguided > 0 {
        text.push_str(&format!(
            "{unguided} of them had steps without guidance, where a gradient was zero or not a number: see `unguided` in \
             their records\n"
        ));
    }
    print(&text)
}

/// Results among the originals would be originals of the next run.
fn apart(originals: &Path, out: &Path) -> anyhow::Result<()> {
    let full = |path: &Path| std::fs::canonicalize(path).or_else(|_| std::path::absolute(path));
    match (full(originals), full(out)) {
        (Ok(originals), Ok(out)) if out.starts_with(&originals) => {
            let why = "--out lies in --originals: name a folder outside of it";
            Err(usage(why))
        }
        _ => Ok(()),
    }
}

const COLUMNS: [&str; 4] = ["original", "counterfactual", "source", "target"];

/// The manifest that `foil score` reads.
fn write_manifest(
    path: &Path,
    out: &Path,
    made: &[Made],
    originals: &BTreeMap<String, PathBuf>,
    labels: &Labels,
) -> anyhow::Result<()> {
    if let Ok(earlier) = std::fs::read_to_string(path)
        && !earlier.starts_with(&COLUMNS.join(","))
    {
        let shown = path.display();
        return Err(usage(format!(
            "{shown} is there and not a manifest of foil generate"
        )));
    }
    let mut writer = csv::Writer::from_path(path).with_context(|| path.display().to_string())?;
    writer.write_record(COLUMNS)?;
    for one in made {
        let record = &one.record;
        let original = originals.get(&record.original).cloned().unwrap_or_default();
        let original = std::path::absolute(&original).unwrap_or(original);
        let image = one.at.image.strip_prefix(out).unwrap_or(&one.at.image);
        writer.write_record([
            original.to_string_lossy().as_ref(),
            image.to_string_lossy().as_ref(),
            &labels.name(record.before.0),
            &labels.name(record.target),
        ])?;
    }
    writer.flush()?;
    Ok(())
}
