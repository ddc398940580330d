//! The feature distance of LPIPS.

use super::kernels::{LPIPS_DISTANCES, LPIPS_MEAN, LPIPS_PAIRS};
use super::pieces::{Piece, pieces};
use super::tensor::Tensor;
use super::{Gpu, bits};
use crate::{Compared, Shape, Tap, TensorError, rules};

/// Pixels that a workgroup of `distances` and one of `mean` take.
const PIXELS: usize = 16;
const PART: usize = 64;

/// Sums of the parts of pairs, in the order of the pairs, and the pixels of an image.
struct Sums {
    parts: Vec<Tensor>,
    pixels: usize,
}

/// Means of images whose sums of parts lie side by side.
fn mean_of_parts(sums: &[f64], pixels: usize) -> Vec<f64> {
    let images = sums.chunks(pixels.div_ceil(PART));
    images
        .map(|parts| parts.iter().sum::<f64>() / pixels as f64)
        .collect()
}

impl Gpu {
    /// The map of weighted squared differences, one value per pixel.
    pub(super) fn distance_map(
        &self,
        a: &Tensor,
        b: &Tensor,
        head: &[f32],
    ) -> Result<Tensor, TensorError> {
        let out = rules::feature_distance(a.shape(), b.shape(), head)?;
        let y = self.tensor(out)?;
        if a.shape().is_empty() {
            return Ok(y);
        }
        let head = self.constant(&bits(head).collect::<Vec<_>>())?;
        let c = a.shape().c;
        let all = pieces("feature distance", 1, out.len(), |p| {
            self.fits(p.rows() * c)
        })?;
        for Piece { rows, .. } in all {
            let a = self.reads(a, rows.start * c..rows.end * c)?;
            let b = self.reads(b, rows.start * c..rows.end * c)?;
            let to = self.writes(&y, rows.clone())?;
            let params = [
                a.at(0),
                b.at(0),
                to.at(0),
                c as u32,
                rows.len() as u32,
                0,
                0,
                0,
            ];
            let [gx, gy] = self.grid(rows.len().div_ceil(PIXELS));
            let bindings = [a.binding, b.binding, head.binding(), to.binding];
            self.launch(&LPIPS_DISTANCES, [gx, gy, 1], &params, &bindings)?;
        }
        Ok(y)
    }

    /// The mean of each image's map: sums of 64 pixels come back in two f32 each and are added in f64. Everything is
    /// launched before anything is waited for.
    pub(super) fn mean_distances(
        &self,
        compared: &[Compared<'_, Self>],
    ) -> Result<Vec<Vec<f64>>, TensorError> {
        let maps = compared
            .iter()
            .map(|c| rules::feature_distance(c.a.shape(), c.b.shape(), c.head))
            .collect::<Result<Vec<_>, _>>()?;
        let parts = |map: &Shape| map.n * map.image().div_ceil(PART);
        let sums = self.scratch(Shape::new(1, 1, maps.iter().map(parts).sum(), 2))?;
        let mut first = 0;
        for (compared, map) in compared.iter().zip(&maps) {
            if !compared.a.shape().is_empty() {
                self.sum_parts(compared, *map, &sums, first)?;
            }
            first += parts(map);
        }
        let sums = self.read_parts(&sums)?;
        let mut rest = &sums[..];
        let mut means = Vec::with_capacity(maps.len());
        for (compared, map) in compared.iter().zip(&maps) {
            let (own, others) = rest.split_at(parts(map));
            rest = others;
            means.push(match compared.a.shape().is_empty() {
                true => vec![0.0 / map.image() as f64; map.n],
                false => mean_of_parts(own, map.image()),
            });
        }
        Ok(means)
    }

    /// Sums of the parts of one comparison, from the place `to` of `sums`.
    fn sum_parts(
        &self,
        compared: &Compared<'_, Self>,
        map: Shape,
        sums: &Tensor,
        to: usize,
    ) -> Result<(), TensorError> {
        let Compared { a, b, head } = compared;
        let (pixels, c) = (map.image(), a.shape().c);
        let head = self.constant(&bits(head).collect::<Vec<_>>())?;
        // Pieces of whole parts: a part is summed in one order, wherever a launch begins.
        let parts = pixels.div_ceil(PART);
        let all = pieces("feature distance", map.n, parts, |p| {
            self.fits(p.images() * p.rows() * PART * c)
        })?;
        for piece in &all {
            let here = (piece.rows.end * PART).min(pixels) - piece.rows.start * PART;
            let first = piece.images.start * pixels + piece.rows.start * PART;
            let values = first * c..(first + piece.images() * here) * c;
            let a = self.reads(a, values.clone())?;
            let b = self.reads(b, values)?;
            let count = piece.images() * piece.rows();
            let first = to + piece.images.start * parts + piece.rows.start;
            let to = self.writes(sums, 2 * first..2 * (first + count))?;
            let params = [
                a.at(0),
                b.at(0),
                to.at(0),
                c as u32,
                here as u32,
                piece.rows() as u32,
                count as u32,
                0,
            ];
            let [gx, gy] = self.grid(count);
            let bindings = [a.binding, b.binding, head.binding(), to.binding];
            self.launch(&LPIPS_MEAN, [gx, gy, 1], &params, &bindings)?;
        }
        Ok(())
    }

    /// Pairs of f32 as the sums they stand for.
    fn read_parts(&self, sums: &Tensor) -> Result<Vec<f64>, TensorError> {
        if sums.shape().is_empty() {
            return Ok(Vec::new());
        }
        let flat = sums.view(Shape::new(1, 1, 1, sums.shape().len()))?;
        let values = self.download_array(&flat)?.data;
        let pairs = values.as_chunks::<2>().0.iter();
        Ok(pairs.map(|[h, l]| f64::from(*h) + f64::from(*l)).collect())
    }

    /// Means of pairs of images, tap by tap. Where pairs share images, those of a tap are put side by side and one launch
    /// takes all pairs; everything is launched before anything is waited for.
    pub(super) fn distances_of_pairs(
        &self,
        taps: &[Tap<'_, Self>],
        pairs: &[[usize; 2]],
    ) -> Result<Vec<Vec<f64>>, TensorError> {
        let sums = taps
            .iter()
            .map(|tap| self.sum_pairs(tap, pairs))
            .collect::<Result<Vec<_>, _>>()?;
        let mut means = Vec::with_capacity(taps.len());
        for (tap, sums) in taps.iter().zip(sums) {
            means.push(match sums {
                Some(Sums { parts, pixels }) => {
                    let mut means = Vec::with_capacity(pairs.len());
                    for part in &parts {
                        means.extend(mean_of_parts(&self.read_parts(part)?, pixels));
                    }
                    means
                }
                None => {
                    let compared = pairs.iter().map(|&[a, b]| Compared {
                        a: tap.images[a],
                        b: tap.images[b],
                        head: tap.head,
                    });
                    self.mean_distances(&compared.collect::<Vec<_>>())?.concat()
                }
            });
        }
        Ok(means)
    }

    /// Sums of the parts of all pairs of a tap; `None` where pair after pair is as good, or all images together are more
    /// than a kernel may see.
    fn sum_pairs(
        &self,
        tap: &Tap<'_, Self>,
        pairs: &[[usize; 2]],
    ) -> Result<Option<Sums>, TensorError> {
        let shapes: Vec<Shape> = tap.images.iter().map(|x| x.shape()).collect();
        let values: usize = shapes.iter().map(Shape::len).sum();
        let single = shapes.iter().all(|s| s.n == 1 && !s.is_empty());
        if pairs.len() < tap.images.len().max(2) || !single || !self.fits(values) {
            return Ok(None);
        }
        let images: Vec<Tensor> = tap.images.iter().map(|&x| x.clone()).collect();
        let x = self.stacked(&images)?;
        let out = rules::feature_distance(x.shape(), x.shape(), tap.head)?;
        let pixels = out.image();
        let parts = pixels.div_ceil(PART);
        let head = self.constant(&bits(tap.head).collect::<Vec<_>>())?;
        let mut all = Vec::new();
        for Piece { images, .. } in pieces("pairs of a set", pairs.len(), 1, |p| {
            self.fits(2 * p.images() * parts)
        })? {
            let some = &pairs[images];
            let table: Vec<u32> = some.iter().flatten().map(|&i| i as u32).collect();
            let table = self.constant(&table)?;
            let sums = self.scratch(Shape::new(some.len(), 1, parts, 2))?;
            let from = self.reads(&x, 0..x.shape().len())?;
            let to = self.writes(&sums, 0..sums.shape().len())?;
            let count = some.len() * parts;
            let params = [
                from.at(0),
                from.at(0),
                to.at(0),
                x.shape().c as u32,
                pixels as u32,
                parts as u32,
                count as u32,
                0,
            ];
            let [gx, gy] = self.grid(count);
            let bindings = [
                from.binding.clone(),
                from.binding,
                head.binding(),
                to.binding,
                table.binding(),
            ];
            self.launch(&LPIPS_PAIRS, [gx, gy, 1], &params, &bindings)?;
            all.push(sums);
        }
        Ok(Some(Sums { parts: all, pixels }))
    }
}
