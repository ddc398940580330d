//! The kernels of metrics, which work on features and logits: what benchmarks and the report run on every device.

use std::hint::black_box;

use foil::metrics::orthogonal_set::OrthogonalSetParams;
use foil::metrics::validity::Judgement;
use foil::metrics::{Matrix, MetricBackend};
use foil::tensor::plan::{Cost, Peak};

use crate::roofline::{Least, Run};
use crate::seeded;

/// A metric over rows of numbers.
#[derive(Clone, Copy)]
pub enum Statistic {
    /// Mean and covariance of `n x d` features.
    Moments(usize, usize),
    /// Classes and votes of a classifier and oracles: oracles, images, classes.
    Committee(usize, usize, usize),
    /// Sets of samples: samples, candidates of each, dimensions.
    OrthogonalSets(usize, usize, usize),
}

impl Statistic {
    pub fn all() -> Vec<Self> {
        vec![
            Statistic::Moments(1000, 64),
            Statistic::Moments(256, 768),
            Statistic::Moments(256, 2048),
            Statistic::Committee(5, 256, 1000),
            Statistic::OrthogonalSets(16, 100, 64),
            Statistic::OrthogonalSets(16, 64, 2048),
        ]
    }

    pub fn name(&self) -> String {
        match self {
            Statistic::Moments(n, d) => format!("moments of {n} x {d} features"),
            Statistic::Committee(oracles, images, classes) => {
                format!("committee of {oracles}, {images} images, {classes} classes")
            }
            Statistic::OrthogonalSets(samples, n, d) => {
                format!("orthogonal sets of {samples} samples, {n} candidates of {d}")
            }
        }
    }

    /// Group and name of the benchmark.
    pub fn id(&self) -> (&'static str, String) {
        match self {
            Statistic::Moments(n, d) => ("moments", format!("{n}x{d}")),
            Statistic::Committee(oracles, images, classes) => {
                ("committee", format!("{oracles}x{images}x{classes}"))
            }
            Statistic::OrthogonalSets(samples, n, d) => {
                ("orthogonal_sets", format!("{samples}x{n}x{d}"))
            }
        }
    }

    pub fn least(&self, peak: Peak) -> Least {
        let (flops, values) = match *self {
            // The sums are two words each.
            Statistic::Moments(n, d) => (2 * n * d * d, n * d + 2 * d * d),
            Statistic::Committee(oracles, images, classes) => {
                let logits = (oracles + 1) * images * classes;
                (logits, logits)
            }
            Statistic::OrthogonalSets(samples, n, d) => {
                (samples * 2 * n * n * d, samples * n * (d + 2 * n))
            }
        };
        let (flops, bytes) = (flops as f64, 4.0 * values as f64);
        let cost = Cost {
            flops,
            bytes,
            ..Cost::default()
        };
        Least {
            flops,
            bytes,
            seconds: peak.seconds(&cost),
        }
    }

    /// A function that does it once on a device.
    pub fn on<'b, B: MetricBackend>(&self, b: &'b B) -> Run<'b> {
        match *self {
            Statistic::Moments(n, d) => {
                let features = seeded::array("features", &[n, d]).data;
                Box::new(move || {
                    let matrix = Matrix::new("features", n, d, &features).expect("n x d");
                    let mut running = b.moments(d).expect("memory");
                    running.push("features", matrix).expect("finite");
                    black_box(running.finish().expect("moments"));
                })
            }
            Statistic::Committee(oracles, images, classes) => {
                let logits: Vec<Vec<f32>> = (0..oracles + 1)
                    .map(|k| seeded::array(&format!("judge {k}"), &[images, classes]).data)
                    .collect();
                let (labels, targets) = (vec![0; images], vec![1; images]);
                Box::new(move || {
                    let judges: Vec<Matrix<'_>> = logits
                        .iter()
                        .map(|l| Matrix::new("logits", images, classes, l).expect("n x classes"))
                        .collect();
                    let judgement = Judgement {
                        classifier: judges[0],
                        oracles: &judges[1..],
                        labels: &labels,
                        targets: &targets,
                    };
                    black_box(b.committee(judgement).expect("finite"));
                })
            }
            Statistic::OrthogonalSets(samples, n, d) => {
                let originals = seeded::array("originals", &[samples, d]).data;
                let candidates = seeded::array("candidates", &[samples * n, d]).data;
                let params = OrthogonalSetParams::default();
                Box::new(move || {
                    let originals = Matrix::new("originals", samples, d, &originals);
                    let candidates = Matrix::new("candidates", samples * n, d, &candidates);
                    let (originals, candidates) =
                        (originals.expect("rows"), candidates.expect("rows"));
                    let sets = b.orthogonal_sets(originals, candidates, &params);
                    black_box(sets.expect("finite"));
                })
            }
        }
    }
}
