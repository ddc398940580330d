// Pooling. A thread per output value, channels next to each other; 256 values per block over (x, y).
//
// largest   y = max over the window; a NaN stays a NaN.
// mean      y = sum over the window / number of its pixels, with or without the padding.
// cell      y = mean over the pixels of a cell of a grid, `[i*size/cells, ceil((i+1)*size/cells))`, summed in two f32.
//
// Per output: one flop (cell: ten) and 4 bytes read for each pixel of the window.
// Arguments: params, x, y.

#include "activation.cuh"
#include "two_float.cuh"
#include "launch.cuh"
#include "value.cuh"

struct Params {
    u32 x_at;
    u32 y_at;
    u32 h;
    u32 w;
    u32 c;
    u32 out_h;
    u32 out_w;
    // The rows of this launch and the number of its values.
    u32 first_row;
    u32 rows;
    u32 count;
    u32 kernel;
    u32 stride;
    u32 padding;
    u32 count_padding;
    // Channels per pixel of the output in memory, and the first of them that is written.
    u32 channels;
    u32 first;
    u32 zero;
};

struct Place {
    u32 n;
    u32 row;
    u32 column;
    u32 channel;
};

__device__ inline Place place(const Params &p, u32 index) {
    const u32 pixel = index / p.c;
    const u32 image = p.rows * p.out_w;
    const u32 n = pixel / image;
    const u32 rest = pixel - n * image;
    const u32 row = rest / p.out_w;
    const Place at = {n, p.first_row + row, rest - row * p.out_w, index - pixel * p.c};
    return at;
}

// First pixel, end, and length with padding of a window along one axis.
__device__ inline uint3 span(const Params &p, u32 index, u32 size) {
    const u32 start = index * p.stride;
    const u32 end = min(start + p.kernel, size + 2u * p.padding);
    const u32 first = max(start, p.padding) - p.padding;
    return make_uint3(first, min(max(end, p.padding) - p.padding, size), end - start);
}

__device__ inline void write(const Params &p, Value *y, Place at, float value) {
    const u32 pixel = (at.n * p.out_h + at.row) * p.out_w + at.column;
    y[p.y_at + pixel * p.channels + p.first + at.channel] = stored(value);
}

extern "C" __global__ __launch_bounds__(256) void largest(Params p, const Value *x, Value *y) {
    const u32 index = value_index();
    if (index >= p.count) {
        return;
    }
    const Place at = place(p, index);
    const uint3 ys = span(p, at.row, p.h);
    const uint3 xs = span(p, at.column, p.w);
    const u32 image = p.x_at + at.n * p.h * p.w * p.c + at.channel;
    // Windows hold at least one pixel.
    float best = f32(x[image + (ys.x * p.w + xs.x) * p.c]);
    for (u32 iy = ys.x; iy < ys.y; iy++) {
        for (u32 ix = xs.x; ix < xs.y; ix++) {
            const float value = f32(x[image + (iy * p.w + ix) * p.c]);
            if (is_nan(value) || (value > best && !is_nan(best))) {
                best = value;
            }
        }
    }
    write(p, y, at, best);
}

extern "C" __global__ __launch_bounds__(256) void mean(Params p, const Value *x, Value *y) {
    const u32 index = value_index();
    if (index >= p.count) {
        return;
    }
    const Place at = place(p, index);
    const uint3 ys = span(p, at.row, p.h);
    const uint3 xs = span(p, at.column, p.w);
    const u32 image = p.x_at + at.n * p.h * p.w * p.c + at.channel;
    float sum = 0.0f;
    for (u32 iy = ys.x; iy < ys.y; iy++) {
        for (u32 ix = xs.x; ix < xs.y; ix++) {
            sum += f32(x[image + (iy * p.w + ix) * p.c]);
        }
    }
    u32 pixels = (ys.y - ys.x) * (xs.y - xs.x);
    if (p.count_padding != 0u) {
        pixels = ys.z * xs.z;
    }
    write(p, y, at, sum / (float)(pixels));
}

extern "C" __global__ __launch_bounds__(256) void cell(Params p, const Value *x, Value *y) {
    const u32 index = value_index();
    if (index >= p.count) {
        return;
    }
    const Place at = place(p, index);
    const u32 top = at.row * p.h / p.out_h;
    const u32 bottom = ((at.row + 1u) * p.h + p.out_h - 1u) / p.out_h;
    const u32 left = at.column * p.w / p.out_w;
    const u32 right = ((at.column + 1u) * p.w + p.out_w - 1u) / p.out_w;
    const u32 image = p.x_at + at.n * p.h * p.w * p.c + at.channel;
    float2 sum = make_float2(0.0f, 0.0f);
    for (u32 iy = top; iy < bottom; iy++) {
        for (u32 ix = left; ix < right; ix++) {
            sum = add_value(sum, f32(x[image + (iy * p.w + ix) * p.c]));
        }
    }
    write(p, y, at, (sum.x + sum.y) / (float)((bottom - top) * (right - left)));
}
