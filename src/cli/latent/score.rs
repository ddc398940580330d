//! `foil latent score`.

use std::fmt::Write;
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;

use super::{WorldArgs, usage};
use crate::cli::{UsageError, print};
use crate::explain::latent::{World, read_latents};
use crate::metrics::MetricBackend;
use crate::report::table::aligned;
use crate::study::latent::scoring::{Numbers, Scored, score};
use crate::tensor::{Opened, Precision};

#[derive(Args)]
pub struct ScoreArgs {
    #[command(flatten)]
    world: WorldArgs,
    /// A safetensors file with z [samples, 11], standardised as the world says, and z_cf [samples, n, 11]
    #[arg(long, value_name = "FILE")]
    latents: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &ScoreArgs) -> anyhow::Result<()> {
    let file = read_latents(&args.latents)
        .with_context(|| format!("--latents {}", args.latents.display()))?;
    let opened = args.world.device.open(Precision::F32);
    let (_, opened, _) = opened.map_err(|e| UsageError(e.to_string()))?;
    let device = args.world.device(false)?;
    let mut world = args.world.open(&device)?;
    world.take(file.index, file.z).map_err(usage)?;
    let logits = world.explained().logits(&file.z_cf)?;
    let scored = match opened {
        Opened::Cpu(cpu) => on(&cpu, &world, &file.z_cf, &logits)?,
        Opened::Gpu(gpu) => on(&gpu, &world, &file.z_cf, &logits)?,
    };
    if args.json {
        let all = serde_json::json!({
            "schema": "foil.latent/1",
            "foil": env!("CARGO_PKG_VERSION"),
            "world": world.identity,
            "n": file.n,
            "exact": scored.exact,
            "as_released": scored.as_released,
            "profile": scored.profile,
        });
        return print(&format!("{}\n", serde_json::to_string_pretty(&all)?));
    }
    print(&text(&world, &scored))
}

fn on<B: MetricBackend>(
    backend: &B,
    world: &World,
    z_cf: &[crate::explain::latent::Latent],
    logits: &[[f32; 2]],
) -> anyhow::Result<Scored> {
    Ok(score(backend, world, z_cf, logits)?)
}

fn text(world: &World, scored: &Scored) -> String {
    let exact = &scored.exact;
    let mut text = format!(
        "{} counterfactuals of {} samples in the world {}; {:.1} % are proximal\n\n",
        exact.explanations,
        exact.samples,
        world.name,
        100.0 * exact.proximal
    );
    let readings: [Numbers; 2] = [exact.into(), (&scored.as_released).into()];
    let mut rows = vec![vec!["".to_owned(), "exact".into(), "as released".into()]];
    for (name, number, share) in [
        (
            "S#",
            (|n: &Numbers| n.cardinality) as fn(&Numbers) -> f64,
            false,
        ),
        ("EF %", |n| n.estimator_flip, true),
        ("SCE %", |n| n.successful, true),
        ("NCF % of SCE", |n| n.non_causal_flip, true),
        ("CF % of SCE", |n| n.causal_flip, true),
        ("trivial %", |n| n.trivial, true),
    ] {
        let shown = readings.map(|r| match share {
            true => format!("{:.2}", 100.0 * number(&r)),
            false => format!("{:.3}", number(&r)),
        });
        rows.push([vec![name.to_owned()], shown.to_vec()].concat());
    }
    text.push_str(&aligned(&rows));
    text.push_str("\nmean change of attributes, in standard deviations\n");
    let profile: Vec<Vec<String>> = { scored.profile.iter() }
        .map(|c| vec![c.attribute.to_owned(), format!("{:.3}", c.change)])
        .collect();
    let _ = write!(text, "{}", aligned(&profile));
    text.push_str(
        "\nS#: mean size of the sets of orthogonal and complementary successful counterfactuals; EF: flips of the classifier; NCF: only the \
         classifier flips; CF: only the causal oracle; SCE = NCF or CF; trivial: both flip. as released is the package's arithmetic, which can be gamed.\n",
    );
    text
}
