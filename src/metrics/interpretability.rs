//! IM1 and IM2 (Van Looveren & Klaise 2019, as \[quantitative-evaluations\] evaluates them): how well auto-encoders of classes
//! draw a counterfactual c again.
//!
//! IM1 = ‖c − AE_q(c)‖² / (‖c − AE_p(c)‖² + ε), p the predicted and q the target class;
//! IM2 = ‖AE_q(c) − AE(c)‖² / (‖c‖₁ + ε), AE of all classes; ε = 1e-5.
//!
//! ‖c‖₁ is of the normalised image: black has norm 0 in \[0, 1\], but half the number of pixels in \[−½, ½\]. IM2 of different
//! ranges must not be compared (section 4.2). Numerators and denominators are kept apart, as Mahajan et al. ask.

/// Keeps denominators from being zero.
pub const EPSILON: f64 = 1e-5;

/// A score with its parts; the denominator is without ε.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    pub numerator: f64,
    pub denominator: f64,
}

impl Ratio {
    pub fn value(&self) -> f64 {
        self.numerator / (self.denominator + EPSILON)
    }
}

/// ‖a − b‖² of an image and a reconstruction.
pub fn squared_error(image: &[f64], drawn: &[f32]) -> f64 {
    let pairs = image.iter().zip(drawn);
    pairs.map(|(a, b)| (a - f64::from(*b)).powi(2)).sum()
}

/// ‖a − b‖² of two reconstructions.
pub fn squared_difference(a: &[f32], b: &[f32]) -> f64 {
    let pairs = a.iter().zip(b);
    pairs
        .map(|(a, b)| (f64::from(*a) - f64::from(*b)).powi(2))
        .sum()
}

/// ‖c‖₁.
pub fn absolute_sum(image: &[f64]) -> f64 {
    image.iter().map(|v| v.abs()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_are_those_of_the_formulas() {
        let image = [0.5, -0.5, 0.0];
        assert_eq!(squared_error(&image, &[0.5, 0.5, -2.0]), 5.0);
        assert_eq!(squared_difference(&[1.0, 0.0], &[0.0, 2.0]), 5.0);
        assert_eq!(absolute_sum(&image), 1.0);
        let black = Ratio {
            numerator: 2e-5,
            denominator: 0.0,
        };
        assert!((black.value() - 2.0).abs() < 1e-12);
    }
}
