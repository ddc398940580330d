//! PyTorch files from before version 1.6 (and of `_use_new_zipfile_serialization=False`).
//!
//! Four pickles in a row (magic number, protocol version, system info, the object), a fifth with
//! the keys of the storages in file order, and then each storage as a 64-bit count followed by
//! its numbers, always little-endian. The three official LPIPS head files look like this.

use super::decode::Budget;
use super::error::{Result, Source, shorten};
use super::pickle::parse;
use super::torch::{Storages, TorchLeaves, state_dict, storage_ref};
use super::values::{Node, Pickle};
use crate::tensor::StateDict;
use std::collections::HashMap;

/// The pickled magic number that every such file begins with.
pub(super) const MAGIC: [u8; 15] = [
    0x80, 0x02, 0x8a, 0x0a, 0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19, b'.',
];

pub(super) fn read(bytes: &[u8], file: Source) -> Result<StateDict> {
    let mut at = MAGIC.len();
    let mut next = || -> Result<Pickle> {
        let (pickle, used) = parse(&bytes[at..], file)?;
        at += used;
        Ok(pickle)
    };
    let protocol = next()?;
    if protocol.int(protocol.root) != Some(1001) {
        return Err(file.unsupported(
            "a legacy PyTorch file of a protocol other than 1001",
            "Load it with a current PyTorch and save it again",
        ));
    }
    let _system = next()?;
    let object = next()?;
    let keys = next()?;
    let storages = LegacyStorages {
        file,
        storages: storages(bytes, at, &object, &keys, file)?,
    };
    let mut leaves = TorchLeaves {
        file,
        storages,
        budget: Budget::of(bytes.len() as u64),
    };
    state_dict(&object, &mut leaves)
}

/// Cuts the rest of the file into storages.
fn storages<'a>(
    bytes: &'a [u8],
    mut at: usize,
    object: &Pickle<'a>,
    keys: &Pickle<'a>,
    file: Source,
) -> Result<HashMap<&'a str, &'a [u8]>> {
    // The table does not say how wide the numbers are; the references to a storage do.
    let mut widths = HashMap::new();
    for node in &object.nodes {
        if let Node::Persistent(id) = *node
            && let Some(storage) = storage_ref(object, id)
        {
            let width = storage.dtype.map_or(1, |dtype| dtype.size());
            if *widths.entry(storage.key).or_insert(width) != width {
                return Err(file.damaged("a storage with two number types"));
            }
        }
    }
    let Some(order) = keys.sequence(keys.root) else {
        return Err(file.damaged("no table of storages after the pickle"));
    };
    let mut found = HashMap::new();
    for &key in order {
        let Some((key, &width)) = keys.text(key).and_then(|k| Some((k, widths.get(k)?))) else {
            return Err(file.damaged("a storage that nothing refers to"));
        };
        let rest = &bytes[at..];
        let count = rest.first_chunk().map(|&raw| u64::from_le_bytes(raw));
        let Some(count) = count else {
            return Err(file.damaged(format!("it ends before storage {}", shorten(key))));
        };
        let length = usize::try_from(count)
            .ok()
            .and_then(|n| n.checked_mul(width));
        let Some(storage) = length.and_then(|length| rest[8..].get(..length)) else {
            return Err(file.damaged(format!(
                "storage {} says {count} numbers of {width} bytes, but {} bytes are left",
                shorten(key),
                rest.len() - 8
            )));
        };
        at += 8 + storage.len();
        if found.insert(key, storage).is_some() {
            return Err(file.damaged(format!("storage {} twice", shorten(key))));
        }
    }
    Ok(found)
}

struct LegacyStorages<'a> {
    file: Source<'a>,
    storages: HashMap<&'a str, &'a [u8]>,
}

impl Storages for LegacyStorages<'_> {
    fn bytes(&mut self, key: &str, tensor: &str) -> Result<&[u8]> {
        match self.storages.get(key) {
            Some(bytes) => Ok(bytes),
            None => Err(self.file.tensor(
                tensor,
                format!("storage {}", shorten(key)),
                "none of that key",
                "The file is damaged: fetch it again",
            )),
        }
    }

    fn big_endian(&self) -> bool {
        false
    }
}
