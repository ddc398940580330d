//! Reading and writing `.safetensors`.
//!
//! Written files are a function of names, numbers and metadata alone: tensors and metadata are
//! sorted by name, everything is little-endian `F32`, and the header is padded to eight bytes.
//! (The `safetensors` crate keeps metadata in a hash map, so its own writer does not promise the
//! same bytes twice.)

use super::decode::{Budget, DType, View};
use super::error::{Result, Source};
use crate::tensor::StateDict;
use safetensors::tensor::{Dtype, SafeTensors};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Whether the file begins like a safetensors file: header length, then `{`.
pub(super) fn is_safetensors(bytes: &[u8]) -> bool {
    let length = bytes.first_chunk().map(|&raw| u64::from_le_bytes(raw));
    let fits = length.is_some_and(|n| n >= 2 && n <= bytes.len() as u64 - 8);
    fits && bytes.get(8) == Some(&b'{')
}

pub(super) fn read(bytes: &[u8], file: Source) -> Result<StateDict> {
    let broken = |error| file.damaged(format!("safetensors: {error}"));
    let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(broken)?;
    let tensors = SafeTensors::deserialize(bytes).map_err(broken)?;
    let mut budget = Budget::of(bytes.len() as u64);
    let mut out = StateDict::named(file.0);
    for name in metadata.offset_keys() {
        let view = tensors.tensor(&name).map_err(broken)?;
        let Some(dtype) = dtype_of(view.dtype()) else {
            return Err(file.tensor(
                &name,
                "floats of 16, 32 or 64 bits or integers",
                format!("{:?}", view.dtype()),
                "Convert it to F32 and save again",
            ));
        };
        let array = View {
            dtype,
            big_endian: false,
            bytes: view.data(),
            offset: 0,
            shape: view.shape().to_vec(),
            strides: None,
        }
        .decode(file, &name, &mut budget)?;
        out.add(name, array)?;
    }
    Ok(out)
}

fn dtype_of(dtype: Dtype) -> Option<DType> {
    Some(match dtype {
        Dtype::F32 => DType::F32,
        Dtype::F16 => DType::F16,
        Dtype::BF16 => DType::BF16,
        Dtype::F64 => DType::F64,
        Dtype::I8 => DType::I8,
        Dtype::I16 => DType::I16,
        Dtype::I32 => DType::I32,
        Dtype::I64 => DType::I64,
        Dtype::U8 => DType::U8,
        Dtype::U16 => DType::U16,
        Dtype::U32 => DType::U32,
        Dtype::U64 => DType::U64,
        Dtype::BOOL => DType::Bool,
        _ => return None,
    })
}

/// Writes all arrays as `F32`, sorted by name, with `metadata` as the header's `__metadata__`
/// (left out if empty). The file appears under its name only when it is complete: it is written
/// beside it and renamed. Equal input gives equal bytes.
pub fn write_safetensors(
    dict: &StateDict,
    path: &Path,
    metadata: &BTreeMap<String, String>,
) -> Result<()> {
    let shown = path.display().to_string();
    let part = temporary(path);
    let done = write_file(dict, &part, metadata).and_then(|()| fs::rename(&part, path));
    done.map_err(|error| {
        let _ = fs::remove_file(&part);
        Source(&shown).io("write it", error)
    })
}

/// A name beside `path` that no other writer uses.
fn temporary(path: &Path) -> PathBuf {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let number = COUNTER.fetch_add(1, Ordering::Relaxed);
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}.{number}.part", std::process::id()));
    path.with_file_name(name)
}

fn write_file(
    dict: &StateDict,
    path: &Path,
    metadata: &BTreeMap<String, String>,
) -> io::Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).open(path)?;
    let mut out = BufWriter::with_capacity(1 << 20, file);
    let header = header(dict, metadata);
    out.write_all(&(header.len() as u64).to_le_bytes())?;
    out.write_all(header.as_bytes())?;
    for (_, array) in dict.sorted() {
        for number in &array.data {
            out.write_all(&number.to_le_bytes())?;
        }
    }
    let file: File = out.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.sync_all()
}

fn header(dict: &StateDict, metadata: &BTreeMap<String, String>) -> String {
    let mut text = String::from("{");
    let mut comma = "";
    if !metadata.is_empty() {
        text.push_str("\"__metadata__\":{");
        for (key, value) in metadata {
            text.push_str(comma);
            quote(&mut text, key);
            text.push(':');
            quote(&mut text, value);
            comma = ",";
        }
        text.push('}');
    }
    let mut start = 0;
    for (name, array) in dict.sorted() {
        text.push_str(comma);
        quote(&mut text, name);
        let end = start + 4 * array.data.len();
        let shape: Vec<String> = array.shape.iter().map(usize::to_string).collect();
        let shape = shape.join(",");
        let _ = write!(
            text,
            ":{{\"dtype\":\"F32\",\"shape\":[{shape}],\"data_offsets\":[{start},{end}]}}"
        );
        start = end;
        comma = ",";
    }
    text.push('}');
    while text.len() % 8 != 0 {
        text.push(' ');
    }
    text
}

/// A JSON string.
fn quote(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c < ' ' => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
}
