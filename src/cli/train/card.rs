//! Files of a trained network: its weights and its model card.

use anyhow::{Context, Result};

use super::{Finished, Task};
use crate::shell;
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
pub fn write(task: &Task<'_>, finished: &Finished) -> Result<String> {
    let args = task.args;
    let precision = if args.half {
        train::Precision::Half
    } else {
        train::Precision::Single
    };
    train::write_weights(&args.out, &finished.dict, precision)?;
    let bytes = std::fs::read(&args.out).with_context(|| args.out.display().to_string())?;
    let sha = sha256(&bytes);
    let text = |part: Option<&std::ffi::OsStr>| {
        quoted(&part.map_or_else(String::new, |s| s.to_string_lossy().into_owned()))
    };
    let labels = match finished.labels.is_empty() {
        true => String::new(),
        false => format!("labels = {:?}\n", finished.labels),
    };
    let (name, file) = (text(args.out.file_stem()), text(args.out.file_name()));
    let origin = quoted(&format!("foil train {}", task.what));
    let notes = quoted(&results(&finished.found));
    let size = task.data.size;
    let card = format!(
        "name = {name}\narchitecture = \"{}\"\nfile = {file}\nsha256 = \"{sha}\"\n{labels}{}\
         licence = \"MIT OR Apache-2.0\"\norigin = {origin}\nnotes = {notes}\n\n\
         [preprocessing]\nresize = {{ size = [{size}, {size}] }}\ncrop = \"none\"\n\
         {}\n\n{}",
        finished.architecture,
        finished.further,
        normalised(finished),
        training(task, finished),
    );
    let path = args.out.with_extension("toml");
    std::fs::write(&path, card).with_context(|| path.display().to_string())?;
    Ok(sha)
}

/// Channels, and mean and deviation that bring pixels from 0..1 into the range of the network.
fn normalised(finished: &Finished) -> String {
    let [low, high] = finished.range;
    let (mean, std) = (-low / (high - low), 1.0 / (high - low));
    let channels = if finished.grey {
        "channels = \"grey\"\n"
    } else {
        ""
    };
    format!("{channels}mean = [{mean:?}, {mean:?}, {mean:?}]\nstd = [{std:?}, {std:?}, {std:?}]")
}

/// The card's table of how the network was made.
fn training(task: &Task<'_>, finished: &Finished) -> String {
    let mut table = format!(
        "[training]\ncommand = {}\ndata = {}\ndata_sha256 = \"{}\"\nimages = {}\nseed = {}\nsteps = {}\n\
         threads = {}\nseconds = {:.1}\ncpu_seconds = {:.1}\n",
        quoted(&command(std::env::args_os())),
        quoted(&task.data.description),
        task.data.sha256,
        task.items.len(),
        task.args.seed,
        task.steps,
        rayon::current_num_threads(),
        finished.cost.seconds,
        finished.cost.cpu_seconds,
    );
    if !finished.found.is_empty() {
        table.push_str("\n[training.results]\n");
        for (name, value) in &finished.found {
            table.push_str(&format!("{} = {value:.4}\n", quoted(name)));
        }
    }
    table
}

/// Strings of JSON are strings of TOML.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The command line as one would type it in a shell, without the place of the program.
fn command(args: impl Iterator<Item = std::ffi::OsString>) -> String {
    let words = args.skip(1).map(|arg| shell::word(&arg.to_string_lossy()));
    ["foil".to_owned()]
        .into_iter()
        .chain(words)
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::command;

    #[test]
    fn a_command_is_written_as_a_shell_takes_it() {
        let args = [
            "/usr/bin/foil",
            "train",
            "--out",
            "my nets/a.safetensors",
            "it's",
        ];
        let args = args.into_iter().map(Into::into);
        assert_eq!(
            command(args),
            r"foil train --out 'my nets/a.safetensors' 'it'\''s'"
        );
    }
}
