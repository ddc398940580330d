//! TIFF images: strips or tiles, chunky or planar, uncompressed, LZW, deflate or PackBits; grey, palette, RGB and CMYK
//! of 1, 2, 4, 8 or 16 bits, with or without alpha; classic and BigTIFF.
//!
//! Pixels equal Pillow's (libtiff's), but for 16-bit grey, which keeps its high byte here like every other 16-bit
//! sample, where Pillow's `convert("RGB")` clips it at 255. Read here and not by the `image` crate, since that refuses
//! palettes and grey with alpha, takes the first of several pages without a word, and decodes JPEG strips by a
//! decoder whose pixels differ from libjpeg's. JPEG and fax compression, floating-point samples and documents of
//! several pages are refused.

mod chunks;
pub mod directory;
mod layout;
mod lzw;

use directory::{Directory, File};
use layout::{Alpha, Colour, Layout};

use super::fault::Fault;
use super::samples::{Channels, to_rgb, unpremultiplied};
use super::{Image, Limits, orientation};

/// More pages than any document has; ends the walk around a ring of them.
const MAX_PAGES: u64 = 65_536;

/// Decodes the only page of a TIFF file.
pub fn decode(bytes: &[u8], limits: &Limits) -> Result<Image, Fault> {
    let file = File::open(bytes).map_err(Fault::Corrupt)?;
    let tags = Directory::read(file, file.first).map_err(Fault::Corrupt)?;
    let frames = count_pages(file, &tags)?;
    if frames > 1 {
        return Err(Fault::Frames {
            format: "a TIFF document",
            frames,
        });
    }
    let layout = Layout::read(&tags, limits)?;
    let samples = chunks::read(file, &layout)?;
    let pixels = match layout.colour {
        Colour::Palette => look_up(&samples, layout.samples, &read_palette(&tags, layout.bits)?),
        _ => direct(samples, &layout),
    };
    let image = Image {
        width: layout.width,
        height: layout.height,
        pixels,
    };
    Ok(orientation::upright(
        image,
        orientation::from_directory(&tags),
    ))
}

/// Number of pages, without thumbnails and masks.
fn count_pages(file: File, first: &Directory) -> Result<u64, Fault> {
    let (mut pages, mut seen, mut next) = (1, 1, first.next);
    while next != 0 {
        seen += 1;
        if seen > MAX_PAGES {
            return Err(Fault::Corrupt("the chain of pages has no end".to_owned()));
        }
        let page = Directory::read(file, next)
            .map_err(|reason| Fault::Corrupt(format!("page {seen}: {reason}")))?;
        let kind = page.number(254, 0).map_err(Fault::Corrupt)?;
        pages += u64::from(kind & 0b101 == 0);
        next = page.next;
    }
    Ok(pages)
}

/// The colours of a palette.
fn read_palette(tags: &Directory, bits: usize) -> Result<Vec<[u8; 3]>, Fault> {
    let size = 1 << bits.min(8);
    let values = tags
        .numbers(320)
        .map_err(Fault::Corrupt)?
        .unwrap_or_default();
    if bits > 8 || values.len() < 3 * size {
        return Err(Fault::Corrupt(format!(
            "a palette of {} values for {bits} bits",
            values.len()
        )));
    }
    let high = |i: usize| (values[i] >> 8) as u8;
    Ok((0..size)
        .map(|i| [high(i), high(size + i), high(2 * size + i)])
        .collect())
}

fn look_up(samples: &[u8], step: usize, palette: &[[u8; 3]]) -> Vec<u8> {
    samples
        .iter()
        .step_by(step)
        .flat_map(|&index| palette[usize::from(index)])
        .collect()
}

/// Samples that are colours themselves, as RGB.
fn direct(mut samples: Vec<u8>, layout: &Layout) -> Vec<u8> {
    let colours = match layout.colour {
        Colour::Rgb => 3,
        Colour::Cmyk => 4,
        _ => 1,
    };
    for pixel in samples.chunks_exact_mut(layout.samples) {
        if layout.alpha == Alpha::Associated {
            let alpha = pixel[colours];
            pixel[..colours]
                .iter_mut()
                .for_each(|value| *value = unpremultiplied(*value, alpha));
        }
        if layout.colour == Colour::WhiteIsZero {
            pixel[0] = 255 - pixel[0];
        }
    }
    let channels = match (layout.colour, layout.alpha) {
        (Colour::Rgb, Alpha::None) => Channels::Rgb,
        (Colour::Rgb, _) => Channels::Rgba,
        (Colour::Cmyk, _) => Channels::Cmyk,
        (_, Alpha::None) => Channels::Grey,
        _ => Channels::GreyAlpha,
    };
    if channels.count() < layout.samples {
        let pixels = samples.chunks_exact(layout.samples);
        samples = pixels
            .flat_map(|pixel| &pixel[..channels.count()])
            .copied()
            .collect();
    }
    to_rgb(samples, channels)
}
