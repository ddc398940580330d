//! Autoencoders.

use anyhow::Result;
use clap::Args;

use super::{CommonArgs, Finished, Task};
use crate::nets::{Architecture, Autoencoder};
use crate::tensor::{Array, Backend, cpu::Cpu};
use crate::train::{self, Data, Split, losses::mean_square};

#[derive(Args)]
pub struct AutoencoderArgs {
    #[command(flatten)]
    common: CommonArgs,
    /// Learn from images of one label only. Default: from all
    #[arg(long, value_name = "LABEL")]
    class: Option<usize>,
    /// Channels of the layers around the code
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=512))]
    width: u16,
    /// Take images as grey ones of this range, as the study of quantitative evaluations does. Default: in colour, −1 to 1
    #[arg(long, value_name = "LOW,HIGH", value_parser = range, allow_hyphen_values = true)]
    grey: Option<[f32; 2]>,
}

/// `-0.5,0.5`.
fn range(text: &str) -> std::result::Result<[f32; 2], String> {
    let numbers: Option<Vec<f32>> = text.split(',').map(|t| t.trim().parse().ok()).collect();
    match numbers.as_deref() {
        Some(&[low, high]) if low < high && low.is_finite() && high.is_finite() => Ok([low, high]),
        _ => Err("expected two numbers, the smaller one first, such as -0.5,0.5".into()),
    }
}

impl AutoencoderArgs {
    fn images(&self, data: &Data, items: &[usize]) -> Array {
        match self.grey {
            Some(range) => data.grey_batch(items, range),
            None => data.batch(items),
        }
    }
}

pub fn run(args: &AutoencoderArgs) -> Result<()> {
    let own = |row: &train::Row| args.class.is_none_or(|class| row.label == class);
    let task = Task::new("autoencoder", &args.common, 1000, own)?;
    let data = &task.data;
    if args.grey.is_some() {
        data.expect_grey()?;
    }
    let channels = if args.grey.is_some() { 1 } else { 3 };
    let initial = train::autoencoder(args.common.seed, channels, usize::from(args.width));
    let options = [
        ("class", args.class.map_or("all".into(), |c| c.to_string())),
        ("width", args.width.to_string()),
        ("grey", format!("{:?}", args.grey)),
    ];
    let trained = task.train(
        &task.plan(None, &options),
        initial,
        |training, dict| Ok(Autoencoder::new(training, dict)?),
        |training, net, chosen, _| {
            let x = training.upload(&args.images(data, chosen))?;
            mean_square(&net.reconstruct(training, &x)?, &x)
        },
    )?;
    let mut dict = trained.weights;
    if args.common.half {
        train::round_to_half(&mut dict);
    }
    let net = Autoencoder::new(&Cpu, &dict)?;
    let mut found = Vec::new();
    let mut measure = |name: &str, items: &[usize]| -> Result<()> {
        if !items.is_empty() {
            found.push((
                name.to_owned(),
                error(&net, items, |part| args.images(data, part))?,
            ));
        }
        Ok(())
    };
    measure("test squared error", &task.held_out(Split::Test, own))?;
    let others = task.held_out(Split::Test, |row| !own(row));
    measure("squared error of other classes", &others)?;
    task.finish(&Finished {
        architecture: Architecture::Autoencoder,
        dict,
        cost: trained.cost,
        found,
        labels: Vec::new(),
        range: args.grey.unwrap_or([-1.0, 1.0]),
        grey: args.grey.is_some(),
        further: "role = \"autoencoder\"\n".into(),
    })
}

/// Mean square error over all values of some images.
fn error(
    net: &Autoencoder<Cpu>,
    items: &[usize],
    images: impl Fn(&[usize]) -> Array,
) -> Result<f64> {
    let mut sum = 0.0;
    let mut count = 0;
    for part in items.chunks(64) {
        let images = images(part);
        let again = Cpu.download(&net.reconstruct(&Cpu, &Cpu.upload(&images)?)?)?;
        let off = images.data.iter().zip(&again.data);
        sum += off.map(|(a, b)| f64::from(a - b).powi(2)).sum::<f64>();
        count += images.len();
    }
    Ok(sum / count as f64)
}
