// Pooling. An invocation per output value, channels next to each other; 256 values per workgroup over (x, y).
//
// largest   y = max over the window; a NaN stays a NaN.
// mean      y = sum over the window / number of its pixels, with or without the padding.
// cell      y = mean over the pixels of a cell of a grid, `[i*size/cells, ceil((i+1)*size/cells))`, summed in two f32.
//
// Per output: one flop (cell: ten) and 4 bytes read for each pixel of the window.
// Arguments: params, x, y.

struct Params {
    x_at: u32,
    y_at: u32,
    h: u32,
    w: u32,
    c: u32,
    out_h: u32,
    out_w: u32,
    // The rows of this launch and the number of its values.
    first_row: u32,
    rows: u32,
    count: u32,
    kernel: u32,
    stride: u32,
    padding: u32,
    count_padding: u32,
    // Channels per pixel of the output in memory, and the first of them that is written.
    channels: u32,
    first: u32,
    zero: u32,
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> x: array<Value>;
@group(0) @binding(2) var<storage, read_write> y: array<Value>;

struct Place {
    n: u32,
    row: u32,
    column: u32,
    channel: u32,
}

fn place(index: u32) -> Place {
    let pixel = index / p.c;
    let image = p.rows * p.out_w;
    let n = pixel / image;
    let rest = pixel - n * image;
    let row = rest / p.out_w;
    return Place(n, p.first_row + row, rest - row * p.out_w, index - pixel * p.c);
}

// First pixel, end, and length with padding of a window along one axis.
fn span(index: u32, size: u32) -> vec3<u32> {
    let start = index * p.stride;
    let end = min(start + p.kernel, size + 2u * p.padding);
    let first = max(start, p.padding) - p.padding;
    return vec3<u32>(first, min(max(end, p.padding) - p.padding, size), end - start);
}

fn write(at: Place, value: f32) {
    let pixel = (at.n * p.out_h + at.row) * p.out_w + at.column;
    y[p.y_at + pixel * p.channels + p.first + at.channel] = Value(value);
}

fn invocation(group: vec3<u32>, groups: vec3<u32>, lane: u32) -> u32 {
    return (group.y * groups.x + group.x) * 256u + lane;
}

@compute @workgroup_size(256)
fn largest(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let index = invocation(group, groups, lane);
    if (index >= p.count) {
        return;
    }
    let at = place(index);
    let ys = span(at.row, p.h);
    let xs = span(at.column, p.w);
    let image = p.x_at + at.n * p.h * p.w * p.c + at.channel;
    // Windows hold at least one pixel.
    var best = f32(x[image + (ys.x * p.w + xs.x) * p.c]);
    for (var iy = ys.x; iy < ys.y; iy++) {
        for (var ix = xs.x; ix < xs.y; ix++) {
            let value = f32(x[image + (iy * p.w + ix) * p.c]);
            if (is_nan(value) || (value > best && !is_nan(best))) {
                best = value;
            }
        }
    }
    write(at, best);
}

@compute @workgroup_size(256)
fn mean(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let index = invocation(group, groups, lane);
    if (index >= p.count) {
        return;
    }
    let at = place(index);
    let ys = span(at.row, p.h);
    let xs = span(at.column, p.w);
    let image = p.x_at + at.n * p.h * p.w * p.c + at.channel;
    var sum = 0.0;
    for (var iy = ys.x; iy < ys.y; iy++) {
        for (var ix = xs.x; ix < xs.y; ix++) {
            sum += f32(x[image + (iy * p.w + ix) * p.c]);
        }
    }
    var pixels = (ys.y - ys.x) * (xs.y - xs.x);
    if (p.count_padding != 0u) {
        pixels = ys.z * xs.z;
    }
    write(at, sum / f32(pixels));
}

@compute @workgroup_size(256)
fn cell(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let index = invocation(group, groups, lane);
    if (index >= p.count) {
        return;
    }
    let at = place(index);
    let top = at.row * p.h / p.out_h;
    let bottom = ((at.row + 1u) * p.h + p.out_h - 1u) / p.out_h;
    let left = at.column * p.w / p.out_w;
    let right = ((at.column + 1u) * p.w + p.out_w - 1u) / p.out_w;
    let image = p.x_at + at.n * p.h * p.w * p.c + at.channel;
    var sum = vec2<f32>();
    for (var iy = top; iy < bottom; iy++) {
        for (var ix = left; ix < right; ix++) {
            sum = add_value(sum, f32(x[image + (iy * p.w + ix) * p.c]), p.zero);
        }
    }
    write(at, (sum.x + sum.y) / f32((bottom - top) * (right - left)));
}
