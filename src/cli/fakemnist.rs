//! `foil fakemnist`: the data set whose label is a dot.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;

use super::{UsageError, print};
use crate::images::{self, Idx, IdxError};
use crate::score::write_atomically;
use crate::study::quantitative::{FakeSet, fake_mnist};

/// Builds FakeMNIST from MNIST's IDX files: digits whose label is the row of a white dot in the first column.
#[derive(Args)]
pub struct FakeMnistArgs {
    /// Folder of MNIST's four files (train-images-idx3-ubyte, …), plain or .gz.
    #[arg(long, value_name = "DIR")]
    mnist: PathBuf,
    /// Folder for the same four files of FakeMNIST, and the digit and source of each image.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Lower twenty grey levels by one, as the published arrays have them.
    #[arg(long)]
    published_grey_levels: bool,
    /// Replace files of an earlier call in --out.
    #[arg(long)]
    force: bool,
}

pub fn run(args: &FakeMnistArgs) -> anyhow::Result<()> {
    let mut sets = Vec::new();
    for part in images::MNIST_PARTS {
        let (images, labels) = images::read_mnist(&args.mnist, part).map_err(|e| match e {
            IdxError::Absent { .. } => UsageError(format!("--mnist {e}")).into(),
            other => anyhow::Error::from(other),
        })?;
        sets.push((part, images, labels));
    }
    let made = fake_mnist(&sets[0].1, &sets[1].1, args.published_grey_levels);
    let made =
        made.map_err(|why| UsageError(format!("--mnist {}: {why}", args.mnist.display())))?;
    let real = |path: &Path| std::fs::canonicalize(path).ok();
    if real(&args.out).is_some_and(|out| real(&args.mnist) == Some(out)) {
        let why =
            "--out: it is the folder of --mnist, whose files have the same names; name another";
        return Err(UsageError(why.into()).into());
    }
    let names = ["train", "t10k"].map(|part| args.out.join(format!("{part}-images-idx3-ubyte")));
    if let Some(there) = names.iter().find(|path| path.exists())
        && !args.force
    {
        let why = "is there: name another --out, or replace it with --force";
        return Err(UsageError(format!("{} {why}", there.display())).into());
    }
    std::fs::create_dir_all(&args.out)
        .with_context(|| format!("--out {}: cannot make the folder", args.out.display()))?;
    let mut counts = Vec::new();
    for ((part, _, digits), set) in sets.iter().zip(&made) {
        write_set(&args.out, part, digits, set)?;
        counts.push(format!("{} {part} images", set.labels.len()));
    }
    print(&format!(
        "{} in {}\n",
        counts.join(" and "),
        args.out.display()
    ))
}

fn write_set(out: &Path, part: &str, digits: &Idx, set: &FakeSet) -> anyhow::Result<()> {
    let vector = |values: Vec<u8>| Idx {
        shape: vec![values.len()],
        values,
    };
    let digit = set.source.iter().map(|&i| digits.values[i]).collect();
    for (name, idx) in [
        ("images-idx3-ubyte", &set.images),
        ("labels-idx1-ubyte", &vector(set.labels.clone())),
        ("digits-idx1-ubyte", &vector(digit)),
    ] {
        let path = out.join(format!("{part}-{name}"));
        write_atomically(&path, &idx.to_bytes())
            .with_context(|| format!("{}: cannot write", path.display()))?;
    }
    let mut sources = String::from("index,source\n");
    for (i, source) in set.source.iter().enumerate() {
        sources.push_str(&format!("{i},{source}\n"));
    }
    let path = out.join(format!("{part}-sources.csv"));
    write_atomically(&path, sources.as_bytes())
        .with_context(|| format!("{}: cannot write", path.display()))
}
