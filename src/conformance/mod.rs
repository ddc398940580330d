//! Golden cases of the public implementations, run on this machine and this device.
//!
//! [`run`] takes a folder of the layout of `reference/vision`, `reference/weights`, `reference/bex`, `reference/diffusion`, `reference/hvilshoj`, `reference/attribution`, `reference/tabular` or
//! `tests/golden/nets` (any folder of that layout), runs every case it holds and reports for each: what, expected, got, error, tolerance, pass. Files
//! that are absent are listed and their cases skipped; a file, tensor, JSON field or case that nothing here knows how
//! to run is reported as unknown and fails the area. The command `foil conformance` and the golden tests both call it.

mod attribution;
mod bex;
mod builtin;
mod check;
mod data;
mod diffusion;
mod error;
mod folder;
mod hvilshoj;
mod json;
mod nets;
mod pictures;
mod real_weights;
mod report;
pub mod synthetic;
mod tabular;
mod tensors;
pub mod torch_random;
mod unet_settings;
mod vision;
mod weight_table;
mod weights;

pub use data::{Source, default_source};
pub use error::ConformanceError;
pub use report::{AreaReport, Case, GroupSummary};

use crate::metrics::MetricBackend;
use crate::tensor::candle::{Candle, Differentiable};
use check::Check;
use folder::Folder;

type Result<T> = std::result::Result<T, ConformanceError>;

/// The areas there are cases for.
pub const AREAS: [&str; 8] = [
    "vision",
    "weights",
    "nets",
    "bex",
    "diffusion",
    "hvilshoj",
    "attribution",
    "tabular",
];

/// Runs all cases of one area on a device.
pub fn run<B: MetricBackend + 'static>(
    area: &str,
    data: Source,
    backend: &B,
) -> Result<AreaReport> {
    run_on(area, data, backend, &Candle)
}

/// The same, with what needs gradients on a device that has them.
pub fn run_on<B: MetricBackend + 'static>(
    area: &str,
    data: Source,
    backend: &B,
    with_gradients: &impl Differentiable,
) -> Result<AreaReport> {
    let Some(area) = AREAS.into_iter().find(|a| *a == area) else {
        return Err(ConformanceError::UnknownArea(area.into()));
    };
    let folder = Folder::open(area, data)?;
    let mut check = Check::new(area, folder.describe());
    match area {
        "vision" => vision::run(backend, &folder, &mut check)?,
        "weights" => weights::run(backend, &folder, &mut check)?,
        "bex" => bex::run(backend, with_gradients, &folder, &mut check)?,
        "attribution" => attribution::run(&folder, &mut check)?,
        "hvilshoj" => hvilshoj::run(backend, &folder, &mut check)?,
        "tabular" => tabular::run(backend, &folder, &mut check)?,
        "diffusion" => diffusion::run(backend, with_gradients, &folder, &mut check)?,
        _ => nets::run(backend, &folder, &mut check)?,
    }
    folder.account_for_files(&mut check)?;
    Ok(check.finish())
}
