//! Whether two runs agree.

/// 1 − (factuals whose results differ in any column) / (factuals with a result in either run). A missing result is `None`; `None` of all: nothing to compare.
pub fn stability(first: &[Option<Vec<f64>>], second: &[Option<Vec<f64>>]) -> Option<f64> {
    let pairs = first.iter().zip(second);
    let either: Vec<_> = pairs.filter(|(a, b)| a.is_some() || b.is_some()).collect();
    let differing = either.iter().filter(|(a, b)| a != b).count();
    (!either.is_empty()).then(|| 1.0 - differing as f64 / either.len() as f64)
}
