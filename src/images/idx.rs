//! IDX files, the format of MNIST: a magic number with the rank, the sizes, then the values; plain or packed by gzip.

use std::io::Read;
use std::path::{Path, PathBuf};

/// What can be wrong with an IDX file.
#[derive(Debug, thiserror::Error)]
pub enum IdxError {
    #[error("{}: cannot read it: {source}; check the path", path.display())]
    Io {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{}: expected {expected}, found {found}; fetch the file again", path.display())]
    Format {
        path: PathBuf,
        expected: String,
        found: String,
    },
    #[error("{}: expected {name} or {name}.gz in it, found neither; give the folder of MNIST's four files", folder.display())]
    Absent { folder: PathBuf, name: String },
}

/// 8-bit values with their shape: images `[n, rows, columns]` or labels `[n]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Idx {
    pub shape: Vec<usize>,
    pub values: Vec<u8>,
}

impl Idx {
    /// The plain file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0, 0, 8, self.shape.len() as u8];
        for &size in &self.shape {
            bytes.extend((size as u32).to_be_bytes());
        }
        bytes.extend(&self.values);
        bytes
    }
}

/// True if the content begins like an IDX file of 8-bit values, or like gzip.
pub fn is_idx(bytes: &[u8]) -> bool {
    matches!(bytes, [0, 0, 8, 1..=4, ..] | [0x1f, 0x8b, ..])
}

/// Reads a file.
pub fn read_idx(path: &Path) -> Result<Idx, IdxError> {
    let bytes = std::fs::read(path).map_err(|source| IdxError::Io {
        path: path.into(),
        source,
    })?;
    parse_idx(&bytes, path)
}

/// A file of one of MNIST's sets, plain or packed, under the names that the set is distributed with.
fn mnist_file(folder: &Path, name: &str) -> Option<PathBuf> {
    let packed = folder.join(format!("{name}.gz"));
    [folder.join(name), packed]
        .into_iter()
        .find(|p| p.is_file())
}

/// True if the folder has images under the names of MNIST's files.
pub fn is_mnist(folder: &Path) -> bool {
    MNIST_PARTS
        .iter()
        .any(|part| mnist_file(folder, &format!("{part}-images-idx3-ubyte")).is_some())
}

/// The parts of a folder of MNIST's files: for training and for testing.
pub const MNIST_PARTS: [&str; 2] = ["train", "t10k"];

/// Images `[n, rows, columns]` and labels `[n]` of a part (see [`MNIST_PARTS`]) of a folder of MNIST's files.
pub fn read_mnist(folder: &Path, part: &str) -> Result<(Idx, Idx), IdxError> {
    let read = |name: String| match mnist_file(folder, &name) {
        Some(path) => read_idx(&path),
        None => Err(IdxError::Absent {
            folder: folder.into(),
            name,
        }),
    };
    let images = read(format!("{part}-images-idx3-ubyte"))?;
    let labels = read(format!("{part}-labels-idx1-ubyte"))?;
    if images.shape.len() != 3 || labels.shape != images.shape[..1] {
        return Err(IdxError::Format {
            path: folder.into(),
            expected: format!("images [n, rows, columns] and one label for each in {part}"),
            found: format!("images {:?} and labels {:?}", images.shape, labels.shape),
        });
    }
    Ok((images, labels))
}

/// Reads the content of a file; `path` stands for it in messages.
pub fn parse_idx(bytes: &[u8], path: &Path) -> Result<Idx, IdxError> {
    /// More than the largest file of this kind (MNIST's 47 MB), far less than memory.
    const LARGEST: u64 = 1 << 30;
    let wrong = |expected: &str, found: String| IdxError::Format {
        path: path.into(),
        expected: expected.into(),
        found,
    };
    let unpacked;
    let bytes = if bytes.starts_with(&[0x1f, 0x8b]) {
        let mut all = Vec::new();
        flate2::read::MultiGzDecoder::new(bytes)
            .take(LARGEST + 1)
            .read_to_end(&mut all)
            .map_err(|e| wrong("a whole gzip file", format!("a damaged one ({e})")))?;
        if all.len() as u64 > LARGEST {
            return Err(wrong("at most 1 GiB of values", "more".into()));
        }
        unpacked = all;
        &unpacked[..]
    } else {
        bytes
    };
    let &[0, 0, 8, rank @ 1..=4, ref rest @ ..] = bytes else {
        let start: Vec<String> = bytes.iter().take(4).map(|b| format!("{b:02x}")).collect();
        return Err(wrong(
            "an IDX file of 8-bit values (00 00 08 and a rank of 1 to 4)",
            format!("a start of {}", start.join(" ")),
        ));
    };
    let header = usize::from(rank) * 4;
    if rest.len() < header {
        return Err(wrong(
            "a size for each dimension",
            "the end of the file".into(),
        ));
    }
    let (sizes, values) = rest.split_at(header);
    let shape: Vec<usize> = sizes
        .chunks_exact(4)
        .map(|b| u32::from_be_bytes([b[0], b[1], b[2], b[3]]) as usize)
        .collect();
    let expected = shape.iter().try_fold(1usize, |all, &n| all.checked_mul(n));
    if expected != Some(values.len()) {
        return Err(wrong(
            &format!("values for the shape {shape:?}"),
            format!("{} values", values.len()),
        ));
    }
    Ok(Idx {
        shape,
        values: values.to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn file() -> Vec<u8> {
        let mut bytes = vec![0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3];
        bytes.extend([1, 2, 3, 4, 5, 255]);
        bytes
    }

    #[test]
    fn plain_and_packed_files_hold_the_same() {
        let plain = parse_idx(&file(), Path::new("a")).unwrap();
        assert_eq!(
            (&plain.shape[..], &plain.values[..]),
            (&[2, 3][..], &[1, 2, 3, 4, 5, 255][..])
        );
        assert_eq!(plain.to_bytes(), file());
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(&file()).unwrap();
        let packed = packed.finish().unwrap();
        assert_eq!(parse_idx(&packed, Path::new("a")).unwrap(), plain);
        assert!(parse_idx(&packed[..packed.len() - 9], Path::new("a")).is_err());
    }

    #[test]
    fn a_file_that_is_cut_or_of_another_type_is_an_error_that_names_it() {
        for (bytes, words) in [
            (&file()[..17], "5 values"),
            (&file()[..9], "end of the file"),
            (&[0, 0, 13, 1, 0, 0, 0, 0][..], "00 00 0d 01"),
            (&[][..], "IDX file"),
        ] {
            let error = parse_idx(bytes, Path::new("train-images"))
                .unwrap_err()
                .to_string();
            let found = error.contains("train-images") && error.contains(words);
            assert!(found, "{error}");
        }
        let huge = [
            0, 0, 8, 3, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255,
        ];
        assert!(parse_idx(&huge, Path::new("a")).is_err());
    }
}
