//! Where the fixtures are, and how to compare images.

use std::fs;
use std::path::{Path, PathBuf};

use foil::images::Image;

/// A folder or file of the fixtures.
pub fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/images")
        .join(name)
}

/// The files of a folder of the fixtures, sorted.
pub fn files(folder: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(path(folder)).expect("the fixtures are there");
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.expect("the folder is readable").path())
        .filter(|path| path.is_file())
        .collect();
    files.sort();
    files
}

/// The 8-bit PNG file at `path`, through the `image` crate and none of our code.
pub fn reference(path: &Path) -> Image {
    let bytes = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let image = image::load_from_memory_with_format(&bytes, image::ImageFormat::Png);
    let image = image.expect("a sound PNG").into_rgb8();
    let (width, height) = (image.width() as usize, image.height() as usize);
    Image {
        width,
        height,
        pixels: image.into_raw(),
    }
}

/// Number of samples that differ, and the largest difference.
pub fn difference(a: &Image, b: &Image) -> (usize, u8) {
    assert_eq!((a.width, a.height), (b.width, b.height));
    let differences = a.pixels.iter().zip(&b.pixels).map(|(a, b)| a.abs_diff(*b));
    differences.fold((0, 0), |(count, most), d| {
        (count + usize::from(d > 0), most.max(d))
    })
}
