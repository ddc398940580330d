// Copies: nothing is computed. An invocation per output value, 256 per workgroup over (x, y); 4 bytes read (pixels: 1)
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

struct Params {
    x_at: u32,
    y_at: u32,
    count: u32,
    h: u32,
    w: u32,
    c: u32,
    out_h: u32,
    out_w: u32,
    // channels: of the wider pixels, and the first that is written.
    channels: u32,
    first: u32,
    size: u32,
    shift_y: u32,
    shift_x: u32,
    // Windows of an image along rows and columns.
    rows: u32,
    columns: u32,
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> x: array<Bits>;
@group(0) @binding(1) var<storage, read> bytes: array<u32>;
@group(0) @binding(2) var<storage, read_write> y: array<Bits>;
@group(0) @binding(2) var<storage, read_write> values: array<Value>;

fn invocation(group: vec3<u32>, groups: vec3<u32>, lane: u32) -> u32 {
    return (group.y * groups.x + group.x) * 256u + lane;
}

@compute @workgroup_size(256)
fn pixels(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let index = invocation(group, groups, lane);
    if (index >= p.count) {
        return;
    }
    let byte = (bytes[p.x_at + index / 4u] >> (index % 4u * 8u)) & 255u;
    values[p.y_at + index] = Value(f32(byte));
}

@compute @workgroup_size(256)
fn channels(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let index = invocation(group, groups, lane);
    if (index >= p.count) {
        return;
    }
    let pixel = index / p.c;
    y[p.y_at + pixel * p.channels + p.first + index - pixel * p.c] = x[p.x_at + index];
}

@compute @workgroup_size(256)
fn windows(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let index = invocation(group, groups, lane);
    if (index >= p.count) {
        return;
    }
    let channel = index % p.c;
    let pixel = index / p.c;
    let inner = pixel % (p.size * p.size);
    let window = pixel / (p.size * p.size);
    let n = window / (p.rows * p.columns);
    let row = window / p.columns % p.rows;
    let iy = (row * p.size + inner / p.size + p.shift_y) % (p.rows * p.size);
    let ix = (window % p.columns * p.size + inner % p.size + p.shift_x) % (p.columns * p.size);
    var value = Bits(0);
    if (iy < p.h && ix < p.w) {
        value = x[p.x_at + ((n * p.h + iy) * p.w + ix) * p.c + channel];
    }
    y[p.y_at + index] = value;
}

@compute @workgroup_size(256)
fn unwindows(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let index = invocation(group, groups, lane);
    if (index >= p.count) {
        return;
    }
    let channel = index % p.c;
    let pixel = index / p.c;
    let n = pixel / (p.h * p.w);
    let rest = pixel - n * p.h * p.w;
    let all_y = p.rows * p.size;
    let all_x = p.columns * p.size;
    let wy = (rest / p.w + all_y - p.shift_y % all_y) % all_y;
    let wx = (rest % p.w + all_x - p.shift_x % all_x) % all_x;
    let window = (n * p.rows + wy / p.size) * p.columns + wx / p.size;
    let begin = (window * p.size + wy % p.size) * p.size + wx % p.size;
    y[p.y_at + index] = x[p.x_at + begin * p.c + channel];
}

@compute @workgroup_size(256)
fn patches(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let index = invocation(group, groups, lane);
    if (index >= p.count) {
        return;
    }
    let channel = index % p.c;
    let part = index / p.c % 4u;
    let pixel = index / (4u * p.c);
    let row = pixel / p.out_w;
    let n = row / p.out_h;
    let iy = (row - n * p.out_h) * 2u + part % 2u;
    let ix = (pixel - row * p.out_w) * 2u + part / 2u;
    var value = Bits(0);
    if (iy < p.h && ix < p.w) {
        value = x[p.x_at + ((n * p.h + iy) * p.w + ix) * p.c + channel];
    }
    y[p.y_at + index] = value;
}

@compute @workgroup_size(256)
fn upsample(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let index = invocation(group, groups, lane);
    if (index >= p.count) {
        return;
    }
    let channel = index % p.c;
    let pixel = index / p.c;
    let row = pixel / p.out_w;
    let n = row / p.out_h;
    let iy = (row - n * p.out_h) / p.size;
    let ix = (pixel - row * p.out_w) / p.size;
    y[p.y_at + index] = x[p.x_at + ((n * p.h + iy) * p.w + ix) * p.c + channel];
}

@compute @workgroup_size(256)
fn crop(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let index = invocation(group, groups, lane);
    if (index >= p.count) {
        return;
    }
    let channel = index % p.c;
    let pixel = index / p.c;
    let row = pixel / p.out_w;
    let n = row / p.out_h;
    let iy = row - n * p.out_h + p.shift_y;
    let ix = pixel - row * p.out_w + p.shift_x;
    y[p.y_at + index] = x[p.x_at + ((n * p.h + iy) * p.w + ix) * p.c + channel];
}
