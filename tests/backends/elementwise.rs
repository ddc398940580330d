//! Sums, activations, per-channel affine maps.

use foil::tensor::{Activation, Array, Backend};

use crate::conv::ACTIVATIONS;
use crate::host::{Host, assert_close, assert_equal, down, random, up};

/// `erfc(x)` in f64 to about 1e-15: the series of `erf` below 2.5, Lentz's continued fraction above.
fn erfc(x: f64) -> f64 {
    if x < 0.0 {
        return 2.0 - erfc(-x);
    }
    let front = (-x * x).exp() / std::f64::consts::PI.sqrt();
    if x < 2.5 {
        // erf(x) = 2/√π · e^(−x²) · Σ 2^k x^(2k+1) / (2k+1)!!, all terms positive.
        let (mut term, mut sum) = (x, x);
        for k in 1..200 {
            term *= 2.0 * x * x / (2 * k + 1) as f64;
            sum += term;
            if term < sum * 1e-17 {
                break;
            }
        }
        return 1.0 - 2.0 * front * sum;
    }
    // erfc(x) = e^(−x²)/√π · 1/(x + ½/(x + 1/(x + 3/2/(x + …)))), from the inside out.
    let mut fraction = x;
    for k in (1..200).rev() {
        fraction = x + k as f64 / 2.0 / fraction;
    }
    front / fraction
}

pub fn activation_f64(activation: Activation, x: f64) -> f64 {
    match activation {
        Activation::None => x,
        Activation::Relu => x.max(0.0),
        Activation::Relu6 => x.clamp(0.0, 6.0),
        Activation::Silu => x / (1.0 + (-x).exp()),
        Activation::Gelu => 0.5 * x * erfc(-x / std::f64::consts::SQRT_2),
        Activation::LeakyRelu => x.max(0.2 * x),
        Activation::Tanh => x.tanh(),
    }
}

pub fn add_repeats_over_pixels_and_images<B: Backend>(b: &B) {
    let shape = [3, 17, 4, 5];
    let a = random("a", shape);
    for other in [shape, [1, 17, 4, 5], [3, 17, 1, 1], [1, 17, 1, 1]] {
        let o = random("b", other);
        let got = down(b, &b.add(&up(b, &a), &up(b, &o)).unwrap());
        let (ha, ho) = (Host::from(&a), Host::from(&o));
        let expected = Host::build(shape, |n, c, y, x| {
            let (y_o, x_o) = if ho.h * ho.w == 1 { (0, 0) } else { (y, x) };
            // One rounding of the exact sum, as f32 addition is defined.
            f64::from((ha.at(n, c, y, x) + ho.at(n.min(ho.n - 1), c, y_o, x_o)) as f32)
        });
        assert_equal(&format!("add {other:?}"), &got, &expected);
    }
}

/// Values from -12 to 12 in steps that are no powers of two, and a few special ones.
fn ramp() -> Array {
    let mut values: Vec<f32> = (0..24_000)
        .map(|i| -12.0 + i as f32 * 0.001_000_1)
        .collect();
    values.extend([0.0, -0.0, 6.0, f32::MIN_POSITIVE, -f32::MIN_POSITIVE, 1e-20]);
    let n = values.len();
    Array::new([1, 1, 1, n], values).expect("one row")
}

pub fn activations<B: Backend>(b: &B) {
    let x = ramp();
    for activation in ACTIVATIONS {
        let got = down(b, &b.activate(&up(b, &x), activation));
        let expected = Host::from(&x).map(|v| activation_f64(activation, v));
        let what = format!("{activation:?}");
        match activation {
            // A comparison rounds nothing.
            Activation::None | Activation::Relu | Activation::Relu6 => {
                assert_equal(&what, &got, &expected);
            }
            // An f32 exponential and a division, or an error function to 2e-7 with two roundings, times x/2.
            Activation::Silu | Activation::Gelu => assert_close(&what, &got, &expected, |i| {
                2.5e-7 * f64::from(x.data[i]).abs().max(1e-30)
            }),
            // 0.2 in f32 and one product.
            Activation::LeakyRelu => assert_close(&what, &got, &expected, |i| {
                1e-7 * f64::from(x.data[i]).abs().max(1e-30)
            }),
            // An exponential and a division, also near 0: three units in the last place.
            Activation::Tanh => assert_close(&what, &got, &expected, |i| {
                4e-7 * f64::from(x.data[i]).tanh().abs().max(1e-30)
            }),
        }
    }
}

pub fn gelu_is_exact_over_its_range<B: Backend>(b: &B) {
    // The tanh form of GELU is off by up to 4.7e-4. An error function to 2e-7 and two roundings, times x/2: 2.5e-7.
    let x = ramp();
    let got = down(b, &b.activate(&up(b, &x), Activation::Gelu));
    let mut worst = 0.0f64;
    for (g, v) in got.data.iter().zip(&x.data) {
        let expected = activation_f64(Activation::Gelu, f64::from(*v));
        worst = worst.max((g - expected).abs() / f64::from(*v).abs().max(1.0));
    }
    assert!(worst <= 2.5e-7, "worst error {worst:e} of max(1, |x|)");
    // Known values of Φ(1) and Φ(−2): 0.841344746…, 0.022750131948….
    assert!((activation_f64(Activation::Gelu, 1.0) - 0.841_344_746_068_543).abs() < 1e-14);
    assert!((activation_f64(Activation::Gelu, -2.0) + 2.0 * 0.022_750_131_948_179).abs() < 1e-14);
}

/// Far from zero SiLU and GELU are 0 and x, and tanh is ±1, to the last bit.
fn check_huge<B: Backend>(b: &B, activation: Activation) {
    let huge = [
        -3e38f32, -1e30, -1e4, -500.0, -100.0, 100.0, 500.0, 1e4, 1e30, 3e38,
    ];
    let x = Array::new([1, huge.len()], huge.to_vec()).unwrap();
    let got = down(b, &b.activate(&up(b, &x), activation));
    for (g, v) in got.data.iter().zip(huge) {
        let expected = match activation {
            Activation::None => f64::from(v),
            Activation::Relu6 => f64::from(v.clamp(0.0, 6.0)),
            Activation::LeakyRelu => f64::from(v.max(0.2 * v)),
            Activation::Tanh => f64::from(v.signum()),
            _ => f64::from(v.max(0.0)),
        };
        let limit = if v < 0.0 { 1e-30 } else { 0.0 };
        assert!(
            (g - expected).abs() <= limit,
            "{activation:?}({v:e}): expected {expected:e}, got {g:e}"
        );
    }
}

pub fn activations_of_huge_values<B: Backend>(b: &B) {
    for activation in ACTIVATIONS {
        if activation != Activation::Gelu {
            check_huge(b, activation);
        }
    }
}

pub fn gelu_of_huge_values<B: Backend>(b: &B) {
    check_huge(b, Activation::Gelu);
}

pub fn nan_stays_nan<B: Backend>(b: &B) {
    // A network with a broken weight must not look healthy behind its first ReLU.
    for activation in ACTIVATIONS {
        let x = up(b, &Array::new([1, 3], vec![1.0, f32::NAN, -1.0]).unwrap());
        let got = down(b, &b.activate(&x, activation));
        assert!(got.data[1].is_nan(), "{activation:?}: {}", got.data[1]);
        assert!(got.data[0].is_finite() && got.data[2].is_finite());
    }
}

pub fn affine_reorders_channels<B: Backend>(b: &B) {
    let x = random("affine", [2, 4, 3, 5]);
    let host = Host::from(&x);
    for (order, scale, shift) in [
        (vec![0, 1, 2, 3], vec![1.0; 4], vec![0.0; 4]),
        (
            vec![2, 1, 0, 3],
            vec![0.5, -2.0, 3.0, 1.0 / 255.0],
            vec![1.0, 0.25, -7.0, 0.0],
        ),
        // Channels may be dropped and repeated.
        (vec![3, 3, 1], vec![1.0, 2.0, 3.0], vec![0.0, -1.0, 1.0]),
        (vec![0; 6], vec![0.1; 6], vec![0.2; 6]),
    ] {
        let got = down(b, &b.affine(&up(b, &x), &order, &scale, &shift).unwrap());
        let expected = Host::build([2, order.len(), 3, 5], |n, c, y, column| {
            host.at(n, order[c], y, column) * f64::from(scale[c]) + f64::from(shift[c])
        });
        // A product and a sum of size up to 10, each rounded once.
        assert_close(&format!("order {order:?}"), &got, &expected, |_| 1e-6);
    }
}
