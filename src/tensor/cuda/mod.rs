//! NVIDIA GPUs: the CUDA files of `kernels/`, compiled by NVRTC when they are first used.
//!
//! Driver (`libcuda`) and compiler (`libnvrtc`) are loaded when the device is asked for, so that one program starts on
//! machines with and without them; what is missing is said, and never a panic.

mod devices;
mod driver;
mod programs;

pub use devices::{Found, found};
pub use driver::CudaDriver;

use super::Precision;
use super::gpu::Gpu;

/// An NVIDIA GPU.
pub type Cuda = Gpu<CudaDriver>;

impl Cuda {
    /// Opens the GPU of a number in [`found`].
    pub fn open(number: usize, precision: Precision) -> Result<Self, super::DeviceError> {
        Ok(Gpu::new(CudaDriver::open(number, precision)?))
    }
}
