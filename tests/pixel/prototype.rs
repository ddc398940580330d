//! GL against a plain search in f64, and with an auto-encoder.

use foil::explain::pixel::{Networks, PixelError, Prototype, Prototypes};
use foil::nets::{Architecture, Autoencoder, MnistCnn, build};
use foil::tensor::Array;
use foil::tensor::candle::Candle;

use super::linear::{LEN, argmax, gradient, images, networks, other, probabilities};

const SETTINGS: Prototype = Prototype {
    kappa: 0.0,
    beta: 0.1,
    gamma: 0.0,
    theta: 0.0,
    c: 1.0,
    c_steps: 4,
    rate: 0.05,
    iterations: 120,
    clip: 1000.0,
    range: [-0.5, 0.5],
};

/// The least `‖d‖² + β ‖d‖₁`, if another class is found.
fn plain(x: &[f64]) -> Option<f64> {
    let own = argmax(&probabilities(x));
    let (mut c, mut low, mut high) = (SETTINGS.c, 0.0f64, 1e10f64);
    let mut best: Option<f64> = None;
    for _ in 0..SETTINGS.c_steps {
        let (mut s, mut a) = (x.to_vec(), x.to_vec());
        let mut success = false;
        for t in 0..SETTINGS.iterations {
            let p = probabilities(&s);
            let rival = other(&p, own);
            let mut weights = vec![0.0; p.len()];
            if p[own] - p[rival] > 0.0 {
                weights[own] += c;
                weights[rival] -= c;
            }
            let slope = gradient(&s, &weights);
            let rate = SETTINGS.rate * (1.0 - t as f64 / SETTINGS.iterations as f64).sqrt();
            let zeta = (t + 1) as f64 / (t + 4) as f64;
            for i in 0..LEN {
                let moved = s[i] - rate * (slope[i] + 2.0 * (s[i] - x[i]));
                let d = moved - x[i];
                let shrunk = if d > SETTINGS.beta {
                    (moved - SETTINGS.beta).min(0.5)
                } else if d < -SETTINGS.beta {
                    (moved + SETTINGS.beta).max(-0.5)
                } else {
                    x[i]
                };
                s[i] = (shrunk + zeta * (shrunk - a[i])).clamp(-0.5, 0.5);
                a[i] = shrunk;
            }
            if argmax(&probabilities(&a)) != own {
                success = true;
                let distance = a.iter().zip(x).map(|(a, x)| {
                    let d = (a - x).abs();
                    d * d + SETTINGS.beta * d
                });
                let distance: f64 = distance.sum();
                best = Some(best.map_or(distance, |b| b.min(distance)));
            }
        }
        if success {
            high = high.min(c);
        } else {
            low = low.max(c);
        }
        c = if high < 1e9 {
            (low + high) / 2.0
        } else {
            10.0 * c
        };
    }
    best
}

#[test]
fn the_search_finds_what_a_plain_one_in_f64_finds() {
    let images = images(12);
    let outcomes = SETTINGS
        .explain(&networks(), None, &images, &[None; 12])
        .unwrap();
    let mut off = Vec::new();
    for (i, outcome) in outcomes.iter().enumerate() {
        let x: Vec<f64> = images.row(i).iter().map(|&v| f64::from(v)).collect();
        let expected = plain(&x);
        assert_eq!(outcome.found.is_some(), expected.is_some(), "image {i}");
        let (Some(got), Some(expected)) = (&outcome.found, expected) else {
            continue;
        };
        let pairs = got.image.iter().zip(images.row(i));
        let distance = pairs.map(|(a, b)| f64::from((a - b).abs()));
        let distance: f64 = distance.map(|d| d * d + SETTINGS.beta * d).sum();
        off.push((distance - expected).abs() / expected);
        assert_ne!(got.class, outcome.before);
    }
    assert!(off.len() >= 8, "{} of 12 found", off.len());
    // A candidate that is just beyond the boundary in f64 may be the one before it in f32: then the next one is taken.
    off.sort_by(f64::total_cmp);
    assert!(
        off[off.len() / 2] < 0.005 && off[off.len() - 1] < 0.2,
        "{off:?}"
    );
}

/// A CNN and an auto-encoder with first weights of a training, of grey images of 8×8 pixels.
fn with_autoencoder() -> (Networks, Array) {
    let cnn = foil::train::mnist_cnn(3, 1, 8, [4, 6, 8], 4);
    let autoencoder = foil::train::autoencoder(4, 1, 4);
    let classifier = build(Architecture::MnistCnn, &Candle, &cnn, &Default::default()).unwrap();
    let networks = Networks {
        backend: Candle,
        classifier,
        autoencoder: Some(Autoencoder::new(&Candle, &autoencoder).unwrap()),
    };
    assert!(MnistCnn::new(&Candle, &cnn).is_ok());
    let mut draws = foil::stats::random::Draws::new(2, foil::stats::random::Stream(9002), 0);
    let data = (0..30 * 64)
        .map(|_| (draws.uniform() - 0.5) as f32)
        .collect();
    let shape = vec![30, 1, 8, 8];
    (networks, Array { shape, data })
}

#[test]
fn with_prototypes_an_image_does_not_depend_on_its_batch() {
    let (networks, images) = with_autoencoder();
    let prototypes = Prototypes::new(&networks, &images).unwrap();
    let settings = Prototype {
        gamma: 1.0,
        theta: 1.0,
        iterations: 25,
        c_steps: 2,
        ..SETTINGS
    };
    let few = Array {
        shape: vec![4, 1, 8, 8],
        data: images.data[..4 * 64].to_vec(),
    };
    let explain = |images: &Array, n: usize| {
        settings.explain(&networks, Some(&prototypes), images, &vec![None; n])
    };
    let together = explain(&few, 4).unwrap();
    for (i, expected) in together.iter().enumerate() {
        let one = Array {
            shape: vec![1, 1, 8, 8],
            data: few.row(i).to_vec(),
        };
        assert_eq!(explain(&one, 1).unwrap()[0], *expected, "image {i}");
    }
    // The pull towards the prototype changes the path.
    let unpulled = Prototype {
        theta: 0.0,
        gamma: 0.0,
        ..settings
    };
    let other = unpulled.explain(&networks, None, &few, &[None; 4]).unwrap();
    assert!(other != together);
}

#[test]
fn prototypes_are_mean_codes_of_predicted_classes_and_are_needed() {
    let (networks, images) = with_autoencoder();
    let Prototypes(prototypes) = Prototypes::new(&networks, &images).unwrap();
    let probabilities = networks.probabilities(&images).unwrap();
    let codes = networks.codes(&images).unwrap();
    for (class, prototype) in prototypes.iter().enumerate() {
        let own: Vec<&Vec<f32>> = { probabilities.iter().zip(&codes) }
            .filter(|(row, _)| {
                let row: Vec<f64> = row.iter().map(|&v| f64::from(v)).collect();
                argmax(&row) == class
            })
            .map(|(_, code)| code)
            .collect();
        assert_eq!(prototype.is_some(), !own.is_empty());
        if let Some(prototype) = prototype {
            let mean: f32 = own.iter().map(|code| code[5]).sum::<f32>() / own.len() as f32;
            assert!((prototype[5] - mean).abs() < 1e-5);
        }
    }
    let settings = Prototype {
        theta: 1.0,
        ..SETTINGS
    };
    let error = settings
        .explain(&networks, None, &images, &[None; 30])
        .unwrap_err();
    assert!(matches!(error, PixelError::Setting(_)), "{error}");
}
