//! GPU devices: the operations of [`Backend`](super::Backend) as launches of the kernels of `kernels/`, written once over a small
//! [`Driver`]; what a driver is for wgpu and CUDA lies beside this module.
//!
//! Activations stay on the device as NHWC f32, or f16 if the driver's [`Precision`] says so; pixels go up as bytes. Every output value is summed by one invocation, or
//! by a fixed tree of them, in an order that depends on the layer and on the size of one image only: an image gives
//! the same bits in any batch. An operation whose operands are larger than a kernel may see is cut into several launches
//! (`pieces`).

mod any_driver;
mod attention;
mod backend;
mod committee;
mod constants;
mod conv;
mod counters;
mod distance;
pub mod driver;
mod elementwise;
pub mod kernels;
mod layout;
pub mod memory;
mod moments;
mod norm;
mod pieces;
mod pool;
mod probe;
mod resize;
mod selection;
mod tensor;
mod transfer;

pub use committee::{Logits, LogitsAt, MOST_JUDGES, Said, Totals};
pub use conv::Packed;
pub use counters::{Count, Counts};
pub use moments::FeatureSums;
pub use probe::Probe;
pub use selection::{Chosen, MOST_CANDIDATES, Selection};
pub use tensor::Tensor;

use std::ops::Range;
use std::sync::Arc;

use any_driver::{AnyBinding, AnyDriver, AnyLaunch};
use constants::{Constant, Constants};
use counters::Counters;
use driver::Driver;
use kernels::Kernel;

use super::{Activation, Precision, Shape, TensorError};

/// Invocations of a workgroup of the kernels that have one per value.
const WORKGROUP: usize = 256;

/// A GPU behind a driver.
pub struct Gpu {
    driver: Arc<dyn AnyDriver>,
    constants: Constants,
    counters: Counters,
}

/// An argument of a kernel, and where in it the values begin that were asked for.
struct Argument<'a> {
    binding: AnyBinding<'a>,
    at: usize,
}

impl Argument<'_> {
    /// The position that lies `back` values before those asked for. Kernels count modulo 2³², so it may lie before the
    /// binding.
    fn at(&self, back: usize) -> u32 {
        (self.at as u32).wrapping_sub(back as u32)
    }
}

impl Gpu {
    /// A GPU behind a driver, which others may share.
    pub fn new(driver: Arc<impl Driver>) -> Self {
        Self {
            driver,
            constants: Constants::default(),
            counters: Counters::default(),
        }
    }

    /// What was launched so far.
    pub fn counts(&self) -> Counts {
        self.counters.get()
    }

    /// The most bytes of the device's memory that were ever held at once.
    pub fn peak(&self) -> u64 {
        self.driver.peak()
    }

    /// An activation with any content.
    fn tensor(&self, shape: Shape) -> Result<Tensor, TensorError> {
        self.tensor_of(shape, self.driver.precision())
    }

    /// The same for what kernels hand to each other, or to the host, in f32 on every device.
    fn scratch(&self, shape: Shape) -> Result<Tensor, TensorError> {
        self.tensor_of(shape, Precision::F32)
    }

    fn tensor_of(&self, shape: Shape, precision: Precision) -> Result<Tensor, TensorError> {
        if shape.is_empty() {
            return Ok(Tensor::empty(shape));
        }
        let buffer = self.driver.allocate(precision.bytes() * shape.len())?;
        Ok(Tensor::new(shape, precision, buffer))
    }

    /// Whether a kernel may see this many values at any place of a buffer.
    fn fits(&self, values: usize) -> bool {
        let limits = self.driver.limits();
        // Positions are 32-bit numbers, with room for a step beyond the last.
        4 * values + limits.alignment <= limits.binding.min(1 << 31)
    }

    fn argument<'a>(
        &self,
        tensor: &'a Tensor,
        values: Range<usize>,
        writes: bool,
    ) -> Result<Argument<'a>, TensorError> {
        let size = tensor.precision().bytes();
        let first = size * (tensor.offset() + values.start);
        let start = first - first % self.driver.limits().alignment;
        // Whole words, of which buffers are made.
        let end = (size * (tensor.offset() + values.end)).next_multiple_of(4);
        Ok(Argument {
            binding: AnyBinding {
                buffer: tensor.buffer()?,
                bytes: start..end,
                writes,
            },
            at: (first - start) / size,
        })
    }

    /// Some values of a tensor that a kernel reads.
    fn reads<'a>(
        &self,
        tensor: &'a Tensor,
        values: Range<usize>,
    ) -> Result<Argument<'a>, TensorError> {
        self.argument(tensor, values, false)
    }

    /// Some values of a tensor that a kernel writes.
    fn writes<'a>(
        &self,
        tensor: &'a Tensor,
        values: Range<usize>,
    ) -> Result<Argument<'a>, TensorError> {
        self.argument(tensor, values, true)
    }

    /// Words that a kernel reads; equal ones are uploaded once.
    fn constant(&self, words: &[u32]) -> Result<Constant, TensorError> {
        self.constants.get(&*self.driver, words)
    }

    /// Workgroups along x and y, of which there are at least `count`.
    fn grid(&self, count: usize) -> [usize; 2] {
        let x = count.min(self.driver.limits().groups).max(1);
        [x, count.div_ceil(x)]
    }

    fn launch(
        &self,
        kernel: &'static Kernel,
        [x, y, z]: [usize; 3],
        params: &[u32],
        bindings: &[AnyBinding<'_>],
    ) -> Result<(), TensorError> {
        let most = self.driver.limits().groups;
        if [x, y, z].iter().any(|&side| side > most) {
            return Err(TensorError::Device(format!(
                "{} {}: {x} x {y} x {z} workgroups are more than the {most} along an axis that this device can launch; use smaller images or --device cpu",
                kernel.name, kernel.entry
            )));
        }
        let launch = AnyLaunch {
            kernel,
            groups: [x as u32, y as u32, z as u32],
            params,
            bindings,
        };
        self.counters.add(&launch);
        self.driver.launch(&launch)
    }

    /// Launches a kernel that has an invocation for each of `count` values.
    fn launch_values(
        &self,
        kernel: &'static Kernel,
        count: usize,
        params: &[u32],
        bindings: &[AnyBinding<'_>],
    ) -> Result<(), TensorError> {
        let [x, y] = self.grid(count.div_ceil(WORKGROUP));
        self.launch(kernel, [x, y, 1], params, bindings)
    }
}

/// The number by which kernels know an activation.
fn code(activation: Activation) -> u32 {
    match activation {
        Activation::None => 0,
        Activation::Relu => 1,
        Activation::Relu6 => 2,
        Activation::Silu => 3,
        Activation::Gelu => 4,
        Activation::LeakyRelu => 5,
        Activation::Tanh => 6,
    }
}

/// The bits of floats, as kernels' words.
fn bits(values: &[f32]) -> impl Iterator<Item = u32> + '_ {
    values.iter().map(|v| v.to_bits())
}
