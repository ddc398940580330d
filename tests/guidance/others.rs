//! Classic classifier guidance, DDIM, and DVCE.

use foil::diffusion::{
    Distance, Given, Guidance, Guide, Guider, Noisy, Strength, X0, ddim, drawn, moments,
    noise_between, without_noise,
};
use foil::tensor::Array;
use foil::tensor::candle::{Candle, Differentiable, Tensor};
use foil::tensor::composed::Composed;

use crate::{CONE, Golden, Tiny, close, encoder, part, schedule, unet_a};

#[test]
fn unguided_steps() {
    let Some(golden) = Golden::open("p_mean_variance.safetensors") else {
        return;
    };
    let schedule = schedule(1000, "20");
    let (x, output) = (golden.array("x_t"), golden.array("model_output"));
    let at = golden.numbers("index_t");
    let clipped = moments(&schedule, &x, &output, &at, true).unwrap();
    let plain = moments(&schedule, &x, &output, &at, false).unwrap();
    let noise = golden.array("p_sample_unguided_clip.noise");
    let found = drawn(&clipped.mean, &clipped.log_variance, &noise, &at);
    close(
        "p_sample",
        &found,
        &golden.array("p_sample_unguided_clip.sample"),
        1e-5,
    );
    let none = Array::zeros(x.shape.clone());
    let found = ddim(&schedule, &x, &plain.clean, &none, &at, 0.0);
    close("ddim 0", &found, &golden.array("ddim_eta0.sample"), 1e-5);
    let noise = golden.array("ddim_eta0_5.noise");
    let found = ddim(&schedule, &x, &clipped.clean, &noise, &at, 0.5);
    close(
        "ddim 0.5",
        &found,
        &golden.array("ddim_eta0_5.sample"),
        1e-5,
    );
}

#[test]
fn classic_guidance() {
    classic(&Candle);
}

#[test]
fn classic_guidance_by_composed_operations() {
    classic(&Composed::on_cpu());
}

fn classic(on: &impl Differentiable) {
    let (Some(golden), Some(unet), Some(encoder)) = (
        Golden::open("openai_guided_step.safetensors"),
        unet_a(on),
        encoder(on),
    ) else {
        return;
    };
    let schedule = schedule(1000, "20");
    let images = golden.array("x_t");
    let (targets, indices) = (golden.numbers("targets"), golden.numbers("index_t"));
    for (scale, clip) in [(1.0, false), (1.0, true), (2.5, false), (2.5, true)] {
        let name = |what: &str| format!("s{scale:.1}_clip{}.{what}", u8::from(clip));
        let fresh = golden.array(&name("ddpm.noise"));
        let guider = Guider {
            schedule: &schedule,
            unet: &unet,
            classifier: &encoder,
            robust: None,
            guidance: Guidance {
                x0: X0::Off,
                cone: None,
                scale,
                distance: None,
                strength: Strength::Plain,
                clip,
            },
        };
        let found = guider
            .step(Noisy {
                images: &images,
                originals: &images,
                targets: &targets,
                indices: &indices,
                fresh: &fresh,
            })
            .unwrap();
        close(
            &name("guidance"),
            &found.guidance,
            &golden.array(&name("ddpm.guidance")),
            1e-5,
        );
        close(
            &name("sample"),
            &found.images,
            &golden.array(&name("ddpm.sample")),
            1e-5,
        );
        // By DDIM: the noise is bent instead of the mean.
        let mut noise = noise_between(&schedule, &images, &found.clean, &indices);
        let len = images.len() / indices.len();
        for (k, noise) in noise.data.iter_mut().enumerate() {
            let spread = (1.0 - schedule.alphas[indices[k / len]]).sqrt() as f32;
            *noise -= spread * found.guidance.data[k];
        }
        let clean = without_noise(&schedule, &images, &noise, &indices);
        let next = ddim(&schedule, &images, &clean, &fresh, &indices, 0.0);
        let expected = golden.array(&name("ddim_eta0.pred_xstart"));
        close(&name("ddim clean"), &clean, &expected, 2e-5);
        close(
            &name("ddim"),
            &next,
            &golden.array(&name("ddim_eta0.sample")),
            1e-5,
        );
    }
}

fn dvce(on: &impl Differentiable, file: &str, through_unet: bool) {
    let (Some(golden), Some(unet)) = (Golden::open(file), unet_a(on)) else {
        return;
    };
    let schedule = schedule(1000, "20");
    let [tiny, robust] = ["classifier", "robust"].map(|n| Tiny::new(on, n).unwrap());
    let mut originals = golden.array("init_images_0_1");
    originals.data.iter_mut().for_each(|v| *v = 2.0 * *v - 1.0);
    for (name, cone) in [("single", false), ("cone", true)] {
        let noise = golden.array(&format!("{name}.noise"));
        let guider = Guider {
            schedule: &schedule,
            unet: &unet,
            classifier: &Halved(&tiny),
            robust: Some(&Halved(&robust)),
            guidance: Guidance {
                x0: X0::ThroughUnet,
                cone: cone.then_some(CONE),
                scale: 0.1,
                distance: Some(Distance {
                    exponent: 1.0,
                    weight: 0.15,
                    through_unet,
                }),
                strength: Strength::Noise,
                clip: false,
            },
        };
        let samples = golden.array(&format!("{name}.samples"));
        let mut step = 0;
        let targets = golden.numbers("targets");
        let end = guider
            .chain(&originals, &targets, 8, &Given(&noise), |_, found| {
                let what = format!("{name} step {step}");
                close(&what, &found.images, &part(&samples, step), 1e-4);
                step += 1;
            })
            .unwrap();
        let mut last = end.clean;
        last.data
            .iter_mut()
            .for_each(|v| *v = ((*v + 1.0) / 2.0).clamp(0.0, 1.0));
        close(
            name,
            &last,
            &golden.array(&format!("{name}.output_0_1")),
            1e-4,
        );
    }
}

/// DVCE shows its classifiers images from 0 to 1.
struct Halved<'a, B: Differentiable>(&'a Tiny<B>);

impl<B: Differentiable> Guide for Halved<'_, B> {
    fn logits(
        &self,
        images: &Tensor,
        steps: &[f32],
    ) -> Result<Tensor, foil::diffusion::DiffusionError> {
        let half = self.0.on.affine(images, &[0, 1, 2], &[0.5; 3], &[0.5; 3])?;
        self.0.logits(&half, steps)
    }
}

#[test]
fn dvce_with_the_distance_at_the_predicted_image() {
    dvce(&Candle, "dvce.safetensors", false);
}

#[test]
fn dvce_with_the_distance_through_the_unet() {
    dvce(&Candle, "dvce_distance_through_unet.safetensors", true);
}

#[test]
fn dvce_by_composed_operations() {
    let on = Composed::on_cpu();
    dvce(&on, "dvce_distance_through_unet.safetensors", true);
}
