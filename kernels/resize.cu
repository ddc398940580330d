// The three bilinear resizes of FID code and the resize of Pillow, in the arithmetic of their originals. A thread per
// output value, 256 per block over (x, y).
//
// tf1         two lerps a + (b - a) t, columns first. Per value: 16 bytes read, 9 flops.
// half_pixel  a sum over the four neighbours. Per value: 16 bytes read, 11 flops.
// columns,    a triangle filter, columns first: sum over j of weight[j] * x[first + j]. Per value: 8 bytes read and
// rows        2 flops for each tap.
// pixel_columns, pixel_rows
//             one pass of Pillow's resize of 8-bit images, any filter: (2^21 + sum over j of weight[j] * x[first + j])
//             shifted right by 22 and clipped to 0..255, all in 32-bit integers; x and y are whole numbers. Per value: 8
//             bytes read and 2 operations for each tap.
//
// Which neighbours an output coordinate has, and their weights, comes from the host: those of the CPU engine, bit by bit.
// Arguments: params, x, ys, xs, y. Of each coordinate ys and xs hold (tf1, half_pixel) the lower and the higher
// neighbour and their weights, or (columns: xs, rows: ys) the first tap, the number of taps and where their weights
// begin, then all weights; floats as bits, those of pixels as integers.

#include "launch.cuh"
#include "value.cuh"

struct Params {
    u32 x_at;
    u32 y_at;
    u32 count;
    u32 h;
    u32 w;
    u32 c;
    u32 out_h;
    u32 out_w;
    // The rows of this launch.
    u32 first_row;
    u32 rows;
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

__device__ inline void write(const Params &p, Value *y, Place at, float value) {
    y[p.y_at + ((at.n * p.out_h + at.row) * p.out_w + at.column) * p.c + at.channel] = stored(value);
}

// Top left, top right, bottom left, bottom right.
__device__ inline float4 corners(const Params &p, const Value *x, const u32 *ys, const u32 *xs, Place at) {
    const u32 image = p.x_at + at.n * p.h * p.w * p.c + at.channel;
    const u32 top = image + ys[4u * at.row] * p.w * p.c;
    const u32 bottom = image + ys[4u * at.row + 1u] * p.w * p.c;
    const u32 left = xs[4u * at.column] * p.c;
    const u32 right = xs[4u * at.column + 1u] * p.c;
    return make_float4(f32(x[top + left]), f32(x[top + right]), f32(x[bottom + left]), f32(x[bottom + right]));
}

extern "C" __global__ __launch_bounds__(256) void tf1(Params p, const Value *x, const u32 *ys, const u32 *xs, Value *y) {
    const u32 index = value_index();
    if (index >= p.count) {
        return;
    }
    const Place at = place(p, index);
    const float4 v = corners(p, x, ys, xs, at);
    const float tx = __uint_as_float(xs[4u * at.column + 3u]);
    const float ty = __uint_as_float(ys[4u * at.row + 3u]);
    // Rounded one by one: the compiler would fuse them.
    const float top = __fadd_rn(v.x, __fmul_rn(__fsub_rn(v.y, v.x), tx));
    const float bottom = __fadd_rn(v.z, __fmul_rn(__fsub_rn(v.w, v.z), tx));
    write(p, y, at, __fadd_rn(top, __fmul_rn(__fsub_rn(bottom, top), ty)));
}

extern "C" __global__ __launch_bounds__(256) void half_pixel(Params p, const Value *x, const u32 *ys, const u32 *xs, Value *y) {
    const u32 index = value_index();
    if (index >= p.count) {
        return;
    }
    const Place at = place(p, index);
    const float4 v = corners(p, x, ys, xs, at);
    const float left = __uint_as_float(xs[4u * at.column + 2u]);
    const float right = __uint_as_float(xs[4u * at.column + 3u]);
    const float top = __uint_as_float(ys[4u * at.row + 2u]);
    const float bottom = __uint_as_float(ys[4u * at.row + 3u]);
    float sum = v.y * (top * right);
    sum = fmaf(v.x, top * left, sum);
    sum = fmaf(v.z, bottom * left, sum);
    write(p, y, at, fmaf(v.w, bottom * right, sum));
}

extern "C" __global__ __launch_bounds__(256) void columns(Params p, const Value *x, const u32 *ys, const u32 *xs, Value *y) {
    const u32 index = value_index();
    if (index >= p.count) {
        return;
    }
    const Place at = place(p, index);
    const u32 first = xs[3u * at.column];
    const u32 taps = xs[3u * at.column + 1u];
    const u32 weights = xs[3u * at.column + 2u];
    const u32 from = p.x_at + ((at.n * p.h + at.row) * p.w + first) * p.c + at.channel;
    float sum = 0.0f;
    for (u32 j = 0u; j < taps; j++) {
        sum = fmaf(f32(x[from + j * p.c]), __uint_as_float(xs[weights + j]), sum);
    }
    write(p, y, at, sum);
}

extern "C" __global__ __launch_bounds__(256) void rows(Params p, const Value *x, const u32 *ys, const u32 *xs, Value *y) {
    const u32 index = value_index();
    if (index >= p.count) {
        return;
    }
    const Place at = place(p, index);
    const u32 first = ys[3u * at.row];
    const u32 taps = ys[3u * at.row + 1u];
    const u32 weights = ys[3u * at.row + 2u];
    const u32 from = p.x_at + ((at.n * p.h + first) * p.w + at.column) * p.c + at.channel;
    float sum = 0.0f;
    for (u32 j = 0u; j < taps; j++) {
        sum = fmaf(f32(x[from + j * p.w * p.c]), __uint_as_float(ys[weights + j]), sum);
    }
    write(p, y, at, sum);
}

// A sum in fixed point as a pixel.
__device__ inline void write_pixel(const Params &p, Value *y, Place at, u32 sum) {
    const int value = (int)(sum) >> 22;
    write(p, y, at, (float)(value < 0 ? 0 : value > 255 ? 255 : value));
}

extern "C" __global__ __launch_bounds__(256) void pixel_columns(Params p, const Value *x, const u32 *ys, const u32 *xs, Value *y) {
    const u32 index = value_index();
    if (index >= p.count) {
        return;
    }
    const Place at = place(p, index);
    const u32 first = xs[3u * at.column];
    const u32 taps = xs[3u * at.column + 1u];
    const u32 weights = xs[3u * at.column + 2u];
    const u32 from = p.x_at + ((at.n * p.h + at.row) * p.w + first) * p.c + at.channel;
    u32 sum = 2097152u;
    for (u32 j = 0u; j < taps; j++) {
        sum += (u32)(f32(x[from + j * p.c])) * xs[weights + j];
    }
    write_pixel(p, y, at, sum);
}

extern "C" __global__ __launch_bounds__(256) void pixel_rows(Params p, const Value *x, const u32 *ys, const u32 *xs, Value *y) {
    const u32 index = value_index();
    if (index >= p.count) {
        return;
    }
    const Place at = place(p, index);
    const u32 first = ys[3u * at.row];
    const u32 taps = ys[3u * at.row + 1u];
    const u32 weights = ys[3u * at.row + 2u];
    const u32 from = p.x_at + ((at.n * p.h + first) * p.w + at.column) * p.c + at.channel;
    u32 sum = 2097152u;
    for (u32 j = 0u; j < taps; j++) {
        sum += (u32)(f32(x[from + j * p.w * p.c])) * ys[weights + j];
    }
    write_pixel(p, y, at, sum);
}
