//! Tables of weights made by the integer formula of [`super::synthetic`], checked by sha256, sum and first values.

use rayon::prelude::*;
use sha2::{Digest, Sha256};

use super::check::{Check, Tolerance};
use super::folder::Folder;
use super::json::Node;
use super::tensors::Tensors;
use super::{Result, synthetic};
use crate::tensor::{Array, StateDict};

/// Sums of a tensor in f64; the order of summation is the only freedom.
const SUM: Tolerance = Tolerance::both(1e-12, 1e-9);

/// Lower-case hexadecimal sha256.
pub fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

pub fn hex(digest: &[u8]) -> String {
    digest.iter().map(|b| format!("{b:02x}")).collect()
}

/// The little-endian bytes of f32 values.
pub fn bytes_of(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

struct Made {
    name: String,
    array: Array,
    sha256: String,
    sum: f64,
}

/// Regenerates every tensor of a table and checks it; none if the table is absent.
pub fn regenerate(folder: &Folder, file: &str, check: &mut Check) -> Result<Option<StateDict>> {
    let Some(json) = folder.json(file)? else {
        return Ok(None);
    };
    check.group("weight tables");
    let table = json.root();
    let salt = table.at("salt")?.str()?;
    table.skip_fields(&["net"]);
    let rows = table.at("tensors")?.items()?;
    let specs = rows.iter().map(spec).collect::<Result<Vec<_>>>()?;
    let made: Vec<Made> = specs
        .into_par_iter()
        .map(|(name, shape, offset, scale)| {
            let array = synthetic::tensor(salt, &name, &shape, offset, scale);
            Made {
                sha256: sha256(&bytes_of(&array.data)),
                sum: array.data.iter().map(|&v| f64::from(v)).sum(),
                name,
                array,
            }
        })
        .collect();
    let mut dict = StateDict::new();
    for (row, made) in rows.iter().zip(made) {
        let what = format!("{file} {}", made.name);
        if let Some(expected) = row.get("sha256") {
            check.equal(format!("{what} sha256"), expected.str()?, &made.sha256[..]);
        }
        if let Some(expected) = row.get("sum") {
            check.close(format!("{what} sum"), expected.f64()?, made.sum, SUM);
        }
        if let Some(expected) = row.get("first4") {
            let first: Vec<f64> = made
                .array
                .data
                .iter()
                .take(4)
                .map(|&v| f64::from(v))
                .collect();
            check.equal(format!("{what} first4"), &expected.f64s()?, &first);
        }
        dict.insert(made.name, made.array);
    }
    Ok(Some(dict))
}

fn spec(row: &Node<'_>) -> Result<(String, Vec<usize>, f64, f64)> {
    Ok((
        row.at("name")?.str()?.into(),
        shape(&row.at("shape")?)?,
        row.at("offset")?.f64()?,
        row.at("scale")?.f64()?,
    ))
}

/// A tensor's shape; sizes beyond any network are refused before memory is asked for.
pub fn shape(node: &Node<'_>) -> Result<Vec<usize>> {
    const MOST: usize = 1 << 30;
    let shape = node.usizes()?;
    let len = shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d));
    match len.is_some_and(|n| n <= MOST) {
        true => Ok(shape),
        false => Err(node.wrong("a shape of at most 2^30 values")),
    }
}

/// Compares the stored tensors that a table or another file also gives, bit for bit, and adds the others to `dict`.
pub fn merge_stored(dict: &mut StateDict, stored: &Tensors, check: &mut Check) -> Result<()> {
    check.group("stored weights");
    for name in stored.names() {
        let array = stored.f32(name)?;
        if let Some(other) = dict.get(name) {
            let what = format!("{} {name}", short(stored.file()));
            check.equal(format!("{what} shape"), &other.shape, &array.shape);
            check.identical(what, &other.data, &array.data);
        }
        dict.insert(name, array);
    }
    Ok(())
}

fn short(file: &str) -> &str {
    file.rsplit(['/', '\\']).next().unwrap_or(file)
}
