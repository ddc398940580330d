//! Gradient checkpointing (Chen et al. 2016): a piece of a network that keeps its inputs only and is run again on the way
//! back.

use candle_core::Var;

use super::operation::{Gradient, Operation, Output, binary, unary};
use super::tensor::{Tensor, View, dims, from_candle};
use super::{Candle, sound};
use crate::{Backend, Kept, Piece, TensorError};

/// A piece as one operation, on inputs that are kept in a type.
struct Checkpoint {
    piece: Piece<Candle>,
    kept: Kept,
}

/// Runs a piece, and keeps its inside or not.
pub fn run(
    inputs: &[Tensor],
    checkpointing: bool,
    piece: Piece<Candle>,
) -> Result<Tensor, TensorError> {
    if !inputs.iter().any(|x| x.candle().track_op()) {
        return piece(&Candle, inputs);
    }
    let kept = inputs.first().map_or_else(Kept::default, Tensor::kept);
    let alike = inputs.iter().all(|x| x.kept() == kept);
    match inputs {
        [x] if checkpointing => unary(Checkpoint { piece, kept }, x),
        [a, b] if checkpointing && alike => {
            binary(Checkpoint { piece, kept }, a.candle(), b.candle())
        }
        _ => {
            let inside: Vec<Tensor> = inputs.iter().map(entrance).collect();
            piece(&Candle, &inside)
        }
    }
}

/// The same tensor behind a door: gradients of all that use it inside of a piece are added up before they join those from
/// outside, as they are when the piece is run again. So both ways round alike.
fn entrance(x: &Tensor) -> Tensor {
    sound(Candle.view(x, x.shape()))
}

impl<const N: usize> Operation<N> for Checkpoint {
    const NAME: &'static str = "checkpoint";

    fn forward(&self, inputs: [View<'_>; N]) -> Output {
        let constants = inputs.map(|view| Tensor::new(&values(view, self.kept)?));
        let constants = constants.into_iter().collect::<Result<Vec<_>, _>>()?;
        let result = (self.piece)(&Candle, &constants)?;
        Ok((result.shape(), flat(result.candle())?))
    }

    fn backward(
        &self,
        inputs: [View<'_>; N],
        _result: View<'_>,
        gradient: View<'_>,
        wanted: [bool; N],
    ) -> Result<[Gradient; N], TensorError> {
        let mut variables: Vec<Option<Var>> = Vec::with_capacity(N);
        let mut tensors = Vec::with_capacity(N);
        for (view, wanted) in inputs.into_iter().zip(wanted) {
            let values = values(view, self.kept)?;
            let variable = wanted.then(|| Var::from_tensor(&values)).transpose();
            let variable = variable.map_err(from_candle)?;
            tensors.push(Tensor::new(variable.as_deref().unwrap_or(&values))?);
            variables.push(variable);
        }
        let result = (self.piece)(&Candle, &tensors)?;
        drop(tensors);
        // The derivative of Σ result · gradient by the result is the gradient, bit for bit.
        let all = values(gradient, self.kept)
            .map_err(to_message)
            .and_then(|g| result.candle().mul(&g)?.sum_all()?.backward())
            .map_err(from_candle)?;
        let mut found = [const { Gradient::Nothing }; N];
        for (found, variable) in found.iter_mut().zip(&variables) {
            let Some(variable) = variable else { continue };
            *found = Gradient::Values(match all.get(variable.as_tensor()) {
                Some(by) => flat(by)?,
                None => vec![0.0; variable.elem_count()],
            });
        }
        Ok(found)
    }
}

fn to_message(error: TensorError) -> candle_core::Error {
    candle_core::Error::Msg(error.to_string())
}

fn values(view: View<'_>, kept: Kept) -> Result<candle_core::Tensor, TensorError> {
    let device = &candle_core::Device::Cpu;
    candle_core::Tensor::from_slice(view.data, dims(view.shape), device)
        .and_then(|t| t.to_dtype(kept.dtype()))
        .map_err(from_candle)
}

fn flat(tensor: &candle_core::Tensor) -> Result<Vec<f32>, TensorError> {
    tensor
        .to_dtype(candle_core::DType::F32)
        .and_then(|t| t.flatten_all()?.to_vec1())
        .map_err(from_candle)
}
