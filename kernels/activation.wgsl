// Activations, and the exponential they need. Stands before the kernels that use it.
//
// The exponential is computed from sums and products: a device's own may be off by several units in the last place,
// and the tolerances of the networks leave no room for that. A NaN stays a NaN, so that a broken network does not
// look healthy; it is recognised by its bits, because WGSL lets a compiler assume that there are none.

const RELU: u32 = 1u;
const RELU6: u32 = 2u;
const SILU: u32 = 3u;
const GELU: u32 = 4u;
const LEAKY_RELU: u32 = 5u;
const TANH: u32 = 6u;

fn is_nan(x: f32) -> bool {
    return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}

// A whole number n and e^f - 1 for the rest f, |f| <= ln(2)/2, with e^x = 2^n e^f. ln 2 comes in two parts, of which
// the first has few digits: n times it is exact. The polynomial is (e^f - 1 - f)/f^2, off by 1.1e-8 of e^f.
fn split_exp(x: f32) -> vec2<f32> {
    let n = round(x * 1.44269504);
    let f = (x - n * 0.693359375) + n * 2.1219444e-4;
    var g = 1.3926213e-3;
    g = 8.363203e-3 + g * f;
    g = 4.1666556e-2 + g * f;
    g = 0.16666576 + g * f;
    g = 0.5 + g * f;
    return vec2<f32>(n, f + f * f * g);
}

// 2^n for a whole number from -127 (which gives 0) to 128 (infinity).
fn power_of_two(n: f32) -> f32 {
    return bitcast<f32>(u32(i32(n) + 127) << 23u);
}

// e^x to about one unit in the last place, of numbers that are no NaN. The power comes in two steps, so that the
// largest and the smallest results are reached.
fn exponential(x: f32) -> f32 {
    let parts = split_exp(clamp(x, -104.0, 89.0));
    let half = floor(parts.x * 0.5);
    return ((1.0 + parts.y) * power_of_two(half)) * power_of_two(parts.x - half);
}

// m / (m + 2) with m = e^2x - 1; from 9.02 on the result rounds to 1.
fn hyperbolic_tangent(x: f32) -> f32 {
    let parts = split_exp(2.0 * clamp(x, -9.5, 9.5));
    let power = power_of_two(parts.x);
    let m = (power - 1.0) + power * parts.y;
    return m / (m + 2.0);
}

// The error function to 4e-7: the rational minimax approximation x P(x^2) / Q(x^2), exactly 1 from 4.1 on.
fn error_function(v: f32) -> f32 {
    let x = clamp(v, -4.1, 4.1);
    let s = x * x;
    var p = -2.7261423e-10;
    p = 2.7706814e-8 + p * s;
    p = -2.101024e-6 + p * s;
    p = -5.6925064e-5 + p * s;
    p = -7.3499063e-4 + p * s;
    p = -2.9546e-3 + p * s;
    p = -1.6096033e-2 + p * s;
    var q = -1.4566072e-5;
    q = -2.1337406e-4 + q * s;
    q = -1.682827e-3 + q * s;
    q = -7.373329e-3 + q * s;
    q = -1.4264739e-2 + q * s;
    return clamp(x * p / q, -1.0, 1.0);
}

fn activate(x: f32, kind: u32) -> f32 {
    if (kind == 0u || is_nan(x)) {
        return x;
    }
    switch kind {
        case RELU: {
            return max(x, 0.0);
        }
        case RELU6: {
            return clamp(x, 0.0, 6.0);
        }
        case SILU: {
            return x / (1.0 + exponential(-x));
        }
        case GELU: {
            return 0.5 * x + 0.5 * x * error_function(x * 0.70710678);
        }
        case LEAKY_RELU: {
            return max(x, 0.2 * x);
        }
        default: {
            return hyperbolic_tangent(x);
        }
    }
}
