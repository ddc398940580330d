//! Arrays of numpy: inside pickles, as `.npy`, and as `.npz`.
//!
//! Pickled arrays are recognised in the forms that numpy 1 and 2 write with protocols 2 to 5.
//! Nested dictionaries become names such as `AlexNet_0/Conv_0/kernel`. A `.npy` file holds one
//! array, named after the file; the arrays of a `.npz` have their own names.

use super::decode::{Budget, DType, View, column_major};
use super::error::{Result, Source, shorten};
use super::pickle::parse;
use super::values::{Id, Pickle};
use super::walk::{Leaves, Walk};
use super::zip::Zip;
use crate::tensor::{Array, StateDict};
use std::path::Path;

const RESAVE: &str = "Convert it to a float32 array and save again";

// ---------------------------------------------------------------- pickles

/// Reads a pickle of nested dictionaries of arrays.
pub(super) fn read_pickle(bytes: &[u8], file: Source) -> Result<StateDict> {
    let (pickle, _) = parse(bytes, file)?;
    let mut out = StateDict::named(file.0);
    let mut leaves = NumpyLeaves {
        file,
        budget: Budget::of(bytes.len() as u64),
    };
    let mut walk = Walk {
        pickle: &pickle,
        file,
        separator: '/',
        leaves: &mut leaves,
        out: &mut out,
        steps: 0,
    };
    walk.run(pickle.root, "")?;
    if out.is_empty() {
        return Err(file.unknown(
            format!(
                "a pickle without numpy arrays: {}",
                pickle.describe(pickle.root)
            ),
            "Save a dictionary of numpy arrays, or best a .safetensors file",
        ));
    }
    Ok(out)
}

struct NumpyLeaves<'w> {
    file: Source<'w>,
    budget: Budget,
}

impl<'a> Leaves<'a> for NumpyLeaves<'_> {
    fn leaf(&mut self, pickle: &Pickle<'a>, id: Id, name: &str) -> Result<Option<Array>> {
        let Some((module, function, args)) = pickle.named_call(id) else {
            return Ok(None);
        };
        let what = || format!("the value `{}` ({module}.{function})", shorten(name));
        let numpy = matches!(
            module.strip_prefix("numpy."),
            Some("core.multiarray" | "_core.multiarray" | "core.numeric" | "_core.numeric")
        );
        let parts = match (numpy, function) {
            // state: version, shape, dtype, Fortran order, content
            (true, "_reconstruct") => (|| {
                let state = pickle.sequence(pickle.call(id)?.state?)?;
                let &[_version, shape, dtype, fortran, content] = state else {
                    return None;
                };
                let fortran = pickle.int(fortran)? != 0;
                Some((pickle.sizes(shape)?, dtype, fortran, content))
            })(),
            (true, "_frombuffer") => (|| {
                let &[content, dtype, shape, order] = args else {
                    return None;
                };
                let fortran = pickle.text(order)? == "F";
                Some((pickle.sizes(shape)?, dtype, fortran, content))
            })(),
            (true, "scalar") => match *args {
                [dtype, content] => Some((Vec::new(), dtype, false, content)),
                _ => None,
            },
            _ if module.starts_with("torch") && function.starts_with("_rebuild_") => {
                return Err(self.file.unsupported(
                    what(),
                    "Torch tensors are read from files of torch.save, not from plain pickles",
                ));
            }
            _ => return Ok(None),
        };
        let Some((shape, dtype, fortran, content)) = parts else {
            return Err(self.file.damaged(what() + " is not a complete array"));
        };
        let Some((dtype, big_endian)) = pickled_dtype(pickle, dtype) else {
            return Err(self.file.unsupported(what() + ": its number type", RESAVE));
        };
        let Some(bytes) = pickle.bytes(content) else {
            return Err(self.file.unsupported(what() + ": its content", RESAVE));
        };
        let raw = RawArray {
            dtype,
            big_endian,
            fortran,
            shape,
            bytes: &bytes,
        };
        raw.decode(self.file, name, &mut self.budget).map(Some)
    }
}

/// Number type and byte order of a pickled `numpy.dtype`.
fn pickled_dtype(pickle: &Pickle, id: Id) -> Option<(DType, bool)> {
    let (module, function, args) = pickle.named_call(id)?;
    if (module, function) != ("numpy", "dtype") {
        return None;
    }
    let (dtype, mut big_endian) = dtype_of(pickle.text(*args.first()?)?)?;
    // state: version, byte order, …
    if let Some(state) = pickle.call(id)?.state
        && let Some(&order) = pickle.sequence(state)?.get(1)
    {
        big_endian = pickle.text(order)? == ">";
    }
    Some((dtype, big_endian))
}

/// Number type and byte order of a description such as `<f4`.
fn dtype_of(text: &str) -> Option<(DType, bool)> {
    let (big_endian, plain) = match text.split_at_checked(1)? {
        (">", rest) => (true, rest),
        ("<" | "=" | "|", rest) => (false, rest),
        _ => (false, text),
    };
    let dtype = match plain {
        "f2" => DType::F16,
        "f4" => DType::F32,
        "f8" => DType::F64,
        "i1" => DType::I8,
        "i2" => DType::I16,
        "i4" => DType::I32,
        "i8" => DType::I64,
        "u1" => DType::U8,
        "u2" => DType::U16,
        "u4" => DType::U32,
        "u8" => DType::U64,
        "b1" => DType::Bool,
        _ => return None,
    };
    Some((dtype, big_endian))
}

/// A numpy array before conversion.
struct RawArray<'a> {
    dtype: DType,
    big_endian: bool,
    fortran: bool,
    shape: Vec<usize>,
    bytes: &'a [u8],
}

impl RawArray<'_> {
    /// The content must fill the shape exactly.
    fn decode(self, file: Source, name: &str, budget: &mut Budget) -> Result<Array> {
        let expected = self
            .shape
            .iter()
            .try_fold(self.dtype.size(), |n, &s| n.checked_mul(s));
        if expected != Some(self.bytes.len()) {
            return Err(file.tensor(
                name,
                format!(
                    "content of shape {:?} and type {:?}",
                    self.shape, self.dtype
                ),
                format!("{} bytes", self.bytes.len()),
                "The file is damaged: fetch it again",
            ));
        }
        let strides = if self.fortran {
            column_major(&self.shape)
        } else {
            None
        };
        View {
            dtype: self.dtype,
            big_endian: self.big_endian,
            bytes: self.bytes,
            offset: 0,
            shape: self.shape,
            strides,
        }
        .decode(file, name, budget)
    }
}

// ---------------------------------------------------------------- .npy and .npz

/// First bytes of a `.npy` file.
pub(super) const NPY_MAGIC: &[u8] = b"\x93NUMPY";

/// Reads a `.npy` file; the array is named after the file.
pub(super) fn read_npy(bytes: &[u8], file: Source) -> Result<StateDict> {
    let stem = Path::new(file.0).file_stem().and_then(|stem| stem.to_str());
    let name = stem.unwrap_or("array");
    let mut out = StateDict::named(file.0);
    out.add(name, npy_array(bytes, name, file)?)?;
    Ok(out)
}

/// Reads all arrays of a `.npz` archive.
pub(super) fn read_npz(zip: &Zip, file: Source) -> Result<StateDict> {
    let mut out = StateDict::named(file.0);
    for entry in zip.names() {
        let Some(name) = entry.strip_suffix(".npy") else {
            continue;
        };
        if let Some(bytes) = zip.read_named(entry)? {
            out.add(name, npy_array(&bytes, name, file)?)?;
        }
    }
    Ok(out)
}

fn npy_array(bytes: &[u8], name: &str, file: Source) -> Result<Array> {
    let Some((header, content)) = npy_parts(bytes) else {
        return Err(file.damaged(format!("array `{}` has no npy header", shorten(name))));
    };
    let header = std::str::from_utf8(header).unwrap_or("");
    let parsed = (|| {
        let fortran = match header_value(header, "fortran_order")? {
            value if value.starts_with("True") => true,
            value if value.starts_with("False") => false,
            _ => return None,
        };
        Some((
            header_value(header, "descr")?,
            fortran,
            header_shape(header)?,
        ))
    })();
    let Some((descr, fortran, shape)) = parsed else {
        let shown = shorten(header);
        return Err(file.damaged(format!("array `{}`: npy header {shown}", shorten(name))));
    };
    let quoted = descr.strip_prefix(['\'', '"']);
    let text = quoted.and_then(|rest| rest.split(['\'', '"']).next());
    let Some((dtype, big_endian)) = text.and_then(dtype_of) else {
        return Err(file.tensor(
            name,
            "floats, integers or truth values",
            format!("type {}", shorten(text.unwrap_or("with fields"))),
            RESAVE,
        ));
    };
    let raw = RawArray {
        dtype,
        big_endian,
        fortran,
        shape,
        bytes: content,
    };
    raw.decode(file, name, &mut Budget::of(bytes.len() as u64))
}

/// Header text and content.
fn npy_parts(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = bytes.strip_prefix(NPY_MAGIC)?;
    let (&[major, _minor], rest) = rest.split_first_chunk()?;
    let (length, rest) = if major == 1 {
        let (&length, rest) = rest.split_first_chunk()?;
        (usize::from(u16::from_le_bytes(length)), rest)
    } else {
        let (&length, rest) = rest.split_first_chunk()?;
        (usize::try_from(u32::from_le_bytes(length)).ok()?, rest)
    };
    rest.split_at_checked(length)
}

/// The text behind `'key':` in the header, which is a Python dictionary of known shape.
fn header_value<'a>(header: &'a str, key: &str) -> Option<&'a str> {
    let quoted = [format!("'{key}'"), format!("\"{key}\"")];
    let (at, length) = quoted
        .iter()
        .find_map(|q| header.find(q.as_str()).map(|at| (at, q.len())))?;
    let value = header[at + length..].trim_start().strip_prefix(':')?;
    Some(value.trim_start())
}

fn header_shape(header: &str) -> Option<Vec<usize>> {
    let inner = header_value(header, "shape")?.strip_prefix('(')?;
    let (inner, _) = inner.split_once(')')?;
    inner
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .map(|part| part.trim_end_matches('L').parse().ok())
        .collect()
}
