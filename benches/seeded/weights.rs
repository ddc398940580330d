//! Weights of the networks from the golden tables: seeded values, scaled so that activations keep their size.

use std::path::Path;

use foil::conformance::synthetic;
use foil::tensor::{StateDict, TypedArrays};
use serde_json::Value;

fn golden() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden"))
}

/// A table of names, shapes, offsets and scales; `None` if the golden data are not here.
fn table(file: &str) -> Option<Value> {
    let path = golden().join(file);
    match std::fs::read(&path) {
        Ok(bytes) => Some(serde_json::from_slice(&bytes).expect("a table of weights")),
        Err(error) => {
            eprintln!("skipped: {}: {error}", path.display());
            None
        }
    }
}

fn numbers(shape: &Value) -> Vec<usize> {
    let shape = shape.as_array().expect("a shape");
    shape
        .iter()
        .map(|n| n.as_u64().expect("a length") as usize)
        .collect()
}

/// Names of the classifiers of `nets.json`; none if it is not here.
pub fn classifiers() -> Vec<String> {
    let table = table("nets/nets.json").unwrap_or_default();
    let nets = table["nets"].as_object();
    nets.map(|nets| nets.keys().cloned().collect())
        .unwrap_or_default()
}

/// The tensors of a classifier of `nets.json` whose names begin with `prefix`; `None` if there is no such table.
pub fn classifier(name: &str, prefix: &str) -> Option<StateDict> {
    let table = table("nets/nets.json")?;
    let mut dict = StateDict::new();
    for row in table["nets"].get(name)?["tensors"].as_array()? {
        let tensor = row[0].as_str()?;
        if tensor.starts_with(prefix) {
            let (offset, scale) = (row[2].as_f64()?, row[3].as_f64()?);
            let values = synthetic::tensor("foil-nets", tensor, &numbers(&row[1]), offset, scale);
            dict.insert(tensor, values);
        }
    }
    Some(dict)
}

/// The FID Inception of the vision goldens; `None` if they are not here.
pub fn inception() -> Option<StateDict> {
    let table = table("vision/inception_weights_table.json")?;
    let mut dict = StateDict::new();
    for row in table["tensors"].as_array()? {
        let name = row["name"].as_str()?;
        let (offset, scale) = (row["offset"].as_f64()?, row["scale"].as_f64()?);
        let salt = table["salt"].as_str()?;
        dict.insert(
            name,
            synthetic::tensor(salt, name, &numbers(&row["shape"]), offset, scale),
        );
    }
    let statistics = TypedArrays::read(&golden().join("vision/inception_bn_stats.safetensors"));
    let statistics = statistics.expect("statistics of the batch norms");
    for name in statistics.names() {
        dict.insert(name, statistics.f32(name).expect("f32"));
    }
    Some(dict)
}
