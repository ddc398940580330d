//! Typefaces of the user: TrueType and OpenType files.

use std::path::{Path, PathBuf};

use ttf_parser::{GlyphId, OutlineBuilder, name_id};

use super::boundary::true_boundary;
use super::fonts::Face;
use super::outline::{Contour, Outline, Piece};
use super::{CHARACTERS, GlyphError};

const EXTENSIONS: [&str; 2] = ["ttf", "otf"];

/// All typefaces of a folder in the order of their file names.
pub(super) fn read_folder(folder: &Path) -> Result<Vec<Face>, GlyphError> {
    let unreadable = |source| GlyphError::UnreadableFolder {
        path: folder.to_owned(),
        source,
    };
    let mut files = 0;
    let mut paths: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        files += 1;
        let extension = path.extension().and_then(|e| e.to_str()).unwrap_or("");
        if EXTENSIONS.iter().any(|e| e.eq_ignore_ascii_case(extension)) {
            paths.push(path);
        }
    }
    if paths.len() < 2 {
        return Err(GlyphError::TooFewFonts {
            path: folder.to_owned(),
            found: paths.len(),
            files,
        });
    }
    paths.sort();
    let mut faces: Vec<Face> = Vec::with_capacity(paths.len());
    for path in &paths {
        let face = read_file(path)?;
        if let Some(same) = faces.iter().position(|f| f.outlines == face.outlines) {
            return Err(GlyphError::SameTypeface {
                first: paths[same].clone(),
                second: path.clone(),
            });
        }
        faces.push(face);
    }
    Ok(faces)
}

fn read_file(path: &Path) -> Result<Face, GlyphError> {
    let bytes = std::fs::read(path).map_err(|source| GlyphError::UnreadableFont {
        path: path.to_owned(),
        source,
    })?;
    let font = ttf_parser::Face::parse(&bytes, 0).map_err(|error| GlyphError::NotAFont {
        path: path.to_owned(),
        reason: if bytes.is_empty() {
            "an empty file".to_owned()
        } else {
            format!("something else ({error})")
        },
    })?;
    let mut missing = Vec::new();
    let mut outlines = Vec::with_capacity(CHARACTERS.len());
    for character in CHARACTERS {
        let glyph = font.glyph_index(character).filter(|id| *id != GlyphId(0));
        let outline = glyph.map(|id| {
            let mut pen = Pen::default();
            font.outline_glyph(id, &mut pen);
            pen.finished
        });
        match outline.filter(|outline| !true_boundary(&outline.flatten()).is_empty()) {
            Some(outline) => outlines.push(outline),
            None => missing.push(character.to_string()),
        }
    }
    if !missing.is_empty() {
        return Err(GlyphError::MissingCharacters {
            path: path.to_owned(),
            characters: missing.join(" "),
        });
    }
    Ok(Face {
        name: full_name(&font).unwrap_or_else(|| stem(path)),
        outlines,
    })
}

fn full_name(font: &ttf_parser::Face) -> Option<String> {
    let names = || font.names().into_iter();
    let of = |id| {
        names()
            .filter(|n| n.name_id == id)
            .find_map(|n| n.to_string())
    };
    of(name_id::FULL_NAME)
        .or_else(|| of(name_id::FAMILY))
        .filter(|name| !name.trim().is_empty())
}

fn stem(path: &Path) -> String {
    let stem = path.file_stem().map(|s| s.to_string_lossy().into_owned());
    stem.unwrap_or_default()
}

/// Collects contours.
#[derive(Default)]
struct Pen {
    finished: Outline,
    open: Option<Contour>,
}

fn point(x: f32, y: f32) -> [f64; 2] {
    [f64::from(x), f64::from(y)]
}

impl Pen {
    fn push(&mut self, piece: Piece) {
        if let Some(contour) = &mut self.open {
            contour.pieces.push(piece);
        }
    }
}

impl OutlineBuilder for Pen {
    fn move_to(&mut self, x: f32, y: f32) {
        self.close();
        self.open = Some(Contour {
            start: point(x, y),
            pieces: Vec::new(),
        });
    }

    fn line_to(&mut self, x: f32, y: f32) {
        self.push(Piece::Line(point(x, y)));
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        self.push(Piece::Quadratic(point(x1, y1), point(x, y)));
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        self.push(Piece::Cubic(point(x1, y1), point(x2, y2), point(x, y)));
    }

    fn close(&mut self) {
        self.finished.contours.extend(self.open.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::random::{Draws, Stream};

    fn fixture(name: &str) -> PathBuf {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/fonts");
        fixtures.join(name)
    }

    #[test]
    fn truetype_and_opentype_outlines_are_read() {
        let blocks = read_file(&fixture("blocks.ttf")).unwrap();
        assert_eq!(blocks.name, "Foil Blocks");
        // A box with two round corners and a hole.
        let first = &blocks.outlines[0].contours;
        assert_eq!(first.len(), 2);
        let round = |p: &&Piece| matches!(p, Piece::Quadratic(..));
        assert_eq!(first[0].pieces.iter().filter(round).count(), 2);
        let diamonds = read_file(&fixture("diamonds.otf")).unwrap();
        let first = &diamonds.outlines[0].contours;
        let curved = |p: &&Piece| matches!(p, Piece::Cubic(..));
        assert_eq!(first[0].pieces.iter().filter(curved).count(), 4);
    }

    #[test]
    fn damaged_files_are_read_or_refused_without_a_panic() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("damaged");
        for name in ["blocks.ttf", "diamonds.otf"] {
            let whole = std::fs::read(fixture(name)).unwrap();
            for index in 0..200 {
                let mut draws = Draws::new(4, Stream::BOOTSTRAP, index);
                let mut bytes = whole.clone();
                for _ in 0..8 {
                    let at = draws.index_below(bytes.len()).unwrap();
                    bytes[at] = draws.next_u32() as u8;
                }
                bytes.truncate(draws.index_below(2 * whole.len()).unwrap());
                std::fs::write(&path, &bytes).unwrap();
                if let Ok(face) = read_file(&path) {
                    let glyphs = face.outlines.iter().map(super::super::Glyph::new);
                    assert!(glyphs.flat_map(|g| g.distances).all(f32::is_finite));
                }
            }
        }
    }
}
