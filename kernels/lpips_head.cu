// The head of LPIPS: d[pixel] = sum over c of head[c] * (a_c / (|a| + e) - b_c / (|b| + e))^2 with e = 1e-10, for the
// channel vectors a and b of every pixel of two feature maps; `mean` and `pairs` also sum over the pixels. Nothing lies in
// memory between reading the features and writing the result.
//
// distances  writes d. 16 threads share a pixel, 16 pixels a block of 256; blocks over (x, y).
// mean       sums d over 64 pixels of a pair in two f32 and writes both; the host adds these partial sums in f64.
//            A block of 256 per 64 pixels, those of all pairs over (x, y). Pair i is image i of a and of b.
// pairs      the same for any pairs of images, table[2i] of a and table[2i + 1] of b: all pairs of a set at once.
//
// Per pixel: 16 c bytes read (the second time from caches), 11 c flops; mean writes 1/8 byte.
// Products that are subtracted are rounded first: fused into one operation they would not cancel when both
// features are the same.
// Arguments: params, a, b, head, y (mean, pairs: sums), (pairs) table.

#include "two_float.cuh"
#include "value.cuh"

struct Params {
    u32 a_at;
    u32 b_at;
    u32 y_at;
    u32 c;
    // Pixels of this launch (distances) or of a pair (mean).
    u32 pixels;
    // Blocks of a pair, and of the launch (mean).
    u32 parts;
    u32 count;
    u32 zero;
};

#define EPSILON 1e-10f

// The sums of the 16 threads of a pixel, in each of them.
__device__ inline float2 shared_sum(float2 value, u32 lane) {
    __shared__ float2 partial[256];
    partial[lane] = value;
    __syncthreads();
    for (u32 half = 8u; half > 0u; half /= 2u) {
        if (lane % 16u < half) {
            partial[lane].x += partial[lane + half].x;
            partial[lane].y += partial[lane + half].y;
        }
        __syncthreads();
    }
    const float2 sum = partial[lane - lane % 16u];
    __syncthreads();
    return sum;
}

// The distance of two pixels whose channels begin at `pixel * c`; all threads of the block must come here.
__device__ inline float distance_at(const Params &p, const Value *a, const Value *b, const float *head, u32 pixel_a, u32 pixel_b, u32 lane) {
    const u32 first_a = p.a_at + pixel_a * p.c;
    const u32 first_b = p.b_at + pixel_b * p.c;
    float2 squares = make_float2(0.0f, 0.0f);
    for (u32 i = lane % 16u; i < p.c; i += 16u) {
        const float va = f32(a[first_a + i]);
        const float vb = f32(b[first_b + i]);
        squares.x += va * va;
        squares.y += vb * vb;
    }
    squares = shared_sum(squares, lane);
    const float scale_a = 1.0f / (sqrtf(squares.x) + EPSILON);
    const float scale_b = 1.0f / (sqrtf(squares.y) + EPSILON);
    float sum = 0.0f;
    for (u32 i = lane % 16u; i < p.c; i += 16u) {
        const float ua = __fmul_rn(f32(a[first_a + i]), scale_a);
        const float ub = __fmul_rn(f32(b[first_b + i]), scale_b);
        const float difference = ua - ub;
        sum += head[i] * (difference * difference);
    }
    return shared_sum(make_float2(sum, 0.0f), lane).x;
}

extern "C" __global__ __launch_bounds__(256) void distances(Params p, const Value *a, const Value *b, const float *head, Value *y) {
    const u32 lane = threadIdx.x;
    const u32 pixel = (blockIdx.y * gridDim.x + blockIdx.x) * 16u + lane / 16u;
    const u32 inside = min(pixel, p.pixels - 1u);
    const float d = distance_at(p, a, b, head, inside, inside, lane);
    if (pixel < p.pixels && lane % 16u == 0u) {
        y[p.y_at + pixel] = stored(d);
    }
}

// The sum over the pixels of part `index` of the launch, for images `image_a` and `image_b`, written to its place.
__device__ inline void sum_part(const Params &p, const Value *a, const Value *b, const float *head, float *sums, u32 index, u32 image_a, u32 image_b) {
    __shared__ float2 found[64];
    const u32 lane = threadIdx.x;
    const u32 first = (index % p.parts) * 64u;
    for (u32 step = 0u; step < 4u; step++) {
        const u32 slot = step * 16u + lane / 16u;
        const u32 pixel = first + slot;
        const u32 inside = min(pixel, p.pixels - 1u);
        const float d = distance_at(p, a, b, head, image_a * p.pixels + inside, image_b * p.pixels + inside, lane);
        if (lane % 16u == 0u) {
            found[slot] = make_float2(pixel < p.pixels ? d : 0.0f, 0.0f);
        }
    }
    __syncthreads();
    for (u32 half = 32u; half > 0u; half /= 2u) {
        if (lane < half) {
            found[lane] = add_two(found[lane], found[lane + half]);
        }
        __syncthreads();
    }
    if (lane == 0u) {
        sums[p.y_at + 2u * index] = found[0].x;
        sums[p.y_at + 2u * index + 1u] = found[0].y;
    }
}

extern "C" __global__ __launch_bounds__(256) void mean(Params p, const Value *a, const Value *b, const float *head, float *sums) {
    const u32 index = blockIdx.y * gridDim.x + blockIdx.x;
    if (index >= p.count) {
        return;
    }
    const u32 pair = index / p.parts;
    sum_part(p, a, b, head, sums, index, pair, pair);
}

extern "C" __global__ __launch_bounds__(256) void pairs(Params p, const Value *a, const Value *b, const float *head, float *sums, const u32 *table) {
    const u32 index = blockIdx.y * gridDim.x + blockIdx.x;
    if (index >= p.count) {
        return;
    }
    const u32 pair = index / p.parts;
    sum_part(p, a, b, head, sums, index, table[2u * pair], table[2u * pair + 1u]);
}
