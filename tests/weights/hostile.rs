//! Hostile and damaged weight files: an error, never a panic, a hang or an executed call.

use foil::weights::formats::{FormatError, read, read_bytes};
use std::{fs, path::PathBuf};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/weights")
}

fn error_of(name: &str) -> FormatError {
    let name = format!("hostile_{name}");
    match read(&folder().join(&name)) {
        Ok(dict) => panic!("{name} was read: {:?}", dict.names().collect::<Vec<_>>()),
        Err(error) => {
            assert!(error.to_string().contains(&name), "{error}");
            error
        }
    }
}

#[test]
fn calls_are_never_made() {
    let mark = PathBuf::from("/tmp/foil-weights-pwned");
    assert!(!mark.exists(), "remove {} first", mark.display());
    for name in ["system_p2.pkl", "system_p4.pkl"] {
        assert!(matches!(error_of(name), FormatError::Unknown { .. }));
    }
    for (name, data) in [
        ("system_beside.pkl", [1.0, 2.0]),
        ("system.pth", [1.0, 1.0]),
    ] {
        let dict = read(&folder().join(format!("hostile_{name}"))).unwrap();
        assert_eq!(dict.names().collect::<Vec<_>>(), ["w"]);
        assert_eq!(dict.get("w").unwrap().data, data);
    }
    assert!(!mark.exists());
}

#[test]
fn bombs_are_refused() {
    for name in ["laughs.pkl", "cycle.pkl", "expand.pth"] {
        let error = error_of(name);
        assert!(matches!(error, FormatError::Limit { .. }), "{error}");
    }
    for name in ["memo.pkl", "long_length.pkl", "checksum.pth"] {
        let error = error_of(name);
        assert!(matches!(error, FormatError::Damaged { .. }), "{error}");
    }
    for name in [
        "overflow.pth",
        "stride.pth",
        "negative.pth",
        "offset.pth",
        "missing.pth",
        "huge.npy",
        "inexact.npy",
        "complex.npy",
    ] {
        let error = error_of(name);
        assert!(matches!(error, FormatError::Tensor { .. }), "{error}");
    }
    error_of("huge.safetensors");
    assert!(
        error_of("sparse.pth")
            .to_string()
            .contains("_rebuild_sparse_tensor")
    );
}

#[test]
fn deep_nesting_is_refused_without_recursion() {
    let lists = [vec![b'('; 200_000], vec![b'l'; 200_000]].concat();
    let dicts = [
        b"}".to_vec(),
        b"U\x01a}".repeat(200_000),
        vec![b's'; 200_000],
    ]
    .concat();
    let tuples = [b")".to_vec(), vec![0x85; 200_000]].concat();
    let calls = [b"cos\nsystem\n".to_vec(), b")R".repeat(200_000)].concat();
    let states = [b"c__torch__.a\nb\n)R".repeat(50_000), vec![b'b'; 49_999]].concat();
    for body in [lists, dicts, tuples, calls, states] {
        let bytes = [b"\x80\x02".to_vec(), body, b".".to_vec()].concat();
        assert!(read_bytes(&bytes, "deep.pkl").is_err());
        let legacy = [
            b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.".to_vec(),
            b"\x80\x02M\xe9\x03.\x80\x02}.".to_vec(),
            bytes,
            b"\x80\x02].".to_vec(),
        ]
        .concat();
        assert!(read_bytes(&legacy, "deep.pth").is_err());
    }
}

#[test]
fn too_many_values_are_refused() {
    for op in [b'N', b'(', b'}', b')'] {
        let bytes = [b"\x80\x02".to_vec(), vec![op; 5_000_000], b".".to_vec()].concat();
        let error = read_bytes(&bytes, "flood.pkl").unwrap_err();
        assert!(matches!(error, FormatError::Limit { .. }), "{error}");
    }
}

/// All fixtures cut at every byte: an error or, where only ignorable bytes are gone, a result.
#[test]
fn truncation_never_panics() {
    for entry in fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        if path.ends_with("hostile_laughs.pkl") {
            continue; // deliberately slow to refuse
        }
        let bytes = fs::read(&path).unwrap();
        for length in 0..bytes.len() {
            let _ = read_bytes(&bytes[..length], "cut");
        }
    }
}

/// All fixtures with bytes changed at random places (a fixed sequence).
#[test]
fn changed_bytes_never_panic() {
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed as usize
    };
    for entry in fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        if path.ends_with("hostile_laughs.pkl") {
            continue;
        }
        let bytes = fs::read(&path).unwrap();
        for _ in 0..1500 {
            let mut changed = bytes.clone();
            for _ in 0..1 + random() % 3 {
                let at = random() % changed.len();
                changed[at] = match random() % 4 {
                    0 => 0xff,
                    1 => 0,
                    2 => changed[at] ^ (1 << (random() % 8)),
                    _ => random() as u8,
                };
            }
            let _ = read_bytes(&changed, "changed");
        }
    }
}
