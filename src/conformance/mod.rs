//! conformance
pub mod synthetic;
