//! What a TIFF directory says about its image: size, samples, colours, and where the data lie.

use super::directory::Directory;
use crate::images::Limits;
use crate::images::fault::{Fault, check_size};

/// Meaning of the samples (photometric interpretation).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colour {
    /// Grey where 0 is white.
    WhiteIsZero,
    /// Grey where 0 is black.
    BlackIsZero,
    /// Red, green, blue.
    Rgb,
    /// An index into a table of colours.
    Palette,
    /// Inks.
    Cmyk,
}

/// The fourth (or second) sample of a pixel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alpha {
    /// None, or one that has nothing to do with opacity.
    None,
    /// Opacity, with which the colours are multiplied already.
    Associated,
    /// Opacity.
    Unassociated,
}

/// How the data of strips and tiles are packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    None,
    /// LZW.
    Lzw,
    /// zlib.
    Deflate,
    /// Runs of bytes.
    PackBits,
}

/// Strips (as wide as the image) or tiles, in the file's order: left to right, top to bottom, plane by plane.
#[derive(Debug)]
pub struct Chunks {
    /// Width in pixels.
    pub width: usize,
    /// Height in pixels; a last strip may be lower.
    pub height: usize,
    /// Offset and length of each.
    pub places: Vec<(u64, u64)>,
    /// Whether the last row of chunks is cut at the image's lower edge.
    pub strips: bool,
}

/// All that is needed to read the image.
#[derive(Debug)]
pub struct Layout {
    pub width: usize,
    pub height: usize,
    /// Bits per sample: 1, 2, 4, 8 or 16.
    pub bits: usize,
    /// Samples per pixel.
    pub samples: usize,
    pub colour: Colour,
    pub alpha: Alpha,
    pub compression: Compression,
    /// Whether rows hold differences between neighbours.
    pub differences: bool,
    /// Whether each sample has its own plane.
    pub planar: bool,
    /// Whether bytes have their bits in reversed order.
    pub reversed: bool,
    pub chunks: Chunks,
}

impl Layout {
    /// Reads and checks the tags of `tags`.
    pub fn read(tags: &Directory, limits: &Limits) -> Result<Self, Fault> {
        let number = |tag, default| tags.number(tag, default).map_err(Fault::Corrupt);
        let (width, height) = (number(256, 0)?, number(257, 0)?);
        check_size(width, height, limits)?;
        let (width, height) = (width as usize, height as usize);
        let samples = number(277, 1)?;
        if !(1..=8).contains(&samples) {
            return Err(Fault::Unsupported(format!(
                "one of {samples} samples per pixel"
            )));
        }
        let samples = samples as usize;
        check_sample_format(tags)?;
        let bits = read_bits(tags)?;
        let colour = read_colour(number(262, 1)?)?;
        let alpha = read_alpha(tags, colour, samples)?;
        let planar = number(284, 1)? == 2 && samples > 1;
        let differences = match number(317, 1)? {
            1 => false,
            2 if bits >= 8 => true,
            other => {
                return Err(Fault::Unsupported(format!(
                    "one with predictor {other} at {bits} bits"
                )));
            }
        };
        let compression = read_compression(number(259, 1)?)?;
        let planes = if planar { samples } else { 1 };
        let chunks = read_chunks(tags, width, height, planes, limits)?;
        let reversed = number(266, 1)? == 2;
        Ok(Self {
            width,
            height,
            bits,
            samples,
            colour,
            alpha,
            compression,
            differences,
            planar,
            reversed,
            chunks,
        })
    }

    /// Samples that a row of a chunk interleaves.
    pub fn interleaved(&self) -> usize {
        if self.planar { 1 } else { self.samples }
    }
}

fn read_bits(tags: &Directory) -> Result<usize, Fault> {
    let bits = tags
        .numbers(258)
        .map_err(Fault::Corrupt)?
        .unwrap_or_else(|| vec![1]);
    match bits.first() {
        Some(&first @ (1 | 2 | 4 | 8 | 16)) if bits.iter().all(|&other| other == first) => {
            Ok(first as usize)
        }
        _ => Err(Fault::Unsupported(format!(
            "one of {bits:?} bits per sample"
        ))),
    }
}

fn check_sample_format(tags: &Directory) -> Result<(), Fault> {
    let formats = tags
        .numbers(339)
        .map_err(Fault::Corrupt)?
        .unwrap_or_default();
    match formats.iter().find(|&&format| format != 1 && format != 4) {
        None => Ok(()),
        Some(2) => Err(Fault::Unsupported("one of signed integers".to_owned())),
        Some(3) => Err(Fault::Unsupported(
            "one of floating-point samples".to_owned(),
        )),
        Some(other) => Err(Fault::Unsupported(format!("one of sample format {other}"))),
    }
}

fn read_colour(photometric: u64) -> Result<Colour, Fault> {
    Ok(match photometric {
        0 => Colour::WhiteIsZero,
        1 => Colour::BlackIsZero,
        2 => Colour::Rgb,
        3 => Colour::Palette,
        5 => Colour::Cmyk,
        6 => return Err(Fault::Unsupported("one of YCbCr colours".to_owned())),
        8..=10 => return Err(Fault::Unsupported("one of CIE Lab colours".to_owned())),
        other => {
            return Err(Fault::Unsupported(format!(
                "one of photometric interpretation {other}"
            )));
        }
    })
}

fn read_alpha(tags: &Directory, colour: Colour, samples: usize) -> Result<Alpha, Fault> {
    let needed = match colour {
        Colour::Rgb => 3,
        Colour::Cmyk => 4,
        _ => 1,
    };
    if samples < needed {
        return Err(Fault::Corrupt(format!(
            "{colour:?} pixels of {samples} samples"
        )));
    }
    let extra = tags.numbers(338).map_err(Fault::Corrupt)?;
    if samples == needed || matches!(colour, Colour::Cmyk | Colour::Palette) {
        return Ok(Alpha::None);
    }
    Ok(match extra.as_deref() {
        Some([1, ..]) => Alpha::Associated,
        // Writers that forget the tag mean opacity (Pillow reads it so, too).
        Some([2, ..]) | None | Some([]) => Alpha::Unassociated,
        Some(_) => Alpha::None,
    })
}

fn read_compression(number: u64) -> Result<Compression, Fault> {
    let name = match number {
        1 => return Ok(Compression::None),
        5 => return Ok(Compression::Lzw),
        8 | 32946 => return Ok(Compression::Deflate),
        32773 => return Ok(Compression::PackBits),
        2..=4 => "fax (CCITT)",
        6 | 7 => "JPEG",
        34925 => "LZMA",
        50000 => "Zstandard",
        50001 => "WebP",
        _ => "unknown",
    };
    Err(Fault::Unsupported(format!(
        "one with {name} compression ({number})"
    )))
}

fn read_chunks(
    tags: &Directory,
    width: usize,
    height: usize,
    planes: usize,
    limits: &Limits,
) -> Result<Chunks, Fault> {
    let list = |tag| tags.numbers(tag).map_err(Fault::Corrupt);
    let number = |tag, default| tags.number(tag, default).map_err(Fault::Corrupt);
    let strips = list(322)?.is_none();
    let (chunk_width, chunk_height) = if strips {
        (width as u64, number(278, height as u64)?.min(height as u64))
    } else {
        (number(322, 0)?, number(323, 0)?)
    };
    // A tile may exceed its image, within reason.
    let smallest_limit = Limits {
        max_pixels: limits.max_pixels.max(1 << 20),
    };
    check_size(chunk_width, chunk_height, &smallest_limit)
        .map_err(|_| Fault::Corrupt(format!("chunks of {chunk_width}x{chunk_height} pixels")))?;
    let (chunk_width, chunk_height) = (chunk_width as usize, chunk_height as usize);
    let (offsets, lengths) = if strips {
        (list(273)?, list(279)?)
    } else {
        (list(324)?, list(325)?)
    };
    let offsets = offsets.ok_or_else(|| Fault::Corrupt("no offsets of the data".to_owned()))?;
    let lengths = lengths.ok_or_else(|| Fault::Corrupt("no lengths of the data".to_owned()))?;
    let needed = width.div_ceil(chunk_width) * height.div_ceil(chunk_height) * planes;
    if offsets.len() < needed || lengths.len() < needed {
        let found = offsets.len().min(lengths.len());
        return Err(Fault::Corrupt(format!(
            "{needed} strips or tiles are needed, {found} are listed"
        )));
    }
    let places = offsets.into_iter().zip(lengths).take(needed).collect();
    Ok(Chunks {
        width: chunk_width,
        height: chunk_height,
        places,
        strips,
    })
}
