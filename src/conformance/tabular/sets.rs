//! Data sets: encoding, scaling, splits and the choice of factuals.

use std::collections::BTreeMap;

use crate::conformance::check::{Check, Tolerance};
use crate::conformance::error::Of;
use crate::conformance::folder::Folder;
use crate::conformance::json::Node;
use crate::conformance::{ConformanceError, Result};
use crate::metrics::MetricBackend;
use crate::tabular::{
    CATALOG, DataSet, Encoding, Kind, MOST_FACTUALS, Network, Rule, Schema, Source, Split, Table,
    balance_scale, choose_factuals, probabilities_on, split, tic_tac_toe,
};
use crate::tensor::TypedArrays;

/// One data set with its network.
pub struct Set {
    pub name: String,
    pub table: Table,
    pub encoding: Encoding,
    /// All rows, encoded.
    pub rows: Vec<Vec<f64>>,
    pub split: Split,
    pub network: Option<Network>,
    /// Probability of class 1 of all rows, by the device.
    pub probabilities: Vec<f64>,
    /// Row numbers of the factuals of both classes, as chosen here.
    pub factuals: [Vec<usize>; 2],
}

pub type Sets = BTreeMap<String, Set>;

/// Statistics of up to 32,000 numbers, summed in another order.
const STATISTICS: Tolerance = Tolerance::both(1e-11, 1e-12);

pub fn read<B: MetricBackend + 'static>(
    backend: &B,
    folder: &Folder,
    check: &mut Check,
) -> Result<Sets> {
    let mut sets = Sets::new();
    let file = "datasets/schema.json";
    let (Some(json), Some(bytes)) = (folder.json(file)?, folder.bytes(file)?) else {
        return Ok(sets);
    };
    let values: serde_json::Value =
        serde_json::from_slice(&bytes).map_err(|source| ConformanceError::Json {
            file: folder.name(file),
            source,
        })?;
    for (name, node) in json.root().fields()? {
        let data = node.at("data_file")?;
        if node.get("features").is_none() {
            // A data set of which only the network and some rows are known.
            node.skip();
            continue;
        }
        let path = data.str()?;
        let Some(text) = folder.bytes(path)? else {
            check.absent(path);
            node.skip();
            continue;
        };
        check.group("data sets");
        let mut schema = Schema::from_json(&folder.name(file), &values[name]).of(name)?;
        if let Some(known) = DataSet::named(name) {
            let rules = known.rules.iter().map(|r| Rule::parse(r));
            schema.rules = rules.collect::<std::result::Result<_, _>>().of(name)?;
        }
        let table = Table::from_csv(&folder.name(path), &text, &schema, true).of(name)?;
        let encoding = Encoding::new(&table).of(name)?;
        described(name, &node, &table, &encoding, check)?;
        by_rules_of_play(name, &text, check);
        let rows = encoding.encode_all(&table.rows);
        let split = split(&table, 42).of(name)?;
        let network = network(folder, &node, name, &encoding, check)?;
        let probabilities: Vec<f64> = match &network {
            Some(network) => {
                let given = probabilities_on(backend, network, &rows).of(name)?;
                given.iter().map(|p| f64::from(p[1])).collect()
            }
            None => Vec::new(),
        };
        let predicted: Vec<usize> = probabilities
            .iter()
            .map(|p| usize::from(*p > 0.5))
            .collect();
        let factuals = match predicted.is_empty() {
            true => [Vec::new(), Vec::new()],
            false => [0, 1].map(|c| choose_factuals(&split, &predicted, c, MOST_FACTUALS)),
        };
        let set = Set {
            name: name.into(),
            table,
            encoding,
            rows,
            split,
            network,
            probabilities,
            factuals,
        };
        splits(folder, &set, check)?;
        sets.insert(name.into(), set);
    }
    if let Some(tensors) = folder.tensors("splits/splits.safetensors")? {
        let names: Vec<String> = tensors.names().map(Into::into).collect();
        for name in names {
            // Row numbers of data sets whose rows are not there.
            if !sets.keys().any(|set| name.starts_with(&format!("{set}."))) {
                tensors.skip(&name);
            }
        }
    }
    Ok(sets)
}

fn network(
    folder: &Folder,
    node: &Node<'_>,
    name: &str,
    encoding: &Encoding,
    check: &mut Check,
) -> Result<Option<Network>> {
    let Some(path) = node.get("model_file") else {
        return Ok(None);
    };
    let path = path.str()?;
    let Some(bytes) = folder.bytes(path)? else {
        check.absent(path);
        return Ok(None);
    };
    let arrays = TypedArrays::from_bytes(&bytes, &folder.name(path))?;
    let network = Network::from_arrays(&arrays).of(name)?;
    network
        .check_width(&folder.name(path), encoding.width())
        .of(name)?;
    if let Some(hidden) = node.get("hidden_neurons") {
        check.equal(
            format!("{name}: hidden values"),
            &hidden.usize()?,
            &network.hidden(),
        );
    }
    Ok(Some(network))
}

/// What the schema says of a table that the table says itself.
fn described(
    name: &str,
    node: &Node<'_>,
    table: &Table,
    encoding: &Encoding,
    check: &mut Check,
) -> Result<()> {
    node.skip_fields(&[
        "class_meaning",
        "binary_recoding_from_uci",
        "training",
        "grid_search_best_validation_auc",
    ]);
    check.equal(
        format!("{name}: kinds"),
        node.at("type")?.str()?,
        encoding.kinds().word(),
    );
    let counted = node.at("n_features")?.usize()?;
    check.equal(
        format!("{name}: features"),
        &counted,
        &table.schema.features.len(),
    );
    check.equal(
        format!("{name}: rows"),
        &node.at("n_rows")?.usize()?,
        &table.rows.len(),
    );
    let width = node.at("n_encoded_columns")?.usize()?;
    check.equal(
        format!("{name}: encoded columns"),
        &width,
        &encoding.width(),
    );
    let names: Vec<&str> = node.at("encoded_column_names")?.strs()?;
    let got: Vec<&str> = encoding.columns.iter().map(|c| c.name.as_str()).collect();
    check.identical(format!("{name}: names of encoded columns"), &names, &got);
    for (class, count) in node.at("class_counts")?.fields()? {
        let place = table.classes.iter().position(|c| c == class);
        let got = table.class_of.iter().filter(|c| Some(**c) == place).count();
        check.equal(
            format!("{name}: rows of class {class}"),
            &count.usize()?,
            &got,
        );
    }
    let share = node.at("binary_label_1_share")?.f64()?;
    let labels = table.labels();
    let got = labels.iter().sum::<usize>() as f64 / labels.len() as f64;
    check.close(format!("{name}: share of label 1"), share, got, STATISTICS);
    let mut unsaid = table.schema.clone();
    unsaid.majority_class = None;
    let counts = |c: &usize| table.class_of.iter().filter(|x| *x == c).count();
    // The most frequent class, of equals the last, unless the schema says otherwise.
    let most = (0..table.classes.len())
        .max_by_key(|c| (counts(c), *c))
        .unwrap_or(0);
    let said = node.at("majority_class")?.usize()?.to_string();
    check.equal(
        format!("{name}: majority class"),
        &said,
        &table.classes[most],
    );
    for (i, feature) in node.at("features")?.items()?.iter().enumerate() {
        let known = &table.schema.features[i];
        let label = format!("{name}, {}", known.name);
        check.equal(
            format!("{label}: place"),
            &feature.at("index")?.usize()?,
            &i,
        );
        feature.skip_fields(&["name", "kind", "values"]);
        let places = feature.at("encoded_columns")?.usizes()?;
        check.identical(
            format!("{label}: encoded columns"),
            &places,
            &encoding.of_feature[i],
        );
        match known.kind {
            Kind::Numerical => {
                let column = table.column(i);
                let fold = |f: fn(f64, f64) -> f64| column.iter().copied().reduce(f).unwrap_or(0.0);
                let got = [
                    encoding.mean[i],
                    encoding.std[i],
                    fold(f64::min),
                    fold(f64::max),
                ];
                for (key, got) in ["mean", "std_ddof0", "min", "max"].iter().zip(got) {
                    check.close(
                        format!("{label}: {key}"),
                        feature.at(key)?.f64()?,
                        got,
                        STATISTICS,
                    );
                }
            }
            Kind::Categorical => {
                let listed = feature.at("categories_in_encoded_order")?.strs()?;
                let got: Vec<&str> = known.values.iter().map(String::as_str).collect();
                check.identical(format!("{label}: categories"), &listed, &got);
            }
            Kind::Binary => {}
        }
    }
    Ok(())
}

/// Data sets that the program makes are the rows of the file.
fn by_rules_of_play(name: &str, text: &[u8], check: &mut Check) {
    let generated = CATALOG
        .iter()
        .any(|d| d.name == name && d.source == Source::Generated);
    if !generated {
        return;
    }
    let made = if name == "BalanceScale" {
        balance_scale()
    } else {
        tic_tac_toe()
    };
    let text = String::from_utf8_lossy(text);
    let (expected, got): (Vec<&str>, Vec<&str>) = (text.lines().collect(), made.lines().collect());
    check.identical(format!("{name}: rows made from its rules"), &expected, &got);
}

fn splits(folder: &Folder, set: &Set, check: &mut Check) -> Result<()> {
    let Some(tensors) = folder.tensors("splits/splits.safetensors")? else {
        return Ok(());
    };
    check.group("splits and factuals");
    let parts: [(&str, &[usize]); 5] = [
        ("train", &set.split.train),
        ("validation", &set.split.validation),
        ("test", &set.split.test),
        ("factual0", &set.factuals[0]),
        ("factual1", &set.factuals[1]),
    ];
    for (part, rows) in parts {
        let name = format!("{}.{part}", set.name);
        if !tensors.contains(&name) {
            check.absent(format!("splits/splits.safetensors: {name}"));
            continue;
        }
        let expected = tensors.i64(&name)?;
        if part.starts_with("factual") && set.network.is_none() {
            continue;
        }
        let got: Vec<i64> = rows.iter().map(|&r| r as i64).collect();
        check.identical(name, &expected, &got);
    }
    Ok(())
}
