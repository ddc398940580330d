//! placeholder
pub fn available() -> bool {
    false
}
