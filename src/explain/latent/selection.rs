//! Which samples of the validation set are explained (\[bex\] A.3.2): as many for each of eight levels of confidence.

use super::{LatentError, Result, Variant};
use crate::metrics::latent::class;

/// Levels of confidence, as the paper gives them.
pub const LEVELS: [f64; 8] = [-0.9, -0.6, -0.4, -0.1, 0.1, 0.4, 0.6, 0.9];

/// What was found for a level of confidence.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Level {
    pub level: f64,
    pub samples: usize,
    /// Mean distance of their confidence to the level; 0 of none.
    pub distance: f64,
}

/// Levels that have fewer than `wanted` samples, in words; none if all have as many.
pub fn short_levels(levels: &[Level], wanted: usize) -> Option<String> {
    let short: Vec<String> = { levels.iter().filter(|l| l.samples < wanted) }
        .map(|l| format!("{} of confidence {}", l.samples, l.level))
        .collect();
    (!short.is_empty()).then(|| short.join(", "))
}

/// Mean distance of samples' confidence to their levels.
pub fn level_distance(levels: &[Level]) -> f64 {
    let sum: f64 = levels.iter().map(|l| l.distance * l.samples as f64).sum();
    sum / levels.iter().map(|l| l.samples).sum::<usize>().max(1) as f64
}

/// Numbers of the `per_level` samples nearest to each level, and what there was of each.
///
/// Correct: the confidence is |p₁ − p₀| by the softmax, negative where the class is not the label; a sample is taken once,
/// by the first level that wants it. Where the rest of the set is smaller than what is wanted there are fewer.
/// As released: `label − max_k σ(logit_k)`, whichever class has that maximum; repeats stay.
pub fn select(
    logits: &[[f32; 2]],
    labels: &[u8],
    per_level: usize,
    variant: Variant,
) -> Result<(Vec<usize>, Vec<Level>)> {
    if per_level == 0 || logits.is_empty() || logits.len() != labels.len() {
        return Err(LatentError::setting(
            "samples of each level of confidence",
            "1 or more, of a validation set with a label for each latent",
            format!(
                "{per_level} of {} latents with {} labels",
                logits.len(),
                labels.len()
            ),
        ));
    }
    let of: Vec<f64> = match variant {
        Variant::Correct => { logits.iter().zip(labels) }
            .map(|(&l, &label)| {
                let gap = (f64::from(l[1]) - f64::from(l[0])).abs();
                let confidence = (gap / 2.0).tanh();
                match class(l) == usize::from(label) {
                    true => confidence,
                    false => -confidence,
                }
            })
            .collect(),
        Variant::AsReleased => { logits.iter().zip(labels) }
            .map(|(l, &label)| {
                let largest = l
                    .map(|v| 1.0 / (1.0 + (-v).exp()))
                    .into_iter()
                    .fold(0.0, f32::max);
                f64::from(label) - f64::from(largest)
            })
            .collect(),
    };
    let mut chosen: Vec<usize> = Vec::new();
    let mut taken = vec![false; of.len()];
    let mut levels = Vec::new();
    for level in LEVELS {
        let mut order: Vec<usize> = match variant {
            Variant::Correct => (0..of.len())
                // The sign says whether the class is right: none is borrowed from the other side.
                .filter(|&i| !taken[i] && (of[i] < 0.0) == (level < 0.0))
                .collect(),
            Variant::AsReleased => (0..of.len()).collect(),
        };
        order.sort_by(|&a, &b| (of[a] - level).abs().total_cmp(&(of[b] - level).abs()));
        order.truncate(per_level);
        for &i in &order {
            taken[i] = true;
        }
        let distances: f64 = order.iter().map(|&i| (of[i] - level).abs()).sum();
        levels.push(Level {
            level,
            samples: order.len(),
            distance: distances / order.len().max(1) as f64,
        });
        chosen.extend(order);
    }
    Ok((chosen, levels))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn right_and_wrong_samples_are_taken_by_confidence_and_once() {
        // Confidences tanh(gap / 2); every third is wrong.
        let logits: Vec<[f32; 2]> = (0..300).map(|i| [0.0, 0.02 * i as f32]).collect();
        let labels: Vec<u8> = (0..300).map(|i| u8::from(i % 3 != 0)).collect();
        let (found, levels) = select(&logits, &labels, 5, Variant::Correct).unwrap();
        assert_eq!(found.len(), 40);
        assert!(
            levels.iter().all(|l| l.samples == 5 && l.distance < 0.05),
            "{levels:?}"
        );
        let mut once = found.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), 40);
        assert!(found[..20].iter().all(|i| i % 3 == 0), "{found:?}");
        assert!(found[20..].iter().all(|i| i % 3 != 0), "{found:?}");
        // tanh(gap / 2) = 0.9 at a gap of 2.944, the 147th.
        assert!(found[..5].iter().all(|i| i.abs_diff(147) <= 9), "{found:?}");
    }

    #[test]
    fn a_level_that_runs_out_is_told() {
        let logits: Vec<[f32; 2]> = (0..100).map(|i| [0.0, 0.05 * i as f32]).collect();
        // Three of them are wrong.
        let labels: Vec<u8> = (0..100).map(|i| u8::from(i % 40 != 7)).collect();
        let (found, levels) = select(&logits, &labels, 2, Variant::Correct).unwrap();
        let counts: Vec<usize> = levels.iter().map(|l| l.samples).collect();
        assert_eq!(counts, [2, 1, 0, 0, 2, 2, 2, 2]);
        assert_eq!(found.len(), 11);
    }

    #[test]
    fn as_released_repeats_stay_and_nothing_is_asked_of_nothing() {
        let logits = [[0.0, 1.0], [3.0, 0.0], [0.0, 5.0]];
        let labels = [1, 0, 1];
        let (found, _) = select(&logits, &labels, 2, Variant::AsReleased).unwrap();
        assert_eq!(found.len(), 16);
        assert!(select(&[], &[], 2, Variant::Correct).is_err());
        assert!(select(&logits, &labels, 0, Variant::Correct).is_err());
    }
}
