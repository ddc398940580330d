//! What the benchmarks share: seeded arrays and criterion's settings.

use std::time::Duration;

use criterion::Criterion;
use foil::conformance::synthetic;
use foil::tensor::Array;

/// Values in [-1, 1] from a name.
pub fn array(name: &str, shape: &[usize]) -> Array {
    synthetic::tensor("foil-bench", name, shape, 0.0, 1.0 / 255.0)
}

/// Short enough that all benchmarks end in minutes; command-line options override it.
pub fn settings() -> Criterion {
    Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(2))
}
