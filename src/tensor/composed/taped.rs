//! Operations on candle's tape whose inner steps are not on it.
//!
//! candle keeps every intermediate value of a composition for its way back, and computes a gradient for every constant
//! that it meets (weights, masks, tables) and keeps that too. Here only arguments and result of an operation are on the
//! tape: the way back is either stated, or found by running the composition again on a tape of its own.

use std::sync::Mutex;

use candle_core::backend::BackendStorage;
use candle_core::{
    CpuStorage, CudaStorage, CustomOp1, CustomOp2, DType, Error, Layout, Result, Shape, Storage,
    Tensor, Var,
};

/// The gradient of one argument each; `None` for those that are constants.
pub type Gradients<const N: usize> = Result<[Option<Tensor>; N]>;

/// `result`, computed without a tape from `arguments`, as an operation on theirs. `back` is given the arguments and the
/// gradient of the result (contiguous), and says that of each argument; gradients of constants are dropped.
pub fn taped<const N: usize>(
    arguments: [&Tensor; N],
    result: Tensor,
    back: impl Fn([&Tensor; N], &Tensor) -> Gradients<N> + Send + Sync + 'static,
) -> Result<Tensor>
where
    Taped<N>: Applied<N>,
{
    if !arguments.iter().any(|x| x.track_op()) {
        return Ok(result.detach());
    }
    let result = result.detach();
    let starts = result.layout().contiguous_offsets();
    let result = match starts {
        Some((0, _)) => result,
        _ => result.force_contiguous()?,
    };
    let operation = Taped {
        result: Mutex::new(Some(result)),
        back: Box::new(back),
    };
    operation.apply(arguments)
}

/// An operation that is a composition of candle's own, in f32; its result is kept in the type of the first argument.
pub fn composed<const N: usize>(
    arguments: [&Tensor; N],
    composition: impl Fn([&Tensor; N]) -> Result<Tensor> + Send + Sync + 'static,
) -> Result<Tensor>
where
    Taped<N>: Applied<N>,
{
    let kept = arguments.first().map_or(DType::F32, |x| x.dtype());
    recomputed(arguments, move |arguments| {
        let wide = arguments.map(|x| x.to_dtype(DType::F32));
        let wide = wide.into_iter().collect::<Result<Vec<_>>>()?;
        composition(std::array::from_fn(|i| &wide[i]))?.to_dtype(kept)
    })
}

/// An operation of any types: run once without a tape, and again on the way back.
pub fn recomputed<const N: usize>(
    arguments: [&Tensor; N],
    composition: impl Fn([&Tensor; N]) -> Result<Tensor> + Send + Sync + 'static,
) -> Result<Tensor>
where
    Taped<N>: Applied<N>,
{
    let constants = arguments.map(Tensor::detach);
    let result = composition(constants.each_ref())?;
    taped(arguments, result, move |arguments, gradient| {
        let mut inner = Vec::with_capacity(N);
        for x in arguments {
            inner.push(match x.track_op() {
                true => Var::from_tensor(&x.detach())?.into_inner(),
                false => x.detach(),
            });
        }
        let again = composition(std::array::from_fn(|i| &inner[i]))?;
        let all = (again * gradient)?.sum_all()?.backward()?;
        let mut gradients = [const { None }; N];
        for (found, x) in gradients.iter_mut().zip(&inner) {
            if x.is_variable() {
                *found = Some(match all.get(x) {
                    Some(gradient) => gradient.clone(),
                    None => x.zeros_like()?,
                });
            }
        }
        Ok(gradients)
    })
}

type Back<const N: usize> = Box<dyn Fn([&Tensor; N], &Tensor) -> Gradients<N> + Send + Sync>;

/// candle's view of such an operation.
pub struct Taped<const N: usize> {
    /// Until candle has taken its copy.
    result: Mutex<Option<Tensor>>,
    back: Back<N>,
}

const NAME: &str = "composed";

impl<const N: usize> Taped<N> {
    fn take(&self) -> Result<Tensor> {
        let mut result = self.result.lock().unwrap_or_else(|e| e.into_inner());
        let gone = || Error::Msg("a composed operation runs once".into());
        result.take().ok_or_else(gone)
    }

    fn on_cpu(&self) -> Result<(CpuStorage, Shape)> {
        let result = self.take()?;
        let (storage, layout) = result.storage_and_layout();
        match (&*storage, layout.contiguous_offsets()) {
            (Storage::Cpu(values), Some((start, end))) => {
                let values = match values {
                    CpuStorage::F16(values) => CpuStorage::F16(values[start..end].to_vec()),
                    CpuStorage::BF16(values) => CpuStorage::BF16(values[start..end].to_vec()),
                    _ => CpuStorage::F32(values.as_slice::<f32>()?[start..end].to_vec()),
                };
                Ok((values, layout.shape().clone()))
            }
            _ => Err(elsewhere()),
        }
    }

    fn on_cuda(&self) -> Result<(CudaStorage, Shape)> {
        let result = self.take()?;
        let (storage, layout) = result.storage_and_layout();
        match &*storage {
            Storage::Cuda(values) => Ok((values.try_clone(layout)?, layout.shape().clone())),
            _ => Err(elsewhere()),
        }
    }

    fn back(&self, arguments: [&Tensor; N], gradient: &Tensor) -> Gradients<N> {
        let mut all = (self.back)(arguments, &gradient.contiguous()?)?;
        for (found, argument) in all.iter_mut().zip(arguments) {
            if !argument.track_op() {
                *found = None;
            }
        }
        Ok(all)
    }
}

fn elsewhere() -> Error {
    Error::Msg("arguments and result of a composed operation lie on different devices".into())
}

/// Puts an operation of `N` arguments on the tape.
pub trait Applied<const N: usize> {
    fn apply(self, arguments: [&Tensor; N]) -> Result<Tensor>;
}

impl Applied<1> for Taped<1> {
    fn apply(self, [x]: [&Tensor; 1]) -> Result<Tensor> {
        x.apply_op1(self)
    }
}

impl Applied<2> for Taped<2> {
    fn apply(self, [a, b]: [&Tensor; 2]) -> Result<Tensor> {
        a.apply_op2(b, self)
    }
}

impl CustomOp1 for Taped<1> {
    fn name(&self) -> &'static str {
        NAME
    }

    fn cpu_fwd(&self, _: &CpuStorage, _: &Layout) -> Result<(CpuStorage, Shape)> {
        self.on_cpu()
    }

    fn cuda_fwd(&self, _: &CudaStorage, _: &Layout) -> Result<(CudaStorage, Shape)> {
        self.on_cuda()
    }

    fn bwd(&self, x: &Tensor, _: &Tensor, gradient: &Tensor) -> Result<Option<Tensor>> {
        let [dx] = self.back([x], gradient)?;
        Ok(dx)
    }
}

impl CustomOp2 for Taped<2> {
    fn name(&self) -> &'static str {
        NAME
    }

    fn cpu_fwd(
        &self,
        _: &CpuStorage,
        _: &Layout,
        _: &CpuStorage,
        _: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        self.on_cpu()
    }

    fn cuda_fwd(
        &self,
        _: &CudaStorage,
        _: &Layout,
        _: &CudaStorage,
        _: &Layout,
    ) -> Result<(CudaStorage, Shape)> {
        self.on_cuda()
    }

    fn bwd(
        &self,
        a: &Tensor,
        b: &Tensor,
        _: &Tensor,
        gradient: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let [da, db] = self.back([a, b], gradient)?;
        Ok((da, db))
    }
}
