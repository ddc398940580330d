// Linear layers and 1x1 convolutions: y[r, o] = activation(bias[o] + sum over k of x[r, k] * weight[k, o] + residual[r, o])
//
// A block of 256 makes 64 rows x 64 outputs, a thread 4 x 4 of them; 16 terms of the sum at a time go through
// shared memory (8 KiB). Launch: row tiles over (x, y), output tiles over z. Per output: 2 k flops; of each tile
// (64 + 64) * 4 k bytes are read, k/8 for an output, and 4 of each output written.
//
// Every output is summed in the order of k by one thread: it does not depend on the batch.
// Arguments: params, x, weight [k][outputs padded to 64], bias, residual, y.

#include "activation.cuh"
#include "value.cuh"

struct Params {
    u32 x_at;
    u32 residual_at;
    u32 y_at;
    u32 rows;
    u32 terms;
    // Outputs whose weights are bound, all outputs, and the first of the bound ones.
    u32 outputs;
    u32 all_outputs;
    u32 first_output;
    // Tiles of outputs.
    u32 tiles;
    // Channels per row of the output in memory, and the first of them that is written.
    u32 channels;
    u32 first;
    u32 activation;
    u32 has_residual;
};

#define TILE 64u
#define DEPTH 16u

extern "C" __global__ __launch_bounds__(256) void linear(Params p, const Value *x, const Value4 *weight, const float *bias, const Value *residual, Value *y) {
    // [term][pixel] and [term][four outputs].
    __shared__ float values[1024];
    __shared__ float4 weights[256];
    const u32 lane = threadIdx.x;
    const u32 tile = (blockIdx.y * gridDim.x + blockIdx.x) * TILE;
    if (tile >= p.rows) {
        return;
    }
    const u32 load_row = lane / 4u;
    const u32 load_term = (lane % 4u) * 4u;
    const bool loads = tile + load_row < p.rows;
    const u32 load_at = p.x_at + (tile + load_row) * p.terms + load_term;
    const u32 weight_row = p.tiles * 16u;
    const u32 weight_at = blockIdx.z * 16u + lane % 16u;

    const u32 row = lane / 16u;
    const u32 column = lane % 16u;
    float sums[4][4] = {};

    for (u32 term = 0u; term < p.terms; term += DEPTH) {
        for (u32 j = 0u; j < 4u; j++) {
            float value = 0.0f;
            if (loads && term + load_term + j < p.terms) {
                value = f32(x[load_at + term + j]);
            }
            values[(load_term + j) * TILE + load_row] = value;
        }
        const u32 weight_term = term + lane / 16u;
        float4 four = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (weight_term < p.terms) {
            four = f32(weight[weight_at + weight_term * weight_row]);
        }
        weights[lane] = four;
        __syncthreads();
#pragma unroll
        for (u32 k = 0u; k < DEPTH; k++) {
            const float4 w4 = weights[k * 16u + column];
            const u32 from = k * TILE + row * 4u;
#pragma unroll
            for (u32 j = 0u; j < 4u; j++) {
                const float value = values[from + j];
                sums[j][0] += value * w4.x;
                sums[j][1] += value * w4.y;
                sums[j][2] += value * w4.z;
                sums[j][3] += value * w4.w;
            }
        }
        __syncthreads();
    }

    const u32 first_local = blockIdx.z * TILE + column * 4u;
#pragma unroll
    for (u32 j = 0u; j < 4u; j++) {
        const u32 index = tile + row * 4u + j;
        if (index >= p.rows) {
            return;
        }
#pragma unroll
        for (u32 i = 0u; i < 4u; i++) {
            if (first_local + i < p.outputs) {
                const u32 o = p.first_output + first_local + i;
                float v = sums[j][i] + bias[o];
                if (p.has_residual != 0u) {
                    v += f32(residual[p.residual_at + index * p.all_outputs + o]);
                }
                y[p.y_at + index * p.channels + p.first + o] = stored(activate(v, p.activation));
            }
        }
    }
}
