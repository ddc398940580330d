//! What a study does, as a TOML file says it.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{MadeError, Result};
use crate::explain::pixel::{Alpha, Method, Prototype, Wachter};
use crate::glyphs::{Labels, Model};
use crate::score::Protocol;

/// Configurations that the program holds: name and text.
pub const SHIPPED: [(&str, &str); 2] = [
    ("glyphs.toml", include_str!("glyphs.toml")),
    ("glyphs-small.toml", include_str!("glyphs-small.toml")),
];

/// What a study does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Originals.
    pub images: usize,
    /// Further images, from which GL gets its prototypes.
    pub prototype_images: usize,
    /// Of originals and of the targets of GEN.
    pub seed: u64,
    /// Side of the images.
    pub size: usize,
    /// Values of black and white pixels, for all scores.
    pub range: [f32; 2],
    /// What the scores follow.
    #[serde(default)]
    pub protocol: Protocol,
    pub networks: Networks,
    /// Networks whose label is watched by the LVS, by the name of the label.
    pub labels: BTreeMap<String, String>,
    #[serde(default)]
    pub gb: Gb,
    #[serde(default)]
    pub gl: Gl,
    #[serde(default, rename = "gen")]
    pub gen_: Gen,
}

/// Names or paths of cards.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Networks {
    /// Explained by GB and GL.
    pub classifier: String,
    /// Explained by GEN.
    pub invertible: String,
    /// Judges, and gives the features of the FID.
    pub oracle: String,
    /// The auto-encoder of GL.
    pub prototypes: String,
    /// Auto-encoders of the classes, in their order, and of all images.
    pub autoencoders: Vec<String>,
    pub autoencoder: String,
}

/// Settings of GB that differ from the paper's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Gb {
    pub iterations: usize,
    pub lambdas: usize,
    pub tolerance: f64,
}

impl Default for Gb {
    fn default() -> Self {
        let usual = Wachter::default();
        Self {
            iterations: usual.iterations,
            lambdas: usual.lambdas,
            tolerance: usual.tolerance,
        }
    }
}

/// Settings of GL that differ from alibi's example.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Gl {
    pub iterations: usize,
    pub c_steps: usize,
    pub gamma: f64,
    pub theta: f64,
}

impl Default for Gl {
    fn default() -> Self {
        let usual = Prototype::default();
        Self {
            iterations: usual.iterations,
            c_steps: usual.c_steps,
            gamma: usual.gamma,
            theta: usual.theta,
        }
    }
}

/// Settings of GEN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Gen {
    /// Stop at the boundary of the classes instead of beyond.
    pub boundary: bool,
}

impl Config {
    /// A configuration of the program by its name, or a file.
    pub fn read(path: &Path) -> Result<Self> {
        let shown = path.display().to_string();
        let shipped = SHIPPED.iter().find(|(name, _)| Path::new(name) == path);
        let text = match shipped {
            Some((_, text)) if !path.exists() => (*text).to_owned(),
            _ => std::fs::read_to_string(path).map_err(|error| MadeError::File {
                path: shown.clone(),
                what: format!(
                    "cannot read: {error}. The program holds {}",
                    SHIPPED.map(|(name, _)| name).join(" and ")
                ),
            })?,
        };
        let config: Self = toml::from_str(&text).map_err(|error| MadeError::Config {
            what: format!("{shown}: {error}"),
        })?;
        config.check()?;
        Ok(config)
    }

    /// Refuses what cannot be run.
    pub fn check(&self) -> Result<()> {
        let refuse = |what: String| Err(MadeError::Config { what });
        if !(3..=100_000).contains(&self.images) {
            return refuse(format!(
                "images = {}: expected 3 to 100000; a covariance needs more than two",
                self.images
            ));
        }
        let [low, high] = self.range;
        if low.partial_cmp(&high) != Some(std::cmp::Ordering::Less) {
            return refuse(format!(
                "range = {:?}: expected a smaller and a larger number",
                self.range
            ));
        }
        if self.size < Labels::DOTS || !self.size.is_multiple_of(4) {
            return refuse(format!(
                "size = {}: expected a multiple of 4 with rows for {} dots",
                self.size,
                Labels::DOTS
            ));
        }
        if self.networks.autoencoders.len() != Labels::DOTS {
            return refuse(format!(
                "autoencoders: expected one for each of {} classes, found {}",
                Labels::DOTS,
                self.networks.autoencoders.len()
            ));
        }
        if self.gb.iterations == 0
            || self.gb.lambdas == 0
            || self.gl.iterations == 0
            || self.gl.c_steps == 0
        {
            return refuse("iterations, lambdas and c_steps: expected 1 or more".into());
        }
        let tolerance = self.gb.tolerance;
        if !(tolerance > 0.0 && tolerance < 1.0) {
            return refuse(format!(
                "gb.tolerance = {tolerance}: expected a number between 0 and 1, how far the wanted class may be from certain"
            ));
        }
        Ok(())
    }

    /// The world that the shipped networks know: see `scripts/train-demo`.
    pub fn model(&self) -> Model {
        Model {
            characters: 10,
            spurious: 0,
            label_noise: 0.0,
            inverse: 0.0,
            scale: 0.7,
            scale_spread: 0.05,
            rotation_spread: 0.1,
            translation: 0.3,
            labels: Labels::Dot,
            ..Model::default()
        }
    }

    pub fn methods(&self) -> [Method; 3] {
        [
            Method::Gb(Wachter {
                iterations: self.gb.iterations,
                lambdas: self.gb.lambdas,
                tolerance: self.gb.tolerance,
                ..Wachter::default()
            }),
            Method::Gl(Prototype {
                iterations: self.gl.iterations,
                c_steps: self.gl.c_steps,
                gamma: self.gl.gamma,
                theta: self.gl.theta,
                ..Prototype::default()
            }),
            Method::Gen(match self.gen_.boundary {
                true => Alpha::Boundary,
                false => Alpha::Convincing,
            }),
        ]
    }
}
