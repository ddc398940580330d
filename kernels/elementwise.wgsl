// Value by value. An invocation per value, 256 per workgroup over (x, y).
//
// add       y = a + b, with b repeated over pixels or images. Per value: 8 bytes read, 4 written, 1 flop.
// activated y = activation(a). Per value: 4 bytes read, 4 written; 1 flop (relu), 2 (relu6, leaky relu),
//           25 (tanh), 27 (silu), 32 (gelu).
// affine    y[c] = a[order[c]] * scale[c] + shift[c]. Per value: 4 bytes read, 4 written, 2 flops.
// looked_up y = table[a] for pixels, whole numbers 0..255; what is none is cut to them. Per value: 4 bytes read, 4 written.
//
// Arguments: params, a, b (affine: table, for each channel its source, scale and shift, as bits; looked_up: table), y.

struct Params {
    a_at: u32,
    b_at: u32,
    y_at: u32,
    count: u32,
    // Channels of a, and of y.
    c: u32,
    out_c: u32,
    // Values of an image in this launch, values between two images of b, whether b has pixels.
    image: u32,
    b_image: u32,
    b_pixels: u32,
    activation: u32,
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> a: array<Value>;
@group(0) @binding(2) var<storage, read> b: array<Value>;
@group(0) @binding(2) var<storage, read> table: array<f32>;
@group(0) @binding(3) var<storage, read_write> y: array<Value>;

fn invocation(group: vec3<u32>, groups: vec3<u32>, lane: u32) -> u32 {
    return (group.y * groups.x + group.x) * 256u + lane;
}

@compute @workgroup_size(256)
fn add(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let index = invocation(group, groups, lane);
    if (index >= p.count) {
        return;
    }
    let n = index / p.image;
    var rest = index - n * p.image;
    if (p.b_pixels == 0u) {
        rest = rest % p.c;
    }
    y[p.y_at + index] = Value(f32(a[p.a_at + index]) + f32(b[p.b_at + n * p.b_image + rest]));
}

@compute @workgroup_size(256)
fn activated(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let index = invocation(group, groups, lane);
    if (index < p.count) {
        y[p.y_at + index] = Value(activate(f32(a[p.a_at + index]), p.activation));
    }
}

@compute @workgroup_size(256)
fn affine(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let index = invocation(group, groups, lane);
    if (index >= p.count) {
        return;
    }
    let pixel = index / p.out_c;
    let channel = index - pixel * p.out_c;
    let source = bitcast<u32>(table[channel]);
    let value = f32(a[p.a_at + pixel * p.c + source]);
    y[p.y_at + index] = Value(value * table[p.out_c + channel] + table[2u * p.out_c + channel]);
}

@compute @workgroup_size(256)
fn looked_up(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let index = invocation(group, groups, lane);
    if (index < p.count) {
        y[p.y_at + index] = Value(table[u32(clamp(f32(a[p.a_at + index]), 0.0, 255.0))]);
    }
}
