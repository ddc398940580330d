//! Zip files of PyTorch: checkpoints of `torch.save` since 1.6, and TorchScript archives.
//!
//! Both hold `<name>/data.pkl` and one entry `<name>/data/<key>` per storage. TorchScript adds
//! the tensors that its code mentions: `constants.pkl` with `constants/<key>`. Its modules are
//! objects of `__torch__.…` classes; their attributes become names as in `state_dict()`
//! (`net.layers.conv.weight`), in stored order. Constants follow as `constants.0`, …. The code
//! of an archive is not looked at.

use super::decode::Budget;
use super::error::{Result, Source, shorten};
use super::pickle::parse;
use super::torch::{Storages, TorchLeaves, state_dict};
use super::walk::Walk;
use super::zip::Zip;
use crate::tensor::StateDict;
use std::borrow::Cow;
use std::collections::HashMap;

/// The path of `data.pkl` without that name, if this archive has one.
pub(super) fn root_of<'a>(zip: &'a Zip) -> Option<&'a str> {
    zip.names()
        .filter_map(|name| name.strip_suffix("data.pkl"))
        .filter(|root| root.is_empty() || root.ends_with('/'))
        .min_by_key(|root| root.len())
}

pub(super) fn read(zip: &Zip, root: &str, file: Source) -> Result<StateDict> {
    let big_endian = match zip.read_named(&format!("{root}byteorder"))? {
        Some(order) => order.trim_ascii() == b"big",
        None => false,
    };
    let mut leaves = TorchLeaves {
        file,
        storages: ZipStorages {
            zip,
            file,
            folder: format!("{root}data/"),
            big_endian,
            loaded: HashMap::new(),
        },
        budget: Budget::of(zip.content_len()),
    };
    let Some(main) = zip.read_named(&format!("{root}data.pkl"))? else {
        return Err(file.damaged("data.pkl is missing"));
    };
    let (pickle, _) = parse(&main, file)?;
    let Some(constants) = zip.read_named(&format!("{root}constants.pkl"))? else {
        return state_dict(&pickle, &mut leaves);
    };
    // TorchScript
    let (constants, _) = parse(&constants, file)?;
    let mut out = StateDict::named(file.0);
    let mut walk = Walk {
        pickle: &pickle,
        file,
        separator: '.',
        leaves: &mut leaves,
        out: &mut out,
        steps: 0,
    };
    walk.run(pickle.root, "")?;
    let steps = walk.steps;
    leaves.storages.folder = format!("{root}constants/");
    leaves.storages.loaded.clear();
    let mut walk = Walk {
        pickle: &constants,
        file,
        separator: '.',
        leaves: &mut leaves,
        out: &mut out,
        steps,
    };
    walk.run(constants.root, "constants")?;
    if out.is_empty() {
        return Err(file.unknown(
            "a TorchScript archive without tensors",
            "Save a module that holds parameters",
        ));
    }
    Ok(out)
}

struct ZipStorages<'a> {
    zip: &'a Zip<'a>,
    file: Source<'a>,
    folder: String,
    big_endian: bool,
    /// Storages read so far, each checked once.
    loaded: HashMap<String, Cow<'a, [u8]>>,
}

impl Storages for ZipStorages<'_> {
    fn bytes(&mut self, key: &str, tensor: &str) -> Result<&[u8]> {
        if !self.loaded.contains_key(key) {
            let entry = format!("{}{key}", self.folder);
            let Some(bytes) = self.zip.read_named(&entry)? else {
                return Err(self.file.tensor(
                    tensor,
                    format!("archive entry {}", shorten(&entry)),
                    "none of that name",
                    "The file is damaged: fetch it again",
                ));
            };
            self.loaded.insert(key.to_owned(), bytes);
        }
        Ok(&self.loaded[key])
    }

    fn big_endian(&self) -> bool {
        self.big_endian
    }
}
