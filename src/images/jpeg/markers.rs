//! The marker segments of a JPEG file: finds them, checks them, and gathers what they
//! define (frame, tables, restart interval, colour hints, EXIF data).

use super::JpegError;
use super::frame::{Component, Frame};
use super::huffman::HuffTable;

/// For the zigzag position of a coefficient its place in the row-by-row 8x8 block.
pub const ZIGZAG: [u8; 64] = {
    let mut order = [0; 64];
    let (mut x, mut y, mut k) = (0_u8, 0_u8, 0);
    while k < 64 {
        order[k] = y * 8 + x;
        // Even diagonals run up and to the right, odd ones down and to the left.
        if (x + y) % 2 == 0 {
            if x == 7 {
                y += 1;
            } else if y == 0 {
                x += 1;
            } else {
                x += 1;
                y -= 1;
            }
        } else if y == 7 {
            x += 1;
        } else if x == 0 {
            y += 1;
        } else {
            x -= 1;
            y += 1;
        }
        k += 1;
    }
    order
};

/// What the segments before a scan define.
#[derive(Default)]
pub struct Tables {
    /// Quantisation tables, row by row.
    pub quant: [Option<[u16; 64]>; 4],
    /// Huffman tables of DC coefficients.
    pub dc: [Option<Box<HuffTable>>; 4],
    /// Huffman tables of AC coefficients.
    pub ac: [Option<Box<HuffTable>>; 4],
    /// Coding units between restart markers, 0 for none.
    pub restart_interval: usize,
}

/// What the application segments say.
#[derive(Default)]
pub struct Hints {
    /// Whether there is a JFIF header.
    pub jfif: bool,
    /// The colour transform an Adobe segment names.
    pub adobe: Option<u8>,
    /// The EXIF data, without their "Exif" heading.
    pub exif: Option<Vec<u8>>,
}

/// A scan's header.
pub struct ScanHeader {
    /// Per component of the scan: its index in the frame, its DC and its AC table.
    pub parts: Vec<(usize, u8, u8)>,
    /// First zigzag position coded.
    pub first: u8,
    /// Last zigzag position coded.
    pub last: u8,
    /// Bit position of the previous scan of these coefficients, 0 for none.
    pub high: u8,
    /// Bit position of this scan.
    pub low: u8,
}

/// The next marker at or after `pos` and the offset behind it. Skips fill bytes, stuffed
/// bytes and anything else that is no marker.
pub fn find_marker(bytes: &[u8], mut pos: usize) -> Option<(u8, usize)> {
    loop {
        pos += bytes.get(pos..)?.iter().position(|&b| b == 0xFF)?;
        pos += bytes[pos..].iter().position(|&b| b != 0xFF)?;
        if bytes[pos] != 0 {
            return Some((bytes[pos], pos + 1));
        }
    }
}

/// One marker segment: its name for messages, its offset and its contents.
#[derive(Clone, Copy)]
pub struct Segment<'a> {
    /// Name for messages.
    pub name: &'static str,
    /// Byte offset of its length field.
    pub at: usize,
    /// Its contents.
    pub data: &'a [u8],
}

impl<'a> Segment<'a> {
    /// The segment whose length field is at `at`.
    pub fn read(bytes: &'a [u8], at: usize, name: &'static str) -> Result<Self, JpegError> {
        let truncated = |expected: String| JpegError::TruncatedFile {
            at: bytes.len(),
            expected,
        };
        let rest = bytes.get(at..).unwrap_or_default();
        let Some(&[high, low]) = rest.first_chunk::<2>() else {
            return Err(truncated(format!("the length of a {name}")));
        };
        let length = usize::from(u16::from_be_bytes([high, low]));
        let whole = Self {
            name,
            at,
            data: rest,
        };
        if length < 2 {
            return Err(whole.bad("a length of at least 2", length));
        }
        let Some(data) = rest.get(2..length) else {
            return Err(truncated(format!(
                "a {name} of {length} bytes from byte {at} on"
            )));
        };
        Ok(Self { data, ..whole })
    }

    /// The offset behind the segment.
    pub fn end(&self) -> usize {
        self.at + 2 + self.data.len()
    }

    /// An error about this segment.
    pub fn bad(&self, expected: impl ToString, found: impl ToString) -> JpegError {
        JpegError::BadSegment {
            segment: self.name,
            at: self.at,
            expected: expected.to_string(),
            found: found.to_string(),
        }
    }

    /// The error of a segment that is too short or too long.
    fn bad_length(&self, expected: impl ToString) -> JpegError {
        self.bad(expected, format!("{} bytes", self.data.len()))
    }
}

impl Tables {
    /// Takes in the quantisation tables of a DQT segment.
    pub fn define_quant(&mut self, segment: &Segment<'_>) -> Result<(), JpegError> {
        let mut rest = segment.data;
        while let Some((&head, values)) = rest.split_first() {
            let (wide, id) = (head >> 4, head & 15);
            if wide > 1 || id > 3 {
                return Err(segment.bad(
                    "a precision of 0 or 1 and a table number of 0 to 3",
                    format!("precision {wide}, number {id}"),
                ));
            }
            let size = if wide == 1 { 128 } else { 64 };
            let Some((values, after)) = values.split_at_checked(size) else {
                return Err(segment.bad_length(format!("{size} bytes for every table")));
            };
            let mut table = [0; 64];
            for (k, &place) in ZIGZAG.iter().enumerate() {
                table[usize::from(place)] = if wide == 1 {
                    u16::from_be_bytes([values[2 * k], values[2 * k + 1]])
                } else {
                    u16::from(values[k])
                };
            }
            self.quant[usize::from(id)] = Some(table);
            rest = after;
        }
        Ok(())
    }

    /// Takes in the Huffman tables of a DHT segment.
    pub fn define_huffman(&mut self, segment: &Segment<'_>) -> Result<(), JpegError> {
        let mut rest = segment.data;
        while let Some((&head, after)) = rest.split_first() {
            let (class, id) = (head >> 4, head & 15);
            if class > 1 || id > 3 {
                return Err(segment.bad(
                    "a class of 0 or 1 and a table number of 0 to 3",
                    format!("class {class}, number {id}"),
                ));
            }
            let Some((counts, after)) = after.split_first_chunk::<16>() else {
                return Err(segment.bad_length("16 code counts for every table"));
            };
            let total: usize = counts.iter().map(|&n| usize::from(n)).sum();
            if total > 256 {
                return Err(segment.bad("at most 256 codes", total));
            }
            let Some((symbols, after)) = after.split_at_checked(total) else {
                return Err(segment.bad_length(format!("{total} symbols for a table")));
            };
            let Some(table) = HuffTable::new(counts, symbols) else {
                return Err(segment.bad(
                    "codes that fit into their lengths",
                    format!("the counts {counts:?}"),
                ));
            };
            let tables = if class == 0 {
                &mut self.dc
            } else {
                &mut self.ac
            };
            tables[usize::from(id)] = Some(Box::new(table));
            rest = after;
        }
        Ok(())
    }

    /// Takes in a DRI segment.
    pub fn define_restart(&mut self, segment: &Segment<'_>) -> Result<(), JpegError> {
        let &[high, low] = segment.data else {
            return Err(segment.bad_length("2 bytes"));
        };
        self.restart_interval = usize::from(u16::from_be_bytes([high, low]));
        Ok(())
    }
}

impl Hints {
    /// Takes in the application segment number `app`.
    pub fn note(&mut self, app: u8, data: &[u8]) {
        match app {
            0 if data.len() >= 14 && data.starts_with(b"JFIF\0") => self.jfif = true,
            1 => {
                // More than one EXIF segment is one EXIF block in parts, as Pillow has it.
                if let Some(part) = data.strip_prefix(b"Exif\0\0") {
                    self.exif
                        .get_or_insert_with(Vec::new)
                        .extend_from_slice(part);
                }
            }
            14 if data.len() >= 12 && data.starts_with(b"Adobe") => self.adobe = Some(data[11]),
            _ => {}
        }
    }
}

/// The frame that a start-of-frame segment declares.
pub fn read_frame(
    segment: &Segment<'_>,
    progressive: bool,
    max_pixels: u64,
) -> Result<Frame, JpegError> {
    let Some((&[bits, h1, h0, w1, w0, count], rest)) = segment.data.split_first_chunk::<6>() else {
        return Err(segment.bad_length("at least 6 bytes"));
    };
    let unsupported = |what: String| Err(JpegError::Unsupported { what });
    if bits != 8 {
        return unsupported(format!("coded with {bits} bits a sample instead of 8"));
    }
    let height = u32::from(u16::from_be_bytes([h1, h0]));
    let width = u32::from(u16::from_be_bytes([w1, w0]));
    if height == 0 {
        return unsupported("without a height in its header (DNL)".to_owned());
    }
    if width == 0 {
        return Err(segment.bad("a width of at least 1", width));
    }
    if width > 65_500 || height > 65_500 {
        return Err(segment.bad("sides of at most 65500", format!("{width}x{height}")));
    }
    if u64::from(width) * u64::from(height) > max_pixels {
        return Err(JpegError::TooLarge {
            width,
            height,
            max_pixels,
        });
    }
    if !matches!(count, 1 | 3 | 4) {
        return unsupported(format!("made of {count} components instead of 1, 3 or 4"));
    }
    if rest.len() != usize::from(count) * 3 {
        return Err(segment.bad_length(format!("{} bytes", 6 + usize::from(count) * 3)));
    }
    let mut components = Vec::with_capacity(usize::from(count));
    for part in rest.chunks_exact(3) {
        let (h, v) = (part[1] >> 4, part[1] & 15);
        if !(1..=4).contains(&h) || !(1..=4).contains(&v) {
            return Err(segment.bad("sampling factors of 1 to 4", format!("{h}x{v}")));
        }
        if part[2] > 3 {
            return Err(segment.bad("a quantisation table number of 0 to 3", part[2]));
        }
        components.push(Component::new(part[0], h, v, part[2]));
    }
    let frame = Frame::new(width as usize, height as usize, progressive, components);
    for c in &frame.components {
        if !frame.max_h.is_multiple_of(c.h) || !frame.max_v.is_multiple_of(c.v) {
            return unsupported(format!(
                "sampled {}x{} in one component and {}x{} at most, which is a fraction",
                c.h, c.v, frame.max_h, frame.max_v
            ));
        }
    }
    Ok(frame)
}

/// The header of a scan of `frame`.
pub fn read_scan_header(segment: &Segment<'_>, frame: &Frame) -> Result<ScanHeader, JpegError> {
    let Some((&count, rest)) = segment.data.split_first() else {
        return Err(segment.bad_length("at least 6 bytes"));
    };
    let pairs = usize::from(count) * 2;
    if !(1..=4).contains(&count) || rest.len() != pairs + 3 {
        return Err(segment.bad(
            "1 to 4 components and 2 bytes for each",
            format!("{count} components in {} bytes", segment.data.len()),
        ));
    }
    let (pairs, tail) = rest.split_at(pairs);
    let mut parts: Vec<(usize, u8, u8)> = Vec::with_capacity(usize::from(count));
    for pair in pairs.chunks_exact(2) {
        let used = |index: usize| parts.iter().any(|&(i, _, _)| i == index);
        let index =
            (0..frame.components.len()).find(|&i| frame.components[i].id == pair[0] && !used(i));
        let Some(index) = index else {
            return Err(segment.bad(
                "components of the frame, each once",
                format!("component {}", pair[0]),
            ));
        };
        let (dc, ac) = (pair[1] >> 4, pair[1] & 15);
        if dc > 3 || ac > 3 {
            return Err(segment.bad("Huffman table numbers of 0 to 3", format!("{dc} and {ac}")));
        }
        parts.push((index, dc, ac));
    }
    let header = ScanHeader {
        parts,
        first: tail[0],
        last: tail[1],
        high: tail[2] >> 4,
        low: tail[2] & 15,
    };
    let blocks: usize = header
        .parts
        .iter()
        .map(|&(i, _, _)| frame.components[i].h * frame.components[i].v)
        .sum();
    if count > 1 && blocks > 10 {
        return Err(segment.bad("at most 10 blocks in a coding unit", blocks));
    }
    Ok(header)
}
