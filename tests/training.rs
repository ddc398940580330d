//! Training: gradients of a whole network in training, resumed runs, and what is left when it is folded.

use std::collections::BTreeMap;

use foil::diffusion::{Betas, Schedule, noised, variational_bound};
use foil::nets::{
    Architecture, Autoencoder, Classifier, Unet, UnetConfig, UnetEncoderConfig, build,
};
use foil::tensor::candle::{Candle, Training};
use foil::tensor::{Array, Backend, StateDict, cpu::Cpu};
use foil::train::losses::{cross_entropy, mean_square};
use foil::train::{self, AdamW, Attack, Plan, UnetLayout, denoising};

/// Images of two kinds that a small network can tell apart: stripes along rows or columns, with noise.
fn images(items: &[usize]) -> (Array, Vec<usize>) {
    let side = 16;
    let mut array = Array::zeros([items.len(), 3, side, side]);
    for (image, &item) in array.data.chunks_exact_mut(3 * side * side).zip(items) {
        for (at, value) in image.iter_mut().enumerate() {
            let (y, x) = (at / side % side, at % side);
            let along = if item % 2 == 0 { x } else { y };
            let noise = ((at * 31 + item * 977) % 101) as f32 / 101.0 - 0.5;
            *value = if (along + item / 2) % 4 < 2 {
                0.5
            } else {
                -0.5
            } + noise;
        }
    }
    (array, items.iter().map(|i| i % 2).collect())
}

fn plan(steps: usize) -> Plan {
    Plan {
        steps,
        batch: 8,
        seed: 5,
        optimiser: AdamW {
            rate: 3e-3,
            warm_up: 2,
            ..AdamW::default()
        },
        average: None,
        checkpoint: None,
        resume: false,
        options: BTreeMap::new(),
    }
}

fn networks() -> Vec<(Architecture, StateDict)> {
    vec![
        (Architecture::ResNet18, train::resnet18(1, 4, 2)),
        (Architecture::PlainCnn, train::plain_cnn(2, &[4, 8], 2)),
        (
            Architecture::ConvNextBn,
            train::convnext_bn(4, &[8, 16], &[1, 1], 2),
        ),
        (
            Architecture::ConvNextTiny,
            train::convnext(3, 2, &[8, 16], &[1, 1], 2),
        ),
    ]
}

fn loss_of(
    training: &Training,
    net: &dyn Classifier<Training>,
    items: &[usize],
) -> candle_core::Tensor {
    let (x, labels) = images(items);
    let prediction = net
        .predict(training, &training.upload(&x).unwrap())
        .unwrap();
    cross_entropy(prediction.logits.candle(), &labels).unwrap()
}

fn trained(architecture: Architecture, initial: StateDict, plan: &Plan) -> (StateDict, Vec<f32>) {
    let mut shown = Vec::new();
    let dict = train::run(
        plan,
        initial,
        64,
        |training, dict| {
            Ok(build(
                architecture,
                training,
                dict,
                &UnetEncoderConfig::default(),
            )?)
        },
        |training, net, items, _| Ok(loss_of(training, net.as_ref(), items)),
        |progress| shown.push(progress.loss),
    );
    (dict.unwrap().weights, shown)
}

/// The gradient of every parameter against differences of the loss.
fn check_gradients(
    what: &str,
    dict: &StateDict,
    loss_at: impl Fn(&StateDict) -> (Training, candle_core::Tensor),
) {
    let (training, loss) = loss_at(dict);
    let gradients = loss.backward().unwrap();
    let mut checked = 0;
    for (name, variable) in training.variables() {
        let gradient = gradients.get(variable.as_tensor());
        let gradient = gradient.unwrap_or_else(|| panic!("{what}: {name} has no gradient"));
        let gradient = gradient.flatten_all().unwrap().to_vec1::<f32>().unwrap();
        let largest = (0..gradient.len())
            .max_by(|&a, &b| gradient[a].abs().total_cmp(&gradient[b].abs()))
            .unwrap();
        // The largest one only: others drown in the rounding of the loss.
        if gradient[largest].abs() < 2e-2 {
            continue;
        }
        let moved = |by: f32| {
            let mut dict = dict.clone();
            let mut array = dict.get(name).unwrap().clone();
            array.data[largest] += by;
            dict.insert(name, array);
            f64::from(loss_at(&dict).1.to_scalar::<f32>().unwrap())
        };
        let step = 3e-4;
        let slope = (moved(step) - moved(-step)) / f64::from(2.0 * step);
        let found = f64::from(gradient[largest]);
        assert!(
            (slope - found).abs() <= 0.03 * found.abs() + 2e-3,
            "{what} {name}[{largest}]: {found}, by differences {slope}"
        );
        checked += 1;
    }
    assert!(checked >= 5, "{what}: {checked} gradients checked");
}

#[test]
fn gradients_of_all_parameters_are_those_of_the_loss() {
    let items: Vec<usize> = (0..6).collect();
    for (architecture, dict) in networks() {
        check_gradients(architecture.name(), &dict, |dict| {
            let training = Training::new(dict, |_| false).unwrap();
            let net = build(architecture, &training, dict, &UnetEncoderConfig::default()).unwrap();
            let loss = loss_of(&training, net.as_ref(), &items);
            (training, loss)
        });
    }
}

#[test]
fn gradients_of_an_autoencoder_are_those_of_the_loss() {
    let (x, _) = images(&[0, 1, 2]);
    check_gradients("autoencoder", &train::autoencoder(4, 3, 6), |dict| {
        let training = Training::new(dict, |_| false).unwrap();
        let net = Autoencoder::new(&training, dict).unwrap();
        let x = training.upload(&x).unwrap();
        let loss = mean_square(&net.reconstruct(&training, &x).unwrap(), &x).unwrap();
        (training, loss)
    });
}

/// Learning the noise; the variance is the next test's.
#[test]
fn gradients_of_a_denoiser_are_those_of_the_loss() {
    let (dict, schedule) = (denoiser(), Schedule::new(Betas::Linear, 50).unwrap());
    let (x, _) = images(&[0, 1, 2]);
    let draw = denoising::Draw::new(&schedule, &x.shape, 1, 0);
    check_gradients("denoiser", &dict, |dict| {
        let training = Training::new(dict, |_| false).unwrap();
        let net = Unet::new(&training, dict, heads()).unwrap();
        let loss = denoising::loss(&training, &net, &schedule, &x, &draw, 5.0).unwrap();
        (training, loss)
    });
}

/// The bound does not move the predicted noise, and moves the variance along its slope.
#[test]
fn the_bound_is_learnt_by_the_variance_alone() {
    let schedule = Schedule::new(Betas::Linear, 50).unwrap();
    let (clean, _) = images(&[0, 1, 2, 3]);
    let draw = denoising::Draw::new(&schedule, &clean.shape, 2, 5);
    let at = [0, 1, 20, 49];
    let noisy = noised(&schedule, &clean, &draw.noise, &at);
    let mut output = Array::zeros([4, 6, 16, 16]);
    for (i, v) in output.data.iter_mut().enumerate() {
        *v = ((i * 7919) % 1009) as f32 / 504.5 - 1.0;
    }
    let (value, slope) = variational_bound(&schedule, &clean, &noisy, &output, &at).unwrap();
    assert!(value > 0.0 && slope.shape == clean.shape);
    for (image, pixel) in [(0, 5), (0, 300), (1, 17), (2, 500), (3, 700)] {
        let moved = |by: f32| {
            let mut output = output.clone();
            output.data[image * 1536 + 768 + pixel] += by;
            variational_bound(&schedule, &clean, &noisy, &output, &at)
                .unwrap()
                .0
        };
        let numeric = (moved(0.01) - moved(-0.01)) / 0.02;
        let found = f64::from(slope.data[image * 768 + pixel]);
        assert!(
            (numeric - found).abs() <= 0.01 * found.abs() + 1e-7,
            "{image} {pixel}: {found}, {numeric}"
        );
    }
}

fn heads() -> UnetConfig {
    UnetConfig {
        num_head_channels: 32,
        ..UnetConfig::default()
    }
}

/// A UNet whose zero layers are not zero.
fn denoiser() -> StateDict {
    let layout = UnetLayout {
        channels: 3,
        width: 32,
        factors: vec![1, 2],
        blocks: 1,
        attention: vec![1],
    };
    let mut dict = layout.initial(6);
    let names: Vec<String> = dict.iter().map(|(name, _)| name.to_owned()).collect();
    for (k, name) in names.iter().enumerate() {
        let mut array = dict.get(name).unwrap().clone();
        if array.data.iter().all(|&v| v == 0.0) {
            for (i, v) in array.data.iter_mut().enumerate() {
                *v = ((i * 31 + k * 17) % 101) as f32 / 1000.0 - 0.05;
            }
            dict.insert(name, array);
        }
    }
    dict
}

#[test]
fn networks_learn_and_fold() {
    for (architecture, initial) in networks() {
        let (dict, losses) = trained(architecture, initial, &plan(80));
        let mean = |l: &[f32]| l.iter().sum::<f32>() / l.len() as f32;
        let (first, last) = (mean(&losses[..5]), mean(&losses[70..]));
        assert!(last < 0.5 * first, "{architecture}: {first} to {last}");
        // The finished network runs on the engine, with batch norms folded.
        let net = build(architecture, &Cpu, &dict, &UnetEncoderConfig::default()).unwrap();
        let (x, labels) = images(&(100..132).collect::<Vec<_>>());
        let logits = net.predict(&Cpu, &Cpu.upload(&x).unwrap()).unwrap().logits;
        let logits = Cpu.download(&logits).unwrap();
        let right = labels.iter().enumerate().filter(|&(i, &label)| {
            let row = logits.row(i);
            (row[1] > row[0]) == (label == 1)
        });
        let right = right.count();
        assert!(right >= 26, "{architecture}: {right} of 32");
    }
}

fn plain_cnn(
    training: &Training,
    dict: &StateDict,
) -> Result<Box<dyn Classifier<Training>>, train::TrainError> {
    let unet = UnetEncoderConfig::default();
    Ok(build(Architecture::PlainCnn, training, dict, &unet)?)
}

#[test]
fn a_resumed_run_ends_as_an_uninterrupted_one() {
    let folder = tempfile::tempdir().unwrap();
    for (index, average) in [None, Some(0.9)].into_iter().enumerate() {
        let path = folder.path().join(format!("{index}.safetensors"));
        let whole = Plan { average, ..plan(9) };
        let (expected, losses) = trained(Architecture::PlainCnn, networks().remove(1).1, &whole);

        let checked = Plan {
            checkpoint: Some((path.clone(), 4)),
            ..whole.clone()
        };
        // Interrupted by an error in step 6: the checkpoint of step 4 stays.
        let broken = train::run(
            &checked,
            networks().remove(1).1,
            64,
            plain_cnn,
            |t, net, items, step| match step {
                6 => Err(train::TrainError::Data("pulled the plug".into())),
                _ => Ok(loss_of(t, net.as_ref(), items)),
            },
            |_| {},
        );
        assert!(broken.is_err() && path.exists());
        let resumed = Plan {
            resume: true,
            ..checked.clone()
        };
        let (dict, rest) = trained(Architecture::PlainCnn, networks().remove(1).1, &resumed);
        assert_eq!(rest, losses[4..]);
        for (name, array) in expected.iter() {
            assert_eq!(dict.get(name), Some(array), "{name}");
        }

        // Another run does not take it, nor does a run take a file that is cut off.
        let run = |plan: &Plan| {
            train::run(
                plan,
                networks().remove(1).1,
                64,
                plain_cnn,
                |t, net, items, _| Ok(loss_of(t, net.as_ref(), items)),
                |_| {},
            )
        };
        let mut other = resumed.clone();
        other.seed = 6;
        let message = run(&other).unwrap_err().to_string();
        assert!(message.contains("seed was 5 and is now 6"), "{message}");
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
        let message = run(&resumed).unwrap_err().to_string();
        assert!(message.contains("not a whole checkpoint"), "{message}");
    }
}

#[test]
fn threads_do_not_change_a_run() {
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap();
        pool.install(|| trained(Architecture::ResNet18, networks().remove(0).1, &plan(4)))
    };
    let (a, b) = (run(1), run(2));
    assert_eq!(a.1, b.1);
    assert_eq!(a.0, b.0);
}

/// Share of right answers about images that an adversary moved.
fn withstood(architecture: Architecture, dict: &StateDict, attack: &Attack) -> f64 {
    let unet = UnetEncoderConfig::default();
    let (x, labels) = images(&(100..164).collect::<Vec<_>>());
    let open = build(architecture, &Candle, dict, &unet).unwrap();
    let moved = attack
        .run(open.as_ref(), &x, |logits| cross_entropy(logits, &labels))
        .unwrap();
    let net = build(architecture, &Cpu, dict, &unet).unwrap();
    let logits = net.predict(&Cpu, &Cpu.upload(&moved).unwrap()).unwrap();
    let logits = Cpu.download(&logits.logits).unwrap();
    let right = labels.iter().enumerate().filter(|&(i, &label)| {
        let row = logits.row(i);
        (row[1] > row[0]) == (label == 1)
    });
    right.count() as f64 / labels.len() as f64
}

#[test]
fn a_network_that_learns_from_attacks_withstands_them() {
    let architecture = Architecture::PlainCnn;
    let attack = Attack {
        radius: 3.0,
        steps: 5,
    };
    let initial = networks().remove(1).1;
    let (plain, _) = trained(architecture, initial.clone(), &plan(120));
    let unet = UnetEncoderConfig::default();
    let robust = train::run(
        &plan(120),
        initial.clone(),
        64,
        plain_cnn,
        |training, net, items, _| {
            let (x, labels) = images(items);
            let fixed = build(architecture, &Candle, &training.values(&initial)?, &unet)?;
            let x = attack.run(fixed.as_ref(), &x, |logits| cross_entropy(logits, &labels))?;
            let prediction = net.predict(training, &training.upload(&x)?)?;
            cross_entropy(prediction.logits.candle(), &labels)
        },
        |_| {},
    )
    .unwrap()
    .weights;
    let [plain, robust] = [&plain, &robust].map(|dict| withstood(architecture, dict, &attack));
    assert!(robust >= plain + 0.2, "plain {plain}, robust {robust}");
}
