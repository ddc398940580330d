//! A picture of the study: the first original of every group (of those that have a counterfactual) with its counterfactual and their difference, for every
//! classifier in the base setup, then for one classifier in the other setups. Nothing is picked by hand.

use std::path::Path;

use image::RgbImage;

use super::config::{Config, Named, Setup};
use super::error::{Result, StudyError};
use super::groups::{Group, Original};
use super::rows::Row;
use crate::glyphs::Atlas;
use crate::images::{self, Limits};
use crate::report::contact_sheet::{self, Section, Triple};

/// Triples side by side, and at most in a section.
const COLUMNS: usize = 4;
const SHOWN: usize = 12;

struct Shown {
    original: RgbImage,
    counterfactual: RgbImage,
    verdict: String,
}

/// Draws the picture. `row` finds the results of a group, `image` the counterfactual of one of its originals.
pub fn draw(
    config: &Config,
    groups: &[Group<'_>],
    row: impl Fn(&Named, Setup, &Group<'_>) -> Result<Option<Row>>,
    image: impl Fn(&Named, Setup, &Group<'_>, &Original) -> std::path::PathBuf,
) -> Result<RgbImage> {
    let Some((&base, others)) = config.setups.split_first() else {
        return Ok(RgbImage::new(1, 1));
    };
    let named = config.classifiers.iter().map(|c| (c, base));
    // The robust classifier is its own projector: without the cone nothing changes.
    let other = config.classifiers.iter().find(|c| c.card != config.robust);
    let ablated = { other.or(config.classifiers.first()) }
        .into_iter()
        .flat_map(|one| others.iter().map(move |&setup| (one, setup)));
    let mut parts: Vec<(String, Vec<Shown>)> = Vec::new();
    for (classifier, setup) in named.chain(ablated) {
        let mut shown = Vec::new();
        for group in groups.iter().take(SHOWN) {
            let found = row(classifier, setup, group)?;
            let lost = |o: &Original| found.as_ref().is_some_and(|r| r.lost.contains_key(&o.name));
            let Some(first) = group.originals.iter().find(|o| !lost(o)) else {
                continue;
            };
            let verdict = found.and_then(|row| row.verdicts.get(&first.name).cloned());
            shown.push(Shown {
                original: read(&first.path)?,
                counterfactual: read(&image(classifier, setup, group, first))?,
                verdict: verdict.unwrap_or_default(),
            });
        }
        parts.push((title(classifier, setup), shown));
    }
    let sections: Vec<Section<'_>> = parts
        .iter()
        .map(|(title, shown)| Section {
            title: title.clone(),
            triples: shown.iter().map(triple).collect(),
        })
        .collect();
    Ok(contact_sheet::draw(&Atlas::embedded()?, &sections, COLUMNS))
}

/// The typeface of captions has small letters only.
fn title(classifier: &Named, setup: Setup) -> String {
    let name = classifier.name.to_lowercase();
    match (setup.cone_projection, setup.xzero_prediction) {
        (true, true) => name,
        (false, true) => format!("{name} without cone projection"),
        (true, false) => format!("{name} without x zero prediction"),
        (false, false) => format!("{name} without both"),
    }
}

fn triple(shown: &Shown) -> Triple<'_> {
    Triple {
        original: &shown.original,
        counterfactual: &shown.counterfactual,
        caption: shown.verdict.clone(),
        colour: match shown.verdict.as_str() {
            "counterfactual" => [25, 120, 65],
            "adversarial" => [185, 40, 40],
            _ => [120, 120, 125],
        },
    }
}

fn read(path: &Path) -> Result<RgbImage> {
    let image = images::read(path, &Limits::default())?;
    RgbImage::from_raw(image.width as u32, image.height as u32, image.pixels)
        .ok_or_else(|| StudyError::file(path, "an image of another size than it says"))
}
