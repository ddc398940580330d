//! The rule of FakeMNIST: a white dot in column 0 at the row of the label, balanced labels, shuffled digits.
//!
//! The published set follows from a seed, which is checked where a set is of its size and of its draw. Sets of other sizes or
//! seeds keep the rule as well.

use super::super::check::Check;
use super::data::Set;
use crate::study::quantitative::{SEED, fake_labels};

/// Images of MNIST's training part and of its test part: the generator goes through both.
const MNIST: [usize; 2] = [60_000, 10_000];

/// Checks what the set itself tells: `sources` is the place of each image's digit in MNIST's test part.
pub fn check_all(name: &str, sources: &[i64], set: &Set, check: &mut Check) {
    let n = set.label.len();
    let [_, _, height, width] = set.real.shape;
    let dots: Vec<f32> = { set.label.iter().enumerate() }
        .map(|(i, &label)| {
            let row = usize::try_from(label).ok().filter(|row| *row < height);
            row.map_or(f32::NAN, |row| set.real.image(i)[row * width])
        })
        .collect();
    let white = vec![255.0; n];
    check.identical("the dot at the label of every image", &white, &dots);

    check.equal("number of sources", &n, &sources.len());
    let mut distinct = sources.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    distinct.retain(|source| *source >= 0);
    check.equal("distinct sources", &n, &distinct.len());

    if n.is_multiple_of(10) {
        let counts: Vec<usize> = (0..10)
            .map(|class| set.label.iter().filter(|l| **l == class).count())
            .collect();
        check.equal("images of each label", &vec![n / 10; 10], &counts);
    } else {
        check.absent(format!(
            "{name}: balance of the labels ({n} images are no multiple of ten labels)"
        ));
    }

    let skipped = |check: &mut Check, why: &str| {
        check.absent(format!("{name}: draw of the generator ({why})"));
    };
    if n != MNIST[1] {
        return skipped(check, "it is known of MNIST's 10,000 test images only");
    }
    let made = fake_labels(MNIST[0], MNIST[1]);
    let wide = |values: &[usize]| -> Vec<i64> {
        let all = values.iter().map(|&v| i64::try_from(v).unwrap_or(-1));
        all.collect()
    };
    let expected = wide(&made.source);
    let same = expected.iter().zip(sources).filter(|(a, b)| a == b).count();
    // Two draws agree in about one place; a damaged copy of the published one in most.
    if 2 * same < n {
        let why = format!("the set was not drawn with the published seed {SEED}");
        return skipped(check, &why);
    }
    check.identical("source of every image", &expected, sources);
    check.identical("label of every image", &wide(&made.label), &set.label);
}
