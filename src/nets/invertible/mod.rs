//! The conditional invertible network of ECINN (Hvilshøj et al. 2021a), which is that of IB-INN (Ardizzone et al. 2020)
//! for small images.
//!
//! Haar transform, coupling blocks at half the size, a downsampling coupling, coupling blocks at a quarter of the size, a cosine
//! transform, a fixed order of all values and one GLOW coupling make of an image `x` a vector `z` of as many values.
//! Each class `y` has a normal density of unit variance around its mean `μ_y`. Everything can be undone exactly, and
//! `log |det ∂z/∂x|` comes with `z`.
//!
//! Rotations and the order of values are fixed: they are functions of the layout and no weights.

mod blocks;
mod fixed;
mod subnet;

use candle_core::{D, Tensor as Values};

use super::NetError;
use super::layers::Scope;
use crate::tensor::candle::{Candle, Tensor, Training};
use crate::tensor::{Array, Backend, StateDict, TensorError};
use blocks::{Coupling, Downsampling, Glow};
use fixed::Cosine;

pub use fixed::rotation;

type Result<T> = std::result::Result<T, NetError>;

/// Where the variables of a network come from: those of a training, or constants of its weights.
pub trait Parameters: Backend<Tensor = Tensor> {
    /// A parameter that is no layer's: flat.
    fn parameter(&self, name: &str, array: &Array) -> Result<Values>;
}

impl Parameters for Candle {
    fn parameter(&self, _name: &str, array: &Array) -> Result<Values> {
        let shape = array.shape.as_slice();
        candle(Values::from_slice(
            &array.data,
            shape,
            &candle_core::Device::Cpu,
        ))
    }
}

impl Parameters for Training {
    fn parameter(&self, name: &str, array: &Array) -> Result<Values> {
        match self.variables().get(name) {
            Some(variable) => Ok(variable.as_tensor().clone()),
            None => Candle.parameter(name, array),
        }
    }
}

/// What candle says, as an error of this room.
fn candle<T>(result: candle_core::Result<T>) -> Result<T> {
    result.map_err(|error| NetError::Tensor(TensorError::Device(error.to_string())))
}

/// A vector for each image, and how much the volume grows on the way to it.
pub struct Latent {
    /// `[n, d]`.
    pub z: Values,
    /// `[n]`: `log |det ∂z/∂x|`.
    pub log_determinant: Values,
}

/// The network; sizes are read off the weights.
pub struct InvertibleNet<B: Parameters> {
    first: Vec<Coupling<B>>,
    down: Downsampling<B>,
    second: Vec<Coupling<B>>,
    glow: Glow<B>,
    /// `[classes, d]`.
    means: Values,
    /// `[classes]`: logits of the classes' frequencies.
    frequencies: Values,
}

impl<B: Parameters> InvertibleNet<B> {
    pub fn new(backend: &B, dict: &StateDict) -> Result<Self> {
        let scope = Scope::new(dict);
        let channels = scope.array("input_channels")?;
        let channels = channels.data.first().map_or(1, |&c| c as usize);
        let blocks = |level: &str, channels: usize, first: usize| -> Result<Vec<Coupling<B>>> {
            let at = scope.at(level);
            let mut all = Vec::new();
            while at.has(&format!("{}.scale", all.len())) {
                let place = first + all.len();
                all.push(Coupling::new(
                    backend,
                    &at.at(all.len()),
                    &format!("{level}.{}.", all.len()),
                    channels,
                    place,
                )?);
            }
            Ok(all)
        };
        let first = blocks("first", 4 * channels, 0)?;
        let second = blocks("second", 16 * channels, first.len())?;
        let means = scope.array("means")?;
        let &[classes, d] = means.shape.as_slice() else {
            return Err(NetError::Shape {
                name: "means".into(),
                expected: "[classes, values]".into(),
                found: means.shape.clone(),
            });
        };
        let frequencies = scope.shaped("frequencies", &[classes])?;
        Ok(Self {
            down: Downsampling::new(backend, &scope.at("down"), 4 * channels)?,
            glow: Glow::new(backend, &scope.at("glow"), d)?,
            means: backend.parameter("means", means)?,
            frequencies: backend.parameter("frequencies", frequencies)?,
            first,
            second,
        })
    }

    /// Means of the classes, `[classes, d]`.
    pub fn means(&self) -> &Values {
        &self.means
    }

    /// Logits of the classes' frequencies, `[classes]`.
    pub fn frequencies(&self) -> &Values {
        &self.frequencies
    }

    /// From images NCHW, −1 to 1, whose sides are multiples of 4.
    pub fn forward(&self, b: &B, images: &Array) -> Result<Latent> {
        self.forward_values(b, b.upload(images)?.candle())
    }

    /// The same from `[n, h, w, c]` on the tape.
    pub fn forward_values(&self, b: &B, x: &Values) -> Result<Latent> {
        let (n, h, w, c) = candle(x.dims4())?;
        let d = candle(self.means.dim(1))?;
        if h % 4 != 0 || w % 4 != 0 || h * w * c != d {
            return Err(NetError::Config(format!(
                "an invertible network of {d} values takes images of as many, with sides that are multiples of 4, \
                 not {w}x{h} with {c} channels"
            )));
        }
        let cosine = Cosine::new(h / 4, w / 4)?;
        let mut log = candle(Values::zeros(
            n,
            candle_core::DType::F32,
            &candle_core::Device::Cpu,
        ))?;
        let mut x = fixed::haar(x)?;
        for block in &self.first {
            (x, log) = block.forward(b, &x, &log)?;
        }
        (x, log) = self.down.forward(b, &x, &log)?;
        for block in &self.second {
            (x, log) = block.forward(b, &x, &log)?;
        }
        let flat = cosine.forward(&x)?;
        log = candle(log + cosine.log_determinant(16 * c))?;
        let flat = fixed::ordered(&flat, false)?;
        let (z, log_determinant) = self.glow.forward(b, &flat, &log)?;
        Ok(Latent { z, log_determinant })
    }

    /// The way back: images NCHW of `height × width` from `[n, d]`. Values may be beyond −1 and 1.
    pub fn inverse(&self, b: &B, z: &Values, height: usize, width: usize) -> Result<Array> {
        let cosine = Cosine::new(height / 4, width / 4)?;
        let flat = self.glow.inverse(b, &z.detach())?;
        let mut x = cosine.inverse(&fixed::ordered(&flat, true)?)?;
        for block in self.second.iter().rev() {
            x = block.inverse(b, &x)?;
        }
        x = self.down.inverse(b, &x)?;
        for block in self.first.iter().rev() {
            x = block.inverse(b, &x)?;
        }
        let x = Tensor::new(&fixed::haar_back(&x)?)?;
        Ok(b.download(&x)?)
    }

    /// `−½ ‖z − μ_y‖²` for each image and class, `[n, classes]`.
    pub fn log_densities(&self, z: &Values) -> Result<Values> {
        let run = || -> candle_core::Result<Values> {
            // ‖z − μ‖² = ‖z‖² − 2 z·μ + ‖μ‖².
            let cross = z.matmul(&self.means.t()?.contiguous()?)?;
            let own = z.sqr()?.sum_keepdim(D::Minus1)?;
            let of_means = self.means.sqr()?.sum(1)?;
            let squared = (cross * -2.0)?
                .broadcast_add(&own)?
                .broadcast_add(&of_means)?;
            squared * -0.5
        };
        candle(run())
    }
}
