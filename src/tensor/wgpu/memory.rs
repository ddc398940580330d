//! Buffers of wgpu.

use wgpu::{BufferDescriptor, BufferUsages, Device, ErrorFilter};

use super::adapters::ready;
use super::faults::{Room, Taken};
use crate::gpu::memory::{self, Memory};

/// A buffer that comes back to its pool.
pub type Buffer = memory::Buffer<Source>;
/// Buffers that are not in use.
pub type Pool = memory::Pool<Source>;

const USAGE: BufferUsages = BufferUsages::STORAGE
    .union(BufferUsages::COPY_SRC)
    .union(BufferUsages::COPY_DST);

/// Where buffers come from.
#[derive(Clone)]
pub struct Source {
    pub device: Device,
    pub room: Room,
}

/// Memory of the device.
pub struct Piece {
    pub buffer: wgpu::Buffer,
    _taken: Taken,
}

impl Memory for Source {
    type Raw = Piece;

    fn create(&self, bytes: u64) -> Option<Piece> {
        self.make(bytes, USAGE, false)
    }

    fn bytes(raw: &Piece) -> u64 {
        raw.buffer.size()
    }
}

impl Source {
    /// What the host reads copies from.
    pub fn readable(&self, bytes: u64) -> Option<Piece> {
        self.make(
            bytes,
            BufferUsages::MAP_READ | BufferUsages::COPY_DST,
            false,
        )
    }

    /// A copy of these bytes, and zeros up to a whole word, that the device copies from.
    ///
    /// `Queue::write_buffer` would do as much, but to wgpu a device without memory for its copy is lost.
    pub fn staged(&self, bytes: &[u8]) -> Option<Piece> {
        let size = bytes.len().next_multiple_of(4) as u64;
        let usage = BufferUsages::MAP_WRITE | BufferUsages::COPY_SRC;
        let piece = self.make(size, usage, true)?;
        // The rest is zero, as all new buffers are.
        let mut mapped = piece.buffer.get_mapped_range_mut(..).ok()?;
        mapped.slice(..bytes.len()).copy_from_slice(bytes);
        drop(mapped);
        piece.buffer.unmap();
        Some(piece)
    }

    /// A new buffer, or `None` if there is no memory.
    fn make(&self, size: u64, usage: BufferUsages, mapped: bool) -> Option<Piece> {
        if size > self.device.limits().max_buffer_size {
            return None;
        }
        let taken = self.room.take(size)?;
        let scope = self.device.push_error_scope(ErrorFilter::OutOfMemory);
        let buffer = self.device.create_buffer(&BufferDescriptor {
            label: None,
            size,
            usage,
            mapped_at_creation: mapped,
        });
        match ready(scope.pop()) {
            Some(None) => Some(Piece {
                buffer,
                _taken: taken,
            }),
            _ => None,
        }
    }
}
