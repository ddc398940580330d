//! Whole networks of guided-diffusion: outputs and gradients, against the public code.
//!
//! Tolerances are those of the golden data, measured against float64 there: 2e-5 absolute for outputs, 5e-5 for gradients.

use std::path::{Path, PathBuf};

use foil::nets::{Unet, UnetConfig, UnetEncoder, UnetEncoderConfig};
use foil::tensor::candle::{Candle, Differentiable, Tensor};
use foil::tensor::composed::Composed;
use foil::tensor::cpu::Cpu;
use foil::tensor::{Array, Backend, StateDict, TypedArrays};

const OUTPUT: f32 = 2e-5;
const GRADIENT: f32 = 5e-5;

/// A file of `tests/golden`, or else of `FOIL_REFERENCE` (default `../shared/reference`).
pub fn find(area: &str, file: &str) -> Option<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let reference = std::env::var_os("FOIL_REFERENCE")
        .map_or_else(|| here.join("../shared/reference"), PathBuf::from);
    let places = [here.join("tests/golden"), reference].map(|root| root.join(area).join(file));
    let found = places.iter().find(|path| path.is_file()).cloned();
    if found.is_none() {
        println!("skipped: {} is absent", places[1].display());
    }
    found
}

pub fn weights(area: &str, file: &str) -> Option<StateDict> {
    let arrays = TypedArrays::read(&find(area, file)?).expect("weights");
    let mut dict = StateDict::named(file);
    for name in arrays.names() {
        dict.insert(name, arrays.f32(name).expect("f32"));
    }
    Some(dict)
}

fn io() -> Option<TypedArrays> {
    Some(TypedArrays::read(&find("diffusion", "unet_io.safetensors")?).expect("inputs and outputs"))
}

fn steps(io: &TypedArrays, name: &str) -> Vec<f32> {
    let steps = io.f64(name).expect("steps");
    steps.into_iter().map(|t| t as f32).collect()
}

pub fn assert_close(what: &str, got: &Array, expected: &Array, tolerance: f32) {
    assert_eq!(got.shape, expected.shape, "{what}");
    let pairs = got.data.iter().zip(&expected.data);
    let worst = pairs.fold(0.0f32, |m, (g, e)| m.max((g - e).abs()));
    println!("{what}: worst error {worst:e}");
    assert!(worst <= tolerance, "{what}: off by {worst:e}");
}

fn unet_a() -> UnetConfig {
    UnetConfig {
        num_head_channels: 16,
        ..UnetConfig::default()
    }
}

pub fn unet_b(new_order: bool) -> UnetConfig {
    UnetConfig {
        num_head_channels: 0,
        num_heads: 2,
        use_new_attention_order: new_order,
        ..UnetConfig::default()
    }
}

fn outputs<B: Backend>(b: &B, io: &TypedArrays) {
    let run = |dict: &StateDict, config: UnetConfig, x: &str, t: &str| {
        let unet = Unet::new(b, dict, config).expect("a UNet");
        let x = b.upload(&io.f32(x).unwrap()).unwrap();
        b.download(&unet.predict(b, &x, &steps(io, t), None).unwrap())
            .unwrap()
    };
    let check = |name: &str, got: Array| {
        let what = format!("{name} on {}", b.describe());
        assert_close(&what, &got, &io.f32(name).unwrap(), OUTPUT);
    };
    if let Some(dict) = weights("diffusion", "unet_a_weights.safetensors") {
        check("unet_a.out", run(&dict, unet_a(), "x_t", "timesteps"));
        let small = run(&dict, unet_a(), "x_t_16", "timesteps_16");
        check("unet_a.out_16", small);
    }
    if let Some(dict) = weights("diffusion", "unet_b_weights.safetensors") {
        check("unet_b.out", run(&dict, unet_b(false), "x_t", "timesteps"));
        let other = run(&dict, unet_b(true), "x_t", "timesteps");
        check("unet_b_new_attention_order.out", other);
    }
}

#[test]
fn unets_agree_with_the_public_code_on_every_device() {
    if let Some(io) = io() {
        outputs(&Cpu, &io);
        outputs(&Candle, &io);
        outputs(&Composed::on_cpu(), &io);
    }
}

pub fn the_gradient_of_a_unet_by_its_input(on: &impl Differentiable) {
    let (Some(io), Some(dict)) = (io(), weights("diffusion", "unet_a_weights.safetensors")) else {
        return;
    };
    let unet = Unet::new(on, &dict, unet_a()).unwrap();
    let x = on.variable(&io.f32("x_t").unwrap()).unwrap();
    let input = Tensor::new(x.as_tensor()).unwrap();
    let y = unet.predict(on, &input, &steps(&io, "timesteps"), None);
    let v = on.upload(&io.f32("unet_a.vjp_vector").unwrap()).unwrap();
    let loss = (y.unwrap().candle() * v.candle())
        .unwrap()
        .sum_all()
        .unwrap();
    let grads = loss.backward().unwrap();
    let got = Tensor::new(grads.get(x.as_tensor()).unwrap()).unwrap();
    let expected = io.f32("unet_a.vjp_x").unwrap();
    assert_close(
        "unet_a.vjp_x",
        &on.download(&got).unwrap(),
        &expected,
        GRADIENT,
    );
}

pub fn the_gradient_of_the_noise_aware_classifier_by_its_input(on: &impl Differentiable) {
    let (Some(io), Some(dict)) = (io(), weights("nets", "unet_encoder_weights.safetensors")) else {
        return;
    };
    let config = UnetEncoderConfig {
        num_res_blocks: 1,
        num_head_channels: 16,
        ..UnetEncoderConfig::default()
    };
    let network = UnetEncoder::new(on, &dict, config).unwrap();
    let x = on.variable(&io.f32("unet_encoder.x").unwrap()).unwrap();
    let input = Tensor::new(x.as_tensor()).unwrap();
    let steps = steps(&io, "timesteps");
    let logits = network.predict_at(on, &input, &steps).unwrap().logits;
    let expected = io.f32("unet_encoder.out").unwrap();
    assert_close(
        "unet_encoder.out",
        &on.download(&logits).unwrap(),
        &expected,
        OUTPUT,
    );
    // The batch mean of the log-probabilities of classes 1, 4 and 9.
    let mut wanted = Array::zeros([3, 10]);
    for (row, class) in [1, 4, 9].into_iter().enumerate() {
        wanted.data[row * 10 + class] = 1.0 / 3.0;
    }
    let log = on.log_softmax(&logits).unwrap();
    let wanted = on.upload(&wanted).unwrap();
    let loss = (log.candle() * wanted.candle()).unwrap().sum_all().unwrap();
    let grads = loss.backward().unwrap();
    let got = Tensor::new(grads.get(x.as_tensor()).unwrap()).unwrap();
    let expected = io.f32("unet_encoder.grad_mean_logp_1_4_9").unwrap();
    assert_close(
        "its gradient",
        &on.download(&got).unwrap(),
        &expected,
        GRADIENT,
    );
}

#[test]
fn a_unet_refuses_what_it_cannot_use() {
    let Some(dict) = weights("diffusion", "unet_b_weights.safetensors") else {
        return;
    };
    let unet = Unet::new(&Cpu, &dict, unet_b(false)).unwrap();
    let x = Cpu.upload(&Array::zeros([2, 3, 8, 8])).unwrap();
    assert!(unet.predict(&Cpu, &x, &[1.0], None).is_err());
    let labels = unet.predict(&Cpu, &x, &[1.0, 2.0], Some(&[0, 1]));
    let message = labels.expect_err("no classes").to_string();
    assert!(message.contains("no classes"), "{message}");
    let odd = Cpu.upload(&Array::zeros([1, 3, 7, 7])).unwrap();
    assert!(unet.predict(&Cpu, &odd, &[1.0], None).is_err());
    let heads = UnetConfig {
        num_heads: 5,
        ..unet_b(false)
    };
    assert!(Unet::new(&Cpu, &dict, heads).is_err());
    assert!(Unet::new(&Cpu, &StateDict::new(), UnetConfig::default()).is_err());
    let mut torn = dict.clone();
    torn.remove("output_blocks.2.0.in_layers.0.weight");
    assert!(Unet::new(&Cpu, &torn, unet_b(false)).is_err());
}

/// Adds a class embedding to `unet_b` and compares with the same vector added to the time embedding's last bias.
#[test]
fn a_class_is_added_to_the_time() {
    let Some(mut dict) = weights("diffusion", "unet_b_weights.safetensors") else {
        return;
    };
    let row = crate::difference::coarse("class", [128]).data;
    let mut shifted = dict.clone();
    let mut bias = dict.get("time_embed.2.bias").unwrap().clone();
    bias.data.iter_mut().zip(&row).for_each(|(b, r)| *b += r);
    shifted.insert("time_embed.2.bias", bias);
    let classes = [vec![0.0; 128], row].concat();
    dict.insert("label_emb.weight", Array::new([2, 128], classes).unwrap());
    let x = Cpu
        .upload(&crate::difference::coarse("x", [1, 3, 16, 16]))
        .unwrap();
    let plain = Unet::new(&Cpu, &shifted, unet_b(false)).unwrap();
    let conditional = Unet::new(&Cpu, &dict, unet_b(false)).unwrap();
    let expected = plain.predict(&Cpu, &x, &[7.0], None).unwrap();
    let got = conditional.predict(&Cpu, &x, &[7.0], Some(&[1])).unwrap();
    assert_close(
        "conditional",
        &Cpu.download(&got).unwrap(),
        &Cpu.download(&expected).unwrap(),
        OUTPUT,
    );
    assert!(conditional.predict(&Cpu, &x, &[7.0], None).is_err());
    assert!(conditional.predict(&Cpu, &x, &[7.0], Some(&[2])).is_err());
}
