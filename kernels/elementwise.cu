// Value by value. A thread per value, 256 per block over (x, y).
//
// add       y = a + b, with b repeated over pixels or images. Per value: 8 bytes read, 4 written, 1 flop.
// activated y = activation(a). Per value: 4 bytes read, 4 written; 1 flop (relu), 2 (relu6, leaky relu),
//           25 (tanh), 27 (silu), 32 (gelu).
// affine    y[c] = a[order[c]] * scale[c] + shift[c]. Per value: 4 bytes read, 4 written, 2 flops.
// looked_up y = table[a] for pixels, whole numbers 0..255; what is none is cut to them. Per value: 4 bytes read, 4 written.
//
// Arguments: params, a, b (affine: table, for each channel its source, scale and shift, as bits; looked_up: table), y.

#include "activation.cuh"
#include "launch.cuh"
#include "value.cuh"

struct Params {
    u32 a_at;
    u32 b_at;
    u32 y_at;
    u32 count;
    // Channels of a, and of y.
    u32 c;
    u32 out_c;
    // Values of an image in this launch, values between two images of b, whether b has pixels.
    u32 image;
    u32 b_image;
    u32 b_pixels;
    u32 activation;
};

extern "C" __global__ __launch_bounds__(256) void add(Params p, const Value *a, const Value *b, Value *y) {
    const u32 index = value_index();
    if (index >= p.count) {
        return;
    }
    const u32 n = index / p.image;
    u32 rest = index - n * p.image;
    if (p.b_pixels == 0u) {
        rest = rest % p.c;
    }
    y[p.y_at + index] = stored(f32(a[p.a_at + index]) + f32(b[p.b_at + n * p.b_image + rest]));
}

extern "C" __global__ __launch_bounds__(256) void activated(Params p, const Value *a, const Value *b, Value *y) {
    const u32 index = value_index();
    if (index < p.count) {
        y[p.y_at + index] = stored(activate(f32(a[p.a_at + index]), p.activation));
    }
}

extern "C" __global__ __launch_bounds__(256) void affine(Params p, const Value *a, const float *table, Value *y) {
    const u32 index = value_index();
    if (index >= p.count) {
        return;
    }
    const u32 pixel = index / p.out_c;
    const u32 channel = index - pixel * p.out_c;
    const u32 source = __float_as_uint(table[channel]);
    const float value = f32(a[p.a_at + pixel * p.c + source]);
    y[p.y_at + index] = stored(value * table[p.out_c + channel] + table[2u * p.out_c + channel]);
}

extern "C" __global__ __launch_bounds__(256) void looked_up(Params p, const Value *a, const float *table, Value *y) {
    const u32 index = value_index();
    if (index < p.count) {
        const float value = f32(a[p.a_at + index]);
        y[p.y_at + index] = stored(table[value > 255.0f ? 255u : value > 0.0f ? (u32)(value) : 0u]);
    }
}
