//! The mean of glyphs that the [generator](super::generator) draws.
//!
//! Pairs of weight below [`CUT`] are left out. Together they weigh less than 48 · 48 · [`CUT`] = 2.3e-9. Per unit of
//! weight a glyph moves an intensity by the steepest slope of the edge, 1.2 per pixel, times the difference of two
//! distances, less than 0.3 · 64 pixels in an image of 64: together less than 2e-5 grey levels of 255.

use super::Generator;
use super::atlas::GRID;
use super::choice;
use super::embedding::LATENT;

/// Pairs of character and typeface of less weight are not drawn.
pub const CUT: f64 = 1e-12;

/// The glyphs that are drawn at a latent vector.
pub(super) struct Mixture {
    /// Glyph, character, typeface, for every pair that is not cut.
    pairs: Vec<[usize; 3]>,
    /// Weights of all characters and all typefaces.
    weights: [Vec<f64>; 2],
    /// Mean half sides.
    pub half: [f64; 2],
}

impl Mixture {
    pub fn new(generator: &Generator, latent: &[f32; LATENT]) -> Self {
        let weights = generator.weights(latent);
        let fonts = weights[1].len();
        let mut pairs = Vec::new();
        let mut half = [0.0; 2];
        for (c, by_character) in weights[0].iter().enumerate() {
            for (f, by_font) in weights[1].iter().enumerate() {
                let weight = by_character * by_font;
                if weight >= CUT {
                    let glyph = c * fonts + f;
                    pairs.push([glyph, c, f]);
                    for (sum, &h) in half.iter_mut().zip(&generator.half_extents[glyph]) {
                        *sum += weight * f64::from(h);
                    }
                }
            }
        }
        Self {
            pairs,
            weights,
            half,
        }
    }

    fn weight(&self, [_, c, f]: [usize; 3]) -> f64 {
        self.weights[0][c] * self.weights[1][f]
    }

    /// The mean distance image.
    pub fn grid(&self, generator: &Generator) -> Box<[f32; GRID * GRID]> {
        let mut grid = Box::new([0.0f32; GRID * GRID]);
        for &pair in &self.pairs {
            let weight = self.weight(pair) as f32;
            for (sum, &d) in grid.iter_mut().zip(&generator.distances[pair[0]]) {
                *sum += weight * d;
            }
        }
        grid
    }

    /// The gradients by the two points, given those by the nodes of the mean image and by the mean half sides.
    pub fn gradient(
        &self,
        generator: &Generator,
        nodes: &[f64; GRID * GRID],
        by_half: [f64; 2],
    ) -> [[f64; 3]; 2] {
        let nodes = nodes.map(|v| v as f32);
        let [characters, fonts] = &self.weights;
        let mut sums = [vec![0.0; characters.len()], vec![0.0; fonts.len()]];
        let mut drawn = [vec![false; characters.len()], vec![false; fonts.len()]];
        for &[glyph, c, f] in &self.pairs {
            let half = generator.half_extents[glyph].map(f64::from);
            let by_weight = dot(&nodes, &generator.distances[glyph])
                + by_half[0] * half[0]
                + by_half[1] * half[1];
            sums[0][c] += fonts[f] * by_weight;
            sums[1][f] += characters[c] * by_weight;
            drawn[0][c] = true;
            drawn[1][f] = true;
        }
        let tables = [
            &generator.embeddings.characters,
            &generator.embeddings.fonts,
        ];
        [0, 1].map(|k| {
            let chosen = (0..sums[k].len())
                .filter(|&i| drawn[k][i])
                .map(|i| (i, self.weights[k][i], sums[k][i]));
            choice::gradient(tables[k], chosen, generator.temperature)
        })
    }
}

/// `Σ a b`: each row of the grid in f32, the rows in f64.
fn dot(a: &[f32; GRID * GRID], b: &[f32; GRID * GRID]) -> f64 {
    const LANES: usize = 8;
    let rows = a.chunks_exact(GRID).zip(b.chunks_exact(GRID));
    let row = |(a, b): (&[f32], &[f32])| {
        let mut sums = [0.0f32; LANES];
        for (a, b) in a.chunks_exact(LANES).zip(b.chunks_exact(LANES)) {
            for k in 0..LANES {
                sums[k] += a[k] * b[k];
            }
        }
        sums.iter().map(|&s| f64::from(s)).sum::<f64>()
    };
    rows.map(row).sum()
}
