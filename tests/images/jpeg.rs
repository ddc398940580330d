//! Decodes the fixtures and demands libjpeg-turbo's pixels, then damages them and demands
//! errors that say what is wrong. `scripts/make-jpeg-fixtures` makes the fixtures.

use std::fs;
use std::path::PathBuf;

use foil::images::jpeg::{Decoded, JpegError, decode};

use crate::fixtures;

const MAX_PIXELS: u64 = 1 << 20;

fn folder() -> PathBuf {
    fixtures::path("jpeg")
}

fn fixture(stem: &str) -> Vec<u8> {
    fs::read(folder().join(stem).with_extension("jpg")).expect("the fixture is readable")
}

fn decoded(stem: &str) -> Decoded {
    decode(&fixture(stem), MAX_PIXELS).expect("the fixture decodes")
}

fn failure(bytes: &[u8]) -> String {
    decode(bytes, MAX_PIXELS)
        .expect_err("the file is damaged")
        .to_string()
}

/// The offset behind the first marker `marker` of the file.
fn behind(bytes: &[u8], marker: u8) -> usize {
    let at = bytes.windows(2).position(|w| w == [0xFF, marker]);
    at.expect("the marker is there") + 2
}

fn stems() -> Vec<String> {
    let mut stems: Vec<String> = fs::read_dir(folder())
        .expect("the folder is readable")
        .map(|entry| entry.expect("the entry is readable").path())
        .filter(|path| path.extension().is_some_and(|e| e == "jpg"))
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
        .collect();
    stems.sort();
    stems
}

#[test]
fn pixels_equal_libjpeg_turbo() {
    let stems = stems();
    assert!(stems.len() >= 14, "found {} fixtures", stems.len());
    for stem in stems {
        let expected = fixtures::reference(&folder().join(&stem).with_extension("png"));
        let found = decoded(&stem);
        let size = (found.width as usize, found.height as usize);
        assert_eq!(size, (expected.width, expected.height), "{stem}");
        assert_eq!(found.rgb.len(), expected.pixels.len(), "{stem}");
        let pairs = found.rgb.iter().zip(&expected.pixels);
        let differing = pairs.filter(|(a, b)| a != b).count();
        assert_eq!(differing, 0, "{stem}: samples differ");
    }
}

#[test]
fn grey_and_exif_are_reported() {
    for stem in stems() {
        assert_eq!(decoded(&stem).grey, stem == "grey", "{stem}");
        assert_eq!(
            decoded(&stem).exif.is_some(),
            stem == "exif_rotated",
            "{stem}"
        );
    }
    let exif = decoded("exif_rotated").exif.expect("EXIF data");
    assert!(exif.starts_with(b"MM\0*") || exif.starts_with(b"II*\0"));
}

#[test]
fn truncated_files_are_errors() {
    for stem in stems() {
        let bytes = fixture(&stem);
        let whole = decoded(&stem);
        for cut in 0..bytes.len() {
            match decode(&bytes[..cut], MAX_PIXELS) {
                // Only the end marker and padding may be missing.
                Ok(part) => {
                    assert!(cut + 4 > bytes.len(), "{stem} cut at {cut}");
                    assert_eq!(part, whole, "{stem} cut at {cut}");
                }
                Err(error) => assert!(!error.to_string().is_empty()),
            }
        }
    }
    let bytes = fixture("420");
    let message = failure(&bytes[..bytes.len() * 3 / 4]);
    assert!(message.contains("coding units"), "{message}");
}

#[test]
fn rest_of_the_file_is_ignored() {
    for stem in stems() {
        let mut bytes = fixture(&stem);
        let whole = decoded(&stem);
        bytes.extend_from_slice(b"\xFF\xD8\xFFjunk\xFF\xC3");
        assert_eq!(decode(&bytes, MAX_PIXELS).as_ref(), Ok(&whole), "{stem}");
        // Fill bytes before a marker.
        let at = behind(&bytes, 0xDB) - 2;
        bytes.splice(at..at, [0xFF; 3]);
        assert_eq!(decode(&bytes, MAX_PIXELS).as_ref(), Ok(&whole), "{stem}");
    }
}

#[test]
fn size_limit_holds() {
    let bytes = fixture("420");
    assert!(decode(&bytes, 52 * 39).is_ok());
    assert_eq!(
        decode(&bytes, 52 * 39 - 1),
        Err(JpegError::TooLarge {
            width: 52,
            height: 39,
            max_pixels: 52 * 39 - 1
        })
    );
}

#[test]
fn tiny_files_of_huge_images_fail_at_once() {
    for (stem, frame) in [("420", 0xC0), ("progressive_420", 0xC2)] {
        let mut bytes = fixture(stem);
        let at = behind(&bytes, frame);
        bytes[at + 3..at + 7].copy_from_slice(&[0x20, 0, 0x20, 0]);
        let error = decode(&bytes, 1 << 26).expect_err("the data are too short");
        assert!(
            matches!(error, JpegError::TruncatedScan { .. }),
            "{stem}: {error}"
        );
    }
}

#[test]
fn other_kinds_are_refused_with_advice() {
    let bytes = fixture("444");
    let at = behind(&bytes, 0xC0);
    for (offset, value, word) in [
        (at - 1, 0xC3, "lossless"),
        (at - 1, 0xC5, "hierarchical"),
        (at - 1, 0xC9, "arithmetically"),
        (at - 1, 0xCA, "arithmetically"),
        (at + 2, 12, "12 bits"),
        (at + 7, 2, "2 components"),
        (at + 9, 0x32, "fraction"),
    ] {
        let mut bytes = bytes.clone();
        bytes[offset] = value;
        if word == "fraction" {
            bytes[at + 12] = 0x21;
        }
        let message = failure(&bytes);
        assert!(message.contains(word), "{message}");
        assert!(message.contains("PNG"), "{message}");
    }
    assert!(failure(b"\x89PNG").contains("FF D8 FF"));
    assert!(failure(b"").contains("empty"));
}

#[test]
fn missing_tables_are_errors() {
    for (marker, word) in [(0xC4, "Huffman"), (0xDB, "quantisation")] {
        let mut bytes = fixture("444");
        while let Some(at) = bytes.windows(2).position(|w| w == [0xFF, marker]) {
            // A comment instead.
            bytes[at + 1] = 0xFE;
        }
        let message = failure(&bytes);
        assert!(message.contains(word), "{message}");
    }
}

#[test]
fn flipped_bits_do_no_harm() {
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    let mut random = move |n: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % n as u64) as usize
    };
    for stem in stems() {
        let whole = fixture(&stem);
        for _ in 0..300 {
            let mut bytes = whole.clone();
            for _ in 0..=random(3) {
                let at = random(bytes.len());
                bytes[at] ^= 1 << random(8);
            }
            if let Ok(image) = decode(&bytes, MAX_PIXELS) {
                assert_eq!(
                    image.rgb.len(),
                    image.width as usize * image.height as usize * 3
                );
            }
        }
    }
}
