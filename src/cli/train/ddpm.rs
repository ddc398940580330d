//! The denoising UNet.

use anyhow::{Context, Result};
use clap::Args;

use super::{CommonArgs, Finished, Task};
use crate::cli::progress::Bar;
use crate::diffusion::{Betas, Sampling, Schedule, sample, spaced};
use crate::nets::{Architecture, Unet, UnetConfig};
use crate::tensor::{Array, cpu::Cpu};
use crate::train::{self, UnetLayout, denoising};

/// Steps of the full schedule, as in the public code.
const STEPS: usize = 1000;
/// Decay of the average of the weights.
const AVERAGE: f64 = 0.995;

#[derive(Args)]
pub struct DdpmArgs {
    #[command(flatten)]
    common: CommonArgs,
    /// Channels of the first level: a multiple of 32
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u16).range(32..=512))]
    width: u16,
    /// Images of the grid FILE.png of samples that is written beside the weights
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=1024))]
    samples: u16,
    /// Steps that these samples take
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1000))]
    sample_steps: u16,
}

pub fn run(args: &DdpmArgs) -> Result<()> {
    if !args.width.is_multiple_of(32) {
        let width = args.width;
        return Err(
            super::UsageError(format!("--width {width}: it must be a multiple of 32")).into(),
        );
    }
    let task = Task::new("ddpm", &args.common, 1500, |_| true)?;
    let data = &task.data;
    if data.size % 4 != 0 {
        let size = data.size;
        let message =
            format!("--data: images of {size}x{size}; a UNet of three levels needs multiples of 4");
        return Err(super::UsageError(message).into());
    }
    let schedule = Schedule::new(Betas::Cosine, STEPS)?;
    let layout = UnetLayout {
        channels: 3,
        width: usize::from(args.width),
        factors: vec![1, 2, 2],
        blocks: 1,
        attention: vec![2],
    };
    let mut dict = task.train(
        &task.plan(Some(AVERAGE), &[("width", args.width.to_string())]),
        layout.initial(args.common.seed),
        |training, dict| Ok(Unet::new(training, dict, UnetConfig::default())?),
        |training, net, chosen, step| {
            let clean = data.batch(chosen);
            let draw = denoising::Draw::new(&schedule, &clean.shape, args.common.seed, step as u64);
            denoising::loss(training, net, &schedule, &clean, &draw)
        },
    )?;
    if args.common.half {
        train::round_to_half(&mut dict);
    }
    draw_samples(args, &schedule, &dict, data.size)?;
    task.finish(&Finished {
        architecture: Architecture::Unet,
        dict,
        found: Vec::new(),
        labels: Vec::new(),
        further: format!(
            "role = \"denoiser\"\ndiffusion = {{ schedule = \"{}\", steps = {STEPS} }}\n",
            Betas::Cosine.name()
        ),
    })
}

/// Writes a grid of samples beside the weights.
fn draw_samples(
    args: &DdpmArgs,
    schedule: &Schedule,
    dict: &crate::tensor::StateDict,
    size: usize,
) -> Result<()> {
    let net = Unet::new(&Cpu, dict, UnetConfig::default())?;
    let short = schedule.respaced(&spaced(STEPS, &args.sample_steps.to_string())?)?;
    let what = Sampling {
        count: usize::from(args.samples),
        channels: 3,
        size,
        seed: args.common.seed,
        batch: 16,
    };
    let mut bar = Bar::new(args.common.quiet);
    let images = sample(&Cpu, &net, &short, what, |done, total| {
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
    .with_context(|| path.display().to_string())
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
        for at in 0..area {
            let to = ((top + at / size) * width + left + at % size) * 3;
            for c in 0..3 {
                pixels[to + c] =
                    ((image[c * area + at].clamp(-1.0, 1.0) + 1.0) * 127.5).round() as u8;
            }
        }
    }
    (width, height, pixels)
}
