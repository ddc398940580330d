// Norms. Batch norms are folded into convolutions when weights are loaded, and need no kernel.
//
// layer       y = (x - mean) / sqrt(variance + epsilon) * weight + bias over the channels of each pixel. 16 invocations
//             share a pixel, 16 pixels a workgroup; workgroups over (x, y). Per value: 12 bytes read, 4 written, 8 flops.
// statistics  of each group of channels over all pixels of an image: for every channel the centre, the scale and the
//             shift with which (x - centre) * scale + shift is the norm, its modulation included. A workgroup of 256
//             per image and group over (x, y). Per value: 8 bytes read, 5 flops.
// gather      the sums of `statistics` for an image that a launch cannot see whole: some of its pixels, each invocation its own
//             values in the order in which `statistics` has them. Kept are for each group 256 sums, 256 sums of squares
//             (stage 1, when the others are complete) and the first value. A workgroup of 256 per group over (x, y).
// conclude    what `statistics` finds, of these. A workgroup of 256 per group over (x, y).
// normalise   y = activation((x - centre) * scale + shift), an invocation per value, 256 per workgroup over (x, y).
// modulate    y = activation(x * scale + shift), scales and shifts of each image's own. Per value of both: 4 bytes read,
//             4 written, 3 flops (modulate: 2), without the activation.
//
// Sums are taken in two passes, from the first value of their pixel or group: a large offset costs no digits. Their
// order depends on the shape of one image only.
// Arguments: params, x, weight, bias, modulation (scales, then shifts), y. What `statistics` finds (for each image
// centres, scales, shifts, channel by channel) are the maps that `normalise` has in the place of a modulation. `gather`
// keeps its sums in y, `conclude` has them as x.

struct Params {
    x_at: u32,
    modulation_at: u32,
    y_at: u32,
    c: u32,
    // Pixels: of this launch (layer, gather), of an image (others).
    pixels: u32,
    // Images and groups (statistics), values (normalise, modulate).
    count: u32,
    groups: u32,
    has_modulation: u32,
    activation: u32,
    epsilon: f32,
    // Values of an image in this launch, and the image its maps begin with; gather: pixels of an image.
    image: u32,
    first_image: u32,
    // gather: the first pixel of this launch, and what is summed: values, then squares.
    first_pixel: u32,
    stage: u32,
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> x: array<Value>;
@group(0) @binding(1) var<storage, read> sums: array<f32>;
@group(0) @binding(2) var<storage, read> weight: array<f32>;
@group(0) @binding(3) var<storage, read> bias: array<f32>;
@group(0) @binding(4) var<storage, read> modulation: array<Value>;
@group(0) @binding(4) var<storage, read> maps: array<f32>;
@group(0) @binding(5) var<storage, read_write> y: array<Value>;
@group(0) @binding(5) var<storage, read_write> found: array<f32>;

// What `gather` keeps of a group.
const KEPT: u32 = 513u;

var<workgroup> partial: array<f32, 256>;

// The sum of the `width` invocations that share a number, in each of them.
fn shared_sum(value: f32, lane: u32, width: u32) -> f32 {
    partial[lane] = value;
    workgroupBarrier();
    for (var half = width / 2u; half > 0u; half /= 2u) {
        if (lane % width < half) {
            partial[lane] += partial[lane + half];
        }
        workgroupBarrier();
    }
    let sum = partial[lane - lane % width];
    workgroupBarrier();
    return sum;
}

@compute @workgroup_size(256)
fn layer(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let pixel = (group.y * groups.x + group.x) * 16u + lane / 16u;
    let inside = pixel < p.pixels;
    let begin = p.x_at + min(pixel, p.pixels - 1u) * p.c;
    let start = lane % 16u;
    let origin = f32(x[begin]);
    var sum = 0.0;
    for (var i = start; i < p.c; i += 16u) {
        sum += f32(x[begin + i]) - origin;
    }
    let mean = shared_sum(sum, lane, 16u) / f32(p.c);
    sum = 0.0;
    for (var i = start; i < p.c; i += 16u) {
        let v = (f32(x[begin + i]) - origin) - mean;
        sum += v * v;
    }
    let variance = shared_sum(sum, lane, 16u) / f32(p.c);
    let scale = 1.0 / sqrt(variance + p.epsilon);
    if (inside) {
        for (var i = start; i < p.c; i += 16u) {
            let v = (f32(x[begin + i]) - origin) - mean;
            y[p.y_at + pixel * p.c + i] = Value(v * scale * weight[i] + bias[i]);
        }
    }
}

// Centres, scales and shifts of the channels of a group, of its first value and the mean and variance of what lies above it.
fn write_maps(n: u32, channel: u32, width: u32, of_group: vec3<f32>, lane: u32) {
    let origin = of_group.x;
    let mean = of_group.y;
    let variance = of_group.z;
    let inverse = 1.0 / sqrt(variance + p.epsilon);
    // The mean as one number, and what its rounding took away.
    let centre = origin + mean;
    let rest = (origin - centre) + mean;
    for (var i = lane; i < width; i += 256u) {
        let o = channel + i;
        var scale = inverse * weight[o];
        var shift = bias[o] - rest * scale;
        if (p.has_modulation != 0u) {
            let m = p.modulation_at + n * 2u * p.c + o;
            let more = 1.0 + f32(modulation[m]);
            scale *= more;
            shift = shift * more + f32(modulation[m + p.c]);
        }
        let to = p.y_at + n * 3u * p.c + o;
        found[to] = centre;
        found[to + p.c] = scale;
        found[to + 2u * p.c] = shift;
    }
}

@compute @workgroup_size(256)
fn statistics(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let index = group.y * groups.x + group.x;
    if (index >= p.count) {
        return;
    }
    let n = index / p.groups;
    let width = p.c / p.groups;
    let channel = (index - n * p.groups) * width;
    let begin = p.x_at + n * p.pixels * p.c + channel;
    let values = p.pixels * width;
    let origin = f32(x[begin]);
    var sum = 0.0;
    for (var i = lane; i < values; i += 256u) {
        sum += f32(x[begin + i / width * p.c + i % width]) - origin;
    }
    let mean = shared_sum(sum, lane, 256u) / f32(values);
    sum = 0.0;
    for (var i = lane; i < values; i += 256u) {
        let v = (f32(x[begin + i / width * p.c + i % width]) - origin) - mean;
        sum += v * v;
    }
    let variance = shared_sum(sum, lane, 256u) / f32(values);
    write_maps(n, channel, width, vec3<f32>(origin, mean, variance), lane);
}

@compute @workgroup_size(256)
fn gather(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let index = group.y * groups.x + group.x;
    if (index >= p.count) {
        return;
    }
    let width = p.c / p.groups;
    let begin = p.x_at + index * width;
    let kept = p.y_at + index * KEPT;
    // Values of the group that come before those of this launch, and before the last of it.
    let first = p.first_pixel * width;
    let end = first + p.pixels * width;
    // The first of its values at or after `first`.
    let start = first + (lane + 256u - first % 256u) % 256u;
    var origin = 0.0;
    if (p.first_pixel == 0u) {
        origin = f32(x[begin]);
    } else {
        origin = found[kept + 512u];
    }
    var sum = 0.0;
    if (p.first_pixel != 0u) {
        sum = found[kept + p.stage * 256u + lane];
    }
    if (p.stage == 0u) {
        for (var i = start; i < end; i += 256u) {
            let at = i - first;
            sum += f32(x[begin + at / width * p.c + at % width]) - origin;
        }
        if (lane == 0u && p.first_pixel == 0u) {
            found[kept + 512u] = origin;
        }
    } else {
        let mean = shared_sum(found[kept + lane], lane, 256u) / f32(p.image * width);
        for (var i = start; i < end; i += 256u) {
            let at = i - first;
            let v = (f32(x[begin + at / width * p.c + at % width]) - origin) - mean;
            sum += v * v;
        }
    }
    found[kept + p.stage * 256u + lane] = sum;
}

@compute @workgroup_size(256)
fn conclude(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let index = group.y * groups.x + group.x;
    if (index >= p.count) {
        return;
    }
    let n = index / p.groups;
    let width = p.c / p.groups;
    let values = p.pixels * width;
    let kept = p.x_at + index * KEPT;
    let mean = shared_sum(sums[kept + lane], lane, 256u) / f32(values);
    let variance = shared_sum(sums[kept + 256u + lane], lane, 256u) / f32(values);
    let channel = (index - n * p.groups) * width;
    write_maps(n, channel, width, vec3<f32>(sums[kept + 512u], mean, variance), lane);
}

@compute @workgroup_size(256)
fn normalise(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let index = (group.y * groups.x + group.x) * 256u + lane;
    if (index >= p.count) {
        return;
    }
    let map = p.modulation_at + (p.first_image + index / p.image) * 3u * p.c + index % p.c;
    let centred = f32(x[p.x_at + index]) - maps[map];
    let v = centred * maps[map + p.c] + maps[map + 2u * p.c];
    y[p.y_at + index] = Value(activate(v, p.activation));
}

@compute @workgroup_size(256)
fn modulate(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let index = (group.y * groups.x + group.x) * 256u + lane;
    if (index >= p.count) {
        return;
    }
    let map = p.modulation_at + (p.first_image + index / p.image) * 2u * p.c + index % p.c;
    let v = f32(x[p.x_at + index]) * f32(modulation[map]) + f32(modulation[map + p.c]);
    y[p.y_at + index] = Value(activate(v, p.activation));
}
