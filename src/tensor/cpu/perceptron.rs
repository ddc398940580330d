//! Linear layers with tanh on many small rows at once, forth and back to their inputs, in single precision.
//!
//! Up to [`LANES`] rows are a [`Block`] for each value, one row in each lane. A row's sums run over the inputs in their order, so they do not
//! depend on the rows beside it. Compiled for AVX-512, AVX2 with FMA, and any machine, which differ by rounding.

use super::functions::tanh;
use super::simd::{Lanes, for_each_lanes};

/// Rows of a block.
pub const LANES: usize = 32;

/// A value of each row.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C, align(64))]
pub struct Block(pub [f32; LANES]);

impl Block {
    pub const ZERO: Block = Block([0.0; LANES]);

    /// Adds what another block holds.
    pub fn add(&mut self, other: &Block) {
        self.0.iter_mut().zip(&other.0).for_each(|(a, b)| *a += b);
    }
}

/// `tanh(W x + b)`, or without the tanh.
#[derive(Clone, Debug, PartialEq)]
pub struct Linear {
    /// `[outputs, inputs]`.
    weight: Vec<f32>,
    /// `[inputs, outputs]`.
    turned: Vec<f32>,
    bias: Vec<f32>,
    inputs: usize,
    tanh: bool,
}

impl Linear {
    /// `weight` is `[outputs, inputs]`; none if it is not so many values, or without inputs or outputs.
    pub fn new(weight: Vec<f32>, bias: Vec<f32>, tanh: bool) -> Option<Self> {
        let outputs = bias.len();
        if outputs == 0 || weight.is_empty() || !weight.len().is_multiple_of(outputs) {
            return None;
        }
        let inputs = weight.len() / outputs;
        let turned = (0..inputs)
            .flat_map(|i| weight.iter().skip(i).step_by(inputs).copied())
            .collect();
        Some(Self {
            weight,
            turned,
            bias,
            inputs,
            tanh,
        })
    }

    pub fn inputs(&self) -> usize {
        self.inputs
    }

    pub fn outputs(&self) -> usize {
        self.bias.len()
    }

    /// The outputs of the first `rows` rows; what the other lanes hold means nothing.
    ///
    /// # Panics
    /// Unless there is a block for each input and each output.
    pub fn forward(&self, rows: usize, x: &[Block], y: &mut [Block]) {
        assert!(rows <= LANES && x.len() == self.inputs && y.len() == self.outputs());
        forward_rows(self, rows, x, y);
    }

    /// The derivative by the inputs, given that by the outputs, `by_y`, which is used up; `y` is what the layer gave.
    ///
    /// # Panics
    /// Unless there is a block for each input and each output.
    pub fn backward(&self, rows: usize, y: &[Block], by_y: &mut [Block], by_x: &mut [Block]) {
        let outputs = self.outputs();
        assert!(rows <= LANES && y.len() == outputs && by_y.len() == outputs);
        assert!(by_x.len() == self.inputs);
        backward_rows(self, rows, y, by_y, by_x);
    }
}

/// Rows of `width` values as blocks; lanes without a row are 0.
pub fn turn(rows: &[f32], width: usize, blocks: &mut [Block]) {
    let used = rows.len() / width.max(1);
    for block in blocks.iter_mut() {
        block.0[used..].fill(0.0);
    }
    for (lane, row) in rows.chunks_exact(width).enumerate() {
        for (block, value) in blocks.iter_mut().zip(row) {
            block.0[lane] = *value;
        }
    }
}

/// Blocks as rows of `width` values.
pub fn turn_back(blocks: &[Block], width: usize, rows: &mut [f32]) {
    for (lane, row) in rows.chunks_exact_mut(width).enumerate() {
        for (block, value) in blocks.iter().zip(row) {
            *value = block.0[lane];
        }
    }
}

for_each_lanes! {
    fn forward_rows(layer: &Linear, rows: usize, x: &[Block], y: &mut [Block]) => forward
}

for_each_lanes! {
    fn backward_rows(layer: &Linear, rows: usize, y: &[Block], by_y: &mut [Block], by_x: &mut [Block]) => backward
}

#[inline(always)]
fn forward<V: Lanes>(layer: &Linear, rows: usize, x: &[Block], y: &mut [Block]) {
    product::<V>(&layer.turned, Some(&layer.bias), rows, x, y);
    if !layer.tanh {
        return;
    }
    for y in y {
        let at = y.0.as_mut_ptr();
        for lane in (0..rows).step_by(V::COUNT) {
            // SAFETY: registers divide a block, so one that begins below `rows` ends within it.
            unsafe { tanh(V::load(at.add(lane))).store(at.add(lane)) };
        }
    }
}

#[inline(always)]
fn backward<V: Lanes>(
    layer: &Linear,
    rows: usize,
    y: &[Block],
    by_y: &mut [Block],
    by_x: &mut [Block],
) {
    if layer.tanh {
        for (by, y) in by_y.iter_mut().zip(y) {
            let (by, y) = (by.0.as_mut_ptr(), y.0.as_ptr());
            for lane in (0..rows).step_by(V::COUNT) {
                // SAFETY: as in `forward`.
                unsafe {
                    let y = V::load(y.add(lane));
                    let slope = V::splat(1.0).minus(y.times(y));
                    V::load(by.add(lane)).times(slope).store(by.add(lane));
                }
            }
        }
    }
    product::<V>(&layer.weight, None, rows, by_y, by_x);
}

/// `y_j = b_j + Σ_i w_ij x_i` with `w` `[x.len(), y.len()]`.
#[inline(always)]
fn product<V: Lanes>(
    weight: &[f32],
    bias: Option<&[f32]>,
    rows: usize,
    x: &[Block],
    y: &mut [Block],
) {
    assert!(weight.len() == x.len() * y.len());
    let outputs = y.len();
    let mut first = 0;
    while first < outputs {
        let left = outputs - first;
        let tile = Tile {
            weight: weight[first..].as_ptr(),
            stride: outputs,
            bias: bias.map(|b| b[first..].as_ptr()),
            rows,
            x,
            y: y[first..].as_mut_ptr(),
        };
        // SAFETY: as many outputs as the tile has are left.
        first += unsafe {
            match (V::PIXELS, left) {
                (12.., 8..) => tile.run::<V, 8>(),
                (_, 4..) => tile.run::<V, 4>(),
                (_, 2..) => tile.run::<V, 2>(),
                _ => tile.run::<V, 1>(),
            }
        };
    }
}

/// Some outputs of a product.
struct Tile<'a> {
    weight: *const f32,
    stride: usize,
    bias: Option<*const f32>,
    rows: usize,
    x: &'a [Block],
    y: *mut Block,
}

impl Tile<'_> {
    /// `R` outputs, whose number is returned.
    ///
    /// # Safety
    /// There must be `R` of them: in `y`, in `bias`, and in each row of the weights.
    #[inline(always)]
    unsafe fn run<V: Lanes, const R: usize>(&self) -> usize {
        let mut lane = 0;
        while lane < self.rows {
            // SAFETY: the caller's promise; a register or two that begin below `rows` end within the block.
            lane += unsafe {
                match self.rows - lane > V::COUNT {
                    true => self.registers::<V, R, 2>(lane),
                    false => self.registers::<V, R, 1>(lane),
                }
            };
        }
        R
    }

    /// `C` registers of rows from `lane` on; how many rows that is.
    ///
    /// # Safety
    /// As [`Tile::run`], and a block must have so many.
    #[inline(always)]
    unsafe fn registers<V: Lanes, const R: usize, const C: usize>(&self, lane: usize) -> usize {
        let mut sums = [[V::splat(0.0); C]; R];
        if let Some(bias) = self.bias {
            for (r, sums) in sums.iter_mut().enumerate() {
                // SAFETY: the caller's promise.
                *sums = [V::splat(unsafe { *bias.add(r) }); C];
            }
        }
        let mut weight = self.weight;
        for x in self.x {
            let mut values = [V::splat(0.0); C];
            for (c, value) in values.iter_mut().enumerate() {
                // SAFETY: the caller's promise.
                *value = unsafe { V::load(x.0.as_ptr().add(lane + c * V::COUNT)) };
            }
            for (r, sums) in sums.iter_mut().enumerate() {
                // SAFETY: the caller's promise; there is a row of weights for each of `x`.
                let w = V::splat(unsafe { *weight.add(r) });
                for (sum, value) in sums.iter_mut().zip(values) {
                    *sum = sum.plus_product(w, value);
                }
            }
            weight = weight.wrapping_add(self.stride);
        }
        for (r, sums) in sums.iter().enumerate() {
            for (c, sum) in sums.iter().enumerate() {
                // SAFETY: the caller's promise.
                unsafe {
                    let y = self.y.add(r).cast::<f32>();
                    sum.store(y.add(lane + c * V::COUNT));
                }
            }
        }
        C * V::COUNT
    }
}

#[cfg(test)]
mod tests {
    use super::super::simd::Plain;
    use super::*;

    fn wave(count: usize, step: f64, size: f64) -> Vec<f32> {
        let value = |i: usize| size * (i as f64 * step + 0.3).sin();
        (0..count).map(|i| value(i) as f32).collect()
    }

    /// Outputs of a row, and the derivative of `Σ by_y y` by its inputs, in f64.
    fn plain(layer: &Linear, x: &[f32], by_y: &[f32]) -> [Vec<f64>; 2] {
        let mut by_x = vec![0.0; x.len()];
        let rows = layer.weight.chunks_exact(layer.inputs).zip(&layer.bias);
        let y = rows.zip(by_y).map(|((row, &bias), &by)| {
            let products = row
                .iter()
                .zip(x)
                .map(|(&w, &x)| f64::from(w) * f64::from(x));
            let sum = f64::from(bias) + products.sum::<f64>();
            let y = if layer.tanh { sum.tanh() } else { sum };
            let slope = if layer.tanh { 1.0 - y * y } else { 1.0 };
            for (by_x, &w) in by_x.iter_mut().zip(row) {
                *by_x += f64::from(by) * slope * f64::from(w);
            }
            y
        });
        let y = y.collect();
        [y, by_x]
    }

    type Forth = fn(&Linear, usize, &[Block], &mut [Block]);
    type Back = fn(&Linear, usize, &[Block], &mut [Block], &mut [Block]);

    /// Numbers of rows, inputs and outputs that are odd, one, and around registers and tiles; with this machine's instructions and
    /// without any.
    #[test]
    fn blocks_give_the_plain_sums_and_derivatives() {
        let kernels: [(Forth, Back); 2] = [
            (forward_rows, backward_rows),
            (forward::<Plain>, backward::<Plain>),
        ];
        for rows in [1, 3, 8, 9, 16, 17, 31, 32] {
            for (inputs, outputs) in [(1, 1), (11, 40), (13, 9), (3, 15), (64, 2), (7, 24)] {
                for tanh in [false, true] {
                    let weight = wave(inputs * outputs, 0.7, 0.8);
                    let layer = Linear::new(weight, wave(outputs, 1.1, 0.5), tanh).unwrap();
                    let x = wave(rows * inputs, 1.3, 1.0);
                    let by = wave(rows * outputs, 0.9, 1.0);
                    for (forth, back) in kernels {
                        let mut turned = vec![Block::ZERO; inputs];
                        turn(&x, inputs, &mut turned);
                        let mut y = vec![Block::ZERO; outputs];
                        forth(&layer, rows, &turned, &mut y);
                        let mut by_y = vec![Block::ZERO; outputs];
                        turn(&by, outputs, &mut by_y);
                        let mut by_x = vec![Block([9.0; LANES]); inputs];
                        back(&layer, rows, &y, &mut by_y, &mut by_x);
                        let (mut out, mut slopes) = (by.clone(), x.clone());
                        turn_back(&y, outputs, &mut out);
                        turn_back(&by_x, inputs, &mut slopes);
                        for row in 0..rows {
                            let (own, its) = (row * inputs.., row * outputs..);
                            let (x, by) = (&x[own.clone()][..inputs], &by[its.clone()][..outputs]);
                            let [y, by_x] = plain(&layer, x, by);
                            for (got, want) in out[its].iter().zip(y) {
                                assert!((f64::from(*got) - want).abs() < 3e-6, "{got} {want}");
                            }
                            for (got, want) in slopes[own].iter().zip(by_x) {
                                assert!((f64::from(*got) - want).abs() < 5e-6, "{got} {want}");
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_row_does_not_know_its_place_or_its_neighbours() {
        let layer = Linear::new(wave(5 * 19, 0.7, 0.8), wave(19, 1.1, 0.5), true).unwrap();
        let x = wave(32 * 5, 1.3, 1.0);
        let run = |rows: &[f32]| {
            let count = rows.len() / 5;
            let (mut turned, mut y) = (vec![Block::ZERO; 5], vec![Block::ZERO; 19]);
            turn(rows, 5, &mut turned);
            layer.forward(count, &turned, &mut y);
            let (mut by_y, mut by_x) = (y.clone(), vec![Block::ZERO; 5]);
            layer.backward(count, &y, &mut by_y, &mut by_x);
            let mut all = [vec![0.0; count * 19], vec![0.0; count * 5]];
            turn_back(&y, 19, &mut all[0]);
            turn_back(&by_x, 5, &mut all[1]);
            all
        };
        let [y, by_x] = run(&x);
        for (row, x) in x.chunks_exact(5).enumerate() {
            let alone = run(x);
            assert_eq!(alone[0], y[row * 19..][..19]);
            assert_eq!(alone[1], by_x[row * 5..][..5]);
        }
    }

    /// A layer that is the tanh of its only input, over the whole range of single precision.
    #[test]
    fn tanh_in_registers_is_right_to_three_ulp() {
        let layer = Linear::new(vec![1.0], vec![0.0], true).unwrap();
        let run = |x: &[f32]| {
            let (mut turned, mut y) = ([Block::ZERO], [Block::ZERO]);
            turn(x, 1, &mut turned);
            layer.forward(x.len(), &turned, &mut y);
            y[0].0
        };
        // Every 4099th number, of both signs.
        let numbers = (0..f32::INFINITY.to_bits()).step_by(4099);
        let numbers: Vec<f32> = numbers
            .flat_map(|bits| [f32::from_bits(bits), -f32::from_bits(bits)])
            .collect();
        for x in numbers.chunks(LANES) {
            for (&x, got) in x.iter().zip(run(x)) {
                let exact = f64::from(x).tanh();
                // Below 1e-37 a unit in the last place no longer shrinks with the number.
                let ulp = exact.abs().max(1e-37) * f64::from(f32::EPSILON);
                assert!((f64::from(got) - exact).abs() < 3.0 * ulp, "{x}: {got}");
            }
        }
        let ends = run(&[f32::INFINITY, f32::NEG_INFINITY, f32::MAX, 0.0, f32::NAN]);
        assert_eq!(ends[..4], [1.0, -1.0, 1.0, 0.0]);
        assert!(ends[4].is_nan());
    }

    #[test]
    fn layers_that_do_not_fit_are_refused() {
        assert!(Linear::new(vec![1.0; 5], vec![0.0; 2], true).is_none());
        assert!(Linear::new(vec![], vec![0.0; 2], true).is_none());
        assert!(Linear::new(vec![1.0; 4], vec![], true).is_none());
    }
}
