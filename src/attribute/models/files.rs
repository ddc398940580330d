//! Files of models: `.safetensors` with the arrays of a linear model (`coef`, `intercept`), a tree (`children_left`, `children_right`, `feature`, `threshold`, `value`)
//! or an MLP (`w0` \[inputs, outputs\], `b0`, `w1`, …); ONNX. A file that says `task: classification` in its metadata gives probabilities.

use std::collections::HashMap;
use std::path::Path;

use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};

use super::tree::NO_CHILD;
use super::{Dense, Linear, Link, Mlp, Model, Tree};
use crate::attribute::error::{AttributionError, Result};
use crate::tensor::{TypedArray, TypedArrays, Values};

/// Reads a model: `.onnx`, or arrays.
pub fn read(path: &Path) -> Result<Model> {
    let bytes = std::fs::read(path)
        .map_err(|e| AttributionError::file(path, format!("cannot read: {e}")))?;
    if path.extension().is_some_and(|e| e == "onnx") {
        return super::from_onnx(&bytes, path);
    }
    let arrays = TypedArrays::from_bytes(&bytes, &path.display().to_string())?;
    let metadata = SafeTensors::read_metadata(&bytes).ok();
    let task = metadata.and_then(|(_, m)| m.metadata().as_ref()?.get("task").cloned());
    let link = match task.as_deref() {
        Some("classification") => Link::Logistic,
        _ => Link::Identity,
    };
    from_arrays(&arrays, "", link)
}

/// A model out of arrays whose names begin with `prefix`.
pub fn from_arrays(arrays: &TypedArrays, prefix: &str, link: Link) -> Result<Model> {
    let has = |name: &str| arrays.contains(&format!("{prefix}{name}"));
    let get = |name: &str| arrays.f64(&format!("{prefix}{name}"));
    if has("coef") {
        let intercept = get("intercept")?;
        return Ok(Model::Linear(Linear {
            coefficients: get("coef")?,
            intercept: intercept.first().copied().unwrap_or(0.0),
            link,
        }));
    }
    if has("children_left") {
        return tree(arrays, prefix).map(Model::Tree);
    }
    if !has("w0") {
        return Err(AttributionError::file(
            arrays.file(),
            "expected the arrays of a linear model (coef), a tree (children_left) or an MLP (w0), found none of them",
        ));
    }
    let mut layers: Vec<Dense> = Vec::new();
    while has(&format!("w{}", layers.len())) {
        let k = layers.len();
        let name = format!("{prefix}w{k}");
        let &[inputs, outputs] = &arrays.get(&name)?.shape[..] else {
            let found = format!("{:?}", arrays.get(&name)?.shape);
            return Err(arrays.unexpected(&name, "[inputs, outputs]", found).into());
        };
        let before = layers.last().map_or(inputs, Dense::outputs);
        let (values, bias) = (arrays.f64(&name)?, get(&format!("b{k}"))?);
        if before != inputs || bias.len() != outputs {
            let expected = format!("{before} inputs and as many outputs as b{k} has values");
            let found = format!("[{inputs}, {outputs}] and {} values", bias.len());
            return Err(arrays.unexpected(&name, &expected, found).into());
        }
        let turned = |o: usize| (0..inputs).map(move |i| (o, i));
        let weights = (0..outputs)
            .flat_map(turned)
            .map(|(o, i)| values[i * outputs + o])
            .collect();
        layers.push(Dense {
            inputs,
            weights,
            bias,
        });
    }
    if layers.last().map(Dense::outputs) != Some(1) {
        return Err(AttributionError::file(
            arrays.file(),
            "expected one output of the last layer; models of several outputs are not explained",
        ));
    }
    Ok(Model::Mlp(Mlp { layers, link }))
}

fn tree(arrays: &TypedArrays, prefix: &str) -> Result<Tree> {
    let name = |what: &str| format!("{prefix}{what}");
    let index = |what: &str| -> Result<Vec<usize>> {
        let values = arrays.i64(&name(what))?;
        let index = |v: &i64| usize::try_from(*v).unwrap_or(NO_CHILD);
        Ok(values.iter().map(index).collect())
    };
    let (left, right) = (index("children_left")?, index("children_right")?);
    let (feature, n) = (index("feature")?, left.len());
    let threshold = arrays.f64(&name("threshold"))?;
    let value = arrays.f64(&name("value"))?;
    let wrong = (0..n).find(|&node| {
        let child = |c: usize| c > node && c < n;
        let lists = [right.len(), feature.len(), threshold.len(), value.len()];
        lists != [n; 4]
            || (left[node] != NO_CHILD
                && !(child(left[node]) && child(right[node]) && feature[node] != NO_CHILD))
    });
    if let Some(node) = wrong {
        let expected = "lists of one length, and children that come after their node";
        let found = format!("another thing at node {node}");
        return Err(arrays
            .unexpected(&name("children_left"), expected, found)
            .into());
    }
    let most = feature.iter().filter(|&&f| f != NO_CHILD).max();
    let stored = match arrays.contains(&name("dimension")) {
        true => index("dimension")?.first().copied(),
        false => None,
    };
    Ok(Tree {
        dimension: stored.unwrap_or(most.map_or(1, |f| f + 1)),
        impurity: Vec::new(),
        left,
        right,
        feature,
        threshold,
        value,
    })
}

/// Writes a model that [`read`] reads. Ensembles of trees, which come from ONNX, stay there.
pub fn write(model: &Model, path: &Path) -> Result<()> {
    let mut arrays: Vec<(String, TypedArray)> = Vec::new();
    let mut put = |name: &str, shape: Vec<usize>, values: Values| {
        arrays.push((name.into(), TypedArray { shape, values }));
    };
    let mut link = Link::Identity;
    match model {
        Model::Linear(m) => {
            link = m.link;
            let coefficients = m.coefficients.clone();
            put("coef", vec![coefficients.len()], Values::F64(coefficients));
            put("intercept", vec![1], Values::F64(vec![m.intercept]));
        }
        Model::Tree(m) => {
            let n = m.left.len();
            let index = |v: &[usize]| -> Values {
                let signed = |&v: &usize| i64::try_from(v).unwrap_or(-1);
                Values::I64(v.iter().map(signed).collect())
            };
            put("children_left", vec![n], index(&m.left));
            put("children_right", vec![n], index(&m.right));
            put("feature", vec![n], index(&m.feature));
            put("threshold", vec![n], Values::F64(m.threshold.clone()));
            put("value", vec![n], Values::F64(m.value.clone()));
            put("dimension", vec![1], index(&[m.dimension]));
        }
        Model::Mlp(m) => {
            link = m.link;
            for (k, layer) in m.layers.iter().enumerate() {
                let (inputs, outputs) = (layer.inputs, layer.outputs());
                let turned = (0..inputs * outputs)
                    .map(|at| layer.weights[at % outputs * inputs + at / outputs])
                    .collect();
                put(&format!("w{k}"), vec![inputs, outputs], Values::F64(turned));
                put(
                    &format!("b{k}"),
                    vec![outputs],
                    Values::F64(layer.bias.clone()),
                );
            }
        }
        Model::Forest(_) => {
            return Err(AttributionError::Unsupported {
                what: path.display().to_string(),
                reason: "an ensemble of trees is not written; keep its ONNX file".into(),
            });
        }
    }
    let bytes: Vec<(String, Dtype, Vec<usize>, Vec<u8>)> = arrays
        .into_iter()
        .map(|(name, array)| {
            let (dtype, bytes) = match &array.values {
                Values::I64(v) => (Dtype::I64, v.iter().flat_map(|v| v.to_le_bytes()).collect()),
                Values::F64(v) => (Dtype::F64, v.iter().flat_map(|v| v.to_le_bytes()).collect()),
                Values::F32(v) => (Dtype::F32, v.iter().flat_map(|v| v.to_le_bytes()).collect()),
                Values::U8(v) => (Dtype::U8, v.clone()),
            };
            (name, dtype, array.shape, bytes)
        })
        .collect();
    let fail = |reason: String| AttributionError::file(path, format!("cannot write: {reason}"));
    let mut views = Vec::new();
    for (name, dtype, shape, bytes) in &bytes {
        let view = TensorView::new(*dtype, shape.clone(), bytes);
        views.push((name.as_str(), view.map_err(|e| fail(e.to_string()))?));
    }
    let task = match link {
        Link::Identity => "regression",
        Link::Logistic => "classification",
    };
    let metadata = HashMap::from([
        ("task".to_owned(), task.to_owned()),
        ("model".to_owned(), model.kind().to_owned()),
        ("foil".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
    ]);
    let file = safetensors::serialize(views, Some(metadata)).map_err(|e| fail(e.to_string()))?;
    if let Some(folder) = path.parent().filter(|p| !p.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).map_err(|e| fail(e.to_string()))?;
    }
    std::fs::write(path, file).map_err(|e| fail(e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::super::{Kind, MlpSettings};
    use super::*;
    use crate::attribute::Rows;
    use crate::attribute::data::{Split, Task};

    #[test]
    fn a_model_that_was_written_predicts_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let x = Rows::new((0..90).map(|i| f64::from(i * i % 17) / 7.0).collect(), 3);
        let y: Vec<f64> = x.iter().map(|r| f64::from(u8::from(r[0] > r[1]))).collect();
        let split = Split { x: x.clone(), y };
        for task in [Task::Regression, Task::Classification] {
            for kind in Kind::ALL {
                let model = kind.train(&split, task, 1);
                let path = folder.path().join(kind.name());
                write(&model, &path).unwrap();
                assert_eq!(read(&path).unwrap().predict(&x), model.predict(&x));
            }
        }
        let settings = MlpSettings {
            hidden: vec![5, 4],
            ..MlpSettings::default()
        };
        let deep = Model::Mlp(settings.train(&x, &split.y, Link::Identity, 1).0);
        let path = folder.path().join("deep");
        write(&deep, &path).unwrap();
        assert_eq!(read(&path).unwrap().predict(&x), deep.predict(&x));
        std::fs::write(&path, b"nothing").unwrap();
        assert!(read(&path).is_err());
    }
}
