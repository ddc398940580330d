//! Typefaces: the 48 inside the program, or those of a folder.
//!
//! `weights/glyphs/fonts.bin` is written by `scripts/make-fonts`; names, authors and licences are in `FONTS.md` beside
//! it. It is a zlib stream of these fields, where a number is an unsigned LEB128 and a signed number is one after the
//! zigzag map (0, −1, 1, −2, … → 0, 1, 2, 3, …):
//!
//! ```text
//! magic       the bytes "foil glyphs 1\n"
//! characters  a number, then each character's code point
//! faces       a number, then for each face:
//!   name      its length in bytes, UTF-8
//!   for each character:
//!     contours  a number, then for each contour:
//!       points  a number n
//!       flags   n bits, lowest first, filled up to whole bytes: 1 = on the curve, 0 = control point of a quadratic
//!       x, y    n signed numbers each: differences from the point before; the first one from the last of the contour
//!               before, or from 0 at the start of the glyph
//! ```
//!
//! Coordinates are integers, y upwards, on a scale of each face's own. Two control points in a row have a point on the
//! curve midway between them, as in TrueType.

use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::ZlibDecoder;

use super::outline::{Contour, Outline};
use super::{CHARACTERS, GlyphError, font_files};
use crate::weights::sha256;

static EMBEDDED: &[u8] = include_bytes!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/weights/glyphs/fonts.bin"
));

const MAGIC: &[u8] = b"foil glyphs 1\n";

/// Outlines of all characters in one typeface.
#[derive(Debug, Clone, PartialEq)]
pub struct Face {
    /// What its makers call it; says where the outlines come from.
    pub name: String,
    /// In the order of [`CHARACTERS`].
    pub outlines: Vec<Outline>,
}

/// A set of typefaces; a typeface's number is its place here.
#[derive(Debug, Clone, PartialEq)]
pub struct Fonts {
    pub faces: Vec<Face>,
    /// Where they come from, as it was named; `None` for those inside the program.
    pub folder: Option<PathBuf>,
}

impl Fonts {
    /// The 48 typefaces inside the program.
    pub fn embedded() -> Result<Self, GlyphError> {
        Self::unpack(EMBEDDED).map_err(GlyphError::Embedded)
    }

    /// All typefaces (.ttf, .otf) of a folder in the order of their file names; at least two.
    pub fn from_folder(folder: &Path) -> Result<Self, GlyphError> {
        font_files::read_folder(folder).map(|faces| Self {
            faces,
            folder: Some(folder.to_owned()),
        })
    }

    /// SHA-256 of names and outlines: the same typefaces give the same value, whatever their files are called.
    pub fn sha256(&self) -> String {
        let mut bytes = Vec::new();
        let number = |bytes: &mut Vec<u8>, value: usize| bytes.extend((value as u64).to_le_bytes());
        for face in &self.faces {
            number(&mut bytes, face.name.len());
            bytes.extend(face.name.as_bytes());
            for outline in &face.outlines {
                number(&mut bytes, outline.contours.len());
                for contour in &outline.contours {
                    number(&mut bytes, contour.pieces.len());
                    for points in std::iter::once(vec![contour.start])
                        .chain(contour.pieces.iter().map(|piece| piece.points().collect()))
                    {
                        number(&mut bytes, points.len());
                        for value in points.into_iter().flatten() {
                            bytes.extend(value.to_le_bytes());
                        }
                    }
                }
            }
        }
        sha256(&bytes)
    }

    fn unpack(packed: &[u8]) -> Result<Self, &'static str> {
        let mut bytes = Vec::new();
        let mut stream = ZlibDecoder::new(packed);
        stream
            .read_to_end(&mut bytes)
            .map_err(|_| "not a whole zlib stream")?;
        let mut reader = Reader { rest: &bytes };
        if reader.take(MAGIC.len())? != MAGIC {
            return Err("another format or version");
        }
        let characters = reader.number()?;
        if characters != CHARACTERS.len() {
            return Err("another number of characters");
        }
        for character in CHARACTERS {
            if reader.number()? != character as usize {
                return Err("other characters");
            }
        }
        let mut faces = Vec::new();
        for _ in 0..reader.number()? {
            faces.push(reader.face()?);
        }
        if !reader.rest.is_empty() {
            return Err("bytes left over");
        }
        Ok(Self {
            faces,
            folder: None,
        })
    }
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], &'static str> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or("too short")?;
        self.rest = rest;
        Ok(taken)
    }

    fn number(&mut self) -> Result<usize, &'static str> {
        let mut value = 0;
        for shift in (0..28).step_by(7) {
            let byte = self.take(1)?[0];
            value |= usize::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err("a number that is too long")
    }

    fn signed(&mut self) -> Result<i64, &'static str> {
        let value = self.number()? as i64;
        Ok((value >> 1) ^ -(value & 1))
    }

    fn face(&mut self) -> Result<Face, &'static str> {
        let length = self.number()?;
        let name = std::str::from_utf8(self.take(length)?).map_err(|_| "a name of no text")?;
        let outlines = (0..CHARACTERS.len()).map(|_| self.outline());
        Ok(Face {
            outlines: outlines.collect::<Result<_, _>>()?,
            name: name.to_owned(),
        })
    }

    fn outline(&mut self) -> Result<Outline, &'static str> {
        let mut contours = Vec::new();
        let mut last = [0i64; 2];
        for _ in 0..self.number()? {
            let count = self.number()?;
            let flags = self.take(count.div_ceil(8))?;
            let mut points: Vec<([f64; 2], bool)> = (0..count)
                .map(|k| ([0.0; 2], flags[k / 8] >> (k % 8) & 1 == 1))
                .collect();
            for axis in 0..2 {
                for (point, _) in &mut points {
                    last[axis] += self.signed()?;
                    point[axis] = last[axis] as f64;
                }
            }
            contours.extend(Contour::from_quadratic_points(&points));
        }
        Ok(Outline { contours })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn packed(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), Default::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn the_program_holds_48_typefaces_of_different_names() {
        let fonts = Fonts::embedded().unwrap();
        assert_eq!(fonts.faces.len(), 48);
        let names: std::collections::HashSet<_> = fonts.faces.iter().map(|f| &f.name).collect();
        assert_eq!(names.len(), 48);
        for face in &fonts.faces {
            assert_eq!(face.outlines.len(), CHARACTERS.len());
            let drawn = face.outlines.iter().all(|o| !o.contours.is_empty());
            assert!(drawn, "{}", face.name);
        }
    }

    #[test]
    fn the_checksum_is_of_names_and_outlines() {
        let fonts = Fonts::embedded().unwrap();
        assert_eq!(fonts.sha256(), Fonts::embedded().unwrap().sha256());
        let mut elsewhere = fonts.clone();
        elsewhere.folder = Some("fonts".into());
        assert_eq!(fonts.sha256(), elsewhere.sha256());
        let mut renamed = fonts.clone();
        renamed.faces[3].name.push('x');
        assert_ne!(fonts.sha256(), renamed.sha256());
        let mut moved = fonts.clone();
        moved.faces[47].outlines[47].contours[0].start[1] += 1.0;
        assert_ne!(fonts.sha256(), moved.sha256());
    }

    #[test]
    fn damaged_outlines_are_refused() {
        let whole = {
            let mut bytes = Vec::new();
            ZlibDecoder::new(EMBEDDED).read_to_end(&mut bytes).unwrap();
            bytes
        };
        assert!(Fonts::unpack(&packed(&whole)).is_ok());
        assert_eq!(Fonts::unpack(b"no stream"), Err("not a whole zlib stream"));
        assert_eq!(
            Fonts::unpack(&packed(&whole[..whole.len() - 1])),
            Err("too short")
        );
        let mut longer = whole.clone();
        longer.push(0);
        assert_eq!(Fonts::unpack(&packed(&longer)), Err("bytes left over"));
        let mut other = whole;
        other[12] = b'9';
        assert_eq!(
            Fonts::unpack(&packed(&other)),
            Err("another format or version")
        );
    }

    #[test]
    fn signed_numbers_follow_the_zigzag_map() {
        let mut reader = Reader {
            rest: &[0, 1, 2, 3, 0x80, 0x01],
        };
        let values: Vec<i64> = (0..5).map(|_| reader.signed().unwrap()).collect();
        assert_eq!(values, [0, -1, 1, -2, 64]);
        assert_eq!(reader.signed(), Err("too short"));
    }
}
