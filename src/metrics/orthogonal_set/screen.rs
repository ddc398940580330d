//! Sets decided in `f32`, where no decision is near its threshold.
//!
//! A difference is off by half a unit in its last place, and a sum of d products in sixteen lanes by d/16 + 5 such units of the product of
//! the two norms, a norm by half of that; so a cosine is off by less than [`margin`]. A sample with a cosine that near to ±τ or τ − 1, with two L1
//! norms that near to each other (ties included, whose order rounding could change), or with values whose squares leave the range of `f32`
//! is not decided here. Instruction sets may round differently: what they decide is the same.

use super::{Complement, Matrix, OrthogonalSet, OrthogonalSetParams, ZeroPerturbations};

const LANES: usize = 16;

/// A row's sixteen values.
type Lanes = [f32; LANES];

/// Squares of norms outside of this are not trusted.
const TRUSTED: std::ops::RangeInclusive<f32> = 1e-30..=1e30;

/// What a cosine, or an L1 norm in proportion to itself, may be off: four times the bound above.
fn margin(d: usize) -> f32 {
    4.0 * (d as f32 / LANES as f32 + 8.0) * f32::EPSILON
}

/// δ of one sample's candidates, kept from sample to sample so that memory is not asked for again.
#[derive(Default)]
pub(super) struct Screen {
    /// Rows of whole lanes, the rest of the last ones zero.
    rows: Vec<Lanes>,
    /// Lanes of a row.
    lanes: usize,
    l1: Vec<f32>,
    /// 1 / ‖δ‖, and 0 of zero perturbations, whose cosines are 0.
    inverse: Vec<f32>,
    order: Vec<usize>,
}

impl Screen {
    /// The set, or none where `f32` does not decide.
    pub(super) fn select(
        &mut self,
        original: &[f32],
        candidates: Matrix<'_>,
        params: &OrthogonalSetParams,
    ) -> Option<OrthogonalSet> {
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("fma") {
                // SAFETY: the instruction sets were detected on this machine.
                return unsafe { self.select_avx512(original, candidates, params) };
            }
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                // SAFETY: the instruction sets were detected on this machine.
                return unsafe { self.select_avx2(original, candidates, params) };
            }
        }
        self.select_portable(original, candidates, params)
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,fma")]
    fn select_avx512(
        &mut self,
        original: &[f32],
        candidates: Matrix<'_>,
        params: &OrthogonalSetParams,
    ) -> Option<OrthogonalSet> {
        self.select_portable(original, candidates, params)
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma")]
    fn select_avx2(
        &mut self,
        original: &[f32],
        candidates: Matrix<'_>,
        params: &OrthogonalSetParams,
    ) -> Option<OrthogonalSet> {
        self.select_portable(original, candidates, params)
    }

    #[inline(always)]
    fn select_portable(
        &mut self,
        original: &[f32],
        candidates: Matrix<'_>,
        params: &OrthogonalSetParams,
    ) -> Option<OrthogonalSet> {
        let (n, d) = (candidates.rows(), original.len());
        // Without candidates there is nothing to be quick about.
        if n == 0 || !self.fill(original, candidates) {
            return None;
        }
        let margin = margin(d);
        self.sort();
        let l1 = |i: usize| self.l1[i];
        let clear = |pair: &[usize]| {
            let (a, b) = (l1(pair[0]), l1(pair[1]));
            // Zero perturbations keep their order.
            b - a > margin * b || b == 0.0
        };
        if !self.order.windows(2).all(clear) {
            return None;
        }
        let tau = params.tau as f32;
        let mut selected: Vec<usize> = Vec::with_capacity(n);
        let mut set = OrthogonalSet::default();
        for &i in &self.order {
            if self.l1[i] == 0.0 && params.zeros == ZeroPerturbations::Excluded {
                set.zero.push(i);
                continue;
            }
            let own = self.row(i);
            let (mut all, mut any, mut each) = (true, false, true);
            for &j in &selected {
                let cosine = dot(own, self.row(j)) * (self.inverse[i] * self.inverse[j]);
                let (size, below) = (cosine.abs(), cosine + 1.0);
                if (size - tau).abs() <= margin || (below - tau).abs() <= margin {
                    return None;
                }
                let (orthogonal, complementary) = (size < tau, below < tau);
                all &= orthogonal;
                any |= complementary;
                each &= orthogonal || complementary;
            }
            let complementary = match params.complement {
                Complement::Any => any,
                Complement::Each => each,
            };
            match (all, complementary) {
                (true, _) => set.orthogonal.push(i),
                (false, true) => set.complementary.push(i),
                (false, false) => continue,
            }
            selected.push(i);
        }
        set.selected = selected;
        Some(set)
    }

    /// Takes the perturbations; false if one is not to be trusted.
    #[inline(always)]
    fn fill(&mut self, original: &[f32], candidates: Matrix<'_>) -> bool {
        let (origin, origin_rest) = original.as_chunks::<LANES>();
        self.lanes = original.len().div_ceil(LANES);
        self.rows
            .resize(candidates.rows() * self.lanes, [0.0; LANES]);
        self.l1.clear();
        self.inverse.clear();
        let mut trusted = true;
        let rows = self.rows.chunks_exact_mut(self.lanes);
        for (deltas, row) in rows.zip(candidates.data().chunks_exact(original.len())) {
            let (row, rest) = row.as_chunks::<LANES>();
            let (mut l1, mut squares) = ([0.0; LANES], [0.0; LANES]);
            for ((kept, e), z) in deltas.iter_mut().zip(row).zip(origin) {
                let mut delta = *e;
                for k in 0..LANES {
                    delta[k] -= z[k];
                }
                add(&mut l1, &mut squares, &delta);
                *kept = delta;
            }
            if let Some(kept) = deltas.get_mut(row.len()) {
                let mut delta = [0.0; LANES];
                for ((delta, &e), &z) in delta.iter_mut().zip(rest).zip(origin_rest) {
                    *delta = e - z;
                }
                add(&mut l1, &mut squares, &delta);
                *kept = delta;
            }
            let (l1, squares) = (join(l1), join(squares));
            let zero = l1 == 0.0;
            // NaN is in no range.
            trusted &= zero || TRUSTED.contains(&squares);
            self.l1.push(l1);
            self.inverse
                .push(if zero { 0.0 } else { 1.0 / squares.sqrt() });
        }
        trusted
    }

    #[inline(always)]
    fn row(&self, i: usize) -> &[Lanes] {
        &self.rows[i * self.lanes..(i + 1) * self.lanes]
    }

    /// By ascending L1 norm, the lower index first of equals.
    #[inline(always)]
    fn sort(&mut self) {
        self.order.clear();
        self.order.extend(0..self.l1.len());
        let l1 = &self.l1;
        self.order.sort_by(|&a, &b| l1[a].total_cmp(&l1[b]));
    }
}

#[inline(always)]
fn add(l1: &mut Lanes, squares: &mut Lanes, delta: &Lanes) {
    for k in 0..LANES {
        l1[k] += delta[k].abs();
        squares[k] += delta[k] * delta[k];
    }
}

#[inline(always)]
fn dot(a: &[Lanes], b: &[Lanes]) -> f32 {
    let mut sums = [0.0; LANES];
    for (a, b) in a.iter().zip(b) {
        for k in 0..LANES {
            sums[k] += a[k] * b[k];
        }
    }
    join(sums)
}

#[inline(always)]
fn join(mut sums: Lanes) -> f32 {
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            sums[lane] += sums[lane + width];
        }
        width /= 2;
    }
    sums[0]
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
                same(screen.select_portable(&origin, rows, &params));
                same(screen.select(&origin, rows, &params));
            }
        }
        // Both ways for most of them; copies and opposites of equal length are left to f64.
        assert!(decided > all, "{decided} of {}", 2 * all);
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
