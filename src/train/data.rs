//! Images with known attributes, as `foil glyphs render` writes them.

use std::path::Path;

use rayon::prelude::*;

use super::error::{Result, TrainError};
use crate::images::{self, Limits};
use crate::tensor::Array;

/// Which part of the data an image belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Split {
    Train,
    Validation,
    Test,
}

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
    /// Inverse colour, scale, x, y, rotation.
    pub fn continuous(&self) -> [f32; 5] {
        [self.inverse, self.scale, self.x, self.y, self.rotation]
    }
}

/// A folder of images with their attributes, in memory.
pub struct Data {
    pub rows: Vec<Row>,
    /// Side of every image.
    pub size: usize,
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
        let reader = csv::Reader::from_path(&table);
        let mut reader = reader.map_err(|e| {
            fault(format!(
                "{e}. --data wants a folder that `foil glyphs render` wrote"
            ))
        })?;
        let rows: std::result::Result<Vec<Row>, _> = reader.deserialize().collect();
        let rows = rows.map_err(|e| fault(e.to_string()))?;
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
        let pixels = images.into_iter().flat_map(|image| image.pixels).collect();
        Ok(Self { rows, size, pixels })
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

    /// Images as NCHW values from −1 to 1.
    pub fn batch(&self, items: &[usize]) -> Array {
        let area = self.size * self.size;
        let mut array = Array::zeros([items.len(), 3, self.size, self.size]);
        for (image, &item) in array.data.chunks_exact_mut(3 * area).zip(items) {
            for (at, pixel) in self.image(item).chunks_exact(3).enumerate() {
                for (c, &value) in pixel.iter().enumerate() {
                    image[c * area + at] = f32::from(value) / 127.5 - 1.0;
                }
            }
        }
        array
    }
}
