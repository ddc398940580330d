//! Untrained networks: the edge case that an evaluation should include. An explanation of one can show nothing, so
//! whatever it shows is the method's doing ([diffusion-vce] calls it RandomNet).
//!
//! A card asks for one with `random = { seed = 0 }` in place of a file. Weights and biases are uniform within
//! ±1/√(inputs of an output), as PyTorch begins with them: signals fade from layer to layer, and the answer hardly
//! depends on the image.

use serde::{Deserialize, Serialize};

use super::card::Card;
use super::checksum::content_sha256;
use super::error::{Result, WeightsError};
use super::load::Loaded;
use crate::nets::Architecture;
use crate::stats::random::{Draws, Stream};
use crate::tensor::{Array, StateDict};

/// Architectures that can be had untrained.
const KNOWN: [Architecture; 2] = [Architecture::AlexNet, Architecture::PlainCnn];
/// Widths of the plain network, as those of the glyph world have them.
const WIDTHS: [usize; 6] = [24, 24, 48, 48, 96, 96];

/// Random weights of a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomWeights {
    pub seed: u64,
}

/// Weights of the card's architecture for as many classes as it has labels.
pub(super) fn load(card: &Card, random: RandomWeights) -> Result<Loaded> {
    let source = format!("untrained, seed {}", random.seed);
    let mut net = Untrained {
        dict: StateDict::named(source.clone()),
        seed: random.seed,
        count: 0,
    };
    let classes = card.labels.len();
    match card.architecture {
        Architecture::AlexNet => {
            for (at, shape) in [
                ("features.0", [64, 3, 11, 11]),
                ("features.3", [192, 64, 5, 5]),
                ("features.6", [384, 192, 3, 3]),
                ("features.8", [256, 384, 3, 3]),
                ("features.10", [256, 256, 3, 3]),
            ] {
                net.layer(at, &shape);
            }
            net.layer("classifier.1", &[4096, 256 * 6 * 6]);
            net.layer("classifier.4", &[4096, 4096]);
            net.layer("classifier.6", &[classes, 4096]);
        }
        Architecture::PlainCnn => {
            let mut inputs = 3;
            for (i, width) in WIDTHS.into_iter().enumerate() {
                let at = format!("features.{i}");
                net.uniform(
                    &format!("{at}.conv.weight"),
                    &[width, inputs, 3, 3],
                    9 * inputs,
                );
                for (name, value) in [
                    ("weight", 1.0),
                    ("bias", 0.0),
                    ("running_mean", 0.0),
                    ("running_var", 1.0),
                ] {
                    let name = format!("{at}.norm.{name}");
                    let data = vec![value; width];
                    net.dict.insert(
                        &name,
                        Array {
                            shape: vec![width],
                            data,
                        },
                    );
                }
                inputs = width;
            }
            net.layer("head", &[classes, inputs]);
        }
        other => {
            return Err(WeightsError::Choice {
                what: "untrained architecture",
                given: other.name().into(),
                known: KNOWN.map(Architecture::name).join(" or "),
            });
        }
    }
    Ok(Loaded {
        sha256: content_sha256(&net.dict),
        dict: net.dict,
        source,
    })
}

/// A dictionary that is being filled.
struct Untrained {
    dict: StateDict,
    seed: u64,
    /// Tensors so far: each has its own random numbers.
    count: u64,
}

impl Untrained {
    fn uniform(&mut self, name: &str, shape: &[usize], inputs: usize) {
        let mut draws = Draws::new(self.seed, Stream::UNTRAINED_WEIGHTS, self.count);
        self.count += 1;
        let bound = 1.0 / (inputs.max(1) as f64).sqrt();
        let len: usize = shape.iter().product();
        let data = (0..len).map(|_| ((2.0 * draws.uniform() - 1.0) * bound) as f32);
        let array = Array {
            shape: shape.to_vec(),
            data: data.collect(),
        };
        self.dict.insert(name, array);
    }

    fn layer(&mut self, at: &str, shape: &[usize]) {
        let inputs = shape.iter().skip(1).product();
        self.uniform(&format!("{at}.weight"), shape, inputs);
        self.uniform(&format!("{at}.bias"), &shape[..1], inputs);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Registry;

    #[test]
    fn a_seed_fixes_an_untrained_network_and_another_gives_another() {
        let registry = Registry::open().unwrap();
        let load = |name: &str| registry.load(&registry.card(name).unwrap()).unwrap();
        let [first, again, other] = ["random", "random:0", "random:1"].map(load);
        assert_eq!(first.sha256, again.sha256);
        assert_ne!(first.sha256, other.sha256);
        // PyTorch's bound of the last layer: 96 inputs.
        let bias = &first.dict.get("head.bias").unwrap().data;
        assert!(bias.iter().all(|b| b.abs() <= 96f32.sqrt().recip()) && bias[0] != bias[1]);
        assert!(registry.card("glyph_cnn:1").is_err());
        assert!(registry.card("random:x").is_err());
    }
}
