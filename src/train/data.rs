//! Images with known attributes, as `foil glyphs render` writes them, of CelebA, or of MNIST's files.

use std::path::Path;

use rayon::prelude::*;
use sha2::{Digest, Sha256};

use super::error::{Result, TrainError};
use crate::glyphs::CHARACTERS;
pub use crate::glyphs::dataset::Split;
use crate::images::{self, Attributes, Limits};
use crate::shell;
use crate::tensor::Array;

/// A row of `attributes.csv`; further columns are not needed here.
#[derive(Clone, Debug, serde::Deserialize)]
pub struct Row {
    pub file: String,
    pub split: Split,
    pub character: usize,
    pub font: usize,
    pub inverse: f32,
    pub scale: f32,
    pub x: f32,
    pub y: f32,
    pub rotation: f32,
    pub label: usize,
}

impl Row {
    /// An image of which nothing is known but its label.
    fn labelled(file: String, split: Split, label: usize) -> Self {
        Self {
            file,
            split,
            character: 0,
            font: 0,
            inverse: 0.0,
            scale: 0.0,
            x: 0.0,
            y: 0.0,
            rotation: 0.0,
            label,
        }
    }

    /// Inverse colour, scale, x, y, rotation.
    pub fn continuous(&self) -> [f32; 5] {
        [self.inverse, self.scale, self.x, self.y, self.rotation]
    }
}

/// Characters, typefaces and labels are numbered below this: a network has an output for each.
const CLASSES: usize = 1 << 12;

/// A folder of images with their attributes, in memory.
pub struct Data {
    pub rows: Vec<Row>,
    /// Side of every image.
    pub size: usize,
    /// Of the table and all pixels: which data these are, wherever they lie.
    pub sha256: String,
    /// What they are, for people: the command that renders them again, if `dataset.json` tells it.
    pub description: String,
    /// What the classes of `label` are called, from class 0 on; none if the data do not say it.
    pub label_names: Vec<String>,
    /// Whether nothing is known of an image but its label.
    pub labels_only: bool,
    /// RGB, image after image.
    pixels: Vec<u8>,
}

impl Data {
    /// Reads `attributes.csv` and the images it names.
    pub fn read(folder: &Path) -> Result<Self> {
        let table = folder.join("attributes.csv");
        let fault = |what: String| TrainError::File {
            path: table.display().to_string(),
            what,
        };
        let text = std::fs::read(&table).map_err(|e| {
            fault(format!(
                "{e}. --data wants a folder that `foil glyphs render` wrote and finished"
            ))
        })?;
        let rows: std::result::Result<Vec<Row>, _> =
            csv::Reader::from_reader(&text[..]).deserialize().collect();
        let rows = rows.map_err(|e| fault(e.to_string()))?;
        for (at, row) in rows.iter().enumerate() {
            let numbers = [
                ("character", row.character),
                ("font", row.font),
                ("label", row.label),
            ];
            if let Some((column, found)) = numbers.into_iter().find(|n| n.1 >= CLASSES) {
                return Err(fault(format!(
                    "line {}, {column}: expected a number below {CLASSES}, found {found}",
                    at + 2
                )));
            }
            if row.continuous().iter().any(|v| !v.is_finite()) {
                return Err(fault(format!(
                    "line {}: inverse, scale, x, y and rotation must be finite numbers",
                    at + 2
                )));
            }
        }
        let n = rows.len();
        let summary: Option<serde_json::Value> = std::fs::read(folder.join("dataset.json"))
            .ok()
            .and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let described = |size: usize| {
            let command = summary.as_ref().and_then(render_command);
            command.unwrap_or_else(|| format!("{n} images of {size}x{size} pixels"))
        };
        let names = summary.as_ref().map(label_names).unwrap_or_default();
        Self::with_images(folder, rows, names, &text, fault, described)
    }

    /// Reads the images of `rows`; `table` tells these data from others.
    fn with_images(
        folder: &Path,
        rows: Vec<Row>,
        label_names: Vec<String>,
        table: &[u8],
        fault: impl Fn(String) -> TrainError,
        described: impl Fn(usize) -> String,
    ) -> Result<Self> {
        let limits = Limits::default();
        let images: Vec<images::Image> = rows
            .par_iter()
            .map(|row| Ok(images::read(&folder.join(&row.file), &limits)?))
            .collect::<Result<_>>()?;
        let Some(first) = images.first() else {
            return Err(fault("it names no images".into()));
        };
        let size = first.width;
        for (row, image) in rows.iter().zip(&images) {
            if image.width != size || image.height != size {
                return Err(fault(format!(
                    "{} is {}x{}, the first image {size}x{size}: all must be squares of one size",
                    row.file, image.width, image.height
                )));
            }
        }
        let pixels: Vec<u8> = images.into_iter().flat_map(|image| image.pixels).collect();
        Ok(Self {
            rows,
            size,
            sha256: checksum(table, &pixels),
            description: described(size),
            label_names,
            labels_only: false,
            pixels,
        })
    }

    /// Reads a folder of MNIST's four files, or of files of the same names: FakeMNIST, Fashion-MNIST. The last tenth of the images for
    /// training is for validation.
    pub fn read_mnist(folder: &Path) -> Result<Self> {
        let wrong = |what: String| TrainError::File {
            path: folder.display().to_string(),
            what,
        };
        let (mut rows, mut pixels, mut side) = (Vec::new(), Vec::new(), None);
        for part in images::MNIST_PARTS {
            let (images, labels) =
                images::read_mnist(folder, part).map_err(|e| TrainError::Data(e.to_string()))?;
            let &[n, height, width] = &images.shape[..] else {
                unreachable!("images of MNIST's files have three sizes");
            };
            let size = *side.get_or_insert(height);
            if height != size || width != size || size == 0 {
                return Err(wrong(format!(
                    "{part} has images of {width}x{height} pixels: all must be squares of one size"
                )));
            }
            for (at, &label) in labels.values.iter().enumerate() {
                let split = match (part, 10 * at / n) {
                    ("train", 0..=8) => Split::Train,
                    ("train", _) => Split::Validation,
                    _ => Split::Test,
                };
                let file = format!("{part} image {at}");
                rows.push(Row::labelled(file, split, usize::from(label)));
            }
            pixels.extend(images.values.iter().flat_map(|&v| [v; 3]));
        }
        let Some(size) = side.filter(|_| !rows.is_empty()) else {
            return Err(wrong("its files hold no images".into()));
        };
        let labels: Vec<u8> = rows.iter().map(|row| row.label as u8).collect();
        Ok(Self {
            size,
            sha256: checksum(&labels, &pixels),
            description: format!("{} images of {size}x{size} pixels of IDX files", rows.len()),
            label_names: Vec::new(),
            labels_only: true,
            rows,
            pixels,
        })
    }

    /// Reads the images of a folder that CelebA's attribute file names; the label is 1 where they have the attribute. The first
    /// eighty per cent in the file's order are for training, ten for validation, ten for testing.
    pub fn read_celeba(folder: &Path, file: &Path, attribute: &str) -> Result<Self> {
        let wrong = |path: &Path, what: String| TrainError::File {
            path: path.display().to_string(),
            what,
        };
        let all = Attributes::read(file).map_err(|e| TrainError::Data(e.to_string()))?;
        let column = all.attribute(attribute);
        let column = column.map_err(|e| TrainError::Data(e.to_string()))?;
        // Aligned images are often kept as PNG under the names of the photographs.
        let found = all.images.iter().filter_map(|image| {
            let png = Path::new(image).with_extension("png").display().to_string();
            let there = [image.clone(), png].into_iter();
            let mut there = there.filter(|name| folder.join(name).is_file());
            Some((there.next()?, all.has(image, column)?))
        });
        let found: Vec<(String, bool)> = found.collect();
        if found.is_empty() {
            let named = all.images.first().map_or("none", String::as_str);
            return Err(wrong(
                folder,
                format!(
                    "expected images that {} names, such as {named}, found none of them",
                    file.display()
                ),
            ));
        }
        let n = found.len();
        let mut table = String::from("file,split,label\n");
        let mut rows = Vec::with_capacity(n);
        for (at, (name, has)) in found.into_iter().enumerate() {
            let split = match 10 * at / n {
                0..=7 => Split::Train,
                8 => Split::Validation,
                _ => Split::Test,
            };
            let label = usize::from(has);
            table.push_str(&format!("{name},{split:?},{label}\n"));
            rows.push(Row::labelled(name, split, label));
        }
        let description = |size: usize| {
            format!("{n} images of {size}x{size} pixels with CelebA's attribute {attribute}")
        };
        let data = Self::with_images(
            folder,
            rows,
            vec![format!("not {attribute}"), attribute.to_owned()],
            table.as_bytes(),
            |what| wrong(folder, what),
            description,
        )?;
        Ok(Self {
            labels_only: true,
            ..data
        })
    }

    /// What the classes of `label` are called, if there are as many of them; else their numbers.
    pub fn names_of(&self, classes: usize) -> Vec<String> {
        match self.label_names.len() == classes {
            true => self.label_names.clone(),
            false => (0..classes).map(|c| c.to_string()).collect(),
        }
    }

    /// Indices of the images of a split.
    pub fn split(&self, split: Split) -> Vec<usize> {
        let rows = self.rows.iter().enumerate();
        rows.filter(|(_, row)| row.split == split)
            .map(|(i, _)| i)
            .collect()
    }

    /// Pixels of one image.
    pub fn image(&self, index: usize) -> &[u8] {
        let len = self.size * self.size * 3;
        &self.pixels[index * len..(index + 1) * len]
    }

    /// Refuses images of colours, of which a network of grey ones would see one channel.
    pub fn expect_grey(&self) -> Result<()> {
        let coloured = (0..self.rows.len()).find(|&i| images::is_coloured(self.image(i)));
        match coloured.map(|i| &self.rows[i].file) {
            None => Ok(()),
            Some(file) => Err(TrainError::Data(format!(
                "{file}: expected a grey image, as this network takes, found colours; convert the images to grey first"
            ))),
        }
    }

    /// Images with one channel, NCHW: pixels of 0 to 255 as values from `low` to `high`. The images must be grey: see [`Self::expect_grey`].
    pub fn grey_batch(&self, items: &[usize], [low, high]: [f32; 2]) -> Array {
        let mut array = Array::zeros([items.len(), 1, self.size, self.size]);
        let each = array.data.chunks_exact_mut(self.size * self.size);
        for (values, &item) in each.zip(items) {
            for (value, pixel) in values.iter_mut().zip(self.image(item).chunks_exact(3)) {
                *value = f32::from(pixel[0]) / 255.0 * (high - low) + low;
            }
        }
        array
    }

    /// Images as NCHW values from −1 to 1.
    pub fn batch(&self, items: &[usize]) -> Array {
        to_values(items.iter().map(|&item| self.image(item)), self.size)
    }
}

/// Which data these are: SHA-256 of their table and their pixels.
fn checksum(table: &[u8], pixels: &[u8]) -> String {
    let mut digest = Sha256::new();
    digest.update(table);
    digest.update(pixels);
    let digits = digest.finalize();
    digits.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Square RGB images as NCHW values from −1 to 1.
pub fn to_values<'a>(images: impl ExactSizeIterator<Item = &'a [u8]>, size: usize) -> Array {
    let area = size * size;
    let mut array = Array::zeros([images.len(), 3, size, size]);
    for (values, image) in array.data.chunks_exact_mut(3 * area).zip(images) {
        for (at, pixel) in image.chunks_exact(3).enumerate() {
            for (c, &value) in pixel.iter().enumerate() {
                values[c * area + at] = f32::from(value) / 127.5 - 1.0;
            }
        }
    }
    array
}

/// The way back for one image, `[3, h, w]` to RGB; values beyond the range are cut off.
pub fn to_pixels(values: &[f32]) -> Vec<u8> {
    let area = values.len() / 3;
    let pixel = |v: f32| ((v.clamp(-1.0, 1.0) + 1.0) * 127.5).round() as u8;
    (0..area)
        .flat_map(|at| [0, 1, 2].map(|c| pixel(values[c * area + at])))
        .collect()
}

/// The classes of a `dataset.json`; those that are numbers have no other names. Folders of earlier versions know parity only.
fn label_names(summary: &serde_json::Value) -> Vec<String> {
    match summary.pointer("/model/labels").map(|l| l.as_str()) {
        None | Some(Some("parity")) => vec!["even".to_owned(), "odd".to_owned()],
        _ => Vec::new(),
    }
}

/// The command that renders the data of a `dataset.json`, with every setting that it has a flag for.
fn render_command(summary: &serde_json::Value) -> Option<String> {
    let mut words = vec!["foil glyphs render".to_owned()];
    let flags = [
        ("--n", "/images"),
        ("--seed", "/seed"),
        ("--size", "/size"),
        ("--pixel-noise", "/pixel_noise"),
        ("--spurious", "/model/spurious"),
        ("--correlation", "/model/correlation"),
        ("--label-noise", "/model/label_noise"),
        ("--inverse", "/model/inverse"),
        ("--scale", "/model/scale"),
        ("--scale-spread", "/model/scale_spread"),
        ("--rotation-spread", "/model/rotation_spread"),
        ("--translation", "/model/translation"),
    ];
    for (flag, place) in flags {
        words.push(format!("{flag} {}", shortest(summary.pointer(place)?)?));
    }
    // Folders of earlier versions do not say these.
    let characters = summary.pointer("/model/characters")?.as_u64()?;
    if characters + 1 < CHARACTERS.len() as u64 {
        words.push(format!("--characters {characters}"));
    }
    let labels = summary.pointer("/model/labels").and_then(|l| l.as_str());
    if let Some(labels) = labels.filter(|l| *l != "parity") {
        words.push(format!("--labels {labels}"));
    }
    words.push(format!(
        "--protocol {}",
        summary.pointer("/protocol")?.as_str()?
    ));
    let shares = summary.pointer("/split_percent")?.as_array()?;
    let shares = shares.iter().map(shortest).collect::<Option<Vec<_>>>()?;
    words.push(format!("--split {}", shares.join(",")));
    if let Some(folder) = summary.pointer("/typefaces/folder") {
        words.push(format!("--fonts {}", shell::word(folder.as_str()?)));
    }
    Some(words.join(" "))
}

/// A number as one would type it. Settings of single precision are written with the digits of double precision.
fn shortest(number: &serde_json::Value) -> Option<String> {
    let value = number.as_f64()?;
    let single = value as f32;
    Some(match f64::from(single) == value {
        true => single.to_string(),
        false => number
            .as_u64()
            .map_or(value.to_string(), |whole| whole.to_string()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::glyphs::{Atlas, Model, dataset};

    #[test]
    fn values_and_pixels_are_the_same_images() {
        let images: Vec<Vec<u8>> = (0..2)
            .map(|i| (0..12).map(|k| (i * 120 + k * 11) as u8).collect())
            .collect();
        let values = to_values(images.iter().map(Vec::as_slice), 2);
        assert_eq!(values.shape, [2, 3, 2, 2]);
        assert_eq!(values.data[4], 11.0 / 127.5 - 1.0);
        for (image, values) in images.iter().zip(values.data.chunks(12)) {
            assert_eq!(&to_pixels(values), image);
        }
        assert_eq!(to_pixels(&[-3.0, 3.0, 0.0]), [0, 255, 128]);
    }

    #[test]
    fn data_tell_the_command_that_renders_them_and_a_checksum_of_all_pixels() {
        let folder = tempfile::tempdir().unwrap();
        let plan = dataset::Plan {
            n: 4,
            seed: 9,
            model: Model {
                spurious: 0,
                ..Model::default()
            },
            ..dataset::Plan::default()
        };
        let atlas = Atlas::embedded().unwrap();
        dataset::write(&atlas, &plan, folder.path(), false, &mut |_, _, _| {}).unwrap();
        let data = Data::read(folder.path()).unwrap();
        assert_eq!(
            data.description,
            "foil glyphs render --n 4 --seed 9 --size 32 --pixel-noise 0.01 --spurious 0 --correlation 0.95 \
             --label-noise 0.05 --inverse 0.5 --scale 0.7 --scale-spread 0.1 --rotation-spread 0.3 --translation 0.9 \
             --protocol exact --split 60,20,20"
        );
        // With typefaces of a folder.
        let path = folder.path().join("dataset.json");
        let own = std::fs::read_to_string(&path).unwrap();
        let from = own.replace(r#""embedded""#, r#"{"folder": "my fonts", "sha256": "0"}"#);
        std::fs::write(&path, from).unwrap();
        let described = Data::read(folder.path()).unwrap().description;
        assert_eq!(described, data.description.clone() + " --fonts 'my fonts'");
        // Another pixel, or another label, makes other data.
        let file = folder.path().join("images/000002.png");
        let mut image = image::open(&file).unwrap().to_rgb8();
        image.get_pixel_mut(3, 3)[0] ^= 1;
        image.save(&file).unwrap();
        let pixel = Data::read(folder.path()).unwrap().sha256;
        let table = folder.path().join("attributes.csv");
        let text = std::fs::read_to_string(&table).unwrap();
        std::fs::write(&table, text.replacen("train", "test", 1)).unwrap();
        let label = Data::read(folder.path()).unwrap().sha256;
        assert!(data.sha256 != pixel && pixel != label && data.sha256.len() == 64);
        std::fs::remove_file(folder.path().join("dataset.json")).unwrap();
        let bare = Data::read(folder.path()).unwrap();
        assert_eq!(bare.description, "4 images of 32x32 pixels");
    }
}
