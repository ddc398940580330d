//! Gradient checkpointing (Chen et al. 2016): a piece of a network that keeps its inputs only and is run again on the way
//! back.

use candle_core::Var;

use super::operation::{Gradient, Operation, Output, binary, unary};
use super::tensor::{Tensor, View, dims, from_candle};
use super::{Candle, sound};
use crate::tensor::{Backend, Piece, TensorError};

/// A piece as one operation.
struct Checkpoint(Piece<Candle>);

/// Runs a piece, and keeps its inside or not.
pub fn run(
    inputs: &[Tensor],
    checkpointing: bool,
    piece: Piece<Candle>,
) -> Result<Tensor, TensorError> {
    if !inputs.iter().any(|x| x.candle().track_op()) {
        return piece(&Candle, inputs);
    }
    match inputs {
        [x] if checkpointing => unary(Checkpoint(piece), x),
        [a, b] if checkpointing => binary(Checkpoint(piece), a.candle(), b.candle()),
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
        let constants = inputs.map(|view| values(view).and_then(|t| Tensor::new(&t)));
        let constants = constants.into_iter().collect::<Result<Vec<_>, _>>()?;
        let result = (self.0)(&Candle, &constants)?;
        let flat = result.candle().flatten_all();
        let flat = flat.and_then(|t| t.to_vec1()).map_err(from_candle)?;
        Ok((result.shape(), flat))
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
            let values = values(view)?;
            let variable = wanted.then(|| Var::from_tensor(&values)).transpose();
            let variable = variable.map_err(from_candle)?;
            tensors.push(Tensor::new(variable.as_deref().unwrap_or(&values))?);
            variables.push(variable);
        }
        let result = (self.0)(&Candle, &tensors)?;
        drop(tensors);
        // The derivative of Σ result · gradient by the result is the gradient, bit for bit.
        let all = values(gradient)
            .map_err(to_message)
            .and_then(|g| result.candle().mul(&g)?.sum_all()?.backward())
            .map_err(from_candle)?;
        let mut found = [const { Gradient::Nothing }; N];
        for (found, variable) in found.iter_mut().zip(&variables) {
            let Some(variable) = variable else { continue };
            let by = match all.get(variable.as_tensor()) {
                Some(by) => by.flatten_all().and_then(|t| t.to_vec1()),
                None => Ok(vec![0.0; variable.elem_count()]),
            };
            *found = Gradient::Values(by.map_err(from_candle)?);
        }
        Ok(found)
    }
}

fn to_message(error: TensorError) -> candle_core::Error {
    candle_core::Error::Msg(error.to_string())
}

fn values(view: View<'_>) -> Result<candle_core::Tensor, TensorError> {
    let device = &candle_core::Device::Cpu;
    candle_core::Tensor::from_slice(view.data, dims(view.shape), device).map_err(from_candle)
}
