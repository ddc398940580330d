//! PNG images, decoded by the `image` crate: grey, palette and RGB of 1 to 16 bits, with alpha or a transparent colour,
//! interlaced or not. Pixels equal Pillow's, but for 16-bit grey, which keeps its high byte here like every other 16-bit
//! sample, where Pillow's `convert("RGB")` clips it at 255. Colour profiles and gamma are ignored, as Pillow does.
//!
//! The chunks are walked over beforehand: size, animation and EXIF data are known before anything is allocated.

use std::io::Cursor;

use image::codecs::png::PngDecoder;

use super::fault::{Fault, check_size, guarded, third_party_fault, third_party_limits};
use super::{Image, Limits, orientation, raster};

/// What the chunks say.
struct Header<'a> {
    width: u32,
    height: u32,
    frames: Option<u32>,
    exif: Option<&'a [u8]>,
}

/// Decodes a still PNG image.
pub fn decode(bytes: &[u8], limits: &Limits) -> Result<Image, Fault> {
    let header = read_header(bytes)?;
    check_size(header.width.into(), header.height.into(), limits)?;
    if let Some(frames) = header.frames.filter(|&frames| frames > 1) {
        return Err(Fault::Frames {
            format: "an animated PNG",
            frames: frames.into(),
        });
    }
    let image = guarded(|| {
        let decoder = PngDecoder::with_limits(Cursor::new(bytes), third_party_limits(limits));
        raster::read(decoder.map_err(third_party_fault)?, limits)
    })?;
    Ok(orientation::upright(
        image,
        header.exif.map_or(1, orientation::from_exif),
    ))
}

fn read_header(bytes: &[u8]) -> Result<Header<'_>, Fault> {
    let mut chunks = Chunks { rest: &bytes[8..] };
    let Some((b"IHDR", data)) = chunks.next() else {
        return Err(Fault::Corrupt(
            "no header chunk (IHDR) at the start".to_owned(),
        ));
    };
    let Some((width, rest)) = data.split_first_chunk() else {
        return Err(Fault::Corrupt(
            "a header chunk that is too short".to_owned(),
        ));
    };
    let Some((height, _)) = rest.split_first_chunk() else {
        return Err(Fault::Corrupt(
            "a header chunk that is too short".to_owned(),
        ));
    };
    let (width, height) = (u32::from_be_bytes(*width), u32::from_be_bytes(*height));
    let mut header = Header {
        width,
        height,
        frames: None,
        exif: None,
    };
    for (name, data) in chunks {
        match name {
            b"acTL" => header.frames = data.first_chunk().map(|frames| u32::from_be_bytes(*frames)),
            b"eXIf" => header.exif = Some(data),
            b"IEND" => break,
            _ => {}
        }
    }
    Ok(header)
}

/// The chunks of a file, as far as they are whole.
struct Chunks<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Chunks<'a> {
    type Item = (&'a [u8; 4], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (length, rest) = self.rest.split_first_chunk()?;
        let (name, rest) = rest.split_first_chunk()?;
        let length = u32::from_be_bytes(*length) as usize;
        let data = rest.get(..length)?;
        // The checksum is the decoder's business.
        self.rest = rest.get(length + 4..)?;
        Some((name, data))
    }
}
