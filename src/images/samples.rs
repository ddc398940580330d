//! From decoded samples to RGB: the rules for grey, alpha, 16 bits and CMYK.

/// What the samples of a pixel mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Channels {
    /// One grey value.
    Grey,
    /// Grey and alpha.
    GreyAlpha,
    /// Red, green, blue.
    Rgb,
    /// Red, green, blue, alpha.
    Rgba,
    /// Cyan, magenta, yellow, black: 255 is full ink.
    Cmyk,
}

impl Channels {
    /// Samples per pixel.
    pub fn count(self) -> usize {
        match self {
            Self::Grey => 1,
            Self::GreyAlpha => 2,
            Self::Rgb => 3,
            Self::Rgba | Self::Cmyk => 4,
        }
    }
}

/// 8-bit `samples` as RGB: grey is replicated, alpha is composited over white, inks become light as Pillow does it.
pub fn to_rgb(samples: Vec<u8>, channels: Channels) -> Vec<u8> {
    match channels {
        Channels::Rgb => samples,
        Channels::Grey => samples.iter().flat_map(|&grey| [grey; 3]).collect(),
        Channels::GreyAlpha => samples
            .as_chunks()
            .0
            .iter()
            .flat_map(|&[grey, a]| [over_white(grey, a); 3])
            .collect(),
        Channels::Rgba => samples
            .as_chunks()
            .0
            .iter()
            .flat_map(|&[r, g, b, a]| [r, g, b].map(|v| over_white(v, a)))
            .collect(),
        Channels::Cmyk => samples
            .as_chunks()
            .0
            .iter()
            .flat_map(|&[c, m, y, k]| [c, m, y].map(|ink| light(ink, k)))
            .collect(),
    }
}

/// 16-bit samples in native byte order as 8-bit samples: the high byte.
pub fn high_bytes(samples: &[u8]) -> Vec<u8> {
    samples
        .as_chunks()
        .0
        .iter()
        .map(|&pair| (u16::from_ne_bytes(pair) >> 8) as u8)
        .collect()
}

/// `value` with opacity `alpha` over white: (value·alpha + 255·(255 − alpha)) / 255, rounded. Equals Pillow's
/// `alpha_composite` over white and `paste` with a mask for all 65,536 inputs.
pub fn over_white(value: u8, alpha: u8) -> u8 {
    let (value, alpha) = (u32::from(value), u32::from(alpha));
    ((value * alpha + 255 * (255 - alpha) + 127) / 255) as u8
}

/// The value before it was multiplied with `alpha`, as Pillow undoes it: 255·value / alpha, rounded down.
pub fn unpremultiplied(value: u8, alpha: u8) -> u8 {
    match alpha {
        0 | 255 => value,
        _ => (255 * u32::from(value) / u32::from(alpha)).min(255) as u8,
    }
}

/// The light that one ink and black leave, (255 − black)·(1 − ink/255), rounded as Pillow does it.
fn light(ink: u8, black: u8) -> u8 {
    let rest = 255 - u32::from(black);
    let product = u32::from(ink) * rest + 128;
    rest.saturating_sub(((product >> 8) + product) >> 8) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alpha_goes_from_white_to_the_colour() {
        assert_eq!(over_white(0, 0), 255);
        assert_eq!(over_white(10, 255), 10);
        assert_eq!(over_white(0, 128), 127);
        assert_eq!(
            to_rgb(vec![0, 0, 200, 255], Channels::GreyAlpha),
            [255, 255, 255, 200, 200, 200]
        );
    }

    #[test]
    fn inks_take_light_away() {
        assert_eq!(
            to_rgb(vec![0, 0, 0, 0, 255, 0, 0, 0, 0, 0, 0, 255], Channels::Cmyk),
            [255, 255, 255, 0, 255, 255, 0, 0, 0]
        );
    }

    #[test]
    fn sixteen_bits_keep_their_high_byte() {
        let samples: Vec<u8> = [0x12FF_u16, 0xFF00]
            .iter()
            .flat_map(|v| v.to_ne_bytes())
            .collect();
        assert_eq!(high_bytes(&samples), [0x12, 0xFF]);
    }
}
