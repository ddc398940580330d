//! What can be wrong with a configuration besides its words: said before hours of work, and before a folder is touched.

use super::config::Config;
use std::collections::BTreeSet;

use super::error::{Result, StudyError};
use super::scoring::judges;
use crate::diffusion::spaced;
use crate::explain::diffusion::{self, parse_distance, without_gradients};
use crate::score::Labels;
use crate::tensor::WithGradients;
use crate::weights::{Registry, Role};

/// Names that the configuration has for the cards of all its networks.
pub fn networks(config: &Config) -> impl Iterator<Item = &str> {
    let judges = judges(config).map(|n| &n.card);
    let all = judges.chain([&config.denoiser, &config.robust]);
    all.map(String::as_str)
}

/// Refuses what could not be run to its end.
pub fn check(config: &Config, registry: &Registry) -> Result<()> {
    let g = &config.generation;
    parse_distance(&g.distance).map_err(|e| config.wrong(format!("generation: distance {e}")))?;
    for name in networks(config) {
        if let Some(why) = without_gradients(name) {
            return Err(config.wrong(format!("{name}: {why}")));
        }
        let card = config
            .card(registry, name)
            .map_err(|e| config.wrong(format!("{name}: {e}")))?;
        if registry.find(&card)?.is_none() && card.hub.is_none() {
            registry.get(&card)?;
        }
    }
    let denoiser = config.card(registry, &config.denoiser)?;
    let (Role::Denoiser, Some(diffusion)) = (denoiser.role, denoiser.diffusion) else {
        return Err(config.wrong(format!("denoiser {}: not a denoiser", config.denoiser)));
    };
    let kept = spaced(diffusion.steps, &g.steps)
        .map_err(|e| config.wrong(format!("generation: steps: {e}")))?
        .len();
    if g.skip >= kept {
        let what = format!("generation: skip {} of {kept} steps: none is left", g.skip);
        return Err(config.wrong(what));
    }
    for named in judges(config) {
        let card = config.card(registry, &named.card)?;
        if card.role != Role::Classifier {
            let what = format!("{}: {} is not a classifier", named.name, named.card);
            return Err(config.wrong(what));
        }
        let labels = Labels::new(card.labels);
        let sources = config.sources.iter().map(|s| s.label());
        for label in sources.chain(config.targets.iter().map(|t| t.label())) {
            labels
                .resolve(&label, None)
                .map_err(|e| config.wrong(format!("{}: {e}", named.name)))?;
        }
    }
    Ok(())
}

/// Opens every network once, as the runs and the scores will: schedules of noise, channels, weights and classes that do not fit are
/// met now. One after the other, so that no more than two are in memory.
pub fn open(config: &Config, registry: &Registry, device: &WithGradients) -> Result<()> {
    let path = |name: &String| config.card_name(name);
    let classifiers: BTreeSet<String> = config.classifiers.iter().map(|n| path(&n.card)).collect();
    let robust = { config.setups.iter() }
        .any(|setup| setup.cone_projection)
        .then(|| path(&config.robust));
    let judges: BTreeSet<String> = config.oracles.iter().map(|n| path(&n.card)).collect();
    let judges = judges.difference(&classifiers).map(String::as_str);
    diffusion::check(
        registry,
        &path(&config.denoiser),
        &classifiers.iter().map(String::as_str).collect::<Vec<_>>(),
        robust.as_deref(),
        &judges.collect::<Vec<_>>(),
        device,
    )
    .map_err(|source| StudyError::Generate {
        run: "before the first run".into(),
        source: Box::new(source),
    })
}
