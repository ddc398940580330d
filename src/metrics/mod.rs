//! One file per metric: pure functions from features, logits or pixels to scores.
//!
//! Features are row-major `f32` ([`Matrix`]); every sum is taken in `f64`. No result depends on the
//! number of threads: work is cut into pieces of a fixed size whose results are joined in a fixed order.

pub mod committee;
mod covariance_factor;
mod device;
mod error;
pub mod fid;
pub mod fid_bootstrap;
pub mod hvilshoj;
pub mod inception_features;
pub mod inception_score;
pub mod interpretability;
pub mod jensen_shannon;
pub mod kernel_matrices;
pub mod kernel_sums;
pub mod kid;
pub mod latent;
pub mod linear_algebra;
pub mod lp;
pub mod lpips;
mod matrix;
pub mod moments;
mod on_gpu;
pub mod orthogonal_set;
pub mod prdc;
pub mod published;
mod squared_distance;
pub mod tabular;
pub mod validity;
pub mod votes;

pub use device::{JudgeLogits, MetricBackend, Opinions, RunningMoments};
pub use error::{MetricError, Result};
pub use matrix::Matrix;
