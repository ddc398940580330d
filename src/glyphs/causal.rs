//! The structural causal model of the benchmark of the paper bex: which attributes and labels images have.
//!
//! character ~ U{0, …, C−1}; parity = character mod 2; label = parity, flipped with probability `label_noise`.
//! Some typefaces are tied to a class: `spurious` of them, the ones nearest to the centres of as many clusters of the
//! typefaces' embeddings, the first half to label 0 and the second half to label 1. With probability `correlation` the
//! typeface is drawn from those of the label, else from all of them. Inverse colour, scale, position and rotation are
//! independent of all else.
//!
//! As published the last of the 48 characters never occurs; [`Model::published`] repeats that.
//!
//! Every example is a function of (seed, index). All random numbers are drawn whether they are needed or not, so that
//! two models with the same seed differ only in what their settings change.

use super::clusters::representatives;
use super::{Atlas, Attributes, CHARACTERS, Embeddings, GlyphError};
use crate::stats::random::{Draws, Stream};

/// Settings of the causal model; the defaults are the paper's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Model {
    /// How many characters occur, from the first on: all 48, or 47 as published.
    pub characters: usize,
    /// Number of typefaces tied to a class, half of them to each; 0 for none.
    pub spurious: usize,
    /// Probability that the typeface is one of those tied to the label.
    pub correlation: f64,
    /// Probability that the label is not the parity.
    pub label_noise: f64,
    /// Probability of inverse colour.
    pub inverse: f64,
    /// Median of the scale.
    pub scale: f64,
    /// Standard deviation of the logarithm of the scale.
    pub scale_spread: f64,
    /// Standard deviation of the rotation in radians.
    pub rotation_spread: f64,
    /// Largest absolute position: x and y are uniform between −this and this.
    pub translation: f64,
    /// What the label is.
    pub labels: Labels,
}

/// What the label of an image is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Labels {
    /// Whether the character's number is odd, with noise.
    #[default]
    Parity,
    /// The character.
    Character,
    /// A number from 0 to 9 of its own, which nothing but a dot tells: a white pixel in the first column, in the row of
    /// that number (FakeMNIST of Hvilshøj et al. 2021).
    Dot,
}

impl Labels {
    pub const ALL: [Labels; 3] = [Labels::Parity, Labels::Character, Labels::Dot];

    /// Rows a dot can be in.
    pub const DOTS: usize = 10;

    pub fn name(self) -> &'static str {
        match self {
            Labels::Parity => "parity",
            Labels::Character => "character",
            Labels::Dot => "dot",
        }
    }
}

impl Default for Model {
    fn default() -> Self {
        Self {
            characters: CHARACTERS.len(),
            spurious: 10,
            correlation: 0.95,
            label_noise: 0.05,
            inverse: 0.5,
            scale: 0.7,
            scale_spread: 0.1,
            rotation_spread: 0.3,
            translation: 0.9,
            labels: Labels::Parity,
        }
    }
}

/// An image's causes and its labels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Example {
    pub attributes: Attributes,
    /// Parity of the character: the true class.
    pub parity: u8,
    /// The class, with noise if it is the parity.
    pub label: u8,
}

/// A model with the typefaces it ties to classes, and a seed.
#[derive(Debug, Clone, PartialEq)]
pub struct World {
    pub model: Model,
    pub seed: u64,
    /// Number of typefaces.
    pub fonts: usize,
    /// Typefaces tied to label 0 and to label 1.
    pub spurious: [Vec<usize>; 2],
}

impl Model {
    /// The model as the benchmark's code drew it: 47 characters.
    pub fn published() -> Self {
        Self {
            characters: CHARACTERS.len() - 1,
            ..Self::default()
        }
    }

    /// Which characters occur: `published` for those of [`Model::published`], otherwise `exact`.
    pub fn protocol(&self) -> &'static str {
        if self.characters == CHARACTERS.len() - 1 {
            "published"
        } else {
            "exact"
        }
    }

    /// Refuses settings outside their range, and more tied typefaces than there are.
    pub fn check(&self, fonts: usize) -> Result<(), GlyphError> {
        let refuse = |name, expected: &str, found: String| {
            Err(GlyphError::Setting {
                name,
                expected: expected.to_owned(),
                found,
            })
        };
        if !(2..=CHARACTERS.len()).contains(&self.characters) {
            let expected = "the first 2 to 48 characters";
            return refuse("--characters", expected, self.characters.to_string());
        }
        if self.labels != Labels::Parity && self.spurious > 0 {
            let expected = format!("0 with --labels {}", self.labels.name());
            return refuse("--spurious", &expected, self.spurious.to_string());
        }
        if self.spurious > fonts || self.spurious % 2 == 1 {
            let expected = format!("an even number of the {fonts} typefaces, or 0 for none");
            return refuse("--spurious", &expected, self.spurious.to_string());
        }
        for (name, value) in [
            ("--correlation", self.correlation),
            ("--label-noise", self.label_noise),
            ("--inverse", self.inverse),
        ] {
            if !(0.0..=1.0).contains(&value) {
                return refuse(name, "a probability from 0 to 1", value.to_string());
            }
        }
        if !(0.05..=2.0).contains(&self.scale) {
            return refuse("--scale", "0.05 to 2", self.scale.to_string());
        }
        if !(0.0..=1.0).contains(&self.scale_spread) {
            return refuse("--scale-spread", "0 to 1", self.scale_spread.to_string());
        }
        if !(0.0..=10.0).contains(&self.rotation_spread) {
            let found = self.rotation_spread.to_string();
            return refuse("--rotation-spread", "0 to 10 radians", found);
        }
        if !(0.0..=1.0).contains(&self.translation) {
            return refuse("--translation", "0 to 1", self.translation.to_string());
        }
        Ok(())
    }
}

impl World {
    /// Chooses the typefaces that are tied to classes. Without any the atlas is not computed.
    pub fn new(model: Model, seed: u64, atlas: &Atlas) -> Result<Self, GlyphError> {
        model.check(atlas.font_count())?;
        let chosen = if model.spurious > 0 {
            let fonts = Embeddings::new(atlas).fonts;
            let points: Vec<[f64; 3]> = fonts.iter().map(|p| p.map(f64::from)).collect();
            representatives(&points, model.spurious)
        } else {
            Vec::new()
        };
        let (first, second) = chosen.split_at(chosen.len() / 2);
        Ok(Self {
            model,
            seed,
            fonts: atlas.font_count(),
            spurious: [first.to_vec(), second.to_vec()],
        })
    }

    /// Example `index`.
    pub fn example(&self, index: u64) -> Example {
        let model = &self.model;
        let mut draws = Draws::new(self.seed, Stream::GLYPH_ATTRIBUTES, index);
        let character = draws.index_below(model.characters).unwrap_or(0);
        let parity = (character % 2) as u8;
        let flipped = draws.uniform() < model.label_noise;
        let noisy = parity ^ u8::from(flipped);
        let tied = draws.uniform() < model.correlation;
        let any = draws.index_below(self.fonts).unwrap_or(0);
        let own = &self.spurious[usize::from(noisy)];
        // One number decides for lists of any length.
        let place = (draws.uniform() * own.len() as f64) as usize;
        let font = own.get(place).filter(|_| tied).copied().unwrap_or(any);
        let inverse = draws.uniform() < model.inverse;
        let scale = model.scale * (model.scale_spread * draws.normal()).exp();
        let rotation = model.rotation_spread * draws.normal();
        let mut position = || (model.translation * (2.0 * draws.uniform() - 1.0)) as f32;
        let (x, y) = (position(), position());
        let dot = || Draws::new(self.seed, Stream::GLYPH_DOT, index).index_below(Labels::DOTS);
        let label = match model.labels {
            Labels::Parity => noisy,
            Labels::Character => character as u8,
            Labels::Dot => dot().unwrap_or(0) as u8,
        };
        Example {
            attributes: Attributes {
                character,
                font,
                inverse,
                scale: scale as f32,
                x,
                y,
                rotation: rotation as f32,
            },
            parity,
            label,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const N: u64 = 40_000;

    fn world(model: Model) -> World {
        World {
            model,
            seed: 11,
            fonts: 48,
            spurious: if model.spurious == 0 {
                [vec![], vec![]]
            } else {
                [vec![3, 7, 20], vec![1, 30, 47]]
            },
        }
    }

    fn share(world: &World, holds: impl Fn(&Example) -> bool) -> f64 {
        (0..N).filter(|&i| holds(&world.example(i))).count() as f64 / N as f64
    }

    /// Five standard errors of a share.
    fn near(got: f64, expected: f64) {
        let error = (expected * (1.0 - expected) / N as f64).sqrt();
        assert!((got - expected).abs() < 5.0 * error, "{got} {expected}");
    }

    #[test]
    fn labels_follow_parity_but_for_the_noise() {
        let world = world(Model::default());
        near(share(&world, |e| e.label != e.parity), 0.05);
        assert!((0..N).all(|i| {
            let example = world.example(i);
            usize::from(example.parity) == example.attributes.character % 2
        }));
    }

    #[test]
    fn typefaces_follow_the_label_as_often_as_stated() {
        for correlation in [0.5, 0.95] {
            let world = world(Model {
                correlation,
                ..Model::default()
            });
            let own =
                |e: &Example| world.spurious[usize::from(e.label)].contains(&e.attributes.font);
            let other =
                |e: &Example| world.spurious[usize::from(1 - e.label)].contains(&e.attributes.font);
            let chance = (1.0 - correlation) * 3.0 / 48.0;
            near(share(&world, own), correlation + chance);
            near(share(&world, other), chance);
            near(
                share(&world, |e| e.attributes.font == 30 && e.label == 1),
                0.5 * (correlation + chance) / 3.0,
            );
        }
    }

    #[test]
    fn without_tied_typefaces_all_are_equally_frequent() {
        let world = world(Model {
            spurious: 0,
            ..Model::default()
        });
        for font in [0, 3, 47] {
            near(share(&world, |e| e.attributes.font == font), 1.0 / 48.0);
        }
        near(share(&world, |e| e.attributes.character == 47), 1.0 / 48.0);
    }

    #[test]
    fn as_published_the_last_character_never_occurs() {
        let world = world(Model::published());
        assert!((0..N).all(|i| world.example(i).attributes.character < 47));
        near(share(&world, |e| e.attributes.character == 46), 1.0 / 47.0);
    }

    #[test]
    fn attributes_have_the_stated_distributions() {
        let world = world(Model::default());
        near(share(&world, |e| e.attributes.inverse), 0.5);
        near(share(&world, |e| e.attributes.x.abs() < 0.45), 0.5);
        near(share(&world, |e| e.attributes.y < 0.0), 0.5);
        assert!((0..N).all(|i| {
            let a = world.example(i).attributes;
            a.x.abs() <= 0.9 && a.y.abs() <= 0.9
        }));
        // Shares of a normal distribution within one standard deviation.
        near(
            share(&world, |e| e.attributes.rotation.abs() < 0.3),
            0.682_689_5,
        );
        let log = |e: &Example| (e.attributes.scale / 0.7).ln();
        near(share(&world, |e| log(e).abs() < 0.1), 0.682_689_5);
        near(share(&world, |e| log(e) < 0.0), 0.5);
    }

    #[test]
    fn settings_change_only_what_depends_on_them() {
        let tied = world(Model::default());
        let free = world(Model {
            spurious: 0,
            label_noise: 0.5,
            ..Model::default()
        });
        for index in 0..200 {
            let (a, b) = (tied.example(index), free.example(index));
            let same_font = Attributes {
                font: a.attributes.font,
                ..b.attributes
            };
            assert_eq!(a.attributes, same_font);
        }
    }

    #[test]
    fn wrong_settings_are_refused_by_name() {
        let wrong = |model: Model, name: &str| {
            let error = model.check(48).unwrap_err().to_string();
            assert!(error.starts_with(name), "{error}");
        };
        let model = Model::default();
        assert!(model.check(48).is_ok());
        for spurious in [7, 50] {
            wrong(Model { spurious, ..model }, "--spurious");
        }
        for p in [-0.1, 1.1, f64::NAN] {
            wrong(
                Model {
                    correlation: p,
                    ..model
                },
                "--correlation",
            );
            wrong(
                Model {
                    label_noise: p,
                    ..model
                },
                "--label-noise",
            );
        }
        wrong(
            Model {
                scale: 0.0,
                ..model
            },
            "--scale",
        );
        wrong(
            Model {
                characters: 49,
                ..model
            },
            "--characters",
        );
        wrong(
            Model {
                labels: Labels::Dot,
                ..model
            },
            "--spurious",
        );
    }

    #[test]
    fn tied_typefaces_are_different_and_depend_on_the_fonts_only() {
        let atlas = Atlas::embedded().unwrap();
        let world = |seed, spurious| {
            let model = Model {
                spurious,
                ..Model::default()
            };
            World::new(model, seed, &atlas).unwrap().spurious
        };
        for k in [6, 10] {
            let [first, second] = world(0, k);
            assert_eq!((first.len(), second.len()), (k / 2, k / 2));
            let all: std::collections::HashSet<_> = first.iter().chain(&second).collect();
            assert_eq!(all.len(), k);
            assert_eq!(world(9, k), [first, second]);
        }
        assert!(world(0, 0).iter().all(Vec::is_empty));
        let named = |fonts: &[usize]| {
            let faces = fonts.iter().map(|&f| atlas.fonts().faces[f].name.clone());
            faces.collect::<Vec<_>>().join(", ")
        };
        // All arithmetic up to here is exact or rounded as IEEE 754 says, hence the same on every machine.
        let [first, second] = world(0, 6);
        assert_eq!(
            named(&first),
            "Essays 1743, Ferrite Core DX Black, Blankenburg"
        );
        assert_eq!(
            named(&second),
            "Lemonada Bold, Monofur, Dancing Script Bold"
        );
    }
}
