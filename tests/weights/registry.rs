//! Cards, names, embedded files, LPIPS and FID weights.

use std::fs;
use std::path::Path;

use foil::nets::Architecture;
use foil::tensor::{Array, StateDict};
use foil::weights::{
    Channels, Places, Preprocessing, Registry, Resize, ResizeTo, Role, lpips_from_dict, sha256,
};
use tempfile::TempDir;

/// A registry that sees nothing of this machine.
fn registry() -> Registry {
    Registry::at(Places::default()).unwrap()
}

/// A registry whose `$FOIL_WEIGHTS` holds these files.
fn with_files(files: &[(&str, &str)]) -> (TempDir, Result<Registry, String>) {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let places = Places {
        folder: Some(folder.path().into()),
        ..Places::default()
    };
    let registry = Registry::at(places).map_err(|error| error.to_string());
    (folder, registry)
}

const CARD: &str =
    "name = \"mine\"\narchitecture = \"resnet18\"\nfile = \"mine.pth\"\nlabels = [\"a\", \"b\"]\n";

#[test]
fn every_card_is_complete() {
    let registry = registry();
    for card in registry.cards() {
        assert!(!card.licence.is_empty(), "{}", card.name);
        assert!(!card.origin.is_empty(), "{}", card.name);
        match card.role {
            Role::Classifier => {
                let classes = match &card.name {
                    name if name.contains("glyph") => 2,
                    name if name.starts_with("dot_") => 10,
                    _ => 1000,
                };
                assert_eq!(card.labels.len(), classes, "{}", card.name);
            }
            Role::LpipsBackbone => assert!(card.heads.is_some(), "{}", card.name),
            _ => {}
        }
        let published = card.embedded || card.sha256.is_some() || card.sha256_prefix.is_some();
        let known = published || card.random.is_some();
        assert!(known || card.architecture == Architecture::UnetEncoder);
    }
    // These are no published networks: `foil train` makes them, with a card beside each. And the published files of bex
    // could not be reached to read their names and licence: its users write cards of their own.
    let own = [
        Architecture::PlainCnn,
        Architecture::Autoencoder,
        Architecture::Unet,
        Architecture::BexEncoder,
        Architecture::BexGenerator,
    ];
    for architecture in Architecture::ALL {
        let known = registry.cards().any(|c| c.architecture == *architecture);
        assert!(known || own.contains(architecture), "{architecture}");
    }
}

#[test]
fn a_generator_proves_itself_by_an_image() {
    let card =
        "name = \"glyphs\"\narchitecture = \"bex_generator\"\nfile = \"generator.safetensors\"\n";
    let with_role = format!("{card}role = \"generator\"\n");
    let cards = [("glyphs.toml", &with_role[..])];
    let (folder, registry) = with_files(&cards);
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/bex");
    let weights = golden.join("generator_w025.safetensors");
    fs::copy(weights, folder.path().join("generator.safetensors")).unwrap();
    let registry = registry.unwrap();
    let proof = registry.verify(&registry.card("glyphs").unwrap()).unwrap();
    assert_eq!(proof, "images [3, 32, 32]");

    // Without the role it would be taken for a classifier.
    fs::write(folder.path().join("glyphs.toml"), card).unwrap();
    let places = Places {
        folder: Some(folder.path().into()),
        ..Places::default()
    };
    let registry = Registry::at(places).unwrap();
    let error = registry.verify(&registry.card("glyphs").unwrap());
    let message = format!("{:?}", error.unwrap_err());
    assert!(message.contains("generator"), "{message}");
}

#[test]
fn embedded_files_have_the_checksums_of_the_registry_and_lie_in_the_tree() {
    let registry = registry();
    assert_eq!(registry.verify_shipped().unwrap(), 5 + 32);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("weights");
    for shipped in registry.shipped() {
        let bytes = fs::read(folder.join(&shipped.file)).unwrap();
        assert_eq!(sha256(&bytes), shipped.sha256, "{}", shipped.file);
        let notice = fs::read_to_string(folder.join("NOTICE.md")).unwrap();
        assert!(notice.contains(&shipped.file), "{}", shipped.file);
    }
}

#[test]
fn embedded_networks_load_and_run() {
    let registry = registry();
    for (name, proof) in [
        ("lpips_alex", "5 taps"),
        ("squeezenet1_1_caffe", "1000 classes"),
        ("inception_v3_fid_stem", "features 64, 192"),
    ] {
        let card = registry.card(name).unwrap();
        assert_eq!(registry.verify(&card).unwrap(), proof);
        let loaded = registry.load(&card).unwrap();
        assert_eq!(Some(loaded.sha256), card.sha256);
        assert!(loaded.source.starts_with("embedded "));
    }
}

#[test]
fn preprocessing_is_that_of_the_publishers() {
    let registry = registry();
    let of = |name: &str| registry.card(name).unwrap().preprocessing;
    assert_eq!(of("resnet50"), Preprocessing::default());
    assert_eq!(of("mobilenet_v2"), Preprocessing::default());
    let resize = |size, filter: &str| {
        Some(Resize {
            size,
            filter: filter.into(),
        })
    };
    let shorter = ResizeTo::ShorterSide;
    assert_eq!(of("convnext_tiny").resize, resize(shorter(236), "bilinear"));
    assert_eq!(
        of("convnext_large").resize,
        resize(shorter(232), "bilinear")
    );
    assert_eq!(of("swin_t").resize, resize(shorter(232), "bicubic"));
    assert_eq!(of("swin_b").resize, resize(shorter(238), "bicubic"));
    assert_eq!(of("efficientnet_lite1").crop, Some([240, 240]));
    let lite2 = of("efficientnet_lite2");
    assert_eq!(lite2.resize, resize(ResizeTo::Exact([260, 260]), "bicubic"));
    assert_eq!(lite2.crop, None);
    let caffe = of("squeezenet1_1_caffe");
    assert_eq!((caffe.channels, caffe.scale), (Channels::Bgr, 1.0));
    assert_eq!(caffe.mean, [104.006, 116.669, 122.679]);
    let guided = of("guided_diffusion_256_classifier");
    let ends =
        [0.0, 255.0].map(|pixel: f32| (pixel * guided.scale - guided.mean[0]) / guided.std[0]);
    assert!((ends[0] + 1.0).abs() < 1e-6 && (ends[1] - 1.0).abs() < 1e-6);
}

#[test]
fn unknown_names_are_answered_with_near_and_known_ones() {
    let registry = registry();
    let error = registry.card("resnet-5O").unwrap_err().to_string();
    assert!(error.contains("did you mean \"resnet50\""), "{error}");
    assert!(
        error.contains("lpips_vgg") && error.contains("swin_b"),
        "{error}"
    );
    let error = registry.card("something").unwrap_err().to_string();
    assert!(!error.contains("did you mean"), "{error}");
    assert_eq!(registry.card("vgg16_lpips").unwrap().name, "lpips_vgg");
    let error = registry.card("/none/card.toml").unwrap_err().to_string();
    assert!(error.contains("/none/card.toml"), "{error}");
    let error = registry.card(file!()).unwrap_err().to_string();
    assert!(error.contains("expected a .toml file"), "{error}");
    let places = Places {
        folder: Some("/none".into()),
        ..Places::default()
    };
    let error = Registry::at(places).unwrap_err().to_string();
    assert!(
        error.contains("/none") && error.contains("FOIL_WEIGHTS"),
        "{error}"
    );
}

#[test]
fn a_users_card_is_found_by_name_and_by_path() {
    let (folder, registry) = with_files(&[("a.toml", CARD), ("notes.txt", "not a card")]);
    let registry = registry.unwrap();
    let card = registry.card("mine").unwrap();
    assert_eq!(card.labels, ["a", "b"]);
    assert_eq!(card.preprocessing, Preprocessing::default());
    let path = folder.path().join("a.toml");
    assert_eq!(registry.card(path.to_str().unwrap()).unwrap(), card);
}

#[test]
fn labels_come_from_lists_lines_json_and_imagenet() {
    let card = |labels: &str| CARD.replace("[\"a\", \"b\"]", labels);
    for (labels, file, content, expected) in [
        ("\"l.txt\"", "l.txt", "cat\n dog \n", vec!["cat", "dog"]),
        ("\"l.json\"", "l.json", "[\"x\"]", vec!["x"]),
    ] {
        let (_folder, registry) = with_files(&[("a.toml", &card(labels)), (file, content)]);
        assert_eq!(registry.unwrap().card("mine").unwrap().labels, expected);
    }
    let (_folder, registry) = with_files(&[("a.toml", &card("\"imagenet1k\""))]);
    assert_eq!(
        registry.unwrap().card("mine").unwrap().labels[285],
        "Egyptian cat"
    );
    let (_folder, registry) = with_files(&[("a.toml", &card("\"gone.txt\""))]);
    assert!(registry.unwrap_err().contains("gone.txt"));
    let text = card("\"l.txt\"");
    let (_folder, registry) = with_files(&[("a.toml", &text), ("l.txt", "cat\n\ndog")]);
    assert!(registry.unwrap_err().contains("label 1 is empty"));
}

#[test]
fn mistakes_in_cards_name_the_file_and_the_field() {
    for (from, to, words) in [
        ("mine\"", "resnet18\"", "already"),
        ("mine\"", "../up\"", "letters"),
        ("\"resnet18\"", "\"resnet19\"", "unknown architecture"),
        ("file = \"mine.pth\"", "", "name the file of weights"),
        ("mine.pth", " ", "`file` is empty"),
        ("labels", "label", "unknown field `label`"),
        ("labels", "sha256 = \"12\"\nlabels", "64 lower-case"),
        ("labels", "embedded = true\nlabels", "own cards"),
        (
            "labels",
            "hub = { repo = \"x\", file = \"f\" }\nlabels",
            "owner/name",
        ),
        (
            "labels",
            "hub = { repo = \"a/b\", file = \"../f\" }\nlabels",
            "owner/name",
        ),
        (
            "labels",
            "preprocessing = { crop = 9 }\nlabels",
            "without `resize`",
        ),
    ] {
        let (_folder, registry) = with_files(&[("bad.toml", &CARD.replacen(from, to, 1))]);
        let error = registry.unwrap_err();
        assert!(
            error.contains("bad.toml") && error.contains(words),
            "{words}: {error}"
        );
    }
}

#[test]
fn missing_weights_say_which_file_to_put_where() {
    let places = Places {
        store: Some("/some/store".into()),
        ..Places::default()
    };
    let registry = Registry::at(places).unwrap();
    let error = |name: &str| registry.load(&registry.card(name).unwrap()).unwrap_err();
    let text = error("mobilenet_v2").to_string();
    for words in [
        "mobilenet_v2-b0353104.pth",
        "b03531047ffacf1e",
        "/some/store",
        "$FOIL_WEIGHTS",
        "foil weights import FILE --as mobilenet_v2",
        "scripts/real-weights --only mobilenet_v2",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let text = error("inception_v3_fid").to_string();
    assert!(
        text.contains("6726825d…") && text.contains("default_1.pt"),
        "{text}"
    );
    assert!(!error("resnet50").to_string().contains("real-weights"));
}

#[test]
fn fid_uses_the_stem_for_few_features_and_the_whole_network_for_many() {
    let registry = registry();
    assert_eq!(registry.fid(64).unwrap().dict.len(), 25);
    assert!(
        registry
            .fid(192)
            .unwrap()
            .dict
            .contains("Conv2d_4a_3x3.bn.bias")
    );
    for many in [768, 2048] {
        let error = registry.fid(many).unwrap_err().to_string();
        assert!(error.starts_with("inception_v3_fid:"), "{error}");
    }
    let error = registry.fid(100).unwrap_err().to_string();
    assert!(error.contains("64, 192, 768 or 2048"), "{error}");
}

#[test]
fn lpips_alex_is_complete_out_of_the_box() {
    let registry = registry();
    let alex = registry.lpips("alex").unwrap();
    let sizes: Vec<usize> = alex.heads.iter().map(Vec::len).collect();
    assert_eq!(sizes, [64, 192, 384, 256, 256]);
    assert_eq!(alex.backbone.len(), 10);
    assert_eq!(alex.sha256.len(), 64);
    for net in ["vgg", "squeeze", "alex-f32"] {
        assert!(registry.lpips(net).is_err(), "{net} is not shipped");
    }
    let error = registry.lpips("resnet").unwrap_err().to_string();
    assert!(error.contains("alex, alex-f32, vgg, squeeze"), "{error}");
}

#[test]
fn lpips_files_may_bring_their_own_heads() {
    let registry = registry();
    let alex = registry.lpips("alex").unwrap();
    let plain = lpips_from_dict("alex", alex.backbone.clone()).unwrap();
    assert_eq!((&plain.sha256, &plain.heads), (&alex.sha256, &alex.heads));

    // A saved `lpips` module: the same numbers under other names.
    let mut module = StateDict::named("module.pth");
    for (name, array) in alex.backbone.iter() {
        let name = name.replace("features.", "net.slice1.");
        module.insert(name, array.clone());
    }
    let renamed = lpips_from_dict("alex", module.clone()).unwrap();
    assert_eq!(renamed.sha256, alex.sha256);

    for (k, head) in alex.heads.iter().enumerate() {
        let array = Array::new([1, head.len(), 1, 1], vec![0.5; head.len()]).unwrap();
        module.insert(format!("lin{k}.model.1.weight"), array);
    }
    let own = lpips_from_dict("alex", module.clone()).unwrap();
    assert_ne!(own.sha256, alex.sha256);
    assert!(own.heads.iter().flatten().all(|&w| w == 0.5));

    module.remove("lin3.model.1.weight");
    let error = lpips_from_dict("alex", module).unwrap_err().to_string();
    assert!(error.contains("lin3.model.1.weight"), "{error}");
    let mut nan = alex.backbone.clone();
    nan.insert("features.0.bias", Array::new([1], vec![f32::NAN]).unwrap());
    let error = lpips_from_dict("alex", nan).unwrap_err().to_string();
    assert!(error.contains("features.0.bias"), "{error}");
    let error = lpips_from_dict("vgg", StateDict::named("empty.npz")).unwrap_err();
    assert!(error.to_string().contains("a backbone"), "{error}");
}
