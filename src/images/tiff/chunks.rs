//! The samples of a TIFF image: strips or tiles unpacked, differences summed up, 8 bits for each sample.

use std::io::Read;

use super::directory::File;
use super::layout::{Colour, Compression, Layout};
use super::lzw;
use crate::images::fault::Fault;

/// All samples, interleaved, of 8 bits: 16-bit samples keep their high byte; smaller ones are scaled to 0..255,
/// except for palette indices.
pub fn read(file: File, layout: &Layout) -> Result<Vec<u8>, Fault> {
    let (width, samples) = (layout.width, layout.samples);
    let mut out = vec![0; width * layout.height * samples];
    let chunks = &layout.chunks;
    let across = width.div_ceil(chunks.width);
    let down = layout.height.div_ceil(chunks.height);
    let step = layout.interleaved();
    for (index, &(at, length)) in chunks.places.iter().enumerate() {
        let plane = index / (across * down);
        let (left, top) = (
            index % across * chunks.width,
            index / across % down * chunks.height,
        );
        let rows = chunks.height.min(layout.height - top);
        let stored_rows = if chunks.strips { rows } else { chunks.height };
        let row_bytes = (chunks.width * step * layout.bits).div_ceil(8);
        let raw = file.slice(at, length).map_err(Fault::Corrupt)?;
        let mut data = unpack(raw, row_bytes * stored_rows, layout)
            .map_err(|reason| Fault::Corrupt(format!("strip or tile {index}: {reason}")))?;
        let columns = chunks.width.min(width - left);
        for (y, row) in data.chunks_exact_mut(row_bytes).take(rows).enumerate() {
            if layout.differences {
                sum_up(row, step, layout.bits, file.big_endian);
            }
            let pixels = &mut out[((top + y) * width + left) * samples..][..columns * samples];
            for (x, pixel) in pixels.chunks_exact_mut(samples).enumerate() {
                for c in 0..step {
                    pixel[plane + c] = sample(row, x * step + c, layout, file.big_endian);
                }
            }
        }
    }
    Ok(out)
}

/// The sample of a row with number `i`, as 8 bits.
fn sample(row: &[u8], i: usize, layout: &Layout, big_endian: bool) -> u8 {
    match layout.bits {
        8 => row[i],
        16 => row[2 * i + usize::from(!big_endian)],
        bits => {
            let at = i * bits;
            let most = (1_u8 << bits) - 1;
            let value = row[at / 8] >> (8 - bits - at % 8) & most;
            if layout.colour == Colour::Palette {
                value
            } else {
                value * (255 / most)
            }
        }
    }
}

/// Undoes the horizontal predictor.
fn sum_up(row: &mut [u8], step: usize, bits: usize, big_endian: bool) {
    if bits == 8 {
        for i in step..row.len() {
            row[i] = row[i].wrapping_add(row[i - step]);
        }
        return;
    }
    let swapped = big_endian != cfg!(target_endian = "big");
    let native = |word: u16| if swapped { word.swap_bytes() } else { word };
    let words = row.as_chunks_mut::<2>().0;
    for i in step..words.len() {
        let [word, before] =
            [words[i], words[i - step]].map(|word| native(u16::from_ne_bytes(word)));
        words[i] = native(word.wrapping_add(before)).to_ne_bytes();
    }
}

/// Unpacks one strip or tile of `size` bytes.
fn unpack(raw: &[u8], size: usize, layout: &Layout) -> Result<Vec<u8>, String> {
    let reversed: Vec<u8>;
    let raw = if layout.reversed {
        reversed = raw.iter().map(|byte| byte.reverse_bits()).collect();
        &reversed
    } else {
        raw
    };
    let data = match layout.compression {
        Compression::None => raw[..size.min(raw.len())].to_vec(),
        Compression::Lzw => lzw::decompress(raw, size)?,
        Compression::PackBits => unpack_bits(raw, size),
        Compression::Deflate => {
            let mut data = Vec::new();
            let stream = flate2::read::ZlibDecoder::new(raw);
            stream
                .take(size as u64)
                .read_to_end(&mut data)
                .map_err(|error| error.to_string())?;
            data
        }
    };
    if data.len() < size {
        return Err(format!(
            "{size} bytes of samples are needed, {} are there",
            data.len()
        ));
    }
    Ok(data)
}

/// PackBits: a count, then that many bytes or one byte to repeat.
fn unpack_bits(mut raw: &[u8], size: usize) -> Vec<u8> {
    let mut out = Vec::new();
    while let Some((&head, rest)) = raw.split_first()
        && out.len() < size
    {
        raw = rest;
        match head {
            0..128 => {
                let count = (usize::from(head) + 1).min(raw.len());
                out.extend_from_slice(&raw[..count]);
                raw = &raw[count..];
            }
            128 => {}
            129.. => {
                let Some((&byte, rest)) = raw.split_first() else {
                    break;
                };
                out.resize(out.len() + 257 - usize::from(head), byte);
                raw = rest;
            }
        }
    }
    out.truncate(size);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn example_of_the_specification_unpacks() {
        let packed = [
            0xFE, 0xAA, 0x02, 0x80, 0x00, 0x2A, 0xFD, 0xAA, 0x03, 0x80, 0x00, 0x2A, 0x22, 0xF7,
            0xAA,
        ];
        let mut expected = vec![
            0xAA, 0xAA, 0xAA, 0x80, 0x00, 0x2A, 0xAA, 0xAA, 0xAA, 0xAA, 0x80, 0x00, 0x2A, 0x22,
        ];
        expected.extend([0xAA; 10]);
        assert_eq!(unpack_bits(&packed, 24), expected);
        assert_eq!(unpack_bits(&packed[..4], 24), [0xAA, 0xAA, 0xAA, 0x80]);
    }

    #[test]
    fn differences_are_summed_in_the_file_s_byte_order() {
        let mut row = [1, 0, 0xFF, 0x01];
        sum_up(&mut row, 1, 16, false);
        assert_eq!(row, [1, 0, 0x00, 0x02]);
        let mut row = [0, 1, 0x01, 0xFF];
        sum_up(&mut row, 1, 16, true);
        assert_eq!(row, [0, 1, 0x02, 0x00]);
    }
}
