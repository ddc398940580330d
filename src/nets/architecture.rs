//! Architectures by name.

use std::{fmt, str::FromStr};

use super::{
    AlexNet, BexEncoder, Classifier, ConvNext, ConvNextBn, EfficientNetLite, FidTap, Inception,
    MnistCnn, MobileNetV2, NetError, PlainCnn, Prediction, ResNet, SqueezeNet, Swin, UnetEncoder,
    UnetEncoderConfig, Vgg16,
};
use crate::tensor::{Backend, StateDict};

macro_rules! architectures {
    ($($variant:ident = $name:literal),* $(,)?) => {
        /// A network layout, named as in the literature.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Architecture {
            $(#[doc = concat!("`", $name, "`")] $variant,)*
        }

        impl Architecture {
            pub const ALL: &[Architecture] = &[$(Architecture::$variant),*];

            pub fn name(self) -> &'static str {
                match self { $(Architecture::$variant => $name),* }
            }
        }
    };
}

architectures! {
    AlexNet = "alexnet",
    Vgg16 = "vgg16",
    SqueezeNet = "squeezenet1_1",
    Inception = "inception_v3_fid",
    MobileNetV2 = "mobilenet_v2",
    EfficientNetLite0 = "efficientnet_lite0",
    EfficientNetLite1 = "efficientnet_lite1",
    EfficientNetLite2 = "efficientnet_lite2",
    ResNet18 = "resnet18",
    ResNet50 = "resnet50",
    ConvNextTiny = "convnext_tiny",
    ConvNextBase = "convnext_base",
    ConvNextLarge = "convnext_large",
    SwinT = "swin_t",
    SwinB = "swin_b",
    UnetEncoder = "unet_encoder",
    PlainCnn = "plain_cnn",
    MnistCnn = "mnist_cnn",
    ConvNextBn = "convnext_bn",
    Autoencoder = "autoencoder",
    Unet = "guided_diffusion_unet",
    BexEncoder = "bex_encoder",
    BexGenerator = "bex_generator",
    Invertible = "ib_inn",
}

impl FromStr for Architecture {
    type Err = NetError;

    fn from_str(text: &str) -> Result<Self, NetError> {
        Self::ALL
            .iter()
            .copied()
            .find(|a| a.name() == text)
            .ok_or_else(|| NetError::UnknownArchitecture {
                name: text.into(),
                known: Self::ALL
                    .iter()
                    .map(|a| a.name())
                    .collect::<Vec<_>>()
                    .join(", "),
            })
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The FID Inception as a classifier of 1008 classes.
struct InceptionClassifier<B: Backend>(Inception<B>);

impl<B: Backend> Classifier<B> for InceptionClassifier<B> {
    fn predict(&self, b: &B, x: &B::Tensor) -> Result<Prediction<B>, NetError> {
        self.0.predict(b, x)
    }
}

/// Builds a classifier. `unet` holds what an encoder UNet's weights do not tell; other networks ignore it.
pub fn build<B: Backend + 'static>(
    architecture: Architecture,
    backend: &B,
    dict: &StateDict,
    unet: &UnetEncoderConfig,
) -> Result<Box<dyn Classifier<B>>, NetError> {
    use Architecture as A;
    Ok(match architecture {
        A::AlexNet => Box::new(AlexNet::new(backend, dict)?),
        A::Vgg16 => Box::new(Vgg16::new(backend, dict)?),
        A::SqueezeNet => Box::new(SqueezeNet::new(backend, dict)?),
        A::Inception => Box::new(InceptionClassifier(Inception::new(
            backend,
            dict,
            FidTap::F2048,
        )?)),
        A::MobileNetV2 => Box::new(MobileNetV2::new(backend, dict)?),
        A::EfficientNetLite0 => Box::new(EfficientNetLite::new(backend, dict, 0)?),
        A::EfficientNetLite1 => Box::new(EfficientNetLite::new(backend, dict, 1)?),
        A::EfficientNetLite2 => Box::new(EfficientNetLite::new(backend, dict, 2)?),
        A::ResNet18 => Box::new(ResNet::new(backend, dict, [2, 2, 2, 2])?),
        A::ResNet50 => Box::new(ResNet::new(backend, dict, [3, 4, 6, 3])?),
        A::ConvNextTiny | A::ConvNextBase | A::ConvNextLarge => {
            Box::new(ConvNext::new(backend, dict)?)
        }
        A::SwinT | A::SwinB => Box::new(Swin::new(backend, dict)?),
        A::UnetEncoder => Box::new(UnetEncoder::new(backend, dict, unet.clone())?),
        A::ConvNextBn => Box::new(ConvNextBn::new(backend, dict)?),
        A::PlainCnn => Box::new(PlainCnn::new(backend, dict)?),
        A::MnistCnn => Box::new(MnistCnn::new(backend, dict)?),
        A::BexEncoder => Box::new(BexEncoder::new(backend, dict)?),
        A::Autoencoder | A::Unet | A::BexGenerator | A::Invertible => {
            return Err(NetError::Config(format!(
                "{architecture} draws images and tells no classes apart; give its card the role of what it is"
            )));
        }
    })
}
