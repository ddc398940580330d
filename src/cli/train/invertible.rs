//! Invertible networks.

use anyhow::Result;
use clap::Args;

use super::{CommonArgs, Finished, Task};
use crate::metrics::validity::argmax;
use crate::nets::{Architecture, InvertibleNet};
use crate::tensor::Backend;
use crate::tensor::candle::Candle;
use crate::train::{
    self, Data, InformationBottleneck, InvertibleLayout, Split, class_centres, dequantised,
};

/// Of images from −1 to 1.
const RANGE: [f32; 2] = [-1.0, 1.0];
/// Images whose mean code is kept for each class.
const CODED: usize = 8192;

#[derive(Args)]
pub struct InvertibleArgs {
    #[command(flatten)]
    common: CommonArgs,
    /// Coupling blocks at half and at a quarter of the size; the paper has 24,24
    #[arg(long, value_name = "A,B", default_value = "8,8", value_delimiter = ',', num_args = 1,
          value_parser = clap::value_parser!(u8).range(1..=64))]
    blocks: Vec<u8>,
    /// Channels inside the blocks; the paper has 32,64
    #[arg(long, value_name = "A,B", default_value = "16,32", value_delimiter = ',', num_args = 1,
          value_parser = clap::value_parser!(u16).range(1..=512))]
    widths: Vec<u16>,
    /// Width of the networks of the last coupling; the paper has 1024
    #[arg(long, default_value_t = 128, value_parser = clap::value_parser!(u16).range(1..=4096))]
    dense: u16,
    /// Weight of the classes in the loss of IB-INN
    #[arg(long, default_value_t = InformationBottleneck::default().beta, value_parser = super::positive)]
    beta: f64,
    /// Share of a label that goes to all classes
    #[arg(long, default_value_t = InformationBottleneck::default().smoothing, value_parser = super::not_negative)]
    smoothing: f64,
}

impl InvertibleArgs {
    fn layout(&self, size: usize, classes: usize) -> Result<InvertibleLayout> {
        let wrong = |message: String| Err(super::UsageError(message).into());
        let (&[first, second], &[narrow, wide]) = (&self.blocks[..], &self.widths[..]) else {
            return wrong("--blocks and --widths: expected two numbers each, such as 8,8".into());
        };
        if !size.is_multiple_of(4) {
            return wrong(format!(
                "--data: images of {size}x{size}; an invertible network halves their sides twice"
            ));
        }
        Ok(InvertibleLayout {
            size,
            channels: 1,
            classes,
            blocks: [usize::from(first), usize::from(second)],
            widths: [usize::from(narrow), usize::from(wide)],
            dense: usize::from(self.dense),
        })
    }
}

pub fn run(args: &InvertibleArgs) -> Result<()> {
    let common = &args.common;
    let task = Task::new("inn", common, 2000, |_| true)?;
    let data = &task.data;
    data.expect_grey()?;
    let classes = super::classes(data, &task.items, |row| row.label)?;
    let layout = args.layout(data.size, classes)?;
    let options = [
        ("blocks", format!("{:?}", args.blocks)),
        ("widths", format!("{:?}", args.widths)),
        ("dense", args.dense.to_string()),
        ("beta", args.beta.to_string()),
        ("smoothing", args.smoothing.to_string()),
    ];
    let bottleneck = InformationBottleneck {
        beta: args.beta,
        smoothing: args.smoothing,
    };
    let trained = task.train(
        &task.plan(None, &options),
        layout.initial(common.seed),
        |training, dict| Ok(InvertibleNet::new(training, dict)?),
        |training, net, chosen, step| {
            let clean = data.grey_batch(chosen, RANGE);
            let noisy = dequantised(&clean, common.seed, step as u64);
            let labels: Vec<usize> = chosen.iter().map(|&i| data.rows[i].label).collect();
            let x = training.upload(&noisy)?;
            bottleneck.loss(net, &net.forward_values(training, x.candle())?, &labels)
        },
    )?;
    let mut dict = trained.weights;
    if common.half {
        train::round_to_half(&mut dict);
    }
    let net = InvertibleNet::new(&Candle, &dict)?;
    let coded: Vec<usize> = task.items.iter().copied().take(CODED).collect();
    let centres = class_centres(&net, data, &coded, RANGE)?;
    dict.insert("centres", centres);
    if common.half {
        train::round_to_half(&mut dict);
    }
    let test = task.held_out(Split::Test, |_| true);
    let mut found = Vec::new();
    if !test.is_empty() {
        found = measured(&net, data, &test)?;
    }
    task.finish(&Finished {
        architecture: Architecture::Invertible,
        dict,
        cost: trained.cost,
        found,
        labels: data.names_of(classes),
        range: RANGE,
        grey: true,
        further: "role = \"invertible\"\n".into(),
    })
}

/// What the network makes of held-out images.
fn measured(
    net: &InvertibleNet<Candle>,
    data: &Data,
    items: &[usize],
) -> Result<Vec<(String, f64)>> {
    let (mut right, mut nats, mut off) = (0usize, 0.0f64, 0.0f32);
    for part in items.chunks(64) {
        let clean = data.grey_batch(part, RANGE);
        let first = part.first().copied().unwrap_or(0) as u64;
        let noisy = dequantised(&clean, u64::MAX, first);
        let latent = net.forward(&Candle, &noisy)?;
        let loss = InformationBottleneck {
            beta: 0.0,
            smoothing: 0.0,
        };
        let labels: Vec<usize> = part.iter().map(|&i| data.rows[i].label).collect();
        let each = loss.loss(net, &latent, &labels)?.to_scalar::<f32>()?;
        nats += 0.5 * f64::from(each) * part.len() as f64;
        let plain = net.forward(&Candle, &clean)?;
        let densities = net.log_densities(&plain.z)?.to_vec2::<f32>()?;
        let best = densities.iter().map(|row| argmax(row)).zip(&labels);
        right += best.filter(|(best, label)| best == *label).count();
        let back = net.inverse(&Candle, &plain.z, data.size, data.size)?;
        let differences = back.data.iter().zip(&clean.data);
        off = differences.fold(off, |most, (a, b)| most.max((a - b).abs()));
    }
    let n = items.len().max(1) as f64;
    // The constant of the normal density, and a grey level is 2/256 of the range from −1 to 1.
    let constant = 0.5 * (2.0 * std::f64::consts::PI).ln() + 128f64.ln();
    let bits = (nats / n + constant) / std::f64::consts::LN_2;
    Ok(vec![
        ("test label".into(), right as f64 / n),
        ("test bits per value".into(), bits),
        ("error of the inverse".into(), f64::from(off)),
    ])
}
