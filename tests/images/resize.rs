//! Resized pixels against Pillow 13 (`scripts/make-image-fixtures`). Tolerance: none, as resizing is defined to the bit.

use std::fs;

use foil::images::{Filter, Image, Order, resize, resize_in_order};

use crate::fixtures;

/// The rectangle of `image` at (0, top).
fn part(image: &Image, top: usize, width: usize, height: usize) -> Image {
    let rows = image
        .pixels
        .chunks_exact(image.width * 3)
        .skip(top)
        .take(height);
    Image {
        width,
        height,
        pixels: rows.flat_map(|row| &row[..width * 3]).copied().collect(),
    }
}

/// Resizes as the list of sizes says and demands the pixels of the sheet.
fn check(sheet: &str, filter: Filter, order: Order) {
    let source = fixtures::reference(&fixtures::path("resize/source.png"));
    let sizes = fs::read_to_string(fixtures::path("resize/sizes.txt")).expect("the list of sizes");
    let sheet = fixtures::reference(&fixtures::path("resize").join(sheet));
    let mut top = 0;
    for line in sizes.lines() {
        let numbers: Vec<usize> = line
            .split(' ')
            .map(|n| n.parse().expect("a number"))
            .collect();
        let [from_width, from_height, width, height] = numbers[..] else {
            panic!("{line}")
        };
        let source = part(&source, 0, from_width, from_height);
        let found = resize_in_order(&source, width, height, filter, order);
        let expected = part(&sheet, top, width, height);
        assert_eq!(
            fixtures::difference(&found, &expected),
            (0, 0),
            "{filter}, {order:?}, {line}"
        );
        top += height;
    }
    assert_eq!(top, sheet.height);
}

#[test]
fn pixels_equal_pillow_s_for_every_filter_and_size() {
    for filter in Filter::ALL {
        check(&format!("{filter}.png"), filter, Order::Pillow);
    }
}

#[test]
fn rows_first_equals_two_resizes_of_pillow_with_the_width_first() {
    check("rows_first.png", Filter::Bicubic, Order::RowsFirst);
}

#[test]
fn order_of_passes_shows_in_tall_images() {
    let source = fixtures::reference(&fixtures::path("resize/source.png"));
    let source = part(&source, 0, 19, 23);
    let resized = |order| resize_in_order(&source, 17, 12, Filter::Lanczos, order);
    assert_ne!(resized(Order::Pillow), resized(Order::RowsFirst));
    assert_eq!(
        resized(Order::Pillow),
        resize(&source, 17, 12, Filter::Lanczos)
    );
}

#[test]
fn number_of_threads_does_not_change_pixels() {
    let pixels = (0..300 * 200 * 3_usize)
        .map(|i| (i * 7919 % 251) as u8)
        .collect();
    let image = Image {
        width: 300,
        height: 200,
        pixels,
    };
    let with_threads = |n| {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(n)
            .build()
            .expect("a pool");
        pool.install(|| Filter::ALL.map(|filter| resize(&image, 431, 299, filter)))
    };
    assert_eq!(with_threads(1), with_threads(3));
}
