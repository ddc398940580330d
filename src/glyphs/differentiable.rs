//! The generator as an operation on candle tensors, so that a gradient flows from anything behind an image to the
//! latent vector in front of it.

use std::sync::Arc;

use super::embedding::LATENT;
use super::{Generator, GlyphError};
use crate::tensor::candle::{self, Candle, Tensor, View, unary};
use crate::tensor::{Backend, Shape, TensorError};

impl Generator {
    /// The images of latent vectors `[n, 11]` as an activation of `channels` equal channels with intensities from 0
    /// to 1 (a network's preprocessing follows as [`Backend::affine`]); gradients flow through to the vectors.
    pub fn tensor(
        self: &Arc<Self>,
        latents: &Tensor,
        size: usize,
        channels: usize,
    ) -> Result<Tensor, TensorError> {
        let draw = Draw {
            generator: Arc::clone(self),
            size,
        };
        let grey = unary(draw, latents)?;
        if channels == 1 {
            return Ok(grey);
        }
        let order = vec![0; channels];
        Candle.affine(&grey, &order, &vec![1.0; channels], &vec![0.0; channels])
    }
}

struct Draw {
    generator: Arc<Generator>,
    size: usize,
}

impl candle::Operation<1> for Draw {
    const NAME: &'static str = "glyph generator";

    fn forward(&self, [z]: [View<'_>; 1]) -> candle::Output {
        let images = self.generator.forward(latents(z)?, self.size);
        let shape = Shape::new(z.shape.n, self.size, self.size, 1);
        Ok((shape, images.map_err(refused)?))
    }

    fn backward(
        &self,
        [z]: [View<'_>; 1],
        _: View<'_>,
        g: View<'_>,
        _: [bool; 1],
    ) -> Result<[candle::Gradient; 1], TensorError> {
        let back = self.generator.backward(latents(z)?, self.size, g.data);
        let back = back.map_err(refused)?;
        Ok([candle::Gradient::Values(back.into_flattened())])
    }
}

fn latents<'a>(z: View<'a>) -> Result<&'a [[f32; LATENT]], TensorError> {
    if [z.shape.h, z.shape.w, z.shape.c] != [1, 1, LATENT] {
        return Err(TensorError::Shape {
            operation: "glyph generator",
            expected: format!("latent vectors [n, {LATENT}]"),
            found: format!("{:?}", z.shape),
        });
    }
    Ok(z.data.as_chunks().0)
}

fn refused(error: GlyphError) -> TensorError {
    TensorError::Device(error.to_string())
}
