//! What can be wrong with a JPEG file, worded as what was expected, what was found and,
//! where the file is sound but of a kind not read here, what to do about it.

use std::fmt;

/// What to do with a file of a kind that is not read here.
const ADVICE: &str = "re-save it as a baseline JPEG or as a PNG";

/// Why a JPEG file could not be decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JpegError {
    /// The bytes do not start as a JPEG file does.
    NotJpeg {
        /// The first bytes, at most three.
        found: Vec<u8>,
    },
    /// A sound file of a kind that this decoder does not read.
    Unsupported {
        /// The kind, as a noun phrase.
        what: String,
    },
    /// The image has more pixels than the caller allows.
    TooLarge {
        /// Declared width.
        width: u32,
        /// Declared height.
        height: u32,
        /// The caller's limit.
        max_pixels: u64,
    },
    /// A marker segment that breaks the format's rules.
    BadSegment {
        /// Name of the segment.
        segment: &'static str,
        /// Byte offset in the file.
        at: usize,
        /// What the format demands.
        expected: String,
        /// What the file holds.
        found: String,
    },
    /// A scan refers to a table that the file has not defined.
    MissingTable {
        /// Kind of table.
        kind: &'static str,
        /// Its number.
        id: u8,
    },
    /// The compressed data of a scan are damaged.
    Corrupt {
        /// What is wrong.
        what: String,
        /// Where it was found.
        progress: Progress,
    },
    /// The file ends inside a marker segment or before the last scan.
    TruncatedFile {
        /// Byte offset at which the data ended.
        at: usize,
        /// What was still to come.
        expected: String,
    },
    /// The compressed data of a scan end too early.
    TruncatedScan {
        /// Byte offset at which the data ended.
        at: usize,
        /// How far the decoding got.
        progress: Progress,
    },
}

/// How far the decoding of a scan got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Number of the scan, from 1.
    pub scan: usize,
    /// Coding units (MCUs) decoded in it.
    pub done: usize,
    /// Coding units it should hold.
    pub total: usize,
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scan, done, total } = self;
        write!(f, "scan {scan}, after {done} of {total} coding units")
    }
}

impl fmt::Display for JpegError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotJpeg { found } => write!(
                f,
                "not a JPEG file: expected the bytes FF D8 FF at the start, found {}",
                hex(found)
            ),
            Self::Unsupported { what } => {
                write!(f, "this JPEG is {what}, which is not read here: {ADVICE}")
            }
            Self::TooLarge {
                width,
                height,
                max_pixels,
            } => write!(
                f,
                "the JPEG declares {width}x{height} = {} pixels, at most {max_pixels} are allowed",
                u64::from(*width) * u64::from(*height)
            ),
            Self::BadSegment {
                segment,
                at,
                expected,
                found,
            } => write!(
                f,
                "bad JPEG {segment} at byte {at}: expected {expected}, found {found}"
            ),
            Self::MissingTable { kind, id } => write!(
                f,
                "the JPEG uses {kind} table {id}, expected its definition before the scan, \
                 found none"
            ),
            Self::Corrupt { what, progress } => {
                write!(f, "corrupt JPEG data: {what} ({progress})")
            }
            Self::TruncatedFile { at, expected } => write!(
                f,
                "truncated JPEG: the data end at byte {at}, expected {expected}"
            ),
            Self::TruncatedScan { at, progress } => write!(
                f,
                "truncated JPEG: the compressed data end at byte {at}, expected more ({progress})"
            ),
        }
    }
}

impl std::error::Error for JpegError {}

/// The bytes in hexadecimal, or words saying there are none.
fn hex(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return "an empty file".to_owned();
    }
    let words: Vec<String> = bytes.iter().map(|b| format!("{b:02X}")).collect();
    words.join(" ")
}
