//! Squared Euclidean distances by direct difference in `f64`, a few rows against all rows of a set.
//!
//! ‖x − y‖² from differences is exact for ties and duplicates, where ‖x‖² + ‖y‖² − 2x·y is not. Sums run in eight lanes that
//! are joined in a fixed order; the wider instruction sets only speed the same operations up, so all give the same bits.
//! Tiles of 4 queries × 2 candidates keep their sums in registers, so that a loaded value serves several pairs.

use super::matrix::Matrix;

/// Query rows that one task compares with all candidates.
pub(crate) const QUERY_ROWS: usize = 16;

const LANES: usize = 8;
const TILE_QUERIES: usize = 4;
const TILE_CANDIDATES: usize = 2;

/// Squared distances of all queries of a task to two candidates.
type Distances = [[f64; QUERY_ROWS]; TILE_CANDIDATES];

/// Calls `visit(query, candidate, squared distance)` for rows `first..first + QUERY_ROWS` (fewer at the end) of `queries`
/// and all rows of `candidates`.
pub(crate) fn for_each_distance(
    queries: Matrix<'_>,
    first: usize,
    candidates: Matrix<'_>,
    mut visit: impl FnMut(usize, usize, f64),
) {
    // Rows are padded with zeros to whole lanes, and the last tiles with rows of zeros: both add nothing.
    let padded = queries.cols().next_multiple_of(LANES);
    let last = (first + QUERY_ROWS).min(queries.rows());
    let mut wide_queries = vec![0.0; QUERY_ROWS * padded];
    for i in first..last {
        widen(queries.row(i), &mut wide_queries[(i - first) * padded..]);
    }
    let mut wide_candidates = vec![0.0; TILE_CANDIDATES * padded];
    let mut distances: Distances = [[0.0; QUERY_ROWS]; TILE_CANDIDATES];
    for tile in (0..candidates.rows()).step_by(TILE_CANDIDATES) {
        let end = (tile + TILE_CANDIDATES).min(candidates.rows());
        for j in tile..end {
            widen(
                candidates.row(j),
                &mut wide_candidates[(j - tile) * padded..],
            );
        }
        tile_distances(&wide_queries, &wide_candidates, &mut distances);
        for j in tile..end {
            for i in first..last {
                visit(i, j, distances[j - tile][i - first]);
            }
        }
    }
}

fn widen(row: &[f32], out: &mut [f64]) {
    for (wide, &narrow) in out.iter_mut().zip(row) {
        *wide = f64::from(narrow);
    }
}

fn tile_distances(queries: &[f64], candidates: &[f64], out: &mut Distances) {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the instruction set was detected on this machine.
            return unsafe { tile_distances_avx512(queries, candidates, out) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the instruction set was detected on this machine.
            return unsafe { tile_distances_avx2(queries, candidates, out) };
        }
    }
    tile_distances_portable(queries, candidates, out);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn tile_distances_avx512(queries: &[f64], candidates: &[f64], out: &mut Distances) {
    tile_distances_portable(queries, candidates, out);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn tile_distances_avx2(queries: &[f64], candidates: &[f64], out: &mut Distances) {
    tile_distances_portable(queries, candidates, out);
}

#[inline(always)]
fn tile_distances_portable(queries: &[f64], candidates: &[f64], out: &mut Distances) {
    let padded = candidates.len() / TILE_CANDIDATES;
    let (b0, b1) = candidates.split_at(padded);
    let (b0, b1) = (b0.as_chunks::<LANES>().0, b1.as_chunks::<LANES>().0);
    for (tile, rows) in queries.chunks_exact(TILE_QUERIES * padded).enumerate() {
        let row = |i: usize| rows[i * padded..(i + 1) * padded].as_chunks::<LANES>().0;
        let (a0, a1, a2, a3) = (row(0), row(1), row(2), row(3));
        let mut sums = [[0.0; LANES]; TILE_QUERIES * TILE_CANDIDATES];
        let queries = a0.iter().zip(a1).zip(a2.iter().zip(a3));
        for (((a0, a1), (a2, a3)), (b0, b1)) in queries.zip(b0.iter().zip(b1)) {
            for lane in 0..LANES {
                let (b0, b1) = (b0[lane], b1[lane]);
                sums[0][lane] += (a0[lane] - b0) * (a0[lane] - b0);
                sums[1][lane] += (a1[lane] - b0) * (a1[lane] - b0);
                sums[2][lane] += (a2[lane] - b0) * (a2[lane] - b0);
                sums[3][lane] += (a3[lane] - b0) * (a3[lane] - b0);
                sums[4][lane] += (a0[lane] - b1) * (a0[lane] - b1);
                sums[5][lane] += (a1[lane] - b1) * (a1[lane] - b1);
                sums[6][lane] += (a2[lane] - b1) * (a2[lane] - b1);
                sums[7][lane] += (a3[lane] - b1) * (a3[lane] - b1);
            }
        }
        for (pair, sums) in sums.iter().enumerate() {
            let (candidate, query) = (pair / TILE_QUERIES, pair % TILE_QUERIES);
            out[candidate][tile * TILE_QUERIES + query] = join(*sums);
        }
    }
}

#[inline(always)]
fn join(mut sums: [f64; LANES]) -> f64 {
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
    use super::*;
    use crate::stats::random::{Draws, Stream};

    #[test]
    fn every_instruction_set_gives_the_bits_of_the_portable_sum() {
        let d = 75;
        let mut draws = Draws::new(1, Stream::BOOTSTRAP, 0);
        let mut rows =
            |n: usize| -> Vec<f32> { (0..n * d).map(|_| draws.normal() as f32).collect() };
        let (a, b) = (rows(19), rows(7));
        let a = Matrix::new("a", 19, d, &a).unwrap();
        let b = Matrix::new("b", 7, d, &b).unwrap();
        let portable = |x: &[f32], y: &[f32]| -> f64 {
            let padded = d.next_multiple_of(LANES);
            let (mut q, mut c) = (
                vec![0.0; QUERY_ROWS * padded],
                vec![0.0; TILE_CANDIDATES * padded],
            );
            widen(x, &mut q);
            widen(y, &mut c);
            let mut out = [[0.0; QUERY_ROWS]; TILE_CANDIDATES];
            tile_distances_portable(&q, &c, &mut out);
            out[0][0]
        };
        let mut visited = 0;
        for first in [0, QUERY_ROWS] {
            for_each_distance(a, first, b, |i, j, distance| {
                assert_eq!(distance, portable(a.row(i), b.row(j)));
                let plain: f64 = a
                    .row(i)
                    .iter()
                    .zip(b.row(j))
                    .map(|(x, y)| (f64::from(*x) - f64::from(*y)).powi(2))
                    .sum();
                assert!((distance - plain).abs() < 1e-12 * plain);
                visited += 1;
            });
        }
        assert_eq!(visited, 19 * 7);
    }
}
