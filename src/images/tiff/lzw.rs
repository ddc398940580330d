//! TIFF's LZW: codes of 9 to 12 bits, most significant bit first, each width changed one code early.

const CLEAR: usize = 256;
const END: usize = 257;
const FIRST: usize = 258;
const LAST: usize = 4096;

/// Decompresses `data` to at most `limit` bytes.
pub fn decompress(data: &[u8], limit: usize) -> Result<Vec<u8>, String> {
    if data.first() == Some(&0) && data.get(1).is_some_and(|byte| byte & 1 == 1) {
        return Err("LZW data of the old, reversed kind".to_owned());
    }
    let mut out: Vec<u8> = Vec::new();
    // Where each code's string lies in the output: the string of the code before it and one byte more.
    let mut strings: Vec<(usize, usize)> = vec![(0, 0); FIRST];
    let mut previous: Option<(usize, usize)> = None;
    let (mut bits, mut held, mut width) = (0_u32, 0_u32, 9);
    let mut bytes = data.iter();
    while out.len() < limit {
        while held < width {
            let Some(&byte) = bytes.next() else {
                return Ok(out);
            };
            bits = bits << 8 | u32::from(byte);
            held += 8;
        }
        held -= width;
        let code = (bits >> held) as usize & ((1 << width) - 1);
        match code {
            END => break,
            CLEAR => {
                strings.truncate(FIRST);
                previous = None;
                width = 9;
                continue;
            }
            _ => {}
        }
        let start = out.len();
        // A string may overlap with what it adds (the code that is just being defined).
        let length = match previous {
            _ if code < CLEAR => {
                out.push(code as u8);
                1
            }
            Some((at, length)) if code == strings.len() => {
                copy(&mut out, at, length + 1);
                length + 1
            }
            Some(_) if code < strings.len() => {
                let (at, length) = strings[code];
                copy(&mut out, at, length);
                length
            }
            _ => return Err(format!("LZW code {code} is used before it is defined")),
        };
        if let Some((at, length)) = previous
            && strings.len() < LAST
        {
            strings.push((at, length + 1));
        }
        previous = Some((start, length));
        width = match strings.len() + 1 {
            0..512 => 9,
            512..1024 => 10,
            1024..2048 => 11,
            _ => 12,
        };
    }
    out.truncate(limit);
    Ok(out)
}

/// Appends `length` bytes of the output from `at` on, byte by byte since they may run into the new ones.
fn copy(out: &mut Vec<u8>, at: usize, length: usize) {
    for i in at..at + length {
        out.push(out[i]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn example_of_the_specification_decompresses() {
        // TIFF 6.0, section 13: 7 7 7 8 8 7 7 6 6 as codes 256 7 258 8 8 258 6 6 257.
        let codes = [256_u32, 7, 258, 8, 8, 258, 6, 6, 257];
        let text: String = codes
            .iter()
            .map(|code| format!("{code:09b}"))
            .collect::<String>()
            + "0000000";
        let bytes: Vec<u8> = text.as_bytes().chunks_exact(8).map(byte).collect();
        assert_eq!(
            decompress(&bytes, 100).unwrap(),
            [7, 7, 7, 8, 8, 7, 7, 6, 6]
        );
        assert_eq!(decompress(&bytes, 4).unwrap(), [7, 7, 7, 8]);
    }

    fn byte(bits: &[u8]) -> u8 {
        bits.iter().fold(0, |value, bit| value << 1 | (bit - b'0'))
    }

    #[test]
    fn undefined_codes_are_errors() {
        assert!(decompress(&[0xFF; 10], 100).is_err());
    }
}
