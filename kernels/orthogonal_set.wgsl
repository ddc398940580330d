// Greedy orthogonal and complementary sets ([bex] Algorithm 1) of many samples: perturbations e - z are visited by
// ascending L1 norm; one is admitted if it is orthogonal to all members, |cos| < tau, or complementary, cos + 1 < tau.
//
// lengths l1[i] = sum over k of |e[i, k] - z[k]|: an invocation per candidate, 256 per workgroup over (x, y). 8 d bytes read and
//         16 d flops.
// gram    g[i, j] = sum over k of (e[i, k] - z[k]) (e[j, k] - z[k]) for j <= i: a workgroup of 256 makes 16 x 16 of them,
//         an invocation one; 16 terms at a time go through workgroup memory (4 KiB). Launch: tiles of j over x, of i over
//         y, samples over z. Per value: 35 d flops, d bytes read.
// choose  one workgroup of 256 per sample, over (x, y): ranks by counting, then candidate after candidate against all
//         members at once. n^2 comparisons and n * members tests of cosines.
//
// Everything is in two f32. Cosines are compared by squares: cos^2 < tau^2 as g[i, j]^2 < tau^2 g[i, i] g[j, j]. The
// selection has to be that of the CPU, which computes in f64: where a decision is so close that rounding could turn it,
// the sample is marked and the host decides. Sums of lengths are off by 1e-9 of them at most; a product g[i, j] by
// s = (d + 16) 2^-44 of the norms |i| |j| at most, however small it is itself, and its square by |i| |j| s (2 |g| + |i| |j| s).
// Arguments: params, e [samples, n, d], z [samples, d], l1 [samples, n], g [samples, n, n], chosen [samples, 3 + 2n]:
// doubt, number of members, number of zeros, members (65536 more if complementary), zeros. Pairs of f32 lie side by side.

struct Params {
    e_at: u32,
    z_at: u32,
    samples: u32,
    n: u32,
    d: u32,
    zero: u32,
    // Zero perturbations are left out; complementary means to each member, not to any.
    exclude_zeros: u32,
    each: u32,
    // tau^2 and (1 - tau)^2.
    orthogonal: vec2<f32>,
    complementary: vec2<f32>,
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> e: array<f32>;
@group(0) @binding(2) var<storage, read> z: array<f32>;
@group(0) @binding(3) var<storage, read_write> l1: array<vec2<f32>>;
@group(0) @binding(4) var<storage, read_write> g: array<vec2<f32>>;
@group(0) @binding(5) var<storage, read_write> chosen: array<u32>;

// What is so close that the host decides, of what is compared.
const CLOSE: f32 = 1e-9;
// 2^-44.
const SLACK: f32 = 5.7e-14;
// Squared norms below are in reach of numbers that devices round to zero, and so are squares below with their rests.
const TINY: f32 = 1e-12;
const TINY_SQUARE: f32 = 4e-24;
const HUGE: f32 = 1e18;
// The square of the smallest norm a cosine divides by.
const FLOOR: f32 = 1e-16;

const NOT_ORTHOGONAL: u32 = 1u;
const COMPLEMENTARY: u32 = 2u;
const NEITHER: u32 = 4u;

var<workgroup> left: array<vec2<f32>, 256>;
var<workgroup> right: array<vec2<f32>, 256>;

fn difference(sample: u32, i: u32, k: u32) -> vec2<f32> {
    let candidate = e[p.e_at + (sample * p.n + i) * p.d + k];
    return two_sum(candidate, -z[p.z_at + sample * p.d + k], p.zero);
}

@compute @workgroup_size(256)
fn lengths(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let index = (group.y * groups.x + group.x) * 256u + lane;
    if (index >= p.samples * p.n) {
        return;
    }
    let sample = index / p.n;
    var sum = vec2<f32>();
    for (var k = 0u; k < p.d; k++) {
        let v = difference(sample, index - sample * p.n, k);
        if (v.x < 0.0) {
            sum = add_two(sum, -v, p.zero);
        } else {
            sum = add_two(sum, v, p.zero);
        }
    }
    l1[index] = sum;
}

@compute @workgroup_size(256)
fn gram(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let first_i = group.y * 16u;
    let first_j = group.x * 16u;
    if (first_j > first_i + 15u) {
        return;
    }
    let row = lane / 16u;
    let column = lane % 16u;
    var sum = vec2<f32>();
    for (var k = 0u; k < p.d; k += 16u) {
        // This invocation loads term `column` of candidate `row`, of both tiles.
        var a = vec2<f32>();
        var b = vec2<f32>();
        if (k + column < p.d && first_i + row < p.n) {
            a = difference(group.z, first_i + row, k + column);
        }
        if (k + column < p.d && first_j + row < p.n) {
            b = difference(group.z, first_j + row, k + column);
        }
        left[lane] = a;
        right[lane] = b;
        workgroupBarrier();
        for (var t = 0u; t < min(16u, p.d - k); t++) {
            sum = add_two(sum, multiply_two(left[row * 16u + t], right[column * 16u + t], p.zero), p.zero);
        }
        workgroupBarrier();
    }
    if (first_i + row < p.n && first_j + column < p.n) {
        g[(group.z * p.n + first_i + row) * p.n + first_j + column] = sum;
    }
}

var<workgroup> order: array<u32, 1024>;
var<workgroup> members: array<u32, 1024>;
var<workgroup> count: u32;
var<workgroup> zeros: u32;
var<workgroup> seen: atomic<u32>;
var<workgroup> doubt: atomic<u32>;

fn less(a: vec2<f32>, b: vec2<f32>) -> bool {
    return a.x < b.x || (a.x == b.x && a.y < b.y);
}

fn is_near(a: vec2<f32>, b: vec2<f32>, off: f32) -> bool {
    return abs((a.x - b.x) + (a.y - b.y)) <= CLOSE * max(abs(a.x), abs(b.x)) + off;
}

fn is_close(a: vec2<f32>, b: vec2<f32>) -> bool {
    return is_near(a, b, 0.0);
}

fn product(sample: u32, i: u32, j: u32) -> vec2<f32> {
    return g[(sample * p.n + max(i, j)) * p.n + min(i, j)];
}

fn squared_norm(sample: u32, i: u32) -> vec2<f32> {
    let norm = product(sample, i, i);
    if (norm.x < FLOOR) {
        return vec2<f32>(FLOOR, 0.0);
    }
    return norm;
}

// What candidate i is to member j.
fn relation(sample: u32, i: u32, j: u32) -> u32 {
    let cosine = product(sample, i, j);
    let square = multiply_two(cosine, cosine, p.zero);
    let norms = multiply_two(squared_norm(sample, i), squared_norm(sample, j), p.zero);
    let orthogonal = multiply_two(norms, p.orthogonal, p.zero);
    let complementary = multiply_two(norms, p.complementary, p.zero);
    // How far the product may be off, and its square.
    let slack = (f32(p.d) + 16.0) * SLACK * sqrt(norms.x);
    let off = slack * (2.0 * abs(cosine.x) + slack);
    let unsure = is_near(square, complementary, off) || max(square.x, complementary.x) < TINY_SQUARE;
    let near_complementary = cosine.x < slack && unsure;
    if (orthogonal.x < TINY_SQUARE || is_near(square, orthogonal, off) || near_complementary) {
        atomicStore(&doubt, 1u);
    }
    let is_orthogonal = less(square, orthogonal);
    let is_complementary = cosine.x < 0.0 && less(complementary, square);
    var found = 0u;
    if (!is_orthogonal) {
        found |= NOT_ORTHOGONAL;
    }
    if (is_complementary) {
        found |= COMPLEMENTARY;
    }
    if (!is_orthogonal && !is_complementary) {
        found |= NEITHER;
    }
    return found;
}

@compute @workgroup_size(256)
fn choose(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let sample = group.y * groups.x + group.x;
    if (sample >= p.samples) {
        return;
    }
    let out = sample * (3u + 2u * p.n);
    if (lane == 0u) {
        count = 0u;
        zeros = 0u;
        atomicStore(&seen, 0u);
        atomicStore(&doubt, 0u);
    }
    // Ranks of sums that are no numbers may leave a place free.
    for (var i = lane; i < p.n; i += 256u) {
        order[i] = i;
    }
    workgroupBarrier();
    for (var i = lane; i < p.n; i += 256u) {
        let own = l1[sample * p.n + i];
        let norm = product(sample, i, i).x;
        if ((own.x != 0.0 && norm < TINY) || !(norm < HUGE)) {
            atomicStore(&doubt, 1u);
        }
        var rank = 0u;
        for (var j = 0u; j < p.n; j++) {
            let other = l1[sample * p.n + j];
            if (less(other, own) || (!less(own, other) && j < i)) {
                rank++;
            }
            if (i != j && own.x != 0.0 && is_close(own, other)) {
                atomicStore(&doubt, 1u);
            }
        }
        order[rank] = i;
    }
    workgroupBarrier();
    for (var turn = 0u; turn < p.n; turn++) {
        let i = order[turn];
        let left_out = p.exclude_zeros != 0u && l1[sample * p.n + i].x == 0.0;
        if (!left_out) {
            for (var m = lane; m < count; m += 256u) {
                atomicOr(&seen, relation(sample, i, members[m]));
            }
        }
        workgroupBarrier();
        if (lane == 0u) {
            let found = atomicExchange(&seen, 0u);
            let orthogonal = (found & NOT_ORTHOGONAL) == 0u;
            var complementary = (found & COMPLEMENTARY) != 0u;
            if (p.each != 0u) {
                complementary = (found & NEITHER) == 0u;
            }
            if (left_out) {
                chosen[out + 3u + p.n + zeros] = i;
                zeros++;
            } else if (orthogonal || complementary) {
                chosen[out + 3u + count] = i + select(65536u, 0u, orthogonal);
                members[count] = i;
                count++;
            }
        }
        workgroupBarrier();
    }
    if (lane == 0u) {
        chosen[out] = atomicLoad(&doubt);
        chosen[out + 1u] = count;
        chosen[out + 2u] = zeros;
    }
}
