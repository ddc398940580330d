// The three bilinear resizes of FID code and the resize of Pillow, in the arithmetic of their originals. An invocation per
// output value, 256 per workgroup over (x, y).
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

struct Params {
    x_at: u32,
    y_at: u32,
    count: u32,
    h: u32,
    w: u32,
    c: u32,
    out_h: u32,
    out_w: u32,
    // The rows of this launch.
    first_row: u32,
    rows: u32,
    zero: u32,
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> x: array<Value>;
@group(0) @binding(2) var<storage, read> ys: array<u32>;
@group(0) @binding(3) var<storage, read> xs: array<u32>;
@group(0) @binding(4) var<storage, read_write> y: array<Value>;

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

fn write(at: Place, value: f32) {
    y[p.y_at + ((at.n * p.out_h + at.row) * p.out_w + at.column) * p.c + at.channel] = Value(value);
}

fn invocation(group: vec3<u32>, groups: vec3<u32>, lane: u32) -> u32 {
    return (group.y * groups.x + group.x) * 256u + lane;
}

// Top left, top right, bottom left, bottom right.
fn corners(at: Place) -> vec4<f32> {
    let image = p.x_at + at.n * p.h * p.w * p.c + at.channel;
    let top = image + ys[4u * at.row] * p.w * p.c;
    let bottom = image + ys[4u * at.row + 1u] * p.w * p.c;
    let left = xs[4u * at.column] * p.c;
    let right = xs[4u * at.column + 1u] * p.c;
    return vec4<f32>(f32(x[top + left]), f32(x[top + right]), f32(x[bottom + left]), f32(x[bottom + right]));
}

@compute @workgroup_size(256)
fn tf1(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let index = invocation(group, groups, lane);
    if (index >= p.count) {
        return;
    }
    let at = place(index);
    let v = corners(at);
    let tx = bitcast<f32>(xs[4u * at.column + 3u]);
    let ty = bitcast<f32>(ys[4u * at.row + 3u]);
    // Products are hidden: the compiler might fuse them with the sums.
    let top = v.x + opaque((v.y - v.x) * tx, p.zero);
    let bottom = v.z + opaque((v.w - v.z) * tx, p.zero);
    write(at, top + opaque((bottom - top) * ty, p.zero));
}

@compute @workgroup_size(256)
fn half_pixel(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let index = invocation(group, groups, lane);
    if (index >= p.count) {
        return;
    }
    let at = place(index);
    let v = corners(at);
    let left = bitcast<f32>(xs[4u * at.column + 2u]);
    let right = bitcast<f32>(xs[4u * at.column + 3u]);
    let top = bitcast<f32>(ys[4u * at.row + 2u]);
    let bottom = bitcast<f32>(ys[4u * at.row + 3u]);
    // Products are hidden: the compiler might fuse them with a sum inside of `fused`.
    var sum = opaque(v.y * opaque(top * right, p.zero), p.zero);
    sum = fused(v.x, opaque(top * left, p.zero), sum, p.zero);
    sum = fused(v.z, opaque(bottom * left, p.zero), sum, p.zero);
    write(at, fused(v.w, opaque(bottom * right, p.zero), sum, p.zero));
}

@compute @workgroup_size(256)
fn columns(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let index = invocation(group, groups, lane);
    if (index >= p.count) {
        return;
    }
    let at = place(index);
    let first = xs[3u * at.column];
    let taps = xs[3u * at.column + 1u];
    let weights = xs[3u * at.column + 2u];
    let begin = p.x_at + ((at.n * p.h + at.row) * p.w + first) * p.c + at.channel;
    var sum = 0.0;
    for (var j = 0u; j < taps; j++) {
        sum = fused(f32(x[begin + j * p.c]), bitcast<f32>(xs[weights + j]), sum, p.zero);
    }
    write(at, sum);
}

@compute @workgroup_size(256)
fn rows(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let index = invocation(group, groups, lane);
    if (index >= p.count) {
        return;
    }
    let at = place(index);
    let first = ys[3u * at.row];
    let taps = ys[3u * at.row + 1u];
    let weights = ys[3u * at.row + 2u];
    let begin = p.x_at + ((at.n * p.h + first) * p.w + at.column) * p.c + at.channel;
    var sum = 0.0;
    for (var j = 0u; j < taps; j++) {
        sum = fused(f32(x[begin + j * p.w * p.c]), bitcast<f32>(ys[weights + j]), sum, p.zero);
    }
    write(at, sum);
}

// A sum in fixed point as a pixel.
fn write_pixel(at: Place, sum: i32) {
    write(at, f32(clamp(sum >> 22u, 0, 255)));
}

@compute @workgroup_size(256)
fn pixel_columns(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let index = invocation(group, groups, lane);
    if (index >= p.count) {
        return;
    }
    let at = place(index);
    let first = xs[3u * at.column];
    let taps = xs[3u * at.column + 1u];
    let weights = xs[3u * at.column + 2u];
    let begin = p.x_at + ((at.n * p.h + at.row) * p.w + first) * p.c + at.channel;
    var sum = 2097152;
    for (var j = 0u; j < taps; j++) {
        sum += i32(x[begin + j * p.c]) * bitcast<i32>(xs[weights + j]);
    }
    write_pixel(at, sum);
}

@compute @workgroup_size(256)
fn pixel_rows(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let index = invocation(group, groups, lane);
    if (index >= p.count) {
        return;
    }
    let at = place(index);
    let first = ys[3u * at.row];
    let taps = ys[3u * at.row + 1u];
    let weights = ys[3u * at.row + 2u];
    let begin = p.x_at + ((at.n * p.h + first) * p.w + at.column) * p.c + at.channel;
    var sum = 2097152;
    for (var j = 0u; j < taps; j++) {
        sum += i32(x[begin + j * p.w * p.c]) * bitcast<i32>(ys[weights + j]);
    }
    write_pixel(at, sum);
}
