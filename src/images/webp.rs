//! WebP images, decoded by the `image` crate: lossless, lossy, with or without alpha. Pixels equal
//! Pillow's (libwebp's) bit for bit on every file compared, the lossy ones included.
//!
//! The chunks are walked over beforehand: animation, truncation and EXIF data are known before anything is decoded.

use std::io::Cursor;

use image::ImageDecoder;
use image::codecs::webp::WebPDecoder;

use super::fault::{Fault, check_size, guarded, third_party_fault, third_party_limits};
use super::{Image, Limits, orientation, raster};

/// Decodes a still WebP image.
pub fn decode(bytes: &[u8], limits: &Limits) -> Result<Image, Fault> {
    let header = read_header(bytes, limits)?;
    if header.animated {
        return Err(Fault::Frames {
            format: "an animated WebP",
            frames: header.frames,
        });
    }
    let image = guarded(|| {
        let mut decoder = WebPDecoder::new(Cursor::new(bytes)).map_err(third_party_fault)?;
        let (width, height) = decoder.dimensions();
        check_size(width.into(), height.into(), limits)?;
        decoder
            .set_limits(third_party_limits(limits))
            .map_err(third_party_fault)?;
        raster::read(decoder, limits)
    })?;
    Ok(orientation::upright(
        image,
        header.exif.map_or(1, orientation::from_exif),
    ))
}

/// What the chunks say.
#[derive(Default)]
struct Header<'a> {
    animated: bool,
    frames: u64,
    exif: Option<&'a [u8]>,
}

fn read_header<'a>(bytes: &'a [u8], limits: &Limits) -> Result<Header<'a>, Fault> {
    let mut header = Header::default();
    let mut rest = bytes.get(12..).unwrap_or_default();
    while let Some((name, after)) = rest.split_first_chunk::<4>() {
        let Some((length, after)) = after.split_first_chunk() else {
            break;
        };
        let length = u32::from_le_bytes(*length) as usize;
        let pixels = matches!(name, b"VP8 " | b"VP8L" | b"VP8X" | b"ALPH" | b"ANMF");
        let Some(data) = after.get(..length) else {
            if pixels {
                let name = String::from_utf8_lossy(name);
                return Err(Fault::Corrupt(format!(
                    "chunk {name} holds {} of {length} bytes",
                    after.len()
                )));
            }
            break;
        };
        match name {
            b"VP8X" => read_extended(data, &mut header, limits)?,
            b"ANMF" => header.frames += 1,
            b"EXIF" => header.exif = Some(data),
            _ => {}
        }
        // Chunks are padded to an even length.
        rest = after.get(length.next_multiple_of(2)..).unwrap_or_default();
    }
    Ok(header)
}

/// The extended header: flags, then the canvas's width and height less one.
fn read_extended(data: &[u8], header: &mut Header, limits: &Limits) -> Result<(), Fault> {
    let Some(&[flags, _, _, _, w0, w1, w2, h0, h1, h2]) = data.first_chunk() else {
        return Err(Fault::Corrupt(
            "an extended header (VP8X) that is too short".to_owned(),
        ));
    };
    header.animated = flags & 2 != 0;
    let size = |low, middle, high| u64::from(u32::from_le_bytes([low, middle, high, 0])) + 1;
    check_size(size(w0, w1, w2), size(h0, h1, h2), limits)
}
