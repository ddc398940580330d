//! The type of a torso in cards and configurations: `f32`, `f16` or `bf16`, or nothing where it may be left out.

use serde::{Deserialize, Deserializer, Serializer, de::Error};

use crate::tensor::Kept;

pub fn serialize<S: Serializer>(kept: &Option<Kept>, to: S) -> Result<S::Ok, S::Error> {
    match kept {
        Some(kept) => always::serialize(kept, to),
        None => to.serialize_none(),
    }
}

pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Kept>, D::Error> {
    let text = Option::<String>::deserialize(from)?;
    let kept = text.map(|text| text.parse()).transpose();
    kept.map_err(D::Error::custom)
}

/// The same where it stands always.
pub mod always {
    use super::*;

    pub fn serialize<S: Serializer>(kept: &Kept, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(kept.name())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Kept, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}
