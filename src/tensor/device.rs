//! Which devices there are and which one `--device` means.

use std::{fmt, str::FromStr};

/// A device as the user names it: `auto`, `cpu`, `wgpu[:i]`, `cuda[:i]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Device {
    #[default]
    Auto,
    Cpu,
    Wgpu(usize),
    Cuda(usize),
}

/// Why a device cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    #[error("unknown device {0:?}; use auto, cpu, wgpu, wgpu:N, cuda or cuda:N")]
    Unknown(String),
    #[error("device {0} is not part of this build; use --device cpu")]
    NotBuilt(Device),
}

/// One line of `foil devices`.
#[derive(Clone, Debug)]
pub struct DeviceInfo {
    pub device: Device,
    pub available: bool,
    pub description: String,
}

/// All kinds of devices, with what is known of each.
pub fn devices() -> Vec<DeviceInfo> {
    let absent = "not part of this build";
    vec![
        DeviceInfo {
            device: Device::Cpu,
            available: true,
            description: super::cpu::describe(),
        },
        DeviceInfo {
            device: Device::Wgpu(0),
            available: false,
            description: absent.into(),
        },
        DeviceInfo {
            device: Device::Cuda(0),
            available: false,
            description: absent.into(),
        },
    ]
}

impl Device {
    /// The device to run on, and why it was chosen.
    pub fn resolve(self) -> Result<(Device, String), DeviceError> {
        match self {
            Device::Auto => Ok((
                Device::Cpu,
                "the only device of this build is the CPU".into(),
            )),
            Device::Cpu => Ok((Device::Cpu, "asked for".into())),
            other => Err(DeviceError::NotBuilt(other)),
        }
    }
}

impl FromStr for Device {
    type Err = DeviceError;

    fn from_str(text: &str) -> Result<Self, DeviceError> {
        let (kind, index) = match text.split_once(':') {
            Some((kind, index)) => (
                kind,
                Some(
                    index
                        .parse()
                        .map_err(|_| DeviceError::Unknown(text.into()))?,
                ),
            ),
            None => (text, None),
        };
        match (kind, index) {
            ("auto", None) => Ok(Device::Auto),
            ("cpu", None) => Ok(Device::Cpu),
            ("wgpu", i) => Ok(Device::Wgpu(i.unwrap_or(0))),
            ("cuda", i) => Ok(Device::Cuda(i.unwrap_or(0))),
            _ => Err(DeviceError::Unknown(text.into())),
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Device::Auto => write!(f, "auto"),
            Device::Cpu => write!(f, "cpu"),
            Device::Wgpu(i) => write!(f, "wgpu:{i}"),
            Device::Cuda(i) => write!(f, "cuda:{i}"),
        }
    }
}
