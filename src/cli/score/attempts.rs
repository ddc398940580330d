//! A scoring run, and what is left of it after its device was lost: the device is opened again, the rest goes in smaller
//! batches, and what was computed is read from the journal.

use std::path::Path;

use super::{MapFolder, ScoreArgs};
use crate::cli::progress::Bar;
use crate::cli::{UsageError, say};
use crate::images::Pairing;
use crate::score::{
    self, Inputs, Losses, MAPS, Maps, Outcome, PAIRS, Place, PlanError, REFERENCES, ScoreError,
    Settings,
};
use crate::tensor::{Device, Opened};
use crate::weights::Registry;

/// What a run scores, and where it keeps what it found.
pub(super) struct Run<'a> {
    pub args: &'a ScoreArgs,
    pub registry: &'a Registry,
    pub pairing: &'a Pairing,
    pub journal: &'a Path,
}

impl Run<'_> {
    /// Networks belong to the device they were built on, so every attempt reads them.
    fn inputs(&self) -> anyhow::Result<Inputs> {
        let (classifier, oracles, labels) = self.args.judges(self.registry, self.pairing)?;
        Ok(Inputs {
            pairing: self.pairing.clone(),
            classifier,
            oracles,
            labels,
            source: self.args.source.clone(),
            target: self.args.target.clone(),
            reference: self.args.reference.clone(),
        })
    }

    /// Scores all pairs on a device, which may be lost on the way.
    pub fn score(
        &self,
        (device, mut opened): (Device, Opened),
        settings: &Settings,
        mut maps: Option<&mut MapFolder>,
    ) -> anyhow::Result<Outcome> {
        let mut settings = settings.clone();
        let mut losses = Losses::new(settings.batch);
        loop {
            let place = Place {
                journal: self.journal,
                resume: self.args.resume || losses.kept(),
                maps: maps.as_deref_mut().map(|maps| maps as Maps<'_>),
            };
            let mut bar = Bar::new(self.args.quiet);
            let mut progress = |what: &str, done, total| {
                if [PAIRS, REFERENCES, MAPS].contains(&what) {
                    losses.advance();
                }
                bar.update(what, done, total);
            };
            let (inputs, registry, progress) = (self.inputs()?, self.registry, &mut progress);
            let found = match &opened {
                Opened::Cpu(b) => score::score(b, registry, inputs, &settings, place, progress),
                Opened::Gpu(b) => score::score(b, registry, inputs, &settings, place, progress),
            };
            bar.finish();
            let error = match found {
                Ok(outcome) => return Ok(outcome),
                Err(error) => error,
            };
            let next = match error.is_lost_device() {
                true => losses.next_batch(),
                false => None,
            };
            let Some(batch) = next else {
                return Err(match error {
                    ScoreError::Usage(why) => UsageError(why).into(),
                    ScoreError::Plan(PlanError::Option { .. }) => {
                        UsageError(error.to_string()).into()
                    }
                    other => other.into(),
                });
            };
            drop(opened);
            let again = device.open(self.args.precision);
            opened = again
                .map_err(|e| anyhow::Error::from(e).context(error.to_string()))?
                .1;
            if !self.args.quiet {
                say(&format!(
                    "{device} was lost and is opened again; what was computed is kept, the rest goes in batches of {batch}"
                ));
            }
            settings.batch = batch;
        }
    }
}
