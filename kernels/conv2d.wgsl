// Convolution: y[n, oy, ox, o] = activation(bias[o] + sum over (ky, kx, i) of
//     x[n, oy*stride + ky - top, ox*stride + kx - left, i] * weight[ky, kx, i, o] + residual[n, oy, ox, o])
//
// dense      implicit GEMM: a workgroup of 256 makes 64 pixels x 64 outputs of one group, an invocation 4 x 4 of them;
//            16 terms of the sum at a time go through workgroup memory (8 KiB). Launch: pixel tiles over (x, y),
//            output tiles of all groups over z. Per output: 2 k flops with k = kh*kw*inputs of a group; of each tile
//            (64 + 64) * 4 k bytes are read, k/8 for an output, and 4 of each output written.
// depthwise  one input channel per group: an invocation per value, channels next to each other. Launch: 256 values per
//            workgroup over (x, y). Per output: 2 kh*kw flops, 8 kh*kw bytes read (mostly from caches), 4 written.
//
// Every output is summed in the order ky, kx, i by one invocation: it does not depend on the batch.
// Arguments: params, x, weight, bias, residual, y. Weights: dense [group][k][outputs padded to 64], depthwise
// [ky][kx][output]. Positions `*_at` count modulo 2^32: a launch over some rows of an image has them before its binding.

struct Params {
    x_at: u32,
    residual_at: u32,
    y_at: u32,
    // Input.
    h: u32,
    w: u32,
    c: u32,
    // Output: its size, the rows of this launch, the number of its pixels or (depthwise) values.
    out_h: u32,
    out_w: u32,
    first_row: u32,
    rows: u32,
    count: u32,
    kh: u32,
    kw: u32,
    stride: u32,
    top: u32,
    left: u32,
    // Channels of a group.
    inputs: u32,
    outputs: u32,
    // Tiles of outputs of a group.
    tiles: u32,
    // Channels per pixel of the output in memory, and the first of them that is written.
    channels: u32,
    first: u32,
    // All outputs of the convolution, and the first of those whose weights are bound.
    all_outputs: u32,
    first_output: u32,
    activation: u32,
    has_residual: u32,
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> x: array<Value>;
@group(0) @binding(2) var<storage, read> weight: array<vec4<Value>>;
@group(0) @binding(3) var<storage, read> bias: array<f32>;
@group(0) @binding(4) var<storage, read> residual: array<Value>;
@group(0) @binding(5) var<storage, read_write> y: array<Value>;

const TILE: u32 = 64u;
const DEPTH: u32 = 16u;

// [term][pixel] and [term][four outputs].
var<workgroup> pixels: array<f32, 1024>;
var<workgroup> weights: array<vec4<f32>, 256>;

// Pixel of the whole output, counted from the first image of the launch.
fn output_pixel(index: u32) -> vec3<u32> {
    let image = p.rows * p.out_w;
    let n = index / image;
    let rest = index - n * image;
    let row = rest / p.out_w;
    return vec3<u32>(n, p.first_row + row, rest - row * p.out_w);
}

fn finish(sum: f32, pixel: u32, o: u32) {
    var v = sum + bias[o];
    if (p.has_residual != 0u) {
        v += f32(residual[p.residual_at + pixel * p.all_outputs + o]);
    }
    y[p.y_at + pixel * p.channels + p.first + o] = Value(activate(v, p.activation));
}

@compute @workgroup_size(256)
fn dense(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let tile = (group.y * groups.x + group.x) * TILE;
    if (tile >= p.count) {
        return;
    }
    let conv_group = group.z / p.tiles;
    let output_tile = group.z - conv_group * p.tiles;
    let terms = p.kh * p.kw * p.inputs;

    // What this invocation loads: four terms of one pixel, and four outputs of one term.
    let load_pixel = lane / 4u;
    let load_term = (lane % 4u) * 4u;
    let loads = tile + load_pixel < p.count;
    let at = output_pixel(tile + load_pixel);
    let corner_y = i32(at.y * p.stride) - i32(p.top);
    let corner_x = i32(at.z * p.stride) - i32(p.left);
    let image = p.x_at + at.x * p.h * p.w * p.c + conv_group * p.inputs;
    let weight_row = p.tiles * 16u;
    let weight_at = conv_group * terms * weight_row + output_tile * 16u + lane % 16u;

    let row = lane / 16u;
    let column = lane % 16u;
    var sum0 = vec4<f32>();
    var sum1 = vec4<f32>();
    var sum2 = vec4<f32>();
    var sum3 = vec4<f32>();

    for (var term = 0u; term < terms; term += DEPTH) {
        let first = term + load_term;
        let tap = first / p.inputs;
        var i = first - tap * p.inputs;
        var ky = tap / p.kw;
        var kx = tap - ky * p.kw;
        for (var j = 0u; j < 4u; j++) {
            var value = 0.0;
            let iy = corner_y + i32(ky);
            let ix = corner_x + i32(kx);
            if (loads && first + j < terms && iy >= 0 && ix >= 0 && u32(iy) < p.h && u32(ix) < p.w) {
                value = f32(x[image + (u32(iy) * p.w + u32(ix)) * p.c + i]);
            }
            pixels[(load_term + j) * TILE + load_pixel] = value;
            i++;
            if (i == p.inputs) {
                i = 0u;
                kx++;
                if (kx == p.kw) {
                    kx = 0u;
                    ky++;
                }
            }
        }
        let weight_term = term + lane / 16u;
        var four = vec4<f32>();
        if (weight_term < terms) {
            four = vec4<f32>(weight[weight_at + weight_term * weight_row]);
        }
        weights[lane] = four;
        workgroupBarrier();
        for (var k = 0u; k < DEPTH; k++) {
            let w4 = weights[k * 16u + column];
            let begin = k * TILE + row * 4u;
            sum0 += pixels[begin] * w4;
            sum1 += pixels[begin + 1u] * w4;
            sum2 += pixels[begin + 2u] * w4;
            sum3 += pixels[begin + 3u] * w4;
        }
        workgroupBarrier();
    }

    let first_output = output_tile * TILE + column * 4u;
    for (var j = 0u; j < 4u; j++) {
        let index = tile + row * 4u + j;
        if (index >= p.count) {
            return;
        }
        let to = output_pixel(index);
        let pixel = (to.x * p.out_h + to.y) * p.out_w + to.z;
        var sum = sum0;
        if (j == 1u) {
            sum = sum1;
        } else if (j == 2u) {
            sum = sum2;
        } else if (j == 3u) {
            sum = sum3;
        }
        for (var o = 0u; o < 4u; o++) {
            if (first_output + o < p.outputs) {
                finish(sum[o], pixel, p.first_output + conv_group * p.outputs + first_output + o);
            }
        }
    }
}

@compute @workgroup_size(256)
fn depthwise(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let index = (group.y * groups.x + group.x) * 256u + lane;
    if (index >= p.count) {
        return;
    }
    let o = index % p.all_outputs;
    let at = output_pixel(index / p.all_outputs);
    let corner_y = i32(at.y * p.stride) - i32(p.top);
    let corner_x = i32(at.z * p.stride) - i32(p.left);
    let image = p.x_at + at.x * p.h * p.w * p.c + o / p.outputs;
    var sum = 0.0;
    for (var ky = 0u; ky < p.kh; ky++) {
        let iy = corner_y + i32(ky);
        if (iy < 0 || u32(iy) >= p.h) {
            continue;
        }
        for (var kx = 0u; kx < p.kw; kx++) {
            let ix = corner_x + i32(kx);
            if (ix < 0 || u32(ix) >= p.w) {
                continue;
            }
            let w = (ky * p.kw + kx) * p.all_outputs + o;
            sum += f32(x[image + (u32(iy) * p.w + u32(ix)) * p.c]) * f32(weight[w / 4u][w % 4u]);
        }
    }
    finish(sum, (at.x * p.out_h + at.y) * p.out_w + at.z, o);
}
