//! Kinds of guidance, and what their chains are made of.

use serde::{Deserialize, Serialize};

use crate::diffusion::{Distance, Guidance, Strength};

/// Weights beyond this leave the range of numbers.
pub const LARGEST_WEIGHT: f64 = 1e6;

/// How an original becomes its counterfactual.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// A chain whose steps a classifier's gradient bends: the evaluated method, DVCE, classic guidance.
    Guided(Guidance),
    /// DiME: nested chains, and a search for the least scale that reaches the target.
    Dime(Dime),
}

/// Settings of DiME; the defaults are those of the public code but for the features of the perceptual distance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Dime {
    /// Weights of the classifier's gradient, tried in order.
    pub scales: Vec<f64>,
    /// Of the distance of the noisy image to the original, over channels in the L1 and the L2 norm.
    pub l1: f64,
    pub l2: f64,
    /// Backbone of LPIPS whose third tap is compared (the public code: VGG19), with the weight.
    pub perceptual: Option<(String, f64)>,
}

impl Method {
    /// Evaluations of the denoiser for one image along `start` steps, at most: DiME's chain draws a clean image at every
    /// step, and begins anew for every scale.
    pub fn evaluations(&self, start: usize) -> usize {
        match self {
            Method::Guided(_) => start,
            Method::Dime(dime) => dime.scales.len() * (start + start * start.saturating_sub(1) / 2),
        }
    }

    /// The backbone of a perceptual distance, if there is one that is asked.
    pub fn perceptual(&self) -> Option<&str> {
        let Method::Dime(dime) = self else {
            return None;
        };
        let asked = dime
            .perceptual
            .as_ref()
            .filter(|(_, weight)| *weight != 0.0);
        asked.map(|(name, _)| name.as_str())
    }

    /// DVCE shows the last clean image that was predicted, the others the last sample.
    pub(super) fn shows_clean(&self) -> bool {
        matches!(self, Method::Guided(g) if g.strength == Strength::Noise)
    }
}

/// `l1.5:0.2`, `l1:0.15:through-unet`, or off.
pub fn parse_distance(text: &str) -> Result<Option<Distance>, String> {
    if text == "off" {
        return Ok(None);
    }
    let wrong = || {
        format!(
            "{text:?}: expected l1, l1.5 or l2 with a weight, such as l1:0.15, or off; l1 may go :through-unet"
        )
    };
    let (rest, through_unet) = match text.strip_suffix(":through-unet") {
        Some(rest) => (rest, true),
        None => (text, false),
    };
    let (norm, weight) = rest.split_once(':').unwrap_or((rest, "0.15"));
    let exponent = norm.strip_prefix('l').and_then(|p| p.parse::<f64>().ok());
    let (Some(exponent), Ok(weight)) = (exponent, weight.parse::<f64>()) else {
        return Err(wrong());
    };
    let sound = (1.0..=8.0).contains(&exponent)
        && (0.0..=LARGEST_WEIGHT).contains(&weight)
        && (exponent == 1.0 || !through_unet);
    let distance = Distance {
        exponent,
        weight,
        through_unet,
    };
    sound.then_some(Some(distance)).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_without_weight_are_not_asked_for() {
        let dime = |weight| {
            Method::Dime(Dime {
                scales: vec![8.0],
                l1: 0.0,
                l2: 0.0,
                perceptual: Some(("alex".into(), weight)),
            })
        };
        assert_eq!(dime(30.0).perceptual(), Some("alex"));
        assert_eq!(dime(0.0).perceptual(), None);
    }

    #[test]
    fn distances_have_a_norm_a_weight_and_a_way() {
        let plain = parse_distance("l1.5:0.2").unwrap().unwrap();
        assert_eq!(
            (plain.exponent, plain.weight, plain.through_unet),
            (1.5, 0.2, false)
        );
        let far = parse_distance("l1:through-unet").unwrap().unwrap();
        assert_eq!((far.weight, far.through_unet), (0.15, true));
        assert_eq!(parse_distance("off"), Ok(None));
        for wrong in ["", "l0", "l2:x", "l2:0.1:through-unet", "l1:-1", "l1:inf"] {
            assert!(parse_distance(wrong).is_err(), "{wrong}");
        }
    }
}
