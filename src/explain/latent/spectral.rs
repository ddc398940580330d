//! Spectral clustering of a few numbers by a symmetric affinity, for DiVE's masks.
//!
//! The affinity is scaled to 0…1; the leading eigenvectors of D^{-1/2} A D^{-1/2}, rows of unit length, are turned towards the axes by
//! Yu & Shi's discretisation (ICCV 2003): labels are the largest coordinates, the rotation is the best one for these labels,
//! in turns until nothing changes. Starts are the same on every machine.

use faer::Mat;

/// Cluster of each of `size` numbers, below `count`; clusters may be empty. An affinity without contrast, or with numbers
/// that are not finite, gives every number its own cluster (modulo `count`).
pub fn clusters(affinity: &[f64], size: usize, count: usize) -> Vec<usize> {
    let own: Vec<usize> = (0..size).map(|i| i % count.max(1)).collect();
    if count >= size || count < 2 {
        return match count {
            0 | 1 => vec![0; size],
            _ => own,
        };
    }
    let low = affinity.iter().copied().fold(f64::INFINITY, f64::min);
    let high = affinity.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if !low.is_finite() || !high.is_finite() || high <= low {
        return own;
    }
    let scaled = |i: usize, j: usize| {
        // The two halves of a Fisher matrix agree to rounding only.
        let both = affinity[i * size + j] + affinity[j * size + i];
        (both / 2.0 - low) / (high - low)
    };
    let degree: Vec<f64> = (0..size)
        .map(|i| {
            (0..size)
                .filter(|&j| j != i)
                .map(|j| scaled(i, j))
                .sum::<f64>()
        })
        .map(|d| if d > 0.0 { d } else { 1.0 })
        .collect();
    let normal = Mat::from_fn(size, size, |i, j| match i == j {
        true => 1.0,
        false => scaled(i, j) / (degree[i] * degree[j]).sqrt(),
    });
    let Ok(decomposition) = normal.self_adjoint_eigen(faer::Side::Lower) else {
        return own;
    };
    // Eigenvalues come in ascending order.
    let vectors = decomposition.U();
    let mut rows: Vec<Vec<f64>> = (0..size)
        .map(|i| {
            let scale = 1.0 / degree[i].sqrt();
            (0..count)
                .map(|c| vectors[(i, size - 1 - c)] * scale)
                .collect()
        })
        .collect();
    for c in 0..count {
        // The sign of an eigenvector is the solver's choice: make the first clear entry negative.
        let largest = rows.iter().map(|r| r[c].abs()).fold(0.0, f64::max);
        let first = rows.iter().map(|r| r[c]).find(|v| v.abs() > 1e-6 * largest);
        if first.is_some_and(|v| v > 0.0) {
            rows.iter_mut().for_each(|r| r[c] = -r[c]);
        }
    }
    for row in &mut rows {
        let norm = row.iter().map(|v| v * v).sum::<f64>().sqrt();
        if norm > 0.0 {
            row.iter_mut().for_each(|v| *v /= norm);
        }
    }
    discretised(&rows, count)
}

/// Yu & Shi's rotation.
fn discretised(rows: &[Vec<f64>], count: usize) -> Vec<usize> {
    let size = rows.len();
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    // The first axis is a row; each further one the row that is farthest from those before.
    let mut axes: Vec<Vec<f64>> = vec![rows[size / 2].clone()];
    let mut used = vec![0.0; size];
    while axes.len() < count {
        let last = &axes[axes.len() - 1];
        for (sum, row) in used.iter_mut().zip(rows) {
            *sum += dot(row, last).abs();
        }
        let next = (0..size)
            .min_by(|&a, &b| used[a].total_cmp(&used[b]))
            .unwrap_or(0);
        axes.push(rows[next].clone());
    }
    let mut labels = vec![usize::MAX; size];
    for _ in 0..100 {
        let now: Vec<usize> = rows
            .iter()
            .map(|row| {
                let score = |c: &usize| dot(row, &axes[*c]);
                let best = (0..count).reduce(|a, b| if score(&b) > score(&a) { b } else { a });
                best.unwrap_or(0)
            })
            .collect();
        if now == labels {
            break;
        }
        labels = now;
        // The rotation nearest to labelsᵀ · rows.
        let mut product = Mat::<f64>::zeros(count, count);
        for (row, &label) in rows.iter().zip(&labels) {
            for (c, v) in row.iter().enumerate() {
                product[(label, c)] += v;
            }
        }
        let Ok(svd) = product.svd() else { break };
        let rotation = svd.U() * svd.V().transpose();
        for (l, axis) in axes.iter_mut().enumerate() {
            (0..count).for_each(|c| axis[c] = rotation[(l, c)]);
        }
    }
    labels
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_clusters() {
        let block = [0, 0, 1, 1, 1, 2];
        let affinity: Vec<f64> = (0..36)
            .map(|at| {
                if block[at / 6] == block[at % 6] {
                    5.0
                } else {
                    0.1
                }
            })
            .collect();
        let found = clusters(&affinity, 6, 3);
        for i in 0..6 {
            for j in 0..6 {
                assert_eq!(found[i] == found[j], block[i] == block[j], "{found:?}");
            }
        }
    }

    #[test]
    fn no_contrast_and_no_choice_have_defined_answers() {
        assert_eq!(clusters(&[0.0; 9], 3, 2), [0, 1, 0]);
        assert_eq!(clusters(&[f64::NAN; 9], 3, 2), [0, 1, 0]);
        assert_eq!(clusters(&[1.0; 9], 3, 5), [0, 1, 2]);
        assert_eq!(clusters(&[1.0; 9], 3, 1), [0, 0, 0]);
    }
}
