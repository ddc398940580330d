//! Random numbers of explainers.

use crate::stats::random::{Draws, Stream};

/// Where an explainer's random numbers come from: of each sample its own sequence.
pub trait Noise {
    /// The next standard normals of the sample at this place of the batch.
    fn normals(&mut self, sample: usize, count: usize) -> Vec<f32>;
    /// The next uniform numbers in [0, 1).
    fn uniforms(&mut self, sample: usize, count: usize) -> Vec<f64>;
    /// The next number below `n`, which is above 0.
    fn below(&mut self, sample: usize, n: usize) -> usize;
    /// The next order of `0..n`.
    fn order(&mut self, sample: usize, n: usize) -> Vec<usize>;
}

/// Numbers that are functions of a seed and of each sample's place among all samples: batches change nothing.
pub struct Keyed {
    draws: Vec<Draws>,
}

impl Keyed {
    /// For samples `first..first + count` of a run.
    pub fn new(seed: u64, first: usize, count: usize) -> Self {
        let of = |i| Draws::new(seed, Stream::LATENT_EXPLAINER, i as u64);
        Self {
            draws: (first..first + count).map(of).collect(),
        }
    }
}

impl Noise for Keyed {
    fn normals(&mut self, sample: usize, count: usize) -> Vec<f32> {
        let mut values = vec![0.0; count];
        self.draws[sample].fill_normal(&mut values);
        values
    }

    fn uniforms(&mut self, sample: usize, count: usize) -> Vec<f64> {
        (0..count).map(|_| self.draws[sample].uniform()).collect()
    }

    fn below(&mut self, sample: usize, n: usize) -> usize {
        self.draws[sample].index_below(n).unwrap_or(0)
    }

    fn order(&mut self, sample: usize, n: usize) -> Vec<usize> {
        self.draws[sample].permutation(n)
    }
}
