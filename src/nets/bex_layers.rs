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

/// A batch norm that no convolution precedes: a scale and a shift for each channel, in f64 until the end.
pub struct ChannelNorm {
    order: Vec<usize>,
    scale: Vec<f32>,
    shift: Vec<f32>,
}

impl ChannelNorm {
    pub fn new(scope: &Scope<'_>, channels: usize) -> Result<Self, NetError> {
        let gain = wide(scope, "weight", channels)?;
        let offset = wide(scope, "bias", channels)?;
        let (mean, inverse) = statistics(scope, channels)?;
        let scale = (0..channels).map(|c| gain[c] * inverse[c]);
        let shift = (0..channels).map(|c| offset[c] - mean[c] * gain[c] * inverse[c]);
        Ok(Self::from_parts(scale, shift))
    }

    /// The norm alone, without learnt scale and shift.
    pub fn plain(scope: &Scope<'_>, channels: usize) -> Result<Self, NetError> {
        let (mean, inverse) = statistics(scope, channels)?;
        let shift = mean.iter().zip(&inverse).map(|(m, i)| -m * i);
        Ok(Self::from_parts(inverse.iter().copied(), shift))
    }

    fn from_parts(scale: impl Iterator<Item = f64>, shift: impl Iterator<Item = f64>) -> Self {
        let scale: Vec<f32> = scale.map(|s| s as f32).collect();
        Self {
            order: (0..scale.len()).collect(),
            scale,
            shift: shift.map(|s| s as f32).collect(),
        }
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
    let variance = wide(scope, "running_var", channels)?;
    let inverse = variance.iter().map(|v| 1.0 / (v + EPSILON).sqrt());
    Ok((wide(scope, "running_mean", channels)?, inverse.collect()))
}

fn wide(scope: &Scope<'_>, name: &str, channels: usize) -> Result<Vec<f64>, NetError> {
    let array = scope.shaped(name, &[channels])?;
    Ok(array.data.iter().map(|&v| f64::from(v)).collect())
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
/// `outputs` rows and the stored vectors as they are (as in evaluation); a plain `weight` is taken as it is. The batch
/// norm without learnt scale and shift that follows, if there is one, is folded in. All in f64.
pub fn spectral_conv<B: Backend>(
    backend: &B,
    scope: &Scope<'_>,
    norm: Option<&Scope<'_>>,
    spec: Conv,
) -> Result<B::Conv, NetError> {
    let [kh, kw] = spec.kernel;
    let shape = [spec.outputs, spec.inputs, kh, kw];
    let rest = spec.inputs * kh * kw;
    let (weight, sigma) = match scope.has("weight") {
        true => (scope.shaped("weight", &shape)?, 1.0),
        false => {
            let weight = scope.shaped("weight_orig", &shape)?;
            let u = wide(scope, "weight_u", spec.outputs)?;
            let v = wide(scope, "weight_v", rest)?;
            (weight, bilinear(&u, &weight.data, &v))
        }
    };
    if sigma == 0.0 || !sigma.is_finite() {
        return Err(NetError::Config(format!(
            "the spectral norm of a convolution {shape:?} is {sigma}; the weights are unusable"
        )));
    }
    let (mean, inverse) = match norm {
        Some(norm) => statistics(norm, spec.outputs)?,
        None => (vec![0.0; spec.outputs], vec![1.0; spec.outputs]),
    };
    let rows = weight.data.chunks_exact(rest.max(1)).zip(&inverse);
    let folded = rows
        .flat_map(|(row, i)| row.iter().map(move |&w| (f64::from(w) / sigma * i) as f32))
        .collect();
    let bias: Vec<f32> = match norm {
        Some(_) => mean
            .iter()
            .zip(&inverse)
            .map(|(m, i)| (-m * i) as f32)
            .collect(),
        None => Vec::new(),
    };
    Ok(backend.prepare(spec, &Array::new(shape, folded)?, &bias)?)
}

/// `uᵀ W v`, with `W` row by row.
fn bilinear(u: &[f64], matrix: &[f32], v: &[f64]) -> f64 {
    let rows = matrix.chunks_exact(v.len().max(1)).zip(u);
    rows.map(|(row, u)| {
        let products = row.iter().zip(v).map(|(&w, v)| f64::from(w) * v);
        u * products.sum::<f64>()
    })
    .sum()
}
