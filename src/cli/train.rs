//! `foil train`: small networks on images with known attributes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;

use super::UsageError;
use super::progress::Bar;
use crate::nets::{Architecture, UnetEncoderConfig, build};
use crate::tensor::candle::Candle;
use crate::tensor::{Backend, StateDict, cpu::Cpu};
use crate::train::{self, AdamW, Attack, Data, Meaning, Plan, Split, Target};
use crate::weights::sha256;

/// Trains a small network on a folder that `foil glyphs render` wrote.
#[derive(Args)]
pub struct TrainArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// A classifier of the label
    Classifier(ClassifierArgs),
    /// A classifier of the label with another architecture and seed, to judge the first
    Oracle(ClassifierArgs),
    /// A classifier trained on adversarial examples (PGD in the L2 norm)
    Robust(RobustArgs),
    /// A network that reads all attributes off an image
    Encoder(CommonArgs),
}

#[derive(Args)]
struct ClassifierArgs {
    #[command(flatten)]
    common: CommonArgs,
    /// What to learn
    #[arg(long, value_enum, default_value = "label")]
    target: TargetName,
}

#[derive(Args)]
struct RobustArgs {
    #[command(flatten)]
    common: CommonArgs,
    /// How far an adversary may move an image, in the L2 norm over pixel values from 0 to 1
    #[arg(long, default_value_t = 1.0)]
    radius: f64,
    /// Steps of the adversary
    #[arg(long, default_value_t = 4)]
    attack_steps: usize,
}

#[derive(Args, Clone)]
struct CommonArgs {
    /// Folder with attributes.csv and the images it names
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// File of weights to write; its model card gets the same name with .toml
    #[arg(long, value_name = "FILE.safetensors")]
    out: PathBuf,
    /// Continue from the checkpoint of an interrupted run
    #[arg(long)]
    resume: bool,
    /// Layout of the network
    #[arg(long, value_enum)]
    architecture: Option<Layout>,
    /// Channels of its first layer
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=512))]
    width: Option<u16>,
    /// Steps of the optimiser
    #[arg(long, default_value_t = 2000)]
    steps: usize,
    /// Images of a step
    #[arg(long, default_value_t = 128, value_parser = clap::value_parser!(u16).range(2..=4096))]
    batch: u16,
    /// Largest learning rate
    #[arg(long, default_value_t = 2e-3)]
    rate: f64,
    /// Weight decay
    #[arg(long, default_value_t = 1e-3)]
    decay: f64,
    /// Seed of first weights and order of images
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Steps between checkpoints
    #[arg(long, default_value_t = 200)]
    checkpoint_every: usize,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// No progress
    #[arg(long)]
    quiet: bool,
}

#[derive(Clone, Copy, ValueEnum, PartialEq, Eq)]
enum TargetName {
    Label,
    Character,
    Font,
}

#[derive(Clone, Copy, ValueEnum, PartialEq, Eq, Debug)]
enum Layout {
    /// torchvision's ResNet-18, slim
    Resnet18,
    /// Pairs of 3×3 convolutions and max-pools
    PlainCnn,
    /// torchvision's ConvNeXt, small
    Convnext,
}

impl Layout {
    fn architecture(self) -> Architecture {
        match self {
            Layout::Resnet18 => Architecture::ResNet18,
            Layout::PlainCnn => Architecture::PlainCnn,
            Layout::Convnext => Architecture::ConvNextTiny,
        }
    }

    fn initial(self, seed: u64, width: Option<u16>, outputs: usize) -> StateDict {
        let width = |default: usize| width.map_or(default, usize::from);
        match self {
            Layout::Resnet18 => train::resnet18(seed, width(16), outputs),
            Layout::PlainCnn => {
                let w = width(24);
                train::plain_cnn(seed, &[w, 2 * w, 4 * w], outputs)
            }
            Layout::Convnext => {
                let w = width(24);
                train::convnext(seed, 2, &[w, 2 * w, 4 * w], &[1, 1, 2], outputs)
            }
        }
    }
}

pub fn run(args: &TrainArgs) -> Result<()> {
    match &args.what {
        What::Classifier(args) => classifier(
            "classifier",
            &args.common,
            args.target,
            Layout::Resnet18,
            None,
        ),
        What::Oracle(args) => {
            classifier("oracle", &args.common, args.target, Layout::PlainCnn, None)
        }
        What::Robust(args) => {
            let attack = Attack {
                radius: args.radius,
                steps: args.attack_steps,
            };
            let target = TargetName::Label;
            classifier(
                "robust",
                &args.common,
                target,
                Layout::PlainCnn,
                Some(attack),
            )
        }
        What::Encoder(args) => learn("encoder", args, Target::Attributes, Layout::PlainCnn, None),
    }
}

fn classifier(
    what: &str,
    args: &CommonArgs,
    target: TargetName,
    layout: Layout,
    attack: Option<Attack>,
) -> Result<()> {
    let target = match target {
        TargetName::Label => Target::Label,
        TargetName::Character => Target::Character,
        TargetName::Font => Target::Font,
    };
    learn(what, args, target, layout, attack)
}

/// Where a run keeps its checkpoint.
fn checkpoint_path(out: &Path) -> PathBuf {
    out.with_extension("checkpoint")
}

fn learn(
    what: &str,
    args: &CommonArgs,
    target: Target,
    layout: Layout,
    attack: Option<Attack>,
) -> Result<()> {
    if args.out.extension().is_none_or(|e| e != "safetensors") {
        let out = args.out.display();
        return Err(UsageError(format!("--out {out}: the name must end in .safetensors")).into());
    }
    let started = Instant::now();
    let data = Data::read(&args.data)?;
    let items = data.split(Split::Train);
    let meaning = Meaning::new(target, &data, &items);
    let layout = args.architecture.unwrap_or(layout);
    let architecture = layout.architecture();
    let initial = layout.initial(args.seed, args.width, meaning.outputs());
    let unet = UnetEncoderConfig::default();
    let plan = Plan {
        steps: args.steps,
        batch: usize::from(args.batch),
        seed: args.seed,
        optimiser: AdamW {
            rate: args.rate,
            decay: args.decay,
            ..AdamW::default()
        },
        average: None,
        checkpoint: Some((checkpoint_path(&args.out), args.checkpoint_every)),
        resume: args.resume,
        options: BTreeMap::from([
            ("what".to_owned(), what.to_owned()),
            ("target".to_owned(), format!("{target:?}")),
            ("architecture".to_owned(), architecture.to_string()),
            ("width".to_owned(), format!("{:?}", args.width)),
            ("images".to_owned(), items.len().to_string()),
            ("attack".to_owned(), format!("{attack:?}")),
        ]),
    };
    let mut bar = Bar::new(args.quiet);
    let mut smooth: Option<f32> = None;
    let dict = train::run(
        &plan,
        initial.clone(),
        items.len(),
        |training, dict| Ok(build(architecture, training, dict, &unet)?),
        |training, net, chosen, _| {
            let chosen: Vec<usize> = chosen.iter().map(|&i| items[i]).collect();
            let mut images = data.batch(&chosen);
            if let Some(attack) = &attack {
                // The adversary sees the network as it is used: finished, with its norms folded.
                let now = training.values(&initial)?;
                let fixed = build(architecture, &Candle, &now, &unet)?;
                images = attack.run(fixed.as_ref(), &images, |logits| {
                    meaning.loss(logits, &data, &chosen)
                })?;
            }
            let outputs = net.predict(training, &training.upload(&images)?)?.logits;
            meaning.loss(outputs.candle(), &data, &chosen)
        },
        |progress| {
            let mean = smooth.map_or(progress.loss, |s| 0.98 * s + 0.02 * progress.loss);
            smooth = Some(mean);
            bar.update_with(
                "steps",
                progress.step,
                progress.steps,
                &format!("loss {mean:.4}"),
            );
        },
    )?;
    bar.finish();
    let seconds = started.elapsed().as_secs_f64();
    let net = build(architecture, &Cpu, &dict, &unet)?;
    let mut found = Vec::new();
    for (name, split) in [("validation", Split::Validation), ("test", Split::Test)] {
        let items = data.split(split);
        if !items.is_empty() {
            for (kind, value) in meaning.evaluate(net.as_ref(), &data, &items)? {
                found.push((format!("{name} {kind}"), value));
            }
        }
    }
    let note = found
        .iter()
        .map(|(name, value)| format!("{name} {value:.4}"));
    let note = note.collect::<Vec<_>>().join(", ");
    let sha = write(args, architecture, &dict, data.size, &meaning, what, &note)?;
    let _ = std::fs::remove_file(checkpoint_path(&args.out));
    if args.json {
        let results: serde_json::Map<String, serde_json::Value> =
            found.iter().map(|(k, v)| (k.clone(), json!(v))).collect();
        let printed = json!({
            "file": args.out.display().to_string(), "sha256": sha, "architecture": architecture.name(),
            "steps": args.steps, "seconds": seconds, "results": results,
        });
        return super::print(&format!("{}\n", serde_json::to_string_pretty(&printed)?));
    }
    super::print(&format!(
        "{}: {what}, {architecture}, {} steps in {seconds:.0} s; {note}\n",
        args.out.display(),
        args.steps
    ))
}

/// Writes weights and card; the checksum of the weights.
fn write(
    args: &CommonArgs,
    architecture: Architecture,
    dict: &StateDict,
    size: usize,
    meaning: &Meaning,
    what: &str,
    note: &str,
) -> Result<String> {
    train::write_weights(&args.out, dict)?;
    let bytes = std::fs::read(&args.out).with_context(|| args.out.display().to_string())?;
    let sha = sha256(&bytes);
    let stem = args
        .out
        .file_stem()
        .map_or_else(String::new, |s| s.to_string_lossy().into_owned());
    let file = args
        .out
        .file_name()
        .map_or_else(String::new, |s| s.to_string_lossy().into_owned());
    let labels = match meaning.target {
        Target::Label if meaning.labels == 2 => "labels = [\"even\", \"odd\"]\n",
        _ => "",
    };
    let text = format!(
        "name = {stem:?}\narchitecture = \"{architecture}\"\nfile = {file:?}\nsha256 = \"{sha}\"\n{labels}\
         licence = \"MIT OR Apache-2.0\"\norigin = \"foil train {what}, {} steps of {} images, seed {}\"\n\
         notes = {note:?}\n\n[preprocessing]\nresize = {{ size = [{size}, {size}] }}\ncrop = \"none\"\n\
         mean = [0.5, 0.5, 0.5]\nstd = [0.5, 0.5, 0.5]\n",
        args.steps, args.batch, args.seed,
    );
    let card = args.out.with_extension("toml");
    std::fs::write(&card, text).with_context(|| card.display().to_string())?;
    Ok(sha)
}
