//! FakeMNIST: digits whose label is a dot, drawn independently of the digit.
//!
//! Per set (train, then test, one generator, numpy's legacy one with seed 42): the images are shuffled, labels 0 to 9 are given to
//! equal parts in order, the pixel in row `label` of column 0 becomes white, and images and labels are shuffled again.

use crate::images::Idx;
use crate::stats::legacy_numpy::LegacyNumpy;

/// The seed of the published set.
pub const SEED: u32 = 42;

/// Grey levels that the published arrays hold one too low: they went through `(v / 255 − 0.5 + 0.5) · 255` in f64 and were cut.
pub const LOWERED: [u8; 20] = [
    1, 2, 5, 9, 10, 13, 17, 18, 21, 25, 26, 29, 33, 34, 41, 42, 49, 50, 57, 58,
];

/// Label and source of every image of the test set.
pub struct FakeLabels {
    pub label: Vec<usize>,
    /// Place in the original set.
    pub source: Vec<usize>,
}

/// One set of images with labels.
pub struct FakeSet {
    pub images: Idx,
    /// The dot's row.
    pub labels: Vec<u8>,
    /// Place of each image in the original set.
    pub source: Vec<usize>,
}

fn draw(random: &mut LegacyNumpy, n: usize) -> FakeLabels {
    let count = u32::try_from(n).unwrap_or(u32::MAX);
    let (first, second) = (random.permutation(count), random.permutation(count));
    let part = (n / 10).max(1);
    FakeLabels {
        label: second.iter().map(|&at| (at / part).min(9)).collect(),
        source: second.iter().map(|&at| first[at]).collect(),
    }
}

/// Labels and sources of a test set of `test` images after a train set of `train`.
pub fn fake_labels(train: usize, test: usize) -> FakeLabels {
    let mut random = LegacyNumpy::new(SEED);
    draw(&mut random, train);
    draw(&mut random, test)
}

/// Both sets, from MNIST's images `[n, rows, columns]`. `published` lowers the grey levels as the published arrays do.
pub fn fake_mnist(train: &Idx, test: &Idx, published: bool) -> Result<[FakeSet; 2], String> {
    let mut random = LegacyNumpy::new(SEED);
    let mut set = |name: &str, of: &Idx| {
        let &[n, rows, columns] = &of.shape[..] else {
            return Err(format!(
                "{name} images: expected [n, rows, columns], found {:?}",
                of.shape
            ));
        };
        if n % 10 != 0 || n == 0 || rows < 10 || columns == 0 {
            return Err(format!(
                "{name} images: expected a multiple of 10 images of at least 10 rows, found {n} of {rows}x{columns}: labels are given to equal tenths"
            ));
        }
        let drawn = draw(&mut random, n);
        let size = rows * columns;
        let mut values = Vec::with_capacity(n * size);
        for (&source, &label) in drawn.source.iter().zip(&drawn.label) {
            let start = values.len();
            values.extend_from_slice(&of.values[source * size..(source + 1) * size]);
            values[start + label * columns] = 255;
        }
        if published {
            for value in values.iter_mut().filter(|v| LOWERED.contains(v)) {
                *value -= 1;
            }
        }
        Ok(FakeSet {
            images: Idx {
                shape: of.shape.clone(),
                values,
            },
            labels: drawn.label.iter().map(|&l| l as u8).collect(),
            source: drawn.source,
        })
    };
    Ok([set("train", train)?, set("test", test)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lowered_grey_levels_are_those_of_the_round_trip() {
        let lowered: Vec<u8> = (0..=255u8)
            .filter(|&v| ((f64::from(v) / 255.0 - 0.5 + 0.5) * 255.0) as u8 != v)
            .collect();
        assert_eq!(lowered, LOWERED);
    }

    #[test]
    fn every_image_has_its_dot_and_labels_are_balanced() {
        let images = |n: usize| Idx {
            shape: vec![n, 10, 2],
            values: (0..n).flat_map(|i| [i as u8; 20]).collect(),
        };
        let [train, test] = fake_mnist(&images(60), &images(20), false).unwrap();
        for set in [&train, &test] {
            let n = set.labels.len();
            for label in 0..10 {
                assert_eq!(set.labels.iter().filter(|l| **l == label).count(), n / 10);
            }
            for i in 0..n {
                let image = &set.images.values[i * 20..(i + 1) * 20];
                assert_eq!(image[usize::from(set.labels[i]) * 2], 255);
                assert_eq!(usize::from(image[1]), set.source[i]);
            }
        }
        let labels = fake_labels(60, 20);
        assert_eq!(labels.source, test.source);
        assert!(fake_mnist(&images(15), &images(10), false).is_err());
    }
}
