//! Counterfactuals of small images, by gradients in pixel space and by an invertible network: the three methods of
//! Hvilshøj et al. 2021.
//!
//! - GB ([`wachter`]): Wachter, Mittelstadt & Russell 2018, as alibi's `CounterFactual` does it;
//! - GL ([`prototype`]): Van Looveren & Klaise 2021, as alibi's `CounterFactualProto` does it;
//! - GEN ([`ecinn`]): Hvilshøj, Iosifidis & Assent 2021, a closed-form correction of an invertible network's code.
//!
//! A batch shares the evaluations of the networks and nothing else: every image has its own weights, bounds, counters
//! and best candidate, and leaves the batch when it is done. Its result does not depend on its batch. Images are values
//! NCHW in the range that the networks take, with any number of channels.

pub mod ecinn;
mod error;
mod explainer;
pub mod generate;
mod networks;
pub mod prototype;
pub mod wachter;

pub use ecinn::{Alpha, Ecinn};
pub use error::PixelError;
pub use explainer::{Explainer, Format, Method};
pub use networks::{Networks, Pull};
pub use prototype::{Prototype, Prototypes};
pub use wachter::Wachter;

use crate::metrics::validity::argmax;
use crate::tensor::Array;

type Result<T> = std::result::Result<T, PixelError>;

/// What became of an original.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Class of the original.
    pub before: usize,
    /// The counterfactual; `None` if none was found.
    pub found: Option<Found>,
    /// Evaluations of the explained network.
    pub evaluations: usize,
}

/// A counterfactual.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// Values of the image, channel by channel.
    pub image: Vec<f32>,
    /// Class and probabilities by the explained network, of the image with these values.
    pub class: usize,
    pub probabilities: Vec<f32>,
    /// The last weight that was searched for (λ of GB, c of GL, α of GEN).
    pub weight: f64,
}

/// The largest probability of another class than `own`: class and value.
fn best_other(probabilities: &[f32], own: usize) -> (usize, f32) {
    let others = { probabilities.iter().enumerate() }.filter(|(class, _)| *class != own);
    let best = others.fold(None, |best: Option<(usize, f32)>, (class, &p)| match best {
        Some((_, most)) if most >= p => best,
        _ => Some((class, p)),
    });
    best.unwrap_or((own, 0.0))
}

/// Values of one image of a batch.
fn image(images: &Array, index: usize) -> &[f32] {
    let len = images.len() / images.shape.first().copied().unwrap_or(1).max(1);
    &images.data[index * len..(index + 1) * len]
}

/// A batch of images of the shape of `like`.
fn batch<'a>(like: &Array, images: impl Iterator<Item = &'a [f32]>) -> Array {
    let mut data = Vec::new();
    let mut n = 0;
    for image in images {
        data.extend_from_slice(image);
        n += 1;
    }
    let mut shape = like.shape.clone();
    if let Some(first) = shape.first_mut() {
        *first = n;
    }
    Array { shape, data }
}

/// Refuses images that are no finite values NCHW, a range that is none, and targets that are no other class.
fn check(
    images: &Array,
    range: [f32; 2],
    before: &[usize],
    targets: &[Option<usize>],
    classes: usize,
) -> Result<()> {
    let [low, high] = range;
    if low >= high || !low.is_finite() || !high.is_finite() {
        return Err(PixelError::Range { low, high });
    }
    if images.shape.len() != 4 || targets.len() != images.shape[0] {
        return Err(PixelError::Shape {
            found: images.shape.clone(),
            targets: targets.len(),
        });
    }
    if let Some(at) = images.data.iter().position(|v| !v.is_finite()) {
        let len = images.len() / images.shape[0].max(1);
        return Err(PixelError::NotFinite { image: at / len });
    }
    for (image, (&class, &target)) in before.iter().zip(targets).enumerate() {
        match target {
            Some(target) if target >= classes => {
                return Err(PixelError::NoClass {
                    image,
                    target,
                    classes,
                });
            }
            Some(target) if target == class => {
                return Err(PixelError::SameClass { image, target });
            }
            _ => {}
        }
    }
    Ok(())
}

/// Classes that the explained network gives originals.
fn classes(probabilities: &[Vec<f32>]) -> Vec<usize> {
    probabilities.iter().map(|row| argmax(row)).collect()
}
