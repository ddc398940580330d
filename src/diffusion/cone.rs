//! Directions: unit lengths, and the cone around a gradient (Boreiko et al. 2022).
//!
//! A robust classifier's gradient is pushed into a cone around the gradient of the classifier that is explained, so
//! that the image changes in ways that mean something and still changes that classifier's mind.

use serde::{Deserialize, Serialize};

/// What becomes of the robust gradient.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ConeRule {
    /// The direction within the cone that is nearest to it by angle: itself, if it lies inside.
    #[default]
    Projection,
    /// As the public code does: outside of the cone the nearest direction of its surface, inside (or where the angle
    /// cannot be told) the axis, so that the robust gradient is thrown away.
    Published,
}

impl ConeRule {
    pub fn name(self) -> &'static str {
        match self {
            ConeRule::Projection => "projection",
            ConeRule::Published => "published",
        }
    }
}

/// A cone around the gradient of the classifier that is explained.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cone {
    /// Half of its opening, in degrees.
    pub degrees: f64,
    pub rule: ConeRule,
}

impl Default for Cone {
    /// That of the paper, with the true projection.
    fn default() -> Self {
        Self {
            degrees: 30.0,
            rule: ConeRule::Projection,
        }
    }
}

/// A direction found in a cone.
#[derive(Clone, Debug, PartialEq)]
pub struct Projected {
    /// Its length is 1 inside the cone, and `1 / cos` of the opening on its surface by the published rule.
    pub direction: Vec<f32>,
    /// Between the two gradients, in degrees; NaN if one of them is zero.
    pub angle: f64,
    /// The robust gradient has no direction, zero or not finite, so that the axis was taken alone.
    pub alone: bool,
}

/// Length below which a gradient counts as none, as in the public code.
const LEAST: f64 = 1e-22;

fn dot(a: &[f32], b: &[f32]) -> f64 {
    let products = a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b));
    products.sum()
}

/// Euclidean length, summed in f64.
pub fn length(values: &[f32]) -> f64 {
    dot(values, values).sqrt()
}

/// Divides by the length in place. `false` if there is no direction: zero, or not finite; zeros stay, as in the public
/// code.
pub fn normalise(values: &mut [f32]) -> bool {
    let length = length(values);
    let by = if length < LEAST {
        length + LEAST
    } else {
        length
    };
    values
        .iter_mut()
        .for_each(|v| *v = (f64::from(*v) / by) as f32);
    length >= LEAST && length.is_finite()
}

impl Cone {
    /// Brings a robust gradient into the cone around `axis`; `None` if the axis has no direction.
    pub fn project(&self, robust: &[f32], axis: &[f32]) -> Option<Projected> {
        let mut unit = axis.to_vec();
        if !normalise(&mut unit) {
            return None;
        }
        let far = length(robust);
        let alone = far < LEAST || !far.is_finite();
        let along = dot(robust, &unit);
        // Rounding may leave a cosine of equal directions just above 1.
        let cosine = (along / far).clamp(-1.0, 1.0);
        let angle = cosine.acos().to_degrees();
        if angle.is_nan() || angle <= self.degrees {
            let mut direction = unit;
            if self.rule == ConeRule::Projection {
                let mut inside = robust.to_vec();
                if normalise(&mut inside) {
                    direction = inside;
                }
            }
            return Some(Projected {
                direction,
                angle,
                alone,
            });
        }
        let mut across: Vec<f32> = robust
            .iter()
            .zip(&unit)
            .map(|(r, u)| (f64::from(*r) - along * f64::from(*u)) as f32)
            .collect();
        // Opposite gradients: every direction of the surface is as near, so none is taken.
        normalise(&mut across);
        let opening = self.degrees.to_radians();
        let [of_axis, of_across] = match self.rule {
            ConeRule::Published => [1.0, opening.tan()],
            ConeRule::Projection => [opening.cos(), opening.sin()],
        };
        let direction = unit.iter().zip(&across);
        let direction = direction
            .map(|(u, a)| (of_axis * f64::from(*u) + of_across * f64::from(*a)) as f32)
            .collect();
        Some(Projected {
            direction,
            angle,
            alone,
        })
    }

    /// The same with the length of the axis, for guidance whose gradients keep their lengths: a robust gradient that is the axis
    /// itself stays as it is, to the bit.
    pub fn project_at_length(&self, robust: &[f32], axis: &[f32]) -> Option<Projected> {
        let mut found = self.project(robust, axis)?;
        let inside = found.angle.is_nan() || found.angle <= self.degrees;
        let from = match (inside, self.rule) {
            (true, ConeRule::Projection) if !found.alone => robust,
            (true, _) => axis,
            (false, _) => &found.direction,
        };
        let factor = length(axis) / length(from);
        found.direction = { from.iter() }
            .map(|v| (f64::from(*v) * factor) as f32)
            .collect();
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_differ_inside_and_agree_in_direction_outside() {
        let cone = |rule| Cone {
            degrees: 30.0,
            rule,
        };
        let axis = [2.0f32, 0.0, 0.0];
        let inside = [3.0f32, 0.3, 0.0];
        let published = cone(ConeRule::Published).project(&inside, &axis).unwrap();
        assert_eq!(published.direction, [1.0, 0.0, 0.0]);
        let kept = cone(ConeRule::Projection).project(&inside, &axis).unwrap();
        assert!((f64::from(kept.direction[1]) - 0.3 / length(&inside)).abs() < 1e-7);
        let outside = [0.1f32, 0.0, -5.0];
        let published = cone(ConeRule::Published).project(&outside, &axis).unwrap();
        let nearest = cone(ConeRule::Projection).project(&outside, &axis).unwrap();
        assert!((length(&published.direction) - 1.0 / 30f64.to_radians().cos()).abs() < 1e-6);
        assert!((length(&nearest.direction) - 1.0).abs() < 1e-6);
        assert!((published.angle - 88.85).abs() < 0.1 && published.angle == nearest.angle);
        let turned = |p: &Projected| p.direction[2] / p.direction[0];
        assert!((turned(&published) - turned(&nearest)).abs() < 1e-6);
    }

    #[test]
    fn a_direction_can_keep_the_length_of_the_axis() {
        for rule in [ConeRule::Projection, ConeRule::Published] {
            let cone = Cone {
                degrees: 30.0,
                rule,
            };
            let axis = [0.3f32, -1.7, 0.02];
            let own = cone.project_at_length(&axis, &axis).unwrap();
            assert_eq!(own.direction, axis);
            let shorter = axis.map(|v| v * 1e-3);
            for robust in [[0.2f32, 1.0, 9.0], shorter, [0.0; 3], [0.5, -1.7, 0.1]] {
                let found = cone.project_at_length(&robust, &axis).unwrap();
                let ratio = length(&found.direction) / length(&axis);
                assert!((ratio - 1.0).abs() < 1e-6, "{rule:?} {robust:?}: {ratio}");
            }
        }
    }

    #[test]
    fn gradients_without_direction() {
        let cone = Cone {
            degrees: 30.0,
            rule: ConeRule::Projection,
        };
        assert_eq!(cone.project(&[1.0, 0.0], &[0.0, 0.0]), None);
        assert_eq!(cone.project(&[1.0, 0.0], &[f32::NAN, 1.0]), None);
        let found = cone.project(&[0.0, 0.0], &[0.0, 2.0]).unwrap();
        assert_eq!(found.direction, [0.0, 1.0]);
        assert!(found.alone);
        for lost in [[f32::NAN, 1.0], [f32::INFINITY, 1.0], [1e-30, 1e-30]] {
            for rule in [ConeRule::Projection, ConeRule::Published] {
                let found = Cone { rule, ..cone }.project(&lost, &[0.0, 2.0]).unwrap();
                assert!(found.alone && found.direction[0].abs() < 1e-6, "{lost:?}");
            }
        }
        assert!(!cone.project(&[1.0, 0.0], &[0.0, 2.0]).unwrap().alone);
        let opposite = cone.project(&[0.0, -1.0], &[0.0, 2.0]).unwrap();
        assert!(opposite.direction[0] == 0.0 && opposite.direction[1] > 0.8);
        let mut zero = [0.0f32; 3];
        assert!(!normalise(&mut zero) && zero == [0.0; 3]);
    }
}
