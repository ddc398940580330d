//! `foil latent explain`.

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;

use super::{WorldArgs, check_out, usage};
use crate::cli::print;
use crate::cli::progress::Bar;
use crate::explain::latent::{LatentFile, Method, explain_all, write_latents};
use crate::shell;

#[derive(Args)]
pub struct ExplainArgs {
    /// The method: is, dice, dive, gs, stylex, latent-cf or xgem
    #[arg(long, value_name = "NAME")]
    explainer: String,
    #[command(flatten)]
    world: WorldArgs,
    /// Counterfactuals of each sample
    #[arg(long, value_name = "N", default_value_t = 10)]
    n: usize,
    /// Samples of each of the eight levels of confidence
    #[arg(long, value_name = "N", default_value_t = 100)]
    samples: usize,
    /// Seed of the explainer's random numbers
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// A setting of the method other than the paper's, such as iterations=20; may be given several times
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    set: Vec<(String, String)>,
    /// The file to write: z [samples, 11] and z_cf [samples, n, 11]
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Print JSON: counts, seconds of explaining, share of flips
    #[arg(long)]
    json: bool,
}

fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.into(), value.into())),
        _ => Err("expected KEY=VALUE, such as iterations=20".into()),
    }
}

pub fn run(args: &ExplainArgs) -> anyhow::Result<()> {
    let variant = args.world.variant();
    let method = Method::new(&args.explainer, variant, &args.set).map_err(usage)?;
    check_out("--out", &args.out)?;
    let device = args.world.device(true)?;
    let world = args.world.chosen(&device, args.samples)?;
    let mut bar = Bar::new(args.world.quiet);
    let started = Instant::now();
    let explainer = method.build(&world).map_err(usage)?;
    let prepared = started.elapsed().as_secs_f64();
    let made = explain_all(
        &world,
        explainer.as_ref(),
        args.n,
        args.seed,
        &mut |done, all| {
            bar.update("samples", done, all);
        },
    );
    bar.finish();
    let made = made.map_err(usage)?;
    let seconds = prepared + made.seconds;
    let flips = { made.logits_cf.iter().enumerate() }.filter(|(i, logits)| {
        let class = crate::metrics::latent::class;
        class(**logits) != class(world.samples.logits[i / args.n])
    });
    let flips = flips.count() as f64 / made.logits_cf.len().max(1) as f64;
    let about = serde_json::json!({
        "explainer": method, "world": world.identity, "seed": args.seed, "version": env!("CARGO_PKG_VERSION"),
    });
    let count = made.z_cf.len();
    let file = LatentFile {
        z: world.samples.z.clone(),
        z_cf: made.z_cf,
        n: args.n,
        index: world.samples.index.clone(),
        about,
    };
    write_latents(&args.out, &file)?;
    if args.json {
        let all = serde_json::json!({
            "schema": "foil.latent-explain/1",
            "foil": env!("CARGO_PKG_VERSION"),
            "world": world.identity,
            "method": method,
            "seed": args.seed,
            "samples": file.z.len(),
            "levels": world.samples.levels,
            "explanations": count,
            "seconds": seconds,
            "flips": flips,
            "out": args.out,
        });
        return print(&format!("{}\n", serde_json::to_string_pretty(&all)?));
    }
    print(&format!(
        "{count} counterfactuals of {} samples by {} in {seconds:.3} s ({:.0} per second); the classifier changes its mind about {:.1} %\n{} holds them; foil latent score {} --latents {} scores them\n",
        file.z.len(),
        Method::title(method.name()),
        count as f64 / seconds.max(1e-9),
        100.0 * flips,
        args.out.display(),
        args.world.words(),
        shell::word(&args.out.display().to_string())
    ))
}
