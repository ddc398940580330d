//! The printed listing of orthogonal and complementary sets: the same explanations in the same order.

use super::super::Result;
use super::super::check::Check;
use super::super::error::Of;
use super::super::folder::Folder;
use crate::metrics::orthogonal_set::OrthogonalSetParams;
use crate::metrics::{Matrix, MetricBackend};

pub fn run<B: MetricBackend>(b: &B, folder: &Folder, check: &mut Check) -> Result<()> {
    let Some(arrays) = folder.tensors("ortho_listing.safetensors")? else {
        return Ok(());
    };
    // Kinds and margins of the cases, for people.
    if let Some(json) = folder.json("ortho_listing.json")? {
        json.root().skip();
    }
    check.group("ortho_listing");
    let cases = arrays.names().filter_map(|n| n.strip_suffix(".selected"));
    for case in cases {
        let original = arrays.f32(&format!("{case}.z"))?;
        let candidates = arrays.f32_of_rank(&format!("{case}.e_sc"), 2)?;
        arrays.skip(&format!("{case}.l1"));
        let [rows, columns] = [candidates.shape[0], candidates.shape[1]];
        let matrix = Matrix::new(case, rows, columns, &candidates.data).of(case)?;
        let params = OrthogonalSetParams::as_printed();
        let original = Matrix::new(case, 1, original.len(), &original.data).of(case)?;
        let sets = b.orthogonal_sets(original, matrix, &params).of(case)?;
        let found: Vec<usize> = sets.into_iter().flat_map(|s| s.selected).collect();
        let expected = arrays.i64(&format!("{case}.selected"))?;
        let expected: Vec<usize> = expected
            .into_iter()
            .filter_map(|i| usize::try_from(i).ok())
            .collect();
        check.equal(case, &expected, &found);
    }
    Ok(())
}
