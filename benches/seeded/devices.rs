//! The devices to measure: those of `FOIL_BENCH_DEVICES` (names of `--device`, with commas between), else the CPU and the
//! GPU that `--device auto` takes, if there is one.

use std::cell::OnceCell;
use std::fmt;

use foil::tensor::plan::{PEAKS, Peak};
use foil::tensor::{Backend, Device, Opened, Precision};

use crate::peak;

/// A device, and what it can do at most.
pub struct Measured {
    pub name: String,
    pub opened: Opened,
    peak: OnceCell<Peak>,
}

impl Measured {
    /// What its maker states, if it is in the table; else what copies and multiply-adds reach, which takes seconds.
    pub fn peak(&self) -> Peak {
        *self.peak.get_or_init(|| {
            let described = match &self.opened {
                Opened::Cpu(b) => b.describe(),
                Opened::Gpu(b) => b.describe(),
            };
            // Its whole name: other cards with a part of it have other peaks.
            let named = |p: &&Peak| described.contains(&format!("{} (", p.device));
            let known = PEAKS.iter().find(named);
            known.copied().unwrap_or_else(|| measured(&self.opened))
        })
    }
}

/// What copies and multiply-adds reach.
pub fn measured(device: &Opened) -> Peak {
    let (flops, bytes) = match device {
        Opened::Cpu(_) => (
            peak::gflops().1 * 1e9 * rayon::current_num_threads() as f64,
            foil::tensor::cpu::copy_speed(),
        ),
        Opened::Gpu(gpu) => {
            let probe = gpu.probe().expect("a probe");
            (probe.flops, probe.bytes)
        }
    };
    Peak {
        name: "measured",
        device: "",
        flops,
        bytes,
    }
}

/// The name, as the last part of a benchmark's.
impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// A device by its name.
pub fn open(name: &str) -> Measured {
    foil::tensor::cpu::forced().unwrap_or_else(|wrong| panic!("{wrong}"));
    let device: Device = name.parse().unwrap_or_else(|e| panic!("{e}"));
    let opened = device.open(Precision::F32);
    let (device, opened, _) = opened.unwrap_or_else(|e| panic!("{e}"));
    Measured {
        name: device.to_string(),
        opened,
        peak: OnceCell::new(),
    }
}

/// Each device.
pub fn opened() -> Vec<Measured> {
    let named = std::env::var("FOIL_BENCH_DEVICES");
    match named {
        Ok(names) => names.split(',').map(open).collect(),
        Err(_) => {
            let mut all = vec![open("cpu"), open("auto")];
            all.dedup_by(|a, b| a.name == b.name);
            all
        }
    }
}

/// Runs functions of criterion, a device and its backend on each of them.
macro_rules! on_each_device {
    ($c:expr, $($run:ident),*) => {
        for device in devices::opened() {
            match &device.opened {
                foil::tensor::Opened::Cpu(b) => { $($run($c, &device, b);)* }
                foil::tensor::Opened::Gpu(b) => { $($run($c, &device, b);)* }
            }
        }
    };
}
pub(crate) use on_each_device;
