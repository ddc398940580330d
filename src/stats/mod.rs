//! Intervals, random numbers, ranks with their tests, and decision trees.

pub mod decision_tree;
pub mod distributions;
pub mod friedman;
pub mod interval;
pub mod legacy_numpy;
pub mod random;
pub mod ranks;
