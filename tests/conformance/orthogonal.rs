//! The printed listing of orthogonal and complementary sets, case by case, where its golden data is at hand.

use std::path::{Path, PathBuf};

use foil::metrics::Matrix;
use foil::metrics::latent::exact::selection;
use foil::metrics::orthogonal_set::{OrthogonalSetParams, orthogonal_set};
use foil::tensor::TypedArrays;

#[test]
fn the_listing_selects_the_same_explanations_in_the_same_order() {
    let root = std::env::var_os("FOIL_REFERENCE").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/reference"),
        PathBuf::from,
    );
    let file = root.join("bex/ortho_listing.safetensors");
    if !file.is_file() {
        println!("skipped: {} is absent", file.display());
        return;
    }
    let arrays = TypedArrays::read(&file).unwrap();
    let cases: Vec<&str> = arrays
        .names()
        .filter_map(|n| n.strip_suffix(".selected"))
        .collect();
    assert!(!cases.is_empty());
    let mut gamed = 0;
    for case in cases {
        let original = arrays.f32(&format!("{case}.z")).unwrap();
        let candidates = arrays.f32_of_rank(&format!("{case}.e_sc"), 2).unwrap();
        let matrix = Matrix::new(
            case,
            candidates.shape[0],
            candidates.shape[1],
            &candidates.data,
        )
        .unwrap();
        let found = orthogonal_set(&original.data, matrix, &OrthogonalSetParams::as_printed());
        let expected: Vec<usize> = arrays
            .i64(&format!("{case}.selected"))
            .unwrap()
            .into_iter()
            .filter(|&i| i >= 0)
            .map(|i| i as usize)
            .collect();
        assert_eq!(found.unwrap().selected, expected, "{case}");
        // The exact rule has at most two members of each of a few more directions than dimensions (they need not be quite at
        // right angles), however many the listing admits.
        let exact = orthogonal_set(&original.data, matrix, &selection()).unwrap();
        let axes = candidates.shape[1];
        if axes <= 16 {
            assert!(
                exact.size() <= 2 * axes + axes / 2,
                "{case}: {}",
                exact.size()
            );
        }
        if expected.len() == 189 {
            gamed += 1;
            assert_eq!(exact.size(), 22, "{case}");
        }
    }
    assert!(gamed > 0 || std::env::var_os("FOIL_REFERENCE").is_some());
}
