//! The invertible network: its inverse, its log-determinant, its loss and gradients, and corrections of its codes.

use candle_core::{Device, Tensor};
use foil::explain::pixel::{Alpha, Ecinn, PixelError};
use foil::nets::InvertibleNet;
use foil::stats::random::{Draws, Stream};
use foil::tensor::candle::{Candle, Training};
use foil::tensor::{Array, StateDict};
use foil::train::{InformationBottleneck, InvertibleLayout};

const TINY: InvertibleLayout = InvertibleLayout {
    size: 8,
    channels: 1,
    classes: 3,
    blocks: [2, 2],
    widths: [6, 8],
    dense: 10,
};

/// First weights, with offsets, scales and means that are not trivial.
fn weights(layout: &InvertibleLayout) -> StateDict {
    let mut dict = layout.initial(5);
    let names: Vec<String> = dict.names().map(str::to_owned).collect();
    for (k, name) in names.iter().enumerate() {
        let mut draws = Draws::new(6, Stream(9003), k as u64);
        let mut array = dict.get(name).cloned().unwrap();
        let spread = match name.as_str() {
            _ if name.ends_with("scale") || name.ends_with("offset") => 0.2,
            _ if name.ends_with("running_mean") || name.ends_with("bias") => 0.1,
            "means" | "frequencies" => 0.3,
            _ => continue,
        };
        for v in &mut array.data {
            *v += (spread * draws.normal()) as f32;
        }
        dict.insert(name.clone(), array);
    }
    dict
}

fn images(n: usize, layout: &InvertibleLayout) -> Array {
    let mut draws = Draws::new(7, Stream(9003), 1 << 20);
    let len = n * layout.values();
    Array {
        shape: vec![n, layout.channels, layout.size, layout.size],
        data: (0..len)
            .map(|_| (2.0 * draws.uniform() - 1.0) as f32)
            .collect(),
    }
}

fn values(tensor: &Tensor) -> Vec<f32> {
    tensor.flatten_all().unwrap().to_vec1().unwrap()
}

#[test]
fn the_inverse_gives_the_images_back() {
    let colour = InvertibleLayout {
        size: 12,
        channels: 3,
        ..TINY
    };
    let shipped = InvertibleLayout {
        size: 28,
        blocks: [4, 4],
        widths: [16, 32],
        dense: 64,
        classes: 10,
        ..TINY
    };
    for layout in [TINY, colour, shipped] {
        let dict = weights(&layout);
        let net = InvertibleNet::new(&Candle, &dict).unwrap();
        let x = images(3, &layout);
        let latent = net.forward(&Candle, &x).unwrap();
        assert_eq!(latent.z.dims(), [3, layout.values()]);
        let back = net
            .inverse(&Candle, &latent.z, layout.size, layout.size)
            .unwrap();
        let off = back.data.iter().zip(&x.data).map(|(a, b)| (a - b).abs());
        let off = off.fold(0.0, f32::max);
        assert!(off < 1e-4, "{layout:?}: {off}");
    }
}

/// The Jacobian by central differences, its determinant by elimination.
#[test]
fn the_log_determinant_is_that_of_the_jacobian() {
    let net = InvertibleNet::new(&Candle, &weights(&TINY)).unwrap();
    let x = images(1, &TINY);
    let d = TINY.values();
    let step = 4e-3f32;
    let mut moved = Vec::new();
    for sign in [step, -step] {
        for k in 0..d {
            let mut image = x.data.clone();
            image[k] += sign;
            moved.extend(image);
        }
    }
    let moved = Array {
        shape: vec![2 * d, 1, 8, 8],
        data: moved,
    };
    let z = net
        .forward(&Candle, &moved)
        .unwrap()
        .z
        .to_vec2::<f32>()
        .unwrap();
    let mut matrix: Vec<Vec<f64>> = (0..d)
        .map(|k| {
            (0..d)
                .map(|i| f64::from(z[k][i] - z[d + k][i]) / (2.0 * f64::from(step)))
                .collect()
        })
        .collect();
    let mut log = 0.0;
    for k in 0..d {
        let pivot = (k..d).max_by(|&a, &b| matrix[a][k].abs().total_cmp(&matrix[b][k].abs()));
        matrix.swap(k, pivot.unwrap());
        log += matrix[k][k].abs().ln();
        let (done, rest) = matrix.split_at_mut(k + 1);
        let row = &done[k];
        for other in rest {
            let factor = other[k] / row[k];
            for (value, pivot) in other.iter_mut().zip(row).skip(k) {
                *value -= factor * pivot;
            }
        }
    }
    let stated = values(&net.forward(&Candle, &x).unwrap().log_determinant)[0];
    // ReLUs bend within the differences; 64 logarithms add up.
    assert!((f64::from(stated) - log).abs() < 0.05, "{stated} {log}");
}

/// The loss written out in f64 from codes and log-determinants.
#[test]
fn the_loss_is_that_of_the_definition() {
    let dict = weights(&TINY);
    let net = InvertibleNet::new(&Candle, &dict).unwrap();
    let latent = net.forward(&Candle, &images(4, &TINY)).unwrap();
    let labels = [2, 0, 1, 1];
    let settings = InformationBottleneck {
        beta: 1.7,
        smoothing: 0.06,
    };
    let got = settings
        .loss(&net, &latent, &labels)
        .unwrap()
        .to_scalar::<f32>()
        .unwrap();
    let (means, frequencies) = (dict.get("means").unwrap(), dict.get("frequencies").unwrap());
    let log_sum = |row: &[f64]| row.iter().map(|v| v.exp()).sum::<f64>().ln();
    let raw: Vec<f64> = frequencies.data.iter().map(|&v| f64::from(v)).collect();
    let log_w: Vec<f64> = raw.iter().map(|v| v - log_sum(&raw)).collect();
    let (z, logs) = (
        latent.z.to_vec2::<f32>().unwrap(),
        values(&latent.log_determinant),
    );
    let (mut image, mut class) = (0.0, 0.0);
    for i in 0..4 {
        let joint: Vec<f64> = (0..3)
            .map(|y| {
                let squared = z[i].iter().zip(means.row(y));
                let squared: f64 = squared.map(|(a, b)| f64::from(a - b).powi(2)).sum();
                -0.5 * squared + log_w[y]
            })
            .collect();
        let most = joint.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let shifted: Vec<f64> = joint.iter().map(|j| j - most).collect();
        let total = most + log_sum(&shifted);
        image -= (total + f64::from(logs[i])) / 64.0 / 4.0;
        for y in 0..3 {
            let target = 0.02 + if labels[i] == y { 0.94 } else { 0.0 };
            class += target * (joint[y] - total - log_w[y]) / 4.0;
        }
    }
    let expected = 2.0 / 2.7 * image - 2.0 * 1.7 / 2.7 * class;
    assert!(
        (f64::from(got) - expected).abs() < 1e-3 * expected.abs().max(1.0),
        "{got} {expected}"
    );
}

/// Gradients by parameters of every kind against central differences of the loss. Batch norms use the statistics of the
/// batch. The frequencies of classes are no such kind: a part of the loss takes them for constants.
#[test]
fn gradients_of_all_kinds_of_parameters_agree_with_differences() {
    let dict = weights(&TINY);
    let x = images(6, &TINY);
    let labels = [0, 1, 2, 0, 1, 2];
    let loss = |training: &Training, dict: &StateDict| {
        let net = InvertibleNet::new(training, dict).unwrap();
        let latent = net.forward(training, &x).unwrap();
        InformationBottleneck::default()
            .loss(&net, &latent, &labels)
            .unwrap()
    };
    let training = Training::new(&dict, |_| false).unwrap();
    let gradients = loss(&training, &dict).backward().unwrap();
    for name in [
        "first.0.scale",
        "first.1.offset",
        "first.0.subnet.conv1.weight",
        "second.1.subnet.conv3.weight",
        "second.0.subnet.norm2.weight",
        "down.high.conv3.bias",
        "down.low.conv1.weight",
        "glow.first.linear2.weight",
        "glow.second.linear1.bias",
        "means",
    ] {
        let variable = &training.variables()[name];
        let gradient = values(gradients.get(variable.as_tensor()).unwrap());
        let largest = (0..gradient.len())
            .max_by(|&a, &b| gradient[a].abs().total_cmp(&gradient[b].abs()))
            .unwrap();
        let value = |step: f32| {
            let mut moved = dict.clone();
            let mut array = moved.get(name).cloned().unwrap();
            array.data[largest] += step;
            moved.insert(name, array);
            let training = Training::new(&moved, |_| false).unwrap();
            f64::from(loss(&training, &moved).to_scalar::<f32>().unwrap())
        };
        // ReLUs bend: differences come to the gradient as the step goes to 0.
        let step = 3e-4f32;
        let difference = (value(step) - value(-step)) / (2.0 * f64::from(step));
        let got = f64::from(gradient[largest]);
        let off = (got - difference).abs();
        assert!(
            off < 0.03 * difference.abs() + 3e-3,
            "{name}: {got} {difference}"
        );
    }
}

/// Weights with centres that are not the means.
fn explained() -> Ecinn {
    let mut dict = weights(&TINY);
    let mut centres = dict.get("means").cloned().unwrap();
    let mut draws = Draws::new(8, Stream(9003), 2 << 20);
    for v in &mut centres.data {
        *v = 1.5 * *v + (0.05 * draws.normal()) as f32;
    }
    dict.insert("centres", centres);
    Ecinn::new(&dict).unwrap()
}

#[test]
fn corrected_codes_lie_where_the_formula_says() {
    let ecinn = explained();
    let x = images(5, &TINY);
    let [codes, probabilities] = ecinn.encode(&x, [-1.0, 1.0]).unwrap();
    for (code, row) in codes.iter().zip(&probabilities) {
        let own = (0..3).fold(0, |best, k| if row[k] > row[best] { k } else { best });
        for target in (0..3).filter(|&t| t != own) {
            let boundary = ecinn.correct(code, own, target, Alpha::Boundary).unwrap();
            let squared = |code: &[f32], class: usize| -> f64 {
                let mean = values(&ecinn.net.means().get(class).unwrap());
                let pairs = code.iter().zip(&mean);
                pairs
                    .map(|(a, b)| (f64::from(*a) - f64::from(*b)).powi(2))
                    .sum()
            };
            // On the boundary both means are equally far, to the rounding of codes to f32.
            let (p, q) = (
                squared(&boundary.code, own),
                squared(&boundary.code, target),
            );
            assert!((p - q).abs() < 1e-4 * p, "{p} {q}");
            let beyond = ecinn.correct(code, own, target, Alpha::Convincing).unwrap();
            assert!((beyond.alpha - (0.8 + 0.5 * boundary.alpha)).abs() < 1e-12);
            // The image at that code: the inverse, whose code is the corrected one again.
            let z = Tensor::from_vec(boundary.code.clone(), (1, 64), &Device::Cpu).unwrap();
            let image = ecinn.net.inverse(&Candle, &z, 8, 8).unwrap();
            let again = values(&ecinn.net.forward(&Candle, &image).unwrap().z);
            let off = again.iter().zip(&boundary.code).map(|(a, b)| (a - b).abs());
            assert!(off.fold(0.0, f32::max) < 1e-3);
        }
        assert!(ecinn.correct(code, own, own, Alpha::Boundary).is_none());
    }
}

#[test]
fn a_target_that_is_the_prediction_is_an_error_and_never_a_nan() {
    let ecinn = explained();
    let x = images(3, &TINY);
    let range = [-1.0, 1.0];
    let [_, probabilities] = ecinn.encode(&x, range).unwrap();
    let own: Vec<usize> = { probabilities.iter() }
        .map(|row| (0..3).fold(0, |best, k| if row[k] > row[best] { k } else { best }))
        .collect();
    let error = ecinn
        .explain(&x, range, &own, Alpha::Convincing)
        .unwrap_err();
    assert!(
        matches!(error, PixelError::SameClass { image: 0, .. }),
        "{error}"
    );
    let others: Vec<usize> = own.iter().map(|k| (k + 1) % 3).collect();
    for outcome in ecinn
        .explain(&x, range, &others, Alpha::Convincing)
        .unwrap()
    {
        let found = outcome.found.unwrap();
        assert!(found.image.iter().all(|v| v.abs() <= 1.0));
        assert!(found.probabilities.iter().all(|p| p.is_finite()));
    }
    let error = Ecinn::new(&weights(&TINY)).err().unwrap();
    assert!(error.to_string().contains("centres"), "{error}");
}
