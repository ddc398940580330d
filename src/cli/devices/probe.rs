//! `foil devices --probe`: how fast a device is, measured.

use std::time::Instant;

use crate::cli::UsageError;
use crate::tensor::gpu::Gpu;
use crate::tensor::{Activation, Array, Backend, Conv, Device, Opened, Precision, cpu};

/// What was measured.
struct Speed {
    name: String,
    /// Bytes per second of a copy, read and written.
    copy: f64,
    /// Flops per second of multiply-adds in registers.
    multiply: Option<f64>,
    /// Flops per second of a 3x3 convolution of VGG: 256 channels of 56x56, four images; on slow devices of 14x14.
    convolution: f64,
}

pub fn run(device: Device, json: bool) -> anyhow::Result<()> {
    let (device, opened, why) = device
        .open(Precision::F32)
        .map_err(|e| UsageError(e.to_string()))?;
    let speed = match opened {
        Opened::Cpu(cpu) => Speed {
            name: cpu.describe(),
            copy: cpu::copy_speed(),
            multiply: None,
            convolution: convolution(&cpu)?,
        },
        Opened::Gpu(gpu) => of_gpu(&gpu)?,
    };
    if json {
        let found = serde_json::json!({
            "device": device.to_string(),
            "description": speed.name,
            "copy_bytes_per_second": speed.copy,
            "multiply_add_flops_per_second": speed.multiply,
            "convolution_flops_per_second": speed.convolution,
        });
        return crate::cli::print(&format!("{}\n", serde_json::to_string_pretty(&found)?));
    }
    let giga = |v: f64| format!("{:.1}", v / 1e9);
    let multiply = match speed.multiply {
        Some(flops) => format!("{} GFLOP/s", giga(flops)),
        None => "not measured on the CPU".into(),
    };
    crate::cli::print(&format!(
        "{device} ({why})\n{}\ncopy             {} GB/s (read and written)\nmultiply-add     {multiply}\n3x3 convolution  {} GFLOP/s\n",
        speed.name,
        giga(speed.copy),
        giga(speed.convolution),
    ))
}

fn of_gpu(gpu: &Gpu) -> anyhow::Result<Speed> {
    let probe = gpu.probe()?;
    Ok(Speed {
        name: gpu.describe(),
        copy: probe.bytes,
        multiply: Some(probe.flops),
        convolution: convolution(gpu)?,
    })
}

/// A device that takes longer for a convolution of 14x14 is not asked for a larger one.
const SLOW_SECONDS: f64 = 0.1;

fn convolution<B: Backend>(backend: &B) -> anyhow::Result<f64> {
    // The first compiles.
    convolved(backend, 1, 14, 1)?;
    let (seconds, flops) = convolved(backend, 1, 14, 2)?;
    if seconds > SLOW_SECONDS {
        return Ok(flops / seconds);
    }
    let (seconds, flops) = convolved(backend, 4, 56, 4)?;
    Ok(flops / seconds)
}

/// Seconds of a convolution of so many images of this side, the best of some runs, and its flops.
fn convolved<B: Backend>(
    backend: &B,
    images: usize,
    side: usize,
    runs: usize,
) -> anyhow::Result<(f64, f64)> {
    let channels = 256;
    let spec = Conv::square(channels, channels, 3)
        .padding(1)
        .activation(Activation::Relu);
    let weight = Array::new(
        [channels, channels, 3, 3],
        vec![0.01; channels * channels * 9],
    )?;
    let conv = backend.prepare(spec, &weight, &vec![0.0; channels])?;
    let shape = [images, channels, side, side];
    let x = Array::new(shape, vec![0.5; shape.iter().product()])?;
    let x = backend.upload(&x)?;
    let mut best = f64::INFINITY;
    for _ in 0..runs {
        let started = Instant::now();
        backend.conv(&x, &conv, None)?;
        backend.wait()?;
        best = best.min(started.elapsed().as_secs_f64());
    }
    let flops = 2 * 9 * channels * channels * side * side * images;
    Ok((best, flops as f64))
}
