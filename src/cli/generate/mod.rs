//! `foil generate`: counterfactuals by guided diffusion, or by gb, gl and gen.

pub mod guidance;
mod manifest;
mod pixel;
mod tasks;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;

use super::pace::Pace;
use super::{UsageError, print, say};
use crate::explain::diffusion::{
    self, Batch, Cards, GivenNoise, Made, Networks, Plan, Progress, Watch, without_gradients,
};
use crate::folder::{Lock, is_filled};
use crate::score::Labels;
use crate::tensor::{Device, Kept, WithGradients};
use crate::weights::Registry;
use guidance::{GuidanceArgs, MethodArg};

/// Makes counterfactuals of images by guided diffusion, or of small images by gb (gradient descent), gl (prototypes) or gen (an
/// invertible network) with --method; defaults are the networks of the glyph world, inside the program.
#[derive(Args)]
pub struct GenerateArgs {
    /// Folder of original images
    #[arg(long, value_name = "DIR")]
    originals: PathBuf,
    /// The class that all of them shall become: a name or number of the classifier's classes; for gb and gl also `other`,
    /// any class but its own
    #[arg(long, value_name = "LABEL", required_unless_present = "targets")]
    target: Option<String>,
    /// A CSV file with the columns file (below --originals) and target, for a class each
    #[arg(long, value_name = "FILE", conflicts_with = "target")]
    targets: Option<PathBuf>,
    /// The classifier to explain: name or path of its card; `random` is an untrained one, a sanity check
    /// (default: glyph_resnet18; gb and gl: dot_cnn; gen, an invertible network: dot_inn)
    #[arg(long, value_name = "CARD")]
    classifier: Option<String>,
    /// The denoising network (default: glyph_ddpm)
    #[arg(long, value_name = "CARD")]
    unet: Option<String>,
    #[command(flatten)]
    guidance: GuidanceArgs,
    #[command(flatten)]
    pixel: pixel::PixelArgs,
    /// Steps of the diffusion: a number, or sections as in guided-diffusion (default: 200)
    #[arg(long, value_name = "STEPS")]
    steps: Option<String>,
    /// Noisy steps of these to leave out (default: half of them; dime: 7 of 10)
    #[arg(long, value_name = "N")]
    skip: Option<usize>,
    /// Counterfactuals of each original
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    samples: u16,
    /// Drop counterfactuals that the classifier does not call the target: their records stay, without an image
    #[arg(long)]
    reject: bool,
    /// Seed of the noise (default: 0)
    #[arg(long)]
    seed: Option<u64>,
    /// Noise instead of that of the seed: a tensor [draws, images, 3, height, width], or without images for the same
    /// noise for all (.safetensors, .npy, .npz, .pth)
    #[arg(long, value_name = "FILE", conflicts_with = "seed")]
    noise: Option<PathBuf>,
    /// Device: cpu, or cuda or cuda:N in a program built with --features cuda; auto takes the GPU if it can
    #[arg(long, value_name = "D", default_value = "auto")]
    device: Device,
    /// Images at once; results do not depend on it (default: 16; gb, gl and gen: 64)
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=4096))]
    batch: Option<u16>,
    /// As many images at once as fit into this much memory, networks included, such as 8GB or 500MB
    #[arg(long, value_name = "SIZE", conflicts_with = "batch", value_parser = bytes)]
    memory: Option<u64>,
    /// Run blocks of the denoiser again on the way back: less memory, more time, the same images
    #[arg(long)]
    checkpointing: bool,
    /// Type that the denoiser's blocks are kept in: f32, or f16 or bf16 for half the memory of what waits for the way back
    /// (default: what its card says, else f32). Part of every record
    #[arg(long, value_name = "TYPE")]
    precision: Option<Kept>,
    /// Folder for the images, a record of each, and manifest.csv for `foil score`
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Keep what an earlier run of the same settings made in --out, and make the rest
    #[arg(long)]
    resume: bool,
    /// Do the i-th of n parts of the originals only; the last to end in the same --out writes manifest.csv
    #[arg(long, value_name = "I/N", value_parser = shard)]
    shard: Option<(usize, usize)>,
    /// No progress on standard error
    #[arg(long, short)]
    quiet: bool,
}

/// `2/3`.
pub fn shard(text: &str) -> Result<(usize, usize), String> {
    let parts = text.split_once('/');
    let parts = parts.and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
    match parts {
        Some((i, n)) if (1..=n).contains(&i) => Ok((i, n)),
        _ => Err("expected I/N with I from 1 to N, such as 2/3".into()),
    }
}

/// `8GB`, `500MB`, `1.5GiB`, or a number of bytes.
pub fn bytes(text: &str) -> Result<u64, String> {
    let at = text.find(|c: char| c.is_ascii_alphabetic());
    let (number, unit) = text.split_at(at.unwrap_or(text.len()));
    let factor = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "k" | "kb" => 1e3,
        "m" | "mb" => 1e6,
        "g" | "gb" => 1e9,
        "t" | "tb" => 1e12,
        "kib" => 1024.0,
        "mib" => 1048576.0,
        "gib" => 1073741824.0,
        _ => 0.0,
    };
    match number.trim().parse::<f64>() {
        Ok(value) if factor > 0.0 && value > 0.0 && value * factor < 1e18 => {
            Ok((value * factor) as u64)
        }
        _ => Err("expected an amount such as 8GB, 500MB or 1.5GiB".into()),
    }
}

pub(super) fn usage(message: impl Into<String>) -> anyhow::Error {
    UsageError(message.into()).into()
}

/// Shows progress, says what was odd about an image, and keeps the results.
struct Screen {
    pace: Pace,
    quiet: bool,
    made: Vec<Made>,
}

impl Watch for Screen {
    fn progress(&mut self, progress: Progress) {
        self.pace.show(progress);
    }

    fn made(&mut self, made: &Made) {
        if let Some(note) = made.note()
            && !self.quiet
        {
            say(&format!("note: {note}"));
        }
        self.made.push(made.clone());
    }
}

impl Screen {
    /// What was made, in the order of its names.
    fn finish(mut self) -> Vec<Made> {
        self.pace.finish();
        self.made.sort_by(|a, b| a.at.image.cmp(&b.at.image));
        self.made
    }
}

impl GenerateArgs {
    /// The tasks of this shard.
    fn own(&self, tasks: &[diffusion::Task]) -> Vec<diffusion::Task> {
        let (i, n) = self.shard.unwrap_or((1, 1));
        let own = tasks.iter().filter(|task| task.index % n == i - 1);
        own.cloned().collect()
    }

    /// Refuses a folder that holds something, unless it shall be kept.
    fn expect_empty(&self) -> anyhow::Result<()> {
        // The folder of a shard may hold what others made.
        let filled = match self.shard {
            Some(_) => self.out.join(manifest::name(self.shard)).exists(),
            None => is_filled(&self.out),
        };
        if filled && !self.resume {
            let out = self.out.display();
            let why = format!("--out {out}: it holds files; --resume goes on with an earlier run");
            return Err(usage(why));
        }
        Ok(())
    }

    /// Takes --out for this process, or for one of the shards that share it, until the lock is dropped.
    fn lock(&self) -> anyhow::Result<Lock> {
        let part = self.shard.map(|(i, n)| format!("{i}of{n}"));
        let lock = Lock::take(&self.out, part.as_deref(), "foil generate")?;
        // Another process may have been at work there since it was looked at.
        self.expect_empty()?;
        Ok(lock)
    }

    /// Refuses files of logits and networks of other formats, whose opinions have no gradients.
    fn differentiable(&self) -> anyhow::Result<()> {
        for (option, name) in [
            ("--classifier", &self.classifier),
            ("--robust", &self.guidance.robust),
        ] {
            if let Some(why) = name.as_deref().and_then(without_gradients) {
                let name = name.as_deref().unwrap_or_default();
                return Err(usage(format!("{option} {name}: {why}")));
            }
        }
        Ok(())
    }

    /// Refuses options of guided diffusion, for a method that does without.
    fn no_diffusion(&self, method: &str) -> anyhow::Result<()> {
        let own = [
            ("--unet", self.unet.is_some()),
            ("--steps", self.steps.is_some()),
            ("--seed", self.seed.is_some()),
            ("--skip", self.skip.is_some()),
            ("--samples", self.samples != 1),
            ("--noise", self.noise.is_some()),
            ("--memory", self.memory.is_some()),
            ("--checkpointing", self.checkpointing),
            ("--precision", self.precision.is_some()),
            ("--reject", self.reject),
        ];
        let given = own.iter().find(|o| o.1).map(|o| o.0);
        match self.guidance.given().or(given) {
            Some(option) => Err(usage(format!("{option} is no option of --method {method}"))),
            None => Ok(()),
        }
    }

    /// What to do, for networks that are open.
    fn plan(&self, method: diffusion::Method, networks: &Networks) -> anyhow::Result<Plan> {
        let steps = self.steps.as_deref().unwrap_or("200");
        let kept = crate::diffusion::spaced(networks.diffusion().steps, steps)
            .map_err(|e| usage(format!("--steps: {e}")))?
            .len();
        let usual = match self.guidance.is_dime() {
            true => (kept * 7).div_ceil(10),
            false => kept / 2,
        };
        let plan = Plan {
            method,
            steps: steps.to_owned(),
            skip: self.skip.unwrap_or(usual),
            sampler: self.guidance.sampler()?,
            samples: usize::from(self.samples),
            seed: self.seed.unwrap_or(0),
            noise: { self.noise.as_deref() }
                .map(GivenNoise::read)
                .transpose()?,
            reject: self.reject,
            batch: match self.memory {
                Some(bytes) => Batch::Memory(bytes),
                None => Batch::Images(usize::from(self.batch.unwrap_or(16))),
            },
        };
        if plan.skip >= kept {
            let why = format!("--skip {} of {kept} steps: none is left", plan.skip);
            return Err(usage(why));
        }
        if self.guidance.is_dime() && plan.skip == 0 {
            return Err(usage(
                "--skip 0: DiME begins one step noisier than it takes back; leave at least one out",
            ));
        }
        Ok(plan)
    }
}

pub fn run(args: &GenerateArgs) -> anyhow::Result<()> {
    args.expect_empty()?;
    apart(&args.originals, &args.out)?;
    args.differentiable()?;
    if let MethodArg::Gb | MethodArg::Gl | MethodArg::Gen = args.guidance.method {
        return pixel::run(args, args.guidance.method);
    }
    if let Some(option) = args.pixel.given() {
        let why = format!("{option} is an option of --method gb, gl or gen");
        return Err(usage(why));
    }
    let method = args.guidance.method()?;
    let device = open_device(args.device, args.quiet)?;
    if args.memory.is_some() && device.device() != Device::Cpu {
        let why =
            "--memory: it measures the memory of the program, not that of a GPU; give --batch N";
        return Err(usage(why));
    }
    let registry = Registry::open()?;
    let networks = Networks::open(
        &registry,
        &Cards {
            unet: args.unet.as_deref().unwrap_or("glyph_ddpm"),
            classifier: args.classifier.as_deref().unwrap_or("glyph_resnet18"),
            robust: args.guidance.robust.as_deref(),
            perceptual: method.perceptual(),
            checkpointing: args.checkpointing,
            precision: args.precision,
        },
        &device,
    )?;
    let labels = Labels::new(networks.labels.clone());
    let (tasks, count) = args.tasks_with(&labels, None)?;
    let plan = args.plan(method, &networks)?;
    if let (Some(noise), Some(path)) = (&plan.noise, &args.noise) {
        let (_, start) = plan.schedule(&networks)?;
        noise.check(path, plan.draws(start), count, plan.samples, networks.size)?;
    }
    let originals: BTreeMap<String, PathBuf> = { tasks.iter() }
        .map(|t| (t.name.clone(), t.original.clone()))
        .collect();
    if tasks.is_empty() {
        return Err(usage("there is nothing to do: no original has a target"));
    }
    let own = args.own(&tasks);
    let [list, whole] = [args.shard, None].map(|shard| args.out.join(manifest::name(shard)));
    manifest::check(&list)?;
    // Held to the end; nothing is left of it where a check fails.
    let _lock = args.lock()?;
    if args.shard.is_some() {
        manifest::check(&whole)?;
        // Other shards must have been made with the same settings.
        diffusion::found(&plan, &networks, &tasks, &args.out)?;
    }
    let ready = diffusion::prepare(&plan, &networks, &own, &args.out)?;
    if let Some(note) = ready.batch_note().filter(|_| !args.quiet) {
        say(&note);
    }
    let mut screen = Screen {
        pace: Pace::new(args.quiet),
        quiet: args.quiet,
        made: Vec::new(),
    };
    let done = ready.run(&mut screen);
    let made = screen.finish();
    match done {
        Ok(()) => manifest::write(&list, &args.out, &made, &originals, &labels)?,
        Err(error) => {
            manifest::write_longer(&list, &args.out, &made, &originals, &labels)?;
            return Err(error.into());
        }
    }
    let mut said = summary(&made, &args.out);
    if let Some((_, n)) = args.shard
        && let Some(all) = diffusion::found(&plan, &networks, &tasks, &args.out)?
    {
        said.push_str(&manifest::whole(
            &whole, &args.out, all, &originals, &labels, n,
        )?);
    }
    print(&said)
}

/// The device for work that needs gradients; says which one and why.
pub fn open_device(device: Device, quiet: bool) -> anyhow::Result<WithGradients> {
    let opened = device.with_gradients();
    let (opened, why) = opened.map_err(|e| usage(format!("--device: {e}")))?;
    if !quiet {
        say(&format!("on {} ({why})", opened.device()));
    }
    Ok(opened)
}

/// What came of a shard without images.
fn nothing(out: &Path) -> String {
    let out = out.display();
    format!("0 counterfactuals in {out}: this shard is empty, there are fewer images than shards\n")
}

/// What came of all.
fn summary(made: &[Made], out: &Path) -> String {
    if made.is_empty() {
        return nothing(out);
    }
    let count = made.len().max(1) as f64;
    let share =
        |holds: &dyn Fn(&Made) -> bool| made.iter().filter(|m| holds(m)).count() as f64 / count;
    let probabilities = made.iter().map(|m| m.record.target_probability);
    let rejected = made.iter().filter(|m| m.record.rejected).count();
    let mut text = format!(
        "{} counterfactuals in {}: {:.2} reach their target (before: {:.2}; changed: {:.2}), which has a probability of \
         {:.2} on average\n",
        made.len() - rejected,
        out.display(),
        share(&|m| m.record.reached),
        share(&|m| m.record.before.is_some_and(|b| b.0 == m.record.target)),
        share(&|m| m.record.flipped),
        probabilities.sum::<f64>() / count,
    );
    if rejected > 0 {
        text.push_str(&format!(
            "{rejected} of {} were rejected: the classifier does not call them the target\n",
            made.len()
        ));
    }
    let unguided = made.iter().filter(|m| m.record.met.unguided > 0).count();
    if unguided > 0 {
        text.push_str(&format!(
            "{unguided} of them had steps without guidance, where a gradient was zero or not a number: see `unguided` in \
             their records\n"
        ));
    }
    let alone = made.iter().filter(|m| m.record.met.without_robust > 0);
    let alone = alone.count();
    if alone > 0 {
        text.push_str(&format!(
            "{alone} of them had steps without the robust classifier, whose gradient was zero or not a number: see \
             `without_robust` in their records\n"
        ));
    }
    let mute = made.iter().filter(|m| m.record.after.is_none()).count();
    if mute > 0 {
        text.push_str(&format!(
            "{mute} of them count as not reached, because the classifier gives no numbers for them\n"
        ));
    }
    text
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

#[cfg(test)]
mod tests {
    use super::bytes;

    #[test]
    fn amounts_of_memory_have_their_units() {
        assert_eq!(bytes("8GB"), Ok(8_000_000_000));
        assert_eq!(bytes("1.5GiB"), Ok(1_610_612_736));
        assert_eq!(bytes("300"), Ok(300));
        assert!(bytes("8 apples").is_err() && bytes("-1GB").is_err() && bytes("GB").is_err());
    }
}
