//! Results for people and programs, one file per format.

pub mod csv;
pub mod heat_map;
pub mod json;
pub mod table;
