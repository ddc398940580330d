//! Every weight format on small files made by `scripts/make-weight-fixtures`.

use foil::tensor::{Array, StateDict, StateDictError};
use foil::weights::formats::{FormatError, read, read_bytes, write_safetensors};
use serde_json::Value;
use std::{collections::BTreeMap, fs, path::PathBuf};

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/weights")
        .join(name)
}

fn expected() -> Value {
    serde_json::from_str(&fs::read_to_string(fixture("expected.json")).unwrap()).unwrap()
}

#[test]
fn every_fixture_reads_as_python_reads_it() {
    let expected = expected();
    let files = expected.as_object().unwrap();
    assert!(files.len() >= 20);
    for (file, content) in files {
        let content = match content.as_str() {
            Some(other) => &expected[other],
            None => content,
        };
        let dict = read(&fixture(file)).unwrap();
        let wanted = content.as_array().unwrap();
        let names: Vec<&str> = wanted.iter().map(|t| t["name"].as_str().unwrap()).collect();
        assert_eq!(dict.names().collect::<Vec<_>>(), names, "{file}");
        for tensor in wanted {
            let name = tensor["name"].as_str().unwrap();
            let shape: Vec<usize> = numbers(&tensor["shape"], |v| v.as_u64().unwrap() as usize);
            let data: Vec<f32> = numbers(&tensor["data"], |v| v.as_f64().unwrap() as f32);
            let found = dict.expect(name, &shape).unwrap();
            assert_eq!(found.data, data, "{file}: {name}");
        }
        dict.check_finite().unwrap();
    }
}

fn numbers<T>(value: &Value, convert: impl Fn(&Value) -> T) -> Vec<T> {
    value.as_array().unwrap().iter().map(convert).collect()
}

#[test]
fn content_decides_not_the_name() {
    let bytes = fs::read(fixture("state_zip.pth")).unwrap();
    let dict = read_bytes(&bytes, "weights.safetensors").unwrap();
    assert_eq!(dict.source(), "weights.safetensors");
    assert_eq!(dict.get("scalar").unwrap().data, [2.5]);
}

#[test]
fn written_safetensors_read_back_and_are_deterministic() {
    let folder = std::env::temp_dir().join(format!("foil-weights-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let dict = read(&fixture("state_zip.pth")).unwrap();
    let metadata: BTreeMap<String, String> = (0..9)
        .map(|k| (format!("key{k}"), "quote \" slash \\ line \n ä".to_owned()))
        .collect();
    let mut reversed = StateDict::named("reversed");
    let pairs: Vec<_> = dict.clone().into_pairs().collect();
    for (name, array) in pairs.into_iter().rev() {
        reversed.add(name, array).unwrap();
    }
    let (one, two) = (
        folder.join("one.safetensors"),
        folder.join("two.safetensors"),
    );
    write_safetensors(&dict, &one, &metadata).unwrap();
    write_safetensors(&reversed, &two, &metadata).unwrap();
    let bytes = fs::read(&one).unwrap();
    assert_eq!(bytes, fs::read(&two).unwrap());
    let (_, header) = safetensors::SafeTensors::read_metadata(&bytes).unwrap();
    let kept: BTreeMap<_, _> = header.metadata().clone().unwrap().into_iter().collect();
    assert_eq!(kept, metadata);
    let back = read(&one).unwrap();
    assert!(back.sorted().eq(dict.sorted()));
    write_safetensors(&StateDict::named("none"), &two, &BTreeMap::new()).unwrap();
    assert!(read(&two).unwrap().is_empty());
    // Only finished files remain.
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 2);
    fs::remove_dir_all(&folder).unwrap();
    let error = write_safetensors(&dict, &one, &metadata).unwrap_err();
    assert!(matches!(error, FormatError::Io { .. }), "{error}");
}

#[test]
fn not_finite_numbers_are_located() {
    let dict = read(&fixture("not_finite.npy")).unwrap();
    let error = dict.check_finite().unwrap_err();
    let StateDictError::NotFinite { tensor, index, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!(
        (tensor.as_str(), index.as_slice()),
        ("not_finite", &[1, 0][..])
    );
    assert!(error.to_string().contains("not_finite.npy"));
}

#[test]
fn arrays_check_their_shape_and_permute() {
    assert!(Array::new(vec![2, 3], vec![0.0; 5]).is_err());
    let array = Array::new(vec![2, 3], (0..6).map(|k| k as f32).collect()).unwrap();
    let turned = array.permuted(&[1, 0]).unwrap();
    assert_eq!(turned.shape, [3, 2]);
    assert_eq!(turned.data, [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
    assert!(array.permuted(&[0, 0]).is_none());
    assert!(array.permuted(&[0]).is_none());
    let mut dict = StateDict::named("file");
    dict.add("a", array.clone()).unwrap();
    let error = dict.add("a", array).unwrap_err().to_string();
    assert!(error.contains("`a`") && error.contains("file"), "{error}");
    let error = dict.expect("a", &[6]).unwrap_err().to_string();
    assert!(error.contains("[6]") && error.contains("[2, 3]"), "{error}");
    assert!(dict.expect("b", &[6]).is_err());
}

#[test]
fn errors_say_what_the_file_is() {
    let cases: [(&[u8], &str); 8] = [
        (b"", "empty"),
        (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS"),
        (b"<!DOCTYPE html>", "web page"),
        (b"\x1f\x8b\x08\x00", "gzip"),
        (b"\x89HDF\r\n\x1a\n", "HDF5"),
        (b"hello world, no weights", "68 65 6c"),
        (b"\x80\x04}.", "without numpy arrays"),
        (
            b"PK\x05\x06\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
            "zip archive with []",
        ),
    ];
    for (bytes, words) in cases {
        let error = read_bytes(bytes, "some.file").unwrap_err().to_string();
        assert!(
            error.contains(words) && error.contains("some.file"),
            "{error}"
        );
    }
    let error = read(&fixture("none.pth")).unwrap_err();
    assert!(matches!(error, FormatError::Io { .. }));
}
