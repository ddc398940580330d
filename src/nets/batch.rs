//! Running the wide first layers of a network image by image.

use rayon::prelude::*;

use super::NetError;
use crate::tensor::Backend;

/// Runs some layers on a batch. Where the device wants it, each image goes through all of them alone, side by side
/// with others on threads, and the results are batched again: its activations then stay in the caches. The layers
/// after these have small activations and large weights, and are better off with the batch.
pub(super) fn one_by_one<B: Backend>(
    b: &B,
    x: &B::Tensor,
    layers: impl Fn(&B::Tensor) -> Result<B::Tensor, NetError> + Sync,
) -> Result<B::Tensor, NetError> {
    let n = b.shape(x).n;
    if n < 2 || !b.one_by_one() {
        return layers(x);
    }
    let images = (0..n).into_par_iter().map(|i| layers(&b.select(x, i)));
    Ok(b.stack(&images.collect::<Result<Vec<_>, _>>()?)?)
}
