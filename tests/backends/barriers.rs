//! Every barrier of every CUDA kernel is needed, and the suite would miss it: each is taken out in its turn, and the cases
//! of its kernel must fail with the threads of a block in some order. (A kernel that waits where it need not is slower; one
//! that does not wait where it must is wrong on some GPU, some day.)

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use foil::tensor::Precision;
use foil::tensor::gpu::Gpu;

use crate::shim::{Compiled, can_compile, device_of, entries, files};
use crate::{attention, conv, distance, metrics, norm};

const BARRIER: &str = "__syncthreads();";
/// Forth, back, and mixed.
const ORDERS: [u32; 3] = [0, 1, 2];

/// Cases of the suite that run through all of a file.
fn cases(file: &str) -> &'static [fn(&Gpu)] {
    match file {
        "attention" | "softmax" => &[
            attention::both_layouts_with_and_without_bias,
            // A maximum that misses some scores shows where they are large.
            attention::large_scores_do_not_overflow,
        ],
        "committee" => &[
            metrics::committees_are_those_of_the_host,
            metrics::committees_name_what_is_wrong,
        ],
        "conv2d" => &[conv::long_sums],
        "lpips_head" => &[distance::map_and_mean, distance::many_comparisons_at_once],
        "matmul" => &[conv::linear_layers],
        "moments" => &[metrics::moments_are_those_of_the_host],
        "norm" => &[norm::layer_norm, norm::group_norm],
        "orthogonal_set" => &[metrics::orthogonal_sets_are_those_of_the_host],
        _ => panic!("{file}.cu has barriers: name the cases that need them"),
    }
}

/// Whether a case fails, in some order of threads.
fn fails(file: &'static str, compiled: &Arc<Compiled>) -> bool {
    ORDERS.into_iter().any(|order| {
        let mut all = files(Precision::F32).clone();
        all.insert(file, Arc::clone(compiled));
        let device = device_of(all, order);
        let run = |case: &fn(&Gpu)| catch_unwind(AssertUnwindSafe(|| case(&device))).is_err();
        cases(file).iter().any(run)
    })
}

#[test]
#[ignore = "compiles every kernel anew for each of its barriers: a minute and more"]
fn shim_kernels_need_every_barrier_they_have() {
    if !can_compile() {
        println!("skipped: this machine cannot compile CUDA kernels for the CPU");
        return;
    }
    let kernels = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels");
    let mut tried = 0;
    let mut needless = Vec::new();
    for (file, entries) in entries() {
        let text = std::fs::read_to_string(kernels.join(format!("{file}.cu"))).expect("a kernel");
        if text.contains(BARRIER) {
            let whole = &files(Precision::F32)[file];
            assert!(!fails(file, whole), "{file}.cu fails as it is");
        }
        for (at, _) in text.match_indices(BARRIER) {
            let line = text[..at].lines().count();
            let without = format!("{};{}", &text[..at], &text[at + BARRIER.len()..]);
            let folder = tempfile::tempdir().expect("a folder");
            let source: PathBuf = folder.path().join("without.cu");
            std::fs::write(&source, without).expect("a place to write");
            let compiled = Arc::new(Compiled::new(&source, &entries, Precision::F32));
            tried += 1;
            if !fails(file, &compiled) {
                needless.push(format!("{file}.cu, line {line}"));
            }
        }
    }
    assert!(tried >= 30, "{tried} barriers");
    assert!(needless.is_empty(), "nothing misses: {needless:#?}");
}
