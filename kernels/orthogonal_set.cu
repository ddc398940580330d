// Greedy orthogonal and complementary sets ([bex] Algorithm 1) of many samples: perturbations e - z are visited by
// ascending L1 norm; one is admitted if it is orthogonal to all members, |cos| < tau, or complementary, cos + 1 < tau.
//
// lengths l1[i] = sum over k of |e[i, k] - z[k]|: a thread per candidate, 256 per block over (x, y). 8 d bytes read and
//         16 d flops.
// gram    g[i, j] = sum over k of (e[i, k] - z[k]) (e[j, k] - z[k]) for j <= i: a block of 256 makes 16 x 16 of them,
//         a thread one; 16 terms at a time go through shared memory (4 KiB). Launch: tiles of j over x, of i over
//         y, samples over z. Per value: 35 d flops, d bytes read.
// choose  one block of 256 per sample, over (x, y): ranks by counting, then candidate after candidate against all
//         members at once. n^2 comparisons and n * members tests of cosines.
//
// Everything is in two f32. Cosines are compared by squares: cos^2 < tau^2 as g[i, j]^2 < tau^2 g[i, i] g[j, j]. The
// selection has to be that of the CPU, which computes in f64: where a decision is so close that rounding could turn it,
// the sample is marked and the host decides. Sums of lengths are off by 1e-9 of them at most; a product g[i, j] by
// s = (d + 16) 2^-44 of the norms |i| |j| at most, however small it is itself, and its square by |i| |j| s (2 |g| + |i| |j| s).
// Arguments: params, e [samples, n, d], z [samples, d], l1 [samples, n], g [samples, n, n], chosen [samples, 3 + 2n]:
// doubt, number of members, number of zeros, members (65536 more if complementary), zeros. Pairs of f32 lie side by side.

#include "launch.cuh"
#include "two_float.cuh"

struct Params {
    u32 e_at;
    u32 z_at;
    u32 samples;
    u32 n;
    u32 d;
    u32 zero;
    // Zero perturbations are left out; complementary means to each member, not to any.
    u32 exclude_zeros;
    u32 each;
    // tau^2 and (1 - tau)^2.
    float2 orthogonal;
    float2 complementary;
};

// What is so close that the host decides, of what is compared.
#define CLOSE 1e-9f
// 2^-44.
#define SLACK 5.7e-14f
// Squared norms below are in reach of numbers that devices round to zero, and so are squares below with their rests.
#define TINY 1e-12f
#define TINY_SQUARE 4e-24f
#define HUGE 1e18f
// The square of the smallest norm a cosine divides by.
#define FLOOR 1e-16f

#define NOT_ORTHOGONAL 1u
#define COMPLEMENTARY 2u
#define NEITHER 4u

__device__ inline float2 difference(const Params &p, const float *e, const float *z, u32 sample, u32 i, u32 k) {
    const float candidate = e[p.e_at + (sample * p.n + i) * p.d + k];
    return two_sum(candidate, -z[p.z_at + sample * p.d + k]);
}

extern "C" __global__ __launch_bounds__(256) void lengths(Params p, const float *e, const float *z, float2 *l1, float2 *g, u32 *chosen) {
    const u32 index = value_index();
    if (index >= p.samples * p.n) {
        return;
    }
    const u32 sample = index / p.n;
    float2 sum = make_float2(0.0f, 0.0f);
    for (u32 k = 0u; k < p.d; k++) {
        const float2 v = difference(p, e, z, sample, index - sample * p.n, k);
        if (v.x < 0.0f) {
            sum = add_two(sum, make_float2(-v.x, -v.y));
        } else {
            sum = add_two(sum, v);
        }
    }
    l1[index] = sum;
}

extern "C" __global__ __launch_bounds__(256) void gram(Params p, const float *e, const float *z, float2 *l1, float2 *g, u32 *chosen) {
    __shared__ float2 left[256];
    __shared__ float2 right[256];
    const u32 lane = threadIdx.x;
    const u32 first_i = blockIdx.y * 16u;
    const u32 first_j = blockIdx.x * 16u;
    if (first_j > first_i + 15u) {
        return;
    }
    const u32 row = lane / 16u;
    const u32 column = lane % 16u;
    float2 sum = make_float2(0.0f, 0.0f);
    for (u32 k = 0u; k < p.d; k += 16u) {
        // This thread loads term `column` of candidate `row`, of both tiles.
        float2 a = make_float2(0.0f, 0.0f);
        float2 b = make_float2(0.0f, 0.0f);
        if (k + column < p.d && first_i + row < p.n) {
            a = difference(p, e, z, blockIdx.z, first_i + row, k + column);
        }
        if (k + column < p.d && first_j + row < p.n) {
            b = difference(p, e, z, blockIdx.z, first_j + row, k + column);
        }
        left[lane] = a;
        right[lane] = b;
        __syncthreads();
        for (u32 t = 0u; t < min(16u, p.d - k); t++) {
            sum = add_two(sum, multiply_two(left[row * 16u + t], right[column * 16u + t]));
        }
        __syncthreads();
    }
    if (first_i + row < p.n && first_j + column < p.n) {
        g[(blockIdx.z * p.n + first_i + row) * p.n + first_j + column] = sum;
    }
}

__device__ inline bool less(float2 a, float2 b) {
    return a.x < b.x || (a.x == b.x && a.y < b.y);
}

__device__ inline bool is_near(float2 a, float2 b, float off) {
    return fabsf((a.x - b.x) + (a.y - b.y)) <= CLOSE * fmaxf(fabsf(a.x), fabsf(b.x)) + off;
}

__device__ inline bool is_close(float2 a, float2 b) {
    return is_near(a, b, 0.0f);
}

__device__ inline float2 product(const Params &p, const float2 *g, u32 sample, u32 i, u32 j) {
    return g[(sample * p.n + max(i, j)) * p.n + min(i, j)];
}

__device__ inline float2 squared_norm(const Params &p, const float2 *g, u32 sample, u32 i) {
    const float2 norm = product(p, g, sample, i, i);
    if (norm.x < FLOOR) {
        return make_float2(FLOOR, 0.0f);
    }
    return norm;
}

// What candidate i is to member j.
__device__ inline u32 relation(const Params &p, const float2 *g, u32 *doubt, u32 sample, u32 i, u32 j) {
    const float2 cosine = product(p, g, sample, i, j);
    const float2 square = multiply_two(cosine, cosine);
    const float2 norms = multiply_two(squared_norm(p, g, sample, i), squared_norm(p, g, sample, j));
    const float2 orthogonal = multiply_two(norms, p.orthogonal);
    const float2 complementary = multiply_two(norms, p.complementary);
    // How far the product may be off, and its square.
    const float slack = (float(p.d) + 16.0f) * SLACK * sqrtf(norms.x);
    const float off = slack * (2.0f * fabsf(cosine.x) + slack);
    const bool unsure = is_near(square, complementary, off) || fmaxf(square.x, complementary.x) < TINY_SQUARE;
    const bool near_complementary = cosine.x < slack && unsure;
    if (orthogonal.x < TINY_SQUARE || is_near(square, orthogonal, off) || near_complementary) {
        atomicOr(doubt, 1u);
    }
    const bool is_orthogonal = less(square, orthogonal);
    const bool is_complementary = cosine.x < 0.0f && less(complementary, square);
    u32 found = 0u;
    if (!is_orthogonal) {
        found |= NOT_ORTHOGONAL;
    }
    if (is_complementary) {
        found |= COMPLEMENTARY;
    }
    if (!is_orthogonal && !is_complementary) {
        found |= NEITHER;
    }
    return found;
}

extern "C" __global__ __launch_bounds__(256) void choose(Params p, const float *e, const float *z, float2 *l1, float2 *g, u32 *chosen) {
    __shared__ u32 order[1024];
    __shared__ u32 members[1024];
    __shared__ u32 count;
    __shared__ u32 zeros;
    __shared__ u32 seen;
    __shared__ u32 doubt;
    const u32 lane = threadIdx.x;
    const u32 sample = blockIdx.y * gridDim.x + blockIdx.x;
    if (sample >= p.samples) {
        return;
    }
    const u32 out = sample * (3u + 2u * p.n);
    if (lane == 0u) {
        count = 0u;
        zeros = 0u;
        seen = 0u;
        doubt = 0u;
    }
    // Ranks of sums that are no numbers may leave a place free.
    for (u32 i = lane; i < p.n; i += 256u) {
        order[i] = i;
    }
    __syncthreads();
    for (u32 i = lane; i < p.n; i += 256u) {
        const float2 own = l1[sample * p.n + i];
        const float norm = product(p, g, sample, i, i).x;
        if ((own.x != 0.0f && norm < TINY) || !(norm < HUGE)) {
            atomicOr(&doubt, 1u);
        }
        u32 rank = 0u;
        for (u32 j = 0u; j < p.n; j++) {
            const float2 other = l1[sample * p.n + j];
            if (less(other, own) || (!less(own, other) && j < i)) {
                rank++;
            }
            if (i != j && own.x != 0.0f && is_close(own, other)) {
                atomicOr(&doubt, 1u);
            }
        }
        order[rank] = i;
    }
    __syncthreads();
    for (u32 turn = 0u; turn < p.n; turn++) {
        const u32 i = order[turn];
        const bool left_out = p.exclude_zeros != 0u && l1[sample * p.n + i].x == 0.0f;
        if (!left_out) {
            for (u32 m = lane; m < count; m += 256u) {
                atomicOr(&seen, relation(p, g, &doubt, sample, i, members[m]));
            }
        }
        __syncthreads();
        if (lane == 0u) {
            const u32 found = atomicExch(&seen, 0u);
            const bool orthogonal = (found & NOT_ORTHOGONAL) == 0u;
            bool complementary = (found & COMPLEMENTARY) != 0u;
            if (p.each != 0u) {
                complementary = (found & NEITHER) == 0u;
            }
            if (left_out) {
                chosen[out + 3u + p.n + zeros] = i;
                zeros++;
            } else if (orthogonal || complementary) {
                chosen[out + 3u + count] = i + (orthogonal ? 0u : 65536u);
                members[count] = i;
                count++;
            }
        }
        __syncthreads();
    }
    if (lane == 0u) {
        chosen[out] = doubt;
        chosen[out + 1u] = count;
        chosen[out + 2u] = zeros;
    }
}
