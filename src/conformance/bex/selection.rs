//! The printed listing of orthogonal and complementary sets: the same explanations in the same order.

use super::super::Result;
use std::collections::BTreeMap;

use super::super::check::{Check, Tolerance};
use super::super::error::Of;
use super::super::folder::Folder;
use super::super::json::{Json, Node};
use crate::metrics::orthogonal_set::OrthogonalSetParams;
use crate::metrics::{Matrix, MetricBackend};

/// Sums of f32 in other orders.
const LENGTH: Tolerance = Tolerance::both(1e-6, 1e-5);

pub fn run<B: MetricBackend>(b: &B, folder: &Folder, check: &mut Check) -> Result<()> {
    let Some(arrays) = folder.tensors("ortho_listing.safetensors")? else {
        return Ok(());
    };
    check.group("ortho_listing");
    let json = folder.json("ortho_listing.json")?;
    let told = cases(json.as_deref())?;
    for case in arrays.names().filter_map(|n| n.strip_suffix(".selected")) {
        let z = arrays.f32(&format!("{case}.z"))?;
        let candidates = arrays.f32_of_rank(&format!("{case}.e_sc"), 2)?;
        let [rows, columns] = [candidates.shape[0], candidates.shape[1]];
        let matrix = Matrix::new(case, rows, columns, &candidates.data).of(case)?;
        let told = told.get(case);
        let mut params = OrthogonalSetParams::as_printed();
        if let Some(told) = told {
            params.tau = told.at("tau")?.f64()?;
        }
        let original = Matrix::new(case, 1, z.len(), &z.data).of(case)?;
        let sets = b.orthogonal_sets(original, matrix, &params).of(case)?;
        let found: Vec<usize> = sets.into_iter().flat_map(|s| s.selected).collect();
        let expected: Vec<usize> = { arrays.i64(&format!("{case}.selected"))?.into_iter() }
            .filter_map(|i| usize::try_from(i).ok())
            .collect();
        check.equal(case, &expected, &found);
        let lengths: Vec<f64> = { candidates.data.chunks_exact(columns.max(1)) }
            .map(|row| {
                let gaps = row.iter().zip(&z.data);
                gaps.map(|(a, b)| f64::from((a - b).abs())).sum()
            })
            .collect();
        let expected_lengths = arrays.f32(&format!("{case}.l1"))?.data;
        let expected_lengths: Vec<f64> = expected_lengths.into_iter().map(f64::from).collect();
        check.close_all(format!("{case} l1"), &expected_lengths, &lengths, LENGTH);
        if let Some(told) = told {
            check.equal(
                format!("{case} selected, as told"),
                &told.at("selected")?.usizes()?,
                &found,
            );
            let size = told.at("size")?.usize()?;
            check.equal(format!("{case} size, as told"), &[size], &[found.len()]);
        }
    }
    Ok(())
}

/// What is told of the cases, by the name of their arrays.
fn cases(json: Option<&Json>) -> Result<BTreeMap<String, Node<'_>>> {
    let mut all = BTreeMap::new();
    let Some(json) = json else {
        return Ok(all);
    };
    let root = json.root();
    root.skip_fields(&["tau"]);
    for case in root.at("cases")?.items()? {
        // Kinds and margins, for people.
        case.skip_fields(&[
            "kind",
            "n",
            "d",
            "exact_l1_ties",
            "min_distance_to_threshold",
            "min_relative_l1_gap",
            "numpy_default_argsort_same",
            "size_with_default_argsort",
        ]);
        all.insert(format!("c{:03}", case.at("case")?.usize()?), case);
    }
    Ok(all)
}
