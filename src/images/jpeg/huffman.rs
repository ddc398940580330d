//! Huffman tables: canonical codes from a DHT segment, looked up nine bits at a time.
//! Where code and coefficient together fit into the nine bits, the table also holds the
//! coefficient, so that most coefficients cost a single look-up.

use super::bits::{BitReader, signed};

/// Bits looked up at once.
const LOOK: u32 = 9;

/// A look-up entry: the code's length (0 where the code is longer than [`LOOK`]), the
/// length with its coefficient (0 where that does not fit), the symbol, the coefficient.
#[derive(Clone, Copy, Default)]
pub struct Entry {
    code_len: u8,
    /// Bits of code and coefficient; 0 where the coefficient is not included.
    pub full_len: u8,
    /// Zero run in the high four bits, category in the low four.
    pub symbol: u8,
    /// The coefficient, if included.
    pub value: i16,
}

/// One decoding table.
#[derive(Clone)]
pub struct HuffTable {
    look: [Entry; 1 << LOOK],
    /// For every code length: one past its last code, left aligned to 16 bits.
    limit: [u32; 17],
    /// For every code length: index of its first symbol minus its first code.
    offset: [i32; 17],
    symbols: Vec<u8>,
}

/// A bit pattern that is no code of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoSuchCode;

impl HuffTable {
    /// The table of `counts[i]` codes of `i + 1` bits for `symbols`, in order; none where
    /// the codes do not fit into their lengths (a code of only ones does not fit).
    pub fn new(counts: &[u8; 16], symbols: &[u8]) -> Option<Self> {
        let mut table = Self {
            look: [Entry::default(); 1 << LOOK],
            limit: [0; 17],
            offset: [0; 17],
            symbols: symbols.to_vec(),
        };
        let (mut code, mut index) = (0_u32, 0_usize);
        for len in 1..=16_u32 {
            let count = usize::from(counts[len as usize - 1]);
            table.offset[len as usize] = index as i32 - code as i32;
            for &symbol in symbols.get(index..index + count)? {
                if len <= LOOK {
                    table.enter(code, len, symbol);
                }
                code += 1;
            }
            index += count;
            if count > 0 && code >= 1 << len {
                return None;
            }
            table.limit[len as usize] = code << (16 - len);
            code <<= 1;
        }
        (index == symbols.len()).then_some(table)
    }

    /// Fills the look-up entries that start with `code`.
    fn enter(&mut self, code: u32, len: u32, symbol: u8) {
        let rest = LOOK - len;
        let size = u32::from(symbol & 15);
        let first = (code << rest) as usize;
        let Some(entries) = self.look.get_mut(first..first + (1 << rest)) else {
            return;
        };
        for (tail, entry) in entries.iter_mut().enumerate() {
            *entry = Entry {
                code_len: len as u8,
                symbol,
                ..Entry::default()
            };
            if size != 0 && size <= rest {
                entry.full_len = (len + size) as u8;
                entry.value = signed((tail >> (rest - size)) as i32, size) as i16;
            }
        }
    }

    /// Whether all symbols are categories of at most 15 bits, as for DC coefficients.
    pub fn fits_dc(&self) -> bool {
        self.symbols.iter().all(|&s| s <= 15)
    }

    /// The entry for the coming bits, which a refill made available.
    #[inline]
    pub fn entry(&self, reader: &BitReader<'_>) -> Entry {
        self.look[reader.peek(LOOK) as usize & ((1 << LOOK) - 1)]
    }

    /// Uses up the code of `entry` (or a longer one) and returns its symbol.
    #[inline]
    pub fn symbol_of(&self, entry: Entry, reader: &mut BitReader<'_>) -> Result<u8, NoSuchCode> {
        if entry.code_len != 0 {
            reader.skip(u32::from(entry.code_len));
            return Ok(entry.symbol);
        }
        self.long_symbol(reader)
    }

    /// A symbol whose code is longer than the look-up.
    #[inline(never)]
    fn long_symbol(&self, reader: &mut BitReader<'_>) -> Result<u8, NoSuchCode> {
        let bits = reader.peek(16);
        for len in LOOK + 1..=16 {
            if bits < self.limit[len as usize] {
                let code = (bits >> (16 - len)) as i32;
                let index = code + self.offset[len as usize];
                let index = usize::try_from(index).map_err(|_| NoSuchCode)?;
                let &symbol = self.symbols.get(index).ok_or(NoSuchCode)?;
                reader.skip(len);
                return Ok(symbol);
            }
        }
        Err(NoSuchCode)
    }

    /// The next symbol; afterwards at least 16 bits are available.
    #[inline]
    pub fn symbol(&self, reader: &mut BitReader<'_>) -> Result<u8, NoSuchCode> {
        reader.refill();
        self.symbol_of(self.entry(reader), reader)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_all_lengths_are_found() {
        // One code of each length: 0, 10, 110, ...; the last one ends in a zero.
        let symbols: Vec<u8> = (0..16).map(|i| i << 4).collect();
        let table = HuffTable::new(&[1; 16], &symbols).expect("the codes fit");
        for len in 1..=16_u32 {
            let code = (0xFFFF_u32 << (17 - len)) as u16;
            let [high, low] = code.to_be_bytes();
            let bytes: &[u8] = match (high, low) {
                (0xFF, 0xFF) => &[0xFF, 0, 0xFF, 0],
                (0xFF, low) => &[0xFF, 0, low, 0],
                (high, low) => &[high, low, 0, 0],
            };
            let mut reader = BitReader::new(bytes, 0);
            assert_eq!(table.symbol(&mut reader), Ok((len as u8 - 1) << 4), "{len}");
        }
        let mut reader = BitReader::new(&[0xFF, 0, 0xFF, 0], 0);
        assert_eq!(table.symbol(&mut reader), Err(NoSuchCode));
    }

    #[test]
    fn impossible_counts_are_refused() {
        let counts = |first: u8, second: u8| {
            let mut counts = [0; 16];
            counts[..2].copy_from_slice(&[first, second]);
            counts
        };
        assert!(HuffTable::new(&counts(1, 1), &[1, 2]).is_some());
        assert!(HuffTable::new(&counts(2, 0), &[1, 2]).is_none());
        assert!(HuffTable::new(&counts(1, 2), &[1, 2, 3]).is_none());
        assert!(HuffTable::new(&counts(0, 2), &[1]).is_none());
    }
}
