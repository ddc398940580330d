//! Kernels compiled for a GPU: each file once, by NVRTC, when it is first used.

use std::collections::HashMap;
use std::ffi::{CString, c_int, c_void};
use std::sync::{Mutex, PoisonError};

use cudarc::driver::result::module;
use cudarc::driver::sys::{CUfunction, CUmodule};
use cudarc::nvrtc::{CompileError, CompileOptions, compile_ptx_with_opts, sys};

use super::devices::said;
use crate::tensor::gpu::kernels::Kernel;
use crate::tensor::{Precision, TensorError};

/// What to do about a missing compiler.
const NO_COMPILER: &str = "NVRTC, which compiles the kernels, is not there (libnvrtc); it comes with the CUDA toolkit, or with `pip install nvidia-cuda-nvrtc-cu12`, whose folder nvidia/cuda_nvrtc/lib then belongs into LD_LIBRARY_PATH";

/// The compiled files of one GPU.
pub struct Programs {
    /// `compute_80`, …
    architecture: String,
    precision: Precision,
    loaded: Mutex<HashMap<&'static str, Program>>,
}

#[derive(Clone, Copy)]
struct Program(CUmodule);

// SAFETY: a module is a handle that any thread may use once it has entered the context.
unsafe impl Send for Program {}

impl Programs {
    /// For a GPU of this compute capability; an error says what is missing.
    pub fn new(capability: u32, precision: Precision) -> Result<Self, String> {
        if !compiler_is_there() {
            return Err(NO_COMPILER.into());
        }
        // A GPU that is newer than the compiler runs what was compiled for the newest it knows.
        let known = known_architectures();
        let best = known.iter().copied().filter(|&a| a <= capability).max();
        match best {
            Some(best) => Ok(Self {
                architecture: format!("compute_{best}"),
                precision,
                loaded: Mutex::default(),
            }),
            None => Err(format!(
                "NVRTC compiles for {known:?}, not for compute capability {capability}"
            )),
        }
    }

    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// A kernel, in the current context.
    pub fn get(&self, kernel: &'static Kernel) -> Result<CUfunction, TensorError> {
        let failed = |what: String| {
            TensorError::Device(format!(
                "the kernel {} {} cannot be used on this GPU ({what}); use --device cpu",
                kernel.name, kernel.entry
            ))
        };
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let program = match loaded.get(kernel.name) {
            Some(&program) => program,
            None => {
                let program = self.load(kernel).map_err(failed)?;
                loaded.insert(kernel.name, program);
                program
            }
        };
        let entry = CString::new(kernel.entry).map_err(|e| failed(e.to_string()))?;
        // SAFETY: modules are unloaded with the context only.
        unsafe { module::get_function(program.0, entry) }.map_err(|e| failed(said(e)))
    }

    fn load(&self, kernel: &Kernel) -> Result<Program, String> {
        let architecture = format!("--gpu-architecture={}", self.architecture);
        let options = CompileOptions {
            name: Some(format!("{}.cu", kernel.name)),
            options: match self.precision {
                Precision::F32 => vec![architecture, "--std=c++17".into()],
                Precision::F16 => vec![architecture, "--std=c++17".into(), "-DFOIL_F16".into()],
            },
            ..Default::default()
        };
        let ptx = compile_ptx_with_opts(kernel.cuda(), options).map_err(|error| match error {
            CompileError::CompileError { log, .. } => {
                format!("NVRTC says: {}", log.to_string_lossy().trim())
            }
            other => other.to_string(),
        })?;
        // It ends with a zero, as C strings do.
        let text = ptx.as_bytes().ok_or("NVRTC gave nothing")?;
        // SAFETY: NVRTC made this text.
        let module = unsafe { module::load_data(text.as_ptr().cast::<c_void>()) };
        module
            .map(Program)
            .map_err(|e| format!("the driver refuses what NVRTC made: {}", said(e)))
    }
}

/// What the compiler makes code for.
fn known_architectures() -> Vec<u32> {
    let mut count: c_int = 0;
    let mut known = Vec::new();
    // SAFETY: the second call fills as many numbers as the first one counts.
    unsafe {
        if sys::nvrtcGetNumSupportedArchs(&mut count).result().is_ok() {
            known = vec![0 as c_int; count.max(0) as usize];
            if sys::nvrtcGetSupportedArchs(known.as_mut_ptr())
                .result()
                .is_err()
            {
                known.clear();
            }
        }
    }
    known.into_iter().map(|a| a as u32).collect()
}

#[cfg(feature = "cuda")]
fn compiler_is_there() -> bool {
    true
}

#[cfg(not(feature = "cuda"))]
fn compiler_is_there() -> bool {
    // SAFETY: loading the compiler runs its initialisation only.
    unsafe { sys::is_culib_present() }
}
