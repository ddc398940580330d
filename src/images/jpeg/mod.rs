//! JPEG decoder whose pixels equal libjpeg-turbo's with its default settings, as Pillow
//! runs it, bit for bit: baseline, extended sequential and progressive Huffman-coded
//! images of 8 bits with 1, 3 or 4 components.
//!
//! [`decode`] walks over the marker segments (`markers`), decodes the scans
//! (`image`, `sequential`, `progressive`), transforms blocks to samples (`idct`), brings the
//! components to the image's size (`upsample`) and converts them to RGB (`colour`).

mod bits;
mod colour;
mod error;
mod frame;
mod huffman;
mod idct;
mod image;
mod markers;
mod progressive;
mod sequential;
mod upsample;

pub use error::{JpegError, Progress};

use colour::Coding;
use image::Image;
use markers::{Hints, Segment, Tables, find_marker};

/// A decoded image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decoded {
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// Red, green and blue of every pixel, row by row.
    pub rgb: Vec<u8>,
    /// The EXIF data (a TIFF structure), without their "Exif" heading.
    pub exif: Option<Vec<u8>>,
    /// Whether the file holds grey values only.
    pub grey: bool,
}

/// Decodes the JPEG file `bytes`, which may have at most `max_pixels` pixels.
///
/// Anything after the end of the image is ignored, as are further images. Pixels are as
/// stored: the EXIF orientation is not applied.
pub fn decode(bytes: &[u8], max_pixels: u64) -> Result<Decoded, JpegError> {
    if !bytes.starts_with(&[0xFF, 0xD8, 0xFF]) {
        return Err(JpegError::NotJpeg {
            found: bytes.iter().copied().take(3).collect(),
        });
    }
    let mut decoder = Decoder {
        bytes,
        max_pixels,
        tables: Tables::default(),
        hints: Hints::default(),
        image: None,
    };
    let mut at = 2;
    loop {
        if let Some(image) = decoder.image.as_ref().filter(|image| image.complete()) {
            return Ok(decoder.finish(image));
        }
        let end = find_marker(bytes, at);
        let Some((marker, after)) = end.filter(|&(marker, _)| marker != END) else {
            let at = end.map_or(bytes.len(), |(_, after)| after - 2);
            let Some(image) = &decoder.image else {
                let expected = "a frame header".to_owned();
                return Err(JpegError::TruncatedFile { at, expected });
            };
            image.check_end(at, end.is_some())?;
            return Ok(decoder.finish(image));
        };
        at = decoder.segment(marker, after)?;
    }
}

/// The marker at the end of an image.
const END: u8 = 0xD9;

/// A decoding under way.
struct Decoder<'a> {
    bytes: &'a [u8],
    max_pixels: u64,
    tables: Tables,
    hints: Hints,
    image: Option<Image>,
}

impl Decoder<'_> {
    /// Deals with the segment of `marker` that starts at `at`; returns the offset behind.
    fn segment(&mut self, marker: u8, at: usize) -> Result<usize, JpegError> {
        let name = match marker {
            0x01 | 0xD0..=0xD7 => return Ok(at),
            0xC4 => "Huffman table segment (DHT)",
            0xC0..=0xC2 => "frame header (SOF)",
            0xC3 | 0xC5..=0xCF | 0xDE | 0xDF => return Err(unsupported(marker)),
            0xDA => "scan header (SOS)",
            0xDB => "quantisation table segment (DQT)",
            // The number of lines again: of no use where the frame header has it.
            0xDC => "line number segment (DNL)",
            0xDD => "restart interval segment (DRI)",
            0xE0..=0xEF => "application segment (APP)",
            0xFE => "comment (COM)",
            _ => {
                return Err(JpegError::BadSegment {
                    segment: "marker",
                    at: at - 2,
                    expected: "a marker that may stand between segments".to_owned(),
                    found: format!("FF {marker:02X}"),
                });
            }
        };
        let segment = Segment::read(self.bytes, at, name)?;
        match marker {
            0xC4 => self.tables.define_huffman(&segment)?,
            0xC0..=0xC2 if self.image.is_some() => {
                return Err(segment.bad("one frame header", "a second one"));
            }
            0xC0..=0xC2 => {
                let frame = markers::read_frame(&segment, marker == 0xC2, self.max_pixels)?;
                self.image = Some(Image::new(frame));
            }
            0xDA => {
                let Some(image) = &mut self.image else {
                    return Err(segment.bad("a frame header before the scan", "none"));
                };
                return image.scan(self.bytes, &segment, &self.tables, &self.hints);
            }
            0xDB => self.tables.define_quant(&segment)?,
            0xDD => self.tables.define_restart(&segment)?,
            // What comes after the first scan belongs to something else.
            0xE0..=0xEF if self.image.as_ref().is_none_or(Image::is_new) => {
                self.hints.note(marker - 0xE0, segment.data);
            }
            _ => {}
        }
        Ok(segment.end())
    }

    /// The decoded image with what else is known about it.
    fn finish(&self, image: &Image) -> Decoded {
        Decoded {
            width: image.frame.width as u32,
            height: image.frame.height as u32,
            rgb: image.rgb(),
            exif: self.hints.exif.clone(),
            grey: image.coding == Some(Coding::Grey),
        }
    }
}

/// The error of a marker for a kind of JPEG that is not read here.
fn unsupported(marker: u8) -> JpegError {
    let what = match marker {
        0xC3 => "lossless (SOF3)".to_owned(),
        0xC5..=0xC7 | 0xDE | 0xDF => format!("hierarchical (marker FF {marker:02X})"),
        0xC9..=0xCC => format!("arithmetically coded (marker FF {marker:02X})"),
        _ => format!("of a kind (marker FF {marker:02X}) that is rare"),
    };
    JpegError::Unsupported { what }
}
