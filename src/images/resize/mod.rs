//! Resizing and cropping that equal Pillow's `Image.resize` and torchvision's `CenterCrop` bit for bit.
//!
//! Every filter but nearest is applied along rows and along columns, one after the other (`passes`), with an
//! intermediate image of 8 bits and weights in fixed point of 22 bits (`weights`); when shrinking, the filter is widened
//! by the scale (antialiasing). A direction whose size does not change is left out. As the intermediate image is rounded
//! and clipped, the order of the passes shows in the result: see [`Order`].

mod filter;
mod nearest;
mod passes;
mod weights;

pub use filter::Filter;

use super::{Image, ImageError};
use crate::tensor::{Along, PixelPass};
use weights::Weights;

/// A rectangle of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    pub top: usize,
    pub left: usize,
    pub height: usize,
    pub width: usize,
}

impl Window {
    /// All of an image of this height and width.
    pub fn whole([height, width]: [usize; 2]) -> Self {
        Self {
            top: 0,
            left: 0,
            height,
            width,
        }
    }

    /// The middle `height` x `width` pixels of an image of another size; see [`center_crop`].
    pub fn middle(
        [image_height, image_width]: [usize; 2],
        [height, width]: [usize; 2],
    ) -> Result<Self, ImageError> {
        if width > image_width || height > image_height {
            return Err(ImageError::CropTooLarge {
                width: image_width,
                height: image_height,
                crop_width: width,
                crop_height: height,
            });
        }
        Ok(Self {
            top: half_to_even(image_height - height),
            left: half_to_even(image_width - width),
            height,
            width,
        })
    }
}

/// Which pass comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// As Pillow 13 does it: columns first if the height shrinks, and by more than twice as many pixels as the width.
    #[default]
    Pillow,
    /// Always rows first, as Pillow did before its pull requests 9524 and 9549 (2026), with which older numbers were
    /// made.
    RowsFirst,
}

/// `image` at a size of `width` x `height` pixels: equals the `Image.resize` of Pillow 13.
///
/// # Panics
/// If a size is zero.
pub fn resize(image: &Image, width: usize, height: usize, filter: Filter) -> Image {
    resize_in_order(image, width, height, filter, Order::Pillow)
}

/// `image` at a size of `width` x `height` pixels, with the passes in the order of a version of Pillow.
///
/// # Panics
/// If a size is zero.
pub fn resize_in_order(
    image: &Image,
    width: usize,
    height: usize,
    filter: Filter,
    order: Order,
) -> Image {
    assert!(
        width > 0 && height > 0,
        "cannot resize to {width}x{height} pixels"
    );
    if (width, height) == (image.width, image.height) {
        return image.clone();
    }
    let Some(kernel) = filter.kernel() else {
        return nearest::resize(image, width, height);
    };
    let rows =
        |image: &Image| passes::horizontal(image, width, &Weights::new(image.width, width, kernel));
    let columns = |image: &Image| {
        passes::vertical(image, height, &Weights::new(image.height, height, kernel))
    };
    if height == image.height {
        rows(image)
    } else if width == image.width {
        columns(image)
    } else if order == Order::Pillow
        && shrinks_in_height([image.height, image.width], [height, width])
    {
        rows(&columns(image))
    } else {
        columns(&rows(image))
    }
}

/// The passes of [`resize`] from one height and width to another, for a device that does them: they make a window of the
/// result only. None if nothing changes.
///
/// # Panics
/// If a size is zero, or the window leaves the result.
pub fn passes(from: [usize; 2], to: [usize; 2], filter: Filter, window: Window) -> Vec<PixelPass> {
    let [height, width] = to;
    assert!(
        from.iter().chain(&to).all(|&side| side > 0),
        "cannot resize {from:?} to {to:?} pixels"
    );
    let pass = |along, source: usize, target: usize, first: usize, count: usize| {
        if source == target && count == target {
            return None;
        }
        let taps = match filter.kernel() {
            _ if source == target => nearest::taps((0..target).collect()),
            None => nearest::taps(nearest::positions(source, target)),
            Some(kernel) => Weights::new(source, target, kernel).taps(),
        };
        let taps = taps[first..first + count].to_vec();
        Some(PixelPass { along, taps })
    };
    let rows = pass(Along::Height, from[0], height, window.top, window.height);
    let columns = pass(Along::Width, from[1], width, window.left, window.width);
    let both = match shrinks_in_height(from, to) {
        true => [rows, columns],
        false => [columns, rows],
    };
    both.into_iter().flatten().collect()
}

/// Whether the height shrinks by more than twice as many pixels as the width.
fn shrinks_in_height(from: [usize; 2], to: [usize; 2]) -> bool {
    let lost = |side: usize| from[side].saturating_sub(to[side]);
    lost(0) > 2 * lost(1)
}

/// The middle `width` x `height` pixels of `image`. Margins that cannot be halved are rounded to even, as Python's
/// `round` does in torchvision; where torchvision would pad a smaller image with black, this is an error.
pub fn center_crop(image: &Image, width: usize, height: usize) -> Result<Image, ImageError> {
    let Window { top, left, .. } = Window::middle([image.height, image.width], [height, width])?;
    let mut pixels = Vec::with_capacity(width * height * 3);
    for y in top..top + height {
        let start = (y * image.width + left) * 3;
        pixels.extend_from_slice(&image.pixels[start..start + width * 3]);
    }
    Ok(Image {
        width,
        height,
        pixels,
    })
}

/// `margin / 2`, rounded to even.
fn half_to_even(margin: usize) -> usize {
    let half = margin / 2;
    half + (margin & half & 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn margins_are_halved_as_python_rounds() {
        let halves: Vec<usize> = (0..8).map(half_to_even).collect();
        assert_eq!(halves, [0, 0, 1, 2, 2, 2, 3, 4]);
    }

    #[test]
    fn crops_take_the_middle_and_refuse_to_pad() {
        let image = Image {
            width: 4,
            height: 3,
            pixels: (0..36).collect(),
        };
        let middle = center_crop(&image, 2, 1).unwrap();
        assert_eq!(middle.pixels, [15, 16, 17, 18, 19, 20]);
        assert_eq!(center_crop(&image, 4, 3).unwrap(), image);
        let message = center_crop(&image, 5, 3).unwrap_err().to_string();
        assert!(
            message.contains("5x3") && message.contains("4x3"),
            "{message}"
        );
    }

    /// An image after passes, channel by channel, by the plain routine that devices are compared with.
    fn after(image: &Image, passes: &[PixelPass]) -> Image {
        use crate::tensor::{Backend, cpu::Cpu};
        let pixels = Cpu.upload_pixels(&[&image.pixels], image.height, image.width);
        let x = passes.iter().fold(pixels.unwrap(), |x, pass| {
            Cpu.resize_pixels(&x, pass).unwrap()
        });
        let shape = Cpu.shape(&x);
        Image {
            width: shape.w,
            height: shape.h,
            pixels: x.data().iter().map(|&v| v as u8).collect(),
        }
    }

    #[test]
    fn passes_give_the_pixels_of_a_resize_and_a_crop() {
        let mut state = 1u32;
        let mut byte = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            // Hard edges make the cubic filters overshoot.
            if state & 1 << 30 == 0 {
                (state >> 24) as u8
            } else {
                255 * (state >> 31) as u8
            }
        };
        for [h, w] in [[23, 17], [9, 40], [40, 9], [16, 16]] {
            let image = Image {
                width: w,
                height: h,
                pixels: (0..h * w * 3).map(|_| byte()).collect(),
            };
            for filter in Filter::ALL {
                for [height, width] in [[11, 8], [16, 16], [30, 50], [3, 40], [23, 5], [9, 9]] {
                    let whole = resize(&image, width, height, filter);
                    for crop in [[height, width], [height.div_ceil(2), width - 1], [1, 1]] {
                        let window = Window::middle([height, width], crop).unwrap();
                        let passes = passes([h, w], [height, width], filter, window);
                        let expected = center_crop(&whole, crop[1], crop[0]).unwrap();
                        let what = format!("{h}x{w} to {height}x{width}, {crop:?}, {filter}");
                        assert_eq!(after(&image, &passes), expected, "{what}");
                    }
                }
            }
        }
        let same = Window::whole([23, 17]);
        assert!(passes([23, 17], [23, 17], Filter::Bicubic, same).is_empty());
    }

    #[test]
    fn constant_images_stay_constant() {
        let image = Image {
            width: 7,
            height: 5,
            pixels: vec![93; 7 * 5 * 3],
        };
        for filter in Filter::ALL {
            for (width, height) in [(1, 1), (3, 9), (20, 2), (7, 8), (100, 100)] {
                let resized = resize(&image, width, height, filter);
                assert_eq!(resized.pixels.len(), width * height * 3);
                assert!(
                    resized.pixels.iter().all(|&v| v == 93),
                    "{filter} {width}x{height}"
                );
            }
        }
    }
}
