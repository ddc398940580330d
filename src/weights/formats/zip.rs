//! A small zip reader: stored and deflated entries, zip64, checksums.
//!
//! Stored entries are borrowed from the file, not copied. Offsets and sizes are taken from the
//! central directory and checked against the file. Inflating stops at the declared size. Two kinds
//! of zip bomb are refused: entries that overlap, because together they read more than the file
//! holds, and content that inflates to more than [`MAX_RATIO`] times the file plus [`MAX_FREE`].

use super::error::{Result, Source, shorten};
use flate2::{Crc, bufread::DeflateDecoder};
use std::borrow::Cow;
use std::cell::Cell;
use std::collections::HashMap;
use std::io::Read;

const END: &[u8] = b"PK\x05\x06";
const END64_LOCATOR: &[u8] = b"PK\x06\x07";
const END64: &[u8] = b"PK\x06\x06";
const CENTRAL: &[u8] = b"PK\x01\x02";
const LOCAL: &[u8] = b"PK\x03\x04";

/// Content may always inflate to this many bytes, …
const MAX_FREE: u64 = 1 << 30;
/// … and beyond that to this many times the archive.
const MAX_RATIO: u64 = 64;

/// An opened archive.
pub(super) struct Zip<'a> {
    bytes: &'a [u8],
    file: Source<'a>,
    entries: Vec<Entry>,
    by_name: HashMap<String, usize>,
    /// Packed bytes read so far.
    read: Cell<u64>,
    /// Bytes inflated so far.
    inflated: Cell<u64>,
}

struct Entry {
    name: String,
    flags: u16,
    method: u16,
    crc: u32,
    packed: u64,
    size: u64,
    offset: u64,
}

impl<'a> Zip<'a> {
    /// Whether the file begins like a zip archive.
    pub fn is_zip(bytes: &[u8]) -> bool {
        bytes.starts_with(LOCAL) || bytes.starts_with(END)
    }

    pub fn open(bytes: &'a [u8], file: Source<'a>) -> Result<Self> {
        let Some((start, count)) = directory(bytes) else {
            return Err(file.damaged("a zip archive without its directory (cut off?)"));
        };
        let mut zip = Self {
            bytes,
            file,
            entries: Vec::new(),
            by_name: HashMap::new(),
            read: Cell::new(0),
            inflated: Cell::new(0),
        };
        let mut at = start;
        for number in 0..count {
            let Some((entry, next)) = central(bytes, at) else {
                return Err(file.damaged(format!("zip directory entry {number} of {count}")));
            };
            let previous = zip.by_name.insert(entry.name.clone(), zip.entries.len());
            if previous.is_some() {
                let name = shorten(&entry.name);
                return Err(file.damaged(format!("two zip entries named {name}")));
            }
            zip.entries.push(entry);
            at = next;
        }
        Ok(zip)
    }

    /// Names in the order of the directory.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| entry.name.as_str())
    }

    /// Length of the whole archive.
    pub fn content_len(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// The content of an entry; `None` if there is none of that name.
    pub fn read_named(&self, name: &str) -> Result<Option<Cow<'a, [u8]>>> {
        match self.by_name.get(name) {
            Some(&at) => self.read_entry(&self.entries[at]).map(Some),
            None => Ok(None),
        }
    }

    fn read_entry(&self, entry: &Entry) -> Result<Cow<'a, [u8]>> {
        let name = shorten(&entry.name);
        let damaged = |what: &str| self.file.damaged(format!("zip entry {name}: {what}"));
        if entry.flags & 1 != 0 {
            let what = format!("zip entry {name}: it is encrypted and");
            return Err(self
                .file
                .unsupported(what, "Save the archive without password"));
        }
        let total = self.read.get().saturating_add(entry.packed);
        if total > 2 * self.content_len() {
            return Err(damaged("it overlaps other entries"));
        }
        self.read.set(total);
        let Some(packed) = self.packed(entry) else {
            return Err(damaged("it lies outside of the file"));
        };
        let content = match entry.method {
            0 => Cow::Borrowed(packed),
            8 => {
                let limit = MAX_FREE.saturating_add(MAX_RATIO.saturating_mul(self.content_len()));
                let inflated = self.inflated.get().saturating_add(entry.size);
                if inflated > limit {
                    let what = format!("zip entry {name} inflates too much, in bytes");
                    return Err(self.file.limit(what, limit));
                }
                self.inflated.set(inflated);
                let likely = entry.size.min(entry.packed.saturating_mul(8));
                let mut out = Vec::with_capacity(usize::try_from(likely).unwrap_or(0));
                DeflateDecoder::new(packed)
                    .take(entry.size.saturating_add(1))
                    .read_to_end(&mut out)
                    .map_err(|error| damaged(&format!("it does not inflate ({error})")))?;
                Cow::Owned(out)
            }
            other => {
                return Err(self.file.unsupported(
                    format!("zip entry {name}: compression method {other}"),
                    "Only stored and deflated entries are read: pack it again",
                ));
            }
        };
        if content.len() as u64 != entry.size {
            return Err(damaged(&format!(
                "expected {} bytes, found {}",
                entry.size,
                content.len()
            )));
        }
        let mut crc = Crc::new();
        crc.update(&content);
        if crc.sum() != entry.crc {
            return Err(damaged(
                "its checksum is wrong (PyTorch writes such files only after \
                 torch.serialization.set_crc32_options(False))",
            ));
        }
        Ok(content)
    }

    fn packed(&self, entry: &Entry) -> Option<&'a [u8]> {
        let header = self.bytes.get(usize::try_from(entry.offset).ok()?..)?;
        if !header.starts_with(LOCAL) {
            return None;
        }
        let skip = 30 + usize::from(u16_at(header, 26)?) + usize::from(u16_at(header, 28)?);
        header
            .get(skip..)?
            .get(..usize::try_from(entry.packed).ok()?)
    }
}

/// Offset of the central directory and its number of entries.
fn directory(bytes: &[u8]) -> Option<(usize, u64)> {
    let first = bytes.len().saturating_sub(22 + usize::from(u16::MAX));
    let last = bytes.len().checked_sub(22)?;
    let end = (first..=last)
        .rev()
        .find(|&at| bytes[at..].starts_with(END))?;
    let tail = &bytes[end..];
    let (mut count, mut start) = (u64::from(u16_at(tail, 10)?), u64::from(u32_at(tail, 16)?));
    if let Some(locator) = end.checked_sub(20).map(|at| &bytes[at..end])
        && locator.starts_with(END64_LOCATOR)
    {
        let record = bytes.get(usize::try_from(u64_at(locator, 8)?).ok()?..)?;
        if record.starts_with(END64) {
            count = u64_at(record, 32)?;
            start = u64_at(record, 48)?;
        }
    }
    Some((usize::try_from(start).ok()?, count))
}

/// The directory entry at `at`, and where the next one begins.
fn central(bytes: &[u8], at: usize) -> Option<(Entry, usize)> {
    let head = bytes.get(at..)?;
    if !head.starts_with(CENTRAL) {
        return None;
    }
    let name_len = usize::from(u16_at(head, 28)?);
    let extra_len = usize::from(u16_at(head, 30)?);
    let comment_len = usize::from(u16_at(head, 32)?);
    let name = head.get(46..46 + name_len)?;
    let extra = head.get(46 + name_len..46 + name_len + extra_len)?;
    let mut entry = Entry {
        name: String::from_utf8_lossy(name).into_owned(),
        flags: u16_at(head, 8)?,
        method: u16_at(head, 10)?,
        crc: u32_at(head, 16)?,
        packed: u32_at(head, 20)?.into(),
        size: u32_at(head, 24)?.into(),
        offset: u32_at(head, 42)?.into(),
    };
    wide_sizes(&mut entry, extra)?;
    Some((entry, at + 46 + name_len + extra_len + comment_len))
}

/// Replaces sizes that did not fit 32 bits by those of the zip64 extra field.
fn wide_sizes(entry: &mut Entry, mut extra: &[u8]) -> Option<()> {
    let full = u64::from(u32::MAX);
    while let (Some(id), Some(length)) = (u16_at(extra, 0), u16_at(extra, 2)) {
        let field = extra.get(4..4 + usize::from(length))?;
        if id == 1 {
            let mut at = 0;
            for value in [&mut entry.size, &mut entry.packed, &mut entry.offset] {
                if *value == full {
                    *value = u64_at(field, at)?;
                    at += 8;
                }
            }
        }
        extra = &extra[4 + field.len()..];
    }
    Some(())
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}
