//! DiME.

use std::sync::Mutex;

use foil::diffusion::{DiffusionError, Dime, DimeSettings, Features, Given, Loss, Noise};
use foil::tensor::candle::{Candle, Differentiable, Tensor};
use foil::tensor::composed::Composed;
use foil::tensor::{Activation, Array, Conv};

use crate::{Golden, Tiny, close, close_to_peak, part, schedule, unet_a};

struct Perceptual<B: Differentiable>(B, [B::Conv; 2]);

impl<B: Differentiable> Perceptual<B> {
    fn new(on: &B, golden: &Golden) -> Self {
        let convs = [0, 2].map(|i| {
            let weight = golden.array(&format!("perceptual.{i}.weight"));
            let bias = golden.array(&format!("perceptual.{i}.bias")).data;
            let spec = Conv::square(weight.shape[1], weight.shape[0], 3)
                .padding(1)
                .activation(Activation::Relu);
            on.prepare(spec, &weight, &bias).unwrap()
        });
        Self(on.clone(), convs)
    }
}

impl<B: Differentiable> Features for Perceptual<B> {
    fn features(&self, images: &Tensor) -> Result<Tensor, DiffusionError> {
        let mut x = images.clone();
        for conv in &self.1 {
            x = self.0.conv(&x, conv, None)?;
        }
        Ok(x)
    }
}

#[test]
fn attempts_with_one_scale() {
    attempts(&Candle);
}

#[test]
fn attempts_with_one_scale_by_composed_operations() {
    attempts(&Composed::on_cpu());
}

fn attempts(on: &impl Differentiable) {
    let (Some(golden), Some(unet)) = (Golden::open("dime.safetensors"), unet_a(on)) else {
        return;
    };
    let schedule = schedule(500, "20");
    let tiny = Tiny::new(on, "classifier").unwrap();
    let perceptual = Perceptual::new(on, &golden);
    let originals = golden.array("init_images");
    let targets = golden.numbers("targets");
    for (name, loss, l2, weight, scale, sampled) in [
        ("logits_l1_perc", Loss::Logit(3), 0.0, 30.0, 8.0, true),
        (
            "logsigmoid_l1_l2_noperc",
            Loss::LogSigmoid(3),
            0.1,
            0.0,
            10.0,
            true,
        ),
        ("mean_inner_chain", Loss::Logit(3), 0.0, 30.0, 15.0, false),
    ] {
        let dime = Dime {
            schedule: &schedule,
            unet: &unet,
            classifier: &tiny,
            features: Some(&perceptual),
            settings: DimeSettings {
                loss,
                l1: 0.05,
                l2,
                perceptual: weight,
                start: 5,
                sampled,
            },
        };
        let part_of = |what: &str, k: usize| part(&golden.array(&format!("{name}.{what}")), k);
        let noise = golden.array(&format!("{name}.noise_in_draw_order"));
        assert_eq!(noise.shape[0], 1 + dime.draws());
        let noise = Given(&noise);
        let begin = dime.begin(&originals, &noise).unwrap();
        close(
            name,
            &begin,
            &golden.array(&format!("{name}.noisy_start")),
            1e-5,
        );
        let mut k = 0;
        let end = dime
            .attempt(&originals, &targets, &begin, scale, (&noise, 1), |step| {
                let what = |w: &str| format!("{name} step {k} {w}");
                close(&what("z"), step.noisy, &part_of("z_t_steps", k), 1e-4);
                close(&what("x"), step.clean, &part_of("x_t_steps", k), 1e-4);
                let expected = part_of("class_grad_steps", k);
                close_to_peak(&what("class"), step.class_gradient, &expected, 1e-4);
                let expected = part_of("dist_grad_steps", k);
                close_to_peak(&what("distance"), step.distance_gradient, &expected, 1e-4);
                k += 1;
            })
            .unwrap();
        assert_eq!(k, 5);
        let expected = golden.array(&format!("{name}.counterfactual"));
        close(name, &end, &expected, 1e-4);
    }
}

/// Draws one after the other, whatever image they are for.
struct InOrder(Mutex<Vec<f32>>);

impl Noise for InOrder {
    fn fill(&self, _image: usize, _draw: usize, to: &mut [f32]) {
        let mut left = self.0.lock().unwrap();
        let rest = left.split_off(to.len());
        to.copy_from_slice(&left);
        *left = rest;
    }
}

#[test]
fn the_search_for_a_scale() {
    let (Some(golden), Some(unet)) = (Golden::open("dime.safetensors"), unet_a(&Candle)) else {
        return;
    };
    let schedule = schedule(500, "20");
    let tiny = Tiny::new(&Candle, "classifier").unwrap();
    let perceptual = Perceptual::new(&Candle, &golden);
    let dime = Dime {
        schedule: &schedule,
        unet: &unet,
        classifier: &tiny,
        features: Some(&perceptual),
        settings: DimeSettings {
            loss: Loss::Logit(3),
            l1: 0.05,
            l2: 0.0,
            perceptual: 30.0,
            start: 3,
            sampled: true,
        },
    };
    for (name, scales) in [
        ("grid_8_10_15", [8.0, 10.0, 15.0]),
        ("grid_20_40_80", [20.0, 40.0, 80.0]),
    ] {
        let noise = golden.array(&format!("{name}.noise_flat")).data;
        let (images, reached) = dime
            .search(
                &golden.array("grid.init_images"),
                &golden.numbers("grid.targets"),
                &scales,
                &InOrder(Mutex::new(noise)),
            )
            .unwrap();
        let expected: Array = golden.array(&format!("{name}.counterfactual"));
        close(name, &images, &expected, 1e-4);
        let flipped: Vec<usize> = reached.iter().map(|r| usize::from(r.is_some())).collect();
        assert_eq!(flipped, golden.numbers(&format!("{name}.transformed")));
    }
}
