// Numbers of two floats, high + low, with 48 bits: the twin of two_float.wgsl. Sums are rounded one by one
// (`__fadd_rn`), which no compiler reorders or fuses.

#pragma once

typedef unsigned int u32;

// high + low = a + b, exactly (Knuth).
__device__ inline float2 two_sum(float a, float b) {
    const float s = __fadd_rn(a, b);
    const float from_b = __fsub_rn(s, a);
    const float from_a = __fsub_rn(s, from_b);
    return make_float2(s, __fadd_rn(__fsub_rn(a, from_a), __fsub_rn(b, from_b)));
}

// high + low = a + b where |a| >= |b| (Dekker).
__device__ inline float2 quick_two_sum(float a, float b) {
    const float s = __fadd_rn(a, b);
    return make_float2(s, __fsub_rn(b, __fsub_rn(s, a)));
}

__device__ inline float2 add_value(float2 x, float value) {
    const float2 s = two_sum(x.x, value);
    return quick_two_sum(s.x, __fadd_rn(s.y, x.y));
}

__device__ inline float2 add_two(float2 x, float2 y) {
    const float2 high = two_sum(x.x, y.x);
    const float2 low = two_sum(x.y, y.y);
    const float2 s = quick_two_sum(high.x, __fadd_rn(high.y, low.x));
    return quick_two_sum(s.x, __fadd_rn(s.y, low.y));
}

// high + low = a * b, exactly.
__device__ inline float2 two_product(float a, float b) {
    const float product = __fmul_rn(a, b);
    return make_float2(product, __fmaf_rn(a, b, -product));
}

__device__ inline float2 multiply_two(float2 x, float2 y) {
    const float2 product = two_product(x.x, y.x);
    const float crossed = __fadd_rn(__fmul_rn(x.x, y.y), __fmul_rn(x.y, y.x));
    return quick_two_sum(product.x, __fadd_rn(product.y, crossed));
}
