//! Building layers from named tensors.

use super::{NetError, Prediction};
use crate::tensor::{Activation, Array, Backend, Conv, Norm, StateDict};

/// A state dict seen below a name prefix.
#[derive(Clone)]
pub struct Scope<'a> {
    dict: &'a StateDict,
    prefix: String,
}

impl<'a> Scope<'a> {
    pub fn new(dict: &'a StateDict) -> Self {
        Self {
            dict,
            prefix: String::new(),
        }
    }

    /// The scope below `name`.
    pub fn at(&self, name: impl std::fmt::Display) -> Self {
        Self {
            dict: self.dict,
            prefix: format!("{}{name}.", self.prefix),
        }
    }

    pub fn has(&self, name: &str) -> bool {
        self.dict.contains(&format!("{}{name}", self.prefix))
    }

    pub fn array(&self, name: &str) -> Result<&'a Array, NetError> {
        let name = format!("{}{name}", self.prefix);
        self.dict.get(&name).ok_or_else(|| {
            let examples: Vec<&str> = self.dict.iter().map(|(n, _)| n).take(3).collect();
            NetError::Missing {
                name,
                count: self.dict.len(),
                examples: examples.join(", "),
            }
        })
    }

    /// An array of exactly this shape.
    pub fn shaped(&self, name: &str, shape: &[usize]) -> Result<&'a Array, NetError> {
        let array = self.array(name)?;
        if array.shape != shape {
            return Err(NetError::Shape {
                name: format!("{}{name}", self.prefix),
                expected: format!("{shape:?}"),
                found: array.shape.clone(),
            });
        }
        Ok(array)
    }

    fn vector(&self, name: &str, len: usize) -> Result<&'a [f32], NetError> {
        let array = self.array(name)?;
        if array.len() != len {
            return Err(NetError::Shape {
                name: format!("{}{name}", self.prefix),
                expected: format!("[{len}]"),
                found: array.shape.clone(),
            });
        }
        Ok(&array.data)
    }

    /// A convolution or linear layer `weight` with `bias` if there is one.
    pub fn conv<B: Backend>(&self, backend: &B, spec: Conv) -> Result<B::Conv, NetError> {
        self.scaled_conv(backend, spec, None)
    }

    /// The same with each output multiplied by `scale` (ConvNeXt's layer scale).
    pub fn scaled_conv<B: Backend>(
        &self,
        backend: &B,
        spec: Conv,
        scale: Option<&[f32]>,
    ) -> Result<B::Conv, NetError> {
        let weight = self.weight(&spec)?;
        let bias: &[f32] = if self.has("bias") {
            self.vector("bias", spec.outputs)?
        } else {
            &[]
        };
        let Some(scale) = scale else {
            return Ok(backend.prepare(spec, &weight, bias)?);
        };
        let scale: Vec<f64> = scale.iter().map(|&s| f64::from(s)).collect();
        let shift = vec![0.0; spec.outputs];
        let (weight, bias) = fold(&weight, bias, &scale, &shift);
        Ok(backend.prepare(spec, &weight, &bias)?)
    }

    /// A convolution (this scope's `conv`) with the batch norm `bn` that follows it, folded in f64.
    pub fn conv_bn<B: Backend>(
        &self,
        bn: &Scope<'_>,
        backend: &B,
        spec: Conv,
        epsilon: f64,
    ) -> Result<B::Conv, NetError> {
        let weight = self.weight(&spec)?;
        let bias: &[f32] = if self.has("bias") {
            self.vector("bias", spec.outputs)?
        } else {
            &[]
        };
        let [gain, offset, mean, variance] = ["weight", "bias", "running_mean", "running_var"]
            .map(|name| bn.vector(name, spec.outputs));
        let (gain, offset, mean, variance) = (gain?, offset?, mean?, variance?);
        let scale: Vec<f64> = gain
            .iter()
            .zip(variance)
            .map(|(&g, &v)| f64::from(g) / (f64::from(v) + epsilon).sqrt())
            .collect();
        let shift: Vec<f64> = (0..spec.outputs)
            .map(|i| f64::from(offset[i]) - f64::from(mean[i]) * scale[i])
            .collect();
        let (weight, bias) = fold(&weight, bias, &scale, &shift);
        Ok(backend.prepare(spec, &weight, &bias)?)
    }

    /// The weight in the shape of `spec`; a linear layer's matrix after a flattened map is accepted.
    fn weight(&self, spec: &Conv) -> Result<Array, NetError> {
        let [kh, kw] = spec.kernel;
        let expected = vec![spec.outputs, spec.inputs / spec.groups, kh, kw];
        let array = self.array("weight")?;
        let flat = array.shape.first() == Some(&spec.outputs);
        let size: usize = expected.iter().product();
        let rank_fits = array.shape == expected || array.shape.len() < 4;
        if !flat || array.len() != size || !rank_fits {
            return Err(NetError::Shape {
                name: format!("{}weight", self.prefix),
                expected: format!("{expected:?}"),
                found: array.shape.clone(),
            });
        }
        Ok(Array {
            shape: expected,
            data: array.data.clone(),
        })
    }

    /// A layer or group norm over `channels`.
    pub fn norm(&self, channels: usize, epsilon: f32) -> Result<Norm, NetError> {
        Ok(Norm {
            weight: self.vector("weight", channels)?.to_vec(),
            bias: self.vector("bias", channels)?.to_vec(),
            epsilon,
        })
    }
}

fn fold(weight: &Array, bias: &[f32], scale: &[f64], shift: &[f64]) -> (Array, Vec<f32>) {
    let per_output = weight.len() / scale.len().max(1);
    let mut folded = weight.clone();
    for (chunk, s) in folded.data.chunks_exact_mut(per_output).zip(scale) {
        for w in chunk {
            *w = (f64::from(*w) * s) as f32;
        }
    }
    let bias = (0..scale.len())
        .map(|i| {
            let b = bias.get(i).map_or(0.0, |&b| f64::from(b));
            (b * scale[i] + shift[i]) as f32
        })
        .collect();
    (folded, bias)
}

/// The three linear layers that end AlexNet and VGG, over a map pooled to `side × side`.
pub struct DenseHead<B: Backend> {
    side: usize,
    layers: [B::Conv; 3],
}

impl<B: Backend> DenseHead<B> {
    /// Builds the layers at `indices` of `classifier`; `None` if the weights end before them.
    pub fn new(
        backend: &B,
        classifier: &Scope<'_>,
        indices: [usize; 3],
        channels: usize,
        side: usize,
    ) -> Result<Option<Self>, NetError> {
        const WIDTH: usize = 4096;
        let [first, second, last] = indices.map(|i| classifier.at(i));
        if !first.has("weight") {
            return Ok(None);
        }
        let classes = last.array("weight")?.shape[0];
        let relu = |c: Conv| c.activation(Activation::Relu);
        let layers = [
            first.conv(backend, relu(Conv::square(channels, WIDTH, side)))?,
            second.conv(backend, relu(Conv::linear(WIDTH, WIDTH)))?,
            last.conv(backend, Conv::linear(WIDTH, classes))?,
        ];
        Ok(Some(Self { side, layers }))
    }

    pub fn predict(&self, backend: &B, x: &B::Tensor) -> Result<Prediction<B>, NetError> {
        let x = backend.adaptive_mean(x, self.side, self.side)?;
        let x = backend.conv(&x, &self.layers[0], None)?;
        let embedding = backend.conv(&x, &self.layers[1], None)?;
        let logits = backend.conv(&embedding, &self.layers[2], None)?;
        Ok(Prediction { logits, embedding })
    }
}
