//! A driver of any kind behind one type, so that the operations, and with them every network and metric on a GPU, are
//! compiled once and not for each kind.

use std::any::Any;
use std::ops::Range;

use super::driver::{Binding, Driver, Launch, Limits};
use crate::tensor::{Precision, TensorError};

type Result<T> = std::result::Result<T, TensorError>;

/// Memory of a driver, which alone knows what it is.
pub struct Buffer(Box<dyn Any + Send + Sync>);

impl Buffer {
    fn of<D: Driver>(&self) -> &D::Buffer {
        let own = self.0.downcast_ref();
        own.expect("a tensor of the device that it is given to")
    }
}

/// What [`Driver`] says, of a driver whose kind is not known; each is described there.
pub trait AnyDriver: Send + Sync {
    fn describe(&self) -> String;
    fn limits(&self) -> Limits;
    fn precision(&self) -> Precision;
    fn allocate(&self, bytes: usize) -> Result<Buffer>;
    fn upload(&self, bytes: &[u8]) -> Result<Buffer>;
    fn download(&self, buffer: &Buffer, bytes: Range<usize>) -> Result<Vec<u8>>;
    fn copy(&self, from: (&Buffer, usize), to: (&Buffer, usize), bytes: usize) -> Result<()>;
    fn launch(&self, launch: &Launch<'_>) -> Result<()>;
    fn wait(&self) -> Result<()>;
    fn release(&self);
    fn peak(&self) -> u64;
}

impl<D: Driver> AnyDriver for D {
    fn describe(&self) -> String {
        Driver::describe(self)
    }

    fn limits(&self) -> Limits {
        Driver::limits(self)
    }

    fn precision(&self) -> Precision {
        Driver::precision(self)
    }

    fn allocate(&self, bytes: usize) -> Result<Buffer> {
        Ok(Buffer(Box::new(Driver::allocate(self, bytes)?)))
    }

    fn upload(&self, bytes: &[u8]) -> Result<Buffer> {
        Ok(Buffer(Box::new(Driver::upload(self, bytes)?)))
    }

    fn download(&self, buffer: &Buffer, bytes: Range<usize>) -> Result<Vec<u8>> {
        Driver::download(self, buffer.of::<D>(), bytes)
    }

    fn copy(
        &self,
        (from, from_at): (&Buffer, usize),
        (to, to_at): (&Buffer, usize),
        bytes: usize,
    ) -> Result<()> {
        let (from, to) = (from.of::<D>(), to.of::<D>());
        Driver::copy(self, (from, from_at), (to, to_at), bytes)
    }

    fn launch(&self, launch: &Launch<'_>) -> Result<()> {
        let bindings = launch.bindings.iter().map(|binding| Binding {
            buffer: binding.buffer.of::<D>(),
            bytes: binding.bytes.clone(),
            writes: binding.writes,
        });
        let bindings: Vec<_> = bindings.collect();
        let launch = Launch {
            kernel: launch.kernel,
            groups: launch.groups,
            params: launch.params,
            bindings: &bindings,
        };
        Driver::launch(self, &launch)
    }

    fn wait(&self) -> Result<()> {
        Driver::wait(self)
    }

    fn release(&self) {
        Driver::release(self);
    }

    fn peak(&self) -> u64 {
        Driver::peak(self)
    }
}
