//! FID, KID, Inception Score and precision/recall/density/coverage of feature arrays.

use anyhow::bail;
use clap::Args;
use serde_json::json;

use super::{Common, Found};
use crate::metrics::kernel_sums::PolynomialKernel;
use crate::metrics::kid::{RandomSubsets, Subset, kid_bootstrap, kid_full, kid_subsets};
use crate::metrics::prdc::Rim;
use crate::metrics::{Matrix, MetricBackend, inception_score};
use crate::score::{Score, Settings, realism};
use crate::stats::interval::{Bootstrap, mean_interval};
use crate::tensor::{Array, TypedArrays};

/// Options of the kernel distance.
#[derive(Args)]
pub struct KidArgs {
    #[command(flatten)]
    common: Common,
    /// Number of random subsets.
    #[arg(long, default_value_t = 100)]
    subsets: usize,
    /// Size of a subset; default: the smaller set, at most 1000.
    #[arg(long)]
    subset_size: Option<usize>,
    /// One block over both whole sets instead of subsets.
    #[arg(long)]
    full: bool,
    #[arg(long, default_value_t = 3)]
    degree: u32,
    /// Default: 1/d.
    #[arg(long)]
    gamma: Option<f64>,
    #[arg(long, default_value_t = 1.0)]
    coef: f64,
    #[arg(long, default_value_t = 0)]
    seed: u64,
    #[arg(long, default_value_t = 200)]
    bootstrap: usize,
}

fn matrix<'a>(name: &str, array: &'a Array) -> anyhow::Result<Matrix<'a>> {
    Ok(Matrix::new(
        name,
        array.shape[0],
        array.shape[1],
        &array.data,
    )?)
}

fn sets(arrays: &TypedArrays) -> anyhow::Result<(Array, Array)> {
    Ok((
        arrays.f32_of_rank("real", 2)?,
        arrays.f32_of_rank("fake", 2)?,
    ))
}

pub fn fid<B: MetricBackend>(
    backend: &B,
    arrays: &TypedArrays,
    seed: u64,
    bootstrap: usize,
) -> anyhow::Result<Found> {
    let (real, fake) = sets(arrays)?;
    let (real, fake) = (matrix("real", &real)?, matrix("fake", &fake)?);
    let settings = Settings {
        seed,
        bootstrap,
        ..Settings::default()
    };
    let distance = backend.frechet(real, fake)?;
    let score = realism::fid_with_interval(&distance, real, fake, &settings)?;
    let mut found = Found::default();
    found.score("fid", &score);
    found.add("terms", serde_json::to_value(&distance)?);
    Ok(found)
}

pub fn kid(args: &KidArgs) -> anyhow::Result<Found> {
    let arrays = args.common.arrays()?;
    let (real, fake) = sets(&arrays)?;
    let (real, fake) = (matrix("real", &real)?, matrix("fake", &fake)?);
    let kernel = PolynomialKernel {
        degree: args.degree,
        gamma: args.gamma,
        coef: args.coef,
    };
    let distance = if args.full {
        kid_full(real, fake, &kernel)?
    } else if arrays.contains("real_indices") || arrays.contains("fake_indices") {
        kid_subsets(real, fake, &kernel, &given_subsets(&arrays)?)?
    } else {
        let subsets = RandomSubsets {
            count: args.subsets,
            size: args.subset_size,
            seed: args.seed,
        };
        let subsets = subsets.draw(real.rows(), fake.rows())?;
        kid_subsets(real, fake, &kernel, &subsets)?
    };
    let plan = Bootstrap {
        replicates: args.bootstrap,
        seed: args.seed,
    };
    let (interval, note) = match args.bootstrap {
        0 => (None, None),
        _ => kid_bootstrap(real, fake, &kernel, plan)?,
    };
    let score = Score {
        value: Some(distance.mean),
        n: fake.rows(),
        std: Some(distance.std_population),
        ..Score::default()
    };
    let mut found = Found::default();
    let centred = interval.map(|b| b.centred);
    found.score("kid", &score.with_interval(centred).noted(note));
    found.add("per_subset", json!(distance.per_subset));
    Ok(found)
}

fn given_subsets(arrays: &TypedArrays) -> anyhow::Result<Vec<Subset>> {
    let rows = |name: &str| -> anyhow::Result<Vec<Vec<usize>>> {
        let shape = arrays.get(name)?.shape.clone();
        let [_, size] = shape[..] else {
            bail!(arrays.unexpected(name, "[subsets, size]", format!("{shape:?}")));
        };
        let values = arrays.i64(name)?;
        let indices = values
            .iter()
            .map(|&i| usize::try_from(i))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|_| arrays.unexpected(name, "row indices from 0", "a negative one".into()))?;
        Ok(indices.chunks(size.max(1)).map(<[usize]>::to_vec).collect())
    };
    let (real, fake) = (rows("real_indices")?, rows("fake_indices")?);
    if real.len() != fake.len() {
        let expected = format!("{} subsets, as in real_indices", real.len());
        bail!(arrays.unexpected("fake_indices", &expected, format!("{}", fake.len())));
    }
    Ok(real
        .into_iter()
        .zip(fake)
        .map(|(real, fake)| Subset { real, fake })
        .collect())
}

pub fn inception(arrays: &TypedArrays, splits: usize, seed: u64) -> anyhow::Result<Found> {
    let logits = arrays.f32_of_rank("logits", 2)?;
    let logits = matrix("logits", &logits)?;
    let mut found = Found::default();
    // A stored order of the rows takes the place of the random one.
    if arrays.contains("permutation") {
        let order: Vec<usize> = arrays
            .i64("permutation")?
            .into_iter()
            .map(|i| usize::try_from(i).unwrap_or(usize::MAX))
            .collect();
        let order = inception_score::Order::Given(&order);
        let result = inception_score::inception_score(logits, splits, order)?;
        let score = Score {
            value: Some(result.mean),
            n: logits.rows(),
            std: result.std_sample,
            ..Score::default()
        };
        let interval = mean_interval(&result.per_chunk).and_then(|m| m.interval());
        found.score("inception_score", &score.with_interval(interval));
        found.add("per_chunk", json!(result.per_chunk));
        return Ok(found);
    }
    let settings = Settings {
        splits,
        seed,
        ..Settings::default()
    };
    found.score("inception_score", &realism::is_score(logits, &settings)?);
    Ok(found)
}

pub fn prdc(arrays: &TypedArrays, neighbours: usize, inclusive: bool) -> anyhow::Result<Found> {
    let (real, fake) = sets(arrays)?;
    let (real, fake) = (matrix("real", &real)?, matrix("fake", &fake)?);
    let settings = Settings {
        neighbours,
        ..Settings::default()
    };
    let rim = if inclusive {
        Rim::Inclusive
    } else {
        Rim::Strict
    };
    let mut found = Found::default();
    for (name, score) in realism::prdc_scores(real, fake, &settings, rim)? {
        found.score(name, &score);
    }
    found.add("neighbours", json!(neighbours));
    Ok(found)
}
