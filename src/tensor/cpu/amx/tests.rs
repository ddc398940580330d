//! Convolutions over tiles written out in Rust, so that they can be tested on any machine.

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
