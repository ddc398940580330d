//! Bit reader over the entropy-coded bytes of a scan: takes away the stuffed zero bytes,
//! stops at a marker or at the end of the file, and from there on supplies zero bits while
//! counting them, so that a caller can tell afterwards that it read too far.

use super::markers::find_marker;

/// Reads bits, most significant first.
pub struct BitReader<'a> {
    bytes: &'a [u8],
    /// Next byte to load.
    pos: usize,
    /// Loaded bits, left aligned; those after the first `have` are zero.
    acc: u64,
    /// How many bits `acc` holds, made-up ones included.
    have: u32,
    /// How many zero bits were made up after the end of the data.
    made_up: u32,
    /// Whether `pos` stands at a marker or at the end of the file.
    ended: bool,
}

impl<'a> BitReader<'a> {
    /// A reader of the data that start at byte `pos` of the file.
    pub fn new(bytes: &'a [u8], pos: usize) -> Self {
        Self {
            bytes,
            pos,
            acc: 0,
            have: 0,
            made_up: 0,
            ended: false,
        }
    }

    /// The byte up to which the file has been loaded; no marker lies before it.
    pub fn position(&self) -> usize {
        self.pos
    }

    /// Whether bits were used that the data do not hold.
    #[inline]
    pub fn overrun(&self) -> bool {
        self.have < self.made_up
    }

    /// Makes at least 32 bits available.
    #[inline]
    pub fn refill(&mut self) {
        if self.have >= 32 {
            return;
        }
        if let Some(four) = self
            .bytes
            .get(self.pos..)
            .and_then(|b| b.first_chunk::<4>())
        {
            let word = u32::from_be_bytes(*four);
            // A byte of `word` is FF where the same byte of `!word` is zero.
            let inverse = !word;
            if inverse.wrapping_sub(0x0101_0101) & word & 0x8080_8080 == 0 {
                self.acc |= u64::from(word) << (32 - self.have);
                self.have += 32;
                self.pos += 4;
                return;
            }
        }
        self.refill_bytewise();
    }

    /// Loads single bytes, minding stuffing and markers.
    #[cold]
    #[inline(never)]
    fn refill_bytewise(&mut self) {
        while self.have <= 56 {
            let Some(byte) = self.next_byte() else {
                self.made_up = self.made_up.saturating_add(64 - self.have);
                self.have = 64;
                return;
            };
            self.acc |= u64::from(byte) << (56 - self.have);
            self.have += 8;
        }
    }

    /// The next data byte; none at a marker or at the end of the file.
    fn next_byte(&mut self) -> Option<u8> {
        if self.ended {
            return None;
        }
        let Some(&byte) = self.bytes.get(self.pos) else {
            self.ended = true;
            return None;
        };
        if byte != 0xFF {
            self.pos += 1;
            return Some(byte);
        }
        let fill = self.bytes[self.pos..]
            .iter()
            .take_while(|&&b| b == 0xFF)
            .count();
        if self.bytes.get(self.pos + fill) == Some(&0) {
            self.pos += fill + 1;
            return Some(0xFF);
        }
        self.ended = true;
        None
    }

    /// The next `n` bits (1 to 32) without using them up.
    #[inline]
    pub fn peek(&self, n: u32) -> u32 {
        (self.acc >> (64 - n)) as u32
    }

    /// Uses up `n` bits that a refill made available.
    #[inline]
    pub fn skip(&mut self, n: u32) {
        self.acc <<= n;
        self.have -= n;
    }

    /// The next `n` bits (0 to 16) as a number.
    #[inline]
    pub fn take(&mut self, n: u32) -> u32 {
        if n == 0 {
            return 0;
        }
        self.refill();
        let value = self.peek(n);
        self.skip(n);
        value
    }

    /// The signed value of a coefficient of category `size` (1 to 16), whose bits a refill
    /// made available: a leading 0 marks a negative one.
    #[inline]
    pub fn take_signed(&mut self, size: u32) -> i32 {
        let bits = self.peek(size) as i32;
        self.skip(size);
        signed(bits, size)
    }

    /// Throws away the bits left over and passes the restart marker number `expected`
    /// (0 to 7). The error is the marker found instead, if any.
    pub fn pass_restart(&mut self, expected: u8) -> Result<(), Option<u8>> {
        match find_marker(self.bytes, self.pos) {
            Some((marker, after)) if marker == 0xD0 + expected => {
                *self = Self::new(self.bytes, after);
                Ok(())
            }
            other => Err(other.map(|(marker, _)| marker)),
        }
    }
}

/// The signed value coded by the low `size` bits.
#[inline]
pub fn signed(bits: i32, size: u32) -> i32 {
    if bits < 1 << (size - 1) {
        bits + 1 - (1 << size)
    } else {
        bits
    }
}
