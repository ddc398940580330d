//! foil
pub mod conformance;
pub mod metrics;
pub mod nets;
pub mod stats;
pub mod tensor;
