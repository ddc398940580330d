//! Finding images in folders, and naming files in a way that is stable and always printable.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use super::ImageError;

/// Extensions of files that are taken for images, in lower case.
pub const EXTENSIONS: [&str; 7] = ["png", "jpg", "jpeg", "webp", "bmp", "tif", "tiff"];

/// How many names a message gives as examples.
const EXAMPLES: usize = 5;

/// All images in `folder` and the folders below, sorted by the bytes of their relative path.
///
/// Files count by their extension (`png jpg jpeg webp bmp tif tiff`, upper or lower case). Names that start with a dot
/// are skipped. Links are followed; a link back to a folder that is being listed is left out. A dangling link with an
/// image's extension is listed, so that reading it tells what is wrong. A folder without images is an error.
pub fn list_images(folder: &Path) -> Result<Vec<PathBuf>, ImageError> {
    let mut listing = Listing::default();
    listing.walk(folder, &mut Vec::new())?;
    if listing.images.is_empty() {
        return Err(ImageError::NoImages {
            path: folder.to_owned(),
            extensions: EXTENSIONS.join(", "),
            found: listing.describe_others(),
        });
    }
    listing
        .images
        .sort_by(|a, b| key(folder, a).cmp(key(folder, b)));
    Ok(listing.images)
}

fn key<'a>(folder: &Path, path: &'a Path) -> &'a [u8] {
    path.strip_prefix(folder)
        .unwrap_or(path)
        .as_os_str()
        .as_encoded_bytes()
}

#[derive(Default)]
struct Listing {
    images: Vec<PathBuf>,
    others: Vec<PathBuf>,
}

impl Listing {
    /// Lists `folder`; `above` are the folders on the way to it, with their links resolved.
    fn walk(&mut self, folder: &Path, above: &mut Vec<PathBuf>) -> Result<(), ImageError> {
        let unreadable = |source| ImageError::UnreadableFolder {
            path: folder.to_owned(),
            source,
        };
        let real = folder.canonicalize().map_err(unreadable)?;
        if above.contains(&real) {
            return Ok(());
        }
        above.push(real);
        for entry in fs::read_dir(folder).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            if entry.file_name().as_encoded_bytes().starts_with(b".") {
                continue;
            }
            let path = entry.path();
            if path.is_dir() {
                self.walk(&path, above)?;
            } else if is_image(&path) {
                self.images.push(path);
            } else {
                self.others.push(path);
            }
        }
        above.pop();
        Ok(())
    }

    fn describe_others(&mut self) -> String {
        self.others.sort();
        match self.others.len() {
            0 => "no files".to_owned(),
            _ => format!(
                "only other files, {}",
                examples(self.others.iter().map(PathBuf::as_path))
            ),
        }
    }
}

/// Whether the extension is an image's.
fn is_image(path: &Path) -> bool {
    let extension = path.extension().and_then(OsStr::to_str);
    extension.is_some_and(|found| {
        EXTENSIONS
            .iter()
            .any(|known| known.eq_ignore_ascii_case(found))
    })
}

/// The number of `paths` and the first few of them.
pub fn examples<'a>(paths: impl ExactSizeIterator<Item = &'a Path>) -> String {
    let count = paths.len();
    let names: Vec<String> = paths.take(EXAMPLES).map(printable).collect();
    match count.saturating_sub(EXAMPLES) {
        0 if count == 0 => "none".to_owned(),
        0 => format!("{count} ({})", names.join(", ")),
        _ => format!("{count} ({}, ...)", names.join(", ")),
    }
}

/// `path` with `/` between its parts, and bytes that are not UTF-8 written as `\xNN`, so that different paths have
/// different names.
pub fn printable(path: &Path) -> String {
    let parts: Vec<String> = path.iter().map(part).collect();
    parts.join("/")
}

fn part(name: &OsStr) -> String {
    let mut text = String::new();
    for chunk in name.as_encoded_bytes().utf8_chunks() {
        text += chunk.valid();
        chunk
            .invalid()
            .iter()
            .for_each(|byte| text += &format!("\\x{byte:02X}"));
    }
    text
}

/// Refuses two of the (sorted or unsorted) images that have the same path but for the extension.
pub fn check_stems(images: &[PathBuf]) -> Result<(), ImageError> {
    let mut seen: HashMap<PathBuf, &Path> = HashMap::new();
    for path in images {
        if let Some(first) = seen.insert(path.with_extension(""), path) {
            return Err(ImageError::DuplicateStem {
                first: first.to_owned(),
                second: path.clone(),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_give_five_examples() {
        let paths: Vec<PathBuf> = (0..7).map(|i| PathBuf::from(format!("{i}.png"))).collect();
        let text = examples(paths.iter().map(PathBuf::as_path));
        assert_eq!(text, "7 (0.png, 1.png, 2.png, 3.png, 4.png, ...)");
    }

    #[test]
    fn extensions_count_in_any_case() {
        assert!(is_image(Path::new("a.PnG")) && is_image(Path::new("b/a.tiff")));
        assert!(!is_image(Path::new("a.gif")) && !is_image(Path::new("png")));
    }
}
