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
use weights::Weights;

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
    } else if order == Order::Pillow && shrinks_in_height(image, width, height) {
        rows(&columns(image))
    } else {
        columns(&rows(image))
    }
}

/// Whether the height shrinks by more than twice as many pixels as the width.
fn shrinks_in_height(image: &Image, width: usize, height: usize) -> bool {
    let (lost_rows, lost_columns) = (
        image.height.saturating_sub(height),
        image.width.saturating_sub(width),
    );
    lost_rows > 2 * lost_columns
}

/// The middle `width` x `height` pixels of `image`. Margins that cannot be halved are rounded to even, as Python's
/// `round` does in torchvision; where torchvision would pad a smaller image with black, this is an error.
pub fn center_crop(image: &Image, width: usize, height: usize) -> Result<Image, ImageError> {
    if width > image.width || height > image.height {
        return Err(ImageError::CropTooLarge {
            width: image.width,
            height: image.height,
            crop_width: width,
            crop_height: height,
        });
    }
    let left = half_to_even(image.width - width);
    let top = half_to_even(image.height - height);
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
