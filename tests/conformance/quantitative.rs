//! The area `hvilshoj` on folders of its layout that are not whole, of another size, or damaged.

use std::path::{Path, PathBuf};

use foil::conformance::{AreaReport, Source, run};
use foil::tensor::cpu::Cpu;
use tempfile::TempDir;

fn small_set() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/conformance/builtin/hvilshoj")
}

fn files() -> Vec<String> {
    let names = std::fs::read_dir(small_set()).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.collect()
}

/// The small set without some files.
fn without(left_out: &[&str]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for file in files().iter().filter(|f| !left_out.contains(&f.as_str())) {
        std::fs::copy(small_set().join(file), folder.path().join(file)).unwrap();
    }
    folder
}

fn quantitative(folder: &TempDir) -> AreaReport {
    run("hvilshoj", Source::Folder(folder.path().into()), &Cpu).unwrap()
}

fn failed(report: &AreaReport) -> Vec<&str> {
    report.failures().map(|c| c.what.as_str()).collect()
}

#[test]
fn what_stands_on_an_absent_file_is_skipped_and_named_whichever_file_it_is() {
    let all = quantitative(&without(&[]));
    assert!(all.passed(), "{:?} {:?}", failed(&all), all.unknown);
    for file in files() {
        let report = quantitative(&without(&[file.as_str()]));
        let why = format!("{file}: {:?} {:?}", failed(&report), report.unknown);
        assert!(report.passed(), "{why}");
        assert!(report.absent.contains(&file), "{file}: {:?}", report.absent);
        assert!(report.cases.len() < all.cases.len(), "{file}");
    }
}

#[test]
fn without_its_first_images_a_data_set_is_still_scored() {
    let report = quantitative(&without(&["mnist_images_first128.safetensors"]));
    let scored = |c: &&foil::conformance::Case| c.group == "mnist_m05_05 published" && c.pass;
    assert_eq!(report.cases.iter().filter(scored).count(), 24);
}

#[test]
fn absent_autoencoders_and_sheets_are_named_with_the_cases_they_take_along() {
    let lacking = "autoencoders_mnist_m05_05.safetensors";
    let report = quantitative(&without(&[lacking, "mnist_gb_images.png"]));
    assert!(
        report.passed(),
        "{:?} {:?}",
        failed(&report),
        report.unknown
    );
    for words in [
        "published_results.json: 4 values that need autoencoders_mnist_m05_05.safetensors",
        "per_sample_first32.csv: 8 rows of mnist_0_1 GB (they need mnist_gb_images.png",
        "per_sample_first32.csv: im1 and im2 of mnist_m05_05 GEN",
    ] {
        let named = |line: &String| line.contains(words);
        assert!(
            report.absent.iter().any(named),
            "{words}: {:#?}",
            report.absent
        );
    }
}

#[test]
fn rows_of_samples_must_be_there_and_known() {
    let folder = without(&[]);
    let path = folder.path().join("per_sample_first32.csv");
    let text = std::fs::read_to_string(&path).unwrap();
    let (header, rows) = text.split_once('\n').unwrap();
    for empty in ["", header] {
        std::fs::write(&path, empty).unwrap();
        let report = quantitative(&folder);
        assert!(!report.passed(), "{empty:?}");
        let said = failed(&report).join(" ");
        assert!(
            said.contains("per_sample_first32.csv: there are rows"),
            "{said}"
        );
    }
    // A method and a configuration that nobody knows.
    for (from, to) in [(",GB,", ",GX,"), ("mnist_0_1,", "mnist_0_2,")] {
        std::fs::write(&path, format!("{header}\n{}", rows.replace(from, to))).unwrap();
        let report = quantitative(&folder);
        assert!(!report.passed());
        assert!(
            report
                .unknown
                .iter()
                .any(|u| u.starts_with("per_sample_first32.csv: ")),
            "{:?}",
            report.unknown
        );
    }
}

/// Whole numbers as a `.safetensors` file.
fn save(path: &Path, arrays: &[(&str, &[i64])]) {
    let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
    for (name, values) in arrays {
        let start = data.len();
        data.extend(values.iter().flat_map(|v| v.to_le_bytes()));
        let entry = serde_json::json!({
            "dtype": "I64", "shape": [values.len()], "data_offsets": [start, data.len()]
        });
        header.insert((*name).to_owned(), entry);
    }
    let text = serde_json::Value::Object(header).to_string();
    let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
    bytes.extend(text.as_bytes());
    bytes.extend(data);
    std::fs::write(path, bytes).unwrap();
}

/// A FakeMNIST of its own size and draw: `n` tiles of 12 rows in five columns, dots at `dots`.
fn fake(label: &[i64], dots: &[i64], sources: &[i64]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let n = label.len();
    let rows = n.div_ceil(5) as u32;
    let sheet = image::GrayImage::from_fn(5 * 12, rows * 12, |x, y| {
        let tile = (y / 12 * 5 + x / 12) as usize;
        let white = x % 12 == 0 && tile < n && i64::from(y % 12) == dots[tile];
        image::Luma([if white { 255 } else { 30 }])
    });
    sheet
        .save(folder.path().join("fakemnist_real_images.png"))
        .unwrap();
    save(
        &folder.path().join("fakemnist_labels.safetensors"),
        &[
            ("real.digit_label", label),
            ("real.label", label),
            ("real.source_index_in_mnist_test", sources),
        ],
    );
    folder
}

#[test]
fn a_fakemnist_of_another_size_and_seed_passes() {
    let label: Vec<i64> = (0..20).map(|i| (i * 7) % 10).collect();
    let sources: Vec<i64> = (0..20).map(|i| (i * 3) % 20).collect();
    let report = quantitative(&fake(&label, &label, &sources));
    assert!(
        report.passed(),
        "{:?} {:?}",
        failed(&report),
        report.unknown
    );
    let skipped = |a: &String| a.starts_with("fakemnist: draw of the generator");
    assert!(report.absent.iter().any(skipped), "{:?}", report.absent);
    // Labels of a number that is no multiple of ten cannot be balanced.
    let report = quantitative(&fake(&label[..15], &label[..15], &sources[..15]));
    assert!(
        report.passed(),
        "{:?} {:?}",
        failed(&report),
        report.unknown
    );
}

#[test]
fn a_fakemnist_that_breaks_the_rule_fails() {
    let label: Vec<i64> = (0..20).map(|i| i % 10).collect();
    let sources: Vec<i64> = (0..20).rev().collect();
    let changed = |values: &[i64], at: usize, to: i64| {
        let mut values = values.to_vec();
        values[at] = to;
        values
    };
    let moved = changed(&label, 3, 9);
    for (label, dots, sources, what) in [
        (
            &label,
            &moved,
            &sources,
            "the dot at the label of every image",
        ),
        (&moved, &moved, &sources, "images of each label"),
        (
            &label,
            &label,
            &changed(&sources, 4, sources[5]),
            "distinct sources",
        ),
    ] {
        let report = quantitative(&fake(label, dots, sources));
        assert_eq!(failed(&report), [what]);
    }
}
