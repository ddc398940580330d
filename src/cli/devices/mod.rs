//! `foil devices`: what there is, how fast it is, what a network would cost.

mod plan;
mod probe;

use clap::Args;

use crate::tensor::{Device, devices};

/// Lists devices; measures one; says what a network costs on a GPU.
#[derive(Args)]
pub struct DevicesArgs {
    /// Measure how fast a device copies, multiplies and convolves (some seconds).
    #[arg(long)]
    probe: bool,

    /// The device to measure.
    #[arg(
        long,
        value_name = "D",
        default_value = "auto",
        conflicts_with = "plan"
    )]
    device: Device,

    /// Flops and bytes of every kernel for one image of a network (a name of `foil weights list`; lpips_* for a pair of
    /// images), and the time that GPUs need at least. Networks of LPIPS and FID and torchvision's need no weights for it.
    #[arg(long, value_name = "NETWORK", conflicts_with = "probe")]
    plan: Option<String>,

    /// Images at once, for --plan.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=4096))]
    batch: u32,

    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub fn run(args: &DevicesArgs) -> anyhow::Result<()> {
    if let Some(network) = &args.plan {
        return plan::run(network, args.batch as usize, args.json);
    }
    if args.probe {
        return probe::run(args.device, args.json);
    }
    let found = devices();
    if args.json {
        let list: Vec<_> = found
            .iter()
            .map(|d| {
                serde_json::json!({
                    "device": d.device.to_string(),
                    "available": d.available,
                    "description": d.description,
                })
            })
            .collect();
        return super::print(&format!("{}\n", serde_json::to_string_pretty(&list)?));
    }
    let mut text = String::new();
    for d in found {
        let state = if d.available { "available" } else { "absent" };
        text.push_str(&format!(
            "{:<8} {state:<10} {}\n",
            d.device.to_string(),
            d.description
        ));
    }
    super::print(&text)
}
