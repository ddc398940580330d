//! EXIF orientation: which way up the stored rows and columns are to be shown.

use super::Image;
use super::tiff::directory::{Directory, File};

/// The orientation tag, which TIFF and EXIF share.
const TAG: u16 = 0x0112;

/// The orientation (1 to 8) in EXIF data, with or without their heading; 1, as stored, if there is none or it is not
/// readable: a damaged remark about an image is no damage to the image.
pub fn from_exif(exif: &[u8]) -> u8 {
    let exif = exif.strip_prefix(b"Exif\0\0").unwrap_or(exif);
    let first = File::open(exif).and_then(|file| Directory::read(file, file.first));
    first.map_or(1, |directory| from_directory(&directory))
}

/// The orientation (1 to 8) that a directory of tags states; 1 if it states none.
pub fn from_directory(directory: &Directory) -> u8 {
    let value = directory.numbers(TAG).ok().flatten();
    match value.as_deref() {
        Some([value @ 1..=8]) => *value as u8,
        _ => 1,
    }
}

/// `image`, stored with `orientation`, the right way up: equals Pillow's `ImageOps.exif_transpose`.
pub fn upright(image: Image, orientation: u8) -> Image {
    if !(2..=8).contains(&orientation) {
        return image;
    }
    let Image {
        width,
        height,
        pixels,
    } = image;
    let (out_width, out_height) = if orientation >= 5 {
        (height, width)
    } else {
        (width, height)
    };
    let mut out = Vec::with_capacity(pixels.len());
    for y in 0..out_height {
        for x in 0..out_width {
            // Where the pixel shown at (x, y) is stored.
            let (column, row) = match orientation {
                2 => (width - 1 - x, y),
                3 => (width - 1 - x, height - 1 - y),
                4 => (x, height - 1 - y),
                5 => (y, x),
                6 => (y, height - 1 - x),
                7 => (width - 1 - y, height - 1 - x),
                _ => (width - 1 - y, x),
            };
            let at = (row * width + column) * 3;
            out.extend_from_slice(&pixels[at..at + 3]);
        }
    }
    Image {
        width: out_width,
        height: out_height,
        pixels: out,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orientation_is_read_from_exif_of_both_byte_orders() {
        let little = b"II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0";
        let big = b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x08\0\0\0\0\0\0";
        assert_eq!(from_exif(little), 6);
        assert_eq!(from_exif(big), 8);
    }

    #[test]
    fn unreadable_exif_means_as_stored() {
        for exif in [
            b"".as_slice(),
            b"II*\0",
            b"junk junk junk",
            b"II*\0\xFF\xFF\xFF\xFF",
        ] {
            assert_eq!(from_exif(exif), 1);
        }
    }
}
