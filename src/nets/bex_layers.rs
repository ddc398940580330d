//! What the generator and the encoder of the benchmark bex share: batch norms in front of activations, multi-layer
//! perceptrons, convolutions with spectral norm.

use super::NetError;
use super::layers::Scope;
use crate::tensor::{Activation, Array, Backend, Conv};

pub const EPSILON: f64 = 1e-5;

/// The scope in which a checkpoint of the original package holds `name`: at the root, or below what a training script
/// has put in front of it (`model.`, `module.`, `generator.`).
pub fn package_scope<'a>(scope: &Scope<'a>, name: &str) -> Scope<'a> {
    let wrappers = ["model", "module", "generator", "oracle"];
    let found = wrappers.iter().find(|w| scope.at(w).has(name));
    found.map_or_else(|| scope.clone(), |w| scope.at(w))
}

/// The sides of a weight: outputs and inputs.
pub fn sides(scope: &Scope<'_>, name: &str) -> Result<[usize; 2], NetError> {
    let array = scope.array(name)?;
    match array.shape[..] {
        [outputs, inputs, ..] => Ok([outputs, inputs]),
        _ => Err(NetError::Shape {
            name: name.into(),
            expected: "[outputs, inputs, …]".into(),
            found: array.shape.clone(),
        }),
    }
}

/// A batch norm that no convolution precedes: a scale and a shift for each channel.
pub struct ChannelNorm {
    order: Vec<usize>,
    scale: Vec<f32>,
    shift: Vec<f32>,
}

impl ChannelNorm {
    pub fn new(scope: &Scope<'_>, channels: usize) -> Result<Self, NetError> {
        let gain = &scope.shaped("weight", &[channels])?.data;
        let offset = &scope.shaped("bias", &[channels])?.data;
        let (mean, inverse) = statistics(scope, channels)?;
        let scale: Vec<f64> = (0..channels)
            .map(|c| f64::from(gain[c]) * inverse[c])
            .collect();
        Ok(Self {
            order: (0..channels).collect(),
            shift: (0..channels)
                .map(|c| (f64::from(offset[c]) - mean[c] * scale[c]) as f32)
                .collect(),
            scale: scale.iter().map(|&s| s as f32).collect(),
        })
    }

    pub fn run<B: Backend>(
        &self,
        b: &B,
        x: &B::Tensor,
        activation: Activation,
    ) -> Result<B::Tensor, NetError> {
        let x = b.affine(x, &self.order, &self.scale, &self.shift)?;
        Ok(b.activate(&x, activation))
    }
}

/// Means and `1/√(variance + ε)` of a batch norm.
pub fn statistics(scope: &Scope<'_>, channels: usize) -> Result<(Vec<f64>, Vec<f64>), NetError> {
    let wide = |name: &str| -> Result<Vec<f64>, NetError> {
        let array = scope.shaped(name, &[channels])?;
        Ok(array.data.iter().map(|&v| f64::from(v)).collect())
    };
    let variance = wide("running_var")?;
    let inverse = variance.iter().map(|v| 1.0 / (v + EPSILON).sqrt());
    Ok((wide("running_mean")?, inverse.collect()))
}

/// Linear layers without bias, each with a batch norm and a leaky ReLU, and their number of outputs.
pub fn hidden_layers<B: Backend>(
    backend: &B,
    mlp: &Scope<'_>,
    mut inputs: usize,
) -> Result<(Vec<B::Conv>, usize), NetError> {
    let mut layers = Vec::new();
    for index in 0.. {
        let linear = mlp.at(format!("linear{index}"));
        if !linear.has("weight") {
            break;
        }
        let [outputs, _] = sides(&linear, "weight")?;
        let spec = Conv::linear(inputs, outputs).activation(Activation::LeakyRelu);
        let norm = mlp.at(format!("bn{index}"));
        layers.push(linear.conv_bn(&norm, backend, spec, EPSILON)?);
        inputs = outputs;
    }
    Ok((layers, inputs))
}

/// Runs layers one after another.
pub fn run_layers<B: Backend>(
    b: &B,
    layers: &[B::Conv],
    x: &B::Tensor,
) -> Result<B::Tensor, NetError> {
    let mut x = x.clone();
    for layer in layers {
        x = b.conv(&x, layer, None)?;
    }
    Ok(x)
}

/// A convolution with torch's first form of spectral norm: `weight_orig / (uᵀ W v)`, with `W` the weight as a matrix of
/// `outputs` rows and the stored vectors as they are (as in evaluation), in f64. A plain `weight` is taken as it is.
pub fn spectral_conv<B: Backend>(
    backend: &B,
    scope: &Scope<'_>,
    spec: Conv,
) -> Result<B::Conv, NetError> {
    if scope.has("weight") {
        return scope.conv(backend, spec);
    }
    let [kh, kw] = spec.kernel;
    let shape = [spec.outputs, spec.inputs, kh, kw];
    let rest = spec.inputs * kh * kw;
    let weight = scope.shaped("weight_orig", &shape)?;
    let u = &scope.shaped("weight_u", &[spec.outputs])?.data;
    let v = &scope.shaped("weight_v", &[rest])?.data;
    let rows = weight.data.chunks_exact(rest.max(1)).zip(u);
    let sigma: f64 = rows
        .map(|(row, &u)| {
            let products = row
                .iter()
                .zip(v)
                .map(|(&w, &v)| f64::from(w) * f64::from(v));
            f64::from(u) * products.sum::<f64>()
        })
        .sum();
    if sigma == 0.0 || !sigma.is_finite() {
        return Err(NetError::Config(format!(
            "the spectral norm of a convolution {shape:?} is {sigma}; the weights are unusable"
        )));
    }
    let divided = weight.data.iter().map(|&w| (f64::from(w) / sigma) as f32);
    let weight = Array::new(shape, divided.collect())?;
    Ok(backend.prepare(spec, &weight, &[])?)
}
