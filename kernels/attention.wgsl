// The two products of attention, softmax(q k^T / sqrt(d) + bias) v for every image and head; `softmax` stands between.
//
// scores  s[b, q, k] = sum over i of query[q, i] * key[k, i] / sqrt(d) + bias[window, head, q, k]
// mix     y[n, q, head, i] = sum over k of s[b, q, k] * value[k, i]
//
// b counts images and heads together. A workgroup of 256 makes 16 x 16 values, an invocation one; 16 terms of the sum at
// a time go through workgroup memory (2 KiB). Launch: tiles of keys or channels over x, of queries over y, b over z.
// Per output: 2 d (or 2 tokens) flops, d / 2 (or tokens / 2) bytes read, 4 written. Every sum is taken in the order of its terms by one
// invocation.
// Arguments: params, qkv [n, tokens, 3c], bias, s, y.

struct Params {
    qkv_at: u32,
    bias_at: u32,
    y_at: u32,
    // First image and head of this launch.
    first: u32,
    tokens: u32,
    // Queries of this launch.
    first_query: u32,
    queries: u32,
    heads: u32,
    // Channels of a head and of a token of qkv.
    d: u32,
    token: u32,
    // Channels between two heads, and between query, key and value of one.
    head_step: u32,
    part_step: u32,
    // Windows of the bias, 0 without one, and the image of the batch that the launch begins with.
    windows: u32,
    first_image: u32,
    scale: f32,
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> qkv: array<Value>;
@group(0) @binding(2) var<storage, read> bias: array<Value>;
@group(0) @binding(3) var<storage, read_write> s: array<f32>;
@group(0) @binding(4) var<storage, read_write> y: array<Value>;

// [row of a tile][term], and [term][column].
var<workgroup> left: array<f32, 256>;
var<workgroup> right: array<f32, 256>;

@compute @workgroup_size(256)
fn scores(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let n = (p.first + group.z) / p.heads;
    let head = p.first + group.z - n * p.heads;
    let row = lane / 16u;
    let column = lane % 16u;
    let query = group.y * 16u + row;
    let key = group.x * 16u + column;
    let at = p.qkv_at + n * p.tokens * p.token + head * p.head_step;
    // The row of a tile of keys that this invocation loads.
    let load_key = group.x * 16u + row;
    var sum = 0.0;
    for (var term = 0u; term < p.d; term += 16u) {
        let i = term + column;
        var a = 0.0;
        var b = 0.0;
        if (i < p.d && query < p.queries) {
            a = f32(qkv[at + (p.first_query + query) * p.token + i]);
        }
        if (i < p.d && load_key < p.tokens) {
            b = f32(qkv[at + p.part_step + load_key * p.token + i]);
        }
        left[lane] = a;
        right[column * 16u + row] = b;
        workgroupBarrier();
        for (var k = 0u; k < 16u; k++) {
            sum += left[row * 16u + k] * right[k * 16u + column];
        }
        workgroupBarrier();
    }
    if (query < p.queries && key < p.tokens) {
        var score = sum * p.scale;
        if (p.windows != 0u) {
            let window = ((p.first_image + n) % p.windows) * p.heads + head;
            score += f32(bias[p.bias_at + (window * p.tokens + p.first_query + query) * p.tokens + key]);
        }
        s[(group.z * p.queries + query) * p.tokens + key] = score;
    }
}

@compute @workgroup_size(256)
fn mix(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let n = (p.first + group.z) / p.heads;
    let head = p.first + group.z - n * p.heads;
    let row = lane / 16u;
    let column = lane % 16u;
    let query = group.y * 16u + row;
    let i = group.x * 16u + column;
    let at = p.qkv_at + n * p.tokens * p.token + head * p.head_step + 2u * p.part_step;
    var sum = 0.0;
    for (var term = 0u; term < p.tokens; term += 16u) {
        var a = 0.0;
        var b = 0.0;
        if (query < p.queries && term + column < p.tokens) {
            a = s[(group.z * p.queries + query) * p.tokens + term + column];
        }
        if (i < p.d && term + row < p.tokens) {
            b = f32(qkv[at + (term + row) * p.token + i]);
        }
        left[lane] = a;
        right[lane] = b;
        workgroupBarrier();
        for (var k = 0u; k < 16u; k++) {
            sum += left[row * 16u + k] * right[k * 16u + column];
        }
        workgroupBarrier();
    }
    if (query < p.queries && i < p.d) {
        let token = n * p.tokens + p.first_query + query;
        y[p.y_at + token * p.heads * p.d + head * p.d + i] = Value(sum);
    }
}
