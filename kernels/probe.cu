// What a device can do at most: `foil devices --probe` measures it.
//
// copy      y[i] = x[i]: a thread copies 4 values, 256 per block over (x, y). 4 bytes read and 4 written per value.
// multiply  8 chains of a = a * b + c per thread, `rounds` steps of 16 each, nothing read: 256 rounds flops per thread.
//           The sums are written, so that they are computed.
// Arguments: params, x, y.

#include "launch.cuh"

struct Params {
    u32 count;
    u32 rounds;
};

extern "C" __global__ __launch_bounds__(256) void copy(Params p, const float4 *x, float4 *y) {
    const u32 i = value_index();
    if (i < p.count) {
        y[i] = x[i];
    }
}

extern "C" __global__ __launch_bounds__(256) void multiply(Params p, const float4 *x, float4 *y) {
    const u32 i = value_index();
    const float b = 0.999f;
    const float c = 0.001f * (float)threadIdx.x;
    float chains[8] = {(float)i, 1.0f, 2.0f, 3.0f, (float)i, 4.0f, 5.0f, 6.0f};
    for (u32 r = 0u; r < p.rounds; r++) {
#pragma unroll
        for (u32 k = 0u; k < 16u; k++) {
#pragma unroll
            for (u32 n = 0u; n < 8u; n++) {
                chains[n] = __fmaf_rn(chains[n], b, c);
            }
        }
    }
    if (i < p.count) {
        y[i] = make_float4(chains[0] + chains[4], chains[1] + chains[5], chains[2] + chains[6], chains[3] + chains[7]);
    }
}
