//! Golden numbers: the areas of `foil conformance`, through the library and through the binary.

mod cli;
mod diffusion;
mod fails;
mod golden;
mod orthogonal;
mod quantitative;
