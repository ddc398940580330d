//! Things that make counterfactuals, one folder per domain.

pub mod diffusion;
pub mod latent;
pub mod pixel;
pub mod tabular;
