//! Images and pairs of images: find, pair, decode, resize, crop. Nothing here knows a network or a metric.
//!
//! # Rules of decoding
//! The aim is the pixels of `ImageOps.exif_transpose(Image.open(file)).convert("RGB")` in Pillow, on which the field's
//! Python tools rest; where the rule is another one, it says so here.
//!
//! - The format is told by the content, never by the extension: PNG, JPEG, WebP, BMP, TIFF.
//! - Grey is replicated to red, green and blue; palettes are looked up; 1, 2 and 4 bits are scaled to 0..255.
//! - 16-bit samples keep their high byte, as Pillow reads 16-bit RGB. Pillow's own `convert` clips 16-bit *grey* at 255
//!   instead, which turns nearly all of it white: not followed.
//! - Alpha is composited over white in 8 bits, (v·a + 255·(255 − a)) / 255 rounded, as Pillow's `alpha_composite` over
//!   white. (`convert("RGB")` drops alpha and shows whatever colour hides below: not followed.)
//! - The EXIF orientation is applied (JPEG, PNG, WebP, TIFF); colour profiles are ignored, as Pillow does.
//! - JPEG pixels equal libjpeg-turbo's bit for bit ([`jpeg`]).
//! - Animations and documents of several pages are refused: which frame counts is the user's choice. Floating-point
//!   samples are refused, since their range is not known.
//! - Bytes after the end of an image are ignored.
//! - A declared size beyond [`Limits::max_pixels`] is refused before anything is allocated.

mod bmp;
mod celeba;
mod error;
mod fault;
mod files;
mod format;
mod idx;
pub mod jpeg;
pub mod manifest;
mod orientation;
pub mod pairs;
mod png;
mod raster;
pub mod resize;
mod samples;
mod tiff;
mod webp;

use std::fs;
use std::path::Path;

pub use celeba::{Attributes, AttributesError};
pub use error::ImageError;
pub use files::list_images;
pub use idx::{Idx, IdxError, MNIST_PARTS, is_idx, is_mnist, parse_idx, read_idx, read_mnist};
pub use manifest::read_manifest;
pub use pairs::{Pair, Pairing, pair_folders};
pub use resize::{Filter, Order, Window, center_crop, passes, resize, resize_in_order};

use fault::Fault;
use format::Format;
use jpeg::JpegError;

/// An image of 8-bit RGB pixels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// Width in pixels.
    pub width: usize,
    /// Height in pixels.
    pub height: usize,
    /// Red, green and blue of every pixel, row by row: `height * width * 3` values.
    pub pixels: Vec<u8>,
}

impl Image {
    /// Whether a pixel is not grey.
    pub fn has_colour(&self) -> bool {
        is_coloured(&self.pixels)
    }
}

/// Whether one of some RGB pixels is not grey.
pub fn is_coloured(pixels: &[u8]) -> bool {
    let mut pixels = pixels.chunks_exact(3);
    pixels.any(|p| p[0] != p[1] || p[1] != p[2])
}

/// What a file may ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Most pixels of one image.
    pub max_pixels: u64,
}

impl Default for Limits {
    /// 100 megapixels: above what cameras deliver, far above what classifiers are fed with; decoded it takes 300 MB,
    /// which a machine that runs the networks has to spare. Pillow warns at 89 and refuses at 179 megapixels.
    fn default() -> Self {
        Self {
            max_pixels: 100_000_000,
        }
    }
}

/// Reads the image file at `path`.
pub fn read(path: &Path, limits: &Limits) -> Result<Image, ImageError> {
    let unreadable = |source| ImageError::Unreadable {
        path: path.to_owned(),
        source,
    };
    let kind = fs::metadata(path).map_err(unreadable)?.file_type();
    if !kind.is_file() {
        // Opening a pipe would wait for somebody to write to it.
        let found = if kind.is_dir() {
            "a folder"
        } else {
            "a pipe or device"
        };
        return Err(ImageError::NotAFile {
            path: path.to_owned(),
            found,
        });
    }
    decode(&fs::read(path).map_err(unreadable)?, path, limits)
}

/// Decodes an image file of content `bytes`; `name` is what errors call it.
pub fn decode(bytes: &[u8], name: &Path, limits: &Limits) -> Result<Image, ImageError> {
    if bytes.is_empty() {
        return Err(ImageError::Empty {
            path: name.to_owned(),
        });
    }
    let format = format::detect(bytes).map_err(|format::Unknown { found, advice }| {
        let path = name.to_owned();
        ImageError::UnknownFormat {
            path,
            found,
            advice,
        }
    })?;
    let image = match format {
        Format::Png => png::decode(bytes, limits),
        Format::Jpeg => decode_jpeg(bytes, limits),
        Format::WebP => webp::decode(bytes, limits),
        Format::Bmp => bmp::decode(bytes, limits),
        Format::Tiff => tiff::decode(bytes, limits),
    };
    image.map_err(|fault| named(fault, name, format, limits))
}

fn decode_jpeg(bytes: &[u8], limits: &Limits) -> Result<Image, Fault> {
    let decoded = jpeg::decode(bytes, limits.max_pixels).map_err(|error| match error {
        JpegError::TooLarge { width, height, .. } => Fault::TooLarge {
            width: width.into(),
            height: height.into(),
        },
        JpegError::Unsupported { what } => Fault::Unsupported(format!("one that is {what}")),
        error => Fault::corrupt(error),
    })?;
    let image = Image {
        width: decoded.width as usize,
        height: decoded.height as usize,
        pixels: decoded.rgb,
    };
    Ok(orientation::upright(
        image,
        decoded.exif.as_deref().map_or(1, orientation::from_exif),
    ))
}

/// The fault with the file's name and format.
fn named(fault: Fault, name: &Path, format: Format, limits: &Limits) -> ImageError {
    let path = name.to_owned();
    let format_name = format.name();
    match fault {
        Fault::TooLarge { width, height } => ImageError::TooLarge {
            path,
            width,
            height,
            max_pixels: limits.max_pixels,
        },
        Fault::Frames { format, frames } => ImageError::Frames {
            path,
            format,
            frames,
        },
        Fault::Unsupported(found) => ImageError::Unsupported {
            path,
            format: format_name,
            found,
        },
        Fault::Corrupt(reason) => ImageError::Corrupt {
            path,
            format: format_name,
            reason,
        },
    }
}
