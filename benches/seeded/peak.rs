//! What one core can do: products and sums in registers, with nothing to load.

use std::hint::black_box;
use std::time::Instant;

/// Steps of each accumulator between two looks at the clock.
const STEPS: usize = 200_000;

/// The best instruction set of this machine, and its measured GFLOP/s on this thread.
pub fn gflops() -> (&'static str, f64) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::is_x86_feature_detected as has;
        if has!("avx512f") {
            // SAFETY: the machine has the instructions.
            return ("avx512f", best(|| unsafe { x86::avx512() }));
        }
        if has!("avx2") && has!("fma") {
            // SAFETY: the machine has the instructions.
            return ("avx2+fma", best(|| unsafe { x86::avx2() }));
        }
    }
    ("portable", best(portable))
}

/// `run` returns the number of floating-point operations of one round.
fn best(run: impl Fn() -> usize) -> f64 {
    let mut best = 0.0f64;
    let start = Instant::now();
    while start.elapsed().as_secs_f64() < 0.3 {
        let before = Instant::now();
        let flops = run();
        best = best.max(flops as f64 / before.elapsed().as_secs_f64() * 1e-9);
    }
    best
}

/// Separate products and sums, which every machine has; the compiler makes vectors of them.
fn portable() -> usize {
    const LANES: usize = 32;
    let (factor, term) = (black_box(0.999f32), black_box(0.001f32));
    let mut sums = [1.0f32; LANES];
    for _ in 0..STEPS {
        for sum in &mut sums {
            *sum = *sum * factor + term;
        }
    }
    black_box(sums);
    2 * LANES * STEPS
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;
    use std::hint::black_box;

    use super::STEPS;

    /// Enough independent sums to hide the latency of two units, few enough for 16 registers.
    #[target_feature(enable = "avx2,fma")]
    pub fn avx2() -> usize {
        const SUMS: usize = 12;
        let factor = _mm256_set1_ps(black_box(0.999));
        let term = _mm256_set1_ps(black_box(0.001));
        let mut sums = [_mm256_set1_ps(1.0); SUMS];
        for _ in 0..STEPS {
            for sum in &mut sums {
                *sum = _mm256_fmadd_ps(*sum, factor, term);
            }
        }
        black_box(sums);
        2 * 8 * SUMS * STEPS
    }

    #[target_feature(enable = "avx512f")]
    pub fn avx512() -> usize {
        const SUMS: usize = 20;
        let factor = _mm512_set1_ps(black_box(0.999));
        let term = _mm512_set1_ps(black_box(0.001));
        let mut sums = [_mm512_set1_ps(1.0); SUMS];
        for _ in 0..STEPS {
            for sum in &mut sums {
                *sum = _mm512_fmadd_ps(*sum, factor, term);
            }
        }
        black_box(sums);
        2 * 16 * SUMS * STEPS
    }
}
