//! Exponential, quotient and activations of a register of values, and of single values in loops the compiler
//! vectorises: one formula for both.

use super::simd::Lanes;
use crate::Activation;

/// Most values of a register.
const WIDEST: usize = 16;

/// Slope of the leaky ReLU below zero.
pub const LEAK: f32 = 0.2;

/// A single value as [`Lanes`]: for loops over slices of any length, which the compiler turns into vector code.
#[derive(Clone, Copy)]
pub struct Single(pub f32);

impl Lanes for Single {
    const COUNT: usize = 1;
    const PIXELS: usize = 1;

    #[inline(always)]
    fn splat(value: f32) -> Self {
        Single(value)
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller promises a readable value.
        Single(unsafe { from.read() })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the caller promises a writable value.
        unsafe { to.write(self.0) }
    }

    #[inline(always)]
    fn plus_product(self, a: Self, b: Self) -> Self {
        Single(self.0 + a.0 * b.0)
    }

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        Single(self.0 + other.0)
    }

    #[inline(always)]
    fn minus(self, other: Self) -> Self {
        Single(self.0 - other.0)
    }

    #[inline(always)]
    fn times(self, other: Self) -> Self {
        Single(self.0 * other.0)
    }

    #[inline(always)]
    fn at_least(self, low: Self) -> Self {
        Single(if self.0 < low.0 { low.0 } else { self.0 })
    }

    #[inline(always)]
    fn at_most(self, high: Self) -> Self {
        Single(if self.0 > high.0 { high.0 } else { self.0 })
    }

    #[inline(always)]
    fn sum(self) -> f32 {
        self.0
    }
}

/// The values of a register one by one; the compiler keeps them in it.
#[inline(always)]
pub fn values<V: Lanes>(v: V) -> [f32; WIDEST] {
    let mut values = [0.0; WIDEST];
    // SAFETY: no register holds more than `WIDEST` values.
    unsafe { v.store(values.as_mut_ptr()) };
    values
}

#[inline(always)]
fn map<V: Lanes>(a: V, b: V, f: impl Fn(f32, f32) -> f32) -> V {
    let (mut a, b) = (values(a), values(b));
    for i in 0..V::COUNT {
        a[i] = f(a[i], b[i]);
    }
    // SAFETY: as in `values`.
    unsafe { V::load(a.as_ptr()) }
}

/// `a / b`.
#[inline(always)]
pub fn quotient<V: Lanes>(a: V, b: V) -> V {
    map(a, b, |a, b| a / b)
}

/// Adding this to a small number leaves its nearest integer in the lowest bits.
const ROUND: f32 = 12_582_912.0;

/// `2^n` for a whole number `n` from -127 (which gives 0) to 128 (infinity).
#[inline(always)]
fn power_of_two<V: Lanes>(n: V) -> V {
    let shifted = n.plus(V::splat(ROUND + 127.0));
    map(shifted, shifted, |v, _| f32::from_bits(v.to_bits() << 23))
}

/// A whole number n and e^f − 1 for the rest f, |f| ≤ ln(2)/2, with `eˣ = 2ⁿ · e^f`.
#[inline(always)]
fn split_exp<V: Lanes>(x: V) -> (V, V) {
    let n = V::splat(ROUND)
        .plus_product(x, V::splat(std::f32::consts::LOG2_E))
        .minus(V::splat(ROUND));
    // ln 2 in two parts, of which the first has few digits: n times it is exact.
    let f = x
        .plus_product(n, V::splat(-355.0 / 512.0))
        .plus_product(n, V::splat(2.121_944_4e-4));
    // (e^f − 1 − f)/f² on ±ln(2)/2, interpolated at Chebyshev points: off by 1.1e-8 of e^f.
    let mut g = V::splat(1.392_621_3e-3);
    for k in [8.363_203e-3, 4.166_655_6e-2, 0.166_665_76, 0.5] {
        g = V::splat(k).plus_product(g, f);
    }
    (n, f.plus_product(f.times(f), g))
}

/// `eˣ` to about one unit in the last place; 0, infinity and NaN where they belong.
#[inline(always)]
pub fn exp<V: Lanes>(x: V) -> V {
    // Beyond these bounds the result is 0 or infinity anyway.
    let x = x.at_least(V::splat(-104.0)).at_most(V::splat(89.0));
    let (n, rest) = split_exp(x);
    let p = rest.plus(V::splat(1.0));
    // In two steps, so that the largest and the smallest results are reached.
    let half = n
        .times(V::splat(0.5))
        .plus(V::splat(ROUND))
        .minus(V::splat(ROUND));
    p.times(power_of_two(half))
        .times(power_of_two(n.minus(half)))
}

/// The hyperbolic tangent to a few units in the last place, also near 0: `m / (m + 2)` with `m = e²ˣ − 1`.
#[inline(always)]
pub fn tanh<V: Lanes>(x: V) -> V {
    // From 9.02 on the result rounds to 1.
    let x = x.at_least(V::splat(-9.5)).at_most(V::splat(9.5));
    let (n, rest) = split_exp(x.plus(x));
    let power = power_of_two(n);
    let m = power.minus(V::splat(1.0)).plus_product(power, rest);
    quotient(m, m.plus(V::splat(2.0)))
}

/// The error function to 4·10⁻⁷: the usual rational minimax approximation `x·P(x²)/Q(x²)`, exactly ±1 from ±4.1 on.
#[inline(always)]
pub fn erf<V: Lanes>(x: V) -> V {
    // Where the quotient has just passed 1.
    let x = x.at_least(V::splat(-4.1)).at_most(V::splat(4.1));
    let s = x.times(x);
    let mut p = V::splat(-2.726_142_3e-10);
    for k in [
        2.770_681_4e-8,
        -2.101_024e-6,
        -5.692_506_4e-5,
        -7.349_906_3e-4,
        -2.954_6e-3,
        -1.609_603_3e-2,
    ] {
        p = V::splat(k).plus_product(p, s);
    }
    let mut q = V::splat(-1.456_607_2e-5);
    for k in [
        -2.133_740_6e-4,
        -1.682_827e-3,
        -7.373_329e-3,
        -1.426_473_9e-2,
    ] {
        q = V::splat(k).plus_product(q, s);
    }
    quotient(x.times(p), q)
        .at_least(V::splat(-1.0))
        .at_most(V::splat(1.0))
}

/// The activation of each value of a register; a NaN stays, so that a broken network does not look healthy.
#[inline(always)]
pub fn activated<V: Lanes>(x: V, activation: Activation) -> V {
    match activation {
        Activation::None => x,
        Activation::Relu => x.at_least(V::splat(0.0)),
        Activation::Relu6 => x.at_least(V::splat(0.0)).at_most(V::splat(6.0)),
        Activation::Silu => {
            let e = exp(V::splat(0.0).minus(x));
            quotient(x, V::splat(1.0).plus(e))
        }
        Activation::Gelu => {
            let half = x.times(V::splat(0.5));
            let erf = erf(x.times(V::splat(std::f32::consts::FRAC_1_SQRT_2)));
            half.plus_product(half, erf)
        }
        Activation::LeakyRelu => x.at_least(x.times(V::splat(LEAK))),
        Activation::Tanh => tanh(x),
    }
}

#[cfg(test)]
mod tests {
    use super::super::simd::Plain;
    use super::*;

    fn exp1(x: f32) -> f32 {
        exp(Single(x)).0
    }

    #[test]
    fn exp_is_right_to_an_ulp_everywhere() {
        let mut worst = 0.0f64;
        for i in 0..400_000 {
            let x = -87.0 + i as f32 * (175.7 / 400_000.0);
            let exact = f64::from(x).exp();
            let ulp = exact * f64::from(f32::EPSILON);
            let four = values(exp(Plain::splat(x)));
            assert_eq!(four[0], four[3]);
            for got in [exp1(x), four[0]] {
                worst = worst.max((f64::from(got) - exact).abs() / ulp);
            }
        }
        assert!(worst < 1.0, "{worst} ulp");
    }

    #[test]
    fn exp_at_the_ends() {
        assert_eq!(exp1(0.0), 1.0);
        assert_eq!(exp1(-0.0), 1.0);
        assert_eq!(exp1(f32::INFINITY), f32::INFINITY);
        assert_eq!(exp1(88.73), f32::INFINITY);
        assert_eq!(exp1(f32::MAX), f32::INFINITY);
        assert_eq!(exp1(f32::NEG_INFINITY), 0.0);
        assert_eq!(exp1(-105.0), 0.0);
        assert_eq!(exp1(f32::MIN), 0.0);
        assert!(exp1(f32::NAN).is_nan());
        // The largest finite result, and one below the normal numbers.
        assert!((f64::from(exp1(88.722)) / 88.722f64.exp() - 1.0).abs() < 1e-5);
        assert!((f64::from(exp1(-90.0)) / (-90f64).exp() - 1.0).abs() < 1e-3);
    }

    #[test]
    fn tanh_is_right_to_three_ulp_everywhere() {
        let mut worst = 0.0f64;
        for i in 0..400_000 {
            // Dense near zero, where a difference of exponentials would lose its digits, out to where it is 1.
            let x = ((i as f32 - 200_000.0) / 200_000.0).powi(3) * 12.0;
            let exact = f64::from(x).tanh();
            let ulp = exact.abs().max(1e-30) * f64::from(f32::EPSILON);
            let four = values(tanh(Plain::splat(x)));
            for got in [tanh(Single(x)).0, four[0]] {
                worst = worst.max((f64::from(got) - exact).abs() / ulp);
            }
        }
        assert!(worst < 3.0, "{worst} ulp");
        for (x, expected) in [(0.0, 0.0), (40.0, 1.0), (-1e30, -1.0), (f32::INFINITY, 1.0)] {
            assert_eq!(tanh(Single(x)).0, expected);
        }
        assert!(tanh(Single(f32::NAN)).0.is_nan());
    }

    #[test]
    fn erf_agrees_with_known_values() {
        // Values of the error function from standard tables.
        for (x, expected) in [
            (0.0, 0.0),
            (0.1, 0.112_462_92),
            (0.5, 0.520_499_9),
            (1.0, 0.842_700_8),
            (2.0, 0.995_322_3),
            (3.5, 0.999_999_3),
        ] {
            for (x, expected) in [(x, expected), (-x, -expected)] {
                let got = erf(Single(x)).0;
                assert!((got - expected).abs() < 2e-7, "erf({x}) = {got}");
            }
        }
        for x in [4.1, 5.0, 1e30, f32::INFINITY] {
            assert!(erf(Single(x)).0 == 1.0 && erf(Single(-x)).0 == -1.0);
        }
        assert!(erf(Single(f32::NAN)).0.is_nan());
    }
}
