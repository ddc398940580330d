// Running sums of features and of their products, from which the host takes mean and covariance:
//     s[i] += sum over rows of x[r, i] - c[i],  q[i, j] += sum over rows of (x[r, i] - c[i]) (x[r, j] - c[j]) for j <= i
//
// sums      an invocation per feature, 256 per workgroup over x. Per feature and row: 4 bytes read, 26 flops.
// products  a workgroup of 256 makes 16 x 16 products, an invocation one; 16 rows at a time go through workgroup memory
//           (4 KiB). Launch: tiles of j over x, of i over y; those above the diagonal end at once. Per product and row:
//           1/2 byte read, 35 flops; 16 bytes read and written per product.
//
// Everything is in two f32 (48 bits), differences exactly. The centre c is the first row of all: what is summed is as large as
// the deviations, not as the means. Rows are taken in their order by one invocation, so any split of the rows into launches
// gives the same bits.
// Arguments: params, x [rows, d], c [d], y: (sums) [d] or (products) [rows of i of this launch, d], high and low side by side.

struct Params {
    x_at: u32,
    c_at: u32,
    y_at: u32,
    rows: u32,
    d: u32,
    // The rows of the matrix of products of this launch.
    first: u32,
    count: u32,
    // Nothing is summed yet.
    fresh: u32,
    zero: u32,
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read> c: array<f32>;
@group(0) @binding(3) var<storage, read_write> y: array<f32>;

// [row][feature].
var<workgroup> left: array<vec2<f32>, 256>;
var<workgroup> right: array<vec2<f32>, 256>;

fn difference(row: u32, i: u32) -> vec2<f32> {
    return two_sum(x[p.x_at + row * p.d + i], -c[p.c_at + i], p.zero);
}

@compute @workgroup_size(256)
fn sums(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let i = group.x * 256u + lane;
    if (i >= p.d) {
        return;
    }
    let at = p.y_at + 2u * i;
    var sum = vec2<f32>();
    if (p.fresh == 0u) {
        sum = vec2<f32>(y[at], y[at + 1u]);
    }
    for (var r = 0u; r < p.rows; r++) {
        sum = add_two(sum, difference(r, i), p.zero);
    }
    y[at] = sum.x;
    y[at + 1u] = sum.y;
}

@compute @workgroup_size(256)
fn products(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let first_i = p.first + group.y * 16u;
    let first_j = group.x * 16u;
    if (first_j > first_i + 15u) {
        return;
    }
    let row = lane / 16u;
    let column = lane % 16u;
    let inside = group.y * 16u + row < p.count && first_j + column < p.d;
    let at = p.y_at + 2u * ((group.y * 16u + row) * p.d + first_j + column);
    var sum = vec2<f32>();
    if (inside && p.fresh == 0u) {
        sum = vec2<f32>(y[at], y[at + 1u]);
    }
    for (var r = 0u; r < p.rows; r += 16u) {
        var a = vec2<f32>();
        var b = vec2<f32>();
        if (r + row < p.rows && first_i + column < p.d) {
            a = difference(r + row, first_i + column);
        }
        if (r + row < p.rows && first_j + column < p.d) {
            b = difference(r + row, first_j + column);
        }
        left[lane] = a;
        right[lane] = b;
        workgroupBarrier();
        for (var k = 0u; k < min(16u, p.rows - r); k++) {
            let product = multiply_two(left[k * 16u + row], right[k * 16u + column], p.zero);
            let high = two_sum(sum.x, product.x, p.zero);
            sum = quick_two_sum(high.x, high.y + (sum.y + product.y), p.zero);
        }
        workgroupBarrier();
    }
    if (inside) {
        y[at] = sum.x;
        y[at + 1u] = sum.y;
    }
}
