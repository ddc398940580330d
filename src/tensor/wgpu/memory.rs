//! Buffers of wgpu.

use wgpu::{BufferDescriptor, BufferUsages, Device, ErrorFilter};

use super::adapters::ready;
use crate::tensor::gpu::memory::{self, Memory};

/// A buffer that comes back to its pool.
pub type Buffer = memory::Buffer<Device>;
/// Buffers that are not in use.
pub type Pool = memory::Pool<Device>;

const USAGE: BufferUsages = BufferUsages::STORAGE
    .union(BufferUsages::COPY_SRC)
    .union(BufferUsages::COPY_DST);

impl Memory for Device {
    type Raw = wgpu::Buffer;

    fn create(&self, bytes: u64) -> Option<wgpu::Buffer> {
        create(self, bytes, USAGE)
    }

    fn bytes(raw: &wgpu::Buffer) -> u64 {
        raw.size()
    }
}

/// A new buffer, or `None` if there is no memory.
pub fn create(device: &Device, size: u64, usage: BufferUsages) -> Option<wgpu::Buffer> {
    if size > device.limits().max_buffer_size {
        return None;
    }
    let scope = device.push_error_scope(ErrorFilter::OutOfMemory);
    let buffer = device.create_buffer(&BufferDescriptor {
        label: None,
        size,
        usage,
        mapped_at_creation: false,
    });
    match ready(scope.pop()) {
        Some(None) => Some(buffer),
        _ => None,
    }
}
