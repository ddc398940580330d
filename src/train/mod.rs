//! Training of small networks, on candle with the corrected gradients of [`crate::tensor::candle`].
//!
//! A run is a function of its plan: the order of the images and the first weights come from the seed, and a run that
//! was interrupted goes on from its checkpoint to the same result.

mod adamw;
mod adversary;
mod checkpoint;
mod cost;
mod data;
pub mod denoising;
mod error;
mod initial;
mod invertible;
pub mod losses;
mod reading;
mod run;
mod target;
mod unet;

pub use adamw::AdamW;
pub use adversary::Attack;
pub use checkpoint::{Precision, round_to_half, writable, write_weights};
pub use cost::{Cost, Meter};
pub use data::{Data, Row, Split, to_pixels, to_values};
pub use error::TrainError;
pub use initial::{Initial, autoencoder, convnext, convnext_bn, mnist_cnn, plain_cnn, resnet18};
pub use invertible::{InformationBottleneck, InvertibleLayout, class_centres, dequantised};
pub use reading::{Reader, Reading};
pub use run::{Orders, Plan, Progress, Trained, run};
pub use target::{Meaning, Target};
pub use unet::{UnetEncoderLayout, UnetLayout};
