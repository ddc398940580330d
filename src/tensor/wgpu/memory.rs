//! Buffers, and those that are kept for further use.
//!
//! A network asks for the same sizes batch after batch; asking the driver each time is slow. Kept are at most a quarter
//! more bytes than were ever in use at once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use wgpu::{BufferDescriptor, BufferUsages, Device, ErrorFilter};

use super::adapters::ready;

/// A buffer that comes back to the pool.
pub struct Buffer {
    raw: Option<wgpu::Buffer>,
    pool: Arc<Pool>,
}

impl Buffer {
    pub fn raw(&self) -> &wgpu::Buffer {
        self.raw.as_ref().expect("a buffer that was not given back")
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(raw) = self.raw.take() {
            self.pool.put(raw);
        }
    }
}

/// Buffers that are not in use.
pub struct Pool {
    device: Device,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    free: BTreeMap<u64, Vec<wgpu::Buffer>>,
    free_bytes: u64,
    used_bytes: u64,
    most_used: u64,
}

impl Kept {
    /// The smallest free buffer that holds `bytes` and does not waste half of itself.
    fn take(&mut self, bytes: u64) -> Option<wgpu::Buffer> {
        let (&size, _) = self.free.range(bytes..=2 * bytes).next()?;
        let of_size = self.free.get_mut(&size)?;
        let buffer = of_size.pop();
        if of_size.is_empty() {
            self.free.remove(&size);
        }
        self.free_bytes -= size;
        buffer
    }

    /// Forgets free buffers, the largest first, until all together are small enough.
    fn trim(&mut self, more: u64) {
        let most = self.most_used.max(self.used_bytes + more);
        while self.used_bytes + more + self.free_bytes > most + most / 4 {
            let Some((size, buffers)) = self.free.pop_last() else {
                return;
            };
            self.free_bytes -= size * buffers.len() as u64;
        }
    }

    fn use_more(&mut self, bytes: u64) {
        self.used_bytes += bytes;
        self.most_used = self.most_used.max(self.used_bytes);
    }
}

impl Pool {
    pub fn new(device: Device) -> Arc<Self> {
        Arc::new(Self {
            device,
            kept: Mutex::default(),
        })
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A buffer of at least so many bytes, or `None` if there is no memory.
    pub fn take(self: &Arc<Self>, bytes: usize) -> Option<Buffer> {
        // Steps of 1/8 of the size, so that almost equal sizes share buffers.
        let bytes = bytes.max(4) as u64;
        let step = (bytes.next_power_of_two() / 16).max(256);
        let bytes = bytes.next_multiple_of(step);
        let mut kept = self.kept();
        let raw = match kept.take(bytes) {
            Some(raw) => raw,
            None => {
                kept.trim(bytes);
                create(&self.device, bytes, USAGE)?
            }
        };
        kept.use_more(raw.size());
        Some(Buffer {
            raw: Some(raw),
            pool: Arc::clone(self),
        })
    }

    fn put(&self, raw: wgpu::Buffer) {
        let mut kept = self.kept();
        kept.used_bytes -= raw.size();
        kept.free_bytes += raw.size();
        kept.free.entry(raw.size()).or_default().push(raw);
        kept.trim(0);
    }

    /// Gives all free buffers back to the system.
    pub fn clear(&self) {
        let mut kept = self.kept();
        kept.free.clear();
        kept.free_bytes = 0;
        kept.most_used = kept.used_bytes;
    }
}

const USAGE: BufferUsages = BufferUsages::STORAGE
    .union(BufferUsages::COPY_SRC)
    .union(BufferUsages::COPY_DST);

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
