//! Dense routines for matrices as small as a number of features. Row-major.

/// The lower factor L of a symmetric positive definite S = LLᵀ; none if S is not that.
pub fn cholesky(s: &[f64], d: usize) -> Option<Vec<f64>> {
    factor(s, d, false)
}

/// The same for a semi-definite matrix: a pivot that vanishes in rounding gives a column of zeros.
pub fn cholesky_semidefinite(s: &[f64], d: usize) -> Vec<f64> {
    factor(s, d, true).unwrap_or_else(|| vec![0.0; d * d])
}

fn factor(s: &[f64], d: usize, semidefinite: bool) -> Option<Vec<f64>> {
    let mut lower = vec![0.0; d * d];
    for i in 0..d {
        for j in 0..=i {
            let sum: f64 = (0..j).map(|k| lower[i * d + k] * lower[j * d + k]).sum();
            let rest = s[i * d + j] - sum;
            if i == j {
                let vanishes = rest <= 1e-13 * s[i * d + i].abs() || !rest.is_finite();
                match (vanishes, semidefinite) {
                    (false, _) => lower[i * d + i] = rest.sqrt(),
                    (true, true) => lower[i * d + i] = 0.0,
                    (true, false) => return None,
                }
            } else if lower[j * d + j] > 0.0 {
                lower[i * d + j] = rest / lower[j * d + j];
            }
        }
    }
    Some(lower)
}

/// Solves LLᵀx = b in place.
pub fn solve_cholesky(lower: &[f64], d: usize, b: &mut [f64]) {
    for i in 0..d {
        let sum: f64 = (0..i).map(|k| lower[i * d + k] * b[k]).sum();
        b[i] = (b[i] - sum) / lower[i * d + i];
    }
    for i in (0..d).rev() {
        let sum: f64 = (i + 1..d).map(|k| lower[k * d + i] * b[k]).sum();
        b[i] = (b[i] - sum) / lower[i * d + i];
    }
}

/// Right singular vectors (columns of the result, d × d), singular values and A·V, of A \[n, d\], by one-sided Jacobi rotations,
/// which find small singular values to full relative precision.
fn singular(a: &[f64], d: usize) -> (Vec<f64>, Vec<f64>, Vec<f64>) {
    let mut work = a.to_vec();
    let n = a.len().checked_div(d).unwrap_or(0);
    let mut v: Vec<f64> = (0..d * d)
        .map(|i| f64::from(u8::from(i % (d + 1) == 0)))
        .collect();
    for _ in 0..60 {
        let mut turned = false;
        for p in 0..d {
            for q in p + 1..d {
                let (mut alpha, mut beta, mut gamma) = (0.0, 0.0, 0.0);
                for row in work.chunks_exact(d) {
                    alpha += row[p] * row[p];
                    beta += row[q] * row[q];
                    gamma += row[p] * row[q];
                }
                if gamma == 0.0 || gamma.abs() <= 1e-15 * (alpha * beta).sqrt() {
                    continue;
                }
                turned = true;
                let zeta = (beta - alpha) / (2.0 * gamma);
                let t = zeta.signum() / (zeta.abs() + (1.0 + zeta * zeta).sqrt());
                let t = if zeta == 0.0 { 1.0 } else { t };
                let c = 1.0 / (1.0 + t * t).sqrt();
                let s = c * t;
                for row in work.chunks_exact_mut(d).chain(v.chunks_exact_mut(d)) {
                    let (x, y) = (row[p], row[q]);
                    row[p] = c * x - s * y;
                    row[q] = s * x + c * y;
                }
            }
        }
        if !turned {
            break;
        }
    }
    let values = (0..d)
        .map(|j| {
            let squares: f64 = (0..n).map(|i| work[i * d + j] * work[i * d + j]).sum();
            squares.sqrt()
        })
        .collect();
    (v, values, work)
}

/// The x of least length among those that minimise ‖Ax − b‖, for A \[n, d\]; singular values below n·ε of the largest count as zero.
pub fn least_squares(a: &[f64], d: usize, b: &[f64]) -> Vec<f64> {
    let (v, values, turned) = singular(a, d);
    let largest = values.iter().fold(0.0f64, |m, &s| m.max(s));
    let floor = largest * f64::EPSILON * b.len().max(d) as f64;
    let mut x = vec![0.0; d];
    for (j, &value) in values.iter().enumerate() {
        if value > floor {
            let along: f64 = turned.chunks_exact(d).zip(b).map(|(r, y)| r[j] * y).sum();
            let share = along / (value * value);
            for (i, x) in x.iter_mut().enumerate() {
                *x += v[i * d + j] * share;
            }
        }
    }
    x
}

/// Weighted least squares: minimises Σ wᵢ (aᵢ·x − bᵢ)².
pub fn weighted_least_squares(a: &[f64], d: usize, b: &[f64], weights: &[f64]) -> Vec<f64> {
    let roots: Vec<f64> = weights.iter().map(|w| w.sqrt()).collect();
    let scaled: Vec<f64> = a
        .chunks_exact(d)
        .zip(&roots)
        .flat_map(|(row, w)| row.iter().map(move |v| v * w))
        .collect();
    let right: Vec<f64> = b.iter().zip(&roots).map(|(b, w)| b * w).collect();
    least_squares(&scaled, d, &right)
}

/// The pseudo-inverse of a symmetric matrix; singular values below 1e-15 of the largest count as zero.
pub fn pseudo_inverse(s: &[f64], d: usize) -> Vec<f64> {
    let (v, values, turned) = singular(s, d);
    let largest = values.iter().fold(0.0f64, |m, &x| m.max(x));
    let mut inverse = vec![0.0; d * d];
    for (k, &value) in values.iter().enumerate() {
        if value > largest * 1e-15 && value > 0.0 {
            for i in 0..d {
                for j in 0..d {
                    inverse[i * d + j] += v[i * d + k] * turned[j * d + k] / (value * value);
                }
            }
        }
    }
    inverse
}

/// What a weighted regression with an intercept needs of its rows: weighted means, and products of what is left without them.
#[derive(Clone, Debug)]
pub struct Products {
    d: usize,
    /// Of the columns, and of the right side.
    means: Vec<f64>,
    mean: f64,
    /// d × d.
    gram: Vec<f64>,
    cross: Vec<f64>,
}

impl Products {
    /// Of rows `a` \[n, d\] and right sides `b`; none if nothing has a weight.
    pub fn of(a: &[f64], d: usize, b: &[f64], weights: &[f64]) -> Option<Self> {
        let total: f64 = weights.iter().sum();
        if total <= 0.0 {
            return None;
        }
        let mut means = vec![0.0; d];
        let mut mean = 0.0;
        for ((row, y), w) in a.chunks_exact(d).zip(b).zip(weights) {
            for (m, v) in means.iter_mut().zip(row) {
                *m += w * v;
            }
            mean += w * y;
        }
        means.iter_mut().for_each(|m| *m /= total);
        mean /= total;
        let mut gram = vec![0.0; d * d];
        let mut cross = vec![0.0; d];
        let mut centred = vec![0.0; d];
        for ((row, y), &w) in a.chunks_exact(d).zip(b).zip(weights) {
            if w == 0.0 {
                continue;
            }
            for ((c, v), m) in centred.iter_mut().zip(row).zip(&means) {
                *c = v - m;
            }
            for i in 0..d {
                let scaled = w * centred[i];
                for (sum, c) in gram[i * d..=i * d + i].iter_mut().zip(&centred) {
                    *sum += scaled * c;
                }
                cross[i] += scaled * (y - mean);
            }
        }
        for i in 0..d {
            for j in 0..i {
                gram[j * d + i] = gram[i * d + j];
            }
        }
        Some(Self {
            d,
            means,
            mean,
            gram,
            cross,
        })
    }

    /// Intercept and coefficients on the chosen columns alone, with a penalty on the coefficients.
    pub fn ridge(&self, chosen: &[usize], alpha: f64) -> (f64, Vec<f64>) {
        let k = chosen.len();
        let of_pair = |at: usize| {
            let penalty = if at.is_multiple_of(k + 1) { alpha } else { 0.0 };
            self.gram[chosen[at / k] * self.d + chosen[at % k]] + penalty
        };
        let gram: Vec<f64> = (0..k * k).map(of_pair).collect();
        let mut x: Vec<f64> = chosen.iter().map(|&j| self.cross[j]).collect();
        match cholesky(&gram, k) {
            Some(lower) => solve_cholesky(&lower, k, &mut x),
            None => x = least_squares(&gram, k, &x),
        }
        let along = chosen.iter().zip(&x).map(|(&j, c)| self.means[j] * c);
        (self.mean - along.sum::<f64>(), x)
    }
}

/// Ridge regression with weights, the intercept not penalised: minimises Σ wᵢ (c + aᵢ·x − bᵢ)² + α‖x‖². Intercept and x.
pub fn ridge(a: &[f64], d: usize, b: &[f64], weights: &[f64], alpha: f64) -> (f64, Vec<f64>) {
    match Products::of(a, d, b, weights) {
        None => (0.0, vec![0.0; d]),
        Some(products) => products.ridge(&(0..d).collect::<Vec<_>>(), alpha),
    }
}

/// S·x of a square matrix.
pub fn times(s: &[f64], d: usize, x: &[f64]) -> Vec<f64> {
    let dot = |row: &[f64]| row.iter().zip(x).map(|(a, b)| a * b).sum();
    s.chunks_exact(d.max(1)).map(dot).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_solution_of_full_rank_is_the_only_one_and_one_of_less_is_the_shortest() {
        let a = [1.0, 2.0, 3.0, 4.0, 5.0, 6.5];
        let b: Vec<f64> = a.chunks_exact(2).map(|r| 2.0 * r[0] - r[1]).collect();
        let x = least_squares(&a, 2, &b);
        assert!((x[0] - 2.0).abs() < 1e-12 && (x[1] + 1.0).abs() < 1e-12);
        let same = [1.0, 1.0, 2.0, 2.0];
        let x = least_squares(&same, 2, &[2.0, 4.0]);
        assert!((x[0] - 1.0).abs() < 1e-12 && (x[1] - 1.0).abs() < 1e-12);
    }

    #[test]
    fn a_pseudo_inverse_undoes_its_matrix() {
        let s = [2.0, 0.5, 0.5, 1.0];
        let inverse = pseudo_inverse(&s, 2);
        let product: Vec<f64> = (0..4)
            .map(|k| {
                (0..2)
                    .map(|m| s[k / 2 * 2 + m] * inverse[m * 2 + k % 2])
                    .sum()
            })
            .collect();
        for (got, expected) in product.iter().zip([1.0, 0.0, 0.0, 1.0]) {
            assert!((got - expected).abs() < 1e-13, "{product:?}");
        }
        assert!(cholesky(&[1.0, 2.0, 2.0, 1.0], 2).is_none());
    }

    #[test]
    fn a_ridge_without_penalty_finds_the_line() {
        let a = [0.0, 1.0, 2.0, 3.0];
        let (c, x) = ridge(&a, 1, &[1.0, 3.0, 5.0, 7.0], &[1.0, 2.0, 1.0, 0.5], 0.0);
        assert!((c - 1.0).abs() < 1e-12 && (x[0] - 2.0).abs() < 1e-12);
    }

    #[test]
    fn a_ridge_on_some_columns_is_that_of_rows_that_have_no_others() {
        let a: Vec<f64> = (0..30).map(|i| (f64::from(i) * 1.7).sin()).collect();
        let b: Vec<f64> = a.chunks_exact(3).map(|r| r[0] * r[1] - r[2]).collect();
        let weights: Vec<f64> = (0..10).map(|i| f64::from(i % 4)).collect();
        let products = Products::of(&a, 3, &b, &weights).unwrap();
        let chosen = [2, 0];
        let some: Vec<f64> = a
            .chunks_exact(3)
            .flat_map(|r| chosen.map(|j| r[j]))
            .collect();
        let (c, x) = products.ridge(&chosen, 0.3);
        let (expected, y) = ridge(&some, 2, &b, &weights, 0.3);
        assert!((c - expected).abs() < 1e-14);
        assert!(x.iter().zip(&y).all(|(x, y)| (x - y).abs() < 1e-14));
        assert!(Products::of(&a, 3, &b, &[0.0; 10]).is_none());
    }
}
