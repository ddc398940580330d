//! Building layers from named tensors.

use super::{NetError, Prediction};
use crate::tensor::{
    Activation, Array, Backend, BatchNorm, Conv, Kept, Layer, Norm, StateDict, Then,
};

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

    /// A convolution or linear layer `weight` with its `bias`. A bias that is lacking is an error: without it the network
    /// would give plausible, wrong answers.
    pub fn conv<B: Backend>(&self, backend: &B, spec: Conv) -> Result<B::Conv, NetError> {
        // A file of something else lacks both, and is told of its weight.
        if self.has("weight") {
            self.vector("bias", spec.outputs)?;
        }
        self.conv_then(backend, spec, Then::Nothing)
    }

    /// A layer that is published without a bias; one that is there is taken.
    pub fn unbiased_conv<B: Backend>(&self, backend: &B, spec: Conv) -> Result<B::Conv, NetError> {
        self.conv_then(backend, spec, Then::Nothing)
    }

    /// The same with weight and bias rounded to a type.
    pub fn rounded_conv<B: Backend>(
        &self,
        backend: &B,
        spec: Conv,
        kept: Kept,
    ) -> Result<B::Conv, NetError> {
        if kept == Kept::F32 {
            return self.conv(backend, spec);
        }
        let mut weight = self.weight(&spec)?;
        weight.data.iter_mut().for_each(|v| *v = kept.round(*v));
        let bias = self.vector("bias", spec.outputs)?;
        let bias: Vec<f32> = bias.iter().map(|&v| kept.round(v)).collect();
        let layer = Layer {
            name: self.prefix.clone(),
            weight,
            bias: &bias,
            then: Then::Nothing,
        };
        Ok(backend.prepare_layer(spec, &layer)?)
    }

    /// The same with each output multiplied by the number of `scale`.
    pub fn scaled_conv<B: Backend>(
        &self,
        backend: &B,
        spec: Conv,
        (scope, scale): (&Scope<'_>, &str),
    ) -> Result<B::Conv, NetError> {
        self.vector("bias", spec.outputs)?;
        let values = scope.vector(scale, spec.outputs)?;
        let name = format!("{}{scale}", scope.prefix);
        self.conv_then(backend, spec, Then::Scale(name, values))
    }

    /// A convolution (this scope's `conv`) with the batch norm `bn` that follows it.
    pub fn conv_bn<B: Backend>(
        &self,
        bn: &Scope<'_>,
        backend: &B,
        spec: Conv,
        epsilon: f64,
    ) -> Result<B::Conv, NetError> {
        let [weight, bias, mean, variance] = ["weight", "bias", "running_mean", "running_var"]
            .map(|name| bn.vector(name, spec.outputs));
        let norm = BatchNorm {
            name: bn.prefix.clone(),
            weight: weight?,
            bias: bias?,
            mean: mean?,
            variance: variance?,
            epsilon,
        };
        self.conv_then(backend, spec, Then::BatchNorm(norm))
    }

    fn conv_then<B: Backend>(
        &self,
        backend: &B,
        spec: Conv,
        then: Then<'_>,
    ) -> Result<B::Conv, NetError> {
        let bias: &[f32] = if self.has("bias") {
            self.vector("bias", spec.outputs)?
        } else {
            &[]
        };
        let layer = Layer {
            name: self.prefix.clone(),
            weight: self.weight(&spec)?,
            bias,
            then,
        };
        Ok(backend.prepare_layer(spec, &layer)?)
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
            name: self.prefix.clone(),
            weight: self.vector("weight", channels)?.to_vec(),
            bias: self.vector("bias", channels)?.to_vec(),
            epsilon,
        })
    }
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
