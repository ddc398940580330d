//! Differentiable operations: a forward pass over plain values and the way a gradient takes back.
//!
//! An operation states both in the traits below, in f32; this file makes candle operations of them. A result is kept in the
//! type of the first argument (f16 and bf16 in the torso of a UNet), a gradient in that of its argument. Only values in main
//! memory are handled here; [`crate::composed`] has the operations for other devices of candle.

use candle_core::{CpuStorage, CustomOp1, CustomOp2, CustomOp3, Layout};

use super::tensor::{Tensor, Values, View, dims, from_candle, read, stored, to_candle};
use crate::{Shape, TensorError};

/// A result of a forward pass.
pub type Output = Result<(Shape, Vec<f32>), TensorError>;

/// What flows back into one argument.
pub enum Gradient {
    /// Nothing: the argument is a constant.
    Nothing,
    /// The gradient of the result itself.
    Same,
    Values(Vec<f32>),
}

impl Gradient {
    /// Computes the gradient only if it is wanted.
    pub fn when(wanted: bool, values: impl FnOnce() -> Vec<f32>) -> Self {
        if wanted {
            Gradient::Values(values())
        } else {
            Gradient::Nothing
        }
    }

    fn tensor(
        self,
        argument: &candle_core::Tensor,
        result: &candle_core::Tensor,
    ) -> candle_core::Result<Option<candle_core::Tensor>> {
        match self {
            Gradient::Nothing => Ok(None),
            Gradient::Same => result.to_dtype(argument.dtype()).map(Some),
            Gradient::Values(values) => {
                candle_core::Tensor::from_vec(values, argument.shape(), argument.device())?
                    .to_dtype(argument.dtype())
                    .map(Some)
            }
        }
    }
}

/// An operation with `N` arguments.
pub trait Operation<const N: usize>: Send + Sync + 'static {
    const NAME: &'static str;

    fn forward(&self, arguments: [View<'_>; N]) -> Output;

    /// The gradients of the arguments, given the arguments, the result and its gradient. An argument that is not
    /// `wanted` is a constant.
    fn backward(
        &self,
        arguments: [View<'_>; N],
        result: View<'_>,
        gradient: View<'_>,
        wanted: [bool; N],
    ) -> Result<[Gradient; N], TensorError>;
}

/// Applies an operation with one argument.
pub fn unary(operation: impl Operation<1>, x: &Tensor) -> Result<Tensor, TensorError> {
    let y = x.candle().apply_op1(Differentiable(operation));
    Tensor::new(&y.map_err(from_candle)?)
}

/// Applies an operation with two arguments.
pub fn binary(
    operation: impl Operation<2>,
    a: &candle_core::Tensor,
    b: &candle_core::Tensor,
) -> Result<Tensor, TensorError> {
    let y = a.apply_op2(b, Differentiable(operation));
    Tensor::new(&y.map_err(from_candle)?)
}

/// Applies an operation with three arguments.
pub fn ternary(
    operation: impl Operation<3>,
    a: &candle_core::Tensor,
    b: &candle_core::Tensor,
    c: &candle_core::Tensor,
) -> Result<Tensor, TensorError> {
    let y = a.apply_op3(b, c, Differentiable(operation));
    Tensor::new(&y.map_err(from_candle)?)
}

struct Differentiable<T>(T);

type Stored = candle_core::Result<(CpuStorage, candle_core::Shape)>;

impl<T> Differentiable<T> {
    fn run<const N: usize>(&self, arguments: [Values<'_>; N]) -> Stored
    where
        T: Operation<N>,
    {
        let views = arguments.each_ref().map(Values::view);
        let (shape, values) = self.0.forward(views).map_err(to_candle)?;
        let kept = arguments
            .first()
            .map_or_else(Default::default, Values::kept);
        Ok((stored(values, kept), dims(shape).into()))
    }

    fn run_back<const N: usize>(
        &self,
        arguments: [&candle_core::Tensor; N],
        views: [View<'_>; N],
        result: &candle_core::Tensor,
        gradient: &candle_core::Tensor,
    ) -> candle_core::Result<[Option<candle_core::Tensor>; N]>
    where
        T: Operation<N>,
    {
        let gradient = gradient.contiguous()?;
        let wanted = arguments.map(candle_core::Tensor::track_op);
        let back = read(result, |y| {
            read(&gradient, |g| self.0.backward(views, y, g, wanted))
        })??;
        let mut gradients = back.map_err(to_candle)?.into_iter();
        let mut tensors = [const { None }; N];
        for (tensor, argument) in tensors.iter_mut().zip(arguments) {
            let back = gradients.next().unwrap_or(Gradient::Nothing);
            *tensor = back.tensor(argument, &gradient)?;
        }
        Ok(tensors)
    }
}

impl<T: Operation<1>> CustomOp1 for Differentiable<T> {
    fn name(&self) -> &'static str {
        T::NAME
    }

    fn cpu_fwd(&self, s: &CpuStorage, l: &Layout) -> Stored {
        self.run([Values::new(s, l)?])
    }

    fn bwd(
        &self,
        x: &candle_core::Tensor,
        y: &candle_core::Tensor,
        g: &candle_core::Tensor,
    ) -> candle_core::Result<Option<candle_core::Tensor>> {
        let [dx] = read(x, |vx| self.run_back([x], [vx], y, g))??;
        Ok(dx)
    }
}

impl<T: Operation<2>> CustomOp2 for Differentiable<T> {
    fn name(&self) -> &'static str {
        T::NAME
    }

    fn cpu_fwd(&self, s1: &CpuStorage, l1: &Layout, s2: &CpuStorage, l2: &Layout) -> Stored {
        self.run([Values::new(s1, l1)?, Values::new(s2, l2)?])
    }

    fn bwd(
        &self,
        a: &candle_core::Tensor,
        b: &candle_core::Tensor,
        y: &candle_core::Tensor,
        g: &candle_core::Tensor,
    ) -> candle_core::Result<(Option<candle_core::Tensor>, Option<candle_core::Tensor>)> {
        let [da, db] = read(a, |va| read(b, |vb| self.run_back([a, b], [va, vb], y, g)))???;
        Ok((da, db))
    }
}

type Three = (
    Option<candle_core::Tensor>,
    Option<candle_core::Tensor>,
    Option<candle_core::Tensor>,
);

impl<T: Operation<3>> CustomOp3 for Differentiable<T> {
    fn name(&self) -> &'static str {
        T::NAME
    }

    fn cpu_fwd(
        &self,
        s1: &CpuStorage,
        l1: &Layout,
        s2: &CpuStorage,
        l2: &Layout,
        s3: &CpuStorage,
        l3: &Layout,
    ) -> Stored {
        self.run([
            Values::new(s1, l1)?,
            Values::new(s2, l2)?,
            Values::new(s3, l3)?,
        ])
    }

    fn bwd(
        &self,
        a: &candle_core::Tensor,
        b: &candle_core::Tensor,
        c: &candle_core::Tensor,
        y: &candle_core::Tensor,
        g: &candle_core::Tensor,
    ) -> candle_core::Result<Three> {
        let [da, db, dc] = read(a, |va| {
            read(b, |vb| {
                read(c, |vc| self.run_back([a, b, c], [va, vb, vc], y, g))
            })
        })????;
        Ok((da, db, dc))
    }
}
