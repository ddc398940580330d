//! The denoising UNet.

use anyhow::{Context, Result};
use clap::Args;

use super::{CommonArgs, Finished, Task};
use crate::cli::progress::Bar;
use crate::diffusion::{Betas, Sampling, Schedule, sample, spaced};
use crate::glyphs::Atlas;
use crate::nets::{Architecture, Unet, UnetConfig};
use crate::tensor::{Array, cpu::Cpu};
use crate::train::{self, Reader, Split, UnetLayout, denoising};
use crate::weights::Registry;

/// Steps of the full schedule, as in the public code.
const STEPS: usize = 1000;

/// Levels of at most this size have attention.
const ATTENTION: usize = 8;
/// Channels of an attention head, as [`UnetConfig`] has it.
const HEAD: usize = 64;
/// Held-out images on which the error of the noise is measured.
const JUDGED: usize = 512;

#[derive(Args)]
pub struct DdpmArgs {
    #[command(flatten)]
    common: CommonArgs,
    /// Channels of the first level: a multiple of 32
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u16).range(32..=512))]
    width: u16,
    /// Widths of the levels as multiples of the first, from the finest to the coarsest
    #[arg(long, value_name = "LIST", default_value = "1,2,2", value_delimiter = ',',
          value_parser = clap::value_parser!(u8).range(1..=8))]
    levels: Vec<u8>,
    /// Groups of channels that a norm takes together (default: groups of 4). guided-diffusion always has 32; narrow
    /// networks lose the brightness of a channel that is a group of its own
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    groups: Option<u16>,
    /// Steps with a higher ratio of signal to noise than this count less, as this over the ratio (min-SNR); `inf` for
    /// equal weights
    #[arg(long, value_name = "RATIO", default_value_t = 5.0, value_parser = cap)]
    snr_cap: f64,
    /// Decay of the average of the weights, which is the result
    #[arg(long, value_name = "DECAY", default_value_t = 0.995, value_parser = decay)]
    average: f64,
    /// Images of the grid FILE.png of samples that is written beside the weights
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=1024))]
    samples: u16,
    /// Steps that these samples take
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1000))]
    sample_steps: u16,
    /// An attribute encoder (name or model card) that judges the samples: how like they are to the glyphs it takes them for, drawn
    /// anew (correlation of pixels)
    #[arg(long, value_name = "CARD")]
    reader: Option<String>,
}

fn cap(text: &str) -> Result<f64, String> {
    match text {
        "inf" => Ok(f64::INFINITY),
        _ => super::positive(text),
    }
}

pub(super) fn decay(text: &str) -> Result<f64, String> {
    let value = super::not_negative(text)?;
    match value < 1.0 {
        true => Ok(value),
        false => Err("it must be below 1".into()),
    }
}

impl DdpmArgs {
    /// The layout of the network for images of a size.
    fn layout(&self, size: usize) -> Result<UnetLayout> {
        let (width, count) = (usize::from(self.width), self.levels.len());
        let wrong = |message: String| Err(super::UsageError(message).into());
        if !width.is_multiple_of(32) {
            return wrong(format!("--width {width}: it must be a multiple of 32"));
        }
        if count > 8 {
            return wrong(format!("--levels: at most 8, found {count}"));
        }
        let least = 1 << (count - 1);
        if !size.is_multiple_of(least) {
            return wrong(format!(
                "--data: images of {size}x{size}; a UNet of {count} levels needs multiples of {least}"
            ));
        }
        let factors: Vec<usize> = self.levels.iter().map(|&f| usize::from(f)).collect();
        let attention: Vec<usize> = (0..count)
            .filter(|level| size >> level <= ATTENTION)
            .collect();
        // The middle of the network has attention whatever its size.
        let attended = attention.iter().copied().chain([count - 1]);
        if let Some(level) = { attended }.find(|&l| !(width * factors[l]).is_multiple_of(HEAD)) {
            let channels = width * factors[level];
            return wrong(format!(
                "--levels: level {level} has attention and {channels} channels; it needs a multiple of {HEAD}"
            ));
        }
        Ok(UnetLayout {
            channels: 3,
            width,
            factors,
            blocks: 1,
            attention,
        })
    }

    /// What the weights do not say.
    fn config(&self) -> Result<UnetConfig> {
        let groups = self.groups.map_or(usize::from(self.width) / 4, usize::from);
        if !usize::from(self.width).is_multiple_of(groups) {
            let message = format!("--groups {groups}: it must divide --width {}", self.width);
            return Err(super::UsageError(message).into());
        }
        Ok(UnetConfig {
            num_groups: groups,
            ..UnetConfig::default()
        })
    }

    /// The encoder that judges the samples, read before hours of training.
    fn open_reader(&self) -> Result<Option<Reader<Cpu>>> {
        let Some(name) = &self.reader else {
            return Ok(None);
        };
        let registry = Registry::open()?;
        let card = registry.card(name).context("--reader")?;
        let dict = registry.load(&card).context("--reader")?.dict;
        let reader = Reader::new(&Cpu, card.architecture, &dict);
        Ok(Some(reader.with_context(|| format!("--reader {name}"))?))
    }
}

pub fn run(args: &DdpmArgs) -> Result<()> {
    let reader = args.open_reader()?;
    let task = Task::new("ddpm", &args.common, 1500, |_| true)?;
    let data = &task.data;
    if let Some(reader) = &reader {
        // A reader that cannot judge is found out before hours of training.
        reader.likeness(&Cpu, &data.batch(&[0]), &Atlas::embedded()?)?;
    }
    let schedule = Schedule::new(Betas::Cosine, STEPS)?;
    let layout = args.layout(data.size)?;
    let config = args.config()?;
    let options = [
        ("width", args.width.to_string()),
        ("levels", format!("{:?}", args.levels)),
        ("snr_cap", args.snr_cap.to_string()),
        ("groups", config.num_groups.to_string()),
    ];
    let trained = task.train(
        &task.plan(Some(args.average), &options),
        layout.initial(args.common.seed),
        |training, dict| Ok(Unet::new(training, dict, config.clone())?),
        |training, net, chosen, step| {
            let clean = data.batch(chosen);
            let draw = denoising::Draw::new(&schedule, &clean.shape, args.common.seed, step as u64);
            denoising::loss(training, net, &schedule, &clean, &draw, args.snr_cap)
        },
    )?;
    let mut dict = trained.weights;
    if args.common.half {
        train::round_to_half(&mut dict);
    }
    let net = Unet::new(&Cpu, &dict, config.clone())?;
    let mut found = Vec::new();
    let mut judged = task.held_out(Split::Test, |_| true);
    judged.truncate(JUDGED);
    if !judged.is_empty() {
        let errors = judged.chunks(64).enumerate().map(|(part, items)| {
            let clean = data.batch(items);
            let draw = denoising::Draw::new(&schedule, &clean.shape, args.common.seed, part as u64);
            let error = denoising::error(&Cpu, &net, &schedule, &clean, &draw)?;
            Ok(error * items.len() as f64)
        });
        let sum: f64 = errors.sum::<Result<f64>>()?;
        found.push(("test noise error".to_owned(), sum / judged.len() as f64));
    }
    let samples = draw_samples(args, &schedule, &net, data.size)?;
    if let Some(reader) = &reader {
        let atlas = Atlas::embedded()?;
        let mean = |images: &Array| -> Result<f64> {
            let all = reader.likeness(&Cpu, images, &atlas)?;
            Ok(all.iter().sum::<f64>() / all.len().max(1) as f64)
        };
        found.push(("likeness of samples".to_owned(), mean(&samples)?));
        if !judged.is_empty() {
            let images = data.batch(&judged);
            found.push(("likeness of test images".to_owned(), mean(&images)?));
        }
    }
    task.finish(&Finished {
        architecture: Architecture::Unet,
        dict,
        cost: trained.cost,
        found,
        labels: Vec::new(),
        range: [-1.0, 1.0],
        grey: false,
        further: format!(
            "role = \"denoiser\"\ndiffusion = {{ schedule = \"{}\", steps = {STEPS} }}\ndenoiser = {{ num_groups = {} }}\n",
            Betas::Cosine.name(),
            config.num_groups
        ),
    })
}

/// Writes a grid of samples beside the weights, and returns them.
fn draw_samples(
    args: &DdpmArgs,
    schedule: &Schedule,
    net: &Unet<Cpu>,
    size: usize,
) -> Result<Array> {
    let short = schedule.respaced(&spaced(STEPS, &args.sample_steps.to_string())?)?;
    let what = Sampling {
        count: usize::from(args.samples),
        channels: 3,
        size,
        seed: args.common.seed,
        batch: 16,
    };
    let mut bar = Bar::new(args.common.quiet);
    let images = sample(&Cpu, net, &short, what, |done, total| {
        bar.update("steps of samples", done, total)
    })?;
    bar.finish();
    let (width, height, pixels) = grid(&images);
    let path = args.common.out.with_extension("png");
    image::save_buffer(
        &path,
        &pixels,
        width as u32,
        height as u32,
        image::ColorType::Rgb8,
    )
    .with_context(|| path.display().to_string())?;
    Ok(images)
}

/// Images from −1 to 1 side by side, about as many rows as columns.
fn grid(images: &Array) -> (usize, usize, Vec<u8>) {
    let (n, size) = (images.shape[0], images.shape[3]);
    let columns = (n as f64).sqrt().ceil() as usize;
    let rows = n.div_ceil(columns);
    let (cell, area) = (size + 1, size * size);
    let (width, height) = (columns * cell, rows * cell);
    let mut pixels = vec![128u8; width * height * 3];
    for (i, image) in images.data.chunks(3 * area).enumerate() {
        let (left, top) = (i % columns * cell, i / columns * cell);
        for (row, line) in train::to_pixels(image).chunks(3 * size).enumerate() {
            let to = ((top + row) * width + left) * 3;
            pixels[to..to + line.len()].copy_from_slice(line);
        }
    }
    (width, height, pixels)
}
