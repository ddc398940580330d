//! Decision trees: which method for which problem.

use crate::conformance::Result;
use crate::conformance::check::{Check, Tolerance};
use crate::conformance::folder::Folder;
use crate::conformance::json::Node;
use crate::stats::decision_tree::{Tree, TreeParams};

const EXACT: Tolerance = Tolerance::absolute(1e-12);
/// Where equal splits are chosen by chance, sums of other halves differ by rounding.
const SHARE: Tolerance = Tolerance::absolute(1e-9);

pub fn run(folder: &Folder, check: &mut Check) -> Result<()> {
    let tensors = folder.tensors("decision_tree/training_rows.safetensors")?;
    let json = folder.json("decision_tree/expected_trees.json")?;
    let (Some(tensors), Some(json)) = (tensors, json) else {
        return Ok(());
    };
    check.group("decision trees");
    for (key, node) in json.root().fields()? {
        let name = key.replace('|', ".");
        let features = node.at("feature_names")?.strs()?;
        let flat = tensors.f64(&format!("{name}.x"))?;
        let rows: Vec<Vec<f64>> = flat.chunks_exact(features.len()).map(Into::into).collect();
        let classes: Vec<usize> = tensors
            .i64(&format!("{name}.y"))?
            .iter()
            .map(|&c| c as usize)
            .collect();
        let expected = node.at("n_rows_after_tie_expansion")?.usize()?;
        check.equal(format!("{key}: rows"), &expected, &rows.len());
        let tree = node.at("tree")?;
        let count = tree.at("classes")?.strs()?.len();
        let Some(grown) = Tree::grow(&rows, &classes, count, TreeParams::default()) else {
            check.unknown(format!("decision_tree: {key} has no rows"));
            continue;
        };
        let same = node.at("same_splits_with_other_seeds")?.list(Node::bool)?;
        let accuracy = grown.accuracy(&rows, &classes);
        match same.iter().all(|s| *s) {
            true => {
                check.close(
                    format!("{key}: accuracy"),
                    node.at("train_accuracy")?.f64()?,
                    accuracy,
                    EXACT,
                );
                node_by_node(key, &tree, &grown, check)?;
            }
            false => by_chance(key, &node, &tree, &grown, accuracy, check)?,
        }
    }
    Ok(())
}

fn node_by_node(key: &str, tree: &Node<'_>, grown: &Tree, check: &mut Check) -> Result<()> {
    let split =
        |of: &dyn Fn(&crate::stats::decision_tree::TreeSplit) -> f64, leaf: f64| -> Vec<f64> {
            let each = grown
                .nodes
                .iter()
                .map(|n| n.split.as_ref().map_or(leaf, of));
            each.collect()
        };
    let lists = [
        ("feature", split(&|s| s.feature as f64, -2.0)),
        ("threshold", split(&|s| s.threshold, -2.0)),
        ("left", split(&|s| s.left as f64, -1.0)),
        ("right", split(&|s| s.right as f64, -1.0)),
        (
            "impurity_gini",
            grown.nodes.iter().map(|n| n.impurity).collect(),
        ),
        (
            "n_samples",
            grown.nodes.iter().map(|n| n.samples as f64).collect(),
        ),
    ];
    for (field, got) in lists {
        check.close_all(
            format!("{key}: {field}"),
            &tree.at(field)?.f64s()?,
            &got,
            EXACT,
        );
    }
    let expected = tree.at("class_fraction")?.list(Node::f64s)?.concat();
    let got: Vec<f64> = grown.nodes.iter().flat_map(|n| n.shares.clone()).collect();
    check.close_all(format!("{key}: class_fraction"), &expected, &got, EXACT);
    Ok(())
}

/// Impurities and accuracy where the splits themselves depend on the seed: the root is the same, and the impurity left in the leaves.
fn by_chance(
    key: &str,
    node: &Node<'_>,
    tree: &Node<'_>,
    grown: &Tree,
    accuracy: f64,
    check: &mut Check,
) -> Result<()> {
    let impurity = tree.at("impurity_gini")?.f64s()?;
    let samples = tree.at("n_samples")?.f64s()?;
    let left = tree.at("left")?.f64s()?;
    tree.skip_fields(&["feature", "threshold", "right", "class_fraction"]);
    let weighted =
        |list: &mut dyn Iterator<Item = (f64, f64)>| -> f64 { list.map(|(i, n)| i * n).sum() };
    let leaves = (0..left.len()).filter(|&i| left[i] < 0.0);
    let expected = weighted(&mut leaves.map(|i| (impurity[i], samples[i]))) / samples[0];
    let ends = grown.nodes.iter().filter(|n| n.split.is_none());
    let got =
        weighted(&mut ends.map(|n| (n.impurity, n.samples as f64))) / grown.nodes[0].samples as f64;
    check.close(
        format!("{key}: impurity of the root"),
        impurity[0],
        grown.nodes[0].impurity,
        EXACT,
    );
    check.close(
        format!("{key}: impurity left in the leaves"),
        expected,
        got,
        SHARE,
    );
    check.close(
        format!("{key}: accuracy"),
        node.at("train_accuracy")?.f64()?,
        accuracy,
        SHARE,
    );
    Ok(())
}
