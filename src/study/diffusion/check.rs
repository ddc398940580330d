//! What can be wrong with a configuration besides its words: said before hours of work, and before a folder is touched.

use super::config::Config;
use super::error::Result;
use super::scoring::judges;
use crate::diffusion::spaced;
use crate::explain::diffusion::{parse_distance, without_gradients};
use crate::score::Labels;
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
