//! The papers' studies: from the scores of many groups to the tables that were printed.

pub mod tables;
