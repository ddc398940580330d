//! Windows bitmaps, decoded by the `image` crate: palettes of 1 to 8 bits, RGB of 16 to 32 bits, run-length coded or
//! not. Pixels equal Pillow's: channels of 5 or 6 bits are scaled by 255 / 31 or 255 / 63 and
//! rounded down.

use std::io::Cursor;

use image::ImageDecoder;
use image::codecs::bmp::BmpDecoder;

use super::fault::{Fault, check_size, guarded, third_party_fault, third_party_limits};
use super::{Image, Limits, raster};

/// Decodes a BMP image.
pub fn decode(bytes: &[u8], limits: &Limits) -> Result<Image, Fault> {
    let (width, height) = read_size(bytes)?;
    check_size(width, height, limits)?;
    let mut image = guarded(|| {
        let mut decoder = BmpDecoder::new(Cursor::new(bytes)).map_err(third_party_fault)?;
        decoder
            .set_limits(third_party_limits(limits))
            .map_err(third_party_fault)?;
        raster::read(decoder, limits)
    })?;
    if let Some(levels) = sixteen_bit_levels(bytes) {
        round_down(&mut image.pixels, levels);
    }
    Ok(image)
}

/// Largest red, green and blue value in pixels of 16 bits; none for other pixels.
fn sixteen_bit_levels(bytes: &[u8]) -> Option<[u32; 3]> {
    if bytes.get(28..30)? != [16, 0] {
        return None;
    }
    if bytes.get(30) == Some(&0) {
        return Some([31; 3]);
    }
    let masks: &[u8; 12] = bytes.get(54..)?.first_chunk()?;
    let bits = |at: usize| {
        masks[at..at + 4]
            .iter()
            .map(|byte| byte.count_ones())
            .sum::<u32>()
    };
    Some([bits(0), bits(4), bits(8)].map(|bits| (1_u32 << bits.min(8)) - 1))
}

/// The `image` crate rounds v * 255 / levels to nearest, Pillow rounds it down.
fn round_down(pixels: &mut [u8], levels: [u32; 3]) {
    for pixel in pixels.as_chunks_mut::<3>().0 {
        for (value, level) in pixel.iter_mut().zip(levels) {
            let stored = (u32::from(*value) * level + 127) / 255;
            *value = (stored * 255)
                .checked_div(level)
                .map_or(*value, |value| value as u8);
        }
    }
}

/// Width and height from the header of either generation; rows may be stored upwards (negative height).
fn read_size(bytes: &[u8]) -> Result<(u64, u64), Fault> {
    let short = || Fault::Corrupt("a header that is too short".to_owned());
    let field = |at: usize| bytes.get(at..)?.first_chunk::<4>().copied();
    let header_size = u32::from_le_bytes(field(14).ok_or_else(short)?);
    if header_size == 12 {
        let [w0, w1, h0, h1] = field(18).ok_or_else(short)?;
        return Ok((
            u16::from_le_bytes([w0, w1]).into(),
            u16::from_le_bytes([h0, h1]).into(),
        ));
    }
    let width = i32::from_le_bytes(field(18).ok_or_else(short)?);
    let height = i32::from_le_bytes(field(22).ok_or_else(short)?);
    let width = u64::try_from(width).map_err(|_| Fault::Corrupt(format!("a width of {width}")))?;
    Ok((width, height.unsigned_abs().into()))
}
