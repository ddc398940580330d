//! Results for people and programs, one file per format.

pub mod aligned;
pub mod contact_sheet;
pub mod csv;
pub mod heat_map;
pub mod json;
pub mod study_tables;
pub mod table;
