//! `foil devices`.

use clap::Args;

use crate::tensor::devices;

/// Lists devices.
#[derive(Args)]
pub struct DevicesArgs {
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub fn run(args: &DevicesArgs) -> anyhow::Result<()> {
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
