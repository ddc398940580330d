//! Gradient checkpointing: the same gradients to the bit, from the inputs of blocks alone.

use foil::diffusion::{
    Betas, Clean, Cone, ConeRule, Distance, Fitting, Guidance, Guided, Guider, Noisy, Sampler,
    Schedule, Strength, Unconditional, X0, spaced,
};
use foil::nets::{Architecture, Unet, UnetConfig, UnetEncoderConfig, build};
use foil::tensor::candle::{Candle, Differentiable, Tensor};
use foil::tensor::composed::Composed;
use foil::tensor::{Array, Backend, StateDict};
use foil::train::UnetLayout;

use crate::difference::{coarse, weighted_sum};
use crate::guided_diffusion::{unet_b, weights};

/// Three levels with attention on two, in which the size changes without weights; nothing in it is zero.
pub fn seeded() -> (StateDict, UnetConfig) {
    let layout = UnetLayout {
        channels: 3,
        width: 32,
        factors: vec![1, 2, 2],
        blocks: 2,
        attention: vec![1, 2],
    };
    let mut dict = StateDict::new();
    for (name, array) in layout.initial(7).iter() {
        let mut values = coarse(name, array.shape.clone());
        let inputs: usize = array.shape.iter().skip(1).product();
        let scale = 1.0 / (inputs.max(4) as f32).sqrt();
        values.data.iter_mut().for_each(|v| *v *= scale);
        dict.insert(name, values);
    }
    let config = UnetConfig {
        num_head_channels: 16,
        ..UnetConfig::default()
    };
    (dict, config)
}

/// Output and gradient by the image.
pub fn passes<B: Differentiable>(
    b: &B,
    unet: &Unet<B>,
    x: &Array,
    steps: &[f32],
) -> (Array, Array) {
    let by = b.variable(x).unwrap();
    let seen = Tensor::new(by.as_tensor()).unwrap();
    let y = unet.predict(b, &seen, steps, None).unwrap();
    let grads = weighted_sum(b, &y).0.backward().unwrap();
    let gradient = Tensor::new(grads.get(by.as_tensor()).unwrap()).unwrap();
    (
        Candle.download(&y).unwrap(),
        Candle.download(&gradient).unwrap(),
    )
}

pub fn bits(array: &Array) -> Vec<u32> {
    array.data.iter().map(|v| v.to_bits()).collect()
}

fn assert_same_bits(dict: &StateDict, config: &UnetConfig, size: usize) {
    let build = || Unet::new(&Candle, dict, config.clone()).unwrap();
    let x = coarse("noisy", [2, 3, size, size]);
    let steps = [700.0, 20.0];
    let plain = passes(&Candle, &build(), &x, &steps);
    let checkpointed = passes(&Candle, &build().with_checkpointing(true), &x, &steps);
    assert_eq!(bits(&plain.0), bits(&checkpointed.0), "outputs");
    assert_eq!(bits(&plain.1), bits(&checkpointed.1), "gradients");
    assert!(plain.1.data.iter().any(|v| *v != 0.0));
}

#[test]
fn gradients_with_and_without_checkpointing_have_the_same_bits() {
    let (dict, config) = seeded();
    assert_same_bits(&dict, &config, 16);
    if let Some(dict) = weights("diffusion", "unet_b_weights.safetensors") {
        assert_same_bits(&dict, &unet_b(false), 16);
    }
}

/// There, gradients are added up in another order.
#[test]
fn composed_operations_give_the_same_gradients_with_checkpointing() {
    let (dict, config) = seeded();
    let on = Composed::on_cpu();
    let build = || Unet::new(&on, &dict, config.clone()).unwrap();
    let x = coarse("noisy", [2, 3, 16, 16]);
    let steps = [700.0, 20.0];
    let plain = passes(&on, &build(), &x, &steps);
    let checkpointed = passes(&on, &build().with_checkpointing(true), &x, &steps);
    assert_eq!(bits(&plain.0), bits(&checkpointed.0), "outputs");
    let pairs = plain.1.data.iter().zip(&checkpointed.1.data);
    let worst = pairs.fold(0.0f32, |m, (a, b)| m.max((a - b).abs()));
    let peak = plain.1.data.iter().fold(0.0f32, |m, v| m.max(v.abs()));
    assert!(peak > 0.0 && worst <= 1e-5 * peak, "{worst} of {peak}");
}

/// Two classifiers and a distance go back through one graph.
#[test]
fn a_guided_step_with_checkpointing_has_the_same_bits() {
    let (dict, config) = seeded();
    let judge = |name: &str| {
        let mut dict = StateDict::new();
        for (layer, shape) in [("features.0", [8, 3]), ("features.1", [8, 8])] {
            let weight = coarse(&format!("{name}{layer}"), [shape[0], shape[1], 3, 3]);
            dict.insert(format!("{layer}.conv.weight"), weight);
            for part in ["weight", "bias", "running_mean", "running_var"] {
                let mut values = coarse(&format!("{name}{layer}{part}"), [shape[0]]);
                if part == "running_var" {
                    values.data.iter_mut().for_each(|v| *v += 1.5);
                }
                dict.insert(format!("{layer}.norm.{part}"), values);
            }
        }
        dict.insert("head.weight", coarse(&format!("{name}head"), [4, 8]));
        dict.insert("head.bias", coarse(name, [4]));
        let unet = UnetEncoderConfig::default();
        Clean {
            backend: Candle,
            net: build(Architecture::PlainCnn, &Candle, &dict, &unet).unwrap(),
            fitting: Fitting::default(),
        }
    };
    let (classifier, robust) = (judge("one"), judge("other"));
    let schedule = Schedule::new(Betas::Linear, 1000).unwrap();
    let schedule = schedule.respaced(&spaced(1000, "20").unwrap()).unwrap();
    let images = coarse("noisy", [2, 3, 16, 16]);
    let originals = coarse("originals", [2, 3, 16, 16]);
    let step = |checkpointing: bool| -> Guided {
        let unet = Unet::new(&Candle, &dict, config.clone()).unwrap();
        let guider = Guider {
            schedule: &schedule,
            unet: &Unconditional {
                backend: Candle,
                net: unet.with_checkpointing(checkpointing),
            },
            classifier: &classifier,
            robust: Some(&robust),
            guidance: Guidance {
                x0: X0::ThroughUnet,
                cone: Some(Cone {
                    degrees: 30.0,
                    rule: ConeRule::Projection,
                }),
                scale: 0.1,
                distance: Some(Distance {
                    exponent: 1.0,
                    weight: 0.15,
                    through_unet: true,
                }),
                strength: Strength::Mean,
                clip: false,
            },
            sampler: Sampler::Ddpm,
        };
        guider
            .step(Noisy {
                images: &images,
                originals: &originals,
                targets: &[1, 3],
                indices: &[9, 4],
                fresh: &originals,
            })
            .unwrap()
    };
    let (plain, checkpointed) = (step(false), step(true));
    assert_eq!(bits(&plain.images), bits(&checkpointed.images));
    for (a, b) in plain.gradients.iter().zip(&checkpointed.gradients) {
        assert_eq!(bits(a), bits(b));
        assert!(a.data.iter().any(|v| *v != 0.0));
    }
}
