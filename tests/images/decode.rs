//! Decoded pixels against Pillow 13 (`scripts/make-image-fixtures`). Tolerance: none, as decoding is defined to the bit.

use std::fs;
use std::path::{Path, PathBuf};

use foil::images::{ImageError, Limits, decode, read};

use crate::fixtures;

fn expected(file: &Path) -> PathBuf {
    let name = file
        .file_name()
        .and_then(|name| name.to_str())
        .expect("a plain name");
    fixtures::path("decode/expected").join(format!("{name}.png"))
}

fn refusal(name: &str) -> String {
    let path = fixtures::path("odd").join(name);
    let message = read(&path, &Limits::default()).expect_err(name).to_string();
    assert!(message.starts_with(&*path.to_string_lossy()), "{message}");
    message
}

#[test]
fn pixels_equal_pillow_s_for_every_kind_of_file() {
    let files = fixtures::files("decode");
    assert!(files.len() >= 80, "found {} fixtures", files.len());
    let mut wrong = Vec::new();
    for file in &files {
        let found = read(file, &Limits::default()).unwrap_or_else(|error| panic!("{error}"));
        let (count, most) = fixtures::difference(&found, &fixtures::reference(&expected(file)));
        if count > 0 {
            let name = file.file_name().expect("a name");
            wrong.push(format!(
                "{}: {count} of {} samples, by up to {most}",
                name.display(),
                found.pixels.len()
            ));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn extensions_do_not_matter() {
    for file in fixtures::files("decode") {
        let bytes = fs::read(&file).expect("the fixture is readable");
        let plain = decode(&bytes, &file, &Limits::default()).expect("the fixture decodes");
        let renamed = decode(&bytes, Path::new("a.txt"), &Limits::default());
        assert_eq!(renamed.expect("the same bytes decode"), plain);
    }
}

#[test]
fn rest_of_a_file_is_ignored() {
    for file in fixtures::files("decode") {
        let mut bytes = fs::read(&file).expect("the fixture is readable");
        let plain = decode(&bytes, &file, &Limits::default()).expect("the fixture decodes");
        bytes.extend_from_slice(b"trailing junk");
        let longer = decode(&bytes, &file, &Limits::default());
        assert_eq!(longer.unwrap_or_else(|error| panic!("{error}")), plain);
    }
}

#[test]
fn several_frames_are_refused_with_their_number() {
    for (name, kind) in [
        ("animated.png", "an animated PNG of 3 frames"),
        ("animated.webp", "an animated WebP of 3 frames"),
        ("pages.tif", "a TIFF document of 3 frames"),
    ] {
        let message = refusal(name);
        assert!(
            message.contains(kind) && message.contains("extract"),
            "{message}"
        );
    }
}

#[test]
fn other_formats_are_refused_by_name() {
    for (name, kind) in [
        ("image.gif", "a GIF image"),
        ("image.avif", "an AVIF image"),
        ("image.jp2", "a JPEG 2000 image"),
        ("image.ppm", "a PPM image"),
    ] {
        let message = refusal(name);
        assert!(
            message.contains(kind) && message.contains("PNG, JPEG, WebP, BMP or TIFF"),
            "{message}"
        );
    }
}

#[test]
fn unusual_tiffs_are_refused_with_their_kind() {
    for (name, kind) in [
        ("float.tif", "floating-point"),
        ("integers32.tif", "signed integers"),
        ("jpeg.tif", "JPEG compression"),
        ("fax.tif", "fax (CCITT) compression"),
        ("lab.tif", "Lab"),
    ] {
        let message = refusal(name);
        assert!(
            message.contains(kind) && message.contains("8-bit PNG"),
            "{message}"
        );
    }
}

#[test]
fn size_limit_is_checked_and_can_be_raised() {
    for file in fixtures::files("decode") {
        let image = read(&file, &Limits::default()).expect("the fixture decodes");
        let pixels = (image.width * image.height) as u64;
        assert!(read(&file, &Limits { max_pixels: pixels }).is_ok());
        let error = read(
            &file,
            &Limits {
                max_pixels: pixels - 1,
            },
        )
        .expect_err("one pixel too many");
        assert!(matches!(error, ImageError::TooLarge { .. }), "{error}");
        assert!(error.to_string().contains("--max-pixels"), "{error}");
    }
}

#[test]
fn paths_without_a_readable_file_say_why() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let missing = folder.path().join("missing.png");
    let message = read(&missing, &Limits::default())
        .expect_err("no file")
        .to_string();
    assert!(
        message.contains("missing.png") && message.contains("No such file"),
        "{message}"
    );
    let message = read(folder.path(), &Limits::default())
        .expect_err("a folder")
        .to_string();
    assert!(message.contains("a folder"), "{message}");
    let empty = folder.path().join("empty.png");
    fs::write(&empty, b"").expect("written");
    let message = read(&empty, &Limits::default())
        .expect_err("no bytes")
        .to_string();
    assert!(
        message.contains("empty.png") && message.contains("0 bytes"),
        "{message}"
    );
    #[cfg(unix)]
    {
        let dangling = folder.path().join("dangling.png");
        std::os::unix::fs::symlink(&missing, &dangling).expect("linked");
        let message = read(&dangling, &Limits::default())
            .expect_err("no target")
            .to_string();
        assert!(
            message.contains("dangling.png") && message.contains("No such file"),
            "{message}"
        );
    }
}
