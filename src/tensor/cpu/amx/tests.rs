//! Convolutions over tiles written out in Rust, so that they can be tested on any machine.

use super::super::direct;
use super::super::simd::Plain;
use super::written::{Written, wide};
use super::*;
use crate::Padding;

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
    // The largest numbers would round up to infinity.
    let large = [0.0, 1e-20, -3e30, 3.395e38, -3.4e38, f32::MAX];
    for value in noise(1000, 3).into_iter().chain(large) {
        let [high, low] = split(value);
        // In f64: the parts of the largest number add up to more than f32 holds.
        let [high, low, exact] = [wide(high), wide(low), value].map(f64::from);
        let error = (high + low - exact).abs();
        assert!(error <= exact.abs() * 2f64.powi(-16), "{value}: {error}");
    }
    assert_eq!(split(f32::INFINITY).map(wide), [f32::INFINITY, 0.0]);
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
        (Conv::square(40, 33, 1).stride(2), 7, 5),
        (Conv::square(600, 33, 1), 40, 40),
        (Conv::square(300, 33, 3).padding(1), 4, 5),
        (Conv::square(64, 48, 3).stride(2).padding(1), 9, 40),
        (Conv::square(48, 33, 3).stride(2).padding(1), 14, 13),
        (Conv::square(32, 20, 3).stride(4).padding(1), 30, 17),
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
        let spec = spec.activation(crate::Activation::Relu);
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
                let planes = planes(&plan, &x, unit.image, &unit.rows);
                band::<Written, Plain>(&plan, &planes, &weights, output, &unit);
            }
        });
        let scale = (spec.inputs * taps) as f32;
        for (e, g) in expected.iter().zip(&got) {
            assert!((e - g).abs() < 2e-5 * scale.sqrt(), "{spec:?}: {e} {g}");
        }
    }
}

/// Where the machine has tiles, they and the written ones give the same bits.
#[cfg(target_arch = "x86_64")]
#[test]
fn the_machines_tiles_are_the_written_ones() {
    if !Isa::Amx.available() {
        println!("skipped: this machine has no amx");
        return;
    }
    fn products<T: Tiles>(values: &[Vec<u16>]) -> Vec<f32> {
        let (mut tiles, mut out) = (T::new(), vec![0.0; SIDE * SIDE]);
        tiles.zero(2);
        for pair in values.chunks_exact(2) {
            // SAFETY: each holds one tile, and so does the output.
            unsafe {
                tiles.load(0, pair[0].as_ptr(), DEPTH);
                tiles.load(1, pair[1].as_ptr(), DEPTH);
            }
            tiles.multiply(2, 0, 1);
        }
        // SAFETY: as above.
        unsafe { tiles.store(2, out.as_mut_ptr()) };
        out
    }
    #[target_feature(enable = "avx2,fma")]
    fn written(values: &[Vec<u16>]) -> Vec<f32> {
        products::<Written>(values)
    }
    let _flush = FlushDenormals::on();
    // The smaller scales have products, sums and numbers below the least normal one.
    for scale in [1.0, 1e-10, 3e-19, 1e-20, 2e-38] {
        let values: Vec<Vec<u16>> = (0..12)
            .map(|seed| noise(TILE, seed).iter().map(|v| half(v * scale)).collect())
            .collect();
        let bits = |values: Vec<f32>| values.into_iter().map(f32::to_bits).collect::<Vec<_>>();
        // SAFETY: a machine with AMX has AVX2.
        let expected = bits(unsafe { written(&values) });
        assert_eq!(
            bits(products::<machine::Machine>(&values)),
            expected,
            "{scale}"
        );
    }
}
