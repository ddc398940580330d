// Norms. Batch norms are folded into convolutions when weights are loaded, and need no kernel.
//
// layer       y = (x - mean) / sqrtf(variance + epsilon) * weight + bias over the channels of each pixel. 16 threads
//             share a pixel, 16 pixels a block; blocks over (x, y). Per value: 12 bytes read, 4 written, 8 flops.
// statistics  of each group of channels over all pixels of an image: for every channel the centre, the scale and the
//             shift with which (x - centre) * scale + shift is the norm, its modulation included. A block of 256
//             per image and group over (x, y). Per value: 8 bytes read, 5 flops.
// gather      the sums of `statistics` for an image that a launch cannot see whole: some of its pixels, each thread its own
//             values in the order in which `statistics` has them. Kept are for each group 256 sums, 256 sums of squares
//             (stage 1, when the others are complete) and the first value. A block of 256 per group over (x, y).
// conclude    what `statistics` finds, of these. A block of 256 per group over (x, y).
// normalise   y = activation((x - centre) * scale + shift), a thread per value, 256 per block over (x, y).
// modulate    y = activation(x * scale + shift), scales and shifts of each image's own. Per value of both: 4 bytes read,
//             4 written, 3 flops (modulate: 2), without the activation.
//
// Sums are taken in two passes, from the first value of their pixel or group: a large offset costs no digits. Their
// order depends on the shape of one image only.
// Arguments: params, x, weight, bias, modulation (scales, then shifts), y. What `statistics` finds (for each image
// centres, scales, shifts, channel by channel) are the maps that `normalise` has in the place of a modulation. `gather`
// keeps its sums in y, `conclude` has them as x.

#include "activation.cuh"
#include "launch.cuh"
#include "value.cuh"

struct Params {
    u32 x_at;
    u32 modulation_at;
    u32 y_at;
    u32 c;
    // Pixels: of this launch (layer, gather), of an image (others).
    u32 pixels;
    // Images and groups (statistics), values (normalise, modulate).
    u32 count;
    u32 groups;
    u32 has_modulation;
    u32 activation;
    float epsilon;
    // Values of an image in this launch, and the image its maps begin with; gather: pixels of an image.
    u32 image;
    u32 first_image;
    // gather: the first pixel of this launch, and what is summed: values, then squares.
    u32 first_pixel;
    u32 stage;
};

// What `gather` keeps of a group.
static const u32 KEPT = 513u;

// The sum of the `width` threads that share a number, in each of them.
__device__ inline float shared_sum(float value, u32 lane, u32 width) {
    __shared__ float partial[256];
    partial[lane] = value;
    __syncthreads();
    for (u32 half = width / 2u; half > 0u; half /= 2u) {
        if (lane % width < half) {
            partial[lane] += partial[lane + half];
        }
        __syncthreads();
    }
    const float sum = partial[lane - lane % width];
    __syncthreads();
    return sum;
}

extern "C" __global__ __launch_bounds__(256) void layer(Params p, const Value *x, const float *weight, const float *bias, const Value *modulation, Value *y) {
    const u32 lane = threadIdx.x;
    const u32 pixel = (blockIdx.y * gridDim.x + blockIdx.x) * 16u + lane / 16u;
    const bool inside = pixel < p.pixels;
    const u32 from = p.x_at + min(pixel, p.pixels - 1u) * p.c;
    const u32 start = lane % 16u;
    const float origin = f32(x[from]);
    float sum = 0.0f;
    for (u32 i = start; i < p.c; i += 16u) {
        sum += f32(x[from + i]) - origin;
    }
    const float mean = shared_sum(sum, lane, 16u) / (float)(p.c);
    sum = 0.0f;
    for (u32 i = start; i < p.c; i += 16u) {
        const float v = (f32(x[from + i]) - origin) - mean;
        sum += v * v;
    }
    const float variance = shared_sum(sum, lane, 16u) / (float)(p.c);
    const float scale = 1.0f / sqrtf(variance + p.epsilon);
    if (inside) {
        for (u32 i = start; i < p.c; i += 16u) {
            const float v = (f32(x[from + i]) - origin) - mean;
            y[p.y_at + pixel * p.c + i] = stored(v * scale * weight[i] + bias[i]);
        }
    }
}

// Centres, scales and shifts of the channels of a group, of its first value and the mean and variance of what lies above it.
__device__ inline void write_maps(const Params &p, const float *weight, const float *bias, const Value *modulation, float *found, u32 n, u32 channel, u32 width, float origin, float mean, float variance) {
    const u32 lane = threadIdx.x;
    const float inverse = 1.0f / sqrtf(variance + p.epsilon);
    // The mean as one number, and what its rounding took away.
    const float centre = origin + mean;
    const float rest = (origin - centre) + mean;
    for (u32 i = lane; i < width; i += 256u) {
        const u32 o = channel + i;
        float scale = inverse * weight[o];
        float shift = bias[o] - rest * scale;
        if (p.has_modulation != 0u) {
            const u32 m = p.modulation_at + n * 2u * p.c + o;
            const float more = 1.0f + f32(modulation[m]);
            scale *= more;
            shift = shift * more + f32(modulation[m + p.c]);
        }
        const u32 to = p.y_at + n * 3u * p.c + o;
        found[to] = centre;
        found[to + p.c] = scale;
        found[to + 2u * p.c] = shift;
    }
}

extern "C" __global__ __launch_bounds__(256) void statistics(Params p, const Value *x, const float *weight, const float *bias, const Value *modulation, float *found) {
    const u32 lane = threadIdx.x;
    const u32 index = blockIdx.y * gridDim.x + blockIdx.x;
    if (index >= p.count) {
        return;
    }
    const u32 n = index / p.groups;
    const u32 width = p.c / p.groups;
    const u32 channel = (index - n * p.groups) * width;
    const u32 from = p.x_at + n * p.pixels * p.c + channel;
    const u32 values = p.pixels * width;
    const float origin = f32(x[from]);
    float sum = 0.0f;
    for (u32 i = lane; i < values; i += 256u) {
        sum += f32(x[from + i / width * p.c + i % width]) - origin;
    }
    const float mean = shared_sum(sum, lane, 256u) / (float)(values);
    sum = 0.0f;
    for (u32 i = lane; i < values; i += 256u) {
        const float v = (f32(x[from + i / width * p.c + i % width]) - origin) - mean;
        sum += v * v;
    }
    const float variance = shared_sum(sum, lane, 256u) / (float)(values);
    write_maps(p, weight, bias, modulation, found, n, channel, width, origin, mean, variance);
}

extern "C" __global__ __launch_bounds__(256) void gather(Params p, const Value *x, const float *weight, const float *bias, const Value *modulation, float *found) {
    const u32 lane = threadIdx.x;
    const u32 index = blockIdx.y * gridDim.x + blockIdx.x;
    if (index >= p.count) {
        return;
    }
    const u32 width = p.c / p.groups;
    const u32 from = p.x_at + index * width;
    const u32 kept = p.y_at + index * KEPT;
    // Values of the group that come before those of this launch, and before the last of it.
    const u32 first = p.first_pixel * width;
    const u32 end = first + p.pixels * width;
    // The first of its values at or after `first`.
    const u32 start = first + (lane + 256u - first % 256u) % 256u;
    const float origin = p.first_pixel == 0u ? f32(x[from]) : found[kept + 512u];
    float sum = p.first_pixel == 0u ? 0.0f : found[kept + p.stage * 256u + lane];
    if (p.stage == 0u) {
        for (u32 i = start; i < end; i += 256u) {
            const u32 at = i - first;
            sum += f32(x[from + at / width * p.c + at % width]) - origin;
        }
        if (lane == 0u && p.first_pixel == 0u) {
            found[kept + 512u] = origin;
        }
    } else {
        const float mean = shared_sum(found[kept + lane], lane, 256u) / (float)(p.image * width);
        for (u32 i = start; i < end; i += 256u) {
            const u32 at = i - first;
            const float v = (f32(x[from + at / width * p.c + at % width]) - origin) - mean;
            sum += v * v;
        }
    }
    found[kept + p.stage * 256u + lane] = sum;
}

extern "C" __global__ __launch_bounds__(256) void conclude(Params p, const float *sums, const float *weight, const float *bias, const Value *modulation, float *found) {
    const u32 lane = threadIdx.x;
    const u32 index = blockIdx.y * gridDim.x + blockIdx.x;
    if (index >= p.count) {
        return;
    }
    const u32 n = index / p.groups;
    const u32 width = p.c / p.groups;
    const u32 values = p.pixels * width;
    const u32 kept = p.x_at + index * KEPT;
    const float mean = shared_sum(sums[kept + lane], lane, 256u) / (float)(values);
    const float variance = shared_sum(sums[kept + 256u + lane], lane, 256u) / (float)(values);
    const u32 channel = (index - n * p.groups) * width;
    write_maps(p, weight, bias, modulation, found, n, channel, width, sums[kept + 512u], mean, variance);
}

extern "C" __global__ __launch_bounds__(256) void normalise(Params p, const Value *x, const float *weight, const float *bias, const float *maps, Value *y) {
    const u32 index = value_index();
    if (index >= p.count) {
        return;
    }
    const u32 map = p.modulation_at + (p.first_image + index / p.image) * 3u * p.c + index % p.c;
    const float centred = f32(x[p.x_at + index]) - maps[map];
    const float v = centred * maps[map + p.c] + maps[map + 2u * p.c];
    y[p.y_at + index] = stored(activate(v, p.activation));
}

extern "C" __global__ __launch_bounds__(256) void modulate(Params p, const Value *x, const float *weight, const float *bias, const Value *modulation, Value *y) {
    const u32 index = value_index();
    if (index >= p.count) {
        return;
    }
    const u32 map = p.modulation_at + (p.first_image + index / p.image) * 2u * p.c + index % p.c;
    const float v = f32(x[p.x_at + index]) * f32(modulation[map]) + f32(modulation[map + p.c]);
    y[p.y_at + index] = stored(activate(v, p.activation));
}
