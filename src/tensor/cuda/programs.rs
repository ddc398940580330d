//! Kernels compiled for a GPU: each file once, by NVRTC, when it is first used.
//!
//! NVRTC makes machine code (a cubin) where it knows an architecture whose code the GPU runs: its own, or an older one of the
//! same generation. Else, or if the driver refuses that, the driver compiles the PTX.

use std::collections::HashMap;
use std::ffi::{CString, c_int, c_void};
use std::sync::{Mutex, PoisonError};

use cudarc::driver::result::module;
use cudarc::driver::sys::{CUfunction, CUmodule};
use cudarc::nvrtc::{result, sys};

use super::devices::said;
use super::libraries::{self, Lack};
use crate::gpu::kernels::Kernel;
use crate::{Precision, TensorError};

/// What to do about a missing compiler.
const NO_COMPILER: &str = "NVRTC, which compiles the kernels, is not there (libnvrtc); it comes with the CUDA toolkit, or with `pip install nvidia-cuda-nvrtc-cu12`, whose folder nvidia/cuda_nvrtc/lib then belongs into LD_LIBRARY_PATH";

/// The compiled files of one GPU.
pub struct Programs {
    /// `sm_80` or `compute_80`, …
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
        libraries::compiler().map_err(|lack| match lack {
            Lack::Absent => NO_COMPILER.to_owned(),
            Lack::Broken(why) => format!("NVRTC (libnvrtc) cannot be used: {why}"),
        })?;
        // A GPU that is newer than the compiler runs what was compiled for the newest it knows.
        let known = known_architectures();
        let best = known.iter().copied().filter(|&a| a <= capability).max();
        match best {
            Some(best) => Ok(Self {
                // Code of one generation runs on its later GPUs; PTX on all that come after.
                architecture: match best / 10 == capability / 10 {
                    true => format!("sm_{best}"),
                    false => format!("compute_{best}"),
                },
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
        let options = match self.precision {
            Precision::F32 => vec![architecture, "--std=c++17".into()],
            Precision::F16 => vec![architecture, "--std=c++17".into(), "-DFOIL_F16".into()],
        };
        let program = Source::compile(kernel, &options)?;
        // SAFETY: NVRTC made both; PTX ends with a zero, as C strings do.
        let module = |image: &[u8]| unsafe { module::load_data(image.as_ptr().cast::<c_void>()) };
        if let Some(code) = program.machine_code()
            && let Ok(loaded) = module(&code)
        {
            return Ok(Program(loaded));
        }
        let loaded = module(&program.ptx()?);
        loaded
            .map(Program)
            .map_err(|e| format!("the driver refuses what NVRTC made: {}", said(e)))
    }
}

/// A file that NVRTC compiled.
struct Source {
    raw: sys::nvrtcProgram,
    /// NVRTC may look at them again.
    _text: [CString; 2],
}

impl Source {
    fn compile(kernel: &Kernel, options: &[String]) -> Result<Self, String> {
        let text = |text: String| CString::new(text).map_err(|e| e.to_string());
        let (source, name) = (text(kernel.cuda())?, text(format!("{}.cu", kernel.name))?);
        let made = Self {
            raw: result::create_program(&source, Some(&name)).map_err(refused)?,
            _text: [source, name],
        };
        // SAFETY: made just now.
        let compiled = unsafe { result::compile_program(made.raw, options) };
        compiled.map_err(|error| {
            // SAFETY: compiled just now.
            let log = unsafe { result::get_program_log(made.raw) }.unwrap_or_default();
            let log: Vec<u8> = log
                .iter()
                .map(|&c| c as u8)
                .take_while(|&c| c != 0)
                .collect();
            match String::from_utf8_lossy(&log).trim() {
                "" => refused(error),
                log => format!("NVRTC says: {log}"),
            }
        })?;
        Ok(made)
    }

    /// A cubin, if it was compiled for a real architecture.
    fn machine_code(&self) -> Option<Vec<u8>> {
        let mut size = 0;
        // SAFETY: compiled; the second call fills as many bytes as the first one counts.
        unsafe {
            sys::nvrtcGetCUBINSize(self.raw, &mut size).result().ok()?;
            let mut code = vec![0u8; size];
            let filled = sys::nvrtcGetCUBIN(self.raw, code.as_mut_ptr().cast());
            filled.result().ok()?;
            (size > 0).then_some(code)
        }
    }

    fn ptx(&self) -> Result<Vec<u8>, String> {
        // SAFETY: compiled.
        let text = unsafe { result::get_ptx(self.raw) }.map_err(refused)?;
        Ok(text.iter().map(|&c| c as u8).collect())
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        // SAFETY: made once, in `compile`. There is nobody to tell of an error.
        let _ = unsafe { result::destroy_program(self.raw) };
    }
}

fn refused(error: result::NvrtcError) -> String {
    format!("NVRTC refuses: {error}")
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
