//! What the blocks of a denoiser give for one image: shape, mean, population std, first and last values, in NCHW order.

use super::super::Result;
use super::super::check::Check;
use super::super::error::Of;
use super::super::json::{Json, Node};
use super::super::tensors::Tensors;
use super::networks::{inner, steps};
use super::{part, wide};
use crate::nets::{Unet, UnetConfig};
use crate::tensor::{Array, Backend, StateDict};

/// Runs the network on image K of `NAME_probe_sampleK` and looks into it.
pub fn run<B: Backend>(
    b: &B,
    name: &str,
    dict: &StateDict,
    config: &UnetConfig,
    io: &Tensors,
    json: &Json,
    check: &mut Check,
) -> Result<()> {
    let prefix = format!("{name}_probe_sample");
    for (key, blocks) in json.root().fields()? {
        let Some(sample) = key.strip_prefix(&prefix).and_then(|k| k.parse().ok()) else {
            continue;
        };
        let (images, times) = (io.f32_of_rank("x_t", 4)?, steps(io, "timesteps")?);
        let (Some(image), Some(time)) = (part(&images, sample), times.get(sample)) else {
            return Err(blocks.wrong("the number of an image of unet_io"));
        };
        let shape = [&[1], &image.shape[..]].concat();
        let x = b
            .upload(&Array::new(shape, image.data).of(name)?)
            .of(name)?;
        let unet = Unet::new(b, dict, config.clone()).of(name)?;
        let mut found = Vec::new();
        unet.watched(b, &x, &[*time], |block, tensor| {
            found.push((block.to_owned(), tensor.clone()));
        })
        .of(name)?;
        let found = found
            .into_iter()
            .map(|(block, tensor)| Ok((block, b.download(&tensor).of(name)?)))
            .collect::<Result<Vec<(String, Array)>>>()?;
        for (block, expected) in blocks.fields()? {
            let what = format!("{name} {block}");
            match found.iter().find(|(n, _)| n == block) {
                Some((_, got)) => compare(&what, &expected, got, check)?,
                None if block == "time_embed" => embedding(&what, &expected, &found, check)?,
                None => {}
            }
        }
    }
    Ok(())
}

fn compare(what: &str, expected: &Node<'_>, got: &Array, check: &mut Check) -> Result<()> {
    let values = wide(got);
    let peak = values.iter().fold(0.0f64, |m, v| m.max(v.abs()));
    let tolerance = inner(peak);
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n;
    for (field, value) in expected.fields()? {
        let what = format!("{what} {field}");
        match field {
            "shape" => check.equal(what, &value.usizes()?, &got.shape),
            "mean" => check.close(what, value.f64()?, mean, tolerance),
            "std_ddof0" => check.close(what, value.f64()?, variance.sqrt(), tolerance),
            _ => {
                if let Some(found) = edge(field, &values) {
                    check.close_all(what, &value.f64s()?, found, tolerance);
                }
            }
        }
    }
    Ok(())
}

/// The values that `firstN` and `lastN` mean.
fn edge<'a>(field: &str, values: &'a [f64]) -> Option<&'a [f64]> {
    let first = field.strip_prefix("first").map(|count| (count, true));
    let last = || field.strip_prefix("last").map(|count| (count, false));
    let (count, first) = first.or_else(last)?;
    let count = count.parse::<usize>().ok()?.min(values.len());
    Some(match first {
        true => &values[..count],
        false => &values[values.len() - count..],
    })
}

/// Here the time embedding comes with the SiLU that all who hear it begin with: so do the values it is compared with.
fn embedding(
    what: &str,
    expected: &Node<'_>,
    found: &[(String, Array)],
    check: &mut Check,
) -> Result<()> {
    let Some((_, got)) = found.iter().find(|(n, _)| n == "time_embed.silu") else {
        return Ok(());
    };
    expected.skip_fields(&["mean", "std_ddof0"]);
    check.unused(
        format!("unet.json: mean and std of {what}"),
        "of values before a SiLU that is part of this program's layer",
    );
    let values = wide(got);
    let silu = |v: f64| v / (1.0 + (-v).exp());
    for (field, value) in expected.fields()? {
        match field {
            "shape" => check.equal(format!("{what} shape"), &value.usizes()?, &got.shape),
            "mean" | "std_ddof0" => {}
            _ => {
                if let Some(found) = edge(field, &values) {
                    let bent: Vec<f64> = value.f64s()?.into_iter().map(silu).collect();
                    check.close_all(format!("{what} {field}"), &bent, found, inner(1.0));
                }
            }
        }
    }
    Ok(())
}
