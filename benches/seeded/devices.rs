//! The devices to measure: those of `FOIL_BENCH_DEVICES` (names of `--device`, with commas between), else the CPU and the
//! GPU that `--device auto` takes, if there is one.

use foil::tensor::{Device, Opened, Precision};

/// A device by its name.
pub fn open(name: &str) -> (String, Opened) {
    foil::tensor::cpu::forced().unwrap_or_else(|wrong| panic!("{wrong}"));
    let device: Device = name.parse().unwrap_or_else(|e| panic!("{e}"));
    let opened = device.open(Precision::F32);
    let (device, opened, _) = opened.unwrap_or_else(|e| panic!("{e}"));
    (device.to_string(), opened)
}

/// Each device with its name.
pub fn opened() -> Vec<(String, Opened)> {
    let named = std::env::var("FOIL_BENCH_DEVICES");
    match named {
        Ok(names) => names.split(',').map(open).collect(),
        Err(_) => {
            let mut all = vec![open("cpu"), open("auto")];
            all.dedup_by(|a, b| a.0 == b.0);
            all
        }
    }
}

/// Runs a function of criterion, a name and a device on each of them.
macro_rules! on_each_device {
    ($c:expr, $($run:ident),*) => {
        for (name, device) in devices::opened() {
            match &device {
                foil::tensor::Opened::Cpu(b) => { $($run($c, &name, b);)* }
                foil::tensor::Opened::Gpu(b) => { $($run($c, &name, b);)* }
            }
        }
    };
}
pub(crate) use on_each_device;
