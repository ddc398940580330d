//! Torch tensors inside a pickle; shared by the zip, TorchScript and legacy readers.
//!
//! A tensor is stored as a call of `torch._utils._rebuild_tensor_v2` with a storage, an offset,
//! sizes and strides. Several tensors may view one storage. Where a storage lived (CPU, CUDA) is
//! ignored.
//!
//! # Which dictionary, which names
//! If the file holds a dictionary with a dictionary (or module) under `state_dict`, `model`,
//! `model_state_dict`, `net` or `params` (the first of these that is there), only that one is
//! read, repeatedly if need be; optimizer states and counters around it are ignored. Should it
//! hold no tensor (a dictionary of settings), the whole file is read instead. If then
//! *every* name begins with `module.`, as `DataParallel` writes them, that prefix is removed.

use super::decode::{Budget, DType, View};
use super::error::{Result, Source, shorten};
use super::values::{Id, Node, Pickle};
use super::walk::{Leaves, Walk};
use crate::tensor::{Array, StateDict};

const WRAPPERS: [&str; 5] = ["state_dict", "model", "model_state_dict", "net", "params"];
const RESAVE: &str = "Load it in PyTorch, convert the tensors to plain dense ones and save again";

/// A reference to a storage, taken from a persistent id
/// `("storage", type, key, location, count[, view])`.
pub(super) struct StorageRef<'a> {
    /// `None` for untyped storages, whose count is in bytes.
    pub dtype: Option<DType>,
    pub key: &'a str,
    /// Start within the storage, in numbers; only legacy files have such views.
    pub view_offset: usize,
}

/// Where the bytes of storages come from.
pub(super) trait Storages {
    /// The bytes of a storage; `tensor` is for messages.
    fn bytes(&mut self, key: &str, tensor: &str) -> Result<&[u8]>;
    /// Whether numbers are stored with the most significant byte first.
    fn big_endian(&self) -> bool;
}

/// Reads tensors of torch pickles.
pub(super) struct TorchLeaves<'w, S> {
    pub file: Source<'w>,
    pub storages: S,
    pub budget: Budget,
}

impl<'a, S: Storages> Leaves<'a> for TorchLeaves<'_, S> {
    fn leaf(&mut self, pickle: &Pickle<'a>, id: Id, name: &str) -> Result<Option<Array>> {
        let Some((module, function, args)) = pickle.named_call(id) else {
            return Ok(None);
        };
        self.rebuild(pickle, (module, function), args, name, 0)
    }
}

impl<S: Storages> TorchLeaves<'_, S> {
    fn rebuild(
        &mut self,
        pickle: &Pickle,
        (module, function): (&str, &str),
        args: &[Id],
        name: &str,
        depth: usize,
    ) -> Result<Option<Array>> {
        let what = || format!("tensor `{}` ({function})", shorten(name));
        match (module, function) {
            ("torch._utils", "_rebuild_tensor" | "_rebuild_tensor_v2") => {
                if let Some(&metadata) = args.get(6)
                    && pickle
                        .pairs(metadata)
                        .is_some_and(|pairs| !pairs.is_empty())
                {
                    return Err(self.file.unsupported(what() + " as lazy view", RESAVE));
                }
                self.strided(pickle, args, None, name).map(Some)
            }
            ("torch._utils", "_rebuild_tensor_v3") => {
                let dtype = args.get(6).and_then(|&id| pickle.global(id));
                let dtype = dtype.and_then(|(_, dtype)| dtype_named(dtype));
                let Some(dtype) = dtype else {
                    return Err(self.file.unsupported(what() + ": its number type", RESAVE));
                };
                self.strided(pickle, args, Some(dtype), name).map(Some)
            }
            ("torch._utils", "_rebuild_parameter" | "_rebuild_parameter_with_state") => {
                let inner = args.first().and_then(|&id| pickle.named_call(id));
                match inner {
                    Some((module, function, args)) if depth < 8 => {
                        self.rebuild(pickle, (module, function), args, name, depth + 1)
                    }
                    _ => Err(self.malformed(name)),
                }
            }
            ("torch._tensor", "_rebuild_from_type_v2") => {
                let inner = match args {
                    &[function, _class, args, ..] => {
                        pickle.global(function).zip(pickle.sequence(args))
                    }
                    _ => None,
                };
                match inner {
                    Some((function, args)) if depth < 8 => {
                        self.rebuild(pickle, function, args, name, depth + 1)
                    }
                    _ => Err(self.malformed(name)),
                }
            }
            ("torch._utils", other) if other.starts_with("_rebuild_") => {
                Err(self.file.unsupported(what(), RESAVE))
            }
            _ => Ok(None),
        }
    }

    /// `args` are storage, offset, sizes, strides, ….
    fn strided(
        &mut self,
        pickle: &Pickle,
        args: &[Id],
        dtype: Option<DType>,
        name: &str,
    ) -> Result<Array> {
        let parts = match args {
            &[storage, offset, shape, strides, ..] => (|| {
                let storage = match *pickle.node(storage) {
                    Node::Persistent(id) => storage_ref(pickle, id)?,
                    _ => return None,
                };
                Some((
                    storage,
                    pickle.size(offset)?,
                    pickle.sizes(shape)?,
                    pickle.sizes(strides)?,
                ))
            })(),
            _ => None,
        };
        let Some((storage, offset, shape, strides)) = parts else {
            return Err(self.malformed(name));
        };
        let Some(dtype) = dtype.or(storage.dtype) else {
            return Err(self.file.unsupported(
                format!("tensor `{}`: its number type", shorten(name)),
                RESAVE,
            ));
        };
        let Some(offset) = offset.checked_add(storage.view_offset) else {
            return Err(self.malformed(name));
        };
        let big_endian = self.storages.big_endian();
        View {
            dtype,
            big_endian,
            bytes: self.storages.bytes(storage.key, name)?,
            offset,
            shape,
            strides: Some(strides),
        }
        .decode(self.file, name, &mut self.budget)
    }

    fn malformed(&self, name: &str) -> super::FormatError {
        self.file.tensor(
            name,
            "storage, offset, sizes and strides",
            "something else",
            "The file is damaged or newer than this reader: save it as .safetensors",
        )
    }
}

/// Reads a persistent id.
pub(super) fn storage_ref<'a>(pickle: &Pickle<'a>, id: Id) -> Option<StorageRef<'a>> {
    let parts = pickle.sequence(id)?;
    let &[tag, class, key, _location, _count, ref rest @ ..] = parts else {
        return None;
    };
    if pickle.text(tag) != Some("storage") {
        return None;
    }
    let (_, class) = pickle.global(class)?;
    let view_offset = match rest.first().map(|&view| (view, pickle.sequence(view))) {
        Some((_, Some(&[_key, offset, _size]))) => pickle.size(offset)?,
        Some((view, None)) if !matches!(pickle.node(view), Node::None) => return None,
        _ => 0,
    };
    Some(StorageRef {
        dtype: storage_dtype(class),
        key: pickle.text(key)?,
        view_offset,
    })
}

/// Number type of a storage class such as `FloatStorage`.
fn storage_dtype(class: &str) -> Option<DType> {
    Some(match class.strip_suffix("Storage")? {
        "Float" => DType::F32,
        "Double" => DType::F64,
        "Half" => DType::F16,
        "BFloat16" => DType::BF16,
        "Long" => DType::I64,
        "Int" => DType::I32,
        "Short" => DType::I16,
        "Char" => DType::I8,
        "Byte" => DType::U8,
        "Bool" => DType::Bool,
        _ => return None,
    })
}

/// Number type of `torch.<name>`.
fn dtype_named(name: &str) -> Option<DType> {
    Some(match name {
        "float32" | "float" => DType::F32,
        "float64" | "double" => DType::F64,
        "float16" | "half" => DType::F16,
        "bfloat16" => DType::BF16,
        "int64" | "long" => DType::I64,
        "int32" | "int" => DType::I32,
        "int16" | "short" => DType::I16,
        "int8" => DType::I8,
        "uint8" => DType::U8,
        "uint16" => DType::U16,
        "uint32" => DType::U32,
        "uint64" => DType::U64,
        "bool" => DType::Bool,
        _ => return None,
    })
}

/// All tensors of a checkpoint, under the names the network uses.
pub(super) fn state_dict<S: Storages>(
    pickle: &Pickle,
    leaves: &mut TorchLeaves<'_, S>,
) -> Result<StateDict> {
    let file = leaves.file;
    let mut root = pickle.root;
    for _ in 0..4 {
        let Some(pairs) = pickle.pairs(root) else {
            break;
        };
        let inner = WRAPPERS.iter().find_map(|key| {
            let value = pickle.value(&pairs, key)?;
            let module = pickle.call(value).is_some_and(|call| {
                let state = call.state.and_then(|state| pickle.pairs(state));
                state.is_some_and(|pairs| pickle.value(&pairs, "_parameters").is_some())
            });
            (module || pickle.pairs(value).is_some()).then_some(value)
        });
        match inner {
            Some(inner) => root = inner,
            None => break,
        }
    }
    let mut out = StateDict::named(file.0);
    let mut walk = Walk {
        pickle,
        file,
        separator: '.',
        leaves,
        out: &mut out,
        steps: 0,
    };
    walk.run(root, "")?;
    if walk.out.is_empty() && root != pickle.root {
        walk.run(pickle.root, "")?;
    }
    if out.is_empty() {
        return Err(file.unknown(
            format!("a PyTorch file without tensors: {}", pickle.describe(root)),
            "Save the network's state_dict()",
        ));
    }
    strip_module(out)
}

/// Removes `module.` if every name has it.
fn strip_module(dict: StateDict) -> Result<StateDict> {
    const PREFIX: &str = "module.";
    let all = |dict: &StateDict| dict.names().all(|n| n.len() > 7 && n.starts_with(PREFIX));
    if !all(&dict) {
        return Ok(dict);
    }
    let mut out = StateDict::named(dict.source());
    for (name, array) in dict.into_pairs() {
        out.add(&name[PREFIX.len()..], array)?;
    }
    Ok(out)
}
