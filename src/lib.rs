//! foil
pub mod conformance;
pub mod nets;
pub mod tensor;
