//! Golden data through the same library functions as `foil conformance`.
//!
//! `tests/golden` is always there; `FOIL_REFERENCE` (default `../shared/reference`) holds what may not be copied.

use std::path::{Path, PathBuf};

use foil::conformance::{AREAS, AreaReport, Source, run};
use foil::tensor::cpu::Cpu;

fn golden(area: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(area)
}

fn reference(area: &str) -> Option<PathBuf> {
    let root = std::env::var_os("FOIL_REFERENCE").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/reference"),
        PathBuf::from,
    );
    let folder = root.join(area);
    if folder.is_dir() {
        return Some(folder);
    }
    println!("skipped: {} is absent", folder.display());
    None
}

/// Prints the groups, and fails with every case that misses its tolerance and all that is unknown.
fn assert_passes(report: &AreaReport) {
    for group in report.groups() {
        println!(
            "{} / {}: {} cases, worst at {:.1e} of its tolerance ({})",
            report.area, group.group, group.cases, group.worst_share, group.worst
        );
    }
    for absent in &report.absent {
        println!("skipped: {absent}");
    }
    let failures: Vec<String> = report.failures().map(|c| format!("{c:?}")).collect();
    assert!(report.unknown.is_empty(), "unknown: {:#?}", report.unknown);
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(report.passed(), "{}: no case was run", report.area);
}

fn passes(area: &str, source: Source) -> AreaReport {
    let report = run(area, source, &Cpu).unwrap();
    assert_passes(&report);
    report
}

fn files(folder: &Path, below: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder.join(below)).unwrap() {
        let path = below.join(entry.unwrap().file_name());
        match folder.join(&path).is_dir() {
            true => files(folder, &path, found),
            false => found.push(path),
        }
    }
}

/// True if both folders hold the same files with the same bytes.
fn same_content(a: &Path, b: &Path) -> bool {
    let list = |folder: &Path| {
        let mut found = Vec::new();
        files(folder, Path::new(""), &mut found);
        found.sort();
        found
    };
    let (in_a, in_b) = (list(a), list(b));
    let bytes = |folder: &Path, file: &PathBuf| std::fs::read(folder.join(file)).unwrap();
    in_a == in_b && in_a.iter().all(|file| bytes(a, file) == bytes(b, file))
}

#[test]
fn the_golden_vision_cases_pass() {
    let report = passes("vision", Source::Folder(golden("vision")));
    assert!(report.absent.is_empty(), "{:?}", report.absent);
    assert!(report.cases.len() > 2000);
}

#[test]
fn the_golden_weights_cases_pass_and_every_file_is_used_or_named() {
    let folder = golden("weights");
    let report = passes("weights", Source::Folder(folder.clone()));
    let mut present = Vec::new();
    files(&folder, Path::new(""), &mut present);
    for file in present {
        let name = file.display().to_string();
        let named = report.used.contains(&name) || report.unused.iter().any(|(f, _)| *f == name);
        assert!(named, "{name}");
    }
    let documented = report
        .cases
        .iter()
        .find(|c| c.what == "fid_feature64_torchmetrics");
    assert!(documented.is_some_and(|c| c.pass));
}

#[test]
fn the_golden_network_cases_pass() {
    let report = passes("nets", Source::Folder(golden("nets")));
    assert!(report.absent.is_empty(), "{:?}", report.absent);
}

#[test]
fn the_golden_cases_of_bex_pass() {
    let report = passes("bex", Source::Folder(golden("bex")));
    let images = report
        .cases
        .iter()
        .filter(|c| c.what.starts_with("image ["));
    assert_eq!(images.count(), 2, "{:?}", report.cases);
}

#[test]
fn the_golden_cases_of_diffusion_pass() {
    let report = passes("diffusion", Source::Folder(golden("diffusion")));
    for group in [
        "schedules",
        "respacings",
        "unet_b",
        "full size",
        "cone projection",
    ] {
        assert!(report.cases.iter().any(|c| c.group == group), "{group}");
    }
}

#[test]
fn the_reference_folders_pass() {
    for area in AREAS {
        let Some(folder) = reference(area) else {
            continue;
        };
        if golden(area).is_dir() && same_content(&folder, &golden(area)) {
            println!("{}: same files as tests/golden/{area}", folder.display());
            continue;
        }
        passes(area, Source::Folder(folder));
    }
}

#[test]
fn the_set_inside_the_program_passes() {
    for area in AREAS {
        passes(area, Source::Builtin);
    }
}

/// The reference folder holds the same cases and the wine table, which may not be copied; one run of them is enough.
#[test]
fn the_golden_cases_of_attribution_pass() {
    if reference("attribution").is_some() {
        println!("attribution: `the_reference_folders_pass` runs these cases");
        return;
    }
    let report = passes("attribution", Source::Folder(golden("attribution")));
    assert!(report.cases.len() > 800);
}

/// Four features instead of five, another correlation, fewer rows, other seeds: `scripts/make-attribution-layout` made it with shap, lime, scikit-learn and numpy.
#[test]
fn attribution_of_another_dimension_and_correlation_passes() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/attribution/layout");
    let report = passes("attribution", Source::Folder(folder));
    for group in [
        "conditional moments",
        "model predictions",
        "shap",
        "bf-shap",
        "shapr",
        "breakdown",
        "kernel-shap",
        "lime, end to end",
        "maple, end to end",
        "gt-shapley",
        "metrics on stored draws",
        "metrics, interventional",
        "infidelity on stored perturbations",
    ] {
        assert!(report.cases.iter().any(|c| c.group == group), "{group}");
    }
}
