// Copies: nothing is computed. A thread per output value, 256 per block over (x, y); 4 bytes read (pixels: 1)
// and 4 written per value.
//
// pixels            bytes 0..255 to values.
// channels          pixels into a run of channels of wider pixels (concatenation).
// windows           windows of size x size after a cyclic shift, zeros beyond the image; `unwindows` undoes it.
// patches           2x2 blocks, column by column, into the channels; zeros beyond the image.
// upsample          each pixel `size` times along rows and columns.
// crop              a rectangle from (shift_y, shift_x).
//
// Arguments: params, x (pixels: words of four bytes), y.

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
    // channels: of the wider pixels, and the first that is written.
    u32 channels;
    u32 first;
    u32 size;
    u32 shift_y;
    u32 shift_x;
    // Windows of an image along rows and columns.
    u32 rows;
    u32 columns;
};

extern "C" __global__ __launch_bounds__(256) void pixels(Params p, const u32 *bytes, Value *values) {
    const u32 index = value_index();
    if (index >= p.count) {
        return;
    }
    const u32 byte = (bytes[p.x_at + index / 4u] >> (index % 4u * 8u)) & 255u;
    values[p.y_at + index] = stored((float)(byte));
}

extern "C" __global__ __launch_bounds__(256) void channels(Params p, const Bits *x, Bits *y) {
    const u32 index = value_index();
    if (index >= p.count) {
        return;
    }
    const u32 pixel = index / p.c;
    y[p.y_at + pixel * p.channels + p.first + index - pixel * p.c] = x[p.x_at + index];
}

extern "C" __global__ __launch_bounds__(256) void windows(Params p, const Bits *x, Bits *y) {
    const u32 index = value_index();
    if (index >= p.count) {
        return;
    }
    const u32 channel = index % p.c;
    const u32 pixel = index / p.c;
    const u32 inner = pixel % (p.size * p.size);
    const u32 window = pixel / (p.size * p.size);
    const u32 n = window / (p.rows * p.columns);
    const u32 row = window / p.columns % p.rows;
    const u32 iy = (row * p.size + inner / p.size + p.shift_y) % (p.rows * p.size);
    const u32 ix = (window % p.columns * p.size + inner % p.size + p.shift_x) % (p.columns * p.size);
    Bits value = 0u;
    if (iy < p.h && ix < p.w) {
        value = x[p.x_at + ((n * p.h + iy) * p.w + ix) * p.c + channel];
    }
    y[p.y_at + index] = value;
}

extern "C" __global__ __launch_bounds__(256) void unwindows(Params p, const Bits *x, Bits *y) {
    const u32 index = value_index();
    if (index >= p.count) {
        return;
    }
    const u32 channel = index % p.c;
    const u32 pixel = index / p.c;
    const u32 n = pixel / (p.h * p.w);
    const u32 rest = pixel - n * p.h * p.w;
    const u32 all_y = p.rows * p.size;
    const u32 all_x = p.columns * p.size;
    const u32 wy = (rest / p.w + all_y - p.shift_y % all_y) % all_y;
    const u32 wx = (rest % p.w + all_x - p.shift_x % all_x) % all_x;
    const u32 window = (n * p.rows + wy / p.size) * p.columns + wx / p.size;
    const u32 from = (window * p.size + wy % p.size) * p.size + wx % p.size;
    y[p.y_at + index] = x[p.x_at + from * p.c + channel];
}

extern "C" __global__ __launch_bounds__(256) void patches(Params p, const Bits *x, Bits *y) {
    const u32 index = value_index();
    if (index >= p.count) {
        return;
    }
    const u32 channel = index % p.c;
    const u32 part = index / p.c % 4u;
    const u32 pixel = index / (4u * p.c);
    const u32 row = pixel / p.out_w;
    const u32 n = row / p.out_h;
    const u32 iy = (row - n * p.out_h) * 2u + part % 2u;
    const u32 ix = (pixel - row * p.out_w) * 2u + part / 2u;
    Bits value = 0u;
    if (iy < p.h && ix < p.w) {
        value = x[p.x_at + ((n * p.h + iy) * p.w + ix) * p.c + channel];
    }
    y[p.y_at + index] = value;
}

extern "C" __global__ __launch_bounds__(256) void upsample(Params p, const Bits *x, Bits *y) {
    const u32 index = value_index();
    if (index >= p.count) {
        return;
    }
    const u32 channel = index % p.c;
    const u32 pixel = index / p.c;
    const u32 row = pixel / p.out_w;
    const u32 n = row / p.out_h;
    const u32 iy = (row - n * p.out_h) / p.size;
    const u32 ix = (pixel - row * p.out_w) / p.size;
    y[p.y_at + index] = x[p.x_at + ((n * p.h + iy) * p.w + ix) * p.c + channel];
}

extern "C" __global__ __launch_bounds__(256) void crop(Params p, const Bits *x, Bits *y) {
    const u32 index = value_index();
    if (index >= p.count) {
        return;
    }
    const u32 channel = index % p.c;
    const u32 pixel = index / p.c;
    const u32 row = pixel / p.out_w;
    const u32 n = row / p.out_h;
    const u32 iy = row - n * p.out_h + p.shift_y;
    const u32 ix = pixel - row * p.out_w + p.shift_x;
    y[p.y_at + index] = x[p.x_at + ((n * p.h + iy) * p.w + ix) * p.c + channel];
}
