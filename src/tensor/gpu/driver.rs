//! What the operations need of a GPU: memory, and kernels that run in the order in which they are launched.

use std::any::Any;
use std::ops::Range;

use super::kernels::Kernel;
use crate::{Precision, TensorError};

type Result<T> = std::result::Result<T, TensorError>;

/// What a device allows.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of a buffer that a kernel may see.
    pub binding: usize,
    /// What the first byte of them must be a multiple of.
    pub alignment: usize,
    /// Workgroups along each axis of a launch.
    pub groups: usize,
}

/// A part of a buffer that a kernel reads or writes.
pub struct Binding<'a, B> {
    pub buffer: &'a B,
    pub bytes: Range<usize>,
    pub writes: bool,
}

impl<B> Clone for Binding<'_, B> {
    fn clone(&self) -> Self {
        Self {
            bytes: self.bytes.clone(),
            ..*self
        }
    }
}

/// One launch of a kernel.
pub struct Launch<'a, B> {
    pub kernel: &'static Kernel,
    /// Workgroups along x, y and z.
    pub groups: [u32; 3],
    /// The words of the kernel's `Params`.
    pub params: &'a [u32],
    /// The other arguments, in the kernel's order.
    pub bindings: &'a [Binding<'a, B>],
}

/// Memory and launches of one GPU. Everything happens in the order of the calls; kernels may run later, at the latest
/// when something is downloaded.
pub trait Driver: Send + Sync + 'static {
    type Buffer: Any + Send + Sync;

    /// Kind, name and driver of the device, as printed and stored with scores.
    fn describe(&self) -> String;
    fn limits(&self) -> Limits;
    /// How kernels are compiled: what activations and weights are in memory.
    fn precision(&self) -> Precision;
    /// Memory with any content.
    fn allocate(&self, bytes: usize) -> Result<Self::Buffer>;
    /// Memory that holds these bytes.
    fn upload(&self, bytes: &[u8]) -> Result<Self::Buffer>;
    /// Waits for all launches and reads some bytes, whole words.
    fn download(&self, buffer: &Self::Buffer, bytes: Range<usize>) -> Result<Vec<u8>>;
    /// Copies whole words from a place in one buffer to a place in another.
    fn copy(
        &self,
        from: (&Self::Buffer, usize),
        to: (&Self::Buffer, usize),
        bytes: usize,
    ) -> Result<()>;
    fn launch(&self, launch: &Launch<'_, Self::Buffer>) -> Result<()>;
    /// Waits until everything is done.
    fn wait(&self) -> Result<()>;
    /// Gives memory that is kept for further buffers back to the system.
    fn release(&self);
    /// The most bytes of memory that were ever held at once.
    fn peak(&self) -> u64;
}
