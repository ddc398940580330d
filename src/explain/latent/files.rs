//! Counterfactual latents as a file, which any program can write.
//!
//! A safetensors file with `z` `[s, 11]`, the standardised latents of the samples, and `z_cf` `[s, n, 11]`, their
//! counterfactuals. `index` `[s]` (numbers in the validation set) and the metadata are for people.

use std::collections::HashMap;
use std::path::Path;

use safetensors::tensor::TensorView;
use safetensors::{Dtype, serialize};

use super::{LATENT, Latent, LatentError, Result};
use crate::tensor::TypedArrays;

/// What such a file holds.
#[derive(Clone, Debug, PartialEq)]
pub struct LatentFile {
    pub z: Vec<Latent>,
    pub z_cf: Vec<Latent>,
    /// Counterfactuals of each sample.
    pub n: usize,
    pub index: Vec<usize>,
}

/// Writes a file whole, with `about` as its metadata.
pub fn write_latents(path: &Path, file: &LatentFile, about: &[(&str, String)]) -> Result<()> {
    let wrong = |e: &dyn ToString| LatentError::file(path.display(), e.to_string());
    let samples = file.z.len();
    let index: Vec<i64> = file.index.iter().map(|&i| i as i64).collect();
    let view = |dtype, shape: Vec<usize>, bytes| TensorView::new(dtype, shape, bytes);
    let views = [
        (
            "z",
            view(
                Dtype::F32,
                vec![samples, LATENT],
                bytemuck::cast_slice(&file.z),
            ),
        ),
        (
            "z_cf",
            view(
                Dtype::F32,
                vec![samples, file.n, LATENT],
                bytemuck::cast_slice(&file.z_cf),
            ),
        ),
        (
            "index",
            view(Dtype::I64, vec![samples], bytemuck::cast_slice(&index)),
        ),
    ];
    let mut tensors = Vec::new();
    for (name, view) in views {
        tensors.push((name, view.map_err(|e| wrong(&e))?));
    }
    let about: HashMap<String, String> = about
        .iter()
        .map(|(k, v)| ((*k).to_owned(), v.clone()))
        .collect();
    let bytes = serialize(tensors, Some(about)).map_err(|e| wrong(&e))?;
    crate::folder::write_whole(path, &bytes).map_err(|e| wrong(&e))
}

/// Reads a file and checks that it is one.
pub fn read_latents(path: &Path) -> Result<LatentFile> {
    let arrays = TypedArrays::read(path)?;
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
    Ok(LatentFile {
        n: z_cf.shape[1],
        z: z.data.as_chunks().0.to_vec(),
        z_cf: z_cf.data.as_chunks().0.to_vec(),
        index: index
            .into_iter()
            .map(|i| usize::try_from(i).unwrap_or(0))
            .collect(),
    })
}
