//! What a decoder finds wrong with bytes, before the file's name is known, and the guard around decoders that were
//! written elsewhere.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::Limits;

/// A decoder's complaint; [`super::decode`] adds the file's name.
#[derive(Debug)]
pub enum Fault {
    /// More pixels than allowed.
    TooLarge {
        /// Declared width.
        width: u64,
        /// Declared height.
        height: u64,
    },
    /// Several images in one file.
    Frames {
        /// The format, with what makes it hold several images.
        format: &'static str,
        /// How many.
        frames: u64,
    },
    /// A variant that is not read.
    Unsupported(String),
    /// Damage.
    Corrupt(String),
}

impl Fault {
    /// Damage, described by anything that can be printed.
    pub fn corrupt(reason: impl ToString) -> Self {
        Self::Corrupt(reason.to_string())
    }
}

/// Checks a declared size against the limits.
pub fn check_size(width: u64, height: u64, limits: &Limits) -> Result<(), Fault> {
    if width == 0 || height == 0 {
        return Err(Fault::Corrupt(format!(
            "the header declares {width}x{height} pixels"
        )));
    }
    if u128::from(width) * u128::from(height) > u128::from(limits.max_pixels) {
        return Err(Fault::TooLarge { width, height });
    }
    Ok(())
}

/// The `image` crate's limits that go with ours: 16-bit RGBA pixels, and as much again for what its decoders need
/// besides, with some room for small files.
pub fn third_party_limits(limits: &Limits) -> image::Limits {
    let mut theirs = image::Limits::no_limits();
    theirs.max_alloc = Some(
        limits
            .max_pixels
            .saturating_mul(16)
            .saturating_add(16 << 20),
    );
    theirs
}

/// Runs a third-party decoder and turns a panic in it into a fault. It owns all that it changes, so nothing half
/// done is seen afterwards. The process's panic hook is not touched: it may print a line.
pub fn guarded<T>(decoder: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
    catch_unwind(AssertUnwindSafe(decoder)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("no reason given");
        Err(Fault::Corrupt(format!("the decoder gave up: {text}")))
    })
}

/// An error of the `image` crate as a fault.
pub fn third_party_fault(error: image::ImageError) -> Fault {
    match error {
        image::ImageError::Unsupported(error) => Fault::Unsupported(error.to_string()),
        error => Fault::corrupt(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panicking_decoder_becomes_a_fault() {
        let fault = guarded::<()>(|| panic!("index {} is out of range", 7)).unwrap_err();
        assert!(matches!(fault, Fault::Corrupt(reason) if reason.contains("index 7")));
    }

    #[test]
    fn sizes_are_checked_without_overflow() {
        let limits = Limits::default();
        assert!(check_size(10_000, 10_000, &limits).is_ok());
        assert!(matches!(
            check_size(u64::MAX, u64::MAX, &limits),
            Err(Fault::TooLarge { .. })
        ));
        assert!(matches!(check_size(0, 5, &limits), Err(Fault::Corrupt(_))));
    }
}
