//! A driver of any kind behind one type, so that the operations, and with them every network and metric on a GPU, are
//! compiled once and not for each kind.

use std::any::Any;
use std::ops::Range;

use super::driver::{Binding, Driver, Launch, Limits};
use crate::{Precision, TensorError};

type Result<T> = std::result::Result<T, TensorError>;

/// Memory of a driver, which alone knows what it is.
pub struct AnyBuffer {
    memory: Box<dyn Any + Send + Sync>,
    /// Where the driver lies.
    driver: usize,
}

pub type AnyBinding<'a> = Binding<'a, AnyBuffer>;
pub type AnyLaunch<'a> = Launch<'a, AnyBuffer>;

impl AnyBuffer {
    fn new<D: Driver>(driver: &D, memory: D::Buffer) -> Self {
        Self {
            memory: Box::new(memory),
            driver: std::ptr::from_ref(driver).addr(),
        }
    }

    /// What the driver knows it as; memory of another device, even of the same kind, is an error.
    fn of<D: Driver>(&self, driver: &D) -> Result<&D::Buffer> {
        let own = self.driver == std::ptr::from_ref(driver).addr();
        own.then(|| self.memory.downcast_ref())
            .flatten()
            .ok_or_else(|| {
                let device = Driver::describe(driver);
                TensorError::Device(format!("a tensor of another device was given to {device}"))
            })
    }
}

/// What [`Driver`] says, of a driver whose kind is not known; each is described there.
pub trait AnyDriver: Send + Sync {
    fn describe(&self) -> String;
    fn limits(&self) -> Limits;
    fn precision(&self) -> Precision;
    fn allocate(&self, bytes: usize) -> Result<AnyBuffer>;
    fn upload(&self, bytes: &[u8]) -> Result<AnyBuffer>;
    fn download(&self, buffer: &AnyBuffer, bytes: Range<usize>) -> Result<Vec<u8>>;
    fn copy(&self, from: (&AnyBuffer, usize), to: (&AnyBuffer, usize), bytes: usize) -> Result<()>;
    fn launch(&self, launch: &AnyLaunch<'_>) -> Result<()>;
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

    fn allocate(&self, bytes: usize) -> Result<AnyBuffer> {
        Ok(AnyBuffer::new(self, Driver::allocate(self, bytes)?))
    }

    fn upload(&self, bytes: &[u8]) -> Result<AnyBuffer> {
        Ok(AnyBuffer::new(self, Driver::upload(self, bytes)?))
    }

    fn download(&self, buffer: &AnyBuffer, bytes: Range<usize>) -> Result<Vec<u8>> {
        Driver::download(self, buffer.of(self)?, bytes)
    }

    fn copy(
        &self,
        (from, from_at): (&AnyBuffer, usize),
        (to, to_at): (&AnyBuffer, usize),
        bytes: usize,
    ) -> Result<()> {
        let (from, to) = (from.of(self)?, to.of(self)?);
        Driver::copy(self, (from, from_at), (to, to_at), bytes)
    }

    fn launch(&self, launch: &AnyLaunch<'_>) -> Result<()> {
        let bindings = launch.bindings.iter().map(|binding| {
            Ok(Binding {
                buffer: binding.buffer.of(self)?,
                bytes: binding.bytes.clone(),
                writes: binding.writes,
            })
        });
        let bindings = bindings.collect::<Result<Vec<_>>>()?;
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
