//! Which devices there are and which one `--device` means.

use std::{fmt, str::FromStr};

use super::wgpu::{Adapter, Wgpu, adapters};

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
    #[error("device {0} is not part of this build; use --device cpu")]
    NotBuilt(Device),
    #[error("device {device}: {why}")]
    Absent { device: String, why: String },
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
    Wgpu(Box<Wgpu>),
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
            device: Device::Wgpu(Adapter::Hardware),
            available: false,
            description: "no Vulkan, Metal or DirectX 12 adapter".into(),
        });
    }
    all.push(DeviceInfo {
        device: Device::Cuda(0),
        available: false,
        description: "not part of this build".into(),
    });
    all
}

impl Device {
    /// The device to run on, and why it was chosen.
    pub fn resolve(self) -> Result<(Device, String), DeviceError> {
        let asked_for = |device| Ok((device, "asked for".into()));
        match self {
            Device::Auto => {
                let found = adapters();
                let hardware = found.iter().position(|a| !a.software);
                Ok(match (hardware, found.first()) {
                    (Some(i), _) => {
                        let why = format!("the first GPU: {}", found[i].name);
                        (Device::Wgpu(Adapter::Number(i)), why)
                    }
                    (None, Some(software)) => {
                        let why = format!("no GPU, only {}", software.name);
                        (Device::Cpu, why)
                    }
                    (None, None) => (Device::Cpu, "no GPU found".into()),
                })
            }
            Device::Cpu | Device::Wgpu(_) => asked_for(self),
            other => Err(DeviceError::NotBuilt(other)),
        }
    }

    /// Opens the device, [`Device::resolve`]d first.
    pub fn open(self) -> Result<Opened, DeviceError> {
        match self.resolve()?.0 {
            Device::Wgpu(adapter) => Ok(Opened::Wgpu(Box::new(Wgpu::open(adapter, None)?))),
            Device::Cpu | Device::Auto => Ok(Opened::Cpu(super::cpu::Cpu)),
            other => Err(DeviceError::NotBuilt(other)),
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
            ("wgpu", None) => Device::Wgpu(Adapter::Hardware),
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
