//! Pictures of golden data: 8-bit RGB, read from PNG files.

use std::collections::BTreeMap;
use std::path::Path;

use super::check::Check;
use super::error::Of;
use super::folder::Folder;
use super::{ConformanceError, Result};
use crate::images::{self, Filter, Image, Limits};
use crate::tensor::Backend;

/// 8-bit RGB pixels, rows × columns × channels.
#[derive(Clone, Debug)]
pub struct Picture {
    pub width: usize,
    pub height: usize,
    pub pixels: Vec<u8>,
}

/// Decodes an image file.
pub fn pixels(file: &str, bytes: &[u8]) -> Result<Picture> {
    let image = images::decode(bytes, Path::new(file), &Limits::default()).map_err(|e| {
        ConformanceError::Image {
            file: file.into(),
            reason: e.to_string(),
        }
    })?;
    Ok(Picture {
        width: image.width,
        height: image.height,
        pixels: image.pixels,
    })
}

impl Picture {
    /// From channels × rows × columns.
    pub fn from_planes(planes: &[u8], height: usize, width: usize) -> Self {
        let plane = height * width;
        let pixels = (0..plane)
            .flat_map(|at| planes.iter().skip(at).step_by(plane.max(1)).copied())
            .collect();
        Self {
            width,
            height,
            pixels,
        }
    }

    /// Pillow's bicubic resize.
    pub fn bicubic(&self, height: usize, width: usize) -> Self {
        let image = Image {
            width: self.width,
            height: self.height,
            pixels: self.pixels.clone(),
        };
        let resized = images::resize(&image, width, height, Filter::Bicubic);
        Self {
            width,
            height,
            pixels: resized.pixels,
        }
    }

    pub fn size(&self) -> (usize, usize) {
        (self.height, self.width)
    }

    pub fn upload<B: Backend>(&self, backend: &B) -> Result<B::Tensor> {
        upload(backend, &[self])
    }
}

/// Pictures of one size as a batch of values 0..255.
pub fn upload<B: Backend>(backend: &B, pictures: &[&Picture]) -> Result<B::Tensor> {
    let (height, width) = pictures.first().map_or((0, 0), |p| p.size());
    let images: Vec<&[u8]> = pictures.iter().map(|p| &p.pixels[..]).collect();
    backend
        .upload_pixels(&images, height, width)
        .of("upload of pictures")
}

/// Pictures by the names that cases use (a file name without `.png`).
#[derive(Default)]
pub struct Album(BTreeMap<String, Picture>);

impl Album {
    /// Reads `name` from the first of `folders` that has it, unless it was read before.
    /// An absent picture is noted, and false.
    pub fn has(
        &mut self,
        name: &str,
        folder: &Folder,
        folders: &[&str],
        check: &mut Check,
    ) -> Result<bool> {
        if self.0.contains_key(name) {
            return Ok(true);
        }
        for parent in folders {
            let file = format!("{parent}/{name}.png");
            if let Some(bytes) = folder.bytes(&file)? {
                let picture = pixels(&folder.name(&file), &bytes)?;
                self.0.insert(name.into(), picture);
                return Ok(true);
            }
        }
        let files: Vec<String> = folders.iter().map(|f| format!("{f}/{name}.png")).collect();
        check.absent(files.join(" or "));
        Ok(false)
    }

    pub fn get(&self, name: &str) -> Option<&Picture> {
        self.0.get(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planes_become_pixels() {
        let picture = Picture::from_planes(&[1, 2, 3, 4, 5, 6], 1, 2);
        assert_eq!(picture.pixels, [1, 3, 5, 2, 4, 6]);
    }
}
