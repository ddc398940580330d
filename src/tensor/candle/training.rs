//! The candle device with the parameters of a network as variables: every network that is written against
//! [`Backend`] can be trained on it as it is.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use candle_core::Var;

use super::batch_norm::{Running, TrainBatchNorm};
use super::operation::{binary, ternary};
use super::tensor::from_candle;
use super::{Candle, Prepared, Tensor, TrainableNorm, activation};
use crate::{
    Activation, Array, Attention, Backend, Conv, Layer, Norm, Part, Pool, Resize, Shape, StateDict,
    TensorError, Then,
};

/// Ends of names whose values are statistics and not parameters.
const STATISTICS: [&str; 3] = ["running_mean", "running_var", "num_batches_tracked"];

/// Candle, with variables for the parameters of one network.
///
/// Build the network on it once, run it, call `backward` on a loss, move [`Training::variables`] against their
/// gradients, and run it again. Batch norms use the statistics of each batch and keep running ones.
pub struct Training {
    variables: BTreeMap<String, Var>,
    running: BTreeMap<String, Arc<Mutex<Running>>>,
}

impl Training {
    /// Variables with the values of `dict` to begin with. Names of which `constant` is true are not trained.
    pub fn new(dict: &StateDict, constant: impl Fn(&str) -> bool) -> Result<Self, TensorError> {
        let mut variables = BTreeMap::new();
        let mut running = BTreeMap::new();
        for (name, array) in dict.iter() {
            if let Some(prefix) = name.strip_suffix("running_mean") {
                let variance = dict.get(&format!("{prefix}running_var"));
                let variance = variance.map_or_else(|| vec![1.0; array.len()], |v| v.data.clone());
                let mean = array.data.clone();
                let both = Arc::new(Mutex::new(Running { mean, variance }));
                running.insert(prefix.to_owned(), both);
            } else if !STATISTICS.iter().any(|end| name.ends_with(end)) && !constant(name) {
                let tensor = candle_core::Tensor::from_slice(
                    &array.data,
                    array.shape.as_slice(),
                    &candle_core::Device::Cpu,
                );
                let variable = tensor.and_then(|t| Var::from_tensor(&t));
                variables.insert(name.to_owned(), variable.map_err(from_candle)?);
            }
        }
        Ok(Self { variables, running })
    }

    /// The variables by name.
    pub fn variables(&self) -> &BTreeMap<String, Var> {
        &self.variables
    }

    /// `dict` with the present values of variables and running statistics.
    pub fn values(&self, dict: &StateDict) -> Result<StateDict, TensorError> {
        let mut now = dict.clone();
        for (name, variable) in &self.variables {
            let values = variable.flatten_all().and_then(|t| t.to_vec1::<f32>());
            let data = values.map_err(from_candle)?;
            now.insert(name, Array::new(variable.dims(), data)?);
        }
        for (prefix, running) in &self.running {
            let running = running.lock().unwrap_or_else(PoisonError::into_inner);
            for (name, values) in [
                ("running_mean", &running.mean),
                ("running_var", &running.variance),
            ] {
                now.insert(
                    format!("{prefix}{name}"),
                    Array::new([values.len()], values.clone())?,
                );
            }
        }
        Ok(now)
    }

    fn variable(&self, name: &str) -> Option<&Var> {
        self.variables.get(name)
    }

    /// Scale and shift of a norm.
    fn parameters(&self, norm: &Norm) -> (Option<&Var>, Option<&Var>) {
        let named = |end: &str| self.variable(&format!("{}{end}", norm.name));
        (named("weight"), named("bias"))
    }
}

/// A layer whose parameters may be variables.
pub enum Trained {
    Plain(Prepared),
    Normed {
        /// Without the activation.
        conv: Prepared,
        weight: Var,
        bias: Var,
        running: Option<Arc<Mutex<Running>>>,
        epsilon: f64,
        activation: Activation,
    },
    Scaled {
        conv: Prepared,
        scale: Var,
        activation: Activation,
    },
}

impl Trained {
    fn run(&self, x: &Tensor, residual: Option<&Tensor>) -> Result<Tensor, TensorError> {
        let (y, activation) = match self {
            Trained::Plain(conv) => return conv.run(x, residual),
            Trained::Normed {
                conv,
                weight,
                bias,
                running,
                epsilon,
                activation,
            } => {
                let y = conv.run(x, None)?;
                let norm = TrainBatchNorm::new(*epsilon, running.clone());
                let y = ternary(norm, y.candle(), weight.as_tensor(), bias.as_tensor())?;
                (y, *activation)
            }
            Trained::Scaled {
                conv,
                scale,
                activation,
            } => {
                let y = conv.run(x, None)?;
                let scale = scale.flatten_all().map_err(from_candle)?;
                let y = y.candle().broadcast_mul(&scale).map_err(from_candle)?;
                (Tensor::new(&y)?, *activation)
            }
        };
        let y = match residual {
            None => y,
            Some(r) => {
                crate::rules::equal("residual", y.shape(), r.shape())?;
                binary(activation::Add, y.candle(), r.candle())?
            }
        };
        Ok(Candle.activate(&y, activation))
    }
}

macro_rules! as_candle {
    ($(fn $name:ident($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty;)*) => {
        $(fn $name(&self, $($arg: $ty),*) -> $ret {
            Candle.$name($($arg),*)
        })*
    };
}

impl Backend for Training {
    type Tensor = Tensor;
    type Conv = Trained;

    fn prepare(&self, conv: Conv, weight: &Array, bias: &[f32]) -> Result<Trained, TensorError> {
        Ok(Trained::Plain(Candle.prepare(conv, weight, bias)?))
    }

    fn prepare_layer(&self, conv: Conv, layer: &Layer<'_>) -> Result<Trained, TensorError> {
        let Some(weight) = self.variable(&format!("{}weight", layer.name)) else {
            let (weight, bias) = layer.folded();
            return self.prepare(conv, &weight, &bias);
        };
        let bias = self.variable(&format!("{}bias", layer.name));
        let plain = conv.activation(Activation::None);
        let trainable = |conv| Candle.prepare_trainable(conv, weight, bias);
        match &layer.then {
            Then::Nothing => Ok(Trained::Plain(trainable(conv)?)),
            Then::Scale(name, values) => match self.variable(name) {
                Some(scale) => Ok(Trained::Scaled {
                    conv: trainable(plain)?,
                    scale: scale.clone(),
                    activation: conv.activation,
                }),
                None => Err(missing(name, values.len())),
            },
            Then::BatchNorm(norm) => {
                let [w, b] = ["weight", "bias"].map(|end| format!("{}{end}", norm.name));
                match (self.variable(&w), self.variable(&b)) {
                    (Some(weight), Some(bias)) => Ok(Trained::Normed {
                        conv: trainable(plain)?,
                        weight: weight.clone(),
                        bias: bias.clone(),
                        running: self.running.get(&norm.name).cloned(),
                        epsilon: norm.epsilon,
                        activation: conv.activation,
                    }),
                    _ => Err(missing(&w, norm.weight.len())),
                }
            }
        }
    }

    fn conv(
        &self,
        x: &Tensor,
        conv: &Trained,
        residual: Option<&Tensor>,
    ) -> Result<Tensor, TensorError> {
        conv.run(x, residual)
    }

    fn concat(&self, parts: &[Part<'_, Self>]) -> Result<Tensor, TensorError> {
        let whole = parts.iter().map(|part| match *part {
            Part::Tensor(x) => Ok(x.clone()),
            Part::Conv(x, conv) => conv.run(x, None),
            Part::Pool(x, pool) => Candle.pool(x, pool),
        });
        let whole = whole.collect::<Result<Vec<_>, _>>()?;
        let parts: Vec<_> = whole.iter().map(Part::Tensor).collect();
        Candle.concat(&parts)
    }

    fn layer_norm(&self, x: &Tensor, norm: &Norm) -> Result<Tensor, TensorError> {
        match self.parameters(norm) {
            (Some(weight), Some(bias)) => {
                Candle.trainable_layer_norm(x, weight, bias, norm.epsilon)
            }
            _ => Candle.layer_norm(x, norm),
        }
    }

    fn group_norm(
        &self,
        x: &Tensor,
        groups: usize,
        norm: &Norm,
        modulation: Option<&Tensor>,
        activation: Activation,
    ) -> Result<Tensor, TensorError> {
        match self.parameters(norm) {
            (Some(weight), Some(bias)) => {
                let norm = TrainableNorm {
                    groups,
                    weight,
                    bias,
                    epsilon: norm.epsilon,
                };
                Candle.trainable_group_norm(x, norm, modulation, activation)
            }
            _ => Candle.group_norm(x, groups, norm, modulation, activation),
        }
    }

    as_candle! {
        fn describe() -> String;
        fn upload(array: &Array) -> Result<Tensor, TensorError>;
        fn upload_pixels(images: &[&[u8]], height: usize, width: usize) -> Result<Tensor, TensorError>;
        fn download(tensor: &Tensor) -> Result<Array, TensorError>;
        fn shape(tensor: &Tensor) -> Shape;
        fn select(tensor: &Tensor, index: usize) -> Tensor;
        fn stack(tensors: &[Tensor]) -> Result<Tensor, TensorError>;
        fn pool(x: &Tensor, pool: Pool) -> Result<Tensor, TensorError>;
        fn global_mean(x: &Tensor) -> Tensor;
        fn adaptive_mean(x: &Tensor, rows: usize, columns: usize) -> Result<Tensor, TensorError>;
        fn attention(qkv: &Tensor, attention: Attention, bias: Option<&Tensor>) -> Result<Tensor, TensorError>;
        fn add(a: &Tensor, b: &Tensor) -> Result<Tensor, TensorError>;
        fn activate(x: &Tensor, activation: Activation) -> Tensor;
        fn modulate(x: &Tensor, modulation: &Tensor, activation: Activation) -> Result<Tensor, TensorError>;
        fn affine(x: &Tensor, order: &[usize], scale: &[f32], shift: &[f32]) -> Result<Tensor, TensorError>;
        fn windows(x: &Tensor, size: usize, shift: [usize; 2]) -> Tensor;
        fn unwindows(x: &Tensor, size: usize, shift: [usize; 2], h: usize, w: usize) -> Tensor;
        fn merge_patches(x: &Tensor) -> Tensor;
        fn view(x: &Tensor, shape: Shape) -> Result<Tensor, TensorError>;
        fn upsample(x: &Tensor, factor: usize) -> Result<Tensor, TensorError>;
        fn resize(x: &Tensor, height: usize, width: usize, mode: Resize) -> Result<Tensor, TensorError>;
        fn crop(x: &Tensor, top: usize, left: usize, height: usize, width: usize) -> Result<Tensor, TensorError>;
        fn feature_distance(a: &Tensor, b: &Tensor, head: &[f32]) -> Result<Tensor, TensorError>;
        fn mean_feature_distance(a: &Tensor, b: &Tensor, head: &[f32]) -> Result<Vec<f64>, TensorError>;
    }
}

fn missing(name: &str, len: usize) -> TensorError {
    TensorError::Shape {
        operation: "a layer in training",
        expected: format!("a variable {name} of {len} values"),
        found: "none".into(),
    }
}
