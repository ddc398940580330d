//! Nearest-neighbour resizing. Pillow steps through the source by adding the scale again and again, so that rounding
//! errors add up: the same is done here.

use crate::images::Image;
use crate::tensor::{FIXED_BITS, FixedTaps};

/// `image` at another size.
pub fn resize(image: &Image, width: usize, height: usize) -> Image {
    let columns = positions(image.width, width);
    let mut pixels = Vec::with_capacity(width * height * 3);
    for row in positions(image.height, height) {
        for column in &columns {
            let at = (row * image.width + column) * 3;
            pixels.extend_from_slice(&image.pixels[at..at + 3]);
        }
    }
    Image {
        width,
        height,
        pixels,
    }
}

/// Each of these source positions, unchanged.
pub fn taps(positions: Vec<usize>) -> Vec<FixedTaps> {
    let one = |first| FixedTaps {
        first,
        weights: vec![1 << FIXED_BITS],
    };
    positions.into_iter().map(one).collect()
}

/// The source position of each target position.
pub fn positions(source: usize, target: usize) -> Vec<usize> {
    let scale = source as f64 / target as f64;
    let mut position = scale * 0.5;
    let mut positions = Vec::with_capacity(target);
    for _ in 0..target {
        positions.push((position as usize).min(source - 1));
        position += scale;
    }
    positions
}
