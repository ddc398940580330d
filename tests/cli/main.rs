//! The real binary, as a user calls it: one behaviour per test.

mod attribution;
mod cuda;
mod demo;
mod devices;
#[path = "../backends/fake.rs"]
mod fake;
mod folders;
mod generate;
mod glyphs;
mod inputs;
mod latent;
mod metric;
mod odd_files;
mod pixel;
mod quantitative;
mod readme;
mod real_weights;
mod resume;
mod score;
mod study;
mod tables;
mod tabular;
mod train;
mod wgpu;
