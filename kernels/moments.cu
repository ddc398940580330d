// Running sums of features and of their products, from which the host takes mean and covariance:
//     s[i] += sum over rows of x[r, i] - c[i],  q[i, j] += sum over rows of (x[r, i] - c[i]) (x[r, j] - c[j]) for j <= i
//
// sums      a thread per feature, 256 per block over x. Per feature and row: 4 bytes read, 26 flops.
// products  a block of 256 makes 16 x 16 products, a thread one; 16 rows at a time go through shared memory
//           (4 KiB). Launch: tiles of j over x, of i over y; those above the diagonal end at once. Per product and row:
//           1/2 byte read, 35 flops; 16 bytes read and written per product.
//
// Everything is in two f32 (48 bits), differences exactly. The centre c is the first row of all: what is summed is as large as
// the deviations, not as the means. Rows are taken in their order by one thread, so any split of the rows into launches
// gives the same bits.
// Arguments: params, x [rows, d], c [d], y: (sums) [d] or (products) [rows of i of this launch, d], high and low side by side.

#include "two_float.cuh"

struct Params {
    u32 x_at;
    u32 c_at;
    u32 y_at;
    u32 rows;
    u32 d;
    // The rows of the matrix of products of this launch.
    u32 first;
    u32 count;
    // Nothing is summed yet.
    u32 fresh;
    u32 zero;
};

__device__ inline float2 difference(const Params &p, const float *x, const float *c, u32 row, u32 i) {
    return two_sum(x[p.x_at + row * p.d + i], -c[p.c_at + i]);
}

extern "C" __global__ __launch_bounds__(256) void sums(Params p, const float *x, const float *c, float *y) {
    const u32 lane = threadIdx.x;
    const u32 i = blockIdx.x * 256u + lane;
    if (i >= p.d) {
        return;
    }
    const u32 at = p.y_at + 2u * i;
    float2 sum = make_float2(0.0f, 0.0f);
    if (p.fresh == 0u) {
        sum = make_float2(y[at], y[at + 1u]);
    }
    for (u32 r = 0u; r < p.rows; r++) {
        sum = add_two(sum, difference(p, x, c, r, i));
    }
    y[at] = sum.x;
    y[at + 1u] = sum.y;
}

extern "C" __global__ __launch_bounds__(256) void products(Params p, const float *x, const float *c, float *y) {
    // [row][feature].
    __shared__ float2 left[256];
    __shared__ float2 right[256];
    const u32 lane = threadIdx.x;
    const u32 first_i = p.first + blockIdx.y * 16u;
    const u32 first_j = blockIdx.x * 16u;
    if (first_j > first_i + 15u) {
        return;
    }
    const u32 row = lane / 16u;
    const u32 column = lane % 16u;
    const bool inside = blockIdx.y * 16u + row < p.count && first_j + column < p.d;
    const u32 at = p.y_at + 2u * ((blockIdx.y * 16u + row) * p.d + first_j + column);
    float2 sum = make_float2(0.0f, 0.0f);
    if (inside && p.fresh == 0u) {
        sum = make_float2(y[at], y[at + 1u]);
    }
    for (u32 r = 0u; r < p.rows; r += 16u) {
        float2 a = make_float2(0.0f, 0.0f);
        float2 b = make_float2(0.0f, 0.0f);
        if (r + row < p.rows && first_i + column < p.d) {
            a = difference(p, x, c, r + row, first_i + column);
        }
        if (r + row < p.rows && first_j + column < p.d) {
            b = difference(p, x, c, r + row, first_j + column);
        }
        left[lane] = a;
        right[lane] = b;
        __syncthreads();
        for (u32 k = 0u; k < min(16u, p.rows - r); k++) {
            const float2 product = multiply_two(left[k * 16u + row], right[k * 16u + column]);
            const float2 high = two_sum(sum.x, product.x);
            sum = quick_two_sum(high.x, __fadd_rn(high.y, __fadd_rn(sum.y, product.y)));
        }
        __syncthreads();
    }
    if (inside) {
        y[at] = sum.x;
        y[at + 1u] = sum.y;
    }
}
