// Linear layers and 1x1 convolutions: y[r, o] = activation(bias[o] + sum over k of x[r, k] * weight[k, o] + residual[r, o])
//
// A workgroup of 256 makes 64 rows x 64 outputs, an invocation 4 x 4 of them; 16 terms of the sum at a time go through
// workgroup memory (8 KiB). Launch: row tiles over (x, y), output tiles over z. Per output: 2 k flops; of each tile
// (64 + 64) * 4 k bytes are read, k/8 for an output, and 4 of each output written.
//
// Every output is summed in the order of k by one invocation: it does not depend on the batch.
// Arguments: params, x, weight [k][outputs padded to 64], bias, residual, y.

struct Params {
    x_at: u32,
    residual_at: u32,
    y_at: u32,
    rows: u32,
    terms: u32,
    // Outputs whose weights are bound, all outputs, and the first of the bound ones.
    outputs: u32,
    all_outputs: u32,
    first_output: u32,
    // Tiles of outputs.
    tiles: u32,
    // Channels per row of the output in memory, and the first of them that is written.
    channels: u32,
    first: u32,
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

// [term][row] and [term][four outputs].
var<workgroup> values: array<f32, 1024>;
var<workgroup> weights: array<vec4<f32>, 256>;

@compute @workgroup_size(256)
fn linear(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let tile = (group.y * groups.x + group.x) * TILE;
    if (tile >= p.rows) {
        return;
    }
    let load_row = lane / 4u;
    let load_term = (lane % 4u) * 4u;
    let loads = tile + load_row < p.rows;
    let load_at = p.x_at + (tile + load_row) * p.terms + load_term;
    let weight_row = p.tiles * 16u;
    let weight_at = group.z * 16u + lane % 16u;

    let row = lane / 16u;
    let column = lane % 16u;
    var sum0 = vec4<f32>();
    var sum1 = vec4<f32>();
    var sum2 = vec4<f32>();
    var sum3 = vec4<f32>();

    for (var term = 0u; term < p.terms; term += DEPTH) {
        for (var j = 0u; j < 4u; j++) {
            var value = 0.0;
            if (loads && term + load_term + j < p.terms) {
                value = f32(x[load_at + term + j]);
            }
            values[(load_term + j) * TILE + load_row] = value;
        }
        let weight_term = term + lane / 16u;
        var four = vec4<f32>();
        if (weight_term < p.terms) {
            four = vec4<f32>(weight[weight_at + weight_term * weight_row]);
        }
        weights[lane] = four;
        workgroupBarrier();
        for (var k = 0u; k < DEPTH; k++) {
            let w4 = weights[k * 16u + column];
            let begin = k * TILE + row * 4u;
            sum0 += values[begin] * w4;
            sum1 += values[begin + 1u] * w4;
            sum2 += values[begin + 2u] * w4;
            sum3 += values[begin + 3u] * w4;
        }
        workgroupBarrier();
    }

    let first_local = group.z * TILE + column * 4u;
    for (var j = 0u; j < 4u; j++) {
        let index = tile + row * 4u + j;
        if (index >= p.rows) {
            return;
        }
        var sum = sum0;
        if (j == 1u) {
            sum = sum1;
        } else if (j == 2u) {
            sum = sum2;
        } else if (j == 3u) {
            sum = sum3;
        }
        for (var i = 0u; i < 4u; i++) {
            if (first_local + i < p.outputs) {
                let o = p.first_output + first_local + i;
                var v = sum[i] + bias[o];
                if (p.has_residual != 0u) {
                    v += f32(residual[p.residual_at + index * p.all_outputs + o]);
                }
                y[p.y_at + index * p.channels + p.first + o] = Value(activate(v, p.activation));
            }
        }
    }
}
