//! Which devices there are and which one `--device` means.

use std::{fmt, str::FromStr};

use super::candle::{Candle, Differentiable};
use super::composed::Composed;
use super::cuda;
use super::gpu::Gpu;
use super::wgpu::{self, Adapter, adapters};
use super::{Backend, Precision};

/// A device as the user names it: `auto`, `cpu`, `wgpu[:N|:software]`, `cuda[:N]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Device {
    #[default]
    Auto,
    Cpu,
    Wgpu(Adapter),
    Cuda(usize),
}

/// Why a device cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    #[error(
        "unknown device {0:?}; use auto, cpu, wgpu, wgpu:N, wgpu:software, cuda or cuda:N (see `foil devices`)"
    )]
    Unknown(String),
    #[error("device {device}: {why}")]
    Absent { device: String, why: String },
    #[error(
        "--precision f16 is for GPUs, and the device is the CPU ({why}), which computes and keeps everything in f32"
    )]
    HalfOnCpu { why: String },
    #[error(
        "device {0}: it computes no gradients, which guidance needs; use auto, cpu, cuda or cuda:N"
    )]
    NoGradients(Device),
}

/// One line of `foil devices`.
#[derive(Clone, Debug)]
pub struct DeviceInfo {
    pub device: Device,
    pub available: bool,
    pub description: String,
}

/// A device that is ready to compute.
pub enum Opened {
    Cpu(super::cpu::Cpu),
    Gpu(Gpu),
}

/// A device that computes gradients.
#[derive(Clone, Debug)]
pub enum WithGradients {
    /// The CPU, by the engine's kernels.
    Engine(Candle),
    /// Another device of candle.
    Composed(Composed),
}

/// All kinds of devices, with what is known of each.
pub fn devices() -> Vec<DeviceInfo> {
    let mut all = vec![DeviceInfo {
        device: Device::Cpu,
        available: true,
        description: super::cpu::describe(),
    }];
    let found = adapters();
    all.extend(found.iter().enumerate().map(|(i, adapter)| DeviceInfo {
        device: Device::Wgpu(Adapter::Number(i)),
        available: true,
        description: adapter.name.clone(),
    }));
    if found.is_empty() {
        all.push(DeviceInfo {
            device: Device::Wgpu(Adapter::First),
            available: false,
            description: "no Vulkan, Metal or DirectX 12 adapter".into(),
        });
    }
    match cuda::found() {
        Ok(found) => all.extend(found.iter().enumerate().map(|(i, gpu)| DeviceInfo {
            device: Device::Cuda(i),
            available: true,
            description: gpu.describe(),
        })),
        Err(why) => all.push(DeviceInfo {
            device: Device::Cuda(0),
            available: false,
            description: why.to_string(),
        }),
    }
    all
}

/// The device that `auto` means, open, and why: CUDA, then a hardware adapter of wgpu, then the CPU.
fn automatic(precision: Precision) -> (Device, Opened, String) {
    let mut but = String::new();
    match cuda::found().as_deref() {
        Ok([gpu, ..]) => match cuda::open(0, precision) {
            Ok(opened) => {
                let why = format!("an NVIDIA GPU: {}", gpu.describe());
                return (Device::Cuda(0), Opened::Gpu(opened), why);
            }
            Err(error) => but = format!("; {error}"),
        },
        Err(cuda::NoGpus::Told(why)) => but = format!("; {why}"),
        _ => {}
    }
    let looked = wgpu::may_have_a_gpu();
    let found = match looked {
        true => adapters(),
        false => Vec::new(),
    };
    if let Some(i) = found.iter().position(|a| !a.software) {
        match wgpu::open(Adapter::Number(i), None, precision) {
            Ok(opened) => {
                let why = format!("the first GPU: {}{but}", found[i].name);
                let device = Device::Wgpu(Adapter::Number(i));
                return (device, Opened::Gpu(opened), why);
            }
            Err(error) => but += &format!("; {error}"),
        }
    }
    let why = match found.first() {
        Some(software) if software.software => format!("no GPU, only {}", software.name),
        Some(_) => "no GPU that can be used".into(),
        None if looked => "no GPU found".into(),
        None => {
            "no GPU found: no device node of one in /dev; --device wgpu looks at all drivers".into()
        }
    };
    (Device::Cpu, Opened::Cpu(super::cpu::Cpu), why + &but)
}

impl Device {
    /// Opens the device; says which one it is, and why.
    pub fn open(self, precision: Precision) -> Result<(Device, Opened, String), DeviceError> {
        let asked = |opened| (self, opened, "asked for".to_owned());
        let opened = match self {
            Device::Auto => automatic(precision),
            Device::Cpu => asked(Opened::Cpu(super::cpu::Cpu)),
            Device::Wgpu(adapter) => {
                let gpu = wgpu::open(adapter, None, precision)?;
                let (device, opened, why) = asked(Opened::Gpu(gpu));
                match (adapter, adapters().first()) {
                    (Adapter::First, Some(found)) if found.software => {
                        let why = format!(
                            "{why}; no GPU, only {}: --device cpu is many times faster",
                            found.name
                        );
                        (device, opened, why)
                    }
                    _ => (device, opened, why),
                }
            }
            Device::Cuda(number) => {
                let gpu = cuda::open(number, precision)?;
                asked(Opened::Gpu(gpu))
            }
        };
        match (precision, opened) {
            (Precision::F16, (_, Opened::Cpu(_), why)) => Err(DeviceError::HalfOnCpu { why }),
            (_, opened) => Ok(opened),
        }
    }

    /// Opens the device for work that needs gradients: the CPU or, with the feature `cuda`, an NVIDIA GPU. `auto` takes
    /// the GPU where there is one. Says why it is this one.
    pub fn with_gradients(self) -> Result<(WithGradients, String), DeviceError> {
        let asked = |opened| Ok((opened, "asked for".to_owned()));
        match self {
            Device::Cpu => asked(WithGradients::Engine(Candle)),
            Device::Cuda(number) => asked(WithGradients::Composed(Composed::on_cuda(number)?)),
            Device::Auto => Ok(match Composed::on_cuda(0) {
                Ok(gpu) => (WithGradients::Composed(gpu), "an NVIDIA GPU".into()),
                Err(_) if !cfg!(feature = "cuda") => {
                    let why = "gradients on GPUs need a program built with --features cuda";
                    (WithGradients::Engine(Candle), why.into())
                }
                Err(error) => (WithGradients::Engine(Candle), error.to_string()),
            }),
            Device::Wgpu(_) => Err(DeviceError::NoGradients(self)),
        }
    }
}

impl WithGradients {
    /// How it multiplies; see [`super::Backend::arithmetic`].
    pub fn arithmetic(&self) -> &'static str {
        match self {
            WithGradients::Engine(b) => b.arithmetic(),
            WithGradients::Composed(b) => b.arithmetic(),
        }
    }

    /// The same device for work without gradients.
    pub fn device(&self) -> Device {
        match self {
            WithGradients::Engine(_) => Device::Cpu,
            WithGradients::Composed(composed) => match composed.device().location() {
                candle_core::DeviceLocation::Cuda { gpu_id } => Device::Cuda(gpu_id),
                _ => Device::Cpu,
            },
        }
    }
}

impl FromStr for Device {
    type Err = DeviceError;

    fn from_str(text: &str) -> Result<Self, DeviceError> {
        let unknown = || DeviceError::Unknown(text.into());
        let (kind, which) = match text.split_once(':') {
            Some((kind, which)) => (kind, Some(which)),
            None => (text, None),
        };
        let number = |which: &str| which.parse::<usize>().map_err(|_| unknown());
        Ok(match (kind, which) {
            ("auto", None) => Device::Auto,
            ("cpu", None) => Device::Cpu,
            ("wgpu", None) => Device::Wgpu(Adapter::First),
            ("wgpu", Some("software")) => Device::Wgpu(Adapter::Software),
            ("wgpu", Some(which)) => Device::Wgpu(Adapter::Number(number(which)?)),
            ("cuda", which) => Device::Cuda(which.map(number).transpose()?.unwrap_or(0)),
            _ => return Err(unknown()),
        })
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Device::Auto => write!(f, "auto"),
            Device::Cpu => write!(f, "cpu"),
            Device::Wgpu(adapter) => write!(f, "{adapter}"),
            Device::Cuda(i) => write!(f, "cuda:{i}"),
        }
    }
}
