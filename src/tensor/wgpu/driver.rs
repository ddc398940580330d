//! Memory and launches over wgpu.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};

use wgpu::{
    BufferUsages, Device, DeviceDescriptor, ExperimentalFeatures, Features, MapMode, MemoryHints,
    PollType, Queue, Trace,
};

use super::adapters::{Adapter, choose, ready};
use super::errors::Fault;
use super::memory::{Buffer, Pool, create};
use super::pipelines::Pipelines;
use super::recorder::Recorder;
use crate::tensor::gpu::driver::{Driver, Launch, Limits};
use crate::tensor::{DeviceError, Precision, TensorError};

/// What the kernels need: storage buffers and invocations of a workgroup, and bytes of its memory.
const BUFFERS: u32 = 5;
const INVOCATIONS: u32 = 256;
const WORKGROUP_BYTES: u32 = 8208;

/// An open adapter.
pub struct WgpuDriver {
    name: String,
    device: Device,
    queue: Queue,
    limits: Limits,
    precision: Precision,
    pipelines: Pipelines,
    pool: Arc<Pool>,
    recorder: Mutex<Recorder>,
    fault: Fault,
}

impl WgpuDriver {
    /// Opens an adapter; see [`super::open`].
    pub fn open(
        which: Adapter,
        binding: Option<usize>,
        precision: Precision,
    ) -> Result<Self, DeviceError> {
        let (adapter, found) = choose(which)?;
        let limits = adapter.limits();
        let refuse = |why: String| DeviceError::Absent {
            device: format!("{which}, {}", found.name),
            why: format!("{why}; use --device cpu"),
        };
        for (what, needed, allowed) in [
            (
                "storage buffers of a kernel",
                BUFFERS,
                limits.max_storage_buffers_per_shader_stage,
            ),
            (
                "invocations of a workgroup",
                INVOCATIONS,
                limits.max_compute_invocations_per_workgroup,
            ),
            (
                "bytes of workgroup memory",
                WORKGROUP_BYTES,
                limits.max_compute_workgroup_storage_size,
            ),
        ] {
            if allowed < needed {
                return Err(refuse(format!(
                    "it allows {allowed} {what}, {needed} are needed"
                )));
            }
        }
        let features = match precision {
            Precision::F32 => Features::empty(),
            Precision::F16 => Features::SHADER_F16,
        };
        if !adapter.features().contains(features) {
            return Err(DeviceError::Absent {
                device: format!("{which}, {}", found.name),
                why: "its kernels cannot keep values as f16; use --precision f32".into(),
            });
        }
        let request = adapter.request_device(&DeviceDescriptor {
            label: Some("foil"),
            required_features: features,
            required_limits: limits.clone(),
            experimental_features: ExperimentalFeatures::disabled(),
            memory_hints: MemoryHints::Performance,
            trace: Trace::Off,
        });
        let (device, queue) = match ready(request) {
            Some(Ok(opened)) => opened,
            Some(Err(error)) => return Err(refuse(error.to_string())),
            None => return Err(refuse("it does not answer".into())),
        };
        let name = format!("wgpu ({})", found.name);
        let fault = Fault::default();
        fault.listen(&device, &name);
        let most = limits.max_storage_buffer_binding_size as usize;
        let limits = Limits {
            binding: binding.unwrap_or(most).min(most),
            alignment: limits.min_storage_buffer_offset_alignment as usize,
            groups: limits.max_compute_workgroups_per_dimension as usize,
        };
        Ok(Self {
            pool: Pool::new(device.clone()),
            recorder: Mutex::new(Recorder::new(&device)),
            pipelines: Pipelines::default(),
            name,
            device,
            queue,
            limits,
            precision,
            fault,
        })
    }

    /// Loses the device, as a driver that is reset does: everything asked of it afterwards fails.
    pub fn lose(&self) {
        self.device.destroy();
        self.fault.lost(&self.name, "it was given up");
    }

    fn recorder(&self) -> MutexGuard<'_, Recorder> {
        self.recorder.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn out_of_memory(&self, bytes: usize) -> TensorError {
        TensorError::OutOfMemory {
            device: self.name.clone(),
            bytes,
        }
    }
}

impl Driver for WgpuDriver {
    type Buffer = Buffer;

    fn describe(&self) -> String {
        self.name.clone()
    }

    fn limits(&self) -> Limits {
        self.limits
    }

    fn precision(&self) -> Precision {
        self.precision
    }

    fn allocate(&self, bytes: usize) -> Result<Buffer, TensorError> {
        self.fault.check()?;
        if let Some(buffer) = self.pool.take(bytes) {
            return Ok(buffer);
        }
        // What is kept, and what running launches hold, may be enough.
        self.pool.clear();
        self.wait()?;
        self.pool
            .take(bytes)
            .ok_or_else(|| self.out_of_memory(bytes))
    }

    fn upload(&self, bytes: &[u8]) -> Result<Buffer, TensorError> {
        let buffer = self.allocate(bytes.len())?;
        // Launches that wait may still read what the buffer held before: writes overtake them.
        self.recorder().submit(&self.device, &self.queue);
        match bytes.len() % 4 {
            0 => self.queue.write_buffer(buffer.raw(), 0, bytes),
            rest => {
                let mut padded = bytes.to_vec();
                padded.resize(bytes.len() + 4 - rest, 0);
                self.queue.write_buffer(buffer.raw(), 0, &padded);
            }
        }
        Ok(buffer)
    }

    fn download(&self, buffer: &Buffer, bytes: Range<usize>) -> Result<Vec<u8>, TensorError> {
        self.fault.check()?;
        let size = bytes.len() as u64;
        let usage = BufferUsages::MAP_READ | BufferUsages::COPY_DST;
        let staging =
            create(&self.device, size, usage).ok_or_else(|| self.out_of_memory(bytes.len()))?;
        self.recorder().copy(
            &self.device,
            (buffer.raw(), bytes.start as u64),
            (&staging, 0),
            size,
        );
        self.recorder().submit(&self.device, &self.queue);
        let (sender, receiver) = mpsc::channel();
        staging.map_async(MapMode::Read, .., move |result| {
            // Nobody listens any more if the wait failed.
            let _ = sender.send(result);
        });
        self.wait()?;
        // Another thread that waits may be the one that is about to say so.
        let failed = |what: String| TensorError::Device(format!("{}: {what}", self.name));
        match receiver.recv() {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(failed(error.to_string())),
            Err(error) => return Err(failed(error.to_string())),
        }
        let mapped = staging
            .get_mapped_range(..)
            .map_err(|error| failed(error.to_string()))?;
        Ok(mapped.to_vec())
    }

    fn copy(
        &self,
        (from, from_at): (&Buffer, usize),
        (to, to_at): (&Buffer, usize),
        bytes: usize,
    ) -> Result<(), TensorError> {
        self.fault.check()?;
        self.recorder().copy(
            &self.device,
            (from.raw(), from_at as u64),
            (to.raw(), to_at as u64),
            bytes as u64,
        );
        Ok(())
    }

    fn launch(&self, launch: &Launch<'_, Buffer>) -> Result<(), TensorError> {
        self.fault.check()?;
        let writes = launch.bindings.iter().map(|b| b.writes);
        let pipeline = self
            .pipelines
            .get(&self.device, launch.kernel, self.precision, writes)?;
        self.recorder()
            .launch((&self.device, &self.queue), &pipeline, launch);
        Ok(())
    }

    fn wait(&self) -> Result<(), TensorError> {
        self.recorder().submit(&self.device, &self.queue);
        let waited = self.device.poll(PollType::wait_indefinitely());
        self.fault.check()?;
        waited.map_err(|error| TensorError::Device(format!("{}: {error}", self.name)))?;
        Ok(())
    }

    fn release(&self) {
        self.recorder().submit(&self.device, &self.queue);
        self.pool.clear();
    }

    fn peak(&self) -> u64 {
        self.pool.peak()
    }
}
