//! The room `images`: pixels equal to Pillow's, pairs as documented, and no panic on any file.

mod decode;
mod fixtures;
mod jpeg;
mod manifest;
mod pairing;
mod resize;
mod robustness;
