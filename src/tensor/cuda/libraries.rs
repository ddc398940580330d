//! NVIDIA's driver and its compiler as libraries of the system: whether they are there, and whole.
//!
//! cudarc looks a function up when it is first called, and panics if the library has none of that name. All that foil calls
//! are therefore looked up before the first call.

#[cfg(not(feature = "cuda"))]
use cudarc::{driver, nvrtc};

/// Why a library cannot be used.
#[derive(Clone, Debug, PartialEq)]
pub enum Lack {
    /// The system has none.
    Absent,
    /// There is one, but something is wrong with it.
    Broken(String),
}

/// What foil calls of the driver.
#[cfg(not(feature = "cuda"))]
const DRIVER: [&str; 20] = [
    "cuInit",
    "cuDeviceGetCount",
    "cuDeviceGet",
    "cuDeviceGetName",
    "cuDeviceTotalMem_v2",
    "cuDeviceGetAttribute",
    "cuDevicePrimaryCtxRetain",
    "cuDevicePrimaryCtxRelease_v2",
    "cuCtxSetCurrent",
    "cuCtxSynchronize",
    "cuMemAlloc_v2",
    "cuMemFree_v2",
    "cuMemcpyHtoD_v2",
    "cuMemcpyDtoH_v2",
    "cuMemcpyDtoD_v2",
    "cuModuleLoadData",
    "cuModuleGetFunction",
    "cuLaunchKernel",
    "cuGetErrorName",
    "cuGetErrorString",
];

/// What foil calls of the compiler.
#[cfg(not(feature = "cuda"))]
const COMPILER: [&str; 11] = [
    "nvrtcGetNumSupportedArchs",
    "nvrtcGetSupportedArchs",
    "nvrtcCreateProgram",
    "nvrtcCompileProgram",
    "nvrtcGetProgramLogSize",
    "nvrtcGetProgramLog",
    "nvrtcGetPTXSize",
    "nvrtcGetPTX",
    "nvrtcGetCUBINSize",
    "nvrtcGetCUBIN",
    "nvrtcDestroyProgram",
];

/// Whether the driver can be used.
#[cfg(not(feature = "cuda"))]
pub fn driver() -> Result<(), Lack> {
    // SAFETY: loading the driver runs its initialisation only.
    if !unsafe { driver::sys::is_culib_present() } {
        return Err(unloaded(&["libcuda.so.1", "libcuda.so"]));
    }
    // SAFETY: it is there; the symbols are looked for, not called.
    whole(&DRIVER, |name| unsafe {
        driver::sys::culib().get::<*const ()>(name).is_ok()
    })
}

/// Whether the compiler can be used.
#[cfg(not(feature = "cuda"))]
pub fn compiler() -> Result<(), Lack> {
    // SAFETY: as the driver's.
    if !unsafe { nvrtc::sys::is_culib_present() } {
        return Err(Lack::Absent);
    }
    // SAFETY: as the driver's.
    whole(&COMPILER, |name| unsafe {
        nvrtc::sys::culib().get::<*const ()>(name).is_ok()
    })
}

#[cfg(not(feature = "cuda"))]
fn whole(functions: &[&str], has: impl Fn(&[u8]) -> bool) -> Result<(), Lack> {
    match functions.iter().find(|name| !has(name.as_bytes())) {
        None => Ok(()),
        Some(name) => Err(Lack::Broken(format!(
            "it has no function {name}: it is too old, or not NVIDIA's"
        ))),
    }
}

/// Why none of some files could be loaded: there is none, or what the system says of one that there is.
#[cfg(all(unix, not(feature = "cuda")))]
fn unloaded(files: &[&str]) -> Lack {
    let said = |file: &&str| {
        let name = std::ffi::CString::new(*file).ok()?;
        // SAFETY: the name ends with a zero; loading runs initialisation only; what is said is copied at once.
        unsafe {
            if !libc::dlopen(name.as_ptr(), libc::RTLD_LAZY).is_null() {
                return None;
            }
            let said = libc::dlerror();
            (!said.is_null()).then(|| {
                std::ffi::CStr::from_ptr(said)
                    .to_string_lossy()
                    .into_owned()
            })
        }
    };
    let absent = |said: &String| said.contains("No such file");
    match files.iter().filter_map(said).find(|said| !absent(said)) {
        Some(said) => Lack::Broken(format!("it cannot be loaded: {said}")),
        None => Lack::Absent,
    }
}

#[cfg(all(not(unix), not(feature = "cuda")))]
fn unloaded(_: &[&str]) -> Lack {
    Lack::Absent
}

/// The program that is linked with CUDA would not have started without.
#[cfg(feature = "cuda")]
pub fn driver() -> Result<(), Lack> {
    Ok(())
}

#[cfg(feature = "cuda")]
pub fn compiler() -> Result<(), Lack> {
    Ok(())
}
