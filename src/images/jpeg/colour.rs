//! Which colours the components code, and their conversion to RGB: for YCbCr to the bit as
//! libjpeg-turbo (16-bit fixed point), for CMYK and YCCK as Pillow, which takes the inks of
//! every JPEG for inverted ones and multiplies them out.

use super::frame::Frame;
use super::markers::Hints;

/// What the components of a frame code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coding {
    /// Grey.
    Grey,
    /// Red, green, blue.
    Rgb,
    /// Luma and two colour differences.
    Ycc,
    /// Four inks.
    Cmyk,
    /// Four inks, the first three as luma and colour differences.
    Ycck,
}

impl Coding {
    /// The coding that libjpeg takes a frame to have.
    pub fn guess(frame: &Frame, hints: &Hints) -> Self {
        let ids: Vec<u8> = frame.components.iter().map(|c| c.id).collect();
        match (ids.len(), hints.adobe) {
            (1, _) => Self::Grey,
            (4, None | Some(0)) => Self::Cmyk,
            (4, _) => Self::Ycck,
            _ if hints.jfif => Self::Ycc,
            (_, Some(0)) => Self::Rgb,
            (_, None) if ids == b"RGB" => Self::Rgb,
            _ => Self::Ycc,
        }
    }

    /// Writes a row of RGB pixels from the rows of the components.
    pub fn row(self, rows: &[&[u8]], out: &mut [u8]) {
        let (out, _) = out.as_chunks_mut::<3>();
        match (self, rows) {
            (Self::Grey, [grey, ..]) => {
                for (pixel, &value) in out.iter_mut().zip(*grey) {
                    *pixel = [value; 3];
                }
            }
            (Self::Rgb, [r, g, b, ..]) => {
                for (pixel, ((&r, &g), &b)) in out.iter_mut().zip(r.iter().zip(*g).zip(*b)) {
                    *pixel = [r, g, b];
                }
            }
            (Self::Ycc, [y, cb, cr, ..]) => {
                for (pixel, ((&y, &cb), &cr)) in out.iter_mut().zip(y.iter().zip(*cb).zip(*cr)) {
                    *pixel = rgb_of_ycc(y, cb, cr);
                }
            }
            (Self::Cmyk, [c, m, y, k, ..]) => {
                let inks = c.iter().zip(*m).zip(*y).zip(*k);
                for (pixel, (((&c, &m), &y), &k)) in out.iter_mut().zip(inks) {
                    *pixel = rgb_of_inks([!c, !m, !y], !k);
                }
            }
            (Self::Ycck, [y, cb, cr, k, ..]) => {
                let parts = y.iter().zip(*cb).zip(*cr).zip(*k);
                for (pixel, (((&y, &cb), &cr), &k)) in out.iter_mut().zip(parts) {
                    // libjpeg turns YCC into inks by inverting RGB, Pillow inverts again.
                    *pixel = rgb_of_inks(rgb_of_ycc(y, cb, cr), !k);
                }
            }
            // `rows` has as many rows as the guessed coding has components.
            _ => {}
        }
    }
}

/// `x` as a 16-bit fixed-point number.
const fn fixed(x: f64) -> i32 {
    (x * 65_536.0 + 0.5) as i32
}

/// The RGB pixel of luma and colour differences.
#[inline(always)]
fn rgb_of_ycc(y: u8, cb: u8, cr: u8) -> [u8; 3] {
    const HALF: i32 = 1 << 15;
    let (y, cb, cr) = (i32::from(y), i32::from(cb) - 128, i32::from(cr) - 128);
    let clip = |x: i32| x.clamp(0, 255) as u8;
    [
        clip(y + ((fixed(1.402) * cr + HALF) >> 16)),
        clip(y + ((-fixed(0.344_14) * cb - fixed(0.714_14) * cr + HALF) >> 16)),
        clip(y + ((fixed(1.772) * cb + HALF) >> 16)),
    ]
}

/// The RGB pixel of three inks and black.
#[inline(always)]
fn rgb_of_inks(inks: [u8; 3], black: u8) -> [u8; 3] {
    let light = u32::from(255 - black);
    inks.map(|ink| {
        let product = u32::from(ink) * light + 128;
        // The product is at most `light * 255`, so the quotient is at most `light`.
        (light - ((product + (product >> 8)) >> 8)) as u8
    })
}
