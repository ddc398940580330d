//! Intervals and random numbers that every score shares.

pub mod interval;
pub mod legacy_numpy;
pub mod random;
