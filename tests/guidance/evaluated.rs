//! The evaluated method: steps and chains of every variant.

use foil::diffusion::{Distance, Given, Guidance, Guide, Guider, Noisy, Strength, X0};
use foil::tensor::Array;
use foil::tensor::candle::{Candle, Differentiable};
use foil::tensor::composed::Composed;

use crate::{CONE, Golden, Tiny, close, close_to_peak, encoder, part, schedule, unet_a};

pub fn guidance(through: bool, cone: bool) -> Guidance {
    Guidance {
        x0: if through { X0::ThroughUnet } else { X0::AtX0 },
        cone: cone.then_some(CONE),
        scale: 0.1,
        distance: Some(Distance {
            exponent: 1.0,
            weight: 0.15,
            through_unet: false,
        }),
        strength: Strength::Mean,
        clip: false,
    }
}

#[test]
fn one_step_of_every_variant() {
    one_step(&Candle);
}

#[test]
fn one_step_of_every_variant_by_composed_operations() {
    one_step(&Composed::on_cpu());
}

fn one_step(on: &impl Differentiable) {
    let (Some(golden), Some(unet)) = (Golden::open("guided_step.safetensors"), unet_a(on)) else {
        return;
    };
    let schedule = schedule(1000, "20");
    let [tiny, near, robust] = ["classifier", "near", "robust"].map(|n| Tiny::new(on, n).unwrap());
    let encoder = encoder(on).unwrap();
    let images = golden.array("x_t");
    let originals = golden.array("init_images");
    let fresh = golden.array("common.noise");
    let (targets, indices) = (golden.numbers("targets"), golden.numbers("index_t"));
    let step = |guidance: Guidance, classifier: &dyn Guide, robust: &dyn Guide| {
        let guider = Guider {
            schedule: &schedule,
            unet: &unet,
            classifier,
            robust: Some(robust),
            guidance,
        };
        let at = Noisy {
            images: &images,
            originals: &originals,
            targets: &targets,
            indices: &indices,
            fresh: &fresh,
        };
        guider.step(at).unwrap()
    };
    // The public code differentiates the mean over the batch.
    let mean_of = |gradient: &Array| Array {
        data: { gradient.data.iter() }
            .map(|v| v / targets.len() as f32)
            .collect(),
        ..gradient.clone()
    };
    let mut variants = 0;
    for (through, cone) in [(true, true), (true, false), (false, true), (false, false)] {
        for name in ["tiny", "near", "unet_encoder"] {
            let prefix = format!("x0{}_cone{}_{name}", u8::from(through), u8::from(cone));
            if !golden.has(&format!("{prefix}.guidance")) {
                continue;
            }
            variants += 1;
            let (classifier, other): (&dyn Guide, &dyn Guide) = match name {
                "tiny" => (&tiny, &robust),
                "near" => (&tiny, &near),
                _ => (&encoder, &robust),
            };
            let found = step(guidance(through, cone), classifier, other);
            assert!(found.without.iter().all(|w| !w));
            let check = |what: &str, array: &Array, tolerance: f32| {
                let what = format!("{prefix}.{what}");
                if golden.has(&what) {
                    close(&what, array, &golden.array(&what), tolerance);
                }
            };
            check("guidance", &found.guidance, 2e-6);
            check("mean_guided", &found.mean, 1e-5);
            check("sample", &found.images, 1e-5);
            for (what, gradient) in [
                ("classifier_grad_before_norm", 0),
                ("target_grad", 0),
                ("robust_grad", 1),
            ] {
                let what = format!("{prefix}.{what}");
                if golden.has(&what) {
                    let found = mean_of(&found.gradients[gradient]);
                    close_to_peak(&what, &found, &golden.array(&what), 1e-4);
                }
            }
            if prefix == "x01_cone1_tiny" {
                for (what, array) in [
                    ("mean_unguided", &found.unguided_mean),
                    ("variance", &found.variance),
                    ("log_variance", &found.log_variance),
                    ("pred_xstart", &found.clean),
                ] {
                    let what = format!("common.{what}");
                    close(&what, array, &golden.array(&what), 2e-5);
                }
            }
        }
    }
    assert_eq!(variants, 8);
    for exponent in [1.5, 2.0] {
        let distance = Some(Distance {
            exponent,
            weight: 0.4,
            through_unet: false,
        });
        let other = Guidance {
            scale: 0.7,
            distance,
            ..guidance(true, true)
        };
        let found = step(other, &tiny, &robust);
        let name = |what: &str| format!("lp{exponent:.1}.{what}");
        let expected = golden.array(&name("lp_grad_before_norm"));
        let pull = foil::diffusion::pull(&found.clean, &originals, exponent);
        close_to_peak(&name("pull"), &pull, &expected, 1e-4);
        close(
            &name("guidance"),
            &found.guidance,
            &golden.array(&name("guidance")),
            1e-5,
        );
        close(
            &name("sample"),
            &found.images,
            &golden.array(&name("sample")),
            1e-5,
        );
    }
}

#[test]
fn ten_steps_of_every_variant() {
    ten_steps(&Candle);
}

#[test]
fn ten_steps_of_every_variant_by_composed_operations() {
    ten_steps(&Composed::on_cpu());
}

fn ten_steps(on: &impl Differentiable) {
    let (Some(golden), Some(unet)) = (Golden::open("chain.safetensors"), unet_a(on)) else {
        return;
    };
    let schedule = schedule(1000, "20");
    let [tiny, robust] = ["classifier", "robust"].map(|n| Tiny::new(on, n).unwrap());
    let noise = golden.array("noise");
    for (through, cone) in [(true, true), (true, false), (false, true), (false, false)] {
        let name = |what: &str| format!("x0{}_cone{}.{what}", u8::from(through), u8::from(cone));
        let guider = Guider {
            schedule: &schedule,
            unet: &unet,
            classifier: &tiny,
            robust: Some(&robust),
            guidance: guidance(through, cone),
        };
        let (mut samples, mut clean, mut first) = (Vec::new(), Vec::new(), None);
        guider
            .chain(
                &golden.array("init_images"),
                &golden.numbers("targets"),
                10,
                &Given(&noise),
                |_, step| {
                    samples.extend(step.images.data.iter().copied());
                    clean.extend(step.clean.data.iter().copied());
                    first.get_or_insert_with(|| step.guidance.clone());
                },
            )
            .unwrap();
        let shaped = |data: Vec<f32>| Array::new(&[10, 2, 3, 16, 16][..], data).unwrap();
        close(
            &name("samples"),
            &shaped(samples),
            &golden.array(&name("samples")),
            1e-4,
        );
        close(
            &name("pred"),
            &shaped(clean),
            &golden.array(&name("pred_xstart")),
            2e-4,
        );
        close(
            &name("first"),
            &first.unwrap(),
            &golden.array(&name("first_guidance")),
            2e-6,
        );
    }
}

#[test]
fn a_hundred_steps() {
    let (Some(golden), Some(unet)) = (Golden::open("chain_long.safetensors"), unet_a(&Candle))
    else {
        return;
    };
    let schedule = schedule(1000, "200");
    let [tiny, robust] = ["classifier", "robust"].map(|n| Tiny::new(&Candle, n).unwrap());
    let noise = golden.array("noise");
    for (through, cone) in [(true, true), (false, false)] {
        let name = |what: &str| format!("x0{}_cone{}.{what}", u8::from(through), u8::from(cone));
        let guider = Guider {
            schedule: &schedule,
            unet: &unet,
            classifier: &tiny,
            robust: Some(&robust),
            guidance: guidance(through, cone),
        };
        let expected = golden.array(&name("samples_every_10"));
        let mut steps = 0;
        let chained = guider
            .chain(
                &golden.array("init_images"),
                &golden.numbers("targets"),
                100,
                &Given(&noise),
                |_, step| {
                    steps += 1;
                    if steps % 10 == 0 {
                        let expected = part(&expected, steps / 10 - 1);
                        close(
                            &name(&format!("step {steps}")),
                            &step.images,
                            &expected,
                            5e-4,
                        );
                    }
                },
            )
            .unwrap();
        assert_eq!(steps, 100);
        let last = golden.array(&name("last_pred_xstart"));
        close(&name("last"), &chained.clean, &last, 5e-4);
    }
}
