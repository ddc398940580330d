//! Counterfactuals of small images: the searches against plain ones in f64, and the invertible network.

mod invertible;
mod linear;
mod prototype;
mod shipped;
mod wachter;
