//! The torso of a UNet in f16 and bf16: how far it is from f32, that small gradients survive, and that neither batch nor
//! checkpointing changes a bit.

use foil::nets::{Unet, UnetConfig};
use foil::tensor::candle::{Candle, Differentiable, Tensor};
use foil::tensor::composed::Composed;
use foil::tensor::{Array, Backend, Kept, StateDict};

use crate::checkpointing::{bits, passes, seeded};
use crate::difference::{coarse, weighted_sum};
use crate::guided_diffusion::{unet_b, weights};

const STEPS: [f32; 2] = [700.0, 20.0];
const HALVES: [Kept; 2] = [Kept::F16, Kept::Bf16];

/// The seeded network, and the golden one where it is.
fn networks() -> Vec<(&'static str, StateDict, UnetConfig)> {
    let (dict, config) = seeded();
    let mut all = vec![("seeded", dict, config)];
    if let Some(dict) = weights("diffusion", "unet_b_weights.safetensors") {
        all.push(("unet_b", dict, unet_b(false)));
    }
    all
}

fn unet<B: Backend>(b: &B, dict: &StateDict, config: &UnetConfig, torso: Kept) -> Unet<B> {
    let config = UnetConfig {
        torso,
        ..config.clone()
    };
    Unet::new(b, dict, config).unwrap()
}

/// Largest difference, in largest values of what was expected.
fn error(found: &Array, expected: &Array) -> f64 {
    let peak = expected.data.iter().fold(0.0f32, |m, v| m.max(v.abs()));
    let pairs = found.data.iter().zip(&expected.data);
    let worst = pairs.fold(0.0f32, |m, (a, b)| m.max((a - b).abs()));
    f64::from(worst / peak)
}

/// Some thirty results are rounded one after another, each by half a unit at most. Errors add up like steps in random
/// directions, √30 ≈ 5.5 roundings, and the largest of thousands of values is some two to four times the usual one; a gradient
/// meets the roundings of both ways.
#[test]
fn a_half_torso_is_as_far_from_f32_as_its_roundings_explain() {
    for (name, dict, config) in networks() {
        let x = coarse("noisy", [2, 3, 16, 16]);
        let exact = passes(
            &Candle,
            &unet(&Candle, &dict, &config, Kept::F32),
            &x,
            &STEPS,
        );
        for kept in HALVES {
            let found = passes(&Candle, &unet(&Candle, &dict, &config, kept), &x, &STEPS);
            let [output, gradient] = [error(&found.0, &exact.0), error(&found.1, &exact.1)];
            println!("{name} {kept}: output {output:.2e}, gradient {gradient:.2e}");
            let u = kept.rounding();
            // Less than a tenth of a rounding would mean that nothing was rounded.
            assert!(
                (0.1 * u..11.0 * u).contains(&output),
                "{name} {kept}: {output}"
            );
            assert!(
                (0.1 * u..22.0 * u).contains(&gradient),
                "{name} {kept}: {gradient}"
            );
        }
    }
}

#[test]
fn composed_operations_round_the_torso_as_the_engine_does() {
    let (dict, config) = seeded();
    let on = Composed::on_cpu();
    let x = coarse("noisy", [2, 3, 16, 16]);
    for kept in HALVES {
        let engine = passes(&Candle, &unet(&Candle, &dict, &config, kept), &x, &STEPS);
        let plain = passes(&on, &unet(&on, &dict, &config, kept), &x, &STEPS);
        let u = kept.rounding();
        assert!(error(&plain.0, &engine.0) < 11.0 * u, "{kept}: outputs");
        assert!(error(&plain.1, &engine.1) < 22.0 * u, "{kept}: gradients");
        let again = unet(&on, &dict, &config, kept).with_checkpointing(true);
        let again = passes(&on, &again, &x, &STEPS);
        assert_eq!(bits(&again.0), bits(&plain.0), "{kept}: outputs");
        assert!(
            error(&again.1, &plain.1) < 22.0 * u,
            "{kept}: gradients with checkpointing"
        );
    }
}

#[test]
fn checkpointing_changes_no_bit_of_a_half_torso() {
    for (name, dict, config) in networks() {
        let x = coarse("noisy", [2, 3, 16, 16]);
        for kept in HALVES {
            let plain = passes(&Candle, &unet(&Candle, &dict, &config, kept), &x, &STEPS);
            let again = unet(&Candle, &dict, &config, kept).with_checkpointing(true);
            let again = passes(&Candle, &again, &x, &STEPS);
            assert_eq!(bits(&plain.0), bits(&again.0), "{name} {kept}: outputs");
            assert_eq!(bits(&plain.1), bits(&again.1), "{name} {kept}: gradients");
        }
    }
}

/// The gradient of a loss that is multiplied by a number.
fn gradient(unet: &Unet<Candle>, x: &Array, steps: &[f32], factor: f64) -> Array {
    let by = Candle.variable(x).unwrap();
    let seen = Tensor::new(by.as_tensor()).unwrap();
    let y = unet.predict(&Candle, &seen, steps, None).unwrap();
    let loss = (weighted_sum(&Candle, &y).0 * factor).unwrap();
    let all = loss.backward().unwrap();
    let found = Tensor::new(all.get(by.as_tensor()).unwrap()).unwrap();
    Candle.download(&found).unwrap()
}

/// Gradients of 1e-18 are far below the smallest number of f16.
#[test]
fn gradients_too_small_for_f16_keep_all_their_bits() {
    let (dict, config) = seeded();
    let unet = unet(&Candle, &dict, &config, Kept::F16);
    let x = coarse("noisy", [2, 3, 16, 16]);
    let factor = 2.0f64.powi(-60);
    let plain = gradient(&unet, &x, &STEPS, 1.0);
    let small = gradient(&unet, &x, &STEPS, factor);
    assert!(plain.data.iter().any(|v| *v != 0.0));
    for (plain, small) in plain.data.iter().zip(&small.data) {
        assert_eq!(*small, plain * factor as f32);
    }
}

/// The power of two that lifts a gradient belongs to the image.
#[test]
fn an_image_has_the_same_bits_in_any_batch() {
    let (dict, config) = seeded();
    let unet = unet(&Candle, &dict, &config, Kept::F16);
    let both = coarse("noisy", [2, 3, 16, 16]);
    let together = gradient(&unet, &both, &STEPS, 1.0);
    let one = Array {
        shape: vec![1, 3, 16, 16],
        data: both.row(0).to_vec(),
    };
    let alone = gradient(&unet, &one, &STEPS[..1], 1.0);
    let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(together.row(0)), bits(alone.row(0)));
}

#[test]
fn devices_without_gradients_refuse_a_half_torso() {
    let (dict, config) = seeded();
    let cpu = foil::tensor::cpu::Cpu;
    let unet = unet(&cpu, &dict, &config, Kept::F16);
    let x = cpu.upload(&coarse("noisy", [2, 3, 16, 16])).unwrap();
    let said = unet.predict(&cpu, &x, &STEPS, None).map(drop).unwrap_err();
    assert!(said.to_string().contains("f16"), "{said}");
}
