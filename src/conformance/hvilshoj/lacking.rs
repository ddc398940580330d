//! What cannot be run for want of a file: such cases are named as absent, all others that were not run stay unknown.

use std::collections::BTreeMap;

use super::super::Result;
use super::super::check::Check;
use super::super::folder::Folder;
use super::LAYOUT;
use super::data::CONFIGS;

/// Goes through all that was not read and puts aside what stands on an absent file.
pub fn put_aside(folder: &Folder, check: &mut Check) -> Result<()> {
    let mut aside: BTreeMap<(&str, String), usize> = BTreeMap::new();
    for file in [
        "published_results.json",
        "reproduction.json",
        "own_model_results.json",
    ] {
        let Some(json) = folder.json(file)? else {
            continue;
        };
        if file == "own_model_results.json" {
            json.root().skip_fields(&["note", "models"]);
        }
        for leaf in json.root().unread_leaves() {
            let place = leaf.path().trim_start_matches("configs.");
            if let Some(lacking) = first_absent(folder, &needs(place)) {
                leaf.skip();
                *aside.entry((file, lacking)).or_default() += 1;
            }
        }
    }
    let of_samples = ["per_sample_metrics", "own_model_outputs_first256"];
    let of_data = ["mnist", "fakemnist"].map(|data| {
        let [labels, first] = ["labels", "images_first128"];
        [format!("{data}_{labels}"), format!("{data}_{first}")]
    });
    let names = of_samples.map(str::to_owned).into_iter();
    for stem in names.chain(of_data.into_iter().flatten()) {
        let file = format!("{stem}.safetensors");
        let Some(known) = LAYOUT.files.iter().find(|f| **f == file) else {
            continue;
        };
        let Some(tensors) = folder.tensors(&file)? else {
            continue;
        };
        for name in tensors.unread() {
            let needed = match stem.split_once('_') {
                Some((data @ ("mnist" | "fakemnist"), _)) => {
                    let mut needed = of_set(data);
                    needed.extend(name.split('.').next().and_then(|m| sheet(data, m)));
                    needed
                }
                _ => needs(&name),
            };
            if let Some(lacking) = first_absent(folder, &needed) {
                tensors.skip(&name);
                *aside.entry((known, lacking)).or_default() += 1;
            }
        }
    }
    for ((file, lacking), count) in aside {
        check.absent(format!(
            "{file}: {count} values that need {lacking}, which is absent"
        ));
    }
    Ok(())
}

/// The first of these files that is not there.
pub fn first_absent(folder: &Folder, files: &[String]) -> Option<String> {
    files.iter().find(|file| !folder.holds(file)).cloned()
}

/// Files without which there is no data set.
fn of_set(data: &str) -> Vec<String> {
    vec![
        format!("{data}_labels.safetensors"),
        format!("{data}_real_images.png"),
    ]
}

/// The sheet of a method of this layout.
fn sheet(data: &str, method: &str) -> Option<String> {
    let file = format!("{data}_{}_images.png", method.to_lowercase());
    LAYOUT.files.contains(&file.as_str()).then_some(file)
}

/// The files that a value stands on, by its place: `CONFIG.METHOD.metric` in any order after the configuration. None for
/// places that this layout does not know.
pub fn needs(place: &str) -> Vec<String> {
    let mut parts = place.split('.');
    let name = parts.next().unwrap_or_default();
    let Some(config) = CONFIGS.iter().find(|c| c.name == name) else {
        return Vec::new();
    };
    let mut files = of_set(config.data);
    let model = |name: &str| format!("own_model_{name}.safetensors");
    for part in parts {
        files.extend(sheet(config.data, part));
        let plain = part.split("_first").next().unwrap_or(part);
        let lower = part.to_lowercase();
        if lower.starts_with("im1") || lower.starts_with("im2") {
            files.push(format!("autoencoders_{name}.safetensors"));
        } else if ["Oracle", "FID256", "top1_probability_mean_over_kept"].contains(&plain) {
            files.extend(config.models.first().map(|m| model(m)));
        } else if config.models.contains(&plain) {
            files.push(model(plain));
        }
    }
    files
}
