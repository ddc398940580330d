// Softmax of rows in place: x[r, k] = exp(x[r, k] - max) / sum over k of exp(x[r, k] - max).
//
// 16 invocations share a row, 16 rows a workgroup of 256; workgroups over (x, y). Per value: 12 bytes read, 8 written,
// 29 flops (25 of them the exponential). The order of sums depends on the length of a row only.
// Arguments: params, x.

struct Params {
    rows: u32,
    length: u32,
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read_write> x: array<f32>;

var<workgroup> partial: array<f32, 256>;

@compute @workgroup_size(256)
fn softmax(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let first = (group.y * groups.x + group.x) * 16u;
    if (first >= p.rows) {
        return;
    }
    let row = first + lane / 16u;
    let inside = row < p.rows;
    let begin = min(row, p.rows - 1u) * p.length;
    let start = lane % 16u;
    var most = x[begin];
    for (var k = start; k < p.length; k += 16u) {
        most = max(most, x[begin + k]);
    }
    partial[lane] = most;
    workgroupBarrier();
    for (var half = 8u; half > 0u; half /= 2u) {
        if (start < half) {
            partial[lane] = max(partial[lane], partial[lane + half]);
        }
        workgroupBarrier();
    }
    most = partial[lane - start];
    workgroupBarrier();

    var sum = 0.0;
    if (inside) {
        for (var k = start; k < p.length; k += 16u) {
            let score = x[begin + k];
            var e = score;
            if (!is_nan(score)) {
                e = exponential(score - most);
            }
            sum += e;
            x[begin + k] = e;
        }
    }
    partial[lane] = sum;
    workgroupBarrier();
    for (var half = 8u; half > 0u; half /= 2u) {
        if (start < half) {
            partial[lane] += partial[lane + half];
        }
        workgroupBarrier();
    }
    if (inside) {
        let scale = 1.0 / partial[lane - start];
        for (var k = start; k < p.length; k += 16u) {
            x[begin + k] *= scale;
        }
    }
}
