//! Which NVIDIA GPUs there are.

use std::fmt;

use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys::{CUdevice, CUdevice_attribute_enum as Attribute};

use super::libraries::{self, Lack};

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

/// Why there are no GPUs.
#[derive(Clone, Debug, PartialEq)]
pub enum NoGpus {
    /// Nobody installed a driver.
    NoDriver,
    /// Somebody did, and would wonder.
    Told(String),
}

impl fmt::Display for NoGpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoGpus::NoDriver => f.write_str("no NVIDIA driver (libcuda) on this machine"),
            NoGpus::Told(why) => f.write_str(why),
        }
    }
}

/// All GPUs in the driver's order, or why there are none.
pub fn found() -> Result<Vec<Found>, NoGpus> {
    libraries::driver().map_err(|lack| match lack {
        Lack::Absent => NoGpus::NoDriver,
        Lack::Broken(why) => {
            NoGpus::Told(format!("the NVIDIA driver (libcuda) cannot be used: {why}"))
        }
    })?;
    let refused =
        |error: DriverError| NoGpus::Told(format!("the NVIDIA driver says: {}", said(error)));
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
