//! Damaged and odd files: each gives an image of the right size or an error that names the file, never a panic, and
//! never much memory.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use foil::images::{Image, ImageError, Limits, read};

use crate::fixtures;

/// Smaller than the default, so that a flipped bit in a size does not make the test slow.
const LIMITS: Limits = Limits {
    max_pixels: 4_000_000,
};

/// Sound files of every format and coding, which the damaged ones are made of.
const SOUND: [&str; 14] = [
    "decode/rgb.png",
    "decode/interlaced.png",
    "decode/palette_alpha.png",
    "decode/rgba16.png",
    "jpeg/420.jpg",
    "jpeg/progressive_444.jpg",
    "jpeg/cmyk_adobe.jpg",
    "decode/lossy_large.webp",
    "decode/lossless_alpha.webp",
    "decode/lossy_alpha.webp",
    "decode/rgb.bmp",
    "decode/runs.bmp",
    "decode/rgb_lzw_large.tif",
    "decode/rgb_deflate.tif",
];

/// Files to read, by name.
type Files = BTreeMap<String, Vec<u8>>;

fn sound(name: &str) -> Vec<u8> {
    fs::read(fixtures::path(name)).expect("the fixture is readable")
}

fn stem(name: &str) -> String {
    name.replace(['/', '.'], "_")
}

/// Writes the files to a folder, reads them as images and hands on what came out.
fn read_all(files: Files, check: impl Fn(&str, Result<Image, ImageError>)) -> usize {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (name, bytes) in &files {
        let path = folder.path().join(name);
        fs::write(&path, bytes).expect("written");
        let result = read(&path, &LIMITS);
        match &result {
            Ok(image) => {
                assert_eq!(image.pixels.len(), image.width * image.height * 3, "{name}");
                assert!(
                    (image.width * image.height) as u64 <= LIMITS.max_pixels,
                    "{name}"
                );
            }
            Err(error) => {
                let message = error.to_string();
                assert!(message.contains(name.as_str()), "{name}: {message}");
                assert!(
                    message.contains("expected") && message.contains("found"),
                    "{message}"
                );
                // A decoder's panic is caught, but none should happen.
                assert!(!message.contains("the decoder gave up"), "{message}");
            }
        }
        check(name, result);
    }
    files.len()
}

#[test]
fn truncated_files_are_errors_or_whole() {
    let mut files = Files::new();
    for name in SOUND {
        let bytes = sound(name);
        for percent in (0..100).step_by(5) {
            let cut = bytes[..bytes.len() * percent / 100].to_vec();
            files.insert(format!("{}_cut_at_{percent:02}", stem(name)), cut);
        }
    }
    let whole: BTreeMap<String, Image> = SOUND
        .iter()
        .map(|name| {
            (
                stem(name),
                read(&fixtures::path(name), &LIMITS).expect("the fixture decodes"),
            )
        })
        .collect();
    let count = read_all(files, |name, result| {
        let Ok(image) = result else { return };
        let (stem, _) = name.split_once("_cut_at_").expect("a cut file");
        assert_eq!(image, whole[stem], "{name}");
    });
    assert_eq!(count, 14 * 20);
}

#[test]
fn flipped_bits_do_no_harm() {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut random = move |n: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % n as u64) as usize
    };
    let mut files = Files::new();
    for name in SOUND {
        for i in 0..60 {
            let mut bytes = sound(name);
            // Headers are short, but where harm is done.
            let reach = if i % 2 == 0 {
                bytes.len()
            } else {
                bytes.len().min(120)
            };
            for _ in 0..=random(4) {
                bytes[random(reach)] ^= 1 << random(8);
            }
            files.insert(format!("{}_flip_{i}", stem(name)), bytes);
        }
    }
    for name in [
        "decode/tiled_planar.tif",
        "decode/bigtiff.tif",
        "decode/palette.tif",
        "decode/cmyk.tif",
    ] {
        for i in 0..60 {
            let mut bytes = sound(name);
            // TIFF keeps its directory at the end here.
            let at = bytes.len() - 1 - random(bytes.len().min(300));
            bytes[at] ^= 1 << random(8);
            files.insert(format!("{}_flip_{i}", stem(name)), bytes);
        }
    }
    assert_eq!(read_all(files, |_, _| {}), 18 * 60);
}

#[test]
fn odd_files_are_refused_or_right() {
    let mut files = Files::new();
    let mut sizes = BTreeMap::new();
    for path in fixtures::files("odd") {
        let name = path
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        files.insert(name, fs::read(&path).expect("readable"));
    }
    for (name, wrong, size) in [
        ("decode/rgb.png", "png.jpg", (17, 11)),
        ("jpeg/420.jpg", "jpeg.png", (52, 39)),
        ("decode/lossless.webp", "webp.bmp", (17, 11)),
        ("decode/rgb.bmp", "bmp.tiff", (17, 11)),
        ("decode/rgb.tif", "tiff.webp", (17, 11)),
        ("jpeg/cmyk_adobe.jpg", "cmyk.jpg", (37, 30)),
        ("decode/rgb16.png", "sixteen.png", (17, 11)),
        ("decode/palette_alpha.png", "palette_alpha.png", (17, 11)),
        ("decode/one_pixel.png", "one.png", (1, 1)),
    ] {
        files.insert(wrong.to_owned(), sound(name));
        sizes.insert(wrong.to_owned(), size);
    }
    for (format, name) in [
        (image::ImageFormat::Png, "wide.png"),
        (image::ImageFormat::Bmp, "wide.bmp"),
    ] {
        let mut bytes = std::io::Cursor::new(Vec::new());
        image::RgbImage::new(20_000, 10)
            .write_to(&mut bytes, format)
            .expect("written");
        files.insert(name.to_owned(), bytes.into_inner());
        sizes.insert(name.to_owned(), (20_000, 10));
    }
    for (name, bytes) in [
        ("empty.png", b"".as_slice()),
        ("zeros.png", &[0; 5000]),
        ("text.jpg", b"not an image"),
        ("signature.png", b"\x89PNG\r\n\x1a\n"),
        ("start.jpg", b"\xFF\xD8\xFF"),
        ("start.webp", b"RIFF\x04\0\0\0WEBP"),
        ("start.bmp", b"BM"),
        ("start.tif", b"II*\0"),
        ("ring.tif", b"II*\0\x08\0\0\0\0\0\x08\0\0\0"),
    ] {
        files.insert(name.to_owned(), bytes.to_vec());
    }
    read_all(files, |name, result| match sizes.get(name) {
        Some(&size) => {
            let image = result.unwrap_or_else(|error| panic!("{error}"));
            assert_eq!((image.width, image.height), size, "{name}");
        }
        None => assert!(result.is_err(), "{name}"),
    });
}

/// The bytes with `new` at `at`, and with the PNG header's checksum made right.
fn patched(mut bytes: Vec<u8>, at: usize, new: &[u8]) -> Vec<u8> {
    bytes[at..at + new.len()].copy_from_slice(new);
    if bytes.starts_with(b"\x89PNG") {
        let mut sum = flate2::Crc::new();
        sum.update(&bytes[12..29]);
        bytes[29..33].copy_from_slice(&sum.sum().to_be_bytes());
    }
    bytes
}

#[test]
fn huge_claimed_sizes_are_refused_at_once() {
    let tiff = sound("decode/big_endian.tif");
    // Big-endian entries of tags 256 and 257: tag, type 4, count 1, value.
    let width = tiff
        .windows(8)
        .position(|w| w == [1, 0, 0, 4, 0, 0, 0, 1])
        .expect("a width")
        + 8;
    let jpeg = sound("jpeg/420.jpg");
    let frame = jpeg
        .windows(2)
        .position(|w| w == [0xFF, 0xC0])
        .expect("a frame header")
        + 5;
    let exif_webp = sound("decode/orientation6.webp");
    let files = [
        (
            "huge.png",
            patched(
                sound("decode/rgb.png"),
                16,
                &[0x7F, 0xFF, 0xFF, 0xFF, 0x7F, 0xFF, 0xFF, 0xFF],
            ),
        ),
        (
            "huge.bmp",
            patched(
                sound("decode/rgb.bmp"),
                18,
                &[0xFF, 0xFF, 0xFF, 0x7F, 0, 0, 0, 0x80],
            ),
        ),
        ("huge.tif", patched(tiff, width, &[0xFF; 4])),
        ("huge.jpg", patched(jpeg, frame, &[0xF0; 4])),
        ("huge.webp", patched(exif_webp, 24, &[0xFF; 6])),
    ];
    let files = files.map(|(name, bytes)| (name.to_owned(), bytes)).into();
    read_all(files, |name, result| {
        let error = result.expect_err(name);
        assert!(matches!(error, ImageError::TooLarge { .. }), "{error}");
    });
}

#[cfg(unix)]
#[test]
fn pipes_are_refused_without_waiting() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("pipe.png");
    let made = std::process::Command::new("mkfifo").arg(&path).status();
    if !made.is_ok_and(|status| status.success()) {
        println!("skipped: no mkfifo here");
        return;
    }
    let message = read(Path::new(&path), &LIMITS)
        .expect_err("a pipe")
        .to_string();
    assert!(message.contains("a pipe or device"), "{message}");
}
