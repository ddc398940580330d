//! The small convolutional classifiers of the golden data: 1e-5 on logits and log-probabilities.
//!
//! Two convolutions of stride 2, each with its activation, the mean over pixels, a linear layer; images from −1 to 1 of
//! any size.

use std::rc::Rc;

use candle_core::Device;

use super::super::Result;
use super::super::check::Check;
use super::super::error::Of;
use super::super::folder::Folder;
use super::super::tensors::Tensors;
use super::close;
use crate::diffusion::{DiffusionError, Guide};
use crate::tensor::candle::{Candle, Differentiable, Tensor};
use crate::tensor::{Activation, Array, Backend, Conv, TensorError};

const LOGITS: f64 = 1e-5;
const FILE: &str = "tiny_classifiers.safetensors";

/// One of them.
pub struct Tiny<B: Backend> {
    convs: [B::Conv; 2],
    last: B::Conv,
}

impl<B: Backend> Tiny<B> {
    /// The classifier of this name; none if the folder has none.
    pub fn read(b: &B, folder: &Folder, name: &str) -> Result<Option<Self>> {
        let Some(weights) = weights(folder)? else {
            return Ok(None);
        };
        if !weights.contains(&format!("{name}.fc.weight")) {
            return Ok(None);
        }
        // The robust one has the activation of ResNets.
        let activation = match name {
            "robust" => Activation::Relu,
            _ => Activation::Silu,
        };
        let conv = |part: &str| prepared(b, &weights, &format!("{name}.{part}"), activation);
        Ok(Some(Self {
            convs: [conv("conv1")?, conv("conv2")?],
            last: conv("fc")?,
        }))
    }

    pub fn predict(
        &self,
        b: &B,
        images: &B::Tensor,
    ) -> std::result::Result<B::Tensor, TensorError> {
        let mut x = images.clone();
        for conv in &self.convs {
            x = b.conv(&x, conv, None)?;
        }
        b.conv(&b.global_mean(&x), &self.last, None)
    }
}

/// Whether the folder has these classifiers at all.
pub fn are_there(folder: &Folder) -> Result<bool> {
    Ok(weights(folder)?.is_some())
}

/// Weights are no cases: none of them has to be used.
fn weights(folder: &Folder) -> Result<Option<Rc<Tensors>>> {
    let found = folder.tensors(FILE)?;
    if let Some(weights) = &found {
        weights.names().for_each(|name| weights.skip(name));
    }
    Ok(found)
}

/// A convolution with its window in the middle, or a linear layer.
fn prepared<B: Backend>(
    b: &B,
    weights: &Tensors,
    name: &str,
    activation: Activation,
) -> Result<B::Conv> {
    let weight = weights.f32(&format!("{name}.weight"))?;
    let bias = weights.f32(&format!("{name}.bias"))?.data;
    let spec = match weight.shape[..] {
        [outputs, inputs, side, _] => Conv::square(inputs, outputs, side)
            .stride(2)
            .padding(side / 2)
            .activation(activation),
        [outputs, inputs] => Conv::linear(inputs, outputs),
        ref other => {
            return Err(weights.wrong(name, "2 or 4 dimensions", format!("{other:?}")));
        }
    };
    b.prepare(spec, &weight, &bias).of(name)
}

/// One that can be asked, with gradients.
pub struct Asked<B: Differentiable> {
    pub on: B,
    pub net: Tiny<B>,
}

impl<B: Differentiable> Guide for Asked<B> {
    fn logits(
        &self,
        images: &Tensor,
        _steps: &[f32],
    ) -> std::result::Result<Tensor, DiffusionError> {
        Ok(self.net.predict(&self.on, images)?)
    }
}

/// Logits of given images, NCHW, by a classifier on this device.
pub fn logits(guide: &dyn Guide, images: &Array, device: &Device, what: &str) -> Result<Array> {
    let n = images.shape.first().copied().unwrap_or(0);
    let images = Candle.upload(images).and_then(|x| x.on(device));
    let logits = guide.logits(&images.of(what)?, &vec![0.0; n]).of(what)?;
    Candle.download(&logits).of(what)
}

pub fn run<B: Backend>(b: &B, folder: &Folder, check: &mut Check) -> Result<()> {
    let (Some(io), Some(_)) = (
        folder.tensors("tiny_classifiers_io.safetensors")?,
        weights(folder)?,
    ) else {
        return Ok(());
    };
    check.group("small classifiers");
    // The targets belong to the guided steps on the same images.
    io.skip("targets");
    let images = io.f32_of_rank("init_images", 4)?;
    let names = io.names().filter_map(|n| n.strip_suffix(".logits_on_init"));
    for name in names {
        let Some(tiny) = Tiny::read(b, folder, name)? else {
            io.skip(&format!("{name}.logits_on_init"));
            io.skip(&format!("{name}.log_softmax_on_init"));
            check.absent(format!("{FILE}: {name}"));
            continue;
        };
        let x = b.upload(&images).of(name)?;
        let got = b.download(&tiny.predict(b, &x).of(name)?).of(name)?;
        let stored = format!("{name}.logits_on_init");
        close(check, &stored, &io.f32(&stored)?, &got, LOGITS);
        let log = Candle.upload(&got).and_then(|l| Candle.log_softmax(&l));
        let log = Candle.download(&log.of(name)?).of(name)?;
        let stored = format!("{name}.log_softmax_on_init");
        if io.contains(&stored) {
            close(check, &stored, &io.f32(&stored)?, &log, LOGITS);
        }
    }
    Ok(())
}
