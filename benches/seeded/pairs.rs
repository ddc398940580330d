//! Pairs of PNG in two folders, scored as `foil score` does, from finding the files to the last score.

use std::path::Path;

use foil::images;
use foil::metrics::MetricBackend;
use foil::score::{self, Inputs, Labels, Place, Settings};
use foil::weights::Registry;

use crate::seeded;

/// Smooth waves with a little noise: about as hard to decode as a photograph.
fn write_image(path: &Path, side: u32, index: usize, edited: bool) {
    let noise = seeded::array(
        &format!("noise {index} {edited}"),
        &[(side * side * 3) as usize],
    )
    .data;
    let image = image::RgbImage::from_fn(side, side, |x, y| {
        let at = ((y * side + x) * 3) as usize;
        let phase = index as f32 + if edited { 0.4 } else { 0.0 };
        image::Rgb([0, 1, 2].map(|c| {
            let wave = (x as f32 * 0.03 + phase).sin() * (y as f32 * 0.02 * (c + 1) as f32).cos();
            (128.0 + 90.0 * wave + 6.0 * noise[at + c as usize]) as u8
        }))
    });
    image.save(path).expect("a place to write");
}

/// A folder with `a` and `b`, of so many images each.
pub fn folder(pairs: usize, side: u32) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a place to write");
    for (name, edited) in [("a", false), ("b", true)] {
        let inside = folder.path().join(name);
        std::fs::create_dir(&inside).expect("a place to write");
        for index in 0..pairs {
            write_image(&inside.join(format!("{index:02}.png")), side, index, edited);
        }
    }
    folder
}

/// All scores of such a folder.
pub fn score<B: MetricBackend + 'static>(
    b: &B,
    folder: &Path,
    registry: &Registry,
    settings: &Settings,
) {
    let mut pairing = images::pair_folders(&folder.join("a"), &folder.join("b")).expect("pairs");
    score::order(&mut pairing);
    let pairs = pairing.pairs.len();
    let inputs = Inputs {
        pairing,
        classifier: None,
        oracles: Vec::new(),
        labels: Labels::default(),
        source: None,
        target: None,
        reference: None,
    };
    let journal = tempfile::tempdir().expect("a place to write");
    let place = Place {
        journal: journal.path(),
        resume: false,
        maps: None,
    };
    let outcome = score::score(b, registry, inputs, settings, place, &mut |_, _, _| {});
    assert_eq!(outcome.expect("scores").pairs.len(), pairs);
}
