//! How the work of a convolution is dealt to threads. Only the time depends on it, never a result.

use std::ops::Range;

/// Pixels below which a band is not cut further: every band reads all weights of its channels.
const LEAST_PIXELS: usize = 48;

/// A band of output rows of one image, and some blocks of output channels.
pub struct Unit {
    pub image: usize,
    pub rows: Range<usize>,
    pub blocks: Range<usize>,
}

/// Cuts `images` of `rows × width` output pixels into bands of at most `fit` rows, whose inputs stay in the cache, and
/// where these are few for the threads into shorter bands, then by blocks of channels.
pub fn units(images: usize, rows: usize, width: usize, fit: usize, blocks: usize) -> Vec<Unit> {
    let wanted = 4 * rayon::current_num_threads();
    let least = LEAST_PIXELS.div_ceil(width.max(1)).clamp(1, rows.max(1));
    let enough = rows.div_ceil(wanted.div_ceil(images.max(1)));
    let band = fit.min(enough).max(least);
    let bands = images * rows.div_ceil(band);
    let cuts = wanted.div_ceil(bands.max(1)).clamp(1, blocks);
    let cut = blocks.div_ceil(cuts);
    let mut units = Vec::new();
    for image in 0..images {
        for row in (0..rows).step_by(band) {
            for block in (0..blocks).step_by(cut) {
                units.push(Unit {
                    image,
                    rows: row..(row + band).min(rows),
                    blocks: block..(block + cut).min(blocks),
                });
            }
        }
    }
    units
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_every_block_is_dealt_once() {
        for (images, rows, width, fit, blocks) in [
            (1, 7, 7, 100, 32),
            (3, 5, 48, 1, 4),
            (2, 100, 300, 3, 1),
            (1, 1, 1, 1, 5),
        ] {
            let mut seen = vec![0; images * rows * blocks];
            for unit in units(images, rows, width, fit, blocks) {
                for row in unit.rows {
                    for block in unit.blocks.clone() {
                        seen[(unit.image * rows + row) * blocks + block] += 1;
                    }
                }
            }
            assert!(seen.iter().all(|&n| n == 1));
        }
    }
}
