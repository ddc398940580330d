//! What can go wrong between a folder of typefaces and a folder of images.

use std::io;
use std::path::PathBuf;

use crate::folder::FolderError;

/// Why glyphs could not be read, drawn or written.
#[derive(Debug, thiserror::Error)]
pub enum GlyphError {
    /// A folder of typefaces that cannot be listed.
    #[error("{}: expected a readable folder of typefaces (.ttf, .otf), found: {source}: check the path and its permissions", path.display())]
    UnreadableFolder {
        /// The folder.
        path: PathBuf,
        /// The operating system's reason.
        source: io::Error,
    },
    /// A folder with no typeface, or one only.
    #[error("{}: expected at least 2 typefaces (.ttf, .otf), found {found} among {files} files: check the path, or leave out --fonts to use those inside the program", path.display())]
    TooFewFonts {
        /// The folder.
        path: PathBuf,
        /// Number of typefaces.
        found: usize,
        /// Number of entries of the folder.
        files: usize,
    },
    /// A typeface that the operating system refuses to hand out.
    #[error("{}: expected a readable typeface, found: {source}: check its permissions", path.display())]
    UnreadableFont {
        /// The file.
        path: PathBuf,
        /// The operating system's reason.
        source: io::Error,
    },
    /// A file that is no TrueType or OpenType font.
    #[error("{}: expected a TrueType or OpenType font, found {reason}: repair or remove the file", path.display())]
    NotAFont {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A typeface that does not draw all characters of the world.
    #[error("{}: expected outlines of all {} characters, found none for {characters}: remove the file or take a typeface with these characters", path.display(), super::CHARACTERS.len())]
    MissingCharacters {
        /// The file.
        path: PathBuf,
        /// The characters, separated by spaces.
        characters: String,
    },
    /// Two files that draw the same.
    #[error("{} and {}: expected different typefaces, found the same outlines in both: remove one", first.display(), second.display())]
    SameTypeface {
        /// One file.
        first: PathBuf,
        /// The other.
        second: PathBuf,
    },
    /// The outlines inside the program are damaged.
    #[error("the typefaces inside the program are damaged ({0}): build it again")]
    Embedded(&'static str),
    /// A number outside its range.
    #[error("{name}: expected {expected}, found {found}")]
    Setting {
        /// The setting, as the command line calls it.
        name: &'static str,
        /// What is allowed.
        expected: String,
        /// What was given.
        found: String,
    },
    /// Something that the generator cannot draw.
    #[error("generator: expected {expected}, found {found}")]
    Generator {
        /// What it takes.
        expected: String,
        /// What was given.
        found: String,
    },
    /// A folder that cannot be used.
    #[error("{0}")]
    Folder(#[from] FolderError),
    /// A file or folder that cannot be written.
    #[error("{}: cannot write: {source}: check the path, its permissions and the space left", path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
}
