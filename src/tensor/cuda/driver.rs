//! Memory and launches over CUDA's driver, all in its default stream: everything happens in the order of the calls.

use std::ffi::c_void;
use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys::{CUcontext, CUdevice, CUdeviceptr};

use super::devices::{Found, found, said};
use super::programs::Programs;
use crate::gpu::driver::{Driver, Launch, Limits};
use crate::gpu::memory::{Buffer, Memory, Pool};
use crate::{DeviceError, Precision, TensorError};

/// Threads of a block of every kernel.
const THREADS: u32 = 256;

/// An open GPU.
pub struct CudaDriver {
    name: String,
    programs: Programs,
    pool: Arc<Pool<Context>>,
    context: Context,
}

/// The context that all of the program shares on one GPU.
#[derive(Clone)]
pub struct Context(Arc<Primary>);

struct Primary {
    device: CUdevice,
    raw: CUcontext,
}

// SAFETY: a context is a handle that any thread may enter.
unsafe impl Send for Primary {}
unsafe impl Sync for Primary {}

impl Drop for Primary {
    fn drop(&mut self) {
        // SAFETY: retained once, in `Context::open`; nothing of it is in use any more. There is nobody to tell of an error.
        let _ = unsafe { result::primary_ctx::release(self.device) };
    }
}

impl Context {
    fn open(device: CUdevice) -> Result<Self, DriverError> {
        // SAFETY: the driver gave this device.
        let raw = unsafe { result::primary_ctx::retain(device)? };
        Ok(Self(Arc::new(Primary { device, raw })))
    }

    /// The calls of this thread that follow are meant for this GPU.
    fn enter(&self) -> Result<(), DriverError> {
        // SAFETY: the context lives as long as `self`.
        unsafe { result::ctx::set_current(self.0.raw) }
    }
}

/// Memory on the GPU.
pub struct Piece {
    at: CUdeviceptr,
    bytes: u64,
    context: Context,
}

impl Drop for Piece {
    fn drop(&mut self) {
        if self.context.enter().is_ok() {
            // SAFETY: allocated in `create`, and freed here only. A GPU that failed has lost its memory anyway.
            let _ = unsafe { result::free_sync(self.at) };
        }
    }
}

impl Memory for Context {
    type Raw = Piece;

    fn create(&self, bytes: u64) -> Option<Piece> {
        self.enter().ok()?;
        // SAFETY: kernels write before they read.
        let at = unsafe { result::malloc_sync(bytes as usize) }.ok()?;
        Some(Piece {
            at,
            bytes,
            context: self.clone(),
        })
    }

    fn bytes(raw: &Piece) -> u64 {
        raw.bytes
    }
}

impl CudaDriver {
    pub fn open(number: usize, precision: Precision) -> Result<Self, DeviceError> {
        let refuse = |why: String| DeviceError::Absent {
            device: format!("cuda:{number}"),
            why: format!("{why}; use --device cpu"),
        };
        let all = found().map_err(|why| refuse(why.to_string()))?;
        let Some(gpu) = all.get(number) else {
            let list: Vec<String> = all.iter().map(Found::describe).collect();
            return Err(refuse(match list.as_slice() {
                [] => "the driver finds no GPU".into(),
                _ => format!("there are {}", list.join(", ")),
            }));
        };
        let programs = Programs::new(gpu.architecture, precision).map_err(refuse)?;
        let context = Context::open(gpu.raw).map_err(|e| refuse(said(e)))?;
        Ok(Self {
            name: format!("cuda ({})", gpu.describe()),
            programs,
            pool: Pool::new(context.clone()),
            context,
        })
    }

    /// What the driver says; after a failed launch it says the same to every call.
    fn failed(&self, error: DriverError) -> TensorError {
        TensorError::Device(format!(
            "{} failed: {}; run again (with --resume, where a command has it, to keep what is done) or use --device cpu",
            self.name,
            said(error)
        ))
    }

    fn enter(&self) -> Result<(), TensorError> {
        self.context.enter().map_err(|e| self.failed(e))
    }
}

impl Driver for CudaDriver {
    type Buffer = Buffer<Context>;

    fn describe(&self) -> String {
        self.name.clone()
    }

    fn precision(&self) -> Precision {
        self.programs.precision()
    }

    fn limits(&self) -> Limits {
        Limits {
            binding: 1 << 31,
            alignment: 256,
            // Along y and z; x could have more.
            groups: 65535,
        }
    }

    fn allocate(&self, bytes: usize) -> Result<Buffer<Context>, TensorError> {
        self.enter()?;
        if let Some(buffer) = self.pool.take(bytes) {
            return Ok(buffer);
        }
        // What is kept may be enough.
        self.pool.clear();
        self.wait()?;
        self.pool
            .take(bytes)
            .ok_or_else(|| TensorError::OutOfMemory {
                device: self.name.clone(),
                bytes,
            })
    }

    fn upload(&self, bytes: &[u8]) -> Result<Buffer<Context>, TensorError> {
        let buffer = self.allocate(bytes.len())?;
        // SAFETY: the buffer has that many bytes; launches that still read what it held before come first.
        unsafe { result::memcpy_htod_sync(buffer.raw().at, bytes) }.map_err(|e| self.failed(e))?;
        Ok(buffer)
    }

    fn download(
        &self,
        buffer: &Buffer<Context>,
        bytes: Range<usize>,
    ) -> Result<Vec<u8>, TensorError> {
        self.enter()?;
        let mut found = vec![0; bytes.len()];
        let from = part(buffer, &bytes);
        // SAFETY: the buffer has these bytes.
        unsafe { result::memcpy_dtoh_sync(&mut found, from) }.map_err(|e| self.failed(e))?;
        Ok(found)
    }

    fn copy(
        &self,
        (from, from_at): (&Buffer<Context>, usize),
        (to, to_at): (&Buffer<Context>, usize),
        bytes: usize,
    ) -> Result<(), TensorError> {
        self.enter()?;
        let from = part(from, &(from_at..from_at + bytes));
        let to = part(to, &(to_at..to_at + bytes));
        // SAFETY: both buffers have these bytes.
        unsafe { result::memcpy_dtod_sync(to, from, bytes) }.map_err(|e| self.failed(e))
    }

    fn launch(&self, launch: &Launch<'_, Buffer<Context>>) -> Result<(), TensorError> {
        self.enter()?;
        let function = self.programs.get(launch.kernel)?;
        let mut places: Vec<CUdeviceptr> = launch
            .bindings
            .iter()
            .map(|b| part(b.buffer, &b.bytes))
            .collect();
        let params = launch.params.as_ptr().cast_mut().cast::<c_void>();
        let mut arguments = vec![params];
        let pointers = places.iter_mut().map(|p| std::ptr::from_mut(p).cast());
        arguments.extend(pointers);
        let [x, y, z] = launch.groups;
        // SAFETY: `params` and `bindings` are those of the kernel, which tests compare for every kernel; the driver copies
        // the arguments before it returns, and buffers outlive the launch because all happens in one order.
        let done = unsafe {
            result::launch_kernel(
                function,
                (x, y, z),
                (THREADS, 1, 1),
                0,
                std::ptr::null_mut(),
                &mut arguments,
            )
        };
        done.map_err(|e| self.failed(e))
    }

    fn wait(&self) -> Result<(), TensorError> {
        self.enter()?;
        result::ctx::synchronize().map_err(|e| self.failed(e))
    }

    fn release(&self) {
        self.pool.clear();
    }

    fn peak(&self) -> u64 {
        self.pool.peak()
    }
}

/// Where some bytes of a buffer lie.
fn part(buffer: &Buffer<Context>, bytes: &Range<usize>) -> CUdeviceptr {
    let raw = buffer.raw();
    assert!(bytes.end as u64 <= raw.bytes, "a place in the buffer");
    raw.at + bytes.start as u64
}
