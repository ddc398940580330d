//! foil
pub mod cli;
pub mod conformance;
pub mod images;
pub mod metrics;
pub mod nets;
pub mod report;
pub mod score;
pub mod stats;
pub mod tensor;
pub mod weights;
