//! What can go wrong between a path and pixels or pairs. Every message names the file or folder, what was
//! expected, what was found and what to do.

use std::io;
use std::path::PathBuf;

use super::format::SUPPORTED;

/// Why an image could not be read, cropped or paired.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The operating system refuses to hand out the file.
    #[error("{}: expected a readable image file, found: {source}: check the path and its permissions", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The operating system's reason.
        source: io::Error,
    },
    /// A folder, pipe or device where an image file should be.
    #[error("{}: expected an image file, found {found}: name a file instead", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
        /// What is there.
        found: &'static str,
    },
    /// A file of no bytes.
    #[error("{}: expected an image, found an empty file (0 bytes): make or copy it again", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// The content is of a format that is not read here, whatever the extension says.
    #[error("{}: expected {SUPPORTED}, found {found}: {advice}", path.display())]
    UnknownFormat {
        /// The file.
        path: PathBuf,
        /// The format recognised, or the first bytes.
        found: String,
        /// What to do.
        advice: &'static str,
    },
    /// The header declares more pixels than the limit allows; nothing was allocated.
    #[error(
        "{}: expected at most {max_pixels} pixels, found {width}x{height} = {}: scale it down, or, if the file is to be \
         trusted, raise the limit of `foil score` with --max-pixels",
        path.display(), u128::from(*width) * u128::from(*height)
    )]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Declared width.
        width: u64,
        /// Declared height.
        height: u64,
        /// The limit in force.
        max_pixels: u64,
    },
    /// An animation or a document of several pages.
    #[error(
        "{}: expected one image, found {format} of {frames} frames: extract the frame that counts and save it as a \
         file of its own",
        path.display()
    )]
    Frames {
        /// The file.
        path: PathBuf,
        /// The format, with what makes it hold several images.
        format: &'static str,
        /// Number of frames or pages.
        frames: u64,
    },
    /// A sound file of a variant that is not read here.
    #[error(
        "{}: expected {format} of integer grey, palette, RGB or CMYK samples, found {found}: re-save it as an 8-bit PNG",
        path.display()
    )]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// The format, with its article.
        format: &'static str,
        /// The variant found.
        found: String,
    },
    /// A damaged or truncated file.
    #[error(
        "{}: expected a sound {format} file, found a damaged or truncated one ({reason}): make or copy it again",
        path.display()
    )]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// The format.
        format: &'static str,
        /// What is wrong in it.
        reason: String,
    },
    /// A crop that does not fit into the image.
    #[error(
        "expected an image of at least {crop_width}x{crop_height} pixels to crop, found {width}x{height}: resize it \
         first or crop less"
    )]
    CropTooLarge {
        /// Width of the image.
        width: usize,
        /// Height of the image.
        height: usize,
        /// Width of the crop.
        crop_width: usize,
        /// Height of the crop.
        crop_height: usize,
    },
    /// A resampling filter of an unknown name.
    #[error("expected a resampling filter out of {known}, found {found:?}: use one of these names")]
    UnknownFilter {
        /// The name given.
        found: String,
        /// The known names.
        known: String,
    },
    /// A folder that cannot be listed.
    #[error("{}: expected a readable folder of images, found: {source}: check the path and its permissions", path.display())]
    UnreadableFolder {
        /// The folder.
        path: PathBuf,
        /// The operating system's reason.
        source: io::Error,
    },
    /// A folder without images.
    #[error("{}: expected images ({extensions}), found {found}: check the path", path.display())]
    NoImages {
        /// The folder.
        path: PathBuf,
        /// The extensions looked for.
        extensions: String,
        /// What is there instead.
        found: String,
    },
    /// Originals and counterfactuals in one place.
    #[error(
        "{}: expected two different folders, found the same one for originals and counterfactuals: keep them apart, or \
         name the pairs in a manifest (--manifest)",
        path.display()
    )]
    SameFolder {
        /// The folder.
        path: PathBuf,
    },
    /// Two images of a folder that differ in their extension only.
    #[error(
        "{} and {}: expected one image of a name, found two that differ only in their extension: rename or remove one",
        first.display(), second.display()
    )]
    DuplicateStem {
        /// One file.
        first: PathBuf,
        /// The other.
        second: PathBuf,
    },
    /// Two folders that have no name in common.
    #[error(
        "{} and {}: expected counterfactuals at the relative path of their original (any extension), in a folder named \
         like the original, or below SOURCE_to_TARGET folders; found no pair. Originals: {original_names}. \
         Counterfactuals: {counterfactual_names}. Rename the files, or name the pairs in a manifest (--manifest)",
        originals.display(), counterfactuals.display()
    )]
    NoPairs {
        /// Folder of originals.
        originals: PathBuf,
        /// Folder of counterfactuals.
        counterfactuals: PathBuf,
        /// Number and examples of the originals.
        original_names: String,
        /// Number and examples of the counterfactuals.
        counterfactual_names: String,
    },
    /// A manifest that cannot be read.
    #[error(
        "{}: expected a readable manifest (CSV or JSONL), found: {source}: check the path and its \
         permissions",
        path.display()
    )]
    UnreadableManifest {
        /// The manifest.
        path: PathBuf,
        /// The operating system's reason.
        source: io::Error,
    },
    /// A manifest whose content is wrong.
    #[error("{}{place}: expected {expected}, found {found}: {advice}", path.display())]
    Manifest {
        /// The manifest.
        path: PathBuf,
        /// Line (from 1) and column, each after a comma, as far as they are known.
        place: String,
        /// What should be there.
        expected: String,
        /// What is there.
        found: String,
        /// What to do.
        advice: &'static str,
    },
}
