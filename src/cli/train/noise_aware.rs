//! The noise-aware classifier: guided-diffusion's UNet encoder, on images with the noise of a diffusion.

use anyhow::Result;
use clap::Args;

use super::{CommonArgs, Finished, Task};
use crate::diffusion::{Betas, Schedule, noised};
use crate::nets::{Architecture, UnetEncoder, UnetEncoderConfig};
use crate::tensor::candle::Candle;
use crate::tensor::{Array, Backend, cpu::Cpu};
use crate::train::{
    self, Attack, Meaning, Split, Target, TrainError, UnetEncoderLayout, denoising,
};

/// Steps of the full schedule: that of `foil train ddpm`.
const STEPS: usize = 1000;
/// Levels of at most this size have attention.
const ATTENTION: usize = 8;
/// Steps of the schedule at which the finished network is judged.
const JUDGED_AT: [usize; 2] = [200, 400];
/// Test images that are attacked.
const ATTACKED: usize = 512;
/// Of the adversary, in the L2 norm over pixel values from 0 to 1.
const RADIUS: f64 = 1.5;

#[derive(Args)]
pub struct NoiseAwareArgs {
    #[command(flatten)]
    common: CommonArgs,
    /// Channels of the first level: a multiple of 32
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u16).range(32..=512))]
    width: u16,
    /// Widths of the levels as multiples of the first, from the finest to the coarsest
    #[arg(long, value_name = "LIST", default_value = "1,2,2", value_delimiter = ',',
          value_parser = clap::value_parser!(u8).range(1..=8))]
    levels: Vec<u8>,
    /// Noise it learns from: that of the first steps of the 1000, evenly. Counterfactuals begin half way
    #[arg(long, value_name = "STEPS", default_value_t = 600, value_parser = clap::value_parser!(u16).range(1..=1000))]
    noise_steps: u16,
    /// Decay of the average of the weights, which is the result
    #[arg(long, value_name = "DECAY", default_value_t = 0.99, value_parser = super::ddpm::decay)]
    average: f64,
}

impl NoiseAwareArgs {
    fn layout(&self, size: usize) -> Result<UnetEncoderLayout> {
        let wrong = |message: String| Err(super::UsageError(message).into());
        let (width, count) = (usize::from(self.width), self.levels.len());
        if !width.is_multiple_of(32) {
            return wrong(format!("--width {width}: it must be a multiple of 32"));
        }
        if count > 8 || !size.is_multiple_of(1 << (count - 1)) {
            return wrong(format!(
                "--levels: {count} of them do not fit images of {size}x{size}, which every level but the last halves"
            ));
        }
        let factors: Vec<usize> = self.levels.iter().map(|&f| usize::from(f)).collect();
        let config = config();
        let attention: Vec<usize> = (0..count)
            .filter(|level| size >> level <= ATTENTION)
            .collect();
        let attended = attention.iter().copied().chain([count - 1]);
        let narrow =
            |&level: &usize| !(width * factors[level]).is_multiple_of(config.num_head_channels);
        if let Some(level) = { attended }.find(narrow) {
            return wrong(format!(
                "--levels: level {level} has attention and {} channels; it needs a multiple of {}",
                width * factors[level],
                config.num_head_channels
            ));
        }
        Ok(UnetEncoderLayout {
            size,
            width,
            factors,
            blocks: config.num_res_blocks,
            attention,
        })
    }
}

/// What the weights do not say.
fn config() -> UnetEncoderConfig {
    UnetEncoderConfig {
        num_res_blocks: 1,
        ..UnetEncoderConfig::default()
    }
}

pub fn run(args: &NoiseAwareArgs) -> Result<()> {
    let common = &args.common;
    let task = Task::new("noise-aware", common, 1500, |_| true)?;
    let data = &task.data;
    let layout = args.layout(data.size)?;
    let schedule = Schedule::new(Betas::Cosine, STEPS)?;
    let meaning = Meaning::new(Target::Label, true, data, &task.items);
    let options = [
        ("width", args.width.to_string()),
        ("levels", format!("{:?}", args.levels)),
        ("noise_steps", args.noise_steps.to_string()),
    ];
    let trained = task.train(
        &task.plan(Some(args.average), &options),
        layout.initial(common.seed, meaning.outputs()),
        |training, dict| Ok(UnetEncoder::new(training, dict, config())?),
        |training, net, chosen, step| {
            let clean = data.batch(chosen);
            let draw = denoising::Draw::new(&schedule, &clean.shape, common.seed, step as u64);
            let most = usize::from(args.noise_steps);
            let at: Vec<usize> = draw.indices.iter().map(|t| t * most / STEPS).collect();
            let noisy = noised(&schedule, &clean, &draw.noise, &at);
            let told: Vec<f32> = at.iter().map(|&t| schedule.steps[t] as f32).collect();
            let outputs = net.predict_at(training, &training.upload(&noisy)?, &told)?;
            meaning.loss(outputs.logits.candle(), data, chosen)
        },
    )?;
    let mut dict = trained.weights;
    let meaning = meaning.finish(&mut dict, "out.2.c_proj");
    if common.half {
        train::round_to_half(&mut dict);
    }
    let mut found = Vec::new();
    let mut measure = |name: &str, values: Vec<(String, f64)>| {
        let named = { values.into_iter() }.map(|(kind, v)| (format!("{name} {kind}"), v));
        found.extend(named);
    };
    let told = |timestep: usize| UnetEncoderConfig {
        timestep: timestep as f32,
        ..config()
    };
    let test = task.held_out(Split::Test, |_| true);
    if !test.is_empty() {
        let net = UnetEncoder::new(&Cpu, &dict, config())?;
        let plain = |items: &[usize]| Ok(data.batch(items));
        measure("test", meaning.evaluate(&net, data, &test, plain)?);
        for t in JUDGED_AT {
            let net = UnetEncoder::new(&Cpu, &dict, told(t))?;
            let noisy = |items: &[usize]| -> std::result::Result<Array, TrainError> {
                let clean = data.batch(items);
                let first = items.first().copied().unwrap_or(0) as u64;
                let draw = denoising::Draw::new(&schedule, &clean.shape, common.seed, first);
                Ok(noised(
                    &schedule,
                    &clean,
                    &draw.noise,
                    &vec![t; items.len()],
                ))
            };
            let name = format!("noised (step {t})");
            measure(&name, meaning.evaluate(&net, data, &test, noisy)?);
        }
        let attack = Attack {
            radius: RADIUS,
            steps: 10,
        };
        let open = UnetEncoder::new(&Candle, &dict, config())?;
        let attacked = |items: &[usize]| {
            attack.run(&open, &data.batch(items), |logits| {
                meaning.loss(logits, data, items)
            })
        };
        let judged = &test[..test.len().min(ATTACKED)];
        let name = format!("attacked (L2 {RADIUS})");
        measure(&name, meaning.evaluate(&net, data, judged, attacked)?);
    }
    let labels = match meaning.labels == data.label_names.len() {
        true => data.label_names.clone(),
        false => Vec::new(),
    };
    task.finish(&Finished {
        architecture: Architecture::UnetEncoder,
        dict,
        cost: trained.cost,
        found,
        labels,
        range: [-1.0, 1.0],
        grey: false,
        further: format!(
            "unet = {{ num_res_blocks = {} }}\ndiffusion = {{ schedule = \"{}\", steps = {STEPS} }}\n",
            config().num_res_blocks,
            Betas::Cosine.name(),
        ),
    })
}
