//! Memory and launches over wgpu.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};

use wgpu::{
    DeviceDescriptor, ExperimentalFeatures, Features, MapMode, MemoryHints, PollType, Queue, Trace,
};

use super::adapters::{Adapter, choose, ready};
use super::errors::Fault;
use super::faults::{Faults, Room};
use super::memory::{Buffer, Piece, Pool, Source};
use super::pipelines::Pipelines;
use super::recorder::{NoMemory, Recorder};
use crate::gpu::driver::{Driver, Launch, Limits};
use crate::{DeviceError, Precision, TensorError};

/// What the kernels need: storage buffers and invocations of a workgroup, and bytes of its memory.
const BUFFERS: u32 = 5;
const INVOCATIONS: u32 = 256;
const WORKGROUP_BYTES: u32 = 8208;
/// Bytes of an upload that are copied in one go, and those on their way together.
const STAGED: usize = 1 << 24;
const MOST_STAGED: usize = 1 << 26;

/// An open adapter.
pub struct WgpuDriver {
    name: String,
    source: Source,
    queue: Queue,
    limits: Limits,
    precision: Precision,
    pipelines: Pipelines,
    pool: Arc<Pool>,
    recorder: Mutex<Recorder>,
    fault: Fault,
    /// Launches so far, and those after which a test loses the device.
    launches: AtomicU64,
    lost_after: Option<u64>,
}

impl WgpuDriver {
    /// Opens an adapter; see [`super::open`].
    pub fn open(
        which: Adapter,
        binding: Option<usize>,
        precision: Precision,
    ) -> Result<Self, DeviceError> {
        let (adapter, found) = choose(which)?;
        let faults = Faults::told()?;
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
        if !faults.opens() {
            return Err(refuse("it was lost, and does not come back".into()));
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
        let source = Source {
            room: Room::of(&faults),
            device,
        };
        Ok(Self {
            pool: Pool::new(source.clone()),
            recorder: Mutex::new(Recorder::new(&source.device)),
            launches: AtomicU64::new(0),
            lost_after: faults.lost,
            pipelines: Pipelines::new(faults),
            name,
            source,
            queue,
            limits,
            precision,
            fault,
        })
    }

    /// Loses the device, as a driver that is reset does: everything asked of it afterwards fails.
    pub fn lose(&self) {
        self.source.device.destroy();
        self.fault.lost(&self.name, "it was given up");
    }

    /// From now on there is memory for so many bytes more, and for what is given back: as on a device that is nearly full.
    pub fn leave_room(&self, bytes: u64) {
        self.source.room.leave(bytes);
    }

    fn recorder(&self) -> MutexGuard<'_, Recorder> {
        self.recorder.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands what was recorded to the device.
    fn submit(&self) -> Result<(), TensorError> {
        let submitted = self.recorder().submit(&self.source, &self.queue);
        submitted.map_err(|NoMemory(bytes)| self.out_of_memory(bytes))
    }

    /// A copy of some bytes that the device reads.
    fn staged(&self, bytes: &[u8]) -> Result<Piece, TensorError> {
        if let Some(staged) = self.source.staged(bytes) {
            return Ok(staged);
        }
        // What is kept, and what running launches hold, may be enough.
        self.pool.clear();
        self.wait()?;
        let again = self.source.staged(bytes);
        again.ok_or_else(|| self.out_of_memory(bytes.len()))
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
        for (i, part) in bytes.chunks(STAGED).enumerate() {
            let staged = self.staged(part)?;
            let words = part.len().next_multiple_of(4);
            let mut recorder = self.recorder();
            // In its turn: launches that wait may still read what the buffer held before.
            recorder.copy(
                &self.source.device,
                (&staged.buffer, 0),
                (&buffer.raw().buffer, (i * STAGED) as u64),
                words as u64,
            );
            recorder.staged += words;
            if recorder.staged >= MOST_STAGED {
                drop(recorder);
                self.wait()?;
            }
        }
        Ok(buffer)
    }

    fn download(&self, buffer: &Buffer, bytes: Range<usize>) -> Result<Vec<u8>, TensorError> {
        self.fault.check()?;
        let size = bytes.len() as u64;
        let readable = match self.source.readable(size) {
            Some(readable) => readable,
            None => {
                // What is kept, and what running launches hold, may be enough.
                self.pool.clear();
                self.wait()?;
                let again = self.source.readable(size);
                again.ok_or_else(|| self.out_of_memory(bytes.len()))?
            }
        };
        let staging = &readable.buffer;
        self.recorder().copy(
            &self.source.device,
            (&buffer.raw().buffer, bytes.start as u64),
            (staging, 0),
            size,
        );
        self.submit()?;
        let (sender, receiver) = mpsc::channel();
        staging.map_async(MapMode::Read, .., move |result| {
            // Nobody listens any more if the wait failed.
            let _ = sender.send(result);
        });
        self.wait()?;
        // Another thread that waits may be the one that is about to say so. A lost device says that it is.
        let failed = |what: String| {
            let named = TensorError::Device(format!("{}: {what}", self.name));
            self.fault.check().err().unwrap_or(named)
        };
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
            &self.source.device,
            (&from.raw().buffer, from_at as u64),
            (&to.raw().buffer, to_at as u64),
            bytes as u64,
        );
        Ok(())
    }

    fn launch(&self, launch: &Launch<'_, Buffer>) -> Result<(), TensorError> {
        let before = self.launches.fetch_add(1, Ordering::Relaxed);
        if self.lost_after.is_some_and(|most| before >= most) {
            self.lose();
        }
        self.fault.check()?;
        let writes = launch.bindings.iter().map(|b| b.writes);
        let pipeline =
            self.pipelines
                .get(&self.source.device, launch.kernel, self.precision, writes)?;
        let mut recorder = self.recorder();
        let launched = recorder.launch((&self.source, &self.queue), &pipeline, launch);
        launched.map_err(|NoMemory(bytes)| self.out_of_memory(bytes))
    }

    fn wait(&self) -> Result<(), TensorError> {
        self.submit()?;
        let waited = self.source.device.poll(PollType::wait_indefinitely());
        self.recorder().staged = 0;
        self.fault.check()?;
        waited.map_err(|error| TensorError::Device(format!("{}: {error}", self.name)))?;
        Ok(())
    }

    fn release(&self) {
        // What has no memory waits for the next time.
        let _ = self.submit();
        self.pool.clear();
    }

    fn peak(&self) -> u64 {
        self.pool.peak()
    }
}
