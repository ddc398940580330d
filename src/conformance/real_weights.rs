//! Real weights for the area `weights`: those shipped with foil, and the larger ones that `scripts/real-weights` gets.

use super::{ConformanceError, Result};
use crate::tensor::StateDict;
use crate::weights::Registry;

pub use crate::weights::shipped_file as shipped;

/// Complete weights of a network, if they are on this machine; nothing is downloaded.
pub fn full_weights(name: &str) -> Result<Option<StateDict>> {
    let fail = |e: crate::weights::WeightsError| ConformanceError::Weights(Box::new(e));
    let registry = Registry::open().map_err(fail)?;
    let card = registry.card(name).map_err(fail)?;
    if registry.find(&card).map_err(fail)?.is_none() {
        return Ok(None);
    }
    Ok(Some(registry.load(&card).map_err(fail)?.dict))
}
