//! The networks, each written once against [`Backend`] and loadable from its public checkpoint.
//!
//! Names of architectures and of tensors are those of torchvision, pytorch-fid, efficientnet-lite-pytorch,
//! guided-diffusion and bex, so that the usual files load unchanged. Batch norms are folded into convolutions at load.

mod alexnet;
mod architecture;
mod autoencoder;
mod batch;
mod bex_encoder;
mod bex_generator;
mod bex_layers;
mod convnext;
mod convnext_bn;
mod efficientnet_lite;
mod inception;
pub mod invertible;
pub(crate) mod kept_by_name;
mod layers;
mod layouts;
mod mnist_cnn;
mod mobilenet;
mod plain_cnn;
mod resnet;
mod squeezenet;
mod swin;
mod unet;
mod unet_blocks;
mod unet_encoder;
mod vgg;

pub use alexnet::AlexNet;
pub use architecture::{Architecture, build};
pub use autoencoder::Autoencoder;
pub use bex_encoder::{BexEncoder, BexEncoding};
pub use bex_generator::BexGenerator;
pub use convnext::ConvNext;
pub use convnext_bn::ConvNextBn;
pub use efficientnet_lite::EfficientNetLite;
pub use inception::{FidTap, Inception};
pub use invertible::InvertibleNet;
pub use layouts::layout;
pub use mnist_cnn::MnistCnn;
pub use mobilenet::MobileNetV2;
pub use plain_cnn::PlainCnn;
pub use resnet::ResNet;
pub use squeezenet::SqueezeNet;
pub use swin::Swin;
pub use unet::{Unet, UnetConfig};
pub(crate) use unet_blocks::sinusoidal;
pub use unet_encoder::{UnetEncoder, UnetEncoderConfig};
pub use vgg::Vgg16;

use crate::tensor::{Backend, TensorError};

/// What can go wrong when a network is built or run.
#[derive(Debug, thiserror::Error)]
pub enum NetError {
    #[error("the weights have no tensor `{name}`; found {count} tensors such as {examples}")]
    Missing {
        name: String,
        count: usize,
        examples: String,
    },
    #[error("tensor `{name}`: expected shape {expected}, found {found:?}")]
    Shape {
        name: String,
        expected: String,
        found: Vec<usize>,
    },
    #[error("unknown architecture {name:?}; known: {known}")]
    UnknownArchitecture { name: String, known: String },
    #[error("{network} has no {part} in these weights")]
    MissingPart {
        network: &'static str,
        part: &'static str,
    },
    #[error("{0}")]
    Config(String),
    #[error(transparent)]
    Tensor(#[from] TensorError),
}

/// What a classifier says of a batch.
pub struct Prediction<B: Backend> {
    /// `[n, classes]` before the softmax.
    pub logits: B::Tensor,
    /// `[n, d]`: the input of the last linear layer (of `mnist_cnn`: before its ReLU).
    pub embedding: B::Tensor,
}

/// A network that tells classes apart.
pub trait Classifier<B: Backend>: Send + Sync {
    /// Runs a preprocessed batch.
    fn predict(&self, backend: &B, x: &B::Tensor) -> Result<Prediction<B>, NetError>;
}

/// A network whose intermediate activations LPIPS compares.
pub trait Backbone<B: Backend>: Send + Sync {
    /// The tapped activations of a batch, shallow to deep.
    fn taps(&self, backend: &B, x: &B::Tensor) -> Result<Vec<B::Tensor>, NetError>;
}
