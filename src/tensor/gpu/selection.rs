//! Orthogonal and complementary sets of many samples, in two f32.

use super::Gpu;
use super::kernels::{ORTHOGONAL_CHOOSE, ORTHOGONAL_GRAM, ORTHOGONAL_LENGTHS};
use super::pieces::{Piece, pieces};
use super::tensor::Tensor;
use crate::{Precision, Shape, TensorError};

/// Most candidates of a sample: the workgroup that chooses remembers them all.
pub const MOST_CANDIDATES: usize = 1024;
/// Candidates of a tile of the Gram matrix.
const TILE: usize = 16;
/// What a complementary member's number is larger by.
const COMPLEMENTARY: u32 = 1 << 16;

/// Sizes and rules of a selection.
pub struct Selection {
    pub samples: usize,
    /// Candidates of a sample, and values of a candidate.
    pub n: usize,
    pub d: usize,
    pub tau: f64,
    pub exclude_zeros: bool,
    /// Complementary to each member, not to any.
    pub each: bool,
}

/// The members of a set in the order of admission, whether they are complementary, and the zeros that were left out.
pub struct Chosen {
    pub members: Vec<(usize, bool)>,
    pub zeros: Vec<usize>,
}

/// A number as two f32.
fn two(value: f64) -> [u32; 2] {
    let high = value as f32;
    [high, (value - f64::from(high)) as f32].map(f32::to_bits)
}

impl Gpu {
    /// The sets of all samples of `[samples, d]` originals and `[samples, n, d]` candidates, at most
    /// [`MOST_CANDIDATES`] each; `None` where a decision is too close for the device.
    pub fn choose(
        &self,
        originals: &[f32],
        candidates: &[f32],
        rules: &Selection,
    ) -> Result<Vec<Option<Chosen>>, TensorError> {
        let &Selection { samples, n, d, .. } = rules;
        let most = self.driver.limits().groups;
        let all = pieces("orthogonal sets", samples, 1, |p| {
            p.images() <= most && self.fits(p.images() * n * d) && self.fits(p.images() * 2 * n * n)
        })?;
        let mut chosen = Vec::with_capacity(samples);
        for Piece { images, .. } in all {
            let z = &originals[images.start * d..images.end * d];
            let e = &candidates[images.start * n * d..images.end * n * d];
            chosen.extend(self.choose_some(z, e, images.len(), rules)?);
        }
        Ok(chosen)
    }

    fn choose_some(
        &self,
        originals: &[f32],
        candidates: &[f32],
        samples: usize,
        rules: &Selection,
    ) -> Result<Vec<Option<Chosen>>, TensorError> {
        let &Selection { n, d, .. } = rules;
        let upload = |values: &[f32]| -> Result<Tensor, TensorError> {
            let buffer = self.driver.upload(bytemuck::cast_slice(values))?;
            let shape = Shape::new(1, 1, 1, values.len());
            Ok(Tensor::new(shape, Precision::F32, buffer))
        };
        let (z, e) = (upload(originals)?, upload(candidates)?);
        let lengths = self.scratch(Shape::new(samples, 1, n, 2))?;
        let gram = self.scratch(Shape::new(samples, n, n, 2))?;
        let words = 3 + 2 * n;
        let found = self.scratch(Shape::new(samples, 1, 1, words))?;
        let [z, e] = [&z, &e].map(|t| self.reads(t, 0..t.shape().len()));
        let (z, e) = (z?, e?);
        let outputs = [&lengths, &gram, &found].map(|t| self.writes(t, 0..t.shape().len()));
        let mut bindings = vec![e.binding.clone(), z.binding.clone()];
        for output in outputs {
            bindings.push(output?.binding);
        }
        let mut params = vec![e.at(0), z.at(0)];
        params.extend([samples, n, d, 0].map(|v| v as u32));
        params.extend([rules.exclude_zeros, rules.each].map(u32::from));
        params.extend(two(rules.tau * rules.tau));
        params.extend(two((1.0 - rules.tau) * (1.0 - rules.tau)));
        self.launch_values(&ORTHOGONAL_LENGTHS, samples * n, &params, &bindings)?;
        let tiles = n.div_ceil(TILE);
        self.launch(
            &ORTHOGONAL_GRAM,
            [tiles, tiles, samples],
            &params,
            &bindings,
        )?;
        let [x, y] = self.grid(samples);
        self.launch(&ORTHOGONAL_CHOOSE, [x, y, 1], &params, &bindings)?;
        let bytes = 4 * samples * words;
        let found = self.driver.download(found.buffer()?, 0..bytes)?;
        let found = found.as_chunks::<4>().0.iter();
        let found: Vec<u32> = found.map(|b| u32::from_ne_bytes(*b)).collect();
        Ok(found
            .chunks_exact(words)
            .map(|words| {
                let &[doubt, members, zeros, ref rest @ ..] = words else {
                    return None;
                };
                let member = |&v: &u32| ((v % COMPLEMENTARY) as usize, v >= COMPLEMENTARY);
                (doubt == 0).then(|| Chosen {
                    members: rest[..members as usize].iter().map(member).collect(),
                    zeros: rest[n..][..zeros as usize]
                        .iter()
                        .map(|&v| v as usize)
                        .collect(),
                })
            })
            .collect())
    }
}
