//! What a device can do at most, measured.

use std::time::Instant;

use super::kernels::{Kernel, PROBE_COPY, PROBE_MULTIPLY};
use super::{Gpu, WORKGROUP};
use crate::{Shape, TensorError};

/// Peak of a device.
#[derive(Clone, Copy, Debug)]
pub struct Probe {
    /// Bytes read and written per second by a copy.
    pub bytes: f64,
    /// Flops per second of chains of multiply-adds in registers.
    pub flops: f64,
}

/// Bytes that are copied: larger than caches. Kernels see less on small devices.
const BYTES: usize = 1 << 28;
/// Steps of 16 multiply-adds of 8 chains.
const ROUNDS: usize = 64;
/// A measurement takes at least so many seconds.
const SECONDS: f64 = 0.3;

impl Gpu {
    /// Measures for a second or two.
    pub fn probe(&self) -> Result<Probe, TensorError> {
        let mut values = BYTES / 4;
        while !self.fits(values) {
            values /= 2;
        }
        let copies = self.seconds(&PROBE_COPY, values, 0)?;
        let threads = 1 << 18;
        let chains = self.seconds(&PROBE_MULTIPLY, 4 * threads, ROUNDS)?;
        Ok(Probe {
            bytes: 8.0 * values as f64 / copies,
            flops: (256 * ROUNDS * threads) as f64 / chains,
        })
    }

    /// Seconds of a launch over so many values: the best of several groups of launches.
    fn seconds(
        &self,
        kernel: &'static Kernel,
        values: usize,
        rounds: usize,
    ) -> Result<f64, TensorError> {
        let shape = Shape::new(1, 1, 1, values);
        let (x, y) = (self.scratch(shape)?, self.scratch(shape)?);
        let from = self.reads(&x, 0..values)?;
        let to = self.writes(&y, 0..values)?;
        let params = [(values / 4) as u32, rounds as u32];
        let [gx, gy] = self.grid((values / 4).div_ceil(WORKGROUP));
        let run = |times: usize| -> Result<f64, TensorError> {
            let started = Instant::now();
            for _ in 0..times {
                let bindings = [from.binding.clone(), to.binding.clone()];
                self.launch(kernel, [gx, gy, 1], &params, &bindings)?;
            }
            self.driver.wait()?;
            Ok(started.elapsed().as_secs_f64())
        };
        // The first launch compiles.
        run(1)?;
        let once = run(1)?;
        let times = (SECONDS / 3.0 / once.max(1e-7)).clamp(1.0, 1000.0) as usize;
        let mut best = f64::INFINITY;
        for _ in 0..3 {
            best = best.min(run(times)? / times as f64);
        }
        Ok(best)
    }
}
