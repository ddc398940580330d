//! Gradients by differences, and the comparison.

use candle_core::Var;
use foil::tensor::Array;
use foil::tensor::candle::{Candle, Differentiable, Tensor};
use foil::tensor::{Backend, TensorError};

use crate::host::{Host, random};

/// Of the largest entry of a gradient.
const TOLERANCE: f64 = 2e-5;

/// How far apart the points of a difference lie. Powers of two: with inputs that are multiples of 2⁻¹² every point is
/// exact in f32 too, so references may take f32 arrays.
#[derive(Clone, Copy)]
pub enum Step {
    /// For smooth functions; the fourth-order error is below 1e-10.
    Smooth,
    /// For pieces of straight lines: far smaller than the distance of any input from a kink.
    Straight,
}

impl Step {
    fn size(self) -> f64 {
        match self {
            Step::Smooth => 2f64.powi(-9),
            Step::Straight => 2f64.powi(-26),
        }
    }
}

/// Seeded values in [-1, 1) that are multiples of 2⁻¹².
pub fn coarse(name: &str, shape: impl Into<Vec<usize>>) -> Array {
    let mut array = random(name, shape);
    for v in &mut array.data {
        *v = (*v * 4096.0).round() / 4096.0;
    }
    array
}

/// NCHW values as an f32 array; exact for multiples of 2⁻¹² and the steps of [`Step::Smooth`].
pub fn array(host: &Host, shape: impl Into<Vec<usize>>) -> Array {
    Array::new(shape, host.data.iter().map(|&v| v as f32).collect()).expect("the same size")
}

/// The gradient of a variable, as NCHW f64.
pub fn gradient_of(grads: &candle_core::backprop::GradStore, var: &Var) -> Host {
    let gradient = grads.get(var.as_tensor()).expect("a gradient");
    Host::from(
        &Candle
            .download(&Tensor::new(gradient).expect("an activation"))
            .unwrap(),
    )
}

/// `Σ v · y` for a seeded `v`, and that `v`.
pub fn weighted_sum(on: &impl Differentiable, y: &Tensor) -> (candle_core::Tensor, Host) {
    let shape = y.shape();
    let v = coarse("cotangent", [shape.n, shape.c, shape.h, shape.w]);
    let up = on.upload(&v).expect("upload");
    let loss = (y.candle() * up.candle()).and_then(|p| p.sum_all());
    (loss.expect("a sum"), Host::from(&v))
}

/// The largest difference of two gradients must be within the tolerance of the largest entry.
pub fn assert_gradient(what: &str, got: &[f64], expected: &[f64]) {
    assert_eq!(got.len(), expected.len(), "{what}: size");
    let scale = expected.iter().fold(0.0f64, |m, v| m.max(v.abs()));
    assert!(
        scale > 0.0,
        "{what}: the gradient is zero, nothing is tested"
    );
    for (i, (g, e)) in got.iter().zip(expected).enumerate() {
        assert!(
            (g - e).abs() <= TOLERANCE * scale,
            "{what}: entry {i}: expected {e:e}, got {g:e}; the largest is {scale:e}"
        );
    }
}

/// The derivative of `loss` by each value of `inputs[which]`.
pub fn difference(
    inputs: &[Host],
    which: usize,
    step: Step,
    loss: impl Fn(&[Host]) -> f64,
) -> Vec<f64> {
    let h = step.size();
    let mut moved = inputs.to_vec();
    (0..inputs[which].data.len())
        .map(|i| {
            let centre = inputs[which].data[i];
            let mut at = |offset: f64| {
                moved[which].data[i] = centre + offset * h;
                loss(&moved)
            };
            let near = at(1.0) - at(-1.0);
            let far = at(2.0) - at(-2.0);
            moved[which].data[i] = centre;
            (8.0 * near - far) / (12.0 * h)
        })
        .collect()
}

/// Compares the gradients of all inputs of an operation.
pub fn check(
    on: &impl Differentiable,
    what: &str,
    inputs: &[Array],
    step: Step,
    device: impl Fn(&[Tensor]) -> Result<Tensor, TensorError>,
    plain: impl Fn(&[Host]) -> Host,
) {
    let vars: Vec<Var> = inputs
        .iter()
        .map(|x| on.variable(x).expect("a variable"))
        .collect();
    let tensors: Vec<Tensor> = vars
        .iter()
        .map(|v| Tensor::new(v.as_tensor()).expect("an activation"))
        .collect();
    let y = device(&tensors).expect(what);
    let (loss, v) = weighted_sum(on, &y);
    let grads = loss.backward().expect("backward");
    let hosts: Vec<Host> = inputs.iter().map(Host::from).collect();
    for (which, var) in vars.iter().enumerate() {
        let expected = difference(&hosts, which, step, |hosts| dot(&plain(hosts), &v));
        let got = gradient_of(&grads, var);
        assert_gradient(&format!("{what}, input {which}"), &got.data, &expected);
    }
}

/// `Σ y · v`.
pub fn dot(y: &Host, v: &Host) -> f64 {
    assert_eq!(y.data.len(), v.data.len(), "the reference's shape");
    y.data.iter().zip(&v.data).map(|(y, v)| y * v).sum()
}
