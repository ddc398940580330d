//! Sets decided in `f32`, where no decision is near its threshold.
//!
//! A difference is off by half a unit in its last place, and a sum of d products in sixteen lanes by d/16 + 5 such units of the product of
//! the two norms, a norm by half of that; so a cosine is off by less than [`margin`]. A sample with a cosine that near to ±τ or τ − 1, with two L1
//! norms that near to each other (ties included, whose order rounding could change), or with values whose squares leave the range of `f32`
//! is not decided here. Instruction sets may round differently: what they decide is the same.

use super::{Complement, Matrix, OrthogonalSet, OrthogonalSetParams, ZeroPerturbations};
use crate::tensor::cpu::differences::{Differences, LANES};

/// Squares of norms outside of this are not trusted.
const TRUSTED: std::ops::RangeInclusive<f32> = 1e-30..=1e30;

/// What a cosine, or an L1 norm in proportion to itself, may be off: four times the bound above.
fn margin(d: usize) -> f32 {
    4.0 * (d as f32 / LANES as f32 + 8.0) * f32::EPSILON
}

/// What is known of one sample's candidates, kept from sample to sample so that memory is not asked for again.
#[derive(Default)]
pub(super) struct Screen {
    deltas: Differences,
    /// 1 / ‖δ‖, and 0 of zero perturbations, whose cosines are 0.
    inverse: Vec<f32>,
    order: Vec<usize>,
    /// Members, how each was admitted, and 1 / ‖δ‖ of each.
    members: Vec<usize>,
    orthogonal: Vec<usize>,
    complementary: Vec<usize>,
    inverse_of_members: Vec<f32>,
    products: Vec<f32>,
}

impl Screen {
    /// The set, or none where `f32` does not decide.
    pub(super) fn select(
        &mut self,
        original: &[f32],
        candidates: Matrix<'_>,
        params: &OrthogonalSetParams,
    ) -> Option<OrthogonalSet> {
        // Without candidates there is nothing to be quick about.
        if candidates.rows() == 0 || !self.fill(original, candidates) {
            return None;
        }
        let margin = margin(original.len());
        self.sort();
        let l1 = self.deltas.l1();
        let clear = |pair: &[usize]| {
            let (a, b) = (l1[pair[0]], l1[pair[1]]);
            // Zero perturbations keep their order.
            b - a > margin * b || b == 0.0
        };
        if !self.order.windows(2).all(clear) {
            return None;
        }
        let tau = params.tau as f32;
        let mut zero = Vec::new();
        self.members.clear();
        self.orthogonal.clear();
        self.complementary.clear();
        self.inverse_of_members.clear();
        for &i in &self.order {
            if l1[i] == 0.0 && params.zeros == ZeroPerturbations::Excluded {
                zero.push(i);
                continue;
            }
            { &self.deltas }.products(i, &self.members, &mut self.products);
            // Counted without branches: which way a cosine falls cannot be foretold.
            let mut counts = [0u32; 4];
            let lengths = self.inverse_of_members.iter().map(|l| l * self.inverse[i]);
            for (product, lengths) in self.products.iter().zip(lengths) {
                let cosine = product * lengths;
                let (size, below) = (cosine.abs(), cosine + 1.0);
                let near = ((size - tau).abs() <= margin) | ((below - tau).abs() <= margin);
                let (orthogonal, complementary) = (size < tau, below < tau);
                let found = [orthogonal, complementary, orthogonal | complementary, near];
                for (count, found) in counts.iter_mut().zip(found) {
                    *count += u32::from(found);
                }
            }
            let [orthogonal, complementary, either, near] = counts;
            if near > 0 {
                return None;
            }
            let all = self.members.len() as u32;
            let complementary = match params.complement {
                Complement::Any => complementary > 0,
                Complement::Each => either == all,
            };
            match (orthogonal == all, complementary) {
                (true, _) => self.orthogonal.push(i),
                (false, true) => self.complementary.push(i),
                (false, false) => continue,
            }
            self.members.push(i);
            self.inverse_of_members.push(self.inverse[i]);
        }
        Some(OrthogonalSet {
            selected: self.members.clone(),
            orthogonal: self.orthogonal.clone(),
            complementary: self.complementary.clone(),
            zero,
        })
    }

    /// Takes the perturbations; false if one is not to be trusted.
    fn fill(&mut self, original: &[f32], candidates: Matrix<'_>) -> bool {
        self.deltas.take(original, candidates.data());
        self.inverse.clear();
        let lengths = self.deltas.l1().iter().zip(self.deltas.squares());
        self.inverse
            .extend(lengths.map(|(&l1, &squares)| match l1 == 0.0 {
                true => 0.0,
                false => 1.0 / squares.sqrt(),
            }));
        // NaN is in no range.
        let trusted = |(&l1, squares): (&f32, &f32)| l1 == 0.0 || TRUSTED.contains(squares);
        { self.deltas.l1().iter().zip(self.deltas.squares()) }.all(trusted)
    }

    /// By ascending L1 norm, the lower index first of equals.
    fn sort(&mut self) {
        let l1 = self.deltas.l1();
        self.order.clear();
        self.order.extend(0..l1.len());
        if l1.len() > LANES {
            self.order.sort_by(|&a, &b| l1[a].total_cmp(&l1[b]));
            return;
        }
        // Each counts who comes before it, all at once.
        let mut norms = [f32::INFINITY; LANES];
        norms[..l1.len()].copy_from_slice(l1);
        let mut places = [0u32; LANES];
        for (j, &norm) in l1.iter().enumerate() {
            for (k, (place, &other)) in places.iter_mut().zip(&norms).enumerate() {
                *place += u32::from((norm < other) | ((norm == other) & (j < k)));
            }
        }
        for (i, &place) in places[..l1.len()].iter().enumerate() {
            self.order[place as usize] = i;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{perturbations, select_exactly};
    use super::*;
    use crate::stats::random::{Draws, Stream};

    fn readings() -> [OrthogonalSetParams; 3] {
        let text = OrthogonalSetParams {
            complement: Complement::Each,
            ..OrthogonalSetParams::default()
        };
        [
            OrthogonalSetParams::as_printed(),
            OrthogonalSetParams::default(),
            text,
        ]
    }

    /// Dense, sparse and single differences, pairs of opposites, copies and zeros, of dimensions around whole lanes.
    #[test]
    fn what_is_decided_is_what_f64_decides() {
        let mut draws = Draws::new(5, Stream::BOOTSTRAP, 0);
        let (mut decided, mut all) = (0, 0);
        for case in 0..600 {
            let (n, d) = (1 + case % 23, [2, 11, 15, 16, 17, 101][case % 6]);
            let origin: Vec<f32> = (0..d).map(|_| draws.normal() as f32).collect();
            let mut rows = vec![0.0f32; n * d];
            for i in 0..n {
                for k in 0..d {
                    let step = match case % 5 {
                        0 => draws.normal(),
                        1 if draws.uniform() < 0.2 => draws.normal(),
                        2 if k == i % d => draws.normal(),
                        3 if i.is_multiple_of(2) => draws.normal(),
                        3 if i % 4 == 1 => 1.01 * f64::from(origin[k] - rows[(i - 1) * d + k]),
                        _ => 0.0,
                    };
                    rows[i * d + k] = origin[k] + step as f32;
                }
            }
            let rows = Matrix::new("rows", n, d, &rows).unwrap();
            let mut screen = Screen::default();
            for params in readings() {
                all += 1;
                let exact = select_exactly(&perturbations(&origin, rows), d, &params);
                let mut same = |found: Option<OrthogonalSet>| {
                    let Some(found) = found else { return };
                    decided += 1;
                    assert_eq!(found, exact, "case {case}");
                };
                same(screen.select(&origin, rows, &params));
            }
        }
        // Most of them; copies and opposites of equal length are left to f64.
        assert!(2 * decided > all, "{decided} of {all}");
    }

    #[test]
    fn decisions_near_a_threshold_ties_and_wild_values_are_left_to_f64() {
        let mut screen = Screen::default();
        let mut decides = |rows: &[f32]| {
            let rows = Matrix::new("t", rows.len() / 2, 2, rows).unwrap();
            let params = OrthogonalSetParams::as_printed();
            screen.select(&[0.0, 0.0], rows, &params).is_some()
        };
        // The second is a little longer, at right angles.
        assert!(decides(&[1.0, 0.0, 0.0, 1.1]));
        // Cosines 0.15 and −0.85.
        let (tau, rest) = (0.15f32, (1.0f32 - 0.15 * 0.15).sqrt());
        assert!(!decides(&[1.0, 0.0, 2.0 * tau, 2.0 * rest]));
        let (below, rest) = (-0.85f32, (1.0f32 - 0.85 * 0.85).sqrt());
        assert!(!decides(&[1.0, 0.0, 2.0 * below, 2.0 * rest]));
        // Equal lengths, and lengths that differ by less than rounding.
        assert!(!decides(&[1.0, 0.0, 0.0, 1.0]));
        assert!(!decides(&[1.0, 0.0, 0.0, 1.0 + 1e-7]));
        // Squares outside of f32, NaN, and nothing at all.
        assert!(!decides(&[1e30, 0.0, 0.0, 2e30]));
        assert!(!decides(&[1e-30, 0.0, 0.0, 2e-30]));
        assert!(!decides(&[1.0, 0.0, 0.0, f32::NAN]));
        assert!(!decides(&[]));
        // Several zero perturbations are all the same.
        assert!(decides(&[0.0, 0.0, 1.0, 0.0, 0.0, 0.0]));
    }
}
