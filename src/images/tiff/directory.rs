//! TIFF's directories of tags (IFDs), classic and big, which EXIF data use too. All reads are checked against the
//! bytes at hand, so that a damaged file can at worst say wrong things.

/// A file's bytes with their byte order.
#[derive(Debug, Clone, Copy)]
pub struct File<'a> {
    /// All bytes.
    pub bytes: &'a [u8],
    /// Whether numbers have their most significant byte first.
    pub big_endian: bool,
    /// Whether offsets have 64 bits (BigTIFF).
    pub wide: bool,
    /// Offset of the first directory.
    pub first: u64,
}

impl<'a> File<'a> {
    /// Reads the header.
    pub fn open(bytes: &'a [u8]) -> Result<Self, String> {
        let (big_endian, wide) = match bytes.get(..4) {
            Some(b"II*\0") => (false, false),
            Some(b"MM\0*") => (true, false),
            Some(b"II+\0") => (false, true),
            Some(b"MM\0+") => (true, true),
            _ => return Err("no TIFF header".to_owned()),
        };
        let mut file = Self {
            bytes,
            big_endian,
            wide,
            first: 0,
        };
        file.first = if wide {
            file.number(8, 8)?
        } else {
            file.number(4, 4)?
        };
        Ok(file)
    }

    /// The unsigned number of `size` bytes (1, 2, 4 or 8) at `at`.
    fn number(&self, at: u64, size: usize) -> Result<u64, String> {
        let bytes = self.slice(at, size as u64)?;
        let join = |value: u64, &byte: &u8| value << 8 | u64::from(byte);
        Ok(if self.big_endian {
            bytes.iter().fold(0, join)
        } else {
            bytes.iter().rev().fold(0, join)
        })
    }

    /// `length` bytes at `at`.
    pub fn slice(&self, at: u64, length: u64) -> Result<&'a [u8], String> {
        let size = self.bytes.len();
        let range = usize::try_from(at).ok().zip(
            at.checked_add(length)
                .and_then(|end| usize::try_from(end).ok()),
        );
        range
            .and_then(|(start, end)| self.bytes.get(start..end))
            .ok_or_else(|| {
                format!("{length} bytes are referred to at offset {at}, the file has {size} bytes")
            })
    }
}

/// One directory.
#[derive(Debug)]
pub struct Directory<'a> {
    file: File<'a>,
    entries: Vec<Entry>,
    /// Offset of the next directory, 0 if there is none.
    pub next: u64,
}

#[derive(Debug)]
struct Entry {
    tag: u16,
    kind: u16,
    count: u64,
    /// Offset of the entry's value field.
    field: u64,
}

impl<'a> Directory<'a> {
    /// Reads the directory at offset `at`.
    pub fn read(file: File<'a>, at: u64) -> Result<Self, String> {
        let (head, size, word) = if file.wide { (8, 20, 8) } else { (2, 12, 4) };
        let count = file.number(at, head)?;
        let start = at + head as u64;
        let length = count
            .checked_mul(size)
            .ok_or("a directory of too many entries")?;
        file.slice(start, length)?;
        let entries = (0..count).map(|i| {
            let at = start + i * size;
            Ok(Entry {
                tag: file.number(at, 2)? as u16,
                kind: file.number(at + 2, 2)? as u16,
                count: file.number(at + 4, word)?,
                field: at + 4 + word as u64,
            })
        });
        let entries = entries.collect::<Result<_, String>>()?;
        let next = file.number(start + length, word)?;
        Ok(Self {
            file,
            entries,
            next,
        })
    }

    /// The unsigned numbers of a tag, if the directory has it.
    pub fn numbers(&self, tag: u16) -> Result<Option<Vec<u64>>, String> {
        let Some(entry) = self.entries.iter().find(|entry| entry.tag == tag) else {
            return Ok(None);
        };
        let size = match entry.kind {
            1 | 7 => 1,
            3 => 2,
            4 | 13 => 4,
            16 | 18 => 8,
            kind => {
                return Err(format!(
                    "tag {tag} holds values of type {kind}, not unsigned integers"
                ));
            }
        };
        let length = entry
            .count
            .checked_mul(size)
            .ok_or_else(|| format!("tag {tag} has too many values"))?;
        let word = if self.file.wide { 8 } else { 4 };
        let at = if length <= word {
            entry.field
        } else {
            self.file.number(entry.field, word as usize)?
        };
        self.file.slice(at, length)?;
        (0..entry.count)
            .map(|i| self.file.number(at + i * size, size as usize))
            .collect::<Result<_, _>>()
            .map(Some)
    }

    /// The first number of a tag, or `default` if the directory has no such tag.
    pub fn number(&self, tag: u16, default: u64) -> Result<u64, String> {
        let values = self.numbers(tag)?;
        Ok(values
            .and_then(|values| values.first().copied())
            .unwrap_or(default))
    }
}
