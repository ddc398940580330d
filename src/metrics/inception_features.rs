//! Inception features of images for FID, KID, precision/recall and the Inception Score: resize to 299×299 by one of
//! three rules, scale, run up to the tap.
//!
//! torch-fidelity and torchmetrics scale by `(x − 128)/128` ([`Resize::Tf1`], [`Resize::Antialias`]); pytorch-fid by
//! `2·(x/255) − 1` ([`Resize::HalfPixel`]).

use crate::nets::{FidTap, Inception, NetError, Prediction};
use crate::tensor::{Backend, Resize, StateDict};

/// Side of the network's input.
const SIDE: usize = 299;

/// Extracts features of images of any size.
pub struct InceptionFeatures<B: Backend> {
    net: Inception<B>,
    tap: FidTap,
    resize: Resize,
}

impl<B: Backend> InceptionFeatures<B> {
    pub fn new(
        backend: &B,
        dict: &StateDict,
        tap: FidTap,
        resize: Resize,
    ) -> Result<Self, NetError> {
        Ok(Self {
            net: Inception::new(backend, dict, tap)?,
            tap,
            resize,
        })
    }

    /// The same with the whole network loaded, for [`InceptionFeatures::predict`].
    pub fn with_logits(
        backend: &B,
        dict: &StateDict,
        tap: FidTap,
        resize: Resize,
    ) -> Result<Self, NetError> {
        Ok(Self {
            net: Inception::new(backend, dict, FidTap::F2048)?,
            tap,
            resize,
        })
    }

    pub fn tap(&self) -> FidTap {
        self.tap
    }

    /// Features `[n, size]` of a batch of pixels 0..255.
    pub fn extract(&self, backend: &B, pixels: &B::Tensor) -> Result<B::Tensor, NetError> {
        self.net
            .features(backend, &self.input(backend, pixels)?, self.tap)
    }

    /// Features at several taps in one pass.
    pub fn extract_at(
        &self,
        backend: &B,
        pixels: &B::Tensor,
        taps: &[FidTap],
    ) -> Result<Vec<B::Tensor>, NetError> {
        self.net
            .features_at(backend, &self.input(backend, pixels)?, taps)
    }

    /// 2048 features and 1008 logits, where the weights hold the last layer.
    pub fn predict(&self, backend: &B, pixels: &B::Tensor) -> Result<Prediction<B>, NetError> {
        self.net.predict(backend, &self.input(backend, pixels)?)
    }

    /// 1008 logits of the 2048 features of [`InceptionFeatures::extract_at`].
    pub fn logits(&self, backend: &B, features: &B::Tensor) -> Result<B::Tensor, NetError> {
        self.net.logits(backend, features)
    }

    pub fn has_logits(&self) -> bool {
        self.net.has_logits()
    }

    fn input(&self, backend: &B, pixels: &B::Tensor) -> Result<B::Tensor, NetError> {
        let x = backend.resize(pixels, SIDE, SIDE, self.resize)?;
        let (scale, shift) = match self.resize {
            Resize::Tf1 | Resize::Antialias => (1.0 / 128.0, -1.0),
            Resize::HalfPixel => (2.0 / 255.0, -1.0),
        };
        Ok(backend.affine(&x, &[0, 1, 2], &[scale; 3], &[shift; 3])?)
    }
}
