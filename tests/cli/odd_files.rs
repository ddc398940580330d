//! Hundreds of damaged and odd files in one folder: each is scored or skipped with a reason, never a panic.

use std::path::Path;

use crate::folders::{Folders, picture};

fn fixtures() -> Vec<std::path::PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/images");
    let mut found = Vec::new();
    let mut open = vec![root];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

#[test]
fn every_damaged_or_odd_file_is_scored_or_skipped_with_its_reason() {
    let folders = Folders::new();
    let (mut count, mut readable) = (0, 0);
    let mut add = |bytes: &[u8], extension: &str| {
        let name = format!("{count:04}");
        // Where the library can read a file, its original holds the same pixels, so its distance must be 0.
        let limits = foil::images::Limits::default();
        let original = match foil::images::decode(bytes, Path::new("x"), &limits) {
            Ok(i) => {
                readable += 1;
                image::RgbImage::from_raw(i.width as u32, i.height as u32, i.pixels).unwrap()
            }
            Err(_) => picture(count, 64, 0),
        };
        folders.save("originals", &format!("{name}.png"), &original);
        let path = folders
            .path("counterfactuals")
            .join(format!("{name}.{extension}"));
        std::fs::write(path, bytes).unwrap();
        count += 1;
    };
    let sources: Vec<(Vec<u8>, String)> = fixtures()
        .iter()
        .filter_map(|p| {
            let extension = p.extension()?.to_str()?.to_string();
            let known = ["png", "jpg", "jpeg", "webp", "bmp", "tif", "tiff"];
            known
                .contains(&extension.as_str())
                .then(|| (std::fs::read(p).unwrap(), extension))
        })
        .collect();
    // Every fixture as it is (16-bit, palette, CMYK, animated, …), under its own and under a wrong extension.
    for (bytes, extension) in &sources {
        add(bytes, extension);
    }
    for (bytes, extension) in sources.iter().take(40) {
        add(bytes, if extension == "png" { "jpg" } else { "png" });
    }
    // One file of each kind cut at every 5 %, and with single bits turned.
    for kind in ["png", "jpg", "webp", "bmp", "tif"] {
        let Some((bytes, _)) = sources.iter().find(|(b, e)| e == kind && b.len() > 200) else {
            panic!("no {kind} fixture");
        };
        for twentieth in 0..20 {
            add(&bytes[..bytes.len() * twentieth / 20], kind);
            let mut turned = bytes.clone();
            let at = turned.len() * (twentieth * 7 % 20) / 20 + twentieth;
            let at = at.min(turned.len() - 1);
            turned[at] ^= 1 << (twentieth % 8);
            add(&turned, kind);
        }
    }
    assert!(count >= 300, "{count} files");

    let json = folders.json(&["--metrics", "l1", "--skip-bad"]);
    let group = &json["groups"][0];
    let (scored, skipped) = (
        group["pairs"].as_u64().unwrap(),
        group["skipped"].as_u64().unwrap(),
    );
    assert_eq!((scored, skipped), (readable, u64::from(count) - readable));
    assert_eq!(group["scores"]["l1"]["value"], 0.0);
    assert!(
        scored > 80 && skipped > 80,
        "{scored} scored, {skipped} skipped"
    );
    for file in json["left_out"]["skipped"].as_array().unwrap() {
        let (name, reason) = (
            file["name"].as_str().unwrap(),
            file["reason"].as_str().unwrap(),
        );
        assert!(reason.contains(name), "the reason names the file: {reason}");
        assert!(!reason.contains("panic"), "{reason}");
    }
}
