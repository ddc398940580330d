// The two products of attention, softmax(q k^T / sqrt(d) + bias) v for every image and head; `softmax` stands between.
//
// scores  s[b, q, k] = sum over i of query[q, i] * key[k, i] / sqrt(d) + bias[window, head, q, k]
// mix     y[n, q, head, i] = sum over k of s[b, q, k] * value[k, i]
//
// b counts images and heads together. A block of 256 makes 16 x 16 values, a thread one; 16 terms of the sum at
// a time go through shared memory (2 KiB). Launch: tiles of keys or channels over x, of queries over y, b over z.
// Per output: 2 d (or 2 tokens) flops, d / 2 (or tokens / 2) bytes read, 4 written. Every sum is taken in the order of its terms by one
// thread.
// Arguments: params, qkv [n, tokens, 3c], bias, s, y.

#include "value.cuh"

struct Params {
    u32 qkv_at;
    u32 bias_at;
    u32 y_at;
    // First image and head of this launch.
    u32 first;
    u32 tokens;
    // Queries of this launch.
    u32 first_query;
    u32 queries;
    u32 heads;
    // Channels of a head and of a token of qkv.
    u32 d;
    u32 token;
    // Channels between two heads, and between query, key and value of one.
    u32 head_step;
    u32 part_step;
    // Windows of the bias, 0 without one, and the image of the batch that the launch begins with.
    u32 windows;
    u32 first_image;
    float scale;
};

// [row of a tile][term], and [term][column].

extern "C" __global__ __launch_bounds__(256) void scores(Params p, const Value *qkv, const Value *bias, float *s, Value *y) {
    __shared__ float left[256];
    __shared__ float right[256];
    const u32 lane = threadIdx.x;
    const u32 n = (p.first + blockIdx.z) / p.heads;
    const u32 head = p.first + blockIdx.z - n * p.heads;
    const u32 row = lane / 16u;
    const u32 column = lane % 16u;
    const u32 query = blockIdx.y * 16u + row;
    const u32 key = blockIdx.x * 16u + column;
    const u32 at = p.qkv_at + n * p.tokens * p.token + head * p.head_step;
    // The row of a tile of keys that this thread loads.
    const u32 load_key = blockIdx.x * 16u + row;
    float sum = 0.0f;
    for (u32 term = 0u; term < p.d; term += 16u) {
        const u32 i = term + column;
        float a = 0.0f;
        float b = 0.0f;
        if (i < p.d && query < p.queries) {
            a = f32(qkv[at + (p.first_query + query) * p.token + i]);
        }
        if (i < p.d && load_key < p.tokens) {
            b = f32(qkv[at + p.part_step + load_key * p.token + i]);
        }
        left[lane] = a;
        right[column * 16u + row] = b;
        __syncthreads();
        for (u32 k = 0u; k < 16u; k++) {
            sum += left[row * 16u + k] * right[k * 16u + column];
        }
        __syncthreads();
    }
    if (query < p.queries && key < p.tokens) {
        float score = sum * p.scale;
        if (p.windows != 0u) {
            const u32 window = ((p.first_image + n) % p.windows) * p.heads + head;
            score += f32(bias[p.bias_at + (window * p.tokens + p.first_query + query) * p.tokens + key]);
        }
        s[(blockIdx.z * p.queries + query) * p.tokens + key] = score;
    }
}

extern "C" __global__ __launch_bounds__(256) void mix(Params p, const Value *qkv, const Value *bias, float *s, Value *y) {
    __shared__ float left[256];
    __shared__ float right[256];
    const u32 lane = threadIdx.x;
    const u32 n = (p.first + blockIdx.z) / p.heads;
    const u32 head = p.first + blockIdx.z - n * p.heads;
    const u32 row = lane / 16u;
    const u32 column = lane % 16u;
    const u32 query = blockIdx.y * 16u + row;
    const u32 i = blockIdx.x * 16u + column;
    const u32 at = p.qkv_at + n * p.tokens * p.token + head * p.head_step + 2u * p.part_step;
    float sum = 0.0f;
    for (u32 term = 0u; term < p.tokens; term += 16u) {
        float a = 0.0f;
        float b = 0.0f;
        if (query < p.queries && term + column < p.tokens) {
            a = s[(blockIdx.z * p.queries + query) * p.tokens + term + column];
        }
        if (i < p.d && term + row < p.tokens) {
            b = f32(qkv[at + (term + row) * p.token + i]);
        }
        left[lane] = a;
        right[lane] = b;
        __syncthreads();
        for (u32 k = 0u; k < 16u; k++) {
            sum += left[row * 16u + k] * right[k * 16u + column];
        }
        __syncthreads();
    }
    if (query < p.queries && i < p.d) {
        const u32 token = n * p.tokens + p.first_query + query;
        y[p.y_at + token * p.heads * p.d + head * p.d + i] = stored(sum);
    }
}
