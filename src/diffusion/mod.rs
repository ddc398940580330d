//! Denoising diffusion (Ho et al. 2020, Nichol & Dhariwal 2021): schedules, the arithmetic of a step, and sampling.
//!
//! Conventions are those of guided-diffusion: images from −1 to 1, a network that predicts the noise and, in as many
//! channels again, where the variance lies between its two bounds.

mod error;
mod process;
mod sample;
mod schedule;

pub use error::DiffusionError;
pub use process::{Moments, moments, noised, variational_bound};
pub use sample::{Sampling, sample};
pub use schedule::{Betas, Schedule, spaced};
