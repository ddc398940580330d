//! `foil weights`: which networks there are, where their weights lie, and whether they work.

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use serde_json::json;

use crate::weights::{Card, Location, Places, Registry};

/// Networks and their weights.
#[derive(Clone, Debug, Args)]
pub struct WeightsArgs {
    #[command(subcommand)]
    pub command: WeightsCommand,
}

#[derive(Clone, Debug, Subcommand)]
pub enum WeightsCommand {
    /// List the known networks and where their weights are
    List(ListArgs),
    /// Check checksums and run each network once on the CPU
    Verify(VerifyArgs),
    /// Find or download the weights of a network and print where they are
    Get(GetArgs),
    /// Bring a file of weights into foil's store under the name of a network
    Import(ImportArgs),
}

#[derive(Clone, Debug, Args)]
pub struct ListArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Debug, Args)]
pub struct VerifyArgs {
    /// Networks or model cards (.toml) [default: all that are on this machine]
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
}

#[derive(Clone, Debug, Args)]
pub struct GetArgs {
    /// A network, or the path of a model card (.toml)
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Do not use the network
    #[arg(long)]
    pub offline: bool,
}

#[derive(Clone, Debug, Args)]
pub struct ImportArgs {
    /// Weights: .safetensors, .pth, .pt, TorchScript, .npz, .npy or a pickle of numpy arrays
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The network, or the path of a model card (.toml)
    #[arg(long = "as", value_name = "NAME")]
    pub name: String,
    /// Accept a file that is not the one published for this network
    #[arg(long)]
    pub unpublished: bool,
}

/// Runs `foil weights` with the places the environment names.
pub fn run(args: &WeightsArgs) -> Result<()> {
    let mut places = Places::from_env();
    if matches!(&args.command, WeightsCommand::Get(get) if get.offline) {
        places = places.offline();
    }
    run_with(args, &Registry::at(places)?, &mut io::stdout().lock())
}

/// The same with a given registry, printing to `out`.
pub fn run_with(args: &WeightsArgs, registry: &Registry, out: &mut impl Write) -> Result<()> {
    match &args.command {
        WeightsCommand::List(args) => list(args, registry, out),
        WeightsCommand::Verify(args) => verify(args, registry, out),
        WeightsCommand::Get(args) => get(args, registry, out),
        WeightsCommand::Import(args) => import(args, registry, out),
    }
}

/// In one or two words where the weights of a card are.
fn place(registry: &Registry, card: &Card) -> (&'static str, String) {
    match registry.find(card) {
        Ok(Some(location)) => {
            let word = match &location {
                Location::Embedded(_) => "embedded",
                Location::Imported(_, record) if !record.published => "imported (unpublished)",
                Location::Imported(..) => "imported",
                Location::File(_) => "file",
                Location::Hub(_) => "hub cache",
                Location::Untrained(_) => "untrained",
            };
            (word, location.to_string())
        }
        Ok(None) if card.hub.is_some() => ("on the hub", String::new()),
        Ok(None) => ("missing", String::new()),
        Err(error) => ("unusable", error.to_string()),
    }
}

fn list(args: &ListArgs, registry: &Registry, out: &mut impl Write) -> Result<()> {
    if args.json {
        let cards: Vec<_> = registry
            .cards()
            .map(|card| {
                let (found, location) = place(registry, card);
                json!({
                    "name": card.name,
                    "aliases": card.aliases,
                    "architecture": card.architecture.name(),
                    "role": card.role.name(),
                    "found": found,
                    "location": location,
                    "file": card.file,
                    "sha256": card.sha256,
                    "sha256_prefix": card.sha256_prefix,
                    "hub": card.hub,
                    "classes": card.labels.len(),
                    "preprocessing": card.preprocessing,
                    "licence": card.licence,
                    "origin": card.origin,
                    "notes": card.notes,
                })
            })
            .collect();
        writeln!(out, "{}", serde_json::to_string_pretty(&cards)?)?;
        return Ok(());
    }
    let mut rows = vec![["NAME", "ARCHITECTURE", "ROLE", "FOUND", "LICENCE"].map(str::to_owned)];
    rows.extend(registry.cards().map(|card| {
        [
            card.name.clone(),
            card.architecture.name().into(),
            card.role.name().into(),
            place(registry, card).0.into(),
            card.licence.clone(),
        ]
    }));
    let widths: Vec<usize> = (0..rows[0].len())
        .map(|column| {
            let lengths = rows.iter().map(|row| row[column].chars().count());
            lengths.max().unwrap_or(0)
        })
        .collect();
    for row in &rows {
        let cells: Vec<String> = row
            .iter()
            .zip(&widths)
            .map(|(cell, &width)| format!("{cell:width$}"))
            .collect();
        writeln!(out, "{}", cells.join("  ").trim_end())?;
    }
    Ok(())
}

fn verify(args: &VerifyArgs, registry: &Registry, out: &mut impl Write) -> Result<()> {
    let shipped = registry.verify_shipped()?;
    writeln!(out, "ok       {shipped} embedded files: sha256")?;
    let all = args.names.is_empty();
    let cards: Vec<Card> = if all {
        registry.cards().cloned().collect()
    } else {
        let cards = args.names.iter().map(|name| registry.card(name));
        cards.collect::<Result<_, _>>()?
    };
    let mut failed = Vec::new();
    for card in &cards {
        if all && matches!(registry.find(card), Ok(None)) {
            writeln!(out, "missing  {}", card.name)?;
            continue;
        }
        match registry.verify(card) {
            Ok(proof) => {
                let found = registry.find(card)?;
                let found = found.map_or(String::new(), |found| format!(" ({found})"));
                writeln!(out, "ok       {}: {proof}{found}", card.name)?;
            }
            Err(error) => {
                writeln!(out, "FAILED   {}: {error}", card.name)?;
                failed.push(card.name.as_str());
            }
        }
    }
    if !failed.is_empty() {
        bail!(
            "{} of {} networks failed: {}",
            failed.len(),
            cards.len(),
            failed.join(", ")
        );
    }
    Ok(())
}

fn get(args: &GetArgs, registry: &Registry, out: &mut impl Write) -> Result<()> {
    let location = registry.get(&registry.card(&args.name)?)?;
    writeln!(out, "{location}")?;
    Ok(())
}

fn import(args: &ImportArgs, registry: &Registry, out: &mut impl Write) -> Result<()> {
    let card = registry.card(&args.name)?;
    let done = registry
        .import(&args.file, &card, args.unpublished)
        .with_context(|| format!("cannot import {} as {}", args.file.display(), card.name))?;
    let what = if done.record.published {
        "the published file"
    } else {
        "not a published file"
    };
    writeln!(
        out,
        "imported {} as {} ({}, {what}, sha256 {})",
        args.file.display(),
        card.name,
        card.architecture,
        done.record.imported_sha256
    )?;
    if let Some(old) = &done.replaced {
        writeln!(
            out,
            "replaced the import of {} (sha256 {})",
            old.imported_file, old.imported_sha256
        )?;
    }
    writeln!(
        out,
        "wrote {} ({} tensors, runs: {}; sha256 {})",
        done.path.display(),
        done.tensors,
        done.proof,
        done.record.sha256
    )?;
    Ok(())
}
