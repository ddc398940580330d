//! foil
pub mod nets;
pub mod tensor;
