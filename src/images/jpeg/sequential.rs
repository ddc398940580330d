//! Scans of sequential frames: every block is complete in one scan, so it is transformed
//! into samples as soon as it is decoded.

use super::bits::BitReader;
use super::frame::{BlockDecoder, Fault};
use super::huffman::HuffTable;
use super::idct;
use super::markers::ZIGZAG;
use super::upsample::Plane;

/// What a sequential scan needs for one of its components.
pub struct Part<'a> {
    /// Table of the DC coefficients.
    pub dc: &'a HuffTable,
    /// Table of the AC coefficients.
    pub ac: &'a HuffTable,
    /// The quantisation table.
    pub quant: [i16; 64],
    /// The component's index in the frame.
    pub index: usize,
    /// The previous block's DC coefficient.
    pub previous: i32,
}

/// Decodes a sequential scan into the planes of its components.
pub struct Sequential<'a> {
    /// The scan's components.
    pub parts: Vec<Part<'a>>,
    /// The planes of all components of the frame.
    pub planes: &'a mut [Plane],
}

impl BlockDecoder for Sequential<'_> {
    #[inline]
    fn block(
        &mut self,
        reader: &mut BitReader<'_>,
        part: usize,
        x: usize,
        y: usize,
    ) -> Result<(), Fault> {
        let part = &mut self.parts[part];
        let mut coefficients = [0; 64];
        let flat = decode(reader, part, &mut coefficients)?;
        let plane = &mut self.planes[part.index];
        let stride = plane.stride;
        if let Some(out) = plane.block_mut(x, y) {
            if flat {
                idct::flat_block(coefficients[0], part.quant[0], out, stride);
            } else {
                idct::block(&coefficients, &part.quant, out, stride);
            }
        }
        Ok(())
    }

    fn restart(&mut self) {
        for part in &mut self.parts {
            part.previous = 0;
        }
    }
}

/// Decodes a block's coefficients, row by row; returns whether there is only the DC one.
#[inline]
fn decode(
    reader: &mut BitReader<'_>,
    part: &mut Part<'_>,
    out: &mut [i16; 64],
) -> Result<bool, Fault> {
    part.previous = part.previous.wrapping_add(difference(reader, part.dc)?);
    out[0] = part.previous as i16;
    let mut flat = true;
    let mut k = 1;
    while k < 64 {
        reader.refill();
        let entry = part.ac.entry(reader);
        let value = if entry.full_len != 0 {
            reader.skip(u32::from(entry.full_len));
            k += usize::from(entry.symbol >> 4);
            entry.value
        } else {
            let symbol = part.ac.symbol_of(entry, reader)?;
            let (run, size) = (usize::from(symbol >> 4), u32::from(symbol & 15));
            if size == 0 {
                if run != 15 {
                    break;
                }
                k += 16;
                continue;
            }
            k += run;
            reader.take_signed(size) as i16
        };
        let Some(&place) = ZIGZAG.get(k) else {
            return Err(Fault::Place);
        };
        out[usize::from(place & 63)] = value;
        flat = false;
        k += 1;
    }
    Ok(flat)
}

/// The difference of a DC coefficient to the previous block's.
#[inline]
pub fn difference(reader: &mut BitReader<'_>, table: &HuffTable) -> Result<i32, Fault> {
    reader.refill();
    let entry = table.entry(reader);
    if entry.full_len != 0 {
        reader.skip(u32::from(entry.full_len));
        return Ok(i32::from(entry.value));
    }
    match u32::from(table.symbol_of(entry, reader)?) {
        0 => Ok(0),
        size => Ok(reader.take_signed(size.min(15))),
    }
}
