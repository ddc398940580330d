//! What devices do for metrics: moments of features, committees, orthogonal sets.

use foil::metrics::fid::{frechet_from_features, frechet_from_moments};
use foil::metrics::moments::Moments;
use foil::metrics::orthogonal_set::{
    Complement, OrthogonalSetParams, ZeroPerturbations, orthogonal_sets,
};
use foil::metrics::validity::{Judgement, validity};
use foil::metrics::votes::Vote;
use foil::metrics::{JudgeLogits, Matrix, MetricBackend};
use foil::tensor::Array;
use foil::tensor::gpu::{Gpu, Selection};

use crate::host::random_values;

fn matrix(data: &[f32], columns: usize) -> Matrix<'_> {
    Matrix::new("test", data.len() / columns, columns, data).expect("whole rows")
}

fn moments<B: MetricBackend>(b: &B, data: &[f32], columns: usize, batch: usize) -> Moments {
    let mut running = b.moments(columns).expect("memory");
    for rows in data.chunks(batch * columns) {
        running.push("test", matrix(rows, columns)).expect("rows");
    }
    running.finish().expect("moments")
}

/// Features as networks give them: not below zero, with means of their own.
fn features(name: &str, rows: usize, columns: usize, offset: f32) -> Vec<f32> {
    let mut data = random_values(name, rows * columns);
    for (i, v) in data.iter_mut().enumerate() {
        *v = (*v + (i % columns) as f32 / columns as f32).max(0.0) + offset;
    }
    data
}

/// Two f32 keep 48 bits of differences from the first row, however far the means are; each of hundreds of sums rounds.
pub fn moments_are_those_of_the_host<B: MetricBackend>(b: &B) {
    for (rows, columns, offset, tolerance) in [
        (2, 1, 0.0, 1e-12),
        (50, 17, 0.0, 1e-12),
        (333, 40, 0.0, 1e-12),
        (100, 20, 500.0, 1e-12),
        (100, 20, 1e6, 1e-12),
    ] {
        let data = features("moments", rows, columns, offset);
        let expected = Moments::of("test", matrix(&data, columns)).expect("rows");
        let got = moments(b, &data, columns, 64);
        assert_eq!(got.count(), rows);
        for (g, e) in got.mean().iter().zip(expected.mean()) {
            assert!((g - e).abs() <= 1e-13 * e.abs().max(1.0), "mean {g}, {e}");
        }
        let [g, e] = [&got, &expected].map(|m| m.covariance("test").expect("two rows"));
        let largest = e.iter().copied().fold(0.0, f64::max);
        for (i, (g, e)) in g.iter().zip(&e).enumerate() {
            let what = format!("covariance {i} of {rows}x{columns} at {offset}: {g}, {e}");
            assert!((g - e).abs() <= tolerance * largest, "{what}");
        }
    }
}

pub fn any_split_of_the_rows_gives_the_same_moments<B: MetricBackend>(b: &B) {
    let data = features("split", 90, 33, 0.0);
    let whole = moments(b, &data, 33, 90);
    for batch in [1, 7, 64] {
        assert!(moments(b, &data, 33, batch) == whole, "batches of {batch}");
    }
    assert_eq!(moments(b, &[], 33, 1).count(), 0);
    let mut running = b.moments(3).expect("memory");
    assert!(running.push("test", matrix(&data[..33], 33)).is_err());
    assert!(
        running
            .push("test", matrix(&[1.0, f32::NAN, 1.0], 3))
            .is_err()
    );
}

/// The promise is 1e-5 relative, also where FID is a small difference of large traces.
pub fn fid_agrees_with_f64<B: MetricBackend>(b: &B) {
    let (rows, columns) = (150, 48);
    let real = features("real", rows, columns, 0.0);
    let noise = random_values("noise", real.len());
    for size in [1.0, 1e-2, 1e-3] {
        let near: Vec<f32> = real.iter().zip(&noise).map(|(r, n)| r + n * size).collect();
        let fid = |of: &dyn Fn(&[f32]) -> Moments| {
            let distance = frechet_from_moments(&of(&real), &of(&near));
            distance.expect("a distance").value
        };
        let expected = fid(&|d| Moments::of("test", matrix(d, columns)).expect("rows"));
        let got = fid(&|d| moments(b, d, columns, 64));
        let error = (got - expected).abs() / expected;
        assert!(
            error <= 1e-5,
            "noise {size}: {expected} on the host, {got} here"
        );
    }
}

/// Features far from zero, and so large or small that their products are no numbers of a device.
pub fn fid_of_unusual_features_agrees_with_f64<B: MetricBackend>(b: &B) {
    let columns = 5;
    for (scale, offset) in [(1.0, 1e6), (1e-20, 0.0), (1e18, 0.0), (1e25, 0.0)] {
        let [real, fake] = ["real", "fake"].map(|name| {
            let mut data = random_values(name, 40 * columns);
            data.iter_mut().for_each(|v| *v = *v * scale + offset);
            data
        });
        let (real, fake) = (matrix(&real, columns), matrix(&fake, columns));
        let expected = frechet_from_features(real, fake);
        let expected = expected.expect("a distance").value;
        let got = b.frechet(real, fake).expect("a distance").value;
        let error = (got - expected).abs() / expected;
        assert!(
            error <= 1e-5,
            "{scale} around {offset}: {expected}, {got} here"
        );
    }
}

/// The distance that scoring asks for, of sets with more and with fewer images than features.
pub fn fid_of_features_agrees_with_f64<B: MetricBackend>(b: &B) {
    let columns = 48;
    for (real, fake) in [(150, 90), (30, 20), (150, 20), (49, 48), (2, 200)] {
        let real = features("real", real, columns, 0.0);
        let fake = features("fake", fake, columns, 0.1);
        let (real, fake) = (matrix(&real, columns), matrix(&fake, columns));
        let expected = frechet_from_features(real, fake).expect("a distance");
        let got = b.frechet(real, fake).expect("a distance");
        let what = format!("{} and {} rows", real.rows(), fake.rows());
        let error = (got.value - expected.value).abs() / expected.value;
        assert!(
            error <= 1e-5,
            "{what}: {expected:?} on the host, {got:?} here"
        );
        assert_eq!(got.route, expected.route, "{what}");
        assert_eq!(got.rank_note, expected.rank_note, "{what}");
    }
    let mut broken = features("real", 60, columns, 0.0);
    broken[3] = f32::INFINITY;
    let error = b.frechet(matrix(&broken, columns), matrix(&broken, columns));
    let message = error.expect_err("an infinity").to_string();
    assert!(message.contains("row 0, column 3"), "{message}");
}

/// Logits of judges with some classes each, with equal values and both zeros among them.
fn logits(name: &str, images: usize, classes: usize) -> Vec<f32> {
    let mut data = random_values(name, images * classes);
    for (i, v) in data.iter_mut().enumerate() {
        // Few values: ties are common.
        *v = (*v * 2.0).round() * if i % 7 == 0 { -1.0 } else { 1.0 };
    }
    data
}

/// Whole numbers: nothing may differ.
pub fn committees_are_those_of_the_host<B: MetricBackend>(b: &B) {
    for (images, classes, oracles) in [(1, 1, 0), (1, 2, 1), (7, 3, 2), (64, 10, 5), (5, 1000, 3)] {
        let mut classifier = logits("classifier", images, classes);
        if classes > 256 {
            // No tie, and far from the first classes.
            for (i, row) in classifier.chunks_exact_mut(classes).enumerate() {
                row[200 + 37 * i] = 5.0;
            }
        }
        let all: Vec<Vec<f32>> = (0..oracles)
            .map(|k| logits(&format!("oracle {k}"), images, classes + k % 2))
            .collect();
        let oracles: Vec<Matrix<'_>> = all
            .iter()
            .enumerate()
            .map(|(k, data)| matrix(data, classes + k % 2))
            .collect();
        let [labels, targets]: [Vec<i64>; 2] = [3, 5].map(|step| {
            let of = |i: usize| (i * step % classes) as i64;
            (0..images).map(of).collect()
        });
        let judgement = Judgement {
            classifier: matrix(&classifier, classes),
            oracles: &oracles,
            labels: &labels,
            targets: &targets,
        };
        let expected = validity(judgement).expect("a judgement");
        let what = format!(
            "{images} images, {classes} classes, {} oracles",
            oracles.len()
        );
        assert_eq!(b.committee(judgement).expect(&what), expected, "{what}");
        // Every second judge left its logits on the device.
        let all: Vec<Matrix<'_>> = std::iter::once(judgement.classifier)
            .chain(oracles.iter().copied())
            .collect();
        let left: Vec<Option<B::Tensor>> = all
            .iter()
            .enumerate()
            .map(|(k, m)| {
                let array = Array::new([m.rows(), m.cols()], m.data().to_vec()).expect("rows");
                (k % 2 == 0).then(|| b.upload(&array).expect("memory"))
            })
            .collect();
        let judges: Vec<JudgeLogits<'_, B>> = all
            .iter()
            .zip(&left)
            .map(|(&logits, left)| JudgeLogits {
                name: "judge",
                logits,
                on_device: left.as_ref(),
            })
            .collect();
        let opinions = b.opinions(&judges).expect(&what);
        let said = expected.oracles.iter().map(|o| o.predictions.clone());
        let classes: Vec<_> = std::iter::once(expected.predictions).chain(said).collect();
        assert_eq!(opinions.classes, classes, "{what}");
        let ballots = expected.committee.map_or(Vec::new(), |c| c.ballots);
        let votes: Vec<Vote> = ballots.iter().map(Vote::from).collect();
        assert_eq!(opinions.votes, votes, "{what}");
    }
}

pub fn committees_name_what_is_wrong<B: MetricBackend>(b: &B) {
    let good = [0.0, 1.0, 0.5, 2.0];
    let judge = |classifier: &[f32], oracle: &[f32], labels: &[i64]| {
        let judged = b.committee(Judgement {
            classifier: matrix(classifier, 2),
            oracles: &[matrix(oracle, 2)],
            labels,
            targets: &[1, 1],
        });
        judged.map(drop).map_err(|e| e.to_string())
    };
    assert_eq!(judge(&good, &good, &[0, 0]), Ok(()));
    let error = judge(&good, &[0.0, 1.0, f32::NAN, 2.0], &[0, 0]).unwrap_err();
    assert!(
        error.contains("oracle 0") && error.contains("row 1, column 0"),
        "{error}"
    );
    let error = judge(&[0.0, f32::INFINITY, 0.5, 2.0], &good, &[0, 0]).unwrap_err();
    assert!(
        error.contains("classifier") && error.contains("row 0, column 1"),
        "{error}"
    );
    assert!(
        judge(&good, &good[..2], &[0, 0])
            .unwrap_err()
            .contains("oracle 0")
    );
    assert!(
        judge(&good, &good, &[0, 2])
            .unwrap_err()
            .contains("class 2")
    );
}

/// Candidates around their originals: random ones, copies and opposites of others, near misses, zeros.
fn samples(name: &str, b: usize, n: usize, d: usize, special: bool) -> [Vec<f32>; 2] {
    let originals = random_values(&format!("{name} z"), b * d);
    let mut candidates = random_values(&format!("{name} e"), b * n * d);
    for (i, row) in candidates.chunks_exact_mut(d).enumerate() {
        let z = &originals[i / n * d..][..d];
        if special && i % 5 == 0 {
            row.copy_from_slice(z);
        }
        if special && i % 5 == 1 {
            for (k, (v, z)) in row.iter_mut().zip(z).enumerate() {
                *v = if k == i % d { z + 0.5 } else { *z };
            }
        }
        if special && i % 5 == 2 {
            for (k, (v, z)) in row.iter_mut().zip(z).enumerate() {
                *v = if k == (i - 1) % d { z - 0.25 } else { *z };
            }
        }
    }
    [originals, candidates]
}

pub fn orthogonal_sets_are_those_of_the_host<B: MetricBackend>(b: &B) {
    for (count, n, d) in [
        (1, 1, 1),
        (3, 5, 2),
        (7, 40, 3),
        (4, 33, 17),
        (2, 300, 40),
        (1, 10, 600),
    ] {
        for special in [false, true] {
            let [z, e] = samples("sets", count, n, d, special);
            for params in [
                OrthogonalSetParams::default(),
                OrthogonalSetParams::as_printed(),
                OrthogonalSetParams {
                    tau: 0.4,
                    complement: Complement::Each,
                    zeros: ZeroPerturbations::Admitted,
                },
                OrthogonalSetParams {
                    tau: 1.0,
                    ..Default::default()
                },
            ] {
                let expected = orthogonal_sets(matrix(&z, d), matrix(&e, d), &params).unwrap();
                let got = b.orthogonal_sets(matrix(&z, d), matrix(&e, d), &params);
                let what = format!("{count} samples, {n} candidates of {d}, {special}, {params:?}");
                assert_eq!(got.expect(&what), expected, "{what}");
            }
        }
    }
    let wild = OrthogonalSetParams {
        tau: 2.0,
        ..Default::default()
    };
    assert!(
        b.orthogonal_sets(matrix(&[0.0; 2], 2), matrix(&[1.0; 4], 2), &wild)
            .is_err()
    );
    let params = OrthogonalSetParams::default();
    let broken = [1.0, f32::NAN];
    assert!(
        b.orthogonal_sets(matrix(&[0.0; 2], 2), matrix(&broken, 2), &params)
            .is_err()
    );
}

/// Two candidates whose long products cancel but for one of 1e-12 of their norms, give or take a thousandth: what is left
/// is far below the rounding of f32 and decides at thresholds as small.
pub fn orthogonal_sets_at_extreme_thresholds_are_those_of_the_host<B: MetricBackend>(b: &B) {
    let (count, half) = (60, 100);
    let d = 2 * half + 1;
    let z = vec![0.0; count * d];
    let values = random_values("cancelling", count * 2 * half);
    let mut e = Vec::new();
    for (i, own) in values.chunks_exact(2 * half).enumerate() {
        let (x, y) = own.split_at(half);
        let norm: f32 = own.iter().map(|v| v * v).sum();
        let sign = if i % 2 == 0 { 1.0 } else { -1.0 };
        let nearly = 1.0 + (i as f32 - count as f32 / 2.0) * 1e-3 / count as f32;
        e.extend(x.iter().chain(y));
        e.push(sign * 1e-6 * norm);
        e.extend(y.iter().copied().chain(x.iter().map(|v| -v)));
        e.push(1e-6 * nearly);
    }
    for tau in [1e-12, 1.0 - 1e-12] {
        for complement in [Complement::Any, Complement::Each] {
            let params = OrthogonalSetParams {
                tau,
                complement,
                ..Default::default()
            };
            let expected = orthogonal_sets(matrix(&z, d), matrix(&e, d), &params).expect("sets");
            let sizes = [1, 2].map(|n| expected.iter().filter(|s| s.size() == n).count());
            assert!(sizes.iter().all(|n| *n > 0) || tau > 0.5, "{sizes:?}");
            let got = b.orthogonal_sets(matrix(&z, d), matrix(&e, d), &params);
            assert_eq!(got.expect("sets"), expected, "{params:?}");
        }
    }
}

/// The device decides for itself where nothing is close.
fn decides(gpu: &Gpu) {
    let (samples, n, d) = (20, 40, 17);
    let [z, e] = self::samples("decided", samples, n, d, false);
    let rules = Selection {
        samples,
        n,
        d,
        tau: 0.15,
        exclude_zeros: true,
        each: false,
    };
    let chosen = gpu.choose(&z, &e, &rules).expect("sets");
    assert_eq!(chosen.iter().filter(|c| c.is_some()).count(), samples);
    // Two equal candidates have equal norms: rounding decides which comes first, so the host does.
    let pair = [e[..d].to_vec(), e[..d].to_vec()].concat();
    let rules = Selection {
        samples: 1,
        n: 2,
        ..rules
    };
    let chosen = gpu.choose(&z[..d], &pair, &rules).expect("a set");
    assert!(chosen[0].is_none());
    // Differences beyond the range of numbers have no order.
    let huge = [5.0, -3e38, 0.0, 3e38, 3.0, -3e38];
    let rules = Selection {
        n: 3,
        d: 2,
        ..rules
    };
    let chosen = gpu.choose(&[0.0, -3e38], &huge, &rules).expect("a set");
    assert!(chosen[0].is_none());
}

#[test]
fn gpu_decides_what_is_not_close() {
    match crate::gpu::any_adapter() {
        Some(gpu) => decides(gpu),
        None => println!("skipped: this machine has no adapter"),
    }
}

#[test]
fn shim_decides_what_is_not_close() {
    match crate::shim::device(0) {
        Some(gpu) => decides(gpu),
        None => println!("skipped: this machine cannot compile CUDA kernels for the CPU"),
    }
}

/// Candidates along a few directions, forth and back, of all lengths, with a little noise: nothing is close, and sets are
/// small enough for the host.
fn bundles(n: usize, d: usize) -> [Vec<f32>; 2] {
    let directions = 24.min(d);
    let originals = random_values("bundles z", d);
    let along = random_values("bundles", d);
    let noise = random_values("bundles noise", n * d);
    let mut candidates = vec![0.0; n * d];
    for (i, row) in candidates.chunks_exact_mut(d).enumerate() {
        let length = (1.0 + (i * 389 % n) as f32 / n as f32) * if i % 5 == 0 { -1.0 } else { 1.0 };
        for (k, v) in row.iter_mut().enumerate() {
            let own = k * directions / d == i % directions;
            let step = if own { length * along[k] } else { 0.0 };
            *v = originals[k] + step + 1e-3 * noise[i * d + k];
        }
    }
    [originals, candidates]
}

/// The selection of the device, which it makes itself, is that of the host.
fn large_sets(gpu: &Gpu, n: usize, d: usize) {
    let [z, e] = bundles(n, d);
    let params = OrthogonalSetParams::default();
    let rules = Selection {
        samples: 1,
        n,
        d,
        tau: params.tau,
        exclude_zeros: params.zeros == ZeroPerturbations::Excluded,
        each: params.complement == Complement::Each,
    };
    let chosen = gpu.choose(&z, &e, &rules).expect("a set");
    let chosen = chosen[0].as_ref().expect("nothing is close");
    let expected = orthogonal_sets(matrix(&z, d), matrix(&e, d), &params).expect("a set");
    let got: Vec<usize> = chosen.members.iter().map(|m| m.0).collect();
    assert_eq!(got, expected[0].selected, "{n} candidates of {d}");
    let complementary = chosen.members.iter().filter(|m| m.1);
    let complementary: Vec<usize> = complementary.map(|m| m.0).collect();
    assert_eq!(complementary, expected[0].complementary);
    assert!(!complementary.is_empty() && got.len() > complementary.len());
}

/// As many candidates as a set may have, and as many values as the papers' largest: either size alone.
#[test]
fn gpu_sets_of_1024_candidates_and_of_4096_values_are_those_of_the_host() {
    match crate::gpu::any_adapter() {
        Some(gpu) => {
            large_sets(gpu, 1024, 24);
            large_sets(gpu, 48, 4096);
        }
        None => println!("skipped: this machine has no adapter"),
    }
}

/// Both at once.
#[test]
#[ignore = "takes longer than half a minute of processor time on a software adapter"]
fn gpu_sets_of_1024_candidates_of_4096_are_those_of_the_host() {
    match crate::gpu::any_adapter() {
        Some(gpu) => large_sets(gpu, 1024, 4096),
        None => println!("skipped: this machine has no adapter"),
    }
}

/// The same kernels as NVIDIA GPUs run, one thread after the other: either size alone.
#[test]
fn shim_sets_of_1024_candidates_and_of_4096_values_are_those_of_the_host() {
    match crate::shim::device(0) {
        Some(gpu) => {
            large_sets(gpu, 1024, 24);
            large_sets(gpu, 48, 4096);
        }
        None => println!("skipped: this machine cannot compile CUDA kernels for the CPU"),
    }
}

macro_rules! metrics {
    ($device:ident, $backend:expr) => {
        mod $device {
            metrics! { @cases $backend;
                moments_are_those_of_the_host,
                any_split_of_the_rows_gives_the_same_moments,
                fid_agrees_with_f64,
                fid_of_features_agrees_with_f64,
                fid_of_unusual_features_agrees_with_f64,
                committees_are_those_of_the_host,
                committees_name_what_is_wrong,
                orthogonal_sets_are_those_of_the_host,
                orthogonal_sets_at_extreme_thresholds_are_those_of_the_host,
            }
        }
    };
    (@cases $backend:expr; $($case:ident,)*) => {
        $(#[test]
        fn $case() {
            match $backend {
                Some(device) => super::$case(device),
                None => println!("skipped: this machine has no such device"),
            }
        })*
    };
}

metrics!(cpu, Some(&foil::tensor::cpu::Cpu));
metrics!(wgpu, crate::gpu::any_adapter());
metrics!(wgpu_f16, crate::half::adapter());
// A barrier that is missing shows where threads do not run in their order.
metrics!(shim, crate::shim::device(1));
metrics!(shim_mixed, crate::shim::device(2));
metrics!(nvidia, crate::cuda::device());
