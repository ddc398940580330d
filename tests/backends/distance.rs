//! The feature distance of LPIPS.
//!
//! Tolerance: unit vectors differ by at most 2, so a value is at most `4 · max|head|`; f32 sums over c channels and
//! the rounded inverse lengths cost a few 1e-7 of the terms' sum. 2e-6 of `Σ|head|·(|â| + |b̂|)²` is allowed.

use foil::tensor::{Backend, Compared, Tap};

use crate::host::{Host, assert_close, down, random, random_values, up};

pub fn distance_f64(a: &Host, b: &Host, head: &[f32]) -> (Host, Host) {
    let unit = |x: &Host, n: usize, y: usize, column: usize| -> Vec<f64> {
        let pixel: Vec<f64> = (0..x.c).map(|c| x.at(n, c, y, column)).collect();
        let length = pixel.iter().map(|v| v * v).sum::<f64>().sqrt() + 1e-10;
        pixel.iter().map(|v| v / length).collect()
    };
    let mut scale = Host::zeros(a.n, 1, a.h, a.w);
    let map = Host::build([a.n, 1, a.h, a.w], |n, _, y, column| {
        let (ua, ub) = (unit(a, n, y, column), unit(b, n, y, column));
        let mut sum = 0.0;
        for ((p, q), w) in ua.iter().zip(&ub).zip(head) {
            sum += f64::from(*w) * (p - q).powi(2);
            *scale.at_mut(n, 0, y, column) += f64::from(w.abs()) * (p.abs() + q.abs()).powi(2);
        }
        sum
    });
    (map, scale)
}

pub fn map_and_mean<B: Backend>(b: &B) {
    for shape in [
        [1, 64, 5, 7],
        [2, 3, 4, 4],
        [3, 17, 6, 2],
        [7, 192, 3, 3],
        [2, 10, 1, 1],
        // More pixels than a block of the mean takes.
        [3, 5, 9, 13],
    ] {
        let (x, y) = (random("a", shape), random("b", shape));
        let mut head = random_values("head", shape[1]);
        head.iter_mut().for_each(|w| *w = w.abs());
        let (tx, ty) = (up(b, &x), up(b, &y));
        let got = down(b, &b.feature_distance(&tx, &ty, &head).unwrap());
        let (expected, scale) = distance_f64(&Host::from(&x), &Host::from(&y), &head);
        let what = format!("distance of {shape:?}");
        assert_close(&what, &got, &expected, |i| 2e-6 * scale.data[i]);
        let means = b.mean_feature_distance(&tx, &ty, &head).unwrap();
        assert_eq!(means.len(), shape[0]);
        let pixels = shape[2] * shape[3];
        for (n, mean) in means.iter().enumerate() {
            let own = &got.data[n * pixels..(n + 1) * pixels];
            let of_map = own.iter().sum::<f64>() / pixels as f64;
            // The mean is taken in f64: it is the mean of the device's own map.
            assert!((mean - of_map).abs() <= 1e-14 * of_map.abs(), "{what}");
        }
        // Symmetric up to the sign of a difference that is squared.
        let swapped = down(b, &b.feature_distance(&ty, &tx, &head).unwrap());
        assert_close("swapped", &swapped, &got, |_| 0.0);
    }
}

/// Asked one by one or together, of pairs or of all pairs of a set: the same bits.
pub fn many_comparisons_at_once<B: Backend>(b: &B) {
    for shape in [[1, 5, 3, 3], [2, 64, 5, 13], [7, 17, 9, 8]] {
        let (x, y) = (up(b, &random("x", shape)), up(b, &random("y", shape)));
        let head = random_values("head", shape[1]);
        let one = |p: &B::Tensor, q: &B::Tensor| b.mean_feature_distance(p, q, &head).unwrap();
        let compared = [(&x, &y), (&y, &y), (&y, &x)];
        let together = compared.map(|(a, b)| Compared { a, b, head: &head });
        let together = b.mean_feature_distances(&together).unwrap();
        assert_eq!(together, compared.map(|(p, q)| one(p, q)), "{shape:?}");
        let images: Vec<B::Tensor> = (0..shape[0]).map(|i| b.select(&x, i)).collect();
        let all: Vec<[usize; 2]> = (0..shape[0])
            .flat_map(|i| (i + 1..shape[0]).map(move |j| [i, j]))
            .collect();
        // All pairs; those of the last image only; one twice, the other way round.
        let last = all.iter().copied().filter(|[_, j]| j + 1 == shape[0]);
        let turned = all.iter().take(1).flat_map(|&[i, j]| [[j, i], [i, j]]);
        for pairs in [all.clone(), last.collect(), turned.collect()] {
            let two_heads = [&head[..], &vec![1.0; shape[1]]];
            let taps = two_heads.map(|head| Tap {
                images: images.iter().collect(),
                head,
            });
            let got = b.feature_distances_of_pairs(&taps, &pairs).unwrap();
            for (head, got) in two_heads.iter().zip(got) {
                let expected: Vec<f64> = pairs
                    .iter()
                    .flat_map(|&[i, j]| b.mean_feature_distance(&images[i], &images[j], head))
                    .flatten()
                    .collect();
                assert_eq!(got, expected, "{pairs:?} of {shape:?}");
            }
        }
    }
    assert!(b.mean_feature_distances(&[]).unwrap().is_empty());
}

pub fn identical_features_are_exactly_zero_apart<B: Backend>(b: &B) {
    for shape in [[2, 64, 4, 4], [1, 17, 3, 3], [3, 5, 1, 1]] {
        let x = up(b, &random("same", shape));
        let again = up(b, &random("same", shape));
        let head = random_values("head", shape[1]);
        let map = down(b, &b.feature_distance(&x, &again, &head).unwrap());
        assert!(map.data.iter().all(|&v| v == 0.0));
        let means = b.mean_feature_distance(&x, &again, &head).unwrap();
        assert!(means.iter().all(|&v| v == 0.0));
    }
}

pub fn zero_vectors<B: Backend>(b: &B) {
    // A dead pixel (all ReLUs off) has the zero vector as its unit vector: no NaN; against another pixel it is as
    // far as that pixel's weighted unit length.
    let c = 9;
    let mut x = random("zero", [1, c, 2, 2]);
    let y = random("other", [1, c, 2, 2]);
    for channel in 0..c {
        x.data[channel * 4] = 0.0;
    }
    let zeros = foil::tensor::Array::zeros([1, c, 2, 2]);
    let head = vec![1.0; c];
    let (tx, ty, tz) = (up(b, &x), up(b, &y), up(b, &zeros));
    let got = down(b, &b.feature_distance(&tx, &ty, &head).unwrap());
    let (expected, _) = distance_f64(&Host::from(&x), &Host::from(&y), &head);
    assert_close("dead pixel", &got, &expected, |_| 4e-6);
    assert!((got.data[0] - 1.0).abs() < 1e-6);
    let both = down(b, &b.feature_distance(&tz, &tz, &head).unwrap());
    assert!(both.data.iter().all(|&v| v == 0.0));
    // Far below the epsilon a vector counts as (almost) zero: |x| = 3e-13 gives a unit length of 3e-3.
    let tiny = foil::tensor::Array::new([1, c, 1, 1], vec![1e-13; c]).unwrap();
    let zero = foil::tensor::Array::zeros([1, c, 1, 1]);
    let got = down(
        b,
        &b.feature_distance(&up(b, &tiny), &up(b, &zero), &head)
            .unwrap(),
    );
    let (expected, _) = distance_f64(&Host::from(&tiny), &Host::from(&zero), &head);
    assert_close("tiny", &got, &expected, |_| 1e-5 * expected.data[0]);
}
