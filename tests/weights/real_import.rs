//! Published files through the whole room: import, checksum, load, run. Runs where FOIL_REAL_WEIGHTS names the
//! folder of inner files fetched by scripts/real-weights (without hash prefix).

use std::path::PathBuf;

use foil::weights::{Places, Registry, lpips_from_dict};

const FILES: [(&str, &str, &str); 7] = [
    ("alexnet.ckpt", "alexnet_lpips_f32", "5 taps"),
    ("vgg16.ckpt", "vgg16_lpips", "5 taps"),
    (
        "default_1.pt",
        "inception_v3_fid",
        "features 64, 192, 768, 2048",
    ),
    ("mobilenet_v2-b0353104.pth", "mobilenet_v2", "1000 classes"),
    (
        "efficientnet-lite0-57934424.pth",
        "efficientnet_lite0",
        "1000 classes",
    ),
    (
        "efficientnet-lite1-77cc7160.pth",
        "efficientnet_lite1",
        "1000 classes",
    ),
    (
        "efficientnet-lite2-9656183e.pth",
        "efficientnet_lite2",
        "1000 classes",
    ),
];

#[test]
fn published_files_are_imported_and_give_the_same_weights_as_where_they_lie() {
    let Some(folder) = std::env::var_os("FOIL_REAL_WEIGHTS").map(PathBuf::from) else {
        println!("skipped: FOIL_REAL_WEIGHTS is not set");
        return;
    };
    let home = tempfile::tempdir().unwrap();
    let store = Registry::at(Places {
        store: Some(home.path().join("weights")),
        ..Places::default()
    })
    .unwrap();
    let beside = Registry::at(Places {
        folder: Some(folder.clone()),
        ..Places::default()
    })
    .unwrap();
    for (file, name, proof) in FILES {
        let card = store.card(name).unwrap();
        let done = store.import(&folder.join(file), &card, false).unwrap();
        assert!(done.record.published, "{name}");
        assert_eq!(done.proof, proof, "{name}");
        let (imported, plain) = (store.load(&card).unwrap(), beside.load(&card).unwrap());
        assert_eq!(imported.sha256, plain.sha256, "{name}");
        assert_eq!(imported.content_sha256(), plain.content_sha256(), "{name}");
    }
    for net in ["alex-f32", "vgg"] {
        let (imported, plain) = (store.lpips(net).unwrap(), beside.lpips(net).unwrap());
        assert_eq!(imported.sha256, plain.sha256);
        let file = if net == "vgg" {
            "vgg16.ckpt"
        } else {
            "alexnet.ckpt"
        };
        let given = store.lpips_from_file(net, &folder.join(file)).unwrap();
        assert_eq!(given.sha256, plain.sha256);
        assert_eq!(
            lpips_from_dict(net, given.backbone).unwrap().sha256,
            plain.sha256
        );
    }
    let embedded = store.lpips("alex").unwrap();
    assert_ne!(embedded.sha256, store.lpips("alex-f32").unwrap().sha256);
    assert!(embedded.source.starts_with("embedded"));
    assert_eq!(store.fid(2048).unwrap().dict.len(), 470);
    assert_eq!(store.fid(64).unwrap().dict.len(), 25);
}
