//! The order in which files are looked for, checksums, and imports.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use foil::tensor::{Array, StateDict};
use foil::weights::formats::{read, write_safetensors};
use foil::weights::{Location, Places, Registry, sha256};
use tempfile::TempDir;

struct House {
    root: TempDir,
}

impl House {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        for folder in ["cards", "user", "store"] {
            fs::create_dir(root.path().join(folder)).unwrap();
        }
        Self { root }
    }

    fn path(&self, below: &str) -> PathBuf {
        self.root.path().join(below)
    }

    fn registry(&self) -> Registry {
        let places = Places {
            folder: Some(self.path("user")),
            store: Some(self.path("store")),
            ..Places::default()
        };
        Registry::at(places).unwrap()
    }

    /// A card in a folder of its own.
    fn card(&self, lines: &str) -> String {
        let path = self.path("cards/mine.toml");
        let text = format!(
            "name = \"mine\"\narchitecture = \"squeezenet1_1\"\nfile = \"mine.safetensors\"\n{lines}\n"
        );
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

/// A working SqueezeNet.
fn squeezenet() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("weights/squeezenet1_1_caffe_f16.safetensors")
}

fn small(path: &Path, value: f32) {
    let mut dict = StateDict::new();
    dict.insert("w", Array::new([1], vec![value]).unwrap());
    write_safetensors(&dict, path, &BTreeMap::new()).unwrap();
}

#[test]
fn the_cards_folder_comes_before_foil_weights_before_the_store() {
    let house = House::new();
    let card = house.card("");
    let places = ["store", "user", "cards"];
    for (at, folder) in places.into_iter().enumerate() {
        small(&house.path(folder).join("mine.safetensors"), at as f32);
        let registry = house.registry();
        let card = registry.card(&card).unwrap();
        let loaded = registry.load(&card).unwrap();
        assert_eq!(loaded.dict.get("w").unwrap().data, [at as f32]);
        assert!(loaded.source.contains(folder), "{}", loaded.source);
    }
}

#[test]
fn a_wrong_checksum_is_an_error_with_both_values() {
    let house = House::new();
    let file = house.path("cards/mine.safetensors");
    small(&file, 1.0);
    let right = sha256(&fs::read(&file).unwrap());
    let card = house.card(&format!("sha256 = \"{right}\""));
    let registry = house.registry();
    let card = registry.card(&card).unwrap();
    assert_eq!(registry.load(&card).unwrap().sha256, right);
    small(&file, 2.0);
    let found = sha256(&fs::read(&file).unwrap());
    let error = registry.load(&card).unwrap_err().to_string();
    for words in [right.as_str(), found.as_str(), "mine.safetensors"] {
        assert!(error.contains(words), "{words}: {error}");
    }
    assert!(registry.get(&card).is_err());
}

#[test]
fn a_published_prefix_is_checked_too() {
    let house = House::new();
    small(&house.path("user/resnet50-0676ba61.pth"), 1.0);
    let registry = house.registry();
    let card = registry.card("resnet50").unwrap();
    let error = registry.load(&card).unwrap_err().to_string();
    assert!(error.contains("0676ba61…"), "{error}");
}

#[test]
fn numbers_that_are_not_finite_are_refused_with_their_tensor() {
    let house = House::new();
    small(&house.path("cards/mine.safetensors"), f32::INFINITY);
    let registry = house.registry();
    let card = registry.card(&house.card("")).unwrap();
    let error = registry.load(&card).unwrap_err().to_string();
    assert!(error.contains("`w`") && error.contains("[0]"), "{error}");
}

#[test]
fn an_import_runs_the_network_and_is_checked_ever_after() {
    let house = House::new();
    let registry = house.registry();
    let card = registry
        .card(&house.card("labels = \"imagenet1k\""))
        .unwrap();
    let done = registry.import(&squeezenet(), &card, false).unwrap();
    assert_eq!(done.proof, "1000 classes");
    assert_eq!(done.path, house.path("store/mine.imported.safetensors"));
    assert!(done.replaced.is_none());
    let loaded = registry.load(&card).unwrap();
    // The checksum is that of what was imported, so that scores do not depend on the container.
    assert_eq!(loaded.sha256, sha256(&fs::read(squeezenet()).unwrap()));
    assert!(
        loaded
            .dict
            .sorted()
            .eq(read(&squeezenet()).unwrap().sorted())
    );
    let names: Vec<_> = fs::read_dir(house.path("store"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(names.len(), 2, "{names:?}");

    let mut bytes = fs::read(&done.path).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(&done.path, bytes).unwrap();
    let error = registry.load(&card).unwrap_err().to_string();
    assert!(error.contains("changed since it was imported"), "{error}");
    registry.import(&squeezenet(), &card, false).unwrap();
    registry.load(&card).unwrap();

    fs::remove_file(house.path("store/mine.imported.json")).unwrap();
    let error = registry.load(&card).unwrap_err().to_string();
    assert!(
        error.contains("mine.imported.json") && error.contains("again"),
        "{error}"
    );
}

#[test]
fn an_import_that_does_not_fit_writes_nothing() {
    let house = House::new();
    let registry = house.registry();
    let labels = registry
        .card(&house.card("labels = [\"a\", \"b\"]"))
        .unwrap();
    let error = registry.import(&squeezenet(), &labels, false).unwrap_err();
    assert!(error.to_string().contains("2 classes"), "{error}");

    let card = registry.card(&house.card("")).unwrap();
    let other = house.path("other.safetensors");
    small(&other, 1.0);
    let error = registry
        .import(&other, &card, false)
        .unwrap_err()
        .to_string();
    assert!(error.contains("features.0.weight"), "{error}");
    let text = house.path("text.pth");
    fs::write(&text, "hello world").unwrap();
    assert!(registry.import(&text, &card, false).is_err());
    assert!(
        registry
            .import(&house.path("none.pth"), &card, false)
            .is_err()
    );
    assert_eq!(fs::read_dir(house.path("store")).unwrap().count(), 0);
}

#[test]
fn other_weights_under_a_published_name_need_to_be_asked_for() {
    let house = House::new();
    let registry = house.registry();
    let card = registry.card("squeezenet1_1").unwrap();
    let error = registry.import(&squeezenet(), &card, false).unwrap_err();
    let error = error.to_string();
    assert!(
        error.contains("b8a52dc0…") && error.contains("--unpublished"),
        "{error}"
    );
    let done = registry.import(&squeezenet(), &card, true).unwrap();
    assert!(!done.record.published);
    let found = registry.find(&card).unwrap().unwrap();
    assert!(matches!(found, Location::Imported(_, record) if !record.published));
    let embedded = registry.card("lpips_alex").unwrap();
    assert!(registry.import(&squeezenet(), &embedded, true).is_err());
}

#[test]
fn a_record_of_another_architecture_is_refused() {
    let house = House::new();
    let registry = house.registry();
    let path = house.card("");
    let card = registry.card(&path).unwrap();
    registry.import(&squeezenet(), &card, false).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("squeezenet1_1", "alexnet")).unwrap();
    let other = registry.card(&path).unwrap();
    let error = registry.load(&other).unwrap_err().to_string();
    assert!(
        error.contains("alexnet") && error.contains("squeezenet1_1"),
        "{error}"
    );
}
