//! Network weights from the files people have, without ever running code out of them.
//!
//! [`read`] looks at the content, not at the file name, and understands
//!
//! * `.safetensors`;
//! * PyTorch checkpoints (`.pth`, `.pt`): zip files of `torch.save`, and the older format without
//!   zip; a state dict, a dictionary around one (`state_dict`, `model`, `model_state_dict`,
//!   `net`, `params`), or a saved module. A `module.` in front of every name is removed;
//! * TorchScript archives: tensors under their attribute paths, in stored order;
//! * Python pickles (protocols 2 to 5) of nested dictionaries of numpy arrays: names `a/b/c`;
//! * `.npy` and `.npz`.
//!
//! Everything becomes `f32` in a [`StateDict`]; see `decode.rs` for what is converted and what is
//! refused. [`convert`] brings the files that `scripts/real-weights` fetches to the public tensor
//! names, and [`write_safetensors`] stores the result.
//!
//! Pickles are parsed by `pickle.rs` into inert data. Hostile files end in a [`FormatError`]:
//! nothing is executed, recursion is bounded, and memory stays in proportion to the file.

mod convert;
mod decode;
mod error;
mod numpy;
mod pickle;
mod safetensors;
mod torch;
mod torch_legacy;
mod torch_zip;
mod values;
mod walk;
mod zip;

pub use convert::convert;
pub use error::FormatError;
pub use safetensors::write_safetensors;

use crate::tensor::StateDict;
use error::{Result, Source};
use std::path::Path;

/// Reads a weight file of any known format.
pub fn read(path: &Path) -> Result<StateDict> {
    let name = path.display().to_string();
    let bytes = std::fs::read(path).map_err(|error| Source(&name).io("read it", error))?;
    read_bytes(&bytes, &name)
}

/// Reads weights from memory; `name` stands for the file in messages, and gives the array of a
/// `.npy` its name.
pub fn read_bytes(bytes: &[u8], name: &str) -> Result<StateDict> {
    let file = Source(name);
    if zip::Zip::is_zip(bytes) {
        let archive = zip::Zip::open(bytes, file)?;
        if let Some(root) = torch_zip::root_of(&archive) {
            return torch_zip::read(&archive, root, file);
        }
        if archive.names().any(|entry| entry.ends_with(".npy")) {
            return numpy::read_npz(&archive, file);
        }
        let first: Vec<String> = archive.names().take(4).map(error::shorten).collect();
        return Err(file.unknown(
            format!("a zip archive with {first:?}"),
            "PyTorch archives hold data.pkl, numpy archives hold .npy files. Unpack it first?",
        ));
    }
    if bytes.starts_with(&torch_legacy::MAGIC) {
        return torch_legacy::read(bytes, file);
    }
    if bytes.starts_with(numpy::NPY_MAGIC) {
        return numpy::read_npy(bytes, file);
    }
    if safetensors::is_safetensors(bytes) {
        return safetensors::read(bytes, file);
    }
    if matches!(bytes, [0x80, 2..=5, ..]) {
        return numpy::read_pickle(bytes, file);
    }
    Err(unknown(bytes, file))
}

/// Says what an unreadable file seems to be.
fn unknown(bytes: &[u8], file: Source) -> FormatError {
    const READABLE: &str = "Readable are .safetensors, PyTorch .pth/.pt, TorchScript, pickles of \
                            numpy arrays, .npy and .npz";
    let (found, todo) = match bytes {
        [] => ("an empty file", "Fetch it again"),
        [b'v', b'e', b'r', b's', b'i', b'o', b'n', b' ', b'h', ..] => (
            "a Git LFS pointer instead of the file",
            "Run `git lfs pull` or download the file itself",
        ),
        [b'<', ..] => ("a web page or XML text", "Download the file itself"),
        [0x1f, 0x8b, ..] => ("a gzip file", "Unpack it first"),
        [0x89, b'H', b'D', b'F', ..] => (
            "an HDF5 file (Keras?)",
            "Load it in its framework and save the arrays as .npz or .safetensors",
        ),
        [b'G', b'G', b'U', b'F', ..] => ("a GGUF file", READABLE),
        _ if bytes.get(257..262) == Some(b"ustar") => (
            "a tar file (PyTorch before 0.1.10?)",
            "Unpack it, or load it with PyTorch and save it again",
        ),
        _ => {
            let start: Vec<String> = bytes.iter().take(8).map(|b| format!("{b:02x}")).collect();
            return file.unknown(
                format!("a file starting with {}", start.join(" ")),
                READABLE,
            );
        }
    };
    file.unknown(found, todo)
}
