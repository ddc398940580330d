//! A folder of glyph images: `images/NNNNNN.png`, `attributes.csv` with one row per image, and `dataset.json` with all
//! settings. While it is being written it holds `unfinished.json`, which says how many images are ours.
//!
//! Image i is a function of (settings, seed, i): it has the same bytes for any number of threads and any number of
//! images. Which split it belongs to comes from a random order of all images, hence depends on their number too.

use std::io;
use std::path::{Path, PathBuf};

use image::codecs::png::{CompressionType, FilterType, PngEncoder};
use image::{ExtendedColorType, ImageEncoder};
use rayon::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Atlas, CHARACTERS, Drawing, Example, Fonts, GlyphError, Labels, Model, World};
use crate::folder::{self, Claim, FolderError};
use crate::stats::random::{Draws, Stream};

/// The tables; a folder without them is not finished.
const TABLES: [&str; 2] = ["attributes.csv", "dataset.json"];
const SCHEMA: &str = "foil.glyphs/1";

/// What is in the folder from before the first image until after the tables.
const MARKER: &str = "unfinished.json";
const MARKER_SCHEMA: &str = "foil.glyphs.unfinished/1";

const MAKER: &str = "foil glyphs render";

/// Images between two reports of progress.
const CHUNK: usize = 1024;

/// Most images of a folder: what six digits can number.
pub const MOST_IMAGES: usize = 1_000_000;

/// What an image is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Split {
    Train,
    Validation,
    Test,
}

impl Split {
    pub const ALL: [Split; 3] = [Split::Train, Split::Validation, Split::Test];

    /// As `attributes.csv` calls it.
    pub fn name(self) -> &'static str {
        match self {
            Split::Train => "train",
            Split::Validation => "validation",
            Split::Test => "test",
        }
    }
}

/// Percentages for training, validation and test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shares(pub [f64; 3]);

impl Default for Shares {
    fn default() -> Self {
        Self([60.0, 20.0, 20.0])
    }
}

impl Shares {
    /// The split of the benchmark's code: no test set.
    pub fn published() -> Self {
        Self([80.0, 20.0, 0.0])
    }

    /// Refuses what does not add up to 100.
    pub fn check(&self) -> Result<(), GlyphError> {
        let sum: f64 = self.0.iter().sum();
        if self.0.iter().all(|share| *share >= 0.0) && (sum - 100.0).abs() < 1e-6 {
            return Ok(());
        }
        Err(GlyphError::Setting {
            name: "--split",
            expected: "percentages for train, validation and test that add up to 100".to_owned(),
            found: self.0.map(|share| share.to_string()).join(","),
        })
    }

    /// The split of each of `n` images: the first ones of a random order are for training, the last ones for test.
    pub fn assign(&self, n: usize, seed: u64) -> Vec<Split> {
        let end = |share: f64| ((share / 100.0 * n as f64).round() as usize).min(n);
        let (train, validation) = (end(self.0[0]), end(self.0[0] + self.0[1]));
        let mut splits = vec![Split::Test; n];
        let order = Draws::new(seed, Stream::GLYPH_SPLIT, 0).permutation(n);
        for (place, image) in order.into_iter().enumerate() {
            if place < train {
                splits[image] = Split::Train;
            } else if place < validation {
                splits[image] = Split::Validation;
            }
        }
        splits
    }
}

/// What to render.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Plan {
    pub n: usize,
    pub seed: u64,
    pub drawing: Drawing,
    pub model: Model,
    pub shares: Shares,
}

impl Plan {
    fn check(&self) -> Result<(), GlyphError> {
        self.drawing.check()?;
        self.shares.check()?;
        if self.model.labels == Labels::Dot && self.drawing.size < Labels::DOTS {
            return Err(GlyphError::Setting {
                name: "--size",
                expected: format!("at least {} rows for a dot", Labels::DOTS),
                found: self.drawing.size.to_string(),
            });
        }
        if (1..=MOST_IMAGES).contains(&self.n) {
            return Ok(());
        }
        Err(GlyphError::Setting {
            name: "--n",
            expected: format!("1 to {MOST_IMAGES} images"),
            found: self.n.to_string(),
        })
    }
}

/// Image `index` of a world with its causes: grey pixels, row by row. `None` if the atlas has other typefaces than the
/// world.
pub fn image(
    atlas: &Atlas,
    world: &World,
    drawing: &Drawing,
    index: u64,
) -> Option<(Example, Vec<u8>)> {
    let example = world.example(index);
    let mut noise = Draws::new(world.seed, Stream::GLYPH_NOISE, index);
    let mut pixels = drawing.pixels(atlas, &example.attributes, &mut noise)?;
    if world.model.labels == Labels::Dot {
        dot(&mut pixels, drawing.size, usize::from(example.label));
    }
    Some((example, pixels))
}

/// Makes a dot the label of an image: white in the first column, in the row of that number.
pub fn dot(pixels: &mut [u8], size: usize, label: usize) {
    if let Some(pixel) = pixels.get_mut(label * size) {
        *pixel = u8::MAX;
    }
}

/// Renders the images of `plan` into `folder`, which must be new or empty unless `replace`; then the images and tables
/// of a former run are replaced, finished or not, and files of others are left alone. Returns the content of `dataset.json`.
pub fn write(
    atlas: &Atlas,
    plan: &Plan,
    folder: &Path,
    replace: bool,
    progress: &mut dyn FnMut(&str, usize, usize),
) -> Result<Value, GlyphError> {
    plan.check()?;
    plan.model.check(atlas.font_count())?;
    let world = World::new(plan.model, plan.seed, atlas)?;
    let images = prepare(folder, plan.n, replace)?;
    let splits = plan.shares.assign(plan.n, plan.seed);
    let mut examples = Vec::with_capacity(plan.n);
    for start in (0..plan.n).step_by(CHUNK) {
        let chunk = start..(start + CHUNK).min(plan.n);
        let done: Vec<Example> = chunk
            .into_par_iter()
            .map(|index| {
                let path = images.join(file_name(index));
                let fail = |source| GlyphError::Write {
                    path: path.clone(),
                    source,
                };
                let (example, grey) = image(atlas, &world, &plan.drawing, index as u64)
                    .ok_or_else(|| fail(io::Error::other("no such glyph")))?;
                let bytes = png(&grey, plan.drawing.size).map_err(fail)?;
                std::fs::write(&path, bytes).map_err(fail)?;
                Ok(example)
            })
            .collect::<Result<_, GlyphError>>()?;
        examples.extend(done);
        progress("images", examples.len(), plan.n);
    }
    let table = table(atlas, &examples, &splits);
    let summary = summary(atlas, plan, &world, &examples, &splits);
    let mut text = serde_json::to_string_pretty(&summary).unwrap_or_default();
    text.push('\n');
    let [attributes, dataset] = TABLES.map(|name| folder.join(name));
    folder::write_whole(&dataset, text.as_bytes())?;
    folder::write_whole(&attributes, &table)?;
    folder::remove(&folder.join(MARKER))?;
    Ok(summary)
}

fn file_name(index: usize) -> String {
    format!("{index:06}.png")
}

/// The part of `dataset.json` and of the marker that says which files are ours.
#[derive(Deserialize)]
struct Made {
    schema: String,
    images: usize,
}

/// All files of a folder of `n` images, in the order in which they are removed. The tables go first and are written
/// last: a run that is interrupted leaves none that belongs to other images.
fn files(n: usize) -> Vec<String> {
    let images = (0..n).map(|index| format!("images/{}", file_name(index)));
    TABLES
        .map(str::to_owned)
        .into_iter()
        .chain(images)
        .collect()
}

/// Number of images that an earlier run made here, finished or not; `None` if there was none.
fn earlier(folder: &Path) -> Result<Option<usize>, FolderError> {
    let made = |name: &str, schema: &str| {
        folder::read_own(&folder.join(name), MAKER, |made: &Made| {
            made.schema == schema && made.images <= MOST_IMAGES
        })
    };
    let finished = made("dataset.json", SCHEMA)?.map(|made| made.images);
    let unfinished = made(MARKER, MARKER_SCHEMA)?.map(|made| made.images);
    Ok(finished.max(unfinished))
}

/// Says which images are ours, so that they may be replaced if the run is interrupted.
fn mark(folder: &Path, images: usize) -> Result<(), FolderError> {
    let text = format!("{}\n", json!({"schema": MARKER_SCHEMA, "images": images}));
    folder::write_whole(&folder.join(MARKER), text.as_bytes())
}

/// Makes `folder/images` for `n` images; with `replace` removes what an earlier run made.
fn prepare(folder: &Path, n: usize, replace: bool) -> Result<PathBuf, FolderError> {
    if !replace {
        folder::expect_empty(folder, MAKER)?;
    }
    let earlier = earlier(folder)?;
    let claim = Claim {
        folder,
        maker: MAKER,
        files: &files(n),
        earlier: &earlier.map(files).unwrap_or_default(),
    };
    claim.check()?;
    folder::make(folder)?;
    mark(folder, earlier.unwrap_or(0).max(n))?;
    claim.clear()?;
    mark(folder, n)?;
    Ok(folder.join("images"))
}

/// A PNG of three equal channels.
pub(crate) fn png(grey: &[u8], size: usize) -> io::Result<Vec<u8>> {
    let colour: Vec<u8> = grey.iter().flat_map(|&v| [v; 3]).collect();
    let mut bytes = Vec::new();
    PngEncoder::new_with_quality(&mut bytes, CompressionType::Fast, FilterType::NoFilter)
        .write_image(&colour, size as u32, size as u32, ExtendedColorType::Rgb8)
        .map_err(io::Error::other)?;
    Ok(bytes)
}

/// The text of `attributes.csv`.
fn table(atlas: &Atlas, examples: &[Example], splits: &[Split]) -> Vec<u8> {
    let mut text = String::from(
        "index,file,split,character,character_text,font,font_name,inverse,scale,x,y,rotation,parity,label\n",
    );
    for (index, (example, split)) in examples.iter().zip(splits).enumerate() {
        let a = &example.attributes;
        let name = atlas
            .fonts()
            .faces
            .get(a.font)
            .map_or("", |f| f.name.as_str());
        let row = [
            index.to_string(),
            format!("images/{}", file_name(index)),
            split.name().to_owned(),
            a.character.to_string(),
            CHARACTERS
                .get(a.character)
                .map_or(String::new(), char::to_string),
            a.font.to_string(),
            quoted(name),
            u8::from(a.inverse).to_string(),
            a.scale.to_string(),
            a.x.to_string(),
            a.y.to_string(),
            a.rotation.to_string(),
            example.parity.to_string(),
            example.label.to_string(),
        ];
        text.push_str(&row.join(","));
        text.push('\n');
    }
    text.into_bytes()
}

/// A field of a CSV file.
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

/// Which typefaces they are: those inside the program, or those of a folder.
fn typefaces(fonts: &Fonts) -> Value {
    match &fonts.folder {
        None => json!("embedded"),
        Some(folder) => json!({"folder": folder.to_string_lossy(), "sha256": fonts.sha256()}),
    }
}

/// The content of `dataset.json`.
fn summary(
    atlas: &Atlas,
    plan: &Plan,
    world: &World,
    examples: &[Example],
    splits: &[Split],
) -> Value {
    let model = &plan.model;
    let faces = &atlas.fonts().faces;
    let tied = |fonts: &[usize]| -> Vec<Value> {
        let known = fonts.iter().filter_map(|&f| Some((f, faces.get(f)?)));
        known
            .map(|(font, face)| json!({"font": font, "name": face.name}))
            .collect()
    };
    let of_split = |split: Split| splits.iter().filter(|s| **s == split).count();
    let of_label = |label: u8| examples.iter().filter(|e| e.label == label).count();
    let count = match model.labels {
        Labels::Parity => 2,
        Labels::Character => model.characters,
        Labels::Dot => Labels::DOTS,
    };
    let labels: serde_json::Map<String, Value> = (0..count)
        .map(|label| (label.to_string(), json!(of_label(label as u8))))
        .collect();
    json!({
        "schema": SCHEMA,
        "foil": env!("CARGO_PKG_VERSION"),
        "protocol": model.protocol(),
        "images": plan.n,
        "seed": plan.seed,
        "size": plan.drawing.size,
        "fonts": faces.len(),
        "typefaces": typefaces(atlas.fonts()),
        "pixel_noise": plan.drawing.pixel_noise,
        "model": {
            "characters": model.characters,
            "spurious": model.spurious,
            "correlation": model.correlation,
            "label_noise": model.label_noise,
            "inverse": model.inverse,
            "scale": model.scale,
            "scale_spread": model.scale_spread,
            "rotation_spread": model.rotation_spread,
            "translation": model.translation,
            "labels": model.labels.name(),
        },
        "spurious_fonts": {"label_0": tied(&world.spurious[0]), "label_1": tied(&world.spurious[1])},
        "split_percent": plan.shares.0,
        "splits": {
            "train": of_split(Split::Train),
            "validation": of_split(Split::Validation),
            "test": of_split(Split::Test),
        },
        "labels": labels,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain_plan(n: usize) -> Plan {
        Plan {
            n,
            seed: 5,
            model: Model {
                spurious: 0,
                ..Model::default()
            },
            ..Plan::default()
        }
    }

    #[test]
    fn splits_have_the_stated_sizes_and_a_random_order() {
        let splits = Shares::default().assign(1000, 3);
        let count = |split| splits.iter().filter(|s| **s == split).count();
        assert_eq!(Split::ALL.map(count), [600, 200, 200]);
        let in_first_half = splits[..500].iter().filter(|s| **s == Split::Train).count();
        // Hypergeometric with standard deviation 7.7.
        assert!((260..340).contains(&in_first_half), "{in_first_half}");
        // The table is read by the names it is written with.
        for split in Split::ALL {
            let read: Split = serde_json::from_value(json!(split.name())).unwrap();
            assert_eq!(read, split);
        }
        let published = Shares::published().assign(7, 0);
        assert_eq!(published.iter().filter(|s| **s == Split::Train).count(), 6);
        assert!(!published.contains(&Split::Test));
        assert!(Shares([50.0, 20.0, 20.0]).check().is_err());
        assert!(Shares([120.0, -20.0, 0.0]).check().is_err());
        assert!(Shares([f64::NAN, 50.0, 50.0]).check().is_err());
    }

    #[test]
    fn an_image_does_not_depend_on_threads_or_on_the_number_of_images() {
        let atlas = Atlas::embedded().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let render = |name: &str, n: usize, threads: usize| {
            let path = folder.path().join(name);
            let pool = rayon::ThreadPoolBuilder::new();
            let pool = pool.num_threads(threads).build().unwrap();
            let done =
                pool.install(|| write(&atlas, &plain_plan(n), &path, false, &mut |_, _, _| {}));
            done.unwrap();
            path
        };
        let (one, two) = (render("one", 12, 1), render("two", 20, 2));
        let again = render("again", 20, 1);
        for index in 0..12 {
            let name = format!("images/{index:06}.png");
            let bytes = std::fs::read(one.join(&name)).unwrap();
            assert_eq!(bytes, std::fs::read(two.join(&name)).unwrap());
        }
        for name in ["attributes.csv", "dataset.json", "images/000019.png"] {
            let bytes = std::fs::read(two.join(name)).unwrap();
            assert_eq!(bytes, std::fs::read(again.join(name)).unwrap());
        }
    }

    #[test]
    fn a_former_run_is_replaced_only_when_asked_for() {
        let atlas = Atlas::embedded().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let render = |n, replace| {
            write(
                &atlas,
                &plain_plan(n),
                folder.path(),
                replace,
                &mut |_, _, _| {},
            )
        };
        render(5, false).unwrap();
        std::fs::write(folder.path().join("images/notes.txt"), "mine").unwrap();
        assert!(matches!(
            render(2, false),
            Err(GlyphError::Folder(FolderError::NotEmpty { .. }))
        ));
        render(2, true).unwrap();
        let mut names: Vec<_> = std::fs::read_dir(folder.path().join("images"))
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["000000.png", "000001.png", "notes.txt"]);
    }

    #[test]
    fn files_of_others_are_never_replaced() {
        let atlas = Atlas::embedded().unwrap();
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        let render = |n| {
            let done = write(&atlas, &plain_plan(n), root.path(), true, &mut |_, _, _| {});
            done.map_err(|error| error.to_string())
        };
        std::fs::create_dir(at("images")).unwrap();
        // Without a table of ours nothing is ours, and neither is what has another one's name.
        for (name, content) in [
            ("images/000001.png", "mine"),
            ("attributes.csv", "mine"),
            ("dataset.json", "{\"schema\": \"other\", \"images\": 9}"),
            ("unfinished.json", "mine"),
        ] {
            std::fs::write(at(name), content).unwrap();
            let refused = render(3).unwrap_err();
            assert!(refused.contains(name), "{refused}");
            assert!(
                refused.contains("not made by `foil glyphs render`"),
                "{refused}"
            );
            assert_eq!(std::fs::read_to_string(at(name)).unwrap(), content);
            std::fs::remove_file(at(name)).unwrap();
        }
        std::fs::write(at("images/000007.png"), "mine").unwrap();
        render(3).unwrap();
        // With one, its images are, and no others.
        let refused = render(8).unwrap_err();
        assert!(refused.contains("000007.png"), "{refused}");
        assert!(at("images/000002.png").exists() && at("dataset.json").exists());
        render(2).unwrap();
        assert!(!at("images/000002.png").exists() && !at(MARKER).exists());
        assert_eq!(std::fs::read(at("images/000007.png")).unwrap(), b"mine");
    }

    #[test]
    fn an_interrupted_run_stays_replaceable() {
        let atlas = Atlas::embedded().unwrap();
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        let render = |n, replace| {
            write(
                &atlas,
                &plain_plan(n),
                root.path(),
                replace,
                &mut |_, _, _| {},
            )
        };
        // As a run of 5 leaves it that is killed after two images.
        prepare(root.path(), 5, false).unwrap();
        for name in ["images/000000.png", "images/000004.png"] {
            std::fs::write(at(name), "half").unwrap();
        }
        assert!(render(3, false).is_err());
        render(3, true).unwrap();
        assert!(!at("images/000004.png").exists() && at("attributes.csv").exists());
        // A replacement that is killed while it removes the images of the run before.
        mark(root.path(), 3).unwrap();
        std::fs::remove_file(at("dataset.json")).unwrap();
        std::fs::remove_file(at("attributes.csv")).unwrap();
        render(2, true).unwrap();
        assert!(!at("images/000002.png").exists() && !at(MARKER).exists());
    }

    #[test]
    fn names_with_commas_are_quoted() {
        assert_eq!(quoted("Plain Sans"), "Plain Sans");
        assert_eq!(quoted("A, \"B\""), "\"A, \"\"B\"\"\"");
    }
}
