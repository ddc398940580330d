//! `foil train`: small networks on images with known attributes.

mod autoencoder;
mod card;
mod classifier;
mod cnn;
mod ddpm;
mod invertible;
mod noise_aware;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Args, Subcommand};
use serde_json::json;

use super::UsageError;
use super::progress::Bar;
use crate::images;
use crate::nets::Architecture;
use crate::tensor::StateDict;
use crate::tensor::candle::Training;
use crate::train::{self, AdamW, Cost, Data, Plan, Split, TrainError, Trained};

/// Trains a small network on a folder that `foil glyphs render` wrote.
#[derive(Args)]
pub struct TrainArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// A classifier of the label
    Classifier(classifier::ClassifierArgs),
    /// A classifier of the label with another architecture and seed, to judge the first
    Oracle(classifier::ClassifierArgs),
    /// A classifier trained on adversarial examples (PGD in the L2 norm)
    Robust(classifier::RobustArgs),
    /// A network that draws images again from a narrow code, for all of them or for one class
    Autoencoder(autoencoder::AutoencoderArgs),
    /// A denoising UNet of guided-diffusion with learnt variances
    Ddpm(ddpm::DdpmArgs),
    /// A classifier of the label that was shown noise and is told how much: the encoder of guided-diffusion's UNet
    NoiseAware(noise_aware::NoiseAwareArgs),
    /// The small CNN that is explained, or judges, in the study of quantitative evaluations; of grey images
    Cnn(cnn::CnnArgs),
    /// An invertible network of IB-INN: a classifier whose codes can be drawn again, for `foil generate --method gen`
    Inn(invertible::InvertibleArgs),
    /// A network that reads all attributes off an image
    Encoder(classifier::EncoderArgs),
}

pub fn run(args: &TrainArgs) -> Result<()> {
    match &args.what {
        What::Classifier(args) => classifier::classifier("classifier", args),
        What::Oracle(args) => classifier::classifier("oracle", args),
        What::Robust(args) => classifier::robust(args),
        What::Autoencoder(args) => autoencoder::run(args),
        What::Ddpm(args) => ddpm::run(args),
        What::NoiseAware(args) => noise_aware::run(args),
        What::Cnn(args) => cnn::run(args),
        What::Inn(args) => invertible::run(args),
        What::Encoder(args) => classifier::encoder(args),
    }
}

/// What all kinds of training have in common.
#[derive(Args, Clone)]
struct CommonArgs {
    /// Folder with attributes.csv and the images it names, or with MNIST's four IDX files (plain or .gz), whose images have labels only
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// CelebA's list_attr_celeba.txt: --data is a folder of the images that it names (square, of one size), and the label is
    /// --attribute
    #[arg(long, value_name = "FILE", requires = "attribute")]
    attributes: Option<PathBuf>,
    /// The attribute to learn, such as Smiling: class 1 has it, class 0 does not
    #[arg(long, value_name = "NAME", requires = "attributes")]
    attribute: Option<String>,
    /// File of weights to write; its model card gets the same name with .toml
    #[arg(long, value_name = "FILE.safetensors")]
    out: PathBuf,
    /// Continue from the checkpoint of an interrupted run
    #[arg(long)]
    resume: bool,
    /// Replace weights, card, picture and checkpoint of an earlier run
    #[arg(long, conflicts_with = "resume")]
    force: bool,
    /// Steps of the optimiser
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    steps: Option<u32>,
    /// Images of a step
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(2..=4096))]
    batch: u16,
    /// Largest learning rate; it grows to it and falls along a cosine
    #[arg(long, default_value_t = 2e-3, value_parser = positive)]
    rate: f64,
    /// Weight decay
    #[arg(long, default_value_t = 1e-3, value_parser = not_negative)]
    decay: f64,
    /// Seed of first weights and order of images
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Steps between checkpoints
    #[arg(long, value_name = "STEPS", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    checkpoint_every: u32,
    /// Write weights in half precision
    #[arg(long)]
    half: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// No progress on standard error
    #[arg(long, short)]
    quiet: bool,
}

fn positive(text: &str) -> Result<f64, String> {
    let value: f64 = text
        .parse()
        .map_err(|_| format!("{text:?} is not a number"))?;
    match value > 0.0 && value.is_finite() {
        true => Ok(value),
        false => Err("it must be above 0".into()),
    }
}

fn not_negative(text: &str) -> Result<f64, String> {
    if text.parse() == Ok(0.0) {
        Ok(0.0)
    } else {
        positive(text)
    }
}

impl CommonArgs {
    /// An earlier run's files are not lost by mistake, and those of this one can be written.
    fn check_out(&self, picture: bool) -> Result<()> {
        let checkpoint = checkpoint(&self.out);
        let mut files = vec![self.out.clone(), self.out.with_extension("toml")];
        if picture {
            files.push(self.out.with_extension("png"));
        }
        train::writable(&self.out)?;
        if self.force || (self.resume && checkpoint.exists()) {
            return Ok(());
        }
        let message = if checkpoint.exists() {
            format!(
                "{} is there: --resume continues that run, --force begins anew",
                checkpoint.display()
            )
        } else if let Some(file) = files.iter().find(|f| f.exists()) {
            format!(
                "{} is there: name another --out, or replace it with --force",
                file.display()
            )
        } else {
            if self.resume && !self.quiet {
                super::say(&format!("no {}: beginning anew", checkpoint.display()));
            }
            return Ok(());
        };
        Err(UsageError(message).into())
    }
}

/// A kind of training over one set of data.
struct Task<'a> {
    args: &'a CommonArgs,
    /// Name of the subcommand.
    what: &'static str,
    data: Data,
    /// Images to learn from.
    items: Vec<usize>,
    steps: usize,
}

/// A network that was trained.
struct Finished {
    architecture: Architecture,
    dict: StateDict,
    cost: Cost,
    /// Measured on held-out images, by name.
    found: Vec<(String, f64)>,
    labels: Vec<String>,
    /// Of the pixels that the network sees, and whether they have one channel.
    range: [f32; 2],
    grey: bool,
    /// Further lines of the model card.
    further: String,
}

impl<'a> Task<'a> {
    fn new(
        what: &'static str,
        args: &'a CommonArgs,
        steps: usize,
        keep: impl Fn(&train::Row) -> bool,
    ) -> Result<Self> {
        if args.out.extension().is_none_or(|e| e != "safetensors") {
            let out = args.out.display();
            let message = format!("--out {out}: the name must end in .safetensors");
            return Err(UsageError(message).into());
        }
        if let Some(folder) = args.out.parent().filter(|p| !p.as_os_str().is_empty())
            && !folder.is_dir()
        {
            return Err(
                UsageError(format!("--out: there is no folder {}", folder.display())).into(),
            );
        }
        args.check_out(what == "ddpm")?;
        let data = match (&args.attributes, &args.attribute) {
            (Some(file), Some(attribute)) => Data::read_celeba(&args.data, file, attribute)?,
            _ if images::is_mnist(&args.data) => Data::read_mnist(&args.data)?,
            _ => Data::read(&args.data)?,
        };
        let mut items = data.split(Split::Train);
        items.retain(|&i| keep(&data.rows[i]));
        if items.is_empty() {
            let message = format!(
                "{}: none of its {} images is of the split train{}",
                args.data.display(),
                data.rows.len(),
                if what == "autoencoder" {
                    " and of the --class"
                } else {
                    ""
                }
            );
            return Err(TrainError::Data(message).into());
        }
        Ok(Self {
            args,
            what,
            data,
            items,
            steps: args.steps.map_or(steps, |s| s as usize),
        })
    }

    /// Images of a split that were not learnt from.
    fn held_out(&self, split: Split, keep: impl Fn(&train::Row) -> bool) -> Vec<usize> {
        let mut items = self.data.split(split);
        items.retain(|&i| keep(&self.data.rows[i]));
        items
    }

    fn plan(&self, average: Option<f64>, options: &[(&str, String)]) -> Plan {
        let mut all = BTreeMap::from([
            ("what".to_owned(), self.what.to_owned()),
            ("images".to_owned(), self.items.len().to_string()),
            ("data".to_owned(), self.data.sha256.clone()),
        ]);
        all.extend(
            options
                .iter()
                .map(|(name, value)| ((*name).to_owned(), value.clone())),
        );
        Plan {
            steps: self.steps,
            batch: usize::from(self.args.batch),
            seed: self.args.seed,
            optimiser: AdamW {
                rate: self.args.rate,
                decay: self.args.decay,
                ..AdamW::default()
            },
            average,
            checkpoint: Some((
                checkpoint(&self.args.out),
                self.args.checkpoint_every as usize,
            )),
            resume: self.args.resume,
            options: all,
        }
    }

    /// Trains with a progress bar. `loss` gets indices of images.
    fn train<N>(
        &self,
        plan: &Plan,
        initial: StateDict,
        build: impl Fn(&Training, &StateDict) -> Result<N, TrainError>,
        loss: impl Fn(&Training, &N, &[usize], usize) -> Result<candle_core::Tensor, TrainError>,
    ) -> Result<Trained> {
        let mut bar = Bar::new(self.args.quiet);
        let trained = train::run(
            plan,
            initial,
            self.items.len(),
            build,
            |training, net, chosen, step| {
                let chosen: Vec<usize> = chosen.iter().map(|&i| self.items[i]).collect();
                loss(training, net, &chosen, step)
            },
            |progress| {
                let now = format!("loss {:.4}", progress.mean_loss);
                bar.update_with("steps", progress.step, progress.steps, &now);
            },
        )?;
        bar.finish();
        Ok(trained)
    }

    /// Writes weights and card, removes the checkpoint and says what was found.
    fn finish(&self, finished: &Finished) -> Result<()> {
        let sha = card::write(self, finished)?;
        let _ = std::fs::remove_file(checkpoint(&self.args.out));
        let out = self.args.out.display().to_string();
        let architecture = finished.architecture;
        if self.args.json {
            let results: serde_json::Map<String, serde_json::Value> = finished
                .found
                .iter()
                .map(|(k, v)| (k.clone(), json!(v)))
                .collect();
            let printed = json!({
                "file": out, "sha256": sha, "architecture": architecture.name(),
                "steps": self.steps, "seconds": finished.cost.seconds,
                "cpu_seconds": finished.cost.cpu_seconds, "results": results,
            });
            return super::print(&format!("{}\n", serde_json::to_string_pretty(&printed)?));
        }
        super::print(&format!(
            "{out}: {}, {architecture}, {} steps in {:.0} s; {}\n",
            self.what,
            self.steps,
            finished.cost.seconds,
            card::results(&finished.found)
        ))
    }
}

/// Number of classes, each of which must occur.
fn classes(data: &Data, items: &[usize], of: impl Fn(&train::Row) -> usize) -> Result<usize> {
    let all: std::collections::BTreeSet<usize> = items.iter().map(|&i| of(&data.rows[i])).collect();
    let classes = all.last().map_or(0, |last| last + 1);
    match (0..classes).find(|class| !all.contains(class)) {
        Some(class) => {
            let why = format!("no image of the split train has the class {class} of {classes}");
            Err(TrainError::Data(why).into())
        }
        None => Ok(classes),
    }
}

/// Where a run keeps its checkpoint.
fn checkpoint(out: &Path) -> PathBuf {
    out.with_extension("checkpoint")
}
