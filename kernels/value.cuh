// How activations and weights lie in memory: as f32, or (FOIL_F16) as f16. Kernels compute in f32 either way: `f32` reads
// a value, `stored` rounds one to the nearest. `Bits` are for copies. In WGSL the same are the types Value and Bits, and
// conversions are part of the language.

#pragma once

typedef unsigned int u32;

#ifdef FOIL_F16

struct Value {
    unsigned short bits;
};
struct __align__(8) Value4 {
    Value x, y, z, w;
};
typedef unsigned short Bits;

#ifndef CUDA_ON_CPU
__device__ inline float half_to_float(unsigned short bits) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}

__device__ inline unsigned short float_to_half(float value) {
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}
#endif

__device__ inline float f32(Value v) {
    return half_to_float(v.bits);
}

__device__ inline float4 f32(Value4 v) {
    return make_float4(f32(v.x), f32(v.y), f32(v.z), f32(v.w));
}

__device__ inline Value stored(float v) {
    const Value value = {float_to_half(v)};
    return value;
}

#else

typedef float Value;
typedef float4 Value4;
typedef u32 Bits;

__device__ inline float f32(float v) {
    return v;
}

__device__ inline float4 f32(float4 v) {
    return v;
}

__device__ inline float stored(float v) {
    return v;
}

#endif
