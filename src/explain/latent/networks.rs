//! What a world's networks can do: draw raw latents, classify the images, and pull gradients back to the latents.

use super::{Latent, Result};

/// Images and logits of latents.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Looked {
    /// One after another, values from −1 to 1.
    pub images: Vec<f32>,
    pub logits: Vec<[f32; 2]>,
}

/// What is seen of one latent.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    pub logits: [f32; 2],
    /// Empty unless the loss is one of images.
    pub image: &'a [f32],
}

/// A latent's part of a loss.
#[derive(Clone, Copy, Debug, Default)]
pub struct Weighed {
    pub loss: f64,
    /// The derivative by the logits.
    pub by_logits: [f32; 2],
}

/// A loss that is a sum over latents, by its derivatives: `by(row, seen, by_image)` gives the loss of a row and its
/// derivative by the logits, and fills that by the image if `images` is set.
#[derive(Clone, Copy)]
pub struct Pull<'a> {
    pub images: bool,
    #[allow(clippy::type_complexity, reason = "a closure, named by its field")]
    pub by: &'a (dyn Fn(usize, &Seen<'_>, &mut [f32]) -> Weighed + Sync),
}

/// Logits and losses of rows, and the gradient of a loss by each raw latent.
pub type RawPulled = (Vec<[f32; 2]>, Vec<f64>, Vec<Latent>);

/// g and f of raw latents. Neither batch nor threads change a row's numbers.
pub trait Networks: Sync {
    /// Values of one image.
    fn pixels(&self) -> usize;

    /// Equal channels that stand for one value of an image: 3 for a grey image of which all channels are the same.
    fn channels_per_value(&self) -> f64 {
        1.0
    }

    /// Height and width of images, for pictures; grey or three channels by [`Networks::pixels`].
    fn size(&self) -> [usize; 2];

    /// Whether batches are small work for one thread each, so that several may be explained at once. Otherwise one batch
    /// after another has all threads.
    fn batch_by_thread(&self) -> bool {
        false
    }

    fn look(&self, raw: &[Latent]) -> Result<Looked>;

    /// As [`Networks::look`], without images.
    fn logits(&self, raw: &[Latent]) -> Result<Vec<[f32; 2]>> {
        Ok(self.look(raw)?.logits)
    }

    /// Logits and losses, and the gradient of a loss by each raw latent.
    fn pull(&self, raw: &[Latent], pull: &Pull<'_>) -> Result<RawPulled>;
}
