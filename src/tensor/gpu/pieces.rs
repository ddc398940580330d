//! Cutting an operation into launches whose operands are small enough for a device.

use std::ops::Range;

use crate::TensorError;

/// Some images, whole, or some rows of one of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Piece {
    pub images: Range<usize>,
    pub rows: Range<usize>,
}

impl Piece {
    pub fn images(&self) -> usize {
        self.images.len()
    }

    pub fn rows(&self) -> usize {
        self.rows.len()
    }
}

/// The fewest equal pieces of `images` of `rows` that fit.
pub fn pieces(
    operation: &'static str,
    images: usize,
    rows: usize,
    fits: impl Fn(&Piece) -> bool,
) -> Result<Vec<Piece>, TensorError> {
    let cut = |images: usize, most: usize| {
        (0..images.div_ceil(most)).map(move |i| i * most..((i + 1) * most).min(images))
    };
    let mut most = images;
    while most > 0 {
        let all: Vec<Piece> = cut(images, most)
            .map(|images| Piece {
                images,
                rows: 0..rows,
            })
            .collect();
        if all.iter().all(&fits) {
            return Ok(all);
        }
        most /= 2;
    }
    let mut most = rows / 2;
    while most > 0 {
        let all: Vec<Piece> = (0..images)
            .flat_map(|i| {
                cut(rows, most).map(move |rows| Piece {
                    images: i..i + 1,
                    rows,
                })
            })
            .collect();
        if all.iter().all(&fits) {
            return Ok(all);
        }
        most /= 2;
    }
    if images == 0 || rows == 0 {
        return Ok(Vec::new());
    }
    let smallest = if rows == 1 {
        "one image"
    } else {
        "one row of an image"
    };
    Err(TensorError::TooLarge {
        operation,
        smallest,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(images: usize, rows: usize, limit: usize) -> Vec<[usize; 2]> {
        let all = pieces("test", images, rows, |p| p.images() * p.rows() <= limit).unwrap();
        // In order, without a gap.
        let mut next = (0, 0);
        for p in &all {
            assert_eq!((p.images.start, p.rows.start), next);
            next = match p.rows.end == rows {
                true => (p.images.end, 0),
                false => (p.images.start, p.rows.end),
            };
        }
        assert_eq!(next, (images, 0));
        all.iter().map(|p| [p.images(), p.rows()]).collect()
    }

    #[test]
    fn batches_are_cut_before_images() {
        assert_eq!(sizes(8, 10, 80), [[8, 10]]);
        assert_eq!(sizes(8, 10, 79), [[4, 10], [4, 10]]);
        assert_eq!(sizes(7, 10, 45), [[3, 10], [3, 10], [1, 10]]);
        assert_eq!(sizes(2, 10, 9), [[1, 5]; 4]);
        assert_eq!(sizes(1, 7, 3), [[1, 3], [1, 3], [1, 1]]);
    }

    #[test]
    fn what_cannot_be_cut_is_refused() {
        assert!(pieces("test", 2, 3, |_| false).is_err());
        assert!(pieces("test", 0, 3, |_| false).unwrap().is_empty());
    }
}
