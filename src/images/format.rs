//! Which format a file has, by its content: extensions are not looked at, since tools often get them wrong.

/// The formats that are read, for messages.
pub const SUPPORTED: &str = "a PNG, JPEG, WebP, BMP or TIFF image";

const CONVERT: &str = "convert it to one of these formats";

/// A format that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Portable Network Graphics.
    Png,
    /// JPEG interchange format.
    Jpeg,
    /// WebP, lossy or lossless.
    WebP,
    /// Windows bitmap.
    Bmp,
    /// Tagged Image File Format, classic or big.
    Tiff,
}

impl Format {
    /// The format's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Png => "PNG",
            Self::Jpeg => "JPEG",
            Self::WebP => "WebP",
            Self::Bmp => "BMP",
            Self::Tiff => "TIFF",
        }
    }
}

/// A format that is not read: what it is, and what to do about it.
#[derive(Debug, PartialEq, Eq)]
pub struct Unknown {
    /// The format, or the first bytes.
    pub found: String,
    /// What to do.
    pub advice: &'static str,
}

/// The format of a file that starts with `bytes`.
pub fn detect(bytes: &[u8]) -> Result<Format, Unknown> {
    let tagged = |at: usize, tag: &[u8]| bytes.get(at..).is_some_and(|rest| rest.starts_with(tag));
    if tagged(0, b"\x89PNG\r\n\x1a\n") {
        Ok(Format::Png)
    } else if tagged(0, b"\xFF\xD8\xFF") {
        Ok(Format::Jpeg)
    } else if tagged(0, b"RIFF") && tagged(8, b"WEBP") {
        Ok(Format::WebP)
    } else if tagged(0, b"BM") {
        Ok(Format::Bmp)
    } else if [b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"]
        .iter()
        .any(|tag| tagged(0, *tag))
    {
        Ok(Format::Tiff)
    } else {
        Err(other(bytes))
    }
}

/// Files that people have among their images by mistake, by how they start (offset, tag, name).
const OTHERS: [(usize, &[u8], &str); 30] = [
    (0, b"GIF87a", "a GIF image"),
    (0, b"GIF89a", "a GIF image"),
    (4, b"ftypavif", "an AVIF image"),
    (4, b"ftypavis", "an AVIF image sequence"),
    (4, b"ftypheic", "a HEIC image"),
    (4, b"ftypheix", "a HEIC image"),
    (4, b"ftypmif1", "a HEIF image"),
    (4, b"ftyp", "an MP4 or QuickTime file"),
    (0, b"\0\0\0\x0CjP  \r\n", "a JPEG 2000 image"),
    (0, b"\xFF\x4F\xFF\x51", "a JPEG 2000 code stream"),
    (0, b"\xFF\x0A", "a JPEG XL image"),
    (0, b"\0\0\0\x0CJXL \r\n", "a JPEG XL image"),
    (0, b"8BPS", "a Photoshop document"),
    (0, b"\0\0\x01\0", "an icon (ICO)"),
    (0, b"v/1\x01", "an OpenEXR image"),
    (0, b"#?RADIANCE", "a Radiance HDR image"),
    (0, b"qoif", "a QOI image"),
    (0, b"DDS ", "a DDS texture"),
    (0, b"P4\n", "a PBM image"),
    (0, b"P5\n", "a PGM image"),
    (0, b"P6\n", "a PPM image"),
    (0, b"\x93NUMPY", "a NumPy array"),
    (0, b"PK\x03\x04", "a ZIP archive"),
    (0, b"\x1F\x8B", "a gzip file"),
    (0, b"%PDF", "a PDF document"),
    (0, b"<svg", "an SVG drawing"),
    (0, b"<?xml", "an XML document"),
    (0, b"<!DOCTYPE", "an HTML page (a failed download?)"),
    (0, b"<html", "an HTML page (a failed download?)"),
    (0, b"RIFF", "a RIFF file that is not WebP"),
];

fn other(bytes: &[u8]) -> Unknown {
    if bytes.starts_with(b"version https://git-lfs") {
        let found = "a Git LFS pointer in the image's place".to_owned();
        let advice = "fetch the content with `git lfs pull`";
        return Unknown { found, advice };
    }
    let known = OTHERS
        .iter()
        .find(|&&(at, tag, _)| bytes.get(at..).is_some_and(|rest| rest.starts_with(tag)));
    let found = known.map_or_else(|| unknown(bytes), |&(_, _, name)| name.to_owned());
    Unknown {
        found,
        advice: CONVERT,
    }
}

fn unknown(bytes: &[u8]) -> String {
    let head: Vec<String> = bytes
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02X}"))
        .collect();
    format!(
        "something else ({} bytes that start with {})",
        bytes.len(),
        head.join(" ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_told_by_content() {
        assert_eq!(detect(b"\x89PNG\r\n\x1a\n...."), Ok(Format::Png));
        assert_eq!(detect(b"RIFF\x10\0\0\0WEBPVP8 "), Ok(Format::WebP));
        assert_eq!(detect(b"II*\0"), Ok(Format::Tiff));
    }

    #[test]
    fn other_formats_are_named() {
        assert_eq!(detect(b"GIF89a...").unwrap_err().found, "a GIF image");
        assert_eq!(
            detect(b"\0\0\0\x1Cftypavif").unwrap_err().found,
            "an AVIF image"
        );
        assert!(detect(b"ab").unwrap_err().found.contains("61 62"));
        assert!(
            detect(b"version https://git-lfs.github.com/spec/v1")
                .unwrap_err()
                .advice
                .contains("lfs pull")
        );
    }
}
