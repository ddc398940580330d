//! Launches and copies that wait to be handed to the device together.
//!
//! The parameters of all waiting launches share one uniform buffer, which is written when they are handed over. Where
//! there is no memory for that, everything goes on waiting.

use wgpu::{
    BindGroupDescriptor, BindGroupEntry, BindingResource, BufferBinding, BufferDescriptor,
    BufferUsages, CommandEncoder, CommandEncoderDescriptor, ComputePassDescriptor, Device, Queue,
};

use super::memory::{Buffer, Source};
use super::pipelines::Pipeline;
use crate::gpu::driver::{Binding, Launch};

/// Launches that wait at most: enough to keep a device busy, few enough to keep each submission short, because systems
/// reset a device that does not answer for seconds.
const LAUNCHES: u64 = 64;
/// Bytes of the parameters of a launch: what every adapter accepts as the distance of two uniforms.
const SLOT: u64 = 256;

pub struct Recorder {
    encoder: Option<CommandEncoder>,
    uniforms: wgpu::Buffer,
    params: Vec<u8>,
    /// Bytes on their way to the device since it was last waited for.
    pub staged: usize,
}

/// There is no memory for so many bytes.
pub struct NoMemory(pub usize);

impl Recorder {
    pub fn new(device: &Device) -> Self {
        let uniforms = device.create_buffer(&BufferDescriptor {
            label: Some("parameters"),
            size: LAUNCHES * SLOT,
            usage: BufferUsages::UNIFORM | BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        Self {
            encoder: None,
            uniforms,
            params: Vec::new(),
            staged: 0,
        }
    }

    fn encoder(&mut self, device: &Device) -> &mut CommandEncoder {
        self.encoder.get_or_insert_with(|| new_encoder(device))
    }

    pub fn launch(
        &mut self,
        (source, queue): (&Source, &Queue),
        pipeline: &Pipeline,
        launch: &Launch<'_, Buffer>,
    ) -> Result<(), NoMemory> {
        if self.params.len() as u64 == LAUNCHES * SLOT {
            self.submit(source, queue)?;
        }
        let device = &source.device;
        let slot = self.params.len() as u64;
        self.params
            .extend(bytemuck::cast_slice::<u32, u8>(launch.params));
        self.params.resize((slot + SLOT) as usize, 0);
        let part = |buffer, offset: u64, bytes: u64| {
            BindingResource::Buffer(BufferBinding {
                buffer,
                offset,
                size: std::num::NonZeroU64::new(bytes),
            })
        };
        let mut entries = vec![BindGroupEntry {
            binding: 0,
            resource: part(&self.uniforms, slot, SLOT),
        }];
        for (i, Binding { buffer, bytes, .. }) in launch.bindings.iter().enumerate() {
            entries.push(BindGroupEntry {
                binding: i as u32 + 1,
                resource: part(&buffer.raw().buffer, bytes.start as u64, bytes.len() as u64),
            });
        }
        let arguments = device.create_bind_group(&BindGroupDescriptor {
            label: None,
            layout: &pipeline.arguments,
            entries: &entries,
        });
        let mut pass = self
            .encoder(device)
            .begin_compute_pass(&ComputePassDescriptor {
                label: None,
                timestamp_writes: None,
            });
        pass.set_pipeline(&pipeline.compiled);
        pass.set_bind_group(0, &arguments, &[]);
        let [x, y, z] = launch.groups;
        pass.dispatch_workgroups(x, y, z);
        Ok(())
    }

    pub fn copy(
        &mut self,
        device: &Device,
        (from, from_at): (&wgpu::Buffer, u64),
        (to, to_at): (&wgpu::Buffer, u64),
        bytes: u64,
    ) {
        self.encoder(device)
            .copy_buffer_to_buffer(from, from_at, to, to_at, bytes);
    }

    /// Hands everything that waits to the device.
    pub fn submit(&mut self, source: &Source, queue: &Queue) -> Result<(), NoMemory> {
        let Some(encoder) = self.encoder.take() else {
            return Ok(());
        };
        let mut first = None;
        if !self.params.is_empty() {
            let bytes = self.params.len();
            let Some(params) = source.staged(&self.params) else {
                self.encoder = Some(encoder);
                return Err(NoMemory(bytes));
            };
            let mut copy = new_encoder(&source.device);
            copy.copy_buffer_to_buffer(&params.buffer, 0, &self.uniforms, 0, bytes as u64);
            first = Some(copy.finish());
            self.params.clear();
        }
        queue.submit(first.into_iter().chain([encoder.finish()]));
        // Frees what finished launches held; a device that fails says so through its callbacks.
        let _ = source.device.poll(wgpu::PollType::Poll);
        Ok(())
    }
}

fn new_encoder(device: &Device) -> CommandEncoder {
    device.create_command_encoder(&CommandEncoderDescriptor { label: None })
}
