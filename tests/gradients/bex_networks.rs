//! Networks of the benchmark bex: outputs and gradients, against the public package.
//!
//! Tolerances are those of the golden data: images 1e-6 (2e-6 for the portable kernels, which have no fused products and
//! reach 1.3e-6), encoder 1e-5, logits 5e-4, gradients 1e-3 of the largest.

use foil::nets::{Architecture, BexEncoder, BexGenerator, UnetEncoderConfig, build};
use foil::tensor::candle::{Candle, Differentiable, Tensor};
use foil::tensor::composed::Composed;
use foil::tensor::cpu::Cpu;
use foil::tensor::{Array, Backend, StateDict, TypedArrays};

use crate::difference::coarse;
use crate::guided_diffusion::{assert_close, find, weights};

fn arrays(file: &str) -> Option<TypedArrays> {
    Some(TypedArrays::read(&find("bex", file)?).expect("inputs and outputs"))
}

fn images<B: Backend>(b: &B, dict: &StateDict, io: &TypedArrays) {
    let generator = BexGenerator::new(b, dict).expect("a generator");
    assert_eq!(generator.latent(), 11);
    let z = b.upload(&io.f32("z_raw").unwrap()).unwrap();
    let got = b.download(&generator.generate(b, &z).unwrap()).unwrap();
    let what = format!("images on {}", b.describe());
    let limit = match b.describe().contains("portable") {
        true => 2e-6,
        false => 1e-6,
    };
    assert_close(&what, &got, &io.f32("image").unwrap(), limit);
}

#[test]
fn generators_of_two_widths_draw_the_published_images_on_every_device() {
    for (file, io) in [
        ("generator_w05.safetensors", "model_io.safetensors"),
        (
            "generator_w025.safetensors",
            "generator_w025_io.safetensors",
        ),
    ] {
        let (Some(dict), Some(io)) = (weights("bex", file), arrays(io)) else {
            continue;
        };
        images(&Cpu, &dict, &io);
        images(&Candle, &dict, &io);
        images(&Composed::on_cpu(), &dict, &io);
    }
}

fn encoding<B: Backend>(b: &B, dict: &StateDict, io: &TypedArrays) {
    let encoder = BexEncoder::new(b, dict).expect("an encoder");
    let x = b.upload(&io.f32("image").unwrap()).unwrap();
    let got = encoder.encode(b, &x).unwrap();
    for (name, tensor) in [
        ("features", &got.features),
        ("pred_continuous", &got.continuous),
        ("pred_font", &got.font),
        ("pred_char", &got.character),
    ] {
        let what = format!("{name} on {}", b.describe());
        assert_close(
            &what,
            &b.download(tensor).unwrap(),
            &io.f32(name).unwrap(),
            1e-5,
        );
    }
}

#[test]
fn the_encoder_sees_what_the_package_sees_on_every_device() {
    let (Some(dict), Some(io)) = (
        weights("bex", "encoder_w1.safetensors"),
        arrays("encoder_io.safetensors"),
    ) else {
        return;
    };
    encoding(&Cpu, &dict, &io);
    encoding(&Candle, &dict, &io);
    encoding(&Composed::on_cpu(), &dict, &io);
}

/// By each image, as the largest entries of images differ.
fn assert_rows(what: &str, got: &Array, expected: &Array, relative: f32) {
    assert_eq!(got.shape, expected.shape, "{what}");
    for row in 0..expected.shape[0] {
        let largest = expected.row(row).iter().fold(0.0f32, |m, v| m.max(v.abs()));
        let pairs = got.row(row).iter().zip(expected.row(row));
        let worst = pairs.fold(0.0f32, |m, (g, e)| m.max((g - e).abs())) / largest;
        println!("{what}, row {row}: {worst:e} of {largest:e}");
        assert!(
            worst <= relative,
            "{what}, row {row}: {worst:e} of {largest:e}"
        );
    }
}

pub fn logits_and_their_gradients_by_the_latent_vector(b: &impl Differentiable) {
    let (Some(generator), Some(classifier), Some(io)) = (
        weights("bex", "generator_w05.safetensors"),
        weights("bex", "classifier_slim.safetensors"),
        arrays("model_io.safetensors"),
    ) else {
        return;
    };
    let generator = BexGenerator::new(b, &generator).unwrap();
    let unet = UnetEncoderConfig::default();
    let classifier = build(Architecture::ResNet18, b, &classifier, &unet).unwrap();
    for class in 0..2 {
        let z = b.variable(&io.f32("z_raw").unwrap()).unwrap();
        let images = generator.generate(b, &Tensor::new(z.as_tensor()).unwrap());
        let logits = classifier.predict(b, &images.unwrap()).unwrap().logits;
        let expected = io.f32("logits").unwrap();
        assert_close("logits", &b.download(&logits).unwrap(), &expected, 5e-4);
        let one = logits.candle().narrow(3, class, 1).unwrap();
        let grads = one.sum_all().unwrap().backward().unwrap();
        let got = Tensor::new(grads.get(z.as_tensor()).unwrap()).unwrap();
        let name = format!("dlogit{class}_dz");
        assert_rows(
            &name,
            &b.download(&got).unwrap(),
            &io.f32(&name).unwrap(),
            1e-3,
        );
    }
}

/// The golden data have no gradient of the encoder: differences along one direction, which must not be far from straight.
pub fn the_gradient_of_the_encoder_by_its_image(b: &impl Differentiable) {
    let (Some(dict), Some(io)) = (
        weights("bex", "encoder_w1.safetensors"),
        arrays("encoder_io.safetensors"),
    ) else {
        return;
    };
    let encoder = BexEncoder::new(b, &dict).unwrap();
    let image = io.f32("image").unwrap();
    let pick = b.upload(&coarse("characters", [4, 48])).unwrap();
    let loss = |x: &Tensor| {
        let seen = encoder.encode(b, x).unwrap().character;
        (seen.candle() * pick.candle()).unwrap().sum_all().unwrap()
    };
    let x = b.variable(&image).unwrap();
    let grads = loss(&Tensor::new(x.as_tensor()).unwrap())
        .backward()
        .unwrap();
    let got = Tensor::new(grads.get(x.as_tensor()).unwrap()).unwrap();
    let got = b.download(&got).unwrap();
    // Along the gradient itself the slope is its length, and rounding matters least.
    let length = got
        .data
        .iter()
        .map(|&g| f64::from(g).powi(2))
        .sum::<f64>()
        .sqrt();
    let at = |step: f64| {
        let mut moved = image.clone();
        for (v, g) in moved.data.iter_mut().zip(&got.data) {
            *v += (step * f64::from(*g) / length) as f32;
        }
        let y = loss(&b.upload(&moved).unwrap()).to_scalar::<f32>().unwrap();
        f64::from(y)
    };
    let slope = (at(0.02) - at(-0.02)) / 0.04;
    println!("slope {slope}, length {length}");
    assert!((slope / length - 1.0).abs() < 0.02, "{slope} {length}");
}

#[test]
fn wrapped_names_load_and_torn_weights_do_not() {
    let Some(dict) = weights("bex", "generator_w025.safetensors") else {
        return;
    };
    for wrapper in ["model.", "module.", "generator."] {
        let mut wrapped = StateDict::new();
        for (name, array) in dict.iter() {
            wrapped.insert(format!("{wrapper}{name}"), array.clone());
        }
        assert!(BexGenerator::new(&Cpu, &wrapped).is_ok(), "{wrapper}");
    }
    for name in [
        "char_embedding.weight",
        "decoder.group1.block0.conv0.weight_u",
        "decoder.group2.block0.bn1.condition.bias",
        "decoder.group0.block0.bn0.bn.running_mean",
        "decoder.mlp.linear_out.weight",
        "decoder.conv_out.weight",
    ] {
        let mut torn = dict.clone();
        torn.remove(name);
        assert!(BexGenerator::new(&Cpu, &torn).is_err(), "{name}");
    }
    // Without its last group the widths no longer fit.
    let mut torn = dict.clone();
    torn.remove("decoder.group2.block0.conv0.weight_orig");
    assert!(BexGenerator::new(&Cpu, &torn).is_err());
    let mut flat = dict.clone();
    let u = flat.get("decoder.group1.block0.conv1.weight_u").unwrap();
    flat.insert(
        "decoder.group1.block0.conv1.weight_u",
        Array::zeros(u.shape.clone()),
    );
    assert!(BexGenerator::new(&Cpu, &flat).is_err());
    assert!(BexEncoder::new(&Cpu, &dict).is_err());
    let unet = UnetEncoderConfig::default();
    let message = build(Architecture::BexGenerator, &Cpu, &dict, &unet);
    assert!(message.err().unwrap().to_string().contains("generator"));
    let generator = BexGenerator::new(&Cpu, &dict).unwrap();
    let narrow = Cpu.upload(&Array::zeros([1, 10])).unwrap();
    assert!(generator.generate(&Cpu, &narrow).is_err());
    let attributes = Array::zeros([1, 5]);
    assert!(generator.embed(&[[0, 47]], &attributes).is_ok());
    assert!(generator.embed(&[[48, 0]], &attributes).is_err());
    assert!(generator.embed(&[[0, 0]], &Array::zeros([1, 4])).is_err());
}
