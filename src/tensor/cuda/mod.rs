//! NVIDIA GPUs: the CUDA files of `kernels/`, compiled by NVRTC when they are first used.
//!
//! Driver (`libcuda`) and compiler (`libnvrtc`) are loaded when the device is asked for, so that one program starts on
//! machines with and without them; what is missing is said, and never a panic.

mod devices;
mod driver;
mod libraries;
mod programs;

pub use devices::{Found, NoGpus, found};
pub use driver::CudaDriver;

use std::sync::Arc;

use super::Precision;
use super::gpu::Gpu;

/// Opens the GPU of a number in [`found`].
pub fn open(number: usize, precision: Precision) -> Result<Gpu, super::DeviceError> {
    let driver = CudaDriver::open(number, precision)?;
    Ok(Gpu::new(Arc::new(driver)))
}
