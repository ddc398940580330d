// The head of LPIPS: d[pixel] = sum over c of head[c] * (a_c / (|a| + e) - b_c / (|b| + e))^2 with e = 1e-10, for the
// channel vectors a and b of every pixel of two feature maps; `mean` and `pairs` also sum over the pixels. Nothing lies in
// memory between reading the features and writing the result.
//
// distances  writes d. 16 invocations share a pixel, 16 pixels a workgroup of 256; workgroups over (x, y).
// mean       sums d over 64 pixels of a pair in two f32 and writes both; the host adds these partial sums in f64.
//            A workgroup of 256 per 64 pixels, those of all pairs over (x, y). Pair i is image i of a and of b.
// pairs      the same for any pairs of images, table[2i] of a and table[2i + 1] of b: all pairs of a set at once.
//
// Per pixel: 16 c bytes read (the second time from caches), 11 c flops; mean writes 1/8 byte.
// Products that are subtracted are hidden from the compiler: fused into one operation they would not cancel when both
// features are the same.
// Arguments: params, a, b, head, y (mean, pairs: sums), (pairs) table.

struct Params {
    a_at: u32,
    b_at: u32,
    y_at: u32,
    c: u32,
    // Pixels of this launch (distances) or of a pair (mean).
    pixels: u32,
    // Workgroups of a pair, and of the launch (mean).
    parts: u32,
    count: u32,
    zero: u32,
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> a: array<Value>;
@group(0) @binding(2) var<storage, read> b: array<Value>;
@group(0) @binding(3) var<storage, read> head: array<f32>;
@group(0) @binding(4) var<storage, read_write> y: array<Value>;
@group(0) @binding(4) var<storage, read_write> sums: array<f32>;
@group(0) @binding(5) var<storage, read> table: array<u32>;

const EPSILON: f32 = 1e-10;

var<workgroup> partial: array<vec2<f32>, 256>;
var<workgroup> found: array<vec2<f32>, 64>;

// The sums of the 16 invocations of a pixel, in each of them.
fn shared_sum(value: vec2<f32>, lane: u32) -> vec2<f32> {
    partial[lane] = value;
    workgroupBarrier();
    for (var half = 8u; half > 0u; half /= 2u) {
        if (lane % 16u < half) {
            partial[lane] += partial[lane + half];
        }
        workgroupBarrier();
    }
    let sum = partial[lane - lane % 16u];
    workgroupBarrier();
    return sum;
}

// The distance of two pixels whose channels begin at `pixel * c`; all invocations of the workgroup must come here.
fn distance_at(pixel_a: u32, pixel_b: u32, lane: u32) -> f32 {
    let first_a = p.a_at + pixel_a * p.c;
    let first_b = p.b_at + pixel_b * p.c;
    var squares = vec2<f32>();
    for (var i = lane % 16u; i < p.c; i += 16u) {
        let v = vec2<f32>(f32(a[first_a + i]), f32(b[first_b + i]));
        squares += v * v;
    }
    let lengths = sqrt(shared_sum(squares, lane)) + vec2<f32>(EPSILON);
    let scales = vec2<f32>(1.0) / lengths;
    var sum = 0.0;
    for (var i = lane % 16u; i < p.c; i += 16u) {
        let ua = opaque(f32(a[first_a + i]) * scales.x, p.zero);
        let ub = opaque(f32(b[first_b + i]) * scales.y, p.zero);
        let difference = ua - ub;
        sum += head[i] * (difference * difference);
    }
    return shared_sum(vec2<f32>(sum, 0.0), lane).x;
}

@compute @workgroup_size(256)
fn distances(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let pixel = (group.y * groups.x + group.x) * 16u + lane / 16u;
    let inside = min(pixel, p.pixels - 1u);
    let d = distance_at(inside, inside, lane);
    if (pixel < p.pixels && lane % 16u == 0u) {
        y[p.y_at + pixel] = Value(d);
    }
}

// The sum over the pixels of part `index` of the launch, for images `image_a` and `image_b`, written to its place.
fn sum_part(index: u32, image_a: u32, image_b: u32, lane: u32) {
    let first = (index % p.parts) * 64u;
    for (var step = 0u; step < 4u; step++) {
        let slot = step * 16u + lane / 16u;
        let pixel = first + slot;
        let inside = min(pixel, p.pixels - 1u);
        let d = distance_at(image_a * p.pixels + inside, image_b * p.pixels + inside, lane);
        if (lane % 16u == 0u) {
            found[slot] = vec2<f32>(select(0.0, d, pixel < p.pixels), 0.0);
        }
    }
    workgroupBarrier();
    for (var half = 32u; half > 0u; half /= 2u) {
        if (lane < half) {
            found[lane] = add_two(found[lane], found[lane + half], p.zero);
        }
        workgroupBarrier();
    }
    if (lane == 0u) {
        sums[p.y_at + 2u * index] = found[0].x;
        sums[p.y_at + 2u * index + 1u] = found[0].y;
    }
}

@compute @workgroup_size(256)
fn mean(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let index = group.y * groups.x + group.x;
    if (index >= p.count) {
        return;
    }
    let pair = index / p.parts;
    sum_part(index, pair, pair, lane);
}

@compute @workgroup_size(256)
fn pairs(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let index = group.y * groups.x + group.x;
    if (index >= p.count) {
        return;
    }
    let pair = index / p.parts;
    sum_part(index, table[2u * pair], table[2u * pair + 1u], lane);
}
