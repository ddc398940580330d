//! The standard normal distribution function.

use std::f64::consts::{PI, SQRT_2};

/// φ(x).
pub fn density(x: f64) -> f64 {
    (-0.5 * x * x).exp() / (2.0 * PI).sqrt()
}

/// Φ(x), to about 1e-15.
pub fn cumulative(x: f64) -> f64 {
    let half_tail = |z: f64| 0.5 * upper(z / SQRT_2);
    if x < -2.5 {
        half_tail(-x)
    } else if x > 2.5 {
        1.0 - half_tail(x)
    } else {
        0.5 + density(x) * odd_series(x)
    }
}

/// x + x³/3 + x⁵/15 + …: (Φ(x) − ½)/φ(x) (Marsaglia 2004). All terms have one sign, so nothing cancels.
fn odd_series(x: f64) -> f64 {
    let (mut term, mut sum, mut k) = (x, x, 1.0);
    while term.abs() > 1e-17 * sum.abs() {
        k += 2.0;
        term *= x * x / k;
        sum += term;
    }
    sum
}

/// erfc(z) for z ≥ 1.7 by its continued fraction, from a depth that suffices there.
fn upper(z: f64) -> f64 {
    let depth = (60.0 + 200.0 / (z * z)) as usize;
    let mut fraction = 0.0;
    for k in (1..=depth).rev() {
        fraction = 0.5 * k as f64 / (z + fraction);
    }
    (-z * z).exp() / (PI.sqrt() * (z + fraction))
}

/// E\[max(0, Z)\] for Z normal with mean `m` and standard deviation `s`.
pub fn mean_rectified(m: f64, s: f64) -> f64 {
    if s <= 1e-150 || m / s > 38.0 {
        return m.max(0.0);
    }
    let z = m / s;
    if z < -38.0 {
        return 0.0;
    }
    (m * cumulative(z) + s * density(z)).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of scipy.stats.norm.cdf.
    #[test]
    fn the_distribution_function_has_its_known_values() {
        for (x, expected) in [
            (0.0, 0.5),
            (1.0, 0.841_344_746_068_542_9),
            (-1.959_963_984_540_054, 0.025),
            (2.5, 0.993_790_334_674_223_8),
            (-2.6, 0.004_661_188_023_718_75),
            (5.0, 0.999_999_713_348_428),
            (-8.0, 6.220_960_574_271_786e-16),
        ] {
            assert!((cumulative(x) / expected - 1.0).abs() < 1e-13, "{x}");
        }
    }

    #[test]
    fn a_rectified_normal_has_its_known_mean() {
        assert!((mean_rectified(0.0, 2.0) - 2.0 / (2.0 * PI).sqrt()).abs() < 1e-14);
        assert_eq!(mean_rectified(3.0, 0.0), 3.0);
        assert_eq!(mean_rectified(-3.0, 0.0), 0.0);
        let far = mean_rectified(10.0, 1.0);
        assert!((far - 10.0).abs() < 1e-14);
    }
}
