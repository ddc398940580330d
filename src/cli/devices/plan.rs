//! `foil devices --plan`: what a network asks of a GPU, kernel by kernel.

use anyhow::Context;
use serde_json::json;

use crate::metrics::inception_features::InceptionFeatures;
use crate::metrics::lpips::{Lpips, LpipsNet};
use crate::nets::{self, Architecture, Autoencoder, FidTap, NetError, Unet, UnetConfig};
use crate::tensor::plan::{Cost, Costs, PEAKS, Plan};
use crate::tensor::{Backend, Kept, Resize, Shape, StateDict};
use crate::weights::{Card, Registry, ResizeTo, Role, lpips_from_dict};

/// Side of the images that LPIPS and FID are planned for.
const SIDE: usize = 256;

pub fn run(network: &str, batch: usize, json: bool) -> anyhow::Result<()> {
    let Planned { costs, side, unit } = planned(network, batch)?;
    let mut total = Cost::default();
    for cost in costs.values() {
        total.launches += cost.launches;
        total.invocations += cost.invocations;
        total.flops += cost.flops;
        total.bytes += cost.bytes;
    }
    // A sum of roofs, kernel by kernel: they run one after another.
    let seconds = PEAKS.map(|peak| costs.values().map(|c| peak.seconds(c)).sum::<f64>());
    let images = batch as f64;
    if json {
        let kernels: Vec<_> = costs
            .iter()
            .map(|((file, entry), c)| {
                json!({
                    "kernel": format!("{file} {entry}"),
                    "launches": c.launches,
                    "invocations": c.invocations,
                    "flops": c.flops,
                    "bytes": c.bytes,
                    "seconds_at_least": PEAKS.map(|p| json!({"device": p.name, "seconds": p.seconds(c)})),
                })
            })
            .collect();
        let devices = PEAKS.iter().zip(seconds);
        let devices: Vec<_> = devices
            .map(|(peak, s)| {
                json!({"device": peak.name, "flops_per_second": peak.flops, "bytes_per_second": peak.bytes, "seconds_at_least": s})
            })
            .collect();
        let found = json!({
            "network": network,
            "batch": batch,
            "unit": unit,
            "side": side,
            "kernels": kernels,
            "flops": total.flops,
            "bytes": total.bytes,
            "devices": devices,
        });
        return crate::cli::print(&format!("{}\n", serde_json::to_string_pretty(&found)?));
    }
    let mut text = format!(
        "{network}, {batch} {unit}{} of {side}x{side} at once; per {unit}:\n{:<22} {:>8} {:>10} {:>10} {:>14}\n",
        if batch == 1 { "" } else { "s" },
        "kernel",
        "launches",
        "MFLOP",
        "MB",
        "A100 at least"
    );
    let line = |name: &str, cost: &Cost, seconds: f64| {
        format!(
            "{name:<22} {:>8} {:>10.2} {:>10.3} {:>11.2} µs\n",
            cost.launches,
            cost.flops / images / 1e6,
            cost.bytes / images / 1e6,
            seconds / images * 1e6,
        )
    };
    for ((file, entry), cost) in &costs {
        text += &line(&format!("{file} {entry}"), cost, PEAKS[0].seconds(cost));
    }
    text += &line("all", &total, seconds[0]);
    for (peak, s) in PEAKS.iter().zip(seconds) {
        text += &format!(
            "{}: {:.0} {unit}s/s at most ({:.1} TFLOP/s, {:.0} GB/s)\n",
            peak.name,
            images / s,
            peak.flops / 1e12,
            peak.bytes / 1e9
        );
    }
    crate::cli::print(&text)
}

/// The tensors of a network. Those of a published one have known shapes, which is all that a plan needs: its weights need
/// not be here. Others, and those that are part of a network or of the program, are read.
fn tensors(registry: &Registry, card: &Card) -> anyhow::Result<StateDict> {
    let published = !card.embedded && (card.labels.is_empty() || card.labels.len() == 1000);
    match nets::layout(card.architecture) {
        Some(layout) if published => Ok(layout),
        _ => Ok(registry.load(card)?.dict),
    }
}

/// Costs of a batch, the side of its images, and what a batch counts.
struct Planned {
    costs: Costs,
    side: usize,
    unit: &'static str,
}

fn planned(network: &str, batch: usize) -> anyhow::Result<Planned> {
    let plan = Plan::default();
    let registry = Registry::open()?;
    let pixels = |side: usize| {
        let image = vec![0u8; side * side * 3];
        plan.upload_pixels(&vec![&image[..]; batch], side, side)
    };
    if let Some(net) = lpips(&registry, network) {
        let backbone = nets::layout(match net {
            LpipsNet::Alex => Architecture::AlexNet,
            LpipsNet::Vgg => Architecture::Vgg16,
            LpipsNet::Squeeze => Architecture::SqueezeNet,
        });
        let weights = lpips_from_dict(net.name(), backbone.unwrap_or_default())?;
        let lpips = Lpips::new(&plan, net, &weights.backbone, weights.heads)?;
        let sides = [(), ()].map(|()| {
            let x = pixels(SIDE)?;
            lpips.features(&plan, &x, 1.0 / 127.5, -1.0)
        });
        let [a, b] = sides;
        lpips.distances(&plan, &a?, &b?)?;
        return Ok(Planned {
            costs: plan.costs(),
            side: SIDE,
            unit: "pair",
        });
    }
    let card = registry.card(network)?;
    if card.role == Role::Invertible {
        anyhow::bail!(
            "{network} needs gradients and runs on the CPU or, with the feature cuda, on candle's kernels; there is no plan of it"
        );
    }
    let dict = tensors(&registry, &card)?;
    if card.role == Role::FidFeatures {
        let tap = match FidTap::ALL
            .into_iter()
            .rev()
            .find(|tap| InceptionFeatures::new(&plan, &dict, *tap, Resize::Tf1).is_ok())
        {
            Some(tap) => tap,
            None => anyhow::bail!("{network} holds no layers of the FID Inception"),
        };
        let net = InceptionFeatures::new(&plan, &dict, tap, Resize::Tf1)?;
        net.extract(&plan, &pixels(SIDE)?)?;
        return Ok(Planned {
            costs: plan.costs(),
            side: SIDE,
            unit: "image",
        });
    }
    let side = match (&card.preprocessing.crop, &card.preprocessing.resize) {
        (Some([side, _]), _) => *side,
        (None, Some(resize)) => match resize.size {
            ResizeTo::ShorterSide(side) | ResizeTo::Exact([side, _]) => side,
        },
        (None, None) => 224,
    };
    let order = card.preprocessing.channel_order();
    let x = plan.affine(
        &pixels(side)?,
        order,
        &vec![1.0; order.len()],
        &vec![0.0; order.len()],
    )?;
    run_on(&plan, &card, &dict, &x).with_context(|| network.to_owned())?;
    Ok(Planned {
        costs: plan.costs(),
        side,
        unit: "image",
    })
}

/// What a network does once, by its role.
fn run_on(plan: &Plan, card: &Card, dict: &StateDict, x: &Shape) -> Result<(), NetError> {
    match card.role {
        Role::Denoiser => {
            // Inference keeps f32.
            let config = UnetConfig {
                torso: Kept::F32,
                ..card.denoiser.clone()
            };
            let steps = vec![0.0; x.n];
            Unet::new(plan, dict, config)?.predict(plan, x, &steps, None)?;
        }
        Role::Autoencoder => {
            Autoencoder::new(plan, dict)?.reconstruct(plan, x)?;
        }
        _ => {
            let net = nets::build(card.architecture, plan, dict, &card.unet)?;
            net.predict(plan, x)?;
        }
    }
    Ok(())
}

/// The LPIPS network that a name of `lpips_*` or of a backbone with its heads stands for.
fn lpips(registry: &Registry, network: &str) -> Option<LpipsNet> {
    let named = network.strip_prefix("lpips_").and_then(|n| n.parse().ok());
    named.or_else(|| {
        let card = registry.card(network).ok()?;
        let heads = (card.role == Role::LpipsBackbone).then_some(card.heads)?;
        heads?.parse().ok()
    })
}
