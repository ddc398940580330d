//! The weights inside the program: small pieces of published networks, and the networks of the glyph world that
//! `scripts/train-demo` made. See `weights/NOTICE.md`.

macro_rules! shipped {
    ($($file:literal),* $(,)?) => {
        /// File name and content of everything that ships.
        pub(super) static FILES: &[(&str, &[u8])] = &[
            $(($file, include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/weights/", $file)))),*
        ];
    };
}

shipped! {
    "alexnet_features_f16.safetensors",
    "imagenet1k_labels.json",
    "inception_fid_stem.safetensors",
    "lpips_heads_v0.1.safetensors",
    "squeezenet1_1_caffe_f16.safetensors",
}

macro_rules! glyph_networks {
    ($($name:literal),* $(,)?) => {
        /// The networks of the glyph world: file name and content of the weights, and the card beside them.
        pub(super) static GLYPHS: &[(&str, &[u8], &str)] = &[$((
            concat!("glyphs/", $name, ".safetensors"),
            include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/weights/glyphs/", $name, ".safetensors")),
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/weights/glyphs/", $name, ".toml")),
        )),*];
    };
}

glyph_networks! {
    "glyph_resnet18",
    "glyph_cnn",
    "glyph_oracle_resnet18",
    "glyph_oracle_cnn",
    "glyph_oracle_convnext",
    "glyph_robust",
    "glyph_noise_aware",
    "glyph_encoder",
    "glyph_autoencoder",
    "glyph_autoencoder_even",
    "glyph_autoencoder_odd",
    "glyph_ddpm",
    "glyph_tied_6_50",
    "glyph_tied_6_95",
    "glyph_tied_10_50",
    "glyph_tied_10_95",
    "dot_cnn",
    "dot_oracle",
    "dot_character",
    "dot_autoencoder",
    "dot_autoencoder_0",
    "dot_autoencoder_1",
    "dot_autoencoder_2",
    "dot_autoencoder_3",
    "dot_autoencoder_4",
    "dot_autoencoder_5",
    "dot_autoencoder_6",
    "dot_autoencoder_7",
    "dot_autoencoder_8",
    "dot_autoencoder_9",
    "dot_autoencoder_proto",
    "dot_inn",
}

/// The cards that ship with the program.
pub(super) static REGISTRY: &str = include_str!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/weights/registry.toml"
));

pub(super) const LABELS: &str = "imagenet1k_labels.json";
pub(super) const HEADS: &str = "lpips_heads_v0.1.safetensors";

/// The content of a shipped file.
pub fn bytes(file: &str) -> Option<&'static [u8]> {
    let glyphs = GLYPHS.iter().map(|(name, bytes, _)| (*name, *bytes));
    FILES
        .iter()
        .copied()
        .chain(glyphs)
        .find(|(name, _)| *name == file)
        .map(|(_, bytes)| bytes)
}
