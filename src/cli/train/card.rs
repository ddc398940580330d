//! Files of a trained network: its weights and its model card.

use anyhow::{Context, Result};

use super::{Finished, Task};
use crate::train;
use crate::weights::sha256;

/// What was measured, in words.
pub fn results(found: &[(String, f64)]) -> String {
    let each = found
        .iter()
        .map(|(name, value)| format!("{name} {value:.4}"));
    each.collect::<Vec<_>>().join(", ")
}

/// Writes weights and card; the checksum of the weights.
pub fn write(task: &Task<'_>, finished: &Finished, seconds: f64) -> Result<String> {
    let args = task.args;
    let precision = if args.half {
        train::Precision::Half
    } else {
        train::Precision::Single
    };
    train::write_weights(&args.out, &finished.dict, precision)?;
    let bytes = std::fs::read(&args.out).with_context(|| args.out.display().to_string())?;
    let sha = sha256(&bytes);
    // Strings of JSON are strings of TOML.
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let text = |part: Option<&std::ffi::OsStr>| {
        quoted(&part.map_or_else(String::new, |s| s.to_string_lossy().into_owned()))
    };
    let labels = match finished.labels.is_empty() {
        true => String::new(),
        false => format!("labels = {:?}\n", finished.labels),
    };
    let origin = format!(
        "foil train {}: {} images, {} steps of {}, seed {}, {seconds:.0} s on {} threads",
        task.what,
        task.items.len(),
        task.steps,
        args.batch,
        args.seed,
        rayon::current_num_threads(),
    );
    let (name, file) = (text(args.out.file_stem()), text(args.out.file_name()));
    let (origin, notes) = (quoted(&origin), quoted(&results(&finished.found)));
    let size = task.data.size;
    let card = format!(
        "name = {name}\narchitecture = \"{}\"\nfile = {file}\nsha256 = \"{sha}\"\n{labels}{}\
         licence = \"MIT OR Apache-2.0\"\norigin = {origin}\nnotes = {notes}\n\n\
         [preprocessing]\nresize = {{ size = [{size}, {size}] }}\ncrop = \"none\"\n\
         mean = [0.5, 0.5, 0.5]\nstd = [0.5, 0.5, 0.5]\n",
        finished.architecture, finished.further,
    );
    let path = args.out.with_extension("toml");
    std::fs::write(&path, card).with_context(|| path.display().to_string())?;
    Ok(sha)
}
