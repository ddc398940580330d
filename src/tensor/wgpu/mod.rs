//! GPUs over wgpu: Vulkan, Metal or DirectX 12, and Vulkan drivers that compute in software.
//!
//! A software adapter is never taken by `auto`: the CPU engine is many times faster. It is there to prove the kernels on
//! machines without a GPU (`wgpu:software`, its number in `foil devices`, or `wgpu` where there is nothing else).

mod adapters;
mod driver;
mod errors;
mod faults;
mod memory;
mod pipelines;
mod recorder;

pub use adapters::{Adapter, Found, adapters, may_have_a_gpu};
pub use driver::WgpuDriver;

use std::sync::Arc;

use super::Precision;
use super::gpu::Gpu;

/// Opens an adapter. `binding` lowers the number of bytes that a kernel may see at once, to try out how a device with
/// smaller limits computes.
pub fn open(
    which: Adapter,
    binding: Option<usize>,
    precision: Precision,
) -> Result<Gpu, super::DeviceError> {
    let driver = WgpuDriver::open(which, binding, precision)?;
    Ok(Gpu::new(Arc::new(driver)))
}
