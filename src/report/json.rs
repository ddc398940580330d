//! `scores.json`.

use crate::score::Scores;

/// The text of `scores.json`.
pub fn scores(scores: &Scores) -> String {
    let mut text = serde_json::to_string_pretty(scores).unwrap_or_default();
    text.push('\n');
    text
}
