//! Scans of progressive frames: coefficients arrive in bands of zigzag positions and bit
//! by bit, so they are kept until the last scan and transformed then.

use super::bits::BitReader;
use super::error::JpegError;
use super::frame::{BlockDecoder, Component, Fault, Frame};
use super::huffman::HuffTable;
use super::idct;
use super::markers::{ScanHeader, Segment, ZIGZAG};
use super::sequential::difference;
use super::upsample::Plane;

/// The coefficients of a component, and how precisely each is known.
pub struct Store {
    /// Block by block; a flat vector, since the system then hands out zeros at no cost.
    coefficients: Vec<i16>,
    blocks_x: usize,
    blocks_y: usize,
    /// Per zigzag position: the bits still missing, none where nothing was sent.
    missing: [Option<u8>; 64],
}

impl Store {
    /// An empty store for `component`.
    pub fn new(component: &Component) -> Self {
        Self {
            coefficients: vec![0; component.blocks() * 64],
            blocks_x: component.blocks_x,
            blocks_y: component.blocks_y,
            missing: [None; 64],
        }
    }

    /// The block at column `x` and row `y`, if it is within the component.
    #[inline]
    fn block_mut(&mut self, x: usize, y: usize) -> Option<&mut [i16; 64]> {
        if x >= self.blocks_x || y >= self.blocks_y {
            return None;
        }
        let (blocks, _) = self.coefficients.as_chunks_mut::<64>();
        blocks.get_mut(y * self.blocks_x + x)
    }

    /// Whether all bits of all coefficients have arrived.
    pub fn complete(&self) -> bool {
        self.missing.iter().all(|&m| m == Some(0))
    }

    /// Whether all bits of the ten lowest frequencies have arrived. Where they have not,
    /// libjpeg-turbo guesses them from the neighbouring blocks, which is not done here.
    pub fn low_complete(&self) -> bool {
        self.missing[..10].iter().all(|&m| m == Some(0))
    }

    /// The samples of the component.
    pub fn samples(&self, component: &Component) -> Plane {
        let quant = &component.quant.unwrap_or([1; 64]);
        let mut plane = Plane::new(component);
        let stride = plane.stride;
        let (blocks, _) = self.coefficients.as_chunks::<64>();
        for (i, block) in blocks.iter().enumerate() {
            if let Some(out) = plane.block_mut(i % self.blocks_x, i / self.blocks_x) {
                idct::block(block, quant, out, stride);
            }
        }
        plane
    }
}

/// Checks that a scan continues its coefficients where earlier scans left them, and notes
/// what it brings.
pub fn note_scan(
    header: &ScanHeader,
    segment: &Segment<'_>,
    frame: &Frame,
    stores: &mut [Store],
) -> Result<(), JpegError> {
    let &ScanHeader {
        first,
        last,
        high,
        low,
        ..
    } = header;
    let dc = first == 0;
    let band = if dc {
        last == 0
    } else {
        first <= last && last <= 63 && header.parts.len() == 1
    };
    if !band || low > 13 || (high != 0 && low != high - 1) {
        return Err(segment.bad(
            "a DC scan or an AC scan of one component, of new bits or of the next lower bit",
            format!(
                "positions {first} to {last} of {} components, bits {high} to {low}",
                header.parts.len()
            ),
        ));
    }
    for &(index, _, _) in &header.parts {
        let store = &mut stores[index];
        let id = frame.components[index].id;
        if !dc && store.missing[0].is_none() {
            return Err(segment.bad(
                format!("a DC scan of component {id} before its AC scans"),
                "none",
            ));
        }
        for position in usize::from(first)..=usize::from(last) {
            let known = store.missing[position];
            if known.unwrap_or(0) != high || (high == 0 && known.is_some()) {
                return Err(segment.bad(
                    "every bit of a coefficient once and in order",
                    format!(
                        "bit {low} of position {position} of component {id} after {}",
                        known.map_or("nothing".to_owned(), |bit| format!("bit {bit}")),
                    ),
                ));
            }
            store.missing[position] = Some(low);
        }
    }
    Ok(())
}

/// Decodes the first scan of DC coefficients.
pub struct DcFirst<'a> {
    /// Per component of the scan: index in the frame, table, previous block's coefficient.
    pub parts: Vec<(usize, &'a HuffTable, i32)>,
    /// The coefficients of all components.
    pub stores: &'a mut [Store],
    /// Bit position of the scan.
    pub low: u8,
}

impl BlockDecoder for DcFirst<'_> {
    fn block(
        &mut self,
        reader: &mut BitReader<'_>,
        part: usize,
        x: usize,
        y: usize,
    ) -> Result<(), Fault> {
        let (index, table, previous) = &mut self.parts[part];
        *previous = previous.wrapping_add(difference(reader, table)?);
        if let Some(block) = self.stores[*index].block_mut(x, y) {
            block[0] = (*previous << self.low) as i16;
        }
        Ok(())
    }

    fn restart(&mut self) {
        for (_, _, previous) in &mut self.parts {
            *previous = 0;
        }
    }
}

/// Decodes one more bit of DC coefficients.
pub struct DcRefine<'a> {
    /// Per component of the scan: index in the frame.
    pub parts: Vec<usize>,
    /// The coefficients of all components.
    pub stores: &'a mut [Store],
    /// Bit position of the scan.
    pub low: u8,
}

impl BlockDecoder for DcRefine<'_> {
    fn block(
        &mut self,
        reader: &mut BitReader<'_>,
        part: usize,
        x: usize,
        y: usize,
    ) -> Result<(), Fault> {
        let bit = reader.take(1) as i16;
        if let Some(block) = self.stores[self.parts[part]].block_mut(x, y) {
            block[0] |= bit << self.low;
        }
        Ok(())
    }

    fn restart(&mut self) {}
}

/// Decodes a band of AC coefficients of one component: their first bits or one more bit.
pub struct Ac<'a> {
    /// The component's coefficients.
    pub store: &'a mut Store,
    /// The Huffman table.
    pub table: &'a HuffTable,
    /// First zigzag position.
    pub first: usize,
    /// Last zigzag position.
    pub last: usize,
    /// Bit position of the scan.
    pub low: u8,
    /// Whether earlier scans brought higher bits.
    pub refine: bool,
    /// Blocks to come that hold no new coefficient.
    pub empty_run: u32,
}

impl BlockDecoder for Ac<'_> {
    #[inline]
    fn block(
        &mut self,
        reader: &mut BitReader<'_>,
        _part: usize,
        x: usize,
        y: usize,
    ) -> Result<(), Fault> {
        if self.refine {
            return self.refine_block(reader, x, y);
        }
        if self.empty_run > 0 {
            self.empty_run -= 1;
            return Ok(());
        }
        self.first_block(reader, x, y)
    }

    fn restart(&mut self) {
        self.empty_run = 0;
    }
}

impl Ac<'_> {
    /// The length of a run of empty blocks of class `class`, this block included.
    #[inline]
    fn run_length(class: u32, reader: &mut BitReader<'_>) -> u32 {
        (1 << class) + reader.take(class)
    }

    /// Decodes the first bits of a block's coefficients.
    fn first_block(&mut self, reader: &mut BitReader<'_>, x: usize, y: usize) -> Result<(), Fault> {
        let Some(block) = self.store.block_mut(x, y) else {
            return Ok(());
        };
        let mut k = self.first;
        while k <= self.last {
            let symbol = self.table.symbol(reader)?;
            let (run, size) = (usize::from(symbol >> 4), u32::from(symbol & 15));
            if size == 0 {
                if run != 15 {
                    self.empty_run = Self::run_length(run as u32, reader) - 1;
                    break;
                }
                k += 16;
                continue;
            }
            k += run;
            if k > self.last {
                return Err(Fault::Place);
            }
            reader.refill();
            let value = reader.take_signed(size) << self.low;
            block[usize::from(ZIGZAG[k] & 63)] = value as i16;
            k += 1;
        }
        Ok(())
    }

    /// Decodes one more bit of a block's coefficients: a correction bit for each that is
    /// not zero yet, and new ones of that bit between them.
    fn refine_block(
        &mut self,
        reader: &mut BitReader<'_>,
        x: usize,
        y: usize,
    ) -> Result<(), Fault> {
        let Some(block) = self.store.block_mut(x, y) else {
            return Ok(());
        };
        let unit = 1_i16 << self.low;
        let mut k = self.first;
        while self.empty_run == 0 && k <= self.last {
            let symbol = self.table.symbol(reader)?;
            let (run, size) = (usize::from(symbol >> 4), symbol & 15);
            let fresh = match size {
                0 if run != 15 => {
                    self.empty_run = Self::run_length(run as u32, reader);
                    break;
                }
                0 => None,
                1 => Some(if reader.take(1) == 1 { unit } else { -unit }),
                _ => return Err(Fault::Refinement),
            };
            k = correct(block, k, self.last, run, unit, reader);
            if let Some(value) = fresh {
                if k > self.last {
                    return Err(Fault::Place);
                }
                block[usize::from(ZIGZAG[k] & 63)] = value;
            }
            k += 1;
        }
        if self.empty_run > 0 {
            correct(block, k, self.last, 64, unit, reader);
            self.empty_run -= 1;
        }
        Ok(())
    }
}

/// Reads correction bits for the coefficients from `k` to `last` that are not zero, until
/// `zeros` that are have been passed; returns the position of the next zero after those,
/// or one past `last`.
#[inline]
fn correct(
    block: &mut [i16; 64],
    mut k: usize,
    last: usize,
    mut zeros: usize,
    unit: i16,
    reader: &mut BitReader<'_>,
) -> usize {
    while k <= last {
        let value = &mut block[usize::from(ZIGZAG[k & 63] & 63)];
        if *value == 0 {
            if zeros == 0 {
                break;
            }
            zeros -= 1;
        } else if reader.take(1) == 1 && *value & unit == 0 {
            *value = value.wrapping_add(if *value >= 0 { unit } else { -unit });
        }
        k += 1;
    }
    k
}
