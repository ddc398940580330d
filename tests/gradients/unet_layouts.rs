//! How the layout of a UNet is read off names and shapes.

use foil::nets::{NetError, Unet, UnetConfig};
use foil::tensor::cpu::Cpu;
use foil::tensor::{Array, Backend, Shape, StateDict};

use safetensors::tensor::{Dtype, TensorView};

use crate::difference::coarse;
use crate::guided_diffusion::{assert_close, find, unet_b, weights};

/// The published 256×256 model, an eighth as wide: two blocks per level, six levels, attention on three of them.
#[test]
fn the_published_layout() {
    let Some(path) = find("diffusion", "full_size_shapes.json") else {
        return;
    };
    let text = std::fs::read(path).expect("a file of shapes");
    let json: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
    let shapes = json["diffusion_model"]["shapes"]
        .as_object()
        .expect("shapes");
    let mut dict = StateDict::new();
    for (name, shape) in shapes {
        let shape: Vec<usize> = shape
            .as_array()
            .expect("a shape")
            .iter()
            .map(|side| side.as_u64().expect("a length") as usize)
            .map(|side| if side >= 256 { side / 8 } else { side })
            .collect();
        let mut array = coarse(name, shape);
        array.data.iter_mut().for_each(|v| *v *= 0.05);
        dict.insert(name, array);
    }
    let config = UnetConfig {
        num_head_channels: 8,
        ..UnetConfig::default()
    };
    let unet = Unet::new(&Cpu, &dict, config).expect("the published layout");
    let x = Cpu.upload(&coarse("x", [1, 3, 64, 32])).unwrap();
    let y = unet.predict(&Cpu, &x, &[100.0], None).unwrap();
    assert_eq!(Cpu.shape(&y), Shape::new(1, 64, 32, 6));
    assert!(Cpu.download(&y).unwrap().data.iter().all(|v| v.is_finite()));
    // Six levels: the size must divide by 32 five times over.
    let x = Cpu.upload(&coarse("x", [1, 3, 48, 48])).unwrap();
    assert!(unet.predict(&Cpu, &x, &[100.0], None).is_err());
}

/// Norms over other groups give another result; groups that do not share out the channels are refused.
#[test]
fn groups_of_the_norms() {
    let Some(dict) = weights("diffusion", "unet_b_weights.safetensors") else {
        return;
    };
    let x = Cpu.upload(&coarse("x", [1, 3, 8, 8])).unwrap();
    let run = |num_groups: usize| -> Result<Array, NetError> {
        let config = UnetConfig {
            num_groups,
            ..unet_b(false)
        };
        let unet = Unet::new(&Cpu, &dict, config)?;
        Ok(Cpu.download(&unet.predict(&Cpu, &x, &[3.0], None)?)?)
    };
    assert_eq!(
        run(32).unwrap(),
        run(UnetConfig::default().num_groups).unwrap()
    );
    assert_ne!(run(32).unwrap(), run(8).unwrap());
    for groups in [0, 7, 64] {
        let error = run(groups).unwrap_err().to_string();
        assert!(error.contains("num_groups"), "{error}");
    }
}

/// A change of size without weights equals one by a convolution that takes means, or that copies.
#[test]
fn changes_of_size_without_weights() {
    let Some(dict) = weights("diffusion", "unet_b_weights.safetensors") else {
        return;
    };
    let (mut with, mut without) = (dict.clone(), dict);
    for (name, taps, value) in [
        ("input_blocks.2.0.op", &[4, 5, 7, 8][..], 0.25),
        ("output_blocks.1.2.conv", &[4][..], 1.0),
    ] {
        let mut kernel = Array::zeros([32, 32, 3, 3]);
        for channel in 0..32 {
            for tap in taps {
                kernel.data[(channel * 32 + channel) * 9 + tap] = value;
            }
        }
        with.insert(format!("{name}.weight"), kernel);
        with.insert(format!("{name}.bias"), Array::zeros([32]));
        without.remove(&format!("{name}.weight"));
        without.remove(&format!("{name}.bias"));
    }
    let x = Cpu.upload(&coarse("x", [2, 3, 8, 16])).unwrap();
    let run = |dict: &StateDict| {
        let unet = Unet::new(&Cpu, dict, unet_b(false)).expect("a UNet");
        Cpu.download(&unet.predict(&Cpu, &x, &[3.0, 900.0], None).unwrap())
            .unwrap()
    };
    assert_close("means and copies", &run(&without), &run(&with), 2e-5);
}

/// Checkpoints in half precision load as they are: their values, computed with in single precision.
#[test]
fn weights_in_half_precision() {
    let Some(dict) = weights("diffusion", "unet_b_weights.safetensors") else {
        return;
    };
    let x = Cpu.upload(&coarse("x", [1, 3, 16, 16])).unwrap();
    let run = |dict: &StateDict| {
        let unet = Unet::new(&Cpu, dict, unet_b(false)).expect("a UNet");
        let y = unet.predict(&Cpu, &x, &[250.0], None).unwrap();
        Cpu.download(&y).unwrap()
    };
    let single = run(&dict);
    let f16 = |v: f32| half::f16::from_f32(v).to_le_bytes();
    let bf16 = |v: f32| half::bf16::from_f32(v).to_le_bytes();
    type Kind<'a> = (
        Dtype,
        &'a dyn Fn(f32) -> [u8; 2],
        &'a dyn Fn(f32) -> f32,
        f32,
    );
    let kinds: [Kind<'_>; 2] = [
        (Dtype::F16, &f16, &|v| half::f16::from_f32(v).to_f32(), 0.02),
        (
            Dtype::BF16,
            &bf16,
            &|v| half::bf16::from_f32(v).to_f32(),
            0.2,
        ),
    ];
    for (dtype, bytes, rounded, near) in kinds {
        let halved: Vec<(String, Vec<usize>, Vec<u8>)> = dict
            .iter()
            .map(|(name, a)| {
                let data = a.data.iter().flat_map(|&v| bytes(v)).collect();
                (name.to_owned(), a.shape.clone(), data)
            })
            .collect();
        let views = halved.iter().map(|(name, shape, data)| {
            (name, TensorView::new(dtype, shape.clone(), data).unwrap())
        });
        let file = safetensors::serialize(views, None).unwrap();
        let loaded = foil::weights::formats::read_bytes(&file, "half.safetensors").unwrap();
        let mut expected = StateDict::new();
        for (name, array) in dict.iter() {
            let data = array.data.iter().map(|&v| rounded(v)).collect();
            expected.insert(name, Array::new(array.shape.clone(), data).unwrap());
        }
        let found = run(&loaded);
        assert_eq!(found, run(&expected), "{dtype:?}");
        assert_ne!(found, single, "{dtype:?}");
        assert_close(&format!("{dtype:?}"), &found, &single, near);
    }
}
