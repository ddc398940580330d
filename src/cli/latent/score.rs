//! `foil latent score`.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use serde_json::Value;

use super::{WorldArgs, check_out, usage};
use crate::cli::{UsageError, print};
use crate::explain::latent::{World, read_latents};
use crate::folder::write_whole;
use crate::metrics::MetricBackend;
use crate::metrics::latent::exact::ExactScores;
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
    /// Score latents in this world although their file says that they were made in another one
    #[arg(long)]
    other_world: bool,
    /// Also write what each counterfactual is: flips, proximity, its place in the sample's set
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &ScoreArgs) -> anyhow::Result<()> {
    let file = read_latents(&args.latents).context("--latents")?;
    if let Some(out) = &args.csv {
        check_out("--csv", out)?;
    }
    let opened = args.world.device.open(Precision::F32);
    let (_, opened, _) = opened.map_err(|e| UsageError(e.to_string()))?;
    let device = args.world.device(false)?;
    let mut world = args.world.open(&device)?;
    if !args.other_world {
        same_world(&file.about["world"], &world.identity, args)?;
    }
    world.take(file.index, file.z).map_err(usage)?;
    let logits = world.explained().logits(&file.z_cf)?;
    let scored = match opened {
        Opened::Cpu(cpu) => on(&cpu, &world, &file.z_cf, &logits)?,
        Opened::Gpu(gpu) => on(&gpu, &world, &file.z_cf, &logits)?,
    };
    if let Some(out) = &args.csv {
        write_whole(out, rows(&world, &scored.exact, file.n).as_bytes())?;
    }
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

/// Refuses a world that differs from the one in which latents were made by more than the device's arithmetic.
fn same_world(made: &Value, here: &Value, args: &ScoreArgs) -> anyhow::Result<()> {
    let (Value::Object(made), Value::Object(here)) = (made, here) else {
        return Ok(());
    };
    let names: BTreeSet<&String> = made.keys().chain(here.keys()).collect();
    let of = |world: &serde_json::Map<String, Value>, name: &String| {
        world
            .get(name)
            .map_or("nothing".to_owned(), Value::to_string)
    };
    let differ = |name: &&&String| ***name != "arithmetic" && made.get(**name) != here.get(**name);
    let differences: Vec<String> = { names.iter().filter(differ) }
        .map(|name| format!("{name} {} (here {})", of(made, name), of(here, name)))
        .collect();
    if differences.is_empty() {
        return Ok(());
    }
    Err(UsageError(format!(
        "--latents {}: made in another world: {}; name that world (--world, --spurious, --correlation, --validation, --variant), or score them in this one with --other-world",
        args.latents.display(),
        differences.join(", ")
    ))
    .into())
}

/// What each counterfactual is, as CSV.
fn rows(world: &World, exact: &ExactScores, n: usize) -> String {
    let mut text = String::from(
        "sample,index,counterfactual,proximal,classifier_flips,oracle_flips,successful,place_in_set\n",
    );
    for (i, flags) in exact.flags.iter().enumerate() {
        let (sample, k) = (i / n, i % n);
        let place = exact.selected[sample].iter().position(|&s| s == k);
        let bit = |b: bool| u8::from(b);
        let _ = writeln!(
            text,
            "{sample},{},{k},{},{},{},{},{}",
            world.samples.index[sample],
            bit(flags.proximal),
            bit(flags.estimator),
            bit(flags.causal),
            bit(flags.successful()),
            place.map_or(String::new(), |p| (p + 1).to_string())
        );
    }
    text
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
