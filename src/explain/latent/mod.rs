//! Counterfactuals in a latent space whose causes are known: the benchmark of "Evaluating Visual Counterfactual Explainers"
//! (\[bex\]).
//!
//! A [`World`] holds a differentiable generator g, an explained classifier f, statistics of the latents, samples to explain
//! and the causal oracle. An [`Explainer`] sees of it what the paper allows ([`Explained`]: z, ĥ = f∘g, g and gradients) and
//! returns n counterfactual latents of each sample. [`crate::metrics::latent`] scores them.
//!
//! | name | method | file |
//! |---|---|---|
//! | `is` | informed search: typefaces tied to the other class | [`informed`] |
//! | `dice` | Mothilal, Sharma & Tan 2020 | [`dice`] |
//! | `dive` | Rodríguez et al. 2021 | [`dive`] |
//! | `gs` | growing spheres: Laugel et al. 2017 | [`spheres`] |
//! | `stylex` | AttFind of Lang et al. 2021 | [`stylex`] |
//! | `latent-cf` | Balasubramanian et al. 2020 | [`latent_cf`] |
//! | `xgem` | Joshi et al. 2018 | [`dive`], without masks |
//!
//! Each has two variants ([`Variant`]): what its own paper says, each sample for itself, and what the package bex 0.5.2 does to
//! batches of 12. A method of your own is one file with one `impl Explainer` (see `examples/latent_explainer.rs`).

pub mod adam;
mod catalog;
pub mod dice;
pub mod dive;
mod error;
mod explained;
mod explainer;
mod files;
pub mod fisher;
pub mod informed;
pub mod latent_cf;
mod networks;
mod noise;
mod open;
mod perceptron;
pub mod selection;
pub mod spectral;
pub mod spheres;
pub mod stylex;
mod taped;
mod world;

pub use catalog::{Method, NAMES};
pub use error::LatentError;
pub use explained::{Explained, Pulled};
pub use explainer::{Explainer, Made, Task, Variant, explain_all};
pub use files::{LatentFile, read_latents, write_latents, write_samples};
pub use networks::{Looked, Networks, Pull, RawPulled, Seen, Weighed};
pub use noise::{Keyed, Noise};
pub use open::{BUILTIN, SETTINGS, Setting, builtin, builtin_card, folder};
pub use perceptron::{Layer, Perceptrons};
pub use selection::{Level, level_distance, short_levels};
pub use taped::{Decoder, Taped};
pub use world::{Samples, World};

pub use crate::metrics::latent::{LATENT, Latent};

type Result<T> = std::result::Result<T, LatentError>;
