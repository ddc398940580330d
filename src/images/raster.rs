//! From a decoder of the `image` crate to our RGB image.

use image::{ColorType, ImageDecoder};

use super::fault::{Fault, check_size, third_party_fault};
use super::samples::{Channels, high_bytes, to_rgb};
use super::{Image, Limits};

/// Reads all pixels of `decoder` and brings them to 8-bit RGB.
pub fn read(decoder: impl ImageDecoder, limits: &Limits) -> Result<Image, Fault> {
    let (width, height) = decoder.dimensions();
    check_size(width.into(), height.into(), limits)?;
    let colour = decoder.color_type();
    let channels = match colour {
        ColorType::L8 | ColorType::L16 => Channels::Grey,
        ColorType::La8 | ColorType::La16 => Channels::GreyAlpha,
        ColorType::Rgb8 | ColorType::Rgb16 => Channels::Rgb,
        ColorType::Rgba8 | ColorType::Rgba16 => Channels::Rgba,
        other => return Err(Fault::Unsupported(format!("one of {other:?} samples"))),
    };
    let size = usize::try_from(decoder.total_bytes()).map_err(Fault::corrupt)?;
    let mut samples = vec![0; size];
    decoder
        .read_image(&mut samples)
        .map_err(third_party_fault)?;
    if usize::from(colour.bytes_per_pixel()) == 2 * channels.count() {
        samples = high_bytes(&samples);
    }
    Ok(Image {
        width: width as usize,
        height: height as usize,
        pixels: to_rgb(samples, channels),
    })
}
