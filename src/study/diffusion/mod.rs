//! The study of [diffusion-vce]: counterfactuals by guided diffusion for several classifiers, in four setups (with and
//! without cone projection and x0-prediction), for groups of source and target classes; scored as they are made.
//!
//! A run is one classifier in one setup. Its images, their records and the rows of its groups are files of their own, so
//! that a study can be interrupted anywhere and split over machines that share a folder: what a file holds depends on the
//! configuration alone. When all rows are there, `raw.csv`, the tables and the gallery are made of them.

mod check;
pub mod config;
mod error;
mod gallery;
pub mod groups;
pub mod rows;
mod scoring;
mod tables;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub use config::{CARDS, Config, SHIPPED};
pub use error::StudyError;

use crate::diffusion::{Cone, Guidance, X0};
use crate::explain::diffusion::{
    self, Batch, Cards, Made, Method, Networks, Place, Plan, Progress, Task, Watch, parse_distance,
};
use crate::folder::{Lock, is_filled, make, read_own, write_whole};
use crate::score::Labels;
use crate::study::tables::{SETTINGS_FILE, STUDY_FILE};
use crate::tensor::WithGradients;
use crate::weights::{Registry, sha256};
use config::{Named, Setup, WithoutX0};
use error::Result;
use groups::Group;
use rows::Row;
use scoring::Finished;

/// Files of a study beside its images and rows.
pub const RAW: &str = STUDY_FILE;
pub const TABLES: &str = "tables.txt";
pub const GALLERY: &str = "gallery.png";
const IDENTITY: &str = "study.json";
const MAKER: &str = "foil study";

/// What hears of a study as it goes.
pub trait Listener {
    /// A run begins: its name, its number from 1, and of how many.
    fn run(&mut self, name: &str, number: usize, all: usize);
    fn progress(&mut self, progress: Progress);
    fn scoring(&mut self, what: &str, done: usize, total: usize);
    fn note(&mut self, note: &str);
}

/// Where a study stands after a call.
pub struct Outcome {
    /// Rows that are there, of all.
    pub rows: usize,
    pub all_rows: usize,
    /// Images that are in no row, because the diffusion gave no numbers for them; a line for each group.
    pub lost: Vec<String>,
    /// The tables, once all rows are there.
    pub tables: Option<String>,
}

/// A study in a folder.
pub struct Study<'a> {
    config: &'a Config,
    out: &'a Path,
    originals: Vec<Vec<groups::Original>>,
    /// What the networks are, by the names that the configuration has for their cards: see [`diffusion::named`].
    networks: BTreeMap<String, [String; 3]>,
    device: &'a WithGradients,
    /// The folder is this process's, or that of the parts of one study.
    _lock: Lock,
}

impl<'a> Study<'a> {
    /// Prepares the folder, once everything that can be wrong with the configuration is looked at and every network was opened.
    /// One that holds another study is refused, and so is one that holds files, unless `resume`, or this study and a `part` of it is
    /// to be done: parts share a folder. A second process at work in it is refused, but for other parts.
    pub fn open(
        config: &'a Config,
        registry: &Registry,
        device: &'a WithGradients,
        out: &'a Path,
        resume: bool,
        part: Option<(usize, usize)>,
    ) -> Result<Self> {
        check::check(config, registry)?;
        let refuse = || {
            // Of this order: the first thing that a part writes is what the study is.
            let filled = is_filled(out);
            let known = (resume || part.is_some()) && out.join(IDENTITY).exists();
            match filled && !known {
                true => Err(StudyError::Filled { path: out.into() }),
                false => Ok(()),
            }
        };
        refuse()?;
        let mut networks = BTreeMap::new();
        for name in check::networks(config) {
            let card = config.card(registry, name)?;
            let sha256 = registry.load(&card)?.sha256;
            networks.insert(name.to_owned(), diffusion::named(&card, &sha256));
        }
        check::open(config, registry, device)?;
        let part = part.map(|(i, n)| format!("{i}of{n}"));
        let lock = Lock::take(out, part.as_deref(), MAKER)?;
        // Another process may have been at work there since it was looked at.
        refuse()?;
        let identity = serde_json::json!({ "maker": MAKER, "study": config });
        let path = out.join(IDENTITY);
        let ours = |said: &serde_json::Value| said["maker"] == MAKER;
        match read_own(&path, MAKER, ours)? {
            Some(said) if said != identity => {
                return Err(StudyError::file(
                    &path,
                    "the folder holds another study: give the same configuration, or another --out",
                ));
            }
            Some(_) => {}
            None => {
                make(out)?;
                let mut text = serde_json::to_string_pretty(&identity).unwrap_or_default();
                text.push('\n');
                write_whole(&path, text.as_bytes())?;
            }
        }
        let originals = groups::originals(config, &out.join("originals"))?;
        Ok(Self {
            config,
            out,
            originals,
            networks,
            device,
            _lock: lock,
        })
    }

    /// Makes and scores what is not there yet of the i-th of n parts; then the tables, if nothing is missing.
    pub fn run(
        &self,
        registry: &Registry,
        (part, parts): (usize, usize),
        listener: &mut dyn Listener,
    ) -> Result<Outcome> {
        let groups = groups::groups(self.config, &self.originals);
        let runs = self.runs();
        // Rows of all parts are looked at before any work: they must have been made from the same.
        let mut todo: Vec<Vec<Group<'_>>> = Vec::new();
        for (number, &(classifier, setup)) in runs.iter().enumerate() {
            let mut open = Vec::new();
            for (at, group) in groups.iter().enumerate() {
                let mine = (number * groups.len() + at) % parts == part - 1;
                if self.row(classifier, setup, group)?.is_none() && mine {
                    open.push(*group);
                }
            }
            todo.push(open);
        }
        let mut short = Vec::new();
        for (number, (&(classifier, setup), open)) in runs.iter().zip(&todo).enumerate() {
            if open.is_empty() {
                continue;
            }
            let name = format!("{} with {}", classifier.name, setup.name());
            listener.run(&name, number + 1, runs.len());
            let finished = self
                .generate(registry, classifier, setup, open, listener)
                .map_err(|source| StudyError::Generate {
                    run: name.clone(),
                    source: Box::new(source),
                })?;
            // A group of fewer images has no scores: the rest of the study does not wait for it.
            let (finished, few): (Vec<_>, Vec<_>) =
                { finished.into_iter() }.partition(|one| one.made.len() >= config::LEAST);
            for one in &few {
                short.push(format!(
                    "{name}, group {}: no row, {} of {} images {}, and scores need {}",
                    one.group.folder(),
                    one.lost.len(),
                    one.group.originals.len(),
                    diffusion::NO_NUMBERS,
                    config::LEAST,
                ));
            }
            if finished.is_empty() {
                continue;
            }
            let rows = scoring::rows(
                self.config,
                registry,
                self.device,
                classifier,
                setup,
                &finished,
                &mut |what, done, total| listener.scoring(what, done, total),
            )?;
            for (row, one) in rows.iter().zip(&finished) {
                row.write(&self.row_path(classifier, setup, &one.group))?;
            }
        }
        let mut outcome = self.collect(&groups)?;
        outcome.lost.extend(short);
        Ok(outcome)
    }

    /// Classifiers × setups.
    fn runs(&self) -> Vec<(&'a Named, Setup)> {
        let classifiers = self.config.classifiers.iter();
        classifiers
            .flat_map(|c| self.config.setups.iter().map(move |&s| (c, s)))
            .collect()
    }

    fn images(&self, classifier: &Named, setup: Setup) -> PathBuf {
        let images = self.out.join("images");
        images.join(&classifier.name).join(setup.name())
    }

    fn row_path(&self, classifier: &Named, setup: Setup, group: &Group<'_>) -> PathBuf {
        let rows = self.out.join("rows").join(&classifier.name);
        rows.join(setup.name())
            .join(format!("{}.json", group.folder()))
    }

    fn row(&self, classifier: &Named, setup: Setup, group: &Group<'_>) -> Result<Option<Row>> {
        let made_from = self.made_from(classifier, setup, group);
        let expected = Row::new(&classifier.name, setup, group, made_from);
        Row::read(&self.row_path(classifier, setup, group), &expected)
    }

    /// A checksum of what the row of a group depends on.
    fn made_from(&self, classifier: &Named, setup: Setup, group: &Group<'_>) -> String {
        let config = self.config;
        let robust = setup.cone_projection.then_some(&config.robust);
        let network = |name: &String| self.networks.get(name);
        let judges: Vec<_> = scoring::judges(config)
            .map(|n| (&n.name, network(&n.card)))
            .collect();
        let originals: Vec<_> = { group.originals.iter() }
            .map(|o| (&o.name, &o.sha256))
            .collect();
        let all = serde_json::json!({
            "generation": config.generation,
            "setup": setup,
            "denoiser": network(&config.denoiser),
            "classifier": network(&classifier.card),
            "robust": robust.map(network),
            "judges": judges,
            "labels": [group.source.label(), group.target.label()],
            "scores": config.scores,
            "originals": originals,
            "arithmetic": self.device.arithmetic(),
            "version": env!("CARGO_PKG_VERSION"),
        });
        sha256(all.to_string().as_bytes())
    }

    fn plan(&self, setup: Setup) -> std::result::Result<Plan, String> {
        let g = &self.config.generation;
        Ok(Plan {
            method: Method::Guided(Guidance {
                x0: match (setup.xzero_prediction, g.without_x0) {
                    (true, _) => X0::ThroughUnet,
                    (false, WithoutX0::AtX0) => X0::AtX0,
                    (false, WithoutX0::Off) => X0::Off,
                },
                cone: setup.cone_projection.then_some(Cone {
                    degrees: g.cone,
                    rule: g.cone_rule,
                }),
                scale: g.scale,
                distance: parse_distance(&g.distance).map_err(|e| format!("distance {e}"))?,
                ..Guidance::default()
            }),
            steps: g.steps.clone(),
            skip: g.skip,
            sampler: g.sampler,
            samples: 1,
            seed: g.seed,
            noise: None,
            reject: false,
            batch: Batch::Images(g.batch),
        })
    }

    fn generate<'g>(
        &self,
        registry: &Registry,
        classifier: &Named,
        setup: Setup,
        groups: &[Group<'g>],
        listener: &mut dyn Listener,
    ) -> diffusion::Result<Vec<Finished<'g>>> {
        let wrong = |what: String| diffusion::GenerateError::Network {
            name: classifier.name.clone(),
            what,
        };
        let plan = self.plan(setup).map_err(wrong)?;
        let [unet, explained, robust] =
            [&self.config.denoiser, &classifier.card, &self.config.robust]
                .map(|name| self.config.card_name(name));
        let cards = Cards {
            unet: &unet,
            classifier: &explained,
            robust: setup.cone_projection.then_some(&robust),
            perceptual: plan.method.perceptual(),
            checkpointing: self.config.generation.checkpointing,
            precision: self.config.generation.precision,
        };
        let networks = Networks::open(registry, &cards, self.device)?;
        let labels = Labels::new(networks.labels.clone());
        let out = self.images(classifier, setup);
        let mut tasks = Vec::new();
        for group in groups {
            let target = labels.resolve(&group.target.label(), None).map_err(wrong)?;
            labels.resolve(&group.source.label(), None).map_err(wrong)?;
            for original in group.originals {
                tasks.push(Task {
                    original: original.path.clone(),
                    name: group.result(original),
                    noise: original.name.clone(),
                    target,
                    index: tasks.len(),
                });
            }
        }
        let mut watch = Relay {
            listener,
            made: Vec::new(),
        };
        let lost = diffusion::prepare(&plan, &networks, &tasks, &out)?.run_all(&mut watch)?;
        let lost: Vec<PathBuf> = { lost.iter() }
            .map(|task| Place::new(&out, &task.name, 0, 1).image)
            .collect();
        let mut made: BTreeMap<PathBuf, Made> = { watch.made.into_iter() }
            .map(|made| (made.at.image.clone(), made))
            .collect();
        let mut finished = Vec::new();
        for group in groups {
            let (mut own, mut without) = (Vec::new(), BTreeMap::new());
            for original in group.originals {
                let place = Place::new(&out, &group.result(original), 0, 1);
                if lost.contains(&place.image) {
                    let what = format!("its diffusion {}", diffusion::NO_NUMBERS);
                    without.insert(original.name.clone(), what);
                    continue;
                }
                own.push(made.remove(&place.image).ok_or_else(|| {
                    let path = place.image.clone();
                    let what = "it was not made".into();
                    diffusion::GenerateError::File { path, what }
                })?);
            }
            finished.push(Finished {
                group: *group,
                made: own,
                lost: without,
                made_from: self.made_from(classifier, setup, group),
            });
        }
        Ok(finished)
    }

    /// The CSV, the tables and the gallery, if all rows are there.
    fn collect(&self, groups: &[Group<'_>]) -> Result<Outcome> {
        let runs = self.runs();
        let all_rows = runs.len() * groups.len();
        let mut rows = Vec::new();
        for &(classifier, setup) in &runs {
            for group in groups {
                rows.extend(self.row(classifier, setup, group)?);
            }
        }
        let without = rows.iter().filter(|row| !row.lost.is_empty());
        let lost = without.map(|row| {
            let names: Vec<&str> = row.lost.keys().map(String::as_str).collect();
            format!(
                "{}: without {}, whose diffusion {}",
                row.group.join(", "),
                names.join(", "),
                diffusion::NO_NUMBERS
            )
        });
        let mut outcome = Outcome {
            rows: rows.len(),
            all_rows,
            lost: lost.collect(),
            tables: None,
        };
        if rows.len() < all_rows {
            return Ok(outcome);
        }
        let names: Vec<String> = scoring::judges(self.config)
            .map(|n| n.name.clone())
            .collect();
        let raw = self.out.join(RAW);
        let text = rows::csv(&rows, &names, self.config.scores.protocol())
            .map_err(|e| StudyError::file(&raw, e))?;
        write_whole(&raw, &text)?;
        let settings = tables::settings(self.config);
        write_whole(&self.out.join(SETTINGS_FILE), settings.as_bytes())?;
        let tables = tables::print(self.config, self.out)?;
        write_whole(&self.out.join(TABLES), tables.as_bytes())?;
        let picture = gallery::draw(
            self.config,
            groups,
            |classifier, setup, group| self.row(classifier, setup, group),
            |classifier, setup, group, original| {
                let images = self.images(classifier, setup);
                Place::new(&images, &group.result(original), 0, 1).image
            },
        )?;
        let path = self.out.join(GALLERY);
        let mut bytes = Vec::new();
        picture
            .write_to(
                &mut std::io::Cursor::new(&mut bytes),
                image::ImageFormat::Png,
            )
            .map_err(|e| StudyError::file(&path, format!("cannot write: {e}")))?;
        write_whole(&path, &bytes)?;
        outcome.tables = Some(tables);
        Ok(outcome)
    }
}

/// Passes on what a generation tells, and keeps what it made.
struct Relay<'a> {
    listener: &'a mut dyn Listener,
    made: Vec<Made>,
}

impl Watch for Relay<'_> {
    fn progress(&mut self, progress: Progress) {
        self.listener.progress(progress);
    }

    fn made(&mut self, made: &Made) {
        if let Some(note) = made.note() {
            self.listener.note(&note);
        }
        self.made.push(made.clone());
    }
}
