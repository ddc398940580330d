//! Denormal gradients are flushed to zero by every operation that computes with them: processors take ten times as long
//! and more for each, and gradients that vanish are full of them. Bits show it; times would only suggest it.

use foil::tensor::candle::{Candle, Differentiable, Tensor};
use foil::tensor::{
    Activation, Attention, Backend, Conv, Norm, Pool, QkvLayout, Resize, TensorError,
};

use crate::difference::{coarse, gradient_of};

/// Less than the smallest normal number by a factor of 118.
const DENORMAL: f32 = 1e-40;

fn vanish(what: &str, operation: impl Fn(&Candle, &Tensor) -> Result<Tensor, TensorError>) {
    let b = Candle;
    let x = b.variable(&coarse("x", [2, 12, 9, 9])).unwrap();
    let y = operation(&b, &Tensor::new(x.as_tensor()).unwrap()).unwrap();
    let shape = y.shape();
    let mut of_y = coarse("cotangent", [shape.n, shape.c, shape.h, shape.w]);
    of_y.data.fill(DENORMAL);
    let of_y = b.upload(&of_y).unwrap();
    let sum = (y.candle() * of_y.candle()).unwrap().sum_all().unwrap();
    let gradient = gradient_of(&sum.backward().unwrap(), &x);
    let left = gradient.data.iter().find(|v| **v != 0.0);
    assert_eq!(left, None, "{what}");
}

#[test]
fn gradients_that_are_denormal_are_flushed() {
    // Otherwise the gradients are zero before any operation sees them.
    assert!(std::hint::black_box(DENORMAL) * std::hint::black_box(1.0) != 0.0);
    let norm = Norm {
        weight: coarse("weight", [12]).data,
        bias: coarse("bias", [12]).data,
        epsilon: 1e-5,
        ..Default::default()
    };
    vanish("layer norm", |b, x| b.layer_norm(x, &norm));
    vanish("group norm", |b, x| {
        b.group_norm(x, 3, &norm, None, Activation::Silu)
    });
    for layout in [QkvLayout::Stacked, QkvLayout::PerHead] {
        let attention = Attention { heads: 2, layout };
        vanish("attention", |b, x| b.attention(x, attention, None));
    }
    // A ReLU only chooses.
    for activation in [Activation::Silu, Activation::Gelu] {
        vanish("activation", |b, x| Ok(b.activate(x, activation)));
    }
    vanish("affine", |b, x| {
        let order: Vec<usize> = (0..12).collect();
        b.affine(x, &order, &[0.75; 12], &[0.25; 12])
    });
    vanish("modulation", |b, x| {
        let modulation = b.upload(&coarse("modulation", [2, 24]))?;
        b.modulate(x, &modulation, Activation::None)
    });
    vanish("mean pooling", |b, x| b.pool(x, Pool::mean(3, 2)));
    vanish("means of cells", |b, x| b.adaptive_mean(x, 2, 2));
    vanish("global mean", |b, x| Ok(b.global_mean(x)));
    for resize in [Resize::HalfPixel, Resize::Antialias] {
        vanish("resize", |b, x| b.resize(x, 5, 13, resize));
    }
    vanish("feature distance", |b, x| {
        let other = b.upload(&coarse("other", [2, 12, 9, 9]))?;
        b.feature_distance(x, &other, &[0.5; 12])
    });
    for (kernel, groups) in [(1, 1), (3, 1), (3, 12)] {
        vanish("convolution", |b, x| {
            let spec = Conv::square(12, 12, kernel)
                .padding(kernel / 2)
                .groups(groups);
            let weight = coarse("weight", [12, 12 / groups, kernel, kernel]);
            b.conv(x, &b.prepare(spec, &weight, &[])?, None)
        });
    }
}
