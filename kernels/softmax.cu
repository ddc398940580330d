// Softmax of rows in place: x[r, k] = exp(x[r, k] - max) / sum over k of exp(x[r, k] - max).
//
// 16 threads share a row, 16 rows a block of 256; blocks over (x, y). Per value: 12 bytes read, 8 written,
// 29 flops (25 of them the exponential). The order of sums depends on the length of a row only.
// Arguments: params, x.

#include "activation.cuh"

struct Params {
    u32 rows;
    u32 length;
};

extern "C" __global__ __launch_bounds__(256) void softmax(Params p, float *x) {
    __shared__ float partial[256];
    const u32 lane = threadIdx.x;
    const u32 first = (blockIdx.y * gridDim.x + blockIdx.x) * 16u;
    if (first >= p.rows) {
        return;
    }
    const u32 row = first + lane / 16u;
    const bool inside = row < p.rows;
    const u32 from = min(row, p.rows - 1u) * p.length;
    const u32 start = lane % 16u;
    float most = x[from];
    for (u32 k = start; k < p.length; k += 16u) {
        most = fmaxf(most, x[from + k]);
    }
    partial[lane] = most;
    __syncthreads();
    for (u32 half = 8u; half > 0u; half /= 2u) {
        if (start < half) {
            partial[lane] = fmaxf(partial[lane], partial[lane + half]);
        }
        __syncthreads();
    }
    most = partial[lane - start];
    __syncthreads();

    float sum = 0.0f;
    if (inside) {
        for (u32 k = start; k < p.length; k += 16u) {
            const float score = x[from + k];
            float e = score;
            if (!is_nan(score)) {
                e = exponential(score - most);
            }
            sum += e;
            x[from + k] = e;
        }
    }
    partial[lane] = sum;
    __syncthreads();
    for (u32 half = 8u; half > 0u; half /= 2u) {
        if (start < half) {
            partial[lane] += partial[lane + half];
        }
        __syncthreads();
    }
    if (inside) {
        const float scale = 1.0f / partial[lane - start];
        for (u32 k = start; k < p.length; k += 16u) {
            x[from + k] *= scale;
        }
    }
}
