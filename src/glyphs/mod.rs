//! The glyph world: images of characters whose causes are all known.
//!
//! An image is a function of its [`Attributes`]: character, typeface, inverse colour, scale, position and rotation.
//! [`Fonts`] holds outlines (48 typefaces ship with the program), [`Atlas`] turns each into an image of signed distances,
//! [`render`] draws them by a formula of smooth operations, [`embedding`] gives characters and typefaces coordinates by
//! their shape, [`generator`] draws any point of that latent space with gradients, [`causal`] draws attributes and labels as the benchmark of the paper bex does, and [`dataset`] writes
//! a folder of images with the table of their attributes.

pub mod atlas;
pub mod boundary;
pub mod causal;
pub mod choice;
pub mod clusters;
pub mod dataset;
mod differentiable;
pub mod embedding;
mod error;
mod font_files;
pub mod fonts;
pub mod generator;
pub mod lettering;
pub mod mixture;
pub mod outline;
pub mod render;
pub mod sheet;
pub mod warp;

pub use atlas::{Atlas, Glyph};
pub use causal::{Example, Labels, Model, World};
pub use embedding::Embeddings;
pub use error::GlyphError;
pub use fonts::{Face, Fonts};
pub use generator::Generator;
pub use render::{Attributes, Drawing};

/// The characters of the world: the letters a to z and 22 with accents. A character's number is its place here.
pub const CHARACTERS: [char; 48] = [
    'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j', 'k', 'l', 'm', 'n', 'o', 'p', 'q', 'r', 's',
    't', 'u', 'v', 'w', 'x', 'y', 'z', 'à', 'á', 'â', 'ä', 'ç', 'è', 'é', 'ê', 'ë', 'ì', 'í', 'î',
    'ï', 'ñ', 'ò', 'ó', 'ô', 'ö', 'ù', 'ú', 'û', 'ü',
];
