//! Dense convolutions on AMX tiles, for the fast mode: each f32 is split into two bf16 parts, and of the four partial
//! products the three that matter are summed in f32: `hi·hi + hi·lo + lo·hi`.
//!
//! The activations of a band lie as two planes `[32 inputs][pixel][32]`, so that 16 neighbouring pixels of 32 inputs
//! are one tile, and so are the 16 pixels below any tap. Weights lie as tiles of 16 pairs of inputs × 16 outputs.
//! The tiles themselves are behind [`Tiles`]: the machine's, or the same written out in Rust for tests.

use std::ops::Range;

use rayon::prelude::*;

use super::buffer::Buffer;
use super::conv::{Dense, Output};
use super::elementwise::activate_in_place;
use super::simd::FlushDenormals;
use super::units::{Unit, units};
use crate::tensor::{Conv, Shape};

/// Pixels, and outputs, of a tile.
const SIDE: usize = 16;
/// Inputs of a tile.
const DEPTH: usize = 32;
/// Outputs computed together: two tiles.
const BLOCK: usize = 2 * SIDE;
/// Half words of a tile.
const TILE: usize = SIDE * DEPTH;
/// Half words of the activations of a band.
const BAND: usize = 256 * 1024;

/// Eight tiles of 16 rows of 64 bytes.
pub trait Tiles {
    fn new() -> Self;
    fn zero(&mut self, tile: usize);
    /// Loads 16 rows of 32 half words, `stride` half words apart.
    ///
    /// # Safety
    /// All rows must be readable.
    unsafe fn load(&mut self, tile: usize, from: *const u16, stride: usize);
    /// Adds the products of pairs of bf16: `to[m][n] += Σ a[m][2k+i] · b[k][2n+i]`.
    fn multiply(&mut self, to: usize, a: usize, b: usize);
    /// Stores 16 rows of 16 f32, one after another.
    ///
    /// # Safety
    /// 256 values must be writable.
    unsafe fn store(&self, tile: usize, to: *mut f32);
}

/// The tiles of the machine.
#[cfg(target_arch = "x86_64")]
mod machine {
    use std::arch::asm;

    use super::Tiles;

    /// Layout of the tile configuration (palette 1): 16 rows of 64 bytes for each of eight tiles.
    #[repr(C, align(64))]
    struct Configuration {
        palette: u8,
        start_row: u8,
        reserved: [u8; 14],
        bytes_per_row: [u16; 16],
        rows: [u8; 16],
    }

    pub struct Machine(());

    macro_rules! each_tile {
        ($tile:expr, $name:ident => $body:expr) => {
            match $tile {
                0 => {
                    macro_rules! $name {
                        () => {
                            "tmm0"
                        };
                    }
                    $body
                }
                1 => {
                    macro_rules! $name {
                        () => {
                            "tmm1"
                        };
                    }
                    $body
                }
                2 => {
                    macro_rules! $name {
                        () => {
                            "tmm2"
                        };
                    }
                    $body
                }
                3 => {
                    macro_rules! $name {
                        () => {
                            "tmm3"
                        };
                    }
                    $body
                }
                4 => {
                    macro_rules! $name {
                        () => {
                            "tmm4"
                        };
                    }
                    $body
                }
                5 => {
                    macro_rules! $name {
                        () => {
                            "tmm5"
                        };
                    }
                    $body
                }
                6 => {
                    macro_rules! $name {
                        () => {
                            "tmm6"
                        };
                    }
                    $body
                }
                7 => {
                    macro_rules! $name {
                        () => {
                            "tmm7"
                        };
                    }
                    $body
                }
                other => unreachable!("there is no tile {other}"),
            }
        };
    }

    // SAFETY of all blocks below: a `Machine` is only made where AMX was found and allowed (`available`); pointers are
    // valid by the promise of the caller; the compiler itself never uses tiles.
    impl Tiles for Machine {
        #[inline(always)]
        fn new() -> Self {
            let mut configuration = Configuration {
                palette: 1,
                start_row: 0,
                reserved: [0; 14],
                bytes_per_row: [0; 16],
                rows: [0; 16],
            };
            configuration.bytes_per_row[..8].fill(64);
            configuration.rows[..8].fill(16);
            unsafe { asm!("ldtilecfg [{}]", in(reg) &configuration, options(nostack)) };
            Self(())
        }

        #[inline(always)]
        fn zero(&mut self, tile: usize) {
            each_tile!(tile, t => unsafe { asm!(concat!("tilezero ", t!()), options(nostack)) });
        }

        #[inline(always)]
        unsafe fn load(&mut self, tile: usize, from: *const u16, stride: usize) {
            each_tile!(tile, t => unsafe {
                asm!(concat!("tileloadd ", t!(), ", [{0} + {1}]"), in(reg) from, in(reg) 2 * stride,
                     options(nostack, readonly))
            });
        }

        #[inline(always)]
        fn multiply(&mut self, to: usize, a: usize, b: usize) {
            each_tile!(to, t => each_tile!(a, l => each_tile!(b, r => unsafe {
                asm!(concat!("tdpbf16ps ", t!(), ", ", l!(), ", ", r!()), options(nostack))
            })));
        }

        #[inline(always)]
        unsafe fn store(&self, tile: usize, to: *mut f32) {
            each_tile!(tile, t => unsafe {
                asm!(concat!("tilestored [{0} + {1}], ", t!()), in(reg) to, in(reg) 64usize, options(nostack))
            });
        }
    }

    impl Drop for Machine {
        fn drop(&mut self) {
            unsafe { asm!("tilerelease", options(nostack)) };
        }
    }

    /// Whether the processor has AMX with bf16 and the system lets this process use it.
    pub fn available() -> bool {
        use std::arch::x86_64::{__cpuid, __cpuid_count, _xgetbv};

        #[target_feature(enable = "xsave")]
        fn enabled() -> u64 {
            // SAFETY: register 0 always exists where XSAVE is enabled.
            unsafe { _xgetbv(0) }
        }
        const BF16: u32 = 1 << 22;
        const TILE: u32 = 1 << 24;
        const STATE: u64 = 1 << 17 | 1 << 18;
        let leaf = __cpuid(0).eax;
        let has = leaf >= 7 && __cpuid_count(7, 0).edx & (BF16 | TILE) == BF16 | TILE;
        let saves = __cpuid(1).ecx & (1 << 27) != 0;
        // SAFETY: the system enabled XSAVE, as just read.
        has && saves && unsafe { enabled() } & STATE == STATE && permitted()
    }

    /// Asks Linux for the large tile registers; elsewhere there is nobody to ask.
    fn permitted() -> bool {
        #[cfg(target_os = "linux")]
        {
            const ARCH_PRCTL: i64 = 158;
            const ARCH_REQ_XCOMP_PERM: u64 = 0x1023;
            const TILE_DATA: u64 = 18;
            let result: i64;
            // SAFETY: a system call that only changes what this process may use.
            unsafe {
                asm!("syscall", inlateout("rax") ARCH_PRCTL => result, in("rdi") ARCH_REQ_XCOMP_PERM,
                     in("rsi") TILE_DATA, out("rcx") _, out("r11") _, options(nostack));
            }
            result == 0
        }
        #[cfg(not(target_os = "linux"))]
        false
    }
}

#[cfg(target_arch = "x86_64")]
pub use machine::available;

/// Whether a convolution is worth the tiles: dense, and not the few channels of an image.
pub fn applies(spec: &Conv) -> bool {
    spec.groups == 1 && spec.inputs >= DEPTH / 2 && spec.outputs >= SIDE
}

/// The two bf16 parts of a number, each rounded to nearest.
#[inline(always)]
fn split(value: f32) -> [u16; 2] {
    let high = half(value);
    [high, half(value - f32::from_bits(u32::from(high) << 16))]
}

/// Rounds to bf16, to nearest, ties to even; infinities and NaN keep their kind.
#[inline(always)]
fn half(value: f32) -> u16 {
    let bits = value.to_bits();
    let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
    let exact = bits >> 16 | u32::from(value.is_nan()) << 6;
    (if value.is_finite() { rounded } else { exact }) as u16
}

/// Half words in aligned memory.
struct Halves(Buffer);

impl Halves {
    fn take(len: usize) -> Self {
        Self(Buffer::take(len.div_ceil(2)))
    }

    /// Zeros that stay.
    fn lasting(len: usize) -> Self {
        Self(Buffer::lasting(len.div_ceil(2)))
    }

    fn get(&self) -> &[u16] {
        bytemuck::cast_slice(&self.0)
    }

    fn get_mut(&mut self) -> &mut [u16] {
        bytemuck::cast_slice_mut(&mut self.0)
    }
}

/// Weights as tiles: `[32 outputs][tap][32 inputs][high, low][2][16 pairs of inputs][16 outputs][2]`.
pub struct Weights {
    tiles: Halves,
    bias: Buffer,
}

impl Weights {
    pub fn new(spec: &Conv, dense: &Dense) -> Self {
        let taps = spec.kernel[0] * spec.kernel[1];
        let (blocks, steps) = (spec.outputs.div_ceil(BLOCK), spec.inputs.div_ceil(DEPTH));
        let mut tiles = Halves::lasting(blocks * taps * steps * 4 * TILE);
        let values = tiles.get_mut();
        for output in 0..spec.outputs {
            for tap in 0..taps {
                for input in 0..spec.inputs {
                    let parts = split(dense.at(spec, output, input, tap));
                    let step = (output / BLOCK * taps + tap) * steps + input / DEPTH;
                    let within = (input % DEPTH / 2 * SIDE + output % SIDE) * 2 + input % 2;
                    for (part, value) in parts.into_iter().enumerate() {
                        let tile = (step * 2 + part) * 2 + output % BLOCK / SIDE;
                        values[tile * TILE + within] = value;
                    }
                }
            }
        }
        Self {
            tiles,
            bias: Buffer::from(&dense.bias[..]),
        }
    }
}

/// Convolves `x` into `output` on the tiles of the machine.
#[cfg(target_arch = "x86_64")]
pub fn run(
    spec: &Conv,
    x: &[f32],
    shape: Shape,
    out: Shape,
    weights: &Weights,
    output: &Output<'_>,
) {
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
    fn on_machine(plan: &Plan, x: &[f32], weights: &Weights, output: &Output<'_>, unit: &Unit) {
        band::<machine::Machine>(plan, x, weights, output, unit);
    }
    let plan = Plan::new(spec, shape, out);
    plan.units().into_par_iter().for_each(|unit| {
        let _flush = FlushDenormals::on();
        // SAFETY: this way is only taken where AVX-512 and AMX were detected.
        unsafe { on_machine(&plan, x, weights, output, &unit) }
    });
}

/// The geometry of a convolution over bordered bands.
struct Plan<'a> {
    spec: &'a Conv,
    shape: Shape,
    out: Shape,
    /// Pixels of a bordered row.
    width: usize,
    /// 32-input steps.
    steps: usize,
    blocks: usize,
}

impl<'a> Plan<'a> {
    fn new(spec: &'a Conv, shape: Shape, out: Shape) -> Self {
        Self {
            spec,
            shape,
            out,
            width: shape.w + spec.padding.left + spec.padding.right,
            steps: spec.inputs.div_ceil(DEPTH),
            blocks: spec.outputs.div_ceil(BLOCK),
        }
    }

    fn units(&self) -> Vec<Unit> {
        let row = self.spec.stride * self.width * self.steps * DEPTH * 2;
        units(self.out.n, self.out.h, self.out.w, BAND / row, self.blocks)
    }

    /// Bordered pixels of a band of output rows, and those that the last tiles read beyond them.
    fn pixels(&self, rows: usize) -> usize {
        let inputs = (rows - 1) * self.spec.stride + self.spec.kernel[0];
        inputs * self.width + 2 * SIDE * self.spec.stride
    }
}

/// The bordered rows of a band, split: `[high, low][step][pixel][32]`.
#[inline(always)]
fn planes(plan: &Plan<'_>, image: &[f32], rows: &Range<usize>) -> Halves {
    let Plan {
        spec,
        shape,
        width,
        steps,
        ..
    } = *plan;
    let pixels = plan.pixels(rows.len());
    let plane = steps * pixels * DEPTH;
    let mut planes = Halves::take(2 * plane);
    let (high, low) = planes.get_mut()[..2 * plane].split_at_mut(plane);
    for pixel in 0..pixels {
        let row = (rows.start * spec.stride + pixel / width).checked_sub(spec.padding.top);
        let column = (pixel % width).checked_sub(spec.padding.left);
        let inside = match (row, column) {
            (Some(y), Some(x)) if y < shape.h && x < shape.w => {
                &image[(y * shape.w + x) * shape.c..][..shape.c]
            }
            _ => &[],
        };
        for step in 0..steps {
            let at = (step * pixels + pixel) * DEPTH;
            let from = inside.get(step * DEPTH..).unwrap_or_default();
            let count = from.len().min(DEPTH);
            let (high, low) = (&mut high[at..at + DEPTH], &mut low[at..at + DEPTH]);
            for i in 0..count {
                [high[i], low[i]] = split(from[i]);
            }
            high[count..].fill(0);
            low[count..].fill(0);
        }
    }
    planes
}

#[inline(always)]
fn band<T: Tiles>(plan: &Plan<'_>, x: &[f32], weights: &Weights, output: &Output<'_>, unit: &Unit) {
    let Plan {
        spec,
        shape,
        out,
        width,
        steps,
        ..
    } = *plan;
    let [kh, kw] = spec.kernel;
    let image = &x[unit.image * shape.image()..(unit.image + 1) * shape.image()];
    let planes = planes(plan, image, &unit.rows);
    let pixels = plan.pixels(unit.rows.len());
    let (planes, plane) = (planes.get(), steps * pixels * DEPTH);
    let tap_tiles = steps * 4 * TILE;
    let mut tiles = T::new();
    // With stride 1 the rows of a band are one long row of bordered pixels, of which a few are thrown away.
    let (lines, length) = if spec.stride == 1 {
        (1, (unit.rows.len() - 1) * width + out.w)
    } else {
        (unit.rows.len(), out.w)
    };
    let mut sums = [[0.0f32; SIDE * SIDE]; 4];
    for block in unit.blocks.clone() {
        let packed =
            &weights.tiles.get()[block * kh * kw * tap_tiles..(block + 1) * kh * kw * tap_tiles];
        for line in 0..lines {
            for first in (0..length).step_by(2 * SIDE) {
                for tile in 0..4 {
                    tiles.zero(tile);
                }
                let corner = (line * width + first) * spec.stride;
                for tap in 0..kh * kw {
                    let pixel = corner + tap / kw * width + tap % kw;
                    for step in 0..steps {
                        let at = (step * pixels + pixel) * DEPTH;
                        let next = at + SIDE * spec.stride * DEPTH;
                        assert!(
                            next + SIDE * spec.stride * DEPTH - (spec.stride - 1) * DEPTH <= plane
                        );
                        let b = &packed[tap * tap_tiles + step * 4 * TILE..][..4 * TILE];
                        // SAFETY: the last pixel of both tiles is inside the plane (checked above), and the four
                        // weight tiles inside `b`.
                        unsafe {
                            let (high, low) = (planes.as_ptr(), planes.as_ptr().add(plane));
                            let weights = |tile: usize| b.as_ptr().add(tile * TILE);
                            let stride = spec.stride * DEPTH;
                            // high · high
                            tiles.load(4, high.add(at), stride);
                            tiles.load(5, high.add(next), stride);
                            tiles.load(6, weights(0), DEPTH);
                            tiles.load(7, weights(1), DEPTH);
                            quad(&mut tiles);
                            // high · low
                            tiles.load(6, weights(2), DEPTH);
                            tiles.load(7, weights(3), DEPTH);
                            quad(&mut tiles);
                            // low · high
                            tiles.load(4, low.add(at), stride);
                            tiles.load(5, low.add(next), stride);
                            tiles.load(6, weights(0), DEPTH);
                            tiles.load(7, weights(1), DEPTH);
                            quad(&mut tiles);
                        }
                    }
                }
                for (tile, sums) in sums.iter_mut().enumerate() {
                    // SAFETY: 256 values.
                    unsafe { tiles.store(tile, sums.as_mut_ptr()) };
                }
                for pixel in 0..(2 * SIDE).min(length - first) {
                    let (row, column) = if spec.stride == 1 {
                        ((first + pixel) / width, (first + pixel) % width)
                    } else {
                        (line, first + pixel)
                    };
                    if column < out.w {
                        let row = unit.image * out.h + unit.rows.start + row;
                        let from = [&sums[pixel / SIDE * 2], &sums[pixel / SIDE * 2 + 1]];
                        finish(
                            plan,
                            weights,
                            output,
                            from,
                            pixel % SIDE,
                            row * out.w + column,
                            block,
                        );
                    }
                }
            }
        }
    }
}

/// Multiplies two tiles of pixels with two tiles of outputs.
#[inline(always)]
fn quad(tiles: &mut impl Tiles) {
    tiles.multiply(0, 4, 6);
    tiles.multiply(1, 4, 7);
    tiles.multiply(2, 5, 6);
    tiles.multiply(3, 5, 7);
}

/// Bias, residual and activation of one pixel.
#[inline(always)]
fn finish(
    plan: &Plan<'_>,
    weights: &Weights,
    output: &Output<'_>,
    from: [&[f32; SIDE * SIDE]; 2],
    row: usize,
    pixel: usize,
    block: usize,
) {
    let outputs = plan.spec.outputs;
    for (half, from) in from.into_iter().enumerate() {
        let channel = block * BLOCK + half * SIDE;
        let Some(left) = outputs.checked_sub(channel).filter(|&left| left > 0) else {
            return;
        };
        let count = left.min(SIDE);
        let mut values = [0.0f32; SIDE];
        let bias = &weights.bias[channel..channel + count];
        for ((v, s), b) in values.iter_mut().zip(&from[row * SIDE..]).zip(bias) {
            *v = s + b;
        }
        if let Some(residual) = output.residual {
            for (v, r) in values
                .iter_mut()
                .zip(&residual[pixel * outputs + channel..][..count])
            {
                *v += r;
            }
        }
        activate_in_place(&mut values, plan.spec.activation);
        // SAFETY: this unit alone writes these channels of this pixel, which exist.
        unsafe {
            let to = output
                .data
                .add(pixel * output.channels + output.first + channel);
            std::ptr::copy_nonoverlapping(values.as_ptr(), to, count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::direct;
    use super::*;
    use crate::tensor::Padding;

    /// What the tile instructions do, written out.
    struct Written {
        tiles: [[u16; TILE]; 8],
    }

    fn wide(value: u16) -> f32 {
        f32::from_bits(u32::from(value) << 16)
    }

    impl Tiles for Written {
        fn new() -> Self {
            Self {
                tiles: [[0; TILE]; 8],
            }
        }

        fn zero(&mut self, tile: usize) {
            self.tiles[tile].fill(0);
        }

        unsafe fn load(&mut self, tile: usize, from: *const u16, stride: usize) {
            for (row, to) in self.tiles[tile].chunks_mut(DEPTH).enumerate() {
                // SAFETY: readable by the promise of the caller.
                to.copy_from_slice(unsafe {
                    std::slice::from_raw_parts(from.add(row * stride), DEPTH)
                });
            }
        }

        fn multiply(&mut self, to: usize, a: usize, b: usize) {
            let (a, b) = (self.tiles[a], self.tiles[b]);
            let sums: &mut [f32] = bytemuck::cast_slice_mut(&mut self.tiles[to]);
            for m in 0..SIDE {
                for n in 0..SIDE {
                    for k in 0..DEPTH {
                        sums[m * SIDE + n] +=
                            wide(a[m * DEPTH + k]) * wide(b[k / 2 * DEPTH + 2 * n + k % 2]);
                    }
                }
            }
        }

        unsafe fn store(&self, tile: usize, to: *mut f32) {
            let values: &[f32] = bytemuck::cast_slice(&self.tiles[tile]);
            // SAFETY: writable by the promise of the caller.
            unsafe { std::ptr::copy_nonoverlapping(values.as_ptr(), to, SIDE * SIDE) };
        }
    }

    fn noise(len: usize, seed: u32) -> Vec<f32> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 23) as f32 - 1.0
        };
        (0..len).map(|_| next()).collect()
    }

    #[test]
    fn a_number_is_the_sum_of_its_two_parts() {
        for value in noise(1000, 3).into_iter().chain([0.0, 1e-20, -3e30]) {
            let [high, low] = split(value);
            let error = (wide(high) + wide(low) - value).abs();
            assert!(error <= value.abs() * 2f32.powi(-16), "{value}: {error}");
        }
        assert!(wide(half(f32::NAN)).is_nan());
        assert_eq!(wide(half(f32::NEG_INFINITY)), f32::NEG_INFINITY);
    }

    #[test]
    fn convolutions_on_tiles_agree_with_direct_ones() {
        let one_side = Padding {
            top: 0,
            left: 1,
            bottom: 2,
            right: 0,
        };
        let cases = [
            (Conv::square(32, 32, 3).padding(1), 7, 9),
            (Conv::square(70, 40, 1), 5, 40),
            (Conv::square(64, 48, 3).stride(2).padding(1), 9, 40),
            (
                Conv {
                    padding: one_side,
                    ..Conv::square(16, 17, 5)
                },
                8,
                6,
            ),
            (
                Conv {
                    kernel: [1, 7],
                    ..Conv::square(33, 20, 1)
                },
                3,
                35,
            ),
        ];
        for (spec, h, w) in cases {
            let spec = spec.activation(crate::tensor::Activation::Relu);
            let shape = Shape::new(2, h, w, spec.inputs);
            let [oh, ow] = spec.output(h, w).unwrap();
            let out = Shape::new(2, oh, ow, spec.outputs);
            let (x, residual) = (noise(shape.len(), 1), noise(out.len(), 2));
            let taps = spec.kernel[0] * spec.kernel[1];
            let dense = Dense::new(
                &spec,
                &noise(spec.outputs * spec.inputs * taps, 4),
                &noise(spec.outputs, 5),
            );
            let compute = |work: &dyn Fn(&Output<'_>)| {
                let mut data = vec![f32::NAN; out.len()];
                let output = Output {
                    data: data.as_mut_ptr(),
                    channels: spec.outputs,
                    first: 0,
                    residual: Some(&residual),
                };
                work(&output);
                data
            };
            let expected = compute(&|output| direct::run(&spec, &x, shape, out, &dense, output));
            let weights = Weights::new(&spec, &dense);
            let plan = Plan::new(&spec, shape, out);
            let got = compute(&|output| {
                for unit in plan.units() {
                    band::<Written>(&plan, &x, &weights, output, &unit);
                }
            });
            let scale = (spec.inputs * taps) as f32;
            for (e, g) in expected.iter().zip(&got) {
                assert!((e - g).abs() < 2e-5 * scale.sqrt(), "{spec:?}: {e} {g}");
            }
        }
    }
}
