//! The small CNN that the study of quantitative evaluations explains, and its judges.

use anyhow::Result;
use clap::{Args, ValueEnum};

use super::{CommonArgs, Finished, Task};
use crate::metrics::validity::argmax;
use crate::nets::{Architecture, Classifier, MnistCnn};
use crate::tensor::{Backend, StateDict, cpu::Cpu};
use crate::train::{self, Data, Row, Split, losses::cross_entropy};

/// Of the pixels a network sees.
pub const RANGE: [f32; 2] = [-0.5, 0.5];

#[derive(Args)]
pub struct CnnArgs {
    #[command(flatten)]
    common: CommonArgs,
    /// What to learn
    #[arg(long, value_enum, default_value = "label")]
    target: TargetName,
    /// Filters of the two convolutions and width of the linear layer; the paper has 32,64,256
    #[arg(long, value_name = "A,B,C", default_value = "16,32,64", value_delimiter = ',', num_args = 1,
          value_parser = clap::value_parser!(u16).range(1..=4096))]
    widths: Vec<u16>,
}

#[derive(Clone, Copy, ValueEnum, PartialEq, Eq, Debug)]
enum TargetName {
    Label,
    Character,
}

impl TargetName {
    fn of(self, row: &Row) -> usize {
        match self {
            TargetName::Label => row.label,
            TargetName::Character => row.character,
        }
    }
}

pub fn run(args: &CnnArgs) -> Result<()> {
    let common = &args.common;
    let task = Task::new("cnn", common, 1000, |_| true)?;
    let data = &task.data;
    data.expect_grey()?;
    if data.labels_only && args.target == TargetName::Character {
        let why = "--target character: of these images only labels are known; leave it out";
        return Err(super::UsageError(why.into()).into());
    }
    let &[first, second, dense] = &args.widths[..] else {
        let why = "--widths: expected three numbers, such as 16,32,64";
        return Err(super::UsageError(why.into()).into());
    };
    let classes = super::classes(data, &task.items, |row| args.target.of(row))?;
    let widths = [first, second, dense].map(usize::from);
    let options = [
        ("target", format!("{:?}", args.target).to_lowercase()),
        ("widths", format!("{widths:?}")),
    ];
    let trained = task.train(
        &task.plan(None, &options),
        train::mnist_cnn(common.seed, 1, data.size, widths, classes),
        |training, dict| Ok(MnistCnn::new(training, dict)?),
        |training, net, chosen, _| {
            let x = training.upload(&data.grey_batch(chosen, RANGE))?;
            let labels: Vec<usize> = { chosen.iter() }
                .map(|&i| args.target.of(&data.rows[i]))
                .collect();
            cross_entropy(net.predict(training, &x)?.logits.candle(), &labels)
        },
    )?;
    let mut dict = trained.weights;
    if common.half {
        train::round_to_half(&mut dict);
    }
    let mut found = Vec::new();
    for (name, split) in [("validation", Split::Validation), ("test", Split::Test)] {
        let items = task.held_out(split, |_| true);
        if !items.is_empty() {
            let name = format!("{name} {}", options[0].1);
            found.push((name, right(&dict, data, &items, args.target)?));
        }
    }
    task.finish(&Finished {
        architecture: Architecture::MnistCnn,
        dict,
        cost: trained.cost,
        found,
        labels: match args.target {
            TargetName::Label => data.names_of(classes),
            TargetName::Character => (0..classes).map(|c| c.to_string()).collect(),
        },
        range: RANGE,
        grey: true,
        further: String::new(),
    })
}

/// Share of images that are put into their class.
fn right(dict: &StateDict, data: &Data, items: &[usize], target: TargetName) -> Result<f64> {
    let net = MnistCnn::new(&Cpu, dict)?;
    let mut right = 0;
    for part in items.chunks(64) {
        let x = Cpu.upload(&data.grey_batch(part, RANGE))?;
        let logits = Cpu.download(&net.predict(&Cpu, &x)?.logits)?;
        let rows = part.iter().enumerate();
        right += rows
            .filter(|(k, item)| argmax(logits.row(*k)) == target.of(&data.rows[**item]))
            .count();
    }
    Ok(right as f64 / items.len().max(1) as f64)
}
