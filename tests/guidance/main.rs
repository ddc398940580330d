//! Guided diffusion against the public implementations, step by step and in whole chains.
//!
//! On the CPU engine, and some of them on candle's own operations, which is what runs on NVIDIA GPUs.
//!
//! Reads the golden data from `FOIL_REFERENCE` (or `../shared/reference`); skips where there are none.

mod directions;
mod evaluated;
mod nested;
mod others;
mod shipped;

use std::path::{Path, PathBuf};

use foil::diffusion::{Betas, Cone, ConeRule, Guide, NoiseAware, Schedule, Unconditional, spaced};
use foil::nets::{Unet, UnetConfig, UnetEncoder, UnetEncoderConfig};
use foil::tensor::candle::{Differentiable, Tensor};
use foil::tensor::{Activation, Array, Conv, StateDict, TypedArrays};

fn find(file: &str) -> Option<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let reference = std::env::var_os("FOIL_REFERENCE").map(PathBuf::from);
    let roots = [
        reference,
        Some(here.join("../shared/reference")),
        Some(here.join("tests/golden")),
    ];
    let found = roots
        .into_iter()
        .flatten()
        .map(|root| root.join("diffusion").join(file))
        .find(|path| path.exists());
    if found.is_none() {
        println!("skipped: no diffusion/{file}; set FOIL_REFERENCE");
    }
    found
}

pub struct Golden(TypedArrays);

impl Golden {
    pub fn open(file: &str) -> Option<Self> {
        Some(Self(TypedArrays::read(&find(file)?).unwrap()))
    }

    pub fn array(&self, name: &str) -> Array {
        self.0.f32(name).unwrap()
    }

    pub fn numbers(&self, name: &str) -> Vec<usize> {
        let numbers = self.0.i64(name).unwrap();
        numbers.into_iter().map(|v| v as usize).collect()
    }

    pub fn has(&self, name: &str) -> bool {
        self.0.contains(name)
    }
}

pub fn dict(file: &str) -> Option<StateDict> {
    let arrays = TypedArrays::read(&find(file)?).unwrap();
    let mut dict = StateDict::new();
    for name in arrays.names() {
        dict.insert(name, arrays.f32(name).unwrap());
    }
    Some(dict)
}

/// The largest difference, in absolute terms.
pub fn close(what: &str, found: &Array, expected: &Array, tolerance: f32) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let pairs = found.data.iter().zip(&expected.data);
    let worst = pairs.fold(0.0f32, |m, (f, e)| {
        let d = (f - e).abs();
        if d.is_nan() { f32::INFINITY } else { m.max(d) }
    });
    println!("{what}: off by {worst:e}, allowed {tolerance:e}");
    assert!(worst <= tolerance, "{what}: off by {worst:e}");
}

/// The same, as a share of the largest value.
pub fn close_to_peak(what: &str, found: &Array, expected: &Array, share: f32) {
    let peak = expected.data.iter().fold(0.0f32, |m, v| m.max(v.abs()));
    close(what, found, expected, share * peak);
}

/// Part `index` of the first axis.
pub fn part(array: &Array, index: usize) -> Array {
    Array::new(&array.shape[1..], array.row(index).to_vec()).unwrap()
}

/// The tiny convolutional networks of the golden data.
pub struct Tiny<B: Differentiable> {
    on: B,
    convs: [B::Conv; 2],
    last: B::Conv,
}

impl<B: Differentiable> Tiny<B> {
    pub fn new(on: &B, name: &str) -> Option<Self> {
        let dict = dict("tiny_classifiers.safetensors")?;
        let get = |part: &str| dict.get(&format!("{name}.{part}")).unwrap().clone();
        let activation = match name {
            "robust" => Activation::Relu,
            _ => Activation::Silu,
        };
        let conv = |part: &str| {
            let weight = get(&format!("{part}.weight"));
            let bias = get(&format!("{part}.bias")).data;
            let side = weight.shape.get(2).copied().unwrap_or(1);
            let spec = match weight.shape.len() {
                4 => Conv::square(weight.shape[1], weight.shape[0], side)
                    .stride(2)
                    .padding(side / 2)
                    .activation(activation),
                _ => Conv::linear(weight.shape[1], weight.shape[0]),
            };
            on.prepare(spec, &weight, &bias).unwrap()
        };
        Some(Self {
            on: on.clone(),
            convs: ["conv1", "conv2"].map(conv),
            last: conv("fc"),
        })
    }
}

impl<B: Differentiable> Guide for Tiny<B> {
    fn logits(
        &self,
        images: &Tensor,
        _steps: &[f32],
    ) -> Result<Tensor, foil::diffusion::DiffusionError> {
        let mut x = images.clone();
        for conv in &self.convs {
            x = self.on.conv(&x, conv, None)?;
        }
        let mean = self.on.global_mean(&x);
        Ok(self.on.conv(&mean, &self.last, None)?)
    }
}

pub fn unet_a<B: Differentiable>(on: &B) -> Option<Unconditional<B>> {
    let config = UnetConfig {
        num_head_channels: 16,
        ..UnetConfig::default()
    };
    let dict = dict("unet_a_weights.safetensors")?;
    Some(Unconditional {
        backend: on.clone(),
        net: Unet::new(on, &dict, config).unwrap(),
    })
}

pub fn encoder<B: Differentiable>(on: &B) -> Option<NoiseAware<B>> {
    let config = UnetEncoderConfig {
        num_res_blocks: 1,
        num_head_channels: 16,
        ..UnetEncoderConfig::default()
    };
    let dict = dict("unet_encoder_weights.safetensors")?;
    Some(NoiseAware {
        backend: on.clone(),
        net: UnetEncoder::new(on, &dict, config).unwrap(),
        fitting: Default::default(),
    })
}

pub fn schedule(steps: usize, respacing: &str) -> Schedule {
    let full = Schedule::new(Betas::Linear, steps).unwrap();
    full.respaced(&spaced(steps, respacing).unwrap()).unwrap()
}

pub const CONE: Cone = Cone {
    degrees: 30.0,
    rule: ConeRule::Published,
};
