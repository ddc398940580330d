//! What a device can do at most, measured.

use std::time::Instant;

use super::kernels::{Kernel, PROBE_COPY, PROBE_MULTIPLY};
use super::tensor::Tensor;
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

/// Bytes that are copied at most: larger than caches. Kernels see less on small devices, and slow ones copy less.
const BYTES: usize = 1 << 28;
const FEWEST_BYTES: usize = 1 << 22;
/// Chains of multiply-adds at most.
const THREADS: usize = 1 << 18;
const FEWEST_THREADS: usize = 1 << 10;
/// Steps of 16 multiply-adds of 8 chains.
const ROUNDS: usize = 64;
/// A measurement takes at least so many seconds.
const SECONDS: f64 = 0.3;

impl Gpu {
    /// Measures for a few seconds, on slow devices too.
    pub fn probe(&self) -> Result<Probe, TensorError> {
        let mut values = BYTES / 4;
        while !self.fits(values) {
            values /= 2;
        }
        let values = self.bearable(&PROBE_COPY, values, 0, FEWEST_BYTES / 4)?;
        let copies = self.seconds(&PROBE_COPY, values, 0)?;
        let threads = self.bearable(&PROBE_MULTIPLY, 4 * THREADS, ROUNDS, 4 * FEWEST_THREADS)? / 4;
        let chains = self.seconds(&PROBE_MULTIPLY, 4 * threads, ROUNDS)?;
        Ok(Probe {
            bytes: 8.0 * values as f64 / copies,
            flops: (256 * ROUNDS * threads) as f64 / chains,
        })
    }

    /// As many values as a launch takes within the time of a measurement, by doubling from the fewest.
    fn bearable(
        &self,
        kernel: &'static Kernel,
        most: usize,
        rounds: usize,
        fewest: usize,
    ) -> Result<usize, TensorError> {
        let mut values = fewest.min(most);
        let once = |values: usize| {
            let [x, y] = self.operands(values)?;
            self.launched(kernel, &x, &y, rounds, 1)
        };
        // The first launch compiles.
        once(values)?;
        while values < most && once(values)? < SECONDS / 4.0 {
            values = (2 * values).min(most);
        }
        Ok(values)
    }

    /// Seconds of a launch over so many values: the best of several groups of launches.
    fn seconds(
        &self,
        kernel: &'static Kernel,
        values: usize,
        rounds: usize,
    ) -> Result<f64, TensorError> {
        let [x, y] = self.operands(values)?;
        let run = |times: usize| self.launched(kernel, &x, &y, rounds, times);
        // The first launch touches the memory.
        run(1)?;
        let once = run(1)?;
        let times = (SECONDS / 3.0 / once.max(1e-7)).clamp(1.0, 1000.0) as usize;
        let mut best = f64::INFINITY;
        for _ in 0..3 {
            best = best.min(run(times)? / times as f64);
        }
        Ok(best)
    }

    fn operands(&self, values: usize) -> Result<[Tensor; 2], TensorError> {
        let shape = Shape::new(1, 1, 1, values);
        Ok([self.scratch(shape)?, self.scratch(shape)?])
    }

    /// Seconds of so many launches.
    fn launched(
        &self,
        kernel: &'static Kernel,
        x: &Tensor,
        y: &Tensor,
        rounds: usize,
        times: usize,
    ) -> Result<f64, TensorError> {
        let values = x.shape().len();
        let from = self.reads(x, 0..values)?;
        let to = self.writes(y, 0..values)?;
        let params = [(values / 4) as u32, rounds as u32];
        let [gx, gy] = self.grid((values / 4).div_ceil(WORKGROUP));
        let started = Instant::now();
        for _ in 0..times {
            let bindings = [from.binding.clone(), to.binding.clone()];
            self.launch(kernel, [gx, gy, 1], &params, &bindings)?;
        }
        self.driver.wait()?;
        Ok(started.elapsed().as_secs_f64())
    }
}
