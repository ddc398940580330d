//! Scores two folders from Rust: `cargo run --release --example score_folder -- ORIGINALS COUNTERFACTUALS`.

use std::path::Path;

use foil::images::pair_folders;
use foil::score::{Inputs, Labels, Place, Settings, order, score};
use foil::tensor::cpu::Cpu;
use foil::weights::Registry;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut folders = std::env::args().skip(1);
    let (Some(originals), Some(counterfactuals)) = (folders.next(), folders.next()) else {
        return Err("give a folder of originals and a folder of counterfactuals".into());
    };
    let mut pairing = pair_folders(Path::new(&originals), Path::new(&counterfactuals))?;
    order(&mut pairing);
    let inputs = Inputs {
        pairing,
        classifier: None,
        oracles: Vec::new(),
        labels: Labels::default(),
        source: None,
        target: None,
        reference: None,
    };
    let journal = tempfile::tempdir()?;
    let place = Place {
        journal: journal.path(),
        resume: false,
        maps: None,
    };
    let registry = Registry::open()?;
    let outcome = score(
        &Cpu,
        &registry,
        inputs,
        &Settings::default(),
        place,
        &mut |_, _, _| {},
    )?;
    for (name, score) in &outcome.scores.groups[0].scores {
        println!("{name}: {:?} (n = {})", score.value, score.n);
    }
    Ok(())
}
