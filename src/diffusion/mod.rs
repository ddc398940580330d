//! Denoising diffusion (Ho et al. 2020, Nichol & Dhariwal 2021): schedules, the arithmetic of a step, sampling, and
//! guidance by classifiers.
//!
//! Conventions are those of guided-diffusion: images from −1 to 1, a network that predicts the noise and, in as many
//! channels again, where the variance lies between its two bounds.

mod chain;
mod cone;
mod dime;
mod error;
mod guidance;
mod guide;
mod process;
mod sample;
mod schedule;
mod tape;

pub use chain::{Chained, Given, Noise, Seeded};
pub use cone::{Cone, ConeRule, Projected, length, normalise};
pub use dime::{Attempt, Dime, DimeSettings, DimeStep, Features, Loss, in_pixels};
pub use error::DiffusionError;
pub use guidance::{Distance, Guidance, Guided, Guider, Noisy, Sampler, Strength, X0, pull};
pub use guide::{Clean, Denoiser, Fitting, Guide, NoiseAware, Unconditional, called};
pub use process::{
    Moments, ddim, drawn, moments, noise_between, noised, posterior_mean, variational_bound,
    without_noise,
};
pub use sample::{Sampling, sample};
pub use schedule::{Betas, Schedule, spaced};
