// Convolution: y[n, oy, ox, o] = activation(bias[o] + sum over (ky, kx, i) of
//     x[n, oy*stride + ky - top, ox*stride + kx - left, i] * weight[ky, kx, i, o] + residual[n, oy, ox, o])
//
// dense      implicit GEMM: a block of 256 makes 64 pixels x 64 outputs of one group, a thread 4 x 4 of them;
//            16 terms of the sum at a time go through shared memory (8 KiB). Launch: pixel tiles over (x, y),
//            output tiles of all groups over z. Per output: 2 k flops with k = kh*kw*inputs of a group; of each tile
//            (64 + 64) * 4 k bytes are read, k/8 for an output, and 4 of each output written.
// depthwise  one input channel per group: a thread per value, channels next to each other. Launch: 256 values per
//            block over (x, y). Per output: 2 kh*kw flops, 8 kh*kw bytes read (mostly from caches), 4 written.
//
// Every output is summed in the order ky, kx, i by one thread: it does not depend on the batch.
// Arguments: params, x, weight, bias, residual, y. Weights: dense [group][k][outputs padded to 64], depthwise
// [ky][kx][output]. Positions `*_at` count modulo 2^32: a launch over some rows of an image has them before its binding.

#include "activation.cuh"
#include "launch.cuh"
#include "value.cuh"

struct Params {
    u32 x_at;
    u32 residual_at;
    u32 y_at;
    // Input.
    u32 h;
    u32 w;
    u32 c;
    // Output: its size, the rows of this launch, the number of its pixels or (depthwise) values.
    u32 out_h;
    u32 out_w;
    u32 first_row;
    u32 rows;
    u32 count;
    u32 kh;
    u32 kw;
    u32 stride;
    u32 top;
    u32 left;
    // Channels of a group.
    u32 inputs;
    u32 outputs;
    // Tiles of outputs of a group.
    u32 tiles;
    // Channels per pixel of the output in memory, and the first of them that is written.
    u32 channels;
    u32 first;
    // All outputs of the convolution, and the first of those whose weights are bound.
    u32 all_outputs;
    u32 first_output;
    u32 activation;
    u32 has_residual;
};

#define TILE 64u
#define DEPTH 16u

// Pixel of the whole output, counted from the first image of the launch.
__device__ inline uint3 output_pixel(const Params &p, u32 index) {
    const u32 image = p.rows * p.out_w;
    const u32 n = index / image;
    const u32 rest = index - n * image;
    const u32 row = rest / p.out_w;
    return make_uint3(n, p.first_row + row, rest - row * p.out_w);
}

__device__ inline void finish(const Params &p, const float *bias, const Value *residual, Value *y, float sum, u32 pixel, u32 o) {
    float v = sum + bias[o];
    if (p.has_residual != 0u) {
        v += f32(residual[p.residual_at + pixel * p.all_outputs + o]);
    }
    y[p.y_at + pixel * p.channels + p.first + o] = stored(activate(v, p.activation));
}

extern "C" __global__ __launch_bounds__(256) void dense(Params p, const Value *x, const Value4 *weight, const float *bias, const Value *residual, Value *y) {
    // [term][pixel] and [term][four outputs].
    __shared__ float pixels[1024];
    __shared__ float4 weights[256];
    const u32 lane = threadIdx.x;
    const u32 tile = (blockIdx.y * gridDim.x + blockIdx.x) * TILE;
    if (tile >= p.count) {
        return;
    }
    const u32 conv_group = blockIdx.z / p.tiles;
    const u32 output_tile = blockIdx.z - conv_group * p.tiles;
    const u32 terms = p.kh * p.kw * p.inputs;

    // What this thread loads: four terms of one pixel, and four outputs of one term.
    const u32 load_pixel = lane / 4u;
    const u32 load_term = (lane % 4u) * 4u;
    const bool loads = tile + load_pixel < p.count;
    const uint3 at = output_pixel(p, tile + load_pixel);
    const int corner_y = (int)(at.y * p.stride) - (int)(p.top);
    const int corner_x = (int)(at.z * p.stride) - (int)(p.left);
    const u32 image = p.x_at + at.x * p.h * p.w * p.c + conv_group * p.inputs;
    const u32 weight_row = p.tiles * 16u;
    const u32 weight_at = conv_group * terms * weight_row + output_tile * 16u + lane % 16u;

    const u32 row = lane / 16u;
    const u32 column = lane % 16u;
    float sums[4][4] = {};

    for (u32 term = 0u; term < terms; term += DEPTH) {
        const u32 first = term + load_term;
        const u32 tap = first / p.inputs;
        u32 i = first - tap * p.inputs;
        u32 ky = tap / p.kw;
        u32 kx = tap - ky * p.kw;
        for (u32 j = 0u; j < 4u; j++) {
            float value = 0.0f;
            const int iy = corner_y + (int)(ky);
            const int ix = corner_x + (int)(kx);
            if (loads && first + j < terms && iy >= 0 && ix >= 0 && (u32)(iy) < p.h && (u32)(ix) < p.w) {
                value = f32(x[image + ((u32)(iy) * p.w + (u32)(ix)) * p.c + i]);
            }
            pixels[(load_term + j) * TILE + load_pixel] = value;
            i++;
            if (i == p.inputs) {
                i = 0u;
                kx++;
                if (kx == p.kw) {
                    kx = 0u;
                    ky++;
                }
            }
        }
        const u32 weight_term = term + lane / 16u;
        float4 four = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (weight_term < terms) {
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
                const float value = pixels[from + j];
                sums[j][0] += value * w4.x;
                sums[j][1] += value * w4.y;
                sums[j][2] += value * w4.z;
                sums[j][3] += value * w4.w;
            }
        }
        __syncthreads();
    }

    const u32 first_output = output_tile * TILE + column * 4u;
#pragma unroll
    for (u32 j = 0u; j < 4u; j++) {
        const u32 index = tile + row * 4u + j;
        if (index >= p.count) {
            return;
        }
        const uint3 to = output_pixel(p, index);
        const u32 pixel = (to.x * p.out_h + to.y) * p.out_w + to.z;
#pragma unroll
        for (u32 o = 0u; o < 4u; o++) {
            if (first_output + o < p.outputs) {
                finish(p, bias, residual, y, sums[j][o], pixel, p.first_output + conv_group * p.outputs + first_output + o);
            }
        }
    }
}

extern "C" __global__ __launch_bounds__(256) void depthwise(Params p, const Value *x, const Value4 *weight, const float *bias, const Value *residual, Value *y) {
    const u32 index = value_index();
    if (index >= p.count) {
        return;
    }
    const u32 o = index % p.all_outputs;
    const uint3 at = output_pixel(p, index / p.all_outputs);
    const int corner_y = (int)(at.y * p.stride) - (int)(p.top);
    const int corner_x = (int)(at.z * p.stride) - (int)(p.left);
    const u32 image = p.x_at + at.x * p.h * p.w * p.c + o / p.outputs;
    float sum = 0.0f;
    for (u32 ky = 0u; ky < p.kh; ky++) {
        const int iy = corner_y + (int)(ky);
        if (iy < 0 || (u32)(iy) >= p.h) {
            continue;
        }
        for (u32 kx = 0u; kx < p.kw; kx++) {
            const int ix = corner_x + (int)(kx);
            if (ix < 0 || (u32)(ix) >= p.w) {
                continue;
            }
            const u32 w = (ky * p.kw + kx) * p.all_outputs + o;
            sum += f32(x[image + ((u32)(iy) * p.w + (u32)(ix)) * p.c]) * f32(((const Value *)weight)[w]);
        }
    }
    finish(p, bias, residual, y, sum, (at.x * p.out_h + at.y) * p.out_w + at.z, o);
}
