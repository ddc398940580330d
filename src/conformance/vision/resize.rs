//! `fid_resize_expected.json`: the three resizes to 299×299, bit for bit (sha256), with sums, corners and crops.

use super::super::check::{Check, Tolerance};
use super::super::error::Of;
use super::super::folder::Folder;
use super::super::json::Node;
use super::super::pictures::Album;
use super::super::weight_table::{bytes_of, sha256};
use super::super::{Result, tensors::Tensors};
use super::IMAGES;
use crate::tensor::{Array, Backend, Resize};

/// The network's input.
const SIDE: usize = 299;
/// Sums in f64 of values that are equal bit for bit.
const SUM: Tolerance = Tolerance::relative(1e-12);

pub fn mode(name: &str) -> Option<Resize> {
    match name {
        "tf1" => Some(Resize::Tf1),
        "halfpixel" => Some(Resize::HalfPixel),
        "antialias" => Some(Resize::Antialias),
        _ => None,
    }
}

pub fn run<B: Backend>(
    backend: &B,
    folder: &Folder,
    album: &mut Album,
    check: &mut Check,
) -> Result<()> {
    let Some(json) = folder.json("fid_resize_expected.json")? else {
        return Ok(());
    };
    let root = json.root();
    root.skip_fields(&[
        "float32_vs_float64_network_max_relative_error",
        "float32_vs_float64_note",
    ]);
    root.at("images")?.strs()?;
    let window = |key: &str| match root.get(key) {
        Some(range) => range.usizes().map(Some),
        None => Ok(None),
    };
    let (rows, columns) = (window("crop_rows")?, window("crop_cols")?);
    let crops = folder.tensors("fid_resize_crops.safetensors")?;
    for case in root.at("modes")?.items()? {
        let (image, name) = (case.at("image")?.str()?, case.at("mode")?.str()?);
        let Some(mode) = mode(name) else {
            check.unknown(format!("fid_resize_expected.json: mode {name:?}"));
            continue;
        };
        check.group(format!("resize {name}"));
        let crop = format!("{name}.{image}");
        if !album.has(image, folder, &[IMAGES], check)? {
            case.skip();
            if let Some(crops) = &crops {
                crops.skip(&crop);
            }
            continue;
        }
        let Some(picture) = album.get(image) else {
            continue;
        };
        let resized = backend
            .resize(&picture.upload(backend)?, SIDE, SIDE, mode)
            .of(format!("resize of {image}"))?;
        let resized = backend
            .download(&resized)
            .of(format!("resize of {image}"))?;
        compare(&format!("{name} {image}"), &case, &resized, check)?;
        if let (Some(crops), Some(rows), Some(columns)) = (&crops, &rows, &columns)
            && crops.contains(&crop)
        {
            compare_crop(&crop, crops, &resized, rows, columns, check)?;
        }
    }
    Ok(())
}

fn compare(what: &str, case: &Node<'_>, resized: &Array, check: &mut Check) -> Result<()> {
    let wide: Vec<f64> = resized.data.iter().map(|&v| f64::from(v)).collect();
    let plane = SIDE * SIDE;
    for (field, expected) in case.fields()? {
        let what = format!("{what} {field}");
        match field {
            "sha256_f32le_chw" => {
                check.equal(what, expected.str()?, &sha256(&bytes_of(&resized.data))[..]);
            }
            "sum" => check.close(what, expected.f64()?, wide.iter().sum(), SUM),
            "sum_sq" => {
                let squares = wide.iter().map(|v| v * v).sum();
                check.close(what, expected.f64()?, squares, SUM);
            }
            "min" => {
                let least = wide.iter().copied().fold(f64::INFINITY, f64::min);
                check.equal(what, &expected.f64()?, &least);
            }
            "max" => {
                let most = wide.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                check.equal(what, &expected.f64()?, &most);
            }
            "channel_sums" => {
                let sums: Vec<f64> = wide.chunks(plane).map(|c| c.iter().sum()).collect();
                check.close_all(what, &expected.f64s()?, &sums, SUM);
            }
            "corner_values" => {
                for (corner, expected) in expected.fields()? {
                    let at = match corner {
                        "tl" => 0,
                        "tr" => SIDE - 1,
                        "bl" => plane - SIDE,
                        "br" => plane - 1,
                        _ => continue,
                    };
                    let got: Vec<f64> = wide.chunks(plane).map(|c| c[at]).collect();
                    check.equal(format!("{what} {corner}"), &expected.f64s()?, &got);
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn compare_crop(
    name: &str,
    crops: &Tensors,
    resized: &Array,
    rows: &[usize],
    columns: &[usize],
    check: &mut Check,
) -> Result<()> {
    let expected = crops.f32(name)?;
    let ([top, bottom], [left, right]) = (rows, columns) else {
        return Err(crops.wrong(
            name,
            "crop_rows and crop_cols of two numbers",
            "others".into(),
        ));
    };
    if bottom > &SIDE || right > &SIDE || top > bottom || left > right {
        return Err(crops.wrong(
            name,
            "a crop inside 299x299",
            format!("{rows:?} {columns:?}"),
        ));
    }
    let got: Vec<f32> = resized
        .data
        .chunks(SIDE * SIDE)
        .flat_map(|plane| plane.chunks(SIDE).take(*bottom).skip(*top))
        .flat_map(|row| row[*left..*right].iter().copied())
        .collect();
    check.identical(format!("{name} crop"), &expected.data, &got);
    Ok(())
}
