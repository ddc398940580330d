//! GB against a plain search in f64, written from the description alone.

use foil::explain::pixel::{PixelError, Wachter};

use super::linear::{LEN, argmax, gradient, images, networks, other, probabilities};

const SETTINGS: Wachter = Wachter {
    probability: 1.0,
    tolerance: 0.05,
    iterations: 200,
    early_stop: 20,
    lambda: 0.1,
    lambdas: 6,
    rate: 0.1,
    range: [-0.5, 0.5],
};

/// One λ: iterations from `c`, each judged after it; says how many were found, and offers those.
fn descend(
    x: &[f64],
    c: &mut [f64],
    lambda: f64,
    own: usize,
    most: usize,
    stop: Option<usize>,
    offer: &mut dyn FnMut(&[f64]),
) -> usize {
    let (mut m, mut v) = (vec![0.0; LEN], vec![0.0; LEN]);
    let (mut found, mut run) = (0, (0, 0));
    for t in 0..most {
        let p = probabilities(c);
        let goal = other(&p, own);
        let mut weights = vec![0.0; p.len()];
        weights[goal] = 2.0 * (p[goal] - 1.0);
        let slope = gradient(c, &weights);
        let rate = SETTINGS.rate * (1.0 - t as f64 / SETTINGS.iterations as f64);
        let step = (t + 1) as i32;
        let rate = rate * (1.0 - 0.999f64.powi(step)).sqrt() / (1.0 - 0.9f64.powi(step));
        for i in 0..LEN {
            let away = c[i] - x[i];
            let sign = if away > 0.0 {
                1.0
            } else if away < 0.0 {
                -1.0
            } else {
                0.0
            };
            let g = slope[i] + lambda * sign;
            m[i] = 0.9 * m[i] + 0.1 * g;
            v[i] = 0.999 * v[i] + 0.001 * g * g;
            c[i] = (c[i] - rate * m[i] / (v[i].sqrt() + 1e-8)).clamp(-0.5, 0.5);
        }
        let p = probabilities(c);
        if (p[other(&p, own)] - 1.0).abs() <= SETTINGS.tolerance {
            found += 1;
            run = (run.0 + 1, 0);
            offer(c);
        } else {
            run = (0, run.1 + 1);
        }
        if stop.is_some_and(|n| run.0 >= n || run.1 >= n) {
            break;
        }
    }
    found
}

/// The whole search: the smallest L1 distance, if any.
fn plain(x: &[f64]) -> Option<f64> {
    let own = argmax(&probabilities(x));
    let mut c = x.to_vec();
    let mut counts = Vec::new();
    for i in 0..SETTINGS.lambdas {
        let lambda = SETTINGS.lambda * 0.1f64.powi(i as i32);
        let found = descend(
            x,
            &mut c,
            lambda,
            own,
            SETTINGS.iterations / 10,
            None,
            &mut |_| {},
        );
        counts.push((lambda, found));
    }
    let successes: Vec<f64> = counts.iter().filter(|c| c.1 > 0).map(|c| c.0).collect();
    let mut low = *successes.get(1)?;
    let failures: Vec<f64> = counts.iter().filter(|c| c.1 == 0).map(|c| c.0).collect();
    let mut high = failures.last().copied().unwrap_or(counts[0].0);
    let mut lambda = (low + high) / 2.0;
    let mut best: Option<f64> = None;
    let mut c = x.to_vec();
    for _ in 0..SETTINGS.lambdas {
        let mut offer = |c: &[f64]| {
            let distance: f64 = c.iter().zip(x).map(|(a, b)| (a - b).abs()).sum();
            best = Some(best.map_or(distance, |b| b.min(distance)));
        };
        let stop = Some(SETTINGS.early_stop);
        let found = descend(
            x,
            &mut c,
            lambda,
            own,
            SETTINGS.iterations,
            stop,
            &mut offer,
        );
        if found >= 5 {
            low = low.max(lambda);
            lambda = if high < 1e9 {
                (low + high) / 2.0
            } else {
                lambda * 10.0
            };
        } else {
            high = high.min(lambda);
            lambda = if low > 0.0 {
                (low + high) / 2.0
            } else {
                lambda / 10.0
            };
        }
    }
    best
}

#[test]
fn the_search_finds_what_a_plain_one_in_f64_finds() {
    let images = images(12);
    let outcomes = SETTINGS.explain(&networks(), &images, &[None; 12]).unwrap();
    let mut found = 0;
    for (i, outcome) in outcomes.iter().enumerate() {
        let x: Vec<f64> = images.row(i).iter().map(|&v| f64::from(v)).collect();
        assert_eq!(outcome.before, argmax(&probabilities(&x)));
        let expected = plain(&x);
        assert_eq!(outcome.found.is_some(), expected.is_some(), "image {i}");
        let (Some(got), Some(expected)) = (&outcome.found, expected) else {
            continue;
        };
        found += 1;
        let pairs = got.image.iter().zip(images.row(i));
        let distance: f64 = pairs.map(|(a, b)| f64::from((a - b).abs())).sum();
        // Steps in f32 reach the same thresholds some thousandths of a pixel earlier or later.
        assert!(
            (distance - expected).abs() < 0.02 * expected,
            "image {i}: {distance} {expected}"
        );
        assert!(got.class != outcome.before && got.probabilities[got.class] >= 0.95);
        assert!(got.image.iter().all(|v| v.abs() <= 0.5));
    }
    assert!(found >= 8, "{found} of 12 found");
}

#[test]
fn an_image_does_not_depend_on_its_batch() {
    let images = images(5);
    let networks = networks();
    let targets = [None, Some(0), None, Some(2), None];
    let classes: Vec<usize> = SETTINGS
        .explain(&networks, &images, &[None; 5])
        .unwrap()
        .iter()
        .map(|o| o.before)
        .collect();
    let targets: Vec<Option<usize>> = { targets.iter().zip(&classes) }
        .map(|(t, own)| t.filter(|t| t != own))
        .collect();
    let together = SETTINGS.explain(&networks, &images, &targets).unwrap();
    for i in 0..5 {
        let one = foil::tensor::Array {
            shape: [&[1], &images.shape[1..]].concat(),
            data: images.row(i).to_vec(),
        };
        let alone = SETTINGS.explain(&networks, &one, &targets[i..=i]).unwrap();
        assert_eq!(alone[0], together[i], "image {i}");
        if let (Some(target), Some(found)) = (targets[i], &alone[0].found) {
            assert_eq!(found.class, target);
        }
    }
}

#[test]
fn wrong_inputs_are_refused() {
    let networks = networks();
    let good = images(1);
    let own = SETTINGS.explain(&networks, &good, &[None]).unwrap()[0].before;
    let error = SETTINGS
        .explain(&networks, &good, &[Some(own)])
        .unwrap_err();
    assert!(
        matches!(error, PixelError::SameClass { image: 0, .. }),
        "{error}"
    );
    let error = SETTINGS.explain(&networks, &good, &[Some(3)]).unwrap_err();
    assert!(
        matches!(error, PixelError::NoClass { classes: 3, .. }),
        "{error}"
    );
    let mut bad = good.clone();
    bad.data[5] = f32::NAN;
    let error = SETTINGS.explain(&networks, &bad, &[None]).unwrap_err();
    assert!(
        matches!(error, PixelError::NotFinite { image: 0 }),
        "{error}"
    );
    let range = [0.5, 0.5];
    let error = Wachter { range, ..SETTINGS }
        .explain(&networks, &good, &[None])
        .unwrap_err();
    assert!(matches!(error, PixelError::Range { .. }), "{error}");
}
