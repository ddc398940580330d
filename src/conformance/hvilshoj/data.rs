//! Sheets of images and their labels.

use std::collections::BTreeMap;

use super::super::check::Check;
use super::super::folder::Folder;
use super::super::pictures;
use super::super::{ConformanceError, Result};
use super::fake_rule;
use crate::score::samples::{Pixels, Samples};

/// A data set in one range of values.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    pub name: &'static str,
    pub data: &'static str,
    pub range: [f64; 2],
    /// The oracle, then further label models.
    pub models: &'static [&'static str],
}

pub const CONFIGS: [Config; 3] = [
    Config {
        name: "mnist_m05_05",
        data: "mnist",
        range: [-0.5, 0.5],
        models: &["mnist_oracle_m05_05"],
    },
    Config {
        name: "mnist_0_1",
        data: "mnist",
        range: [0.0, 1.0],
        models: &["mnist_oracle_0_1"],
    },
    Config {
        name: "fakemnist_m05_05",
        data: "fakemnist",
        range: [-0.5, 0.5],
        models: &["fakemnist_dot_oracle", "fakemnist_digit_oracle"],
    },
];

/// Images and classes of one data set.
pub struct Set {
    pub label: Vec<i64>,
    /// The digit in the image, where the label is another thing.
    pub digit: Option<Vec<i64>>,
    pub real: Pixels,
    pub methods: BTreeMap<String, Samples>,
}

#[derive(Default)]
pub struct Data(BTreeMap<&'static str, Option<Set>>);

impl Data {
    /// A data set; none if its labels or originals are absent.
    pub fn of(
        &mut self,
        folder: &Folder,
        name: &'static str,
        check: &mut Check,
    ) -> Result<Option<&Set>> {
        if !self.0.contains_key(name) {
            let set = read(folder, name, check)?;
            self.0.insert(name, set);
        }
        Ok(self.0.get(name).and_then(Option::as_ref))
    }
}

fn read(folder: &Folder, name: &str, check: &mut Check) -> Result<Option<Set>> {
    check.group(format!("{name} images"));
    let Some(labels) = folder.tensors(&format!("{name}_labels.safetensors"))? else {
        return Ok(None);
    };
    let first = folder.tensors(&format!("{name}_images_first128.safetensors"))?;
    let label = labels.i64("real.label")?;
    let n = label.len();
    let sheet = |source: &str| -> Result<Option<Pixels>> {
        let file = format!("{name}_{}_images.png", source.to_lowercase());
        let array = format!("{source}.images_first128");
        let Some(bytes) = folder.bytes(&file)? else {
            return Ok(None);
        };
        let picture = pictures::pixels(&folder.name(&file), &bytes)?;
        let [h, w] = match first.as_ref().filter(|f| f.contains(&array)) {
            Some(first) => match *first.u8(&array)?.0 {
                [_, h, w] => [h, w],
                ref shape => {
                    return Err(first.wrong(&array, "[n, rows, columns]", format!("{shape:?}")));
                }
            },
            None => [tile_side(&picture, n); 2],
        };
        tiles(&picture, h, w, n)
            .map(Some)
            .ok_or_else(|| ConformanceError::Image {
                file: folder.name(&file),
                reason: format!(
                    "expected tiles of {w}x{h} pixels for {n} samples, found {}x{} pixels",
                    picture.width, picture.height
                ),
            })
    };
    let Some(real) = sheet("real")? else {
        return Ok(None);
    };
    let digit = match labels.contains("real.digit_label") {
        true => Some(labels.i64("real.digit_label")?),
        false => None,
    };
    let mut set = Set {
        label,
        digit,
        real,
        methods: BTreeMap::new(),
    };
    let mut sources = vec![("real".to_owned(), set.real.clone())];
    let suffix = ".target_class";
    for method in labels.names().filter_map(|n| n.strip_suffix(suffix)) {
        let of = |what: &str| labels.i64(&format!("{method}.{what}"));
        let (target, original_prediction) = (of("target_class")?, of("original_prediction")?);
        let prediction = of("counterfactual_prediction")?;
        let Some(counterfactuals) = sheet(method)? else {
            continue;
        };
        sources.push((method.to_owned(), counterfactuals.clone()));
        let samples = Samples {
            originals: set.real.clone(),
            counterfactuals,
            original_prediction,
            target,
            prediction,
        };
        set.methods.insert(method.to_owned(), samples);
    }
    for (source, pixels) in &sources {
        let array = format!("{source}.images_first128");
        let Some(first) = first.as_ref().filter(|f| f.contains(&array)) else {
            continue;
        };
        let (_, expected) = first.u8(&array)?;
        let expected: Vec<f32> = expected.iter().map(|&v| f32::from(v)).collect();
        let found = pixels.values.get(..expected.len()).unwrap_or_default();
        check.identical(
            format!("{source}: first images of the sheet"),
            &expected,
            found,
        );
    }
    let sources = "real.source_index_in_mnist_test";
    if labels.contains(sources) {
        check.group(format!("{name} rule"));
        fake_rule::check_all(name, &labels.i64(sources)?, &set, check);
    }
    Ok(Some(set))
}

/// The side of square tiles, of which no other file tells: the largest with room for `n`.
fn tile_side(picture: &pictures::Picture, n: usize) -> usize {
    let [width, height] = [picture.width, picture.height];
    let fits = |side: &usize| {
        width.is_multiple_of(*side)
            && height.is_multiple_of(*side)
            && (width / side) * (height / side) >= n
    };
    (1..=width.min(height)).rev().find(fits).unwrap_or(0)
}

/// Sample i is at tile row i / columns, tile column i % columns.
fn tiles(picture: &pictures::Picture, h: usize, w: usize, n: usize) -> Option<Pixels> {
    let columns = picture.width.checked_div(w)?;
    let rows = picture.height.checked_div(h)?;
    if columns * w != picture.width || rows * h != picture.height || columns * rows < n {
        return None;
    }
    let mut values = Vec::with_capacity(n * h * w);
    for i in 0..n {
        let (top, left) = (i / columns * h, i % columns * w);
        for y in top..top + h {
            let row = (y * picture.width + left) * 3;
            values.extend(picture.pixels[row..row + 3 * w].iter().step_by(3));
        }
    }
    Some(Pixels::grey(h, w, &values))
}
