// Numbers of two f32, high + low, with 48 bits: sums that have to be as good as f64 ones on devices without f64.
// Stands before the kernels that use it.
//
// The error of a sum is found by subtracting again, which a compiler that knows algebra would call zero. `opaque`
// hides a value from it: the bits are combined with a word of the launch that is always zero, which no compiler knows.

fn opaque(x: f32, zero: u32) -> f32 {
    return bitcast<f32>(bitcast<u32>(x) ^ zero);
}

// high + low = a + b, exactly (Knuth).
fn two_sum(a: f32, b: f32, zero: u32) -> vec2<f32> {
    let s = opaque(a + b, zero);
    let from_b = opaque(s - a, zero);
    let from_a = opaque(s - from_b, zero);
    let lost_a = opaque(a - from_a, zero);
    return vec2<f32>(s, lost_a + opaque(b - from_b, zero));
}

// high + low = a + b where |a| >= |b| (Dekker).
fn quick_two_sum(a: f32, b: f32, zero: u32) -> vec2<f32> {
    let s = opaque(a + b, zero);
    return vec2<f32>(s, b - opaque(s - a, zero));
}

fn add_value(x: vec2<f32>, value: f32, zero: u32) -> vec2<f32> {
    let s = two_sum(x.x, value, zero);
    return quick_two_sum(s.x, s.y + x.y, zero);
}

fn add_two(x: vec2<f32>, y: vec2<f32>, zero: u32) -> vec2<f32> {
    let high = two_sum(x.x, y.x, zero);
    let low = two_sum(x.y, y.y, zero);
    let s = quick_two_sum(high.x, high.y + low.x, zero);
    return quick_two_sum(s.x, s.y + low.y, zero);
}

// The 12 leading bits of x, rounded; what is left has 12 bits too.
fn leading_bits(x: f32) -> f32 {
    return bitcast<f32>((bitcast<u32>(x) + 0x800u) & 0xfffff000u);
}

// high + low = a * b, exactly (Dekker): products of halves have no more than 24 bits.
fn two_product(a: f32, b: f32, zero: u32) -> vec2<f32> {
    let a_high = leading_bits(a);
    let b_high = leading_bits(b);
    let a_low = a - a_high;
    let b_low = b - b_high;
    let product = opaque(a * b, zero);
    var error = opaque(product - a_high * b_high, zero);
    error = opaque(error - a_low * b_high, zero);
    error = opaque(error - a_high * b_low, zero);
    return vec2<f32>(product, a_low * b_low - error);
}

// a * b + c, rounded once. WGSL's `fma` may round twice, and some devices do. (Boldo and Melquiond: the two rests are
// added up to the nearest number with an odd last bit, which no later rounding mistakes for a half.)
fn fused(a: f32, b: f32, c: f32, zero: u32) -> f32 {
    let product = two_product(a, b, zero);
    let low = two_sum(c, product.y, zero);
    let high = two_sum(product.x, low.x, zero);
    let rest = two_sum(low.y, high.y, zero);
    var bits = bitcast<u32>(rest.x);
    if (rest.y != 0.0 && (bits & 1u) == 0u) {
        if ((rest.y > 0.0) == (rest.x > 0.0)) {
            bits += 1u;
        } else {
            bits -= 1u;
        }
    }
    return high.x + bitcast<f32>(bits);
}

fn multiply_two(x: vec2<f32>, y: vec2<f32>, zero: u32) -> vec2<f32> {
    let product = two_product(x.x, y.x, zero);
    return quick_two_sum(product.x, product.y + (x.x * y.y + x.y * y.x), zero);
}
