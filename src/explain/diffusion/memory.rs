//! How many images fit into a budget of memory: measured with one and with two of them.

use std::path::Path;

use super::{GenerateError, Result};

/// Measured memory grows by more than the images' own: pieces of the allocator, threads.
const SPARE: f64 = 1.1;

/// Most images at once: more gain nothing, and what loading took may hide what an image takes.
const MOST: usize = 256;

/// A batch, and the peak of memory with one image of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fitted {
    pub images: usize,
    pub one: u64,
}

/// Largest batch whose peak of resident memory, all networks included, stays within `budget` bytes. `work` runs a step
/// of so many images.
pub fn fitting(budget: u64, mut work: impl FnMut(usize) -> Result<()>) -> Result<Fitted> {
    let mut peak = |images: usize| -> Result<u64> {
        let unknown = || GenerateError::Memory {
            what: "it cannot be measured on this system: give --batch N instead of --memory".into(),
        };
        // Forgets the earlier peak.
        std::fs::write("/proc/self/clear_refs", "5").map_err(|_| unknown())?;
        work(images)?;
        peak_bytes(Path::new("/proc/self/status")).ok_or_else(unknown)
    };
    let [one, two] = [peak(1)?, peak(2)?];
    let images = images(budget, one, two).ok_or_else(|| GenerateError::Memory {
        what: format!(
            "{} are too little: one image at a time takes {}. Give more, or smaller networks",
            shown(budget),
            shown(one)
        ),
    })?;
    Ok(Fitted { images, one })
}

/// Images within a budget, given the peaks with one and with two of them.
fn images(budget: u64, one: u64, two: u64) -> Option<usize> {
    let each = (two.saturating_sub(one) as f64 * SPARE).max(1.0);
    let room = budget as f64 - one as f64;
    (room >= 0.0).then(|| 1 + ((room / each) as usize).min(MOST - 1))
}

/// Peak of resident memory since it was last forgotten.
fn peak_bytes(status: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(status).ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

fn shown(bytes: u64) -> String {
    match bytes {
        0..1_000_000_000 => format!("{:.0} MB", bytes as f64 / 1e6),
        _ => format!("{:.2} GB", bytes as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_fills_the_budget_with_something_to_spare() {
        // 100 for the networks, 10 for each image.
        assert_eq!(images(109, 110, 120), None);
        assert_eq!(images(110, 110, 120), Some(1));
        assert_eq!(images(221, 110, 120), Some(11));
        // No difference could be measured.
        assert_eq!(images(1_000_000, 110, 110), Some(MOST));
    }

    #[test]
    fn the_peak_is_read_from_the_status_of_a_process() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("status");
        std::fs::write(&path, "VmPeak:\t 900 kB\nVmHWM:\t  12 kB\nVmRSS:\t 3 kB\n").unwrap();
        assert_eq!(peak_bytes(&path), Some(12 * 1024));
        assert_eq!(peak_bytes(&folder.path().join("none")), None);
    }
}
