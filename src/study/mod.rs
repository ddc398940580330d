//! The papers' protocols: which data × models × methods × metrics, and the tables of their results.

pub mod attribution;
pub mod diffusion;
pub mod latent;
pub mod quantitative;
pub mod tables;
pub mod tabular;
