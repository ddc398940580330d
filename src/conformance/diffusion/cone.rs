//! Cone projection by the published rule, and unit lengths, row by row: 1e-5.

use super::super::Result;
use super::super::check::{Check, Tolerance};
use super::super::folder::Folder;
use super::super::tensors::Tensors;
use super::{close, settings};
use crate::diffusion::normalise;
use crate::tensor::Array;

const DIRECTION: f64 = 1e-5;
/// Degrees. The arc cosine of single precision, in which the angles were measured, is that coarse near 0 and 180 degrees.
const ANGLE: Tolerance = Tolerance::absolute(0.05);
/// Opening of the cases that do not name theirs.
const DEGREES: f64 = 30.0;

pub fn run(folder: &Folder, check: &mut Check) -> Result<()> {
    let Some(stored) = folder.tensors("cone_projection.safetensors")? else {
        return Ok(());
    };
    check.group("cone projection");
    let (robust, axis) = pair(&stored, "robust_gradient", "target_gradient")?;
    for name in stored.names().filter(|n| n.starts_with("cone_")) {
        let degrees: f64 = name["cone_".len()..]
            .replace('_', ".")
            .parse()
            .map_err(|_| stored.wrong(name, "degrees in its name", name.into()))?;
        let found = projected(degrees, &robust, &axis);
        close(check, name, &stored.f32(name)?, &found, DIRECTION);
    }
    if stored.contains("angles_deg") {
        let cone = settings::published_cone(DEGREES);
        let angle = |i: usize| cone.project(robust.row(i), axis.row(i)).map(|p| p.angle);
        let found: Vec<f64> = (0..robust.shape[0])
            .map(|i| angle(i).unwrap_or(f64::NAN))
            .collect();
        check.close_all("angles_deg", &stored.f64("angles_deg")?, &found, ANGLE);
    }
    if stored.contains("same_gradient.in") {
        let same = stored.f32_of_rank("same_gradient.in", 2)?;
        let found = projected(DEGREES, &same, &same);
        let expected = stored.f32("same_gradient.out")?;
        close(check, "same_gradient.out", &expected, &found, DIRECTION);
    }
    if stored.contains("zero_target.target") {
        without_direction(&stored, check)?;
    }
    if stored.contains("l2_normalize.in") {
        let mut found = stored.f32("l2_normalize.in")?;
        let len = found.len() / found.shape.first().copied().unwrap_or(1).max(1);
        for row in found.data.chunks_mut(len.max(1)) {
            normalise(row);
        }
        let expected = stored.f32("l2_normalize.out")?;
        close(check, "l2_normalize.out", &expected, &found, DIRECTION);
    }
    Ok(())
}

/// Gradients of equally many samples.
fn pair(stored: &Tensors, robust: &str, axis: &str) -> Result<(Array, Array)> {
    let [a, b] = [robust, axis].map(|name| stored.f32_of_rank(name, 2));
    let (a, b) = (a?, b?);
    match a.shape == b.shape {
        true => Ok((a, b)),
        false => Err(stored.wrong(
            axis,
            &format!("shape {:?}", a.shape),
            format!("{:?}", b.shape),
        )),
    }
}

/// Rows without a direction are NaN, as in the public code.
fn projected(degrees: f64, robust: &Array, axis: &Array) -> Array {
    let cone = settings::published_cone(degrees);
    let row = |i: usize| {
        let found = cone.project(robust.row(i), axis.row(i));
        found.map_or(vec![f32::NAN; robust.row(i).len()], |p| p.direction)
    };
    Array {
        shape: robust.shape.clone(),
        data: (0..robust.shape[0]).flat_map(row).collect(),
    }
}

/// Where the public code gives a row of NaN there is no direction; rows beside it are as ever.
fn without_direction(stored: &Tensors, check: &mut Check) -> Result<()> {
    let (robust, axis) = pair(stored, "zero_target.robust", "zero_target.target")?;
    let found = projected(DEGREES, &robust, &axis);
    let none: Vec<i64> = found.data.iter().map(|v| i64::from(v.is_nan())).collect();
    let expected = stored.i64("zero_target.out_is_nan")?;
    check.identical("zero_target.out_is_nan", &expected, &none);
    let rows = stored.names().filter_map(|n| {
        let row = n.strip_prefix("zero_target.out_row")?;
        Some((n, row.parse::<usize>().ok()?))
    });
    for (name, row) in rows.filter(|(_, row)| *row < found.shape[0]) {
        let got = Array {
            shape: vec![found.shape[1]],
            data: found.row(row).to_vec(),
        };
        close(check, name, &stored.f32(name)?, &got, DIRECTION);
    }
    Ok(())
}
