// Activations, and the exponential they need: the twin of activation.wgsl.
//
// The exponential is computed from sums and products, as on the other devices, so that all of them agree. A NaN stays a
// NaN, so that a broken network does not look healthy.

#pragma once

typedef unsigned int u32;

#define RELU 1u
#define RELU6 2u
#define SILU 3u
#define GELU 4u
#define LEAKY_RELU 5u
#define TANH 6u

__device__ inline bool is_nan(float x) {
    return (__float_as_uint(x) & 0x7fffffffu) > 0x7f800000u;
}

__device__ inline float between(float x, float low, float high) {
    return fminf(fmaxf(x, low), high);
}

struct SplitExp {
    float n;
    float rest;
};

// A whole number n and e^f - 1 for the rest f, |f| <= ln(2)/2, with e^x = 2^n e^f. ln 2 comes in two parts, of which
// the first has few digits: n times it is exact. The polynomial is (e^f - 1 - f)/f^2, off by 1.1e-8 of e^f.
__device__ inline SplitExp split_exp(float x) {
    float n = rintf(x * 1.44269504f);
    float f = (x - n * 0.693359375f) + n * 2.1219444e-4f;
    float g = 1.3926213e-3f;
    g = 8.363203e-3f + g * f;
    g = 4.1666556e-2f + g * f;
    g = 0.16666576f + g * f;
    g = 0.5f + g * f;
    SplitExp parts = {n, f + f * f * g};
    return parts;
}

// 2^n for a whole number from -127 (which gives 0) to 128 (infinity).
__device__ inline float power_of_two(float n) {
    return __uint_as_float((u32)((int)n + 127) << 23);
}

// e^x to about one unit in the last place, of numbers that are no NaN. The power comes in two steps, so that the
// largest and the smallest results are reached.
__device__ inline float exponential(float x) {
    SplitExp parts = split_exp(between(x, -104.0f, 89.0f));
    float half = floorf(parts.n * 0.5f);
    return ((1.0f + parts.rest) * power_of_two(half)) * power_of_two(parts.n - half);
}

// m / (m + 2) with m = e^2x - 1; from 9.02 on the result rounds to 1.
__device__ inline float hyperbolic_tangent(float x) {
    SplitExp parts = split_exp(2.0f * between(x, -9.5f, 9.5f));
    float power = power_of_two(parts.n);
    float m = (power - 1.0f) + power * parts.rest;
    return m / (m + 2.0f);
}

// The error function to 4e-7: the rational minimax approximation x P(x^2) / Q(x^2), exactly 1 from 4.1 on.
__device__ inline float error_function(float v) {
    float x = between(v, -4.1f, 4.1f);
    float s = x * x;
    float p = -2.7261423e-10f;
    p = 2.7706814e-8f + p * s;
    p = -2.101024e-6f + p * s;
    p = -5.6925064e-5f + p * s;
    p = -7.3499063e-4f + p * s;
    p = -2.9546e-3f + p * s;
    p = -1.6096033e-2f + p * s;
    float q = -1.4566072e-5f;
    q = -2.1337406e-4f + q * s;
    q = -1.682827e-3f + q * s;
    q = -7.373329e-3f + q * s;
    q = -1.4264739e-2f + q * s;
    return between(x * p / q, -1.0f, 1.0f);
}

__device__ inline float activate(float x, u32 kind) {
    if (kind == 0u || is_nan(x)) {
        return x;
    }
    switch (kind) {
    case RELU:
        return fmaxf(x, 0.0f);
    case RELU6:
        return between(x, 0.0f, 6.0f);
    case SILU:
        return x / (1.0f + exponential(-x));
    case GELU:
        return 0.5f * x + 0.5f * x * error_function(x * 0.70710678f);
    case LEAKY_RELU:
        return fmaxf(x, 0.2f * x);
    default:
        return hyperbolic_tangent(x);
    }
}
