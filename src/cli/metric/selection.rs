//! Orthogonal and complementary sets.

use anyhow::bail;
use clap::Args;
use serde_json::json;

use super::{Common, Found, Where};
use crate::metrics::orthogonal_set::{Complement, OrthogonalSetParams, ZeroPerturbations};
use crate::metrics::{Matrix, MetricBackend};
use crate::score::Score;

/// Options of the selection.
#[derive(Args)]
pub struct OrthogonalSetArgs {
    #[command(flatten)]
    common: Common,
    /// Two perturbations are orthogonal if |cosine| < tau, complementary if cosine < tau - 1.
    #[arg(long)]
    tau: Option<f64>,
    /// Never admit a perturbation of length zero; the paper's listing gives it cosine 0 with everything.
    #[arg(long)]
    exclude_zeros: bool,
    /// Orthogonal or complementary to every member so far, as the paper's text says; its listing asks for any one.
    #[arg(long)]
    complement_all: bool,
    #[command(flatten)]
    pub place: Where,
}

pub fn run<B: MetricBackend>(backend: &B, args: &OrthogonalSetArgs) -> anyhow::Result<Found> {
    let arrays = args.common.arrays()?;
    let (original, perturbed) = (arrays.f32("original")?, arrays.f32("perturbed")?);
    let (b, n, d) = match (&original.shape[..], &perturbed.shape[..]) {
        (&[d], &[n, e]) if d == e => (1, n, d),
        (&[b, d], &[c, n, e]) if (b, d) == (c, e) => (b, n, d),
        (_, found) => bail!(arrays.unexpected(
            "perturbed",
            "[n, d] with original [d], or [b, n, d] with original [b, d]",
            format!("{found:?} with original {:?}", original.shape),
        )),
    };
    let mut params = OrthogonalSetParams::as_printed();
    if let Some(tau) = args.tau {
        params.tau = tau;
    }
    if args.exclude_zeros {
        params.zeros = ZeroPerturbations::Excluded;
    }
    if args.complement_all {
        params.complement = Complement::Each;
    }
    // What is timed is the selection: the threads are there before it, as they are in a program that selects more than once.
    rayon::broadcast(|_| ());
    let started = std::time::Instant::now();
    let sets = backend.orthogonal_sets(
        Matrix::new("original", b, d, &original.data)?,
        Matrix::new("perturbed", b * n, d, &perturbed.data)?,
        &params,
    )?;
    let seconds = started.elapsed().as_secs_f64();
    let sizes: Vec<f64> = sets.iter().map(|s| s.size() as f64).collect();
    let mut found = Found::default();
    found.score("orthogonal_set_size", &Score::mean(&sizes));
    found.add(
        "sizes",
        json!(sets.iter().map(|s| s.size()).collect::<Vec<_>>()),
    );
    found.add("tau", json!(params.tau));
    found.add("seconds", json!(seconds));
    found.add("sets", serde_json::to_value(&sets)?);
    Ok(found)
}
