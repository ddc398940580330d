//! `foil weights` as its arguments and its printed text.

use foil::cli::weights as command;
use foil::weights;

use std::path::{Path, PathBuf};

use clap::Parser;
use foil::weights::{Places, Registry};

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: command::WeightsArgs,
}

fn registry(store: &Path) -> Registry {
    let places = weights::Places {
        store: Some(store.into()),
        ..Places::default()
    };
    Registry::at(places).unwrap()
}

fn foil(store: &Path, words: &[&str]) -> (String, Result<(), String>) {
    let line = Line::try_parse_from(["weights"].iter().chain(words)).unwrap();
    let mut out = Vec::new();
    let done = command::run_with(&line.args, &registry(store), &mut out);
    let text = String::from_utf8(out).unwrap();
    (text, done.map_err(|error| format!("{error:#}")))
}

fn squeezenet() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("weights/squeezenet1_1_caffe_f16.safetensors")
}

#[test]
fn wrong_usage_is_refused_by_the_parser_with_exit_code_2() {
    for words in [
        &[][..],
        &["get"],
        &["import", "x.pth"],
        &["import", "--as", "x"],
        &["fetch"],
    ] {
        let Err(error) = Line::try_parse_from(["weights"].iter().chain(words)) else {
            panic!("{words:?} was taken");
        };
        assert_eq!(error.exit_code(), 2, "{words:?}");
    }
}

#[test]
fn list_shows_every_network_and_where_it_is() {
    let store = tempfile::tempdir().unwrap();
    let (text, done) = foil(store.path(), &["list"]);
    done.unwrap();
    let line = |name: &str| {
        let mut lines = text.lines();
        let line = lines.find(|line| line.split_whitespace().next() == Some(name));
        line.unwrap_or_else(|| panic!("{name} in {text}"))
            .to_owned()
    };
    assert!(line("lpips_alex").contains("embedded"));
    assert!(line("lpips_vgg").contains("missing"));
    assert!(line("swin_b").contains("BSD-3-Clause"));
    let (text, _) = foil(store.path(), &["list", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json[0]["name"], "lpips_alex");
    assert_eq!(json[0]["found"], "embedded");
    assert_eq!(
        json.as_array().unwrap().len(),
        registry(store.path()).cards().count()
    );
}

#[test]
fn get_prints_where_the_weights_are() {
    let store = tempfile::tempdir().unwrap();
    let (text, done) = foil(store.path(), &["get", "squeezenet1_1_caffe", "--offline"]);
    done.unwrap();
    assert_eq!(text, "embedded squeezenet1_1_caffe_f16.safetensors\n");
    let (_, done) = foil(store.path(), &["get", "resnet18"]);
    assert!(done.unwrap_err().contains("resnet18-f37072fd.pth"));
    let (_, done) = foil(store.path(), &["get", "resnet81"]);
    assert!(done.unwrap_err().contains("did you mean \"resnet18\""));
}

#[test]
fn import_says_what_it_did_and_verify_agrees() {
    let store = tempfile::tempdir().unwrap();
    let file = squeezenet();
    let words = ["import", file.to_str().unwrap(), "--as", "squeezenet1_1"];
    let (_, done) = foil(store.path(), &words);
    let error = done.unwrap_err();
    assert!(
        error.contains("cannot import") && error.contains("b8a52dc0"),
        "{error}"
    );
    let (text, done) = foil(store.path(), &[&words[..], &["--unpublished"]].concat());
    done.unwrap();
    assert!(
        text.contains("imported") && text.contains("runs: 1000 classes"),
        "{text}"
    );
    let (text, done) = foil(store.path(), &["verify"]);
    done.unwrap();
    assert!(
        text.contains("ok       squeezenet1_1: 1000 classes"),
        "{text}"
    );
    assert!(text.contains("missing  resnet50"), "{text}");
    let (text, done) = foil(store.path(), &["verify", "lpips_alex", "resnet50"]);
    assert!(
        done.unwrap_err()
            .contains("1 of 2 networks failed: resnet50")
    );
    assert!(text.contains("ok       lpips_alex: 5 taps"), "{text}");
    let kept = store.path().join("squeezenet1_1.imported.safetensors");
    std::fs::write(&kept, b"damaged").unwrap();
    let (text, done) = foil(store.path(), &["verify"]);
    assert!(
        done.is_err() && text.contains("FAILED   squeezenet1_1"),
        "{text}"
    );
}
