//! The auto-encoders: codes and outputs of single images.

use super::super::Result;
use super::super::check::{Check, Tolerance};
use super::super::error::Of;
use super::super::folder::Folder;
use super::super::tensors::Tensors;
use super::data::Config;
use crate::nets::Autoencoder;
use crate::score::samples::{Autoencoders, class_autoencoders};
use crate::tensor::Backend;

fn file(config: &str) -> String {
    format!("autoencoders_{config}.safetensors")
}

/// The set of a configuration; none if its file is absent.
pub fn of<B: Backend>(
    backend: &B,
    folder: &Folder,
    config: Config,
) -> Result<Option<Autoencoders<B>>> {
    let file = file(config.name);
    let Some(tensors) = folder.tensors(&file)? else {
        return Ok(None);
    };
    let dicts = class_autoencoders(&file, &tensors.state_dict()?).of(&file)?;
    Ok(Some(
        Autoencoders::new(backend, &dicts, String::new()).of(&file)?,
    ))
}

pub fn run<B: Backend>(backend: &B, folder: &Folder, check: &mut Check) -> Result<()> {
    let Some(forward) = folder.tensors("autoencoder_forward.safetensors")? else {
        return Ok(());
    };
    check.group("auto-encoders");
    let inputs = forward
        .names()
        .filter_map(|name| name.strip_suffix(".input"));
    for config in inputs {
        let file = file(config);
        let Some(weights) = folder.tensors(&file)? else {
            skip(&forward, config, &[], &format!("{file} is absent"), check);
            continue;
        };
        let dicts = class_autoencoders(&file, &weights.state_dict()?).of(&file)?;
        let keys: Vec<&str> = dicts.keys().map(String::as_str).collect();
        let why = format!("{file} holds no such auto-encoder");
        skip(&forward, config, &keys, &why, check);
        let input = forward.f32_of_rank(&format!("{config}.input"), 4)?;
        let x = backend.upload(&input).of(config)?;
        for (key, dict) in &dicts {
            let name = format!("{config}.ae_{key}");
            if !forward.contains(&format!("{name}.output")) {
                continue;
            }
            let net = Autoencoder::new(backend, dict).of(&name)?;
            let code = net.encode(backend, &x).of(&name)?;
            let drawn = net.decode(backend, &code).of(&name)?;
            for (part, tensor) in [("latent", &code), ("output", &drawn)] {
                let name = format!("{name}.{part}");
                let expected = forward.f32(&name)?;
                let got = backend.download(tensor).of(&name)?;
                let wide = |v: &[f32]| v.iter().map(|&x| f64::from(x)).collect::<Vec<_>>();
                check.close_all(
                    &name,
                    &wide(&expected.data),
                    &wide(&got.data),
                    Tolerance::absolute(2e-6),
                );
            }
        }
    }
    Ok(())
}

/// Puts aside the expectations of auto-encoders that are not among `there`.
fn skip(forward: &Tensors, config: &str, there: &[&str], why: &str, check: &mut Check) {
    let start = format!("{config}.");
    for name in forward.names() {
        let Some(part) = name.strip_prefix(&start) else {
            continue;
        };
        let key = part
            .strip_prefix("ae_")
            .and_then(|part| part.split('.').next());
        if !key.is_some_and(|key| there.contains(&key)) && (key.is_some() || there.is_empty()) {
            forward.skip(name);
            check.absent(format!("autoencoder_forward.safetensors: {name} ({why})"));
        }
    }
}
