//! The area `nets`: forward passes of all classifiers with weights from the integer formula, on photographs, against
//! torchvision, efficientnet-lite-pytorch and guided-diffusion.
//!
//! Largest difference at most 2e-5 of the largest logit (references computed in f64).

mod unet;

use std::collections::BTreeSet;

use sha2::{Digest, Sha256};

use super::check::Check;
use super::error::Of;
use super::folder::{Folder, Layout};
use super::json::Node;
use super::pictures::{Picture, pixels, upload};
use super::weight_table::{bytes_of, hex, shape as shape_of};
use super::{ConformanceError, Result, Source, default_source, synthetic, tensors::Tensors};
use crate::nets::{Architecture, Classifier, UnetEncoderConfig, build};
use crate::tensor::{Backend, StateDict};

pub const LAYOUT: Layout = Layout {
    files: &[
        "nets.json",
        "nets.safetensors",
        "unet_encoder.json",
        "unet_encoder_io.safetensors",
        "unet_encoder_weights.safetensors",
    ],
    images: &["photos"],
    not_run: &[],
};

/// Largest difference, as a share of the largest value.
const LOGITS: f64 = 2e-5;

pub fn run<B: Backend + 'static>(backend: &B, folder: &Folder, check: &mut Check) -> Result<()> {
    classifiers(backend, folder, check)?;
    unet::run(backend, folder, check)
}

fn classifiers<B: Backend + 'static>(
    backend: &B,
    folder: &Folder,
    check: &mut Check,
) -> Result<()> {
    let (Some(json), Some(stored)) = (
        folder.json("nets.json")?,
        folder.tensors("nets.safetensors")?,
    ) else {
        return Ok(());
    };
    let root = json.root();
    root.skip_fields(&[
        "seed_text",
        "value",
        "tensor_row",
        "tap_slice",
        "torch",
        "torchvision",
        "efficientnet_lite_pytorch",
    ]);
    let salt = root.at("salt")?.str()?;
    let input = Input::read(&root)?;
    let mut photos = Vec::new();
    for name in root.at("photos")?.strs()? {
        match photo(folder, name)? {
            Some(picture) => photos.push(picture),
            None => check.absent(format!("photos/{name}")),
        }
    }
    let complete = photos.len() == root.at("photos")?.strs()?.len();
    for (name, net) in root.at("nets")?.fields()? {
        let Ok(architecture) = name.parse::<Architecture>() else {
            continue;
        };
        skip_taps(name, &net, &stored, check)?;
        if !complete {
            net.skip();
            stored
                .names()
                .filter(|n| n.starts_with(&format!("{name}.")))
                .for_each(|n| stored.skip(n));
            check.absent(format!("{name}: all cases (a photograph is absent)"));
            continue;
        }
        check.group(name);
        let dict = weights(name, salt, &net, check)?;
        let network =
            build(architecture, backend, &dict, &UnetEncoderConfig::default()).of(name)?;
        drop(dict);
        let run = Run {
            backend,
            name,
            network: &*network,
            stored: &stored,
            photos: &photos,
            input: &input,
        };
        run.case("", &net, check)?;
        for (case, node) in net.get("cases").map_or(Ok(Vec::new()), |c| c.fields())? {
            run.case(&format!("{case}."), &node, check)?;
        }
    }
    Ok(())
}

/// A photograph: in the folder itself, beside it in `weights/photos`, in the default data of the area `weights`, or
/// inside the program.
fn photo(folder: &Folder, name: &str) -> Result<Option<Picture>> {
    let file = format!("photos/{name}");
    let mut places = Vec::new();
    if let Source::Folder(path) = folder.source() {
        places.push(Source::Folder(path.join("../weights")));
    }
    places.extend([default_source("weights"), Source::Builtin]);
    let mut found = folder.bytes(&file)?;
    for place in places {
        let present = !matches!(&place, Source::Folder(path) if !path.is_dir());
        if found.is_none() && present {
            found = Folder::open("weights", place)?.bytes(&file)?;
        }
    }
    found.map(|bytes| pixels(&file, &bytes)).transpose()
}

/// Slices of intermediate activations are for finding a fault by hand: networks give out logits and embedding only.
fn skip_taps(name: &str, net: &Node<'_>, stored: &Tensors, check: &mut Check) -> Result<()> {
    let Some(taps) = net.get("taps") else {
        return Ok(());
    };
    let mut slices = Vec::new();
    for (tap, module) in taps.fields()? {
        let tensor = format!("{name}.{tap}");
        if stored.contains(&tensor) {
            stored.skip(&tensor);
            slices.push(format!("{tensor} (module {})", module.str()?));
        }
    }
    if !slices.is_empty() {
        let reason = "slices of inner modules, which no public function gives";
        check.unused(format!("nets.safetensors: {}", slices.join(", ")), reason);
    }
    Ok(())
}

/// The weights of a network, checked by the sha256 over all of them.
fn weights(name: &str, salt: &str, net: &Node<'_>, check: &mut Check) -> Result<StateDict> {
    let mut dict = StateDict::new();
    let mut digest = Sha256::new();
    for row in net.at("tensors")?.items()? {
        row.skip();
        let [tensor, shape, offset, scale] = &row.items()?[..] else {
            return Err(row.wrong("[name, shape, offset, scale]"));
        };
        let tensor = tensor.str()?;
        let array = synthetic::tensor(salt, tensor, &shape_of(shape)?, offset.f64()?, scale.f64()?);
        digest.update(bytes_of(&array.data));
        dict.insert(tensor, array);
    }
    if let Some(expected) = net.get("weights_sha256") {
        let got = hex(&digest.finalize());
        check.equal(format!("{name} weights sha256"), expected.str()?, &got[..]);
    }
    Ok(dict)
}

/// `(pixel/255 − mean)/std`.
struct Input {
    scale: Vec<f32>,
    shift: Vec<f32>,
}

impl Input {
    fn read(root: &Node<'_>) -> Result<Self> {
        let preprocessing = root.at("preprocessing")?;
        preprocessing.skip_fields(&["formula"]);
        let mean = preprocessing.at("mean")?.f64s()?;
        let std = preprocessing.at("std")?.f64s()?;
        Ok(Self {
            scale: std.iter().map(|s| (1.0 / 255.0 / s) as f32).collect(),
            shift: mean
                .iter()
                .zip(&std)
                .map(|(m, s)| (-m / s) as f32)
                .collect(),
        })
    }
}

struct Run<'a, B: Backend> {
    backend: &'a B,
    name: &'a str,
    network: &'a dyn Classifier<B>,
    stored: &'a Tensors,
    photos: &'a [Picture],
    input: &'a Input,
}

impl<B: Backend> Run<'_, B> {
    /// Runs one crop of the photographs and compares every stored tensor of that case.
    fn case(&self, case: &str, node: &Node<'_>, check: &mut Check) -> Result<()> {
        node.skip_fields(&[
            "max_abs",
            "float64_max_relative_error",
            "embedding_float64_max_relative_error",
        ]);
        let what = format!("{} {case}", self.name);
        let text = node.at("input")?.str()?;
        let Some([top, bottom, left, right]) = window(text) else {
            return Err(ConformanceError::Content {
                file: "nets.json".into(),
                place: format!("{}.input", node.path()),
                expected: "a text with `rows a..b, columns c..d`".into(),
                found: text.into(),
            });
        };
        let backend = self.backend;
        let x = upload(backend, &self.photos.iter().collect::<Vec<_>>())?;
        let x = backend
            .crop(&x, top, left, bottom - top, right - left)
            .of(&what)?;
        let (scale, shift) = (&self.input.scale, &self.input.shift);
        let x = backend.affine(&x, &[0, 1, 2], scale, shift).of(&what)?;
        let got = self.network.predict(backend, &x).of(&what)?;
        let mut compared = BTreeSet::new();
        for (part, tensor) in [("logits", &got.logits), ("embedding", &got.embedding)] {
            let name = format!("{}.{case}{part}", self.name);
            let got = backend.download(tensor).of(&what)?;
            if let Some(shape) = node.get(&format!("{part}_shape")) {
                check.equal(format!("{what}{part} shape"), &shape.usizes()?, &got.shape);
            }
            if self.stored.contains(&name) {
                let expected = self.stored.f32(&name)?;
                check.close_to_peak(&name, &expected.data, &got.data, LOGITS);
                compared.insert(name);
            }
        }
        if compared.is_empty() {
            return Err(self.stored.wrong(
                &format!("{}.{case}logits", self.name),
                "a tensor",
                "none".into(),
            ));
        }
        Ok(())
    }
}

/// The crop in a text such as `centre crop 224x224 (…), rows 16..240, columns 16..240, …`.
fn window(text: &str) -> Option<[usize; 4]> {
    let range = |label: &str| {
        let (_, rest) = text.split_once(label)?;
        let (start, rest) = rest.split_once("..")?;
        let end = rest.split(',').next()?;
        let (start, end): (usize, usize) = (start.trim().parse().ok()?, end.trim().parse().ok()?);
        (start < end).then_some([start, end])
    };
    let ([top, bottom], [left, right]) = (range("rows ")?, range("columns ")?);
    Some([top, bottom, left, right])
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_crop_is_read_out_of_its_description() {
        let text =
            "top-left crop 101x139 (height x width), rows 0..101, columns 3..139, ends excluded";
        assert_eq!(super::window(text), Some([0, 101, 3, 139]));
        assert_eq!(super::window("whole photograph"), None);
    }
}
