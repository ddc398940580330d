//! Counterfactual latents as a file, which any program can write.
//!
//! A safetensors file with `z` `[s, 11]`, the standardised latents of the samples, and `z_cf` `[s, n, 11]`, their
//! counterfactuals. `index` `[s]` (numbers in the validation set) is for people. The metadata's `foil` says in JSON how foil made
//! them, and `world` in it in which world, so that they are not scored in another one by mistake.

use std::collections::HashMap;
use std::path::Path;

use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors, serialize};
use serde_json::Value;

use super::{LATENT, Latent, LatentError, Result, World};
use crate::tensor::TypedArrays;

/// What such a file holds.
#[derive(Clone, Debug, PartialEq)]
pub struct LatentFile {
    pub z: Vec<Latent>,
    pub z_cf: Vec<Latent>,
    /// Counterfactuals of each sample.
    pub n: usize,
    pub index: Vec<usize>,
    /// How they were made; null of files by other programs.
    pub about: Value,
}

/// Where the metadata tells how latents were made. One entry, since the order of several would differ between runs.
const ABOUT: &str = "foil";

/// Writes a file whole.
pub fn write_latents(path: &Path, file: &LatentFile) -> Result<()> {
    let samples = file.z.len();
    let index = numbers(&file.index);
    let tensors: [Tensor<'_>; 3] = [
        (
            "z",
            Dtype::F32,
            vec![samples, LATENT],
            bytemuck::cast_slice(&file.z),
        ),
        (
            "z_cf",
            Dtype::F32,
            vec![samples, file.n, LATENT],
            bytemuck::cast_slice(&file.z_cf),
        ),
        (
            "index",
            Dtype::I64,
            vec![samples],
            bytemuck::cast_slice(&index),
        ),
    ];
    write(path, &tensors, &file.about)
}

/// Writes a world's samples and its space, for programs that explain them: `z`, `logits` `[s, 2]`, `images` `[s, channels · height · width]` as
/// the classifier sees them (−1 to 1), `index`; `mean`, `std`, `low` and `high` `[11]` of latents, and the standardised tables `characters`
/// and `fonts` `[m, 3]`.
pub fn write_samples(path: &Path, world: &World) -> Result<()> {
    let (samples, space) = (&world.samples, &world.space);
    let (n, pixels) = (samples.z.len(), world.networks.pixels());
    let index = numbers(&samples.index);
    let vector = |name, values| (name, Dtype::F32, vec![LATENT], bytemuck::cast_slice(values));
    let tensors: [Tensor<'_>; 10] = [
        (
            "z",
            Dtype::F32,
            vec![n, LATENT],
            bytemuck::cast_slice(&samples.z),
        ),
        (
            "logits",
            Dtype::F32,
            vec![n, 2],
            bytemuck::cast_slice(&samples.logits),
        ),
        (
            "images",
            Dtype::F32,
            vec![n, pixels],
            bytemuck::cast_slice(&samples.images),
        ),
        ("index", Dtype::I64, vec![n], bytemuck::cast_slice(&index)),
        vector("mean", &space.mean),
        vector("std", &space.std),
        vector("low", &space.low),
        vector("high", &space.high),
        (
            "characters",
            Dtype::F32,
            vec![space.characters.len(), 3],
            bytemuck::cast_slice(&space.characters),
        ),
        (
            "fonts",
            Dtype::F32,
            vec![space.fonts.len(), 3],
            bytemuck::cast_slice(&space.fonts),
        ),
    ];
    write(
        path,
        &tensors,
        &serde_json::json!({ "world": world.identity }),
    )
}

/// Name, type, shape and bytes.
type Tensor<'a> = (&'static str, Dtype, Vec<usize>, &'a [u8]);

fn numbers(index: &[usize]) -> Vec<i64> {
    index.iter().map(|&i| i as i64).collect()
}

fn write(path: &Path, tensors: &[Tensor<'_>], about: &Value) -> Result<()> {
    let wrong = |e: &dyn ToString| LatentError::file(path.display(), e.to_string());
    let mut views = Vec::new();
    for (name, dtype, shape, bytes) in tensors {
        let view = TensorView::new(*dtype, shape.clone(), bytes).map_err(|e| wrong(&e))?;
        views.push((*name, view));
    }
    let about = match about {
        Value::Null => None,
        about => Some(HashMap::from([(ABOUT.to_owned(), about.to_string())])),
    };
    let bytes = serialize(views, about).map_err(|e| wrong(&e))?;
    // The error names the file.
    crate::folder::write_whole(path, &bytes).map_err(LatentError::Folder)
}

/// Standard deviations from the mean that a latent's number may lie.
const FARTHEST: f32 = 1e15;

/// Reads a file and checks that it is one.
pub fn read_latents(path: &Path) -> Result<LatentFile> {
    let shown = path.display().to_string();
    let bytes =
        std::fs::read(path).map_err(|e| LatentError::file(&shown, format!("cannot read: {e}")))?;
    let arrays = TypedArrays::from_bytes(&bytes, &shown)?;
    let wrong = |name: &str, expected: &str, found: &[usize]| {
        let found = format!("{found:?}");
        LatentError::from(arrays.unexpected(name, expected, found))
    };
    let z = arrays.f32_of_rank("z", 2)?;
    let z_cf = arrays.f32_of_rank("z_cf", 3)?;
    if z.shape[1] != LATENT || z.shape[0] == 0 {
        return Err(wrong("z", "[samples, 11], one sample at least", &z.shape));
    }
    if z_cf.shape[0] != z.shape[0] || z_cf.shape[2] != LATENT || z_cf.shape[1] == 0 {
        let expected = format!(
            "[{}, explanations, 11], one explanation at least",
            z.shape[0]
        );
        return Err(wrong("z_cf", &expected, &z_cf.shape));
    }
    let samples = z.shape[0];
    let index = match arrays.contains("index") {
        true => arrays.i64("index")?,
        false => (0..samples as i64).collect(),
    };
    if index.len() != samples {
        return Err(wrong("index", &format!("[{samples}]"), &[index.len()]));
    }
    for (name, array) in [("z", &z), ("z_cf", &z_cf)] {
        // Beyond this no squared distance is a number.
        let far = array
            .data
            .iter()
            .position(|v| v.is_nan() || v.abs() > FARTHEST);
        if let Some(at) = far {
            let expected = format!("numbers from -{FARTHEST:e} to {FARTHEST:e}");
            let found = format!("{} as value {at}", array.data[at]);
            return Err(arrays.unexpected(name, &expected, found).into());
        }
    }
    let index: Vec<usize> = { index.into_iter() }
        .map(|i| {
            usize::try_from(i).map_err(|_| {
                LatentError::from(arrays.unexpected("index", "numbers from 0 on", i.to_string()))
            })
        })
        .collect::<Result<_>>()?;
    let metadata = SafeTensors::read_metadata(&bytes).ok();
    let about = metadata
        .as_ref()
        .and_then(|(_, m)| m.metadata().as_ref()?.get(ABOUT));
    Ok(LatentFile {
        n: z_cf.shape[1],
        z: z.data.as_chunks().0.to_vec(),
        z_cf: z_cf.data.as_chunks().0.to_vec(),
        index,
        about: about
            .and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or_default(),
    })
}
