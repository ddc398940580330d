//! Which adapters there are, and which one a name means.

use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use wgpu::{Backends, DeviceType, Instance, InstanceDescriptor, InstanceFlags};

use super::faults::Faults;
use crate::DeviceError;

/// An adapter as the user names it: `wgpu`, `wgpu:software`, `wgpu:N`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adapter {
    /// The first of all: a software one only where there is no other.
    First,
    /// The first that is software.
    Software,
    /// By its number in [`adapters`].
    Number(usize),
}

impl fmt::Display for Adapter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Adapter::First => write!(f, "wgpu"),
            Adapter::Software => write!(f, "wgpu:software"),
            Adapter::Number(i) => write!(f, "wgpu:{i}"),
        }
    }
}

/// An adapter of this machine.
#[derive(Clone, Debug)]
pub struct Found {
    pub name: String,
    /// Computes on the CPU.
    pub software: bool,
}

/// All adapters: discrete cards first, software last.
pub fn adapters() -> Vec<Found> {
    let faults = Faults::told().unwrap_or_default();
    faults.adapters(listed()).iter().map(found).collect()
}

/// Names of device nodes that drivers of GPUs make on Linux begin with these: DRM (most of them), WSL, NVIDIA (the last three
/// on its boards), and those of phones and small boards.
#[cfg(target_os = "linux")]
const NODES: [&str; 10] = [
    "dri", "dxg", "nvidia", "mali", "kgsl", "pvr", "galcore", "nvhost", "nvmap", "nvgpu",
];

/// Whether there may be an adapter that is no software. On Linux a GPU has a device node, so that where there is none no
/// driver has to be loaded to know (a software one alone takes 50 MB).
#[cfg(target_os = "linux")]
pub fn may_have_a_gpu() -> bool {
    let asked_for = Faults::told().map_or(true, |faults| faults.adapters.is_some());
    asked_for || has_a_node(std::path::Path::new("/dev"))
}

#[cfg(not(target_os = "linux"))]
pub fn may_have_a_gpu() -> bool {
    true
}

/// A folder that cannot be read may hold anything.
#[cfg(target_os = "linux")]
fn has_a_node(folder: &std::path::Path) -> bool {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return true;
    };
    entries.flatten().any(|entry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        NODES.iter().any(|node| name.starts_with(node))
    })
}

fn found(adapter: &wgpu::Adapter) -> Found {
    let info = adapter.get_info();
    let driver = match info.driver_info.as_str() {
        "" => info.driver.clone(),
        more => format!("{} {more}", info.driver),
    };
    let kind = match info.device_type {
        DeviceType::Cpu => ", software",
        _ => "",
    };
    Found {
        name: format!("{} ({}, {driver}{kind})", info.name, info.backend),
        software: info.device_type == DeviceType::Cpu,
    }
}

fn listed() -> Vec<wgpu::Adapter> {
    let instance = Instance::new(InstanceDescriptor {
        backends: Backends::VULKAN | Backends::METAL | Backends::DX12,
        // Validation layers are for those who write kernels: they can be turned on from outside.
        flags: InstanceFlags::empty(),
        ..InstanceDescriptor::new_without_display_handle()
    });
    let mut all = ready(instance.enumerate_adapters(Backends::all())).unwrap_or_default();
    all.sort_by_key(|adapter| match adapter.get_info().device_type {
        DeviceType::DiscreteGpu => 0,
        DeviceType::IntegratedGpu => 1,
        DeviceType::VirtualGpu => 2,
        DeviceType::Other => 3,
        DeviceType::Cpu => 4,
    });
    all
}

/// The adapter that is meant, and its name.
pub fn choose(which: Adapter) -> Result<(wgpu::Adapter, Found), DeviceError> {
    let all: Vec<(wgpu::Adapter, Found)> = Faults::told()?
        .adapters(listed())
        .into_iter()
        .map(|a| (found(&a), a))
        .map(|(f, a)| (a, f))
        .collect();
    let names: Vec<String> = all.iter().map(|(_, f)| f.name.clone()).collect();
    let position = match which {
        Adapter::First => (!all.is_empty()).then_some(0),
        Adapter::Software => all.iter().position(|(_, f)| f.software),
        Adapter::Number(i) => (i < all.len()).then_some(i),
    };
    match position {
        Some(i) => Ok(all.into_iter().nth(i).expect("a position in the list")),
        None => Err(absent(which, &names)),
    }
}

/// Why there is no such adapter, and what to do.
fn absent(which: Adapter, names: &[String]) -> DeviceError {
    let found = match names {
        [] => "this machine has no Vulkan, Metal or DirectX 12 adapter (is the driver installed?)"
            .into(),
        _ => {
            let list = names.iter().enumerate();
            let list: Vec<String> = list.map(|(i, n)| format!("wgpu:{i} {n}")).collect();
            format!("there are {}", list.join(", "))
        }
    };
    DeviceError::Absent {
        device: which.to_string(),
        why: format!("{found}; use --device cpu"),
    }
}

/// The result of a future that has nothing to wait for, as those of native wgpu have.
pub fn ready<T>(future: impl Future<Output = T>) -> Option<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::has_a_node;

    #[test]
    fn a_gpu_shows_by_its_device_node() {
        let folder = std::env::temp_dir().join(format!("foil-nodes-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("null"), "").unwrap();
        assert!(!has_a_node(&folder));
        std::fs::write(folder.join("nvidia0"), "").unwrap();
        assert!(has_a_node(&folder));
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(has_a_node(&folder), "what cannot be read may hold a GPU");
    }
}
