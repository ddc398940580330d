//! The autoencoder of Hvilshøj et al. 2021 (there of Van Looveren & Klaise): images of half the size and one channel
//! as the code, between three 3×3 convolutions on each side.

use super::NetError;
use super::layers::Scope;
use crate::tensor::{Activation, Backend, Conv, Pool, StateDict};

/// An autoencoder; widths are read off the weights `encoder.0` to `decoder.2`.
pub struct Autoencoder<B: Backend> {
    encoder: [B::Conv; 3],
    decoder: [B::Conv; 3],
}

impl<B: Backend> Autoencoder<B> {
    pub fn new(backend: &B, dict: &StateDict) -> Result<Self, NetError> {
        let scope = Scope::new(dict);
        let mut inputs = scope.array("encoder.0.weight")?.shape.get(1).copied();
        let mut conv = |at: &Scope<'_>, last: bool| {
            let outputs = at.array("weight")?.shape[0];
            let spec = Conv::square(inputs.unwrap_or(0), outputs, 3).padding(1);
            inputs = Some(outputs);
            let activation = if last {
                Activation::None
            } else {
                Activation::Relu
            };
            at.conv(backend, spec.activation(activation))
        };
        let mut three = |side: &str| -> Result<[B::Conv; 3], NetError> {
            let at = scope.at(side);
            Ok([
                conv(&at.at(0), false)?,
                conv(&at.at(1), false)?,
                conv(&at.at(2), true)?,
            ])
        };
        Ok(Self {
            encoder: three("encoder")?,
            decoder: three("decoder")?,
        })
    }

    /// The code of images whose sides are even.
    pub fn encode(&self, b: &B, x: &B::Tensor) -> Result<B::Tensor, NetError> {
        let shape = b.shape(x);
        if shape.h % 2 != 0 || shape.w % 2 != 0 {
            return Err(NetError::Config(format!(
                "an autoencoder halves the size and doubles it again: {}x{} pixels are odd",
                shape.w, shape.h
            )));
        }
        let [first, second, third] = &self.encoder;
        let x = b.conv(&b.conv(x, first, None)?, second, None)?;
        let x = b.pool(&x, Pool::max(2, 2))?;
        Ok(b.conv(&x, third, None)?)
    }

    /// Images from their code.
    pub fn decode(&self, b: &B, code: &B::Tensor) -> Result<B::Tensor, NetError> {
        let [first, second, third] = &self.decoder;
        let x = b.upsample(&b.conv(code, first, None)?, 2)?;
        Ok(b.conv(&b.conv(&x, second, None)?, third, None)?)
    }

    /// Images drawn again from their code.
    pub fn reconstruct(&self, b: &B, x: &B::Tensor) -> Result<B::Tensor, NetError> {
        self.decode(b, &self.encode(b, x)?)
    }
}
