// What a device can do at most: `foil devices --probe` measures it.
//
// copy      y[i] = x[i]: an invocation copies 4 values, 256 per workgroup over (x, y). 4 bytes read and 4 written per value.
// multiply  8 chains of a = a * b + c per invocation, `rounds` steps of 16 each, nothing read: 256 rounds flops per invocation.
//           The sums are written, so that they are computed.
// Arguments: params, x, y.

struct Params {
    count: u32,
    rounds: u32,
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> y: array<vec4<f32>>;

@compute @workgroup_size(256)
fn copy(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let i = (group.y * groups.x + group.x) * 256u + lane;
    if (i < p.count) {
        y[i] = x[i];
    }
}

@compute @workgroup_size(256)
fn multiply(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let i = (group.y * groups.x + group.x) * 256u + lane;
    let b = vec4<f32>(0.999);
    let c = vec4<f32>(0.001 * f32(lane));
    var one = vec4<f32>(f32(i), 1.0, 2.0, 3.0);
    var two = vec4<f32>(f32(i), 4.0, 5.0, 6.0);
    for (var r = 0u; r < p.rounds; r++) {
        for (var k = 0u; k < 16u; k++) {
            one = fma(one, b, c);
            two = fma(two, b, c);
        }
    }
    if (i < p.count) {
        y[i] = one + two;
    }
}
