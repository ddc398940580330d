//! Which NVIDIA GPUs there are.

use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys::{self, CUdevice, CUdevice_attribute_enum as Attribute};

/// A GPU of this machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    pub name: String,
    /// Compute capability, 80 for 8.0.
    pub architecture: u32,
    pub bytes: usize,
    pub(super) raw: CUdevice,
}

impl Found {
    /// Name, architecture and memory.
    pub fn describe(&self) -> String {
        let gigabytes = self.bytes as f64 / f64::from(1 << 30);
        format!(
            "{} (CUDA, sm_{}, {gigabytes:.0} GiB)",
            self.name, self.architecture
        )
    }
}

/// All GPUs in the driver's order, or why there are none.
pub fn found() -> Result<Vec<Found>, String> {
    if !driver_is_there() {
        return Err("no NVIDIA driver (libcuda) on this machine".into());
    }
    let refused = |error: DriverError| format!("the NVIDIA driver says: {}", said(error));
    result::init().map_err(refused)?;
    let count = result::device::get_count().map_err(refused)?;
    (0..count)
        .map(|number| of_number(number).map_err(refused))
        .collect()
}

fn of_number(number: i32) -> Result<Found, DriverError> {
    let raw = result::device::get(number)?;
    // SAFETY: the driver just gave this device.
    let (bytes, major, minor) = unsafe {
        (
            result::device::total_mem(raw)?,
            result::device::get_attribute(
                raw,
                Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
            )?,
            result::device::get_attribute(
                raw,
                Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
            )?,
        )
    };
    Ok(Found {
        name: result::device::get_name(raw)?,
        architecture: (10 * major + minor) as u32,
        bytes,
        raw,
    })
}

/// What the driver calls an error.
pub(super) fn said(error: DriverError) -> String {
    let text = |found: Result<&std::ffi::CStr, DriverError>| match found {
        Ok(text) => text.to_string_lossy().into_owned(),
        Err(_) => format!("error {}", error.0 as u32),
    };
    format!(
        "{} ({})",
        text(error.error_string()),
        text(error.error_name())
    )
}

/// The program that is linked with CUDA would not have started without.
#[cfg(feature = "cuda")]
pub fn driver_is_there() -> bool {
    let _ = sys::cuInit;
    true
}

#[cfg(not(feature = "cuda"))]
pub fn driver_is_there() -> bool {
    // SAFETY: loading the driver runs its initialisation only.
    unsafe { sys::is_culib_present() }
}
