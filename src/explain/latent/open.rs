//! Worlds: those inside the program, and the user's own.
//!
//! A world of the user is a folder with `world.toml`:
//!
//! ```toml
//! name = "mine"
//! [generator]
//! kind = "bex"                      # glyphs | bex | perceptron
//! file = "generator.safetensors"    # of bex and perceptron
//! # layers = ["l1", "l2"]           # of perceptron: `<layer>.weight` and `<layer>.bias`, a tanh after each
//! # embeddings = ["char.weight", "font.weight"]   # of perceptron
//! # image = [3, 4, 4]               # of perceptron: channels, height, width
//! [classifier]
//! card = "classifier.toml"          # a model card, or the name of a known network
//! # file = "classifier.safetensors" # of perceptron
//! # layers = ["a", "b", "c"]
//! [data]
//! file = "latents.safetensors"      # train_latents_raw [n, 11], val_latents_raw [m, 11], val_labels [m]
//! tied = [[3, 7, 20], [1, 30, 47]]  # typefaces of class 0 and of class 1; without it the file's correlated_fonts
//! ```

use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;

use super::world::Data;
use super::{
    Decoder, LATENT, Latent, LatentError, Layer, Networks, Perceptrons, Result, Taped, Variant,
    World,
};
use crate::glyphs::{self, Atlas, Embeddings, Generator, Model};
use crate::nets::{BexGenerator, build};
use crate::tensor::candle::Differentiable;
use crate::tensor::{StateDict, TypedArrays, WithGradients};
use crate::weights::{Card, Registry, Role, sha256};

/// A setting of the paper: how many typefaces are tied to classes, and how often (in percent).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    pub spurious: usize,
    pub percent: usize,
}

impl Setting {
    pub fn correlation(self) -> f64 {
        self.percent as f64 / 100.0
    }

    /// As files are named.
    pub fn name(self) -> String {
        format!("{}_{}", self.spurious, self.percent)
    }
}

/// Settings for which the program holds a classifier.
pub const SETTINGS: [Setting; 4] = [
    Setting {
        spurious: 6,
        percent: 50,
    },
    Setting {
        spurious: 6,
        percent: 95,
    },
    Setting {
        spurious: 10,
        percent: 50,
    },
    Setting {
        spurious: 10,
        percent: 95,
    },
];

/// Seed and number of the images that the shipped classifiers learnt from (`scripts/train-demo`).
const SEED: u64 = 5;
const IMAGES: usize = 32_000;
/// Of these the statistics of latents are taken.
const TRAIN: usize = 8_000;
/// Side of the images.
const SIZE: usize = 32;

/// What the world inside the program is called.
pub const BUILTIN: &str = "builtin";

/// The classifier of a setting.
pub fn builtin_card(setting: Setting) -> String {
    format!("glyph_tied_{}", setting.name())
}

/// The world of a setting, with `validation` latents that its classifier has not seen.
pub fn builtin(
    registry: &Registry,
    device: &WithGradients,
    setting: Setting,
    validation: usize,
    variant: Variant,
) -> Result<World> {
    let atlas = Atlas::embedded()?;
    let generator = Arc::new(Generator::new(&atlas, &Embeddings::new(&atlas))?);
    let model = Model {
        spurious: setting.spurious,
        correlation: setting.correlation(),
        ..Model::default()
    };
    let causes = glyphs::World::new(model, SEED, &atlas)?;
    let embeddings = generator.embeddings().clone();
    let latent = |index: usize| {
        let example = causes.example(index as u64);
        let latent = embeddings.latent(&example.attributes);
        // Attributes that the causal model draws are all in the tables.
        (latent.unwrap_or([0.0; LATENT]), example.label)
    };
    let train = (0..TRAIN).map(|i| latent(i).0).collect();
    let (validation, labels): (Vec<Latent>, Vec<u8>) =
        (IMAGES..IMAGES + validation).map(latent).unzip();
    let card = registry.card(&builtin_card(setting))?;
    let (networks, sha) = classified(
        registry,
        device,
        &card,
        DecoderKind::Glyphs(generator, SIZE),
    )?;
    let identity = serde_json::json!({
        "world": BUILTIN, "spurious": setting.spurious, "correlation": setting.correlation(), "validation": validation.len(),
        "variant": variant.name(), "classifier": sha, "arithmetic": device.arithmetic(),
    });
    World::new(
        format!(
            "{} tied typefaces, correlation {}",
            setting.spurious,
            setting.correlation()
        ),
        identity,
        networks,
        [&embeddings.characters, &embeddings.fonts],
        Data {
            train,
            validation,
            labels,
        },
        causes.spurious,
        variant,
    )
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WorldFile {
    name: Option<String>,
    generator: GeneratorFile,
    classifier: ClassifierFile,
    data: DataFile,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GeneratorFile {
    kind: Kind,
    file: Option<String>,
    #[serde(default)]
    layers: Vec<String>,
    embeddings: Option<[String; 2]>,
    image: Option<[usize; 3]>,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    Glyphs,
    Bex,
    Perceptron,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClassifierFile {
    card: Option<String>,
    file: Option<String>,
    #[serde(default)]
    layers: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DataFile {
    file: String,
    tied: Option<[Vec<usize>; 2]>,
}

/// The user's world in a folder.
pub fn folder(
    registry: &Registry,
    device: &WithGradients,
    root: &Path,
    variant: Variant,
) -> Result<World> {
    let path = root.join("world.toml");
    let shown = path.display().to_string();
    let wrong = |what: &str| LatentError::file(&shown, what);
    let text = std::fs::read_to_string(&path).map_err(|e| {
        wrong(&format!(
            "cannot read: {e}; a world is `builtin` or a folder with a world.toml (docs/latent.md)"
        ))
    })?;
    let file: WorldFile = toml::from_str(&text).map_err(|e| wrong(&e.to_string()))?;
    let data = TypedArrays::read(&root.join(&file.data.file))?;
    let tied = match file.data.tied {
        Some(tied) => tied,
        None if data.contains("correlated_fonts") => halves(&data.i64("correlated_fonts")?),
        None => Default::default(),
    };
    let generator = &file.generator;
    let opened = generator
        .file
        .as_ref()
        .map(|f| TypedArrays::read(&root.join(f)))
        .transpose()?;
    let needed = || {
        opened
            .as_ref()
            .ok_or_else(|| wrong("generator: kinds bex and perceptron need a `file`"))
    };
    let (networks, tables, sha) = match (generator.kind, &file.classifier.card) {
        (Kind::Perceptron, None) => {
            let weights = needed()?;
            let other = file
                .classifier
                .file
                .as_ref()
                .map(|f| TypedArrays::read(&root.join(f)));
            let other = other.transpose()?;
            let names = generator.embeddings.as_ref();
            let names = names
                .ok_or_else(|| wrong("generator: kind perceptron needs `embeddings`, two names"))?;
            let image = generator.image.ok_or_else(|| {
                wrong("generator: kind perceptron needs `image`, [channels, height, width]")
            })?;
            let networks = perceptrons(
                weights,
                &generator.layers,
                other.as_ref().unwrap_or(weights),
                &file.classifier.layers,
                image,
            )?;
            let tables = [table(weights, &names[0])?, table(weights, &names[1])?];
            let networks: Box<dyn Networks> = Box::new(networks);
            (networks, tables, String::new())
        }
        (Kind::Perceptron, Some(_)) => {
            return Err(wrong(
                "a generator that is a perceptron goes with a classifier that is one (`file` and `layers`)",
            ));
        }
        (_, None) => return Err(wrong("classifier: `card` is needed")),
        (kind, Some(card)) => {
            let beside = root.join(card);
            let named = match beside.is_file() {
                true => beside.display().to_string(),
                false => card.clone(),
            };
            let card = registry.card(&named)?;
            let (decoder, tables) = match kind {
                Kind::Bex => {
                    let weights = needed()?;
                    let mut dict = StateDict::named(weights.file());
                    for name in weights.names() {
                        dict.insert(name, weights.f32(name)?);
                    }
                    let tables = ["char_embedding.weight", "font_embedding.weight"];
                    let at = |name: &str| {
                        let full = weights.names().find(|n| n.ends_with(name)).unwrap_or(name);
                        table(weights, full)
                    };
                    (DecoderKind::Bex(dict), [at(tables[0])?, at(tables[1])?])
                }
                _ => {
                    let atlas = Atlas::embedded()?;
                    let embeddings = Embeddings::new(&atlas);
                    let tables = [embeddings.characters.clone(), embeddings.fonts.clone()];
                    let generator = Generator::new(&atlas, &embeddings)?;
                    (DecoderKind::Glyphs(Arc::new(generator), SIZE), tables)
                }
            };
            let (networks, sha) = classified(registry, device, &card, decoder)?;
            (networks, tables, sha)
        }
    };
    let files = [
        Some(&file.data.file),
        generator.file.as_ref(),
        file.classifier.file.as_ref(),
    ];
    let sums: Vec<String> = { files.into_iter().flatten() }
        .map(|f| {
            let path = root.join(f);
            let bytes = std::fs::read(&path).map_err(|e| LatentError::file(path.display(), e))?;
            Ok(sha256(&bytes))
        })
        .collect::<Result<_>>()?;
    let identity = serde_json::json!({
        "world": file.name, "files": sums, "variant": variant.name(), "classifier": sha, "settings": text, "arithmetic": device.arithmetic(),
    });
    let labels = { data.i64("val_labels")?.into_iter() }
        .map(|l| {
            u8::try_from(l).ok().filter(|l| *l < 2).ok_or_else(|| {
                LatentError::from(data.unexpected("val_labels", "0 or 1", l.to_string()))
            })
        })
        .collect::<Result<_>>()?;
    let name = file.name.unwrap_or_else(|| root.display().to_string());
    let data = Data {
        train: latents(&data, "train_latents_raw")?,
        validation: latents(&data, "val_latents_raw")?,
        labels,
    };
    World::new(
        name,
        identity,
        networks,
        [&tables[0], &tables[1]],
        data,
        tied,
        variant,
    )
}

/// The first half of a list belongs to class 0, the second to class 1.
fn halves(fonts: &[i64]) -> [Vec<usize>; 2] {
    let fonts: Vec<usize> = fonts
        .iter()
        .filter_map(|&f| usize::try_from(f).ok())
        .collect();
    let (first, second) = fonts.split_at(fonts.len() / 2);
    [first.to_vec(), second.to_vec()]
}

fn latents(arrays: &TypedArrays, name: &str) -> Result<Vec<Latent>> {
    let array = arrays.f32_of_rank(name, 2)?;
    if array.shape[1] != LATENT {
        let found = format!("{:?}", array.shape);
        return Err(arrays.unexpected(name, "[n, 11]", found).into());
    }
    Ok(array.data.as_chunks().0.to_vec())
}

fn table(arrays: &TypedArrays, name: &str) -> Result<Vec<[f32; 3]>> {
    let array = arrays.f32_of_rank(name, 2)?;
    if array.shape[1] != 3 {
        let found = format!("{:?}", array.shape);
        return Err(arrays.unexpected(name, "[n, 3]", found).into());
    }
    Ok(array.data.as_chunks().0.to_vec())
}

fn perceptrons(
    generator: &TypedArrays,
    generator_layers: &[String],
    classifier: &TypedArrays,
    classifier_layers: &[String],
    image: [usize; 3],
) -> Result<Perceptrons> {
    let layers = |arrays: &TypedArrays, names: &[String], last: bool| -> Result<Vec<Layer>> {
        let count = names.len();
        { names.iter().enumerate() }
            .map(|(i, name)| {
                let weight = arrays.f32_of_rank(&format!("{name}.weight"), 2)?;
                let bias = arrays.f32_of_rank(&format!("{name}.bias"), 1)?;
                Layer::new(weight.data, bias.data, last || i + 1 < count)
            })
            .collect()
    };
    Perceptrons::new(
        layers(generator, generator_layers, true)?,
        layers(classifier, classifier_layers, false)?,
        image,
    )
}

enum DecoderKind {
    Glyphs(Arc<Generator>, usize),
    Bex(StateDict),
}

/// Networks with a classifier from its card, and the checksum of its weights.
fn classified(
    registry: &Registry,
    device: &WithGradients,
    card: &Card,
    decoder: DecoderKind,
) -> Result<(Box<dyn Networks>, String)> {
    if card.role != Role::Classifier {
        let what = format!("network {}", card.name);
        return Err(LatentError::setting(
            what,
            "role = \"classifier\"",
            format!("{:?}", card.role),
        ));
    }
    let loaded = registry.load(card)?;
    let sha = loaded.content_sha256();
    let networks = match device {
        WithGradients::Engine(b) => on(b, card, &loaded.dict, decoder)?,
        WithGradients::Composed(b) => on(b, card, &loaded.dict, decoder)?,
    };
    Ok((networks, sha.to_string()))
}

fn on<B: Differentiable + Sync>(
    backend: &B,
    card: &Card,
    dict: &StateDict,
    decoder: DecoderKind,
) -> Result<Box<dyn Networks>>
where
    Taped<B>: Networks,
{
    let classifier = build(card.architecture, backend, dict, &card.unet)?;
    let decoder = match decoder {
        DecoderKind::Glyphs(generator, size) => Decoder::Glyphs(generator, size),
        DecoderKind::Bex(dict) => Decoder::Bex(Box::new(BexGenerator::new(backend, &dict)?)),
    };
    let networks = Taped::new(backend.clone(), decoder, classifier, &card.preprocessing)?;
    Ok(Box::new(networks))
}
