//! The package's explainers step by step on the small world, with the random numbers it drew.
//!
//! Which explainer a trace is of is the beginning of its name (`xgem`, `dive`, `dice`, `lcf`, `stylex`, `is`, `gs`); `_5it` says how many
//! iterations it had. Two traces are chaotic, as the data's page says (`dice` of more than ten iterations and `lcf_hard`): of these the first losses
//! are compared, and then how far latents moved on average.

use super::super::check::{Check, Tolerance};
use super::super::error::Of;
use super::super::folder::Folder;
use super::super::json::Node;
use super::super::tensors::Tensors;
use super::super::{ConformanceError, Result};
use super::released_world::ReleasedWorld;
use super::{latent, latents, logits, spheres, wide};
use crate::explain::latent::dice::Dice;
use crate::explain::latent::dive::{Dive, Mask, Xgem};
use crate::explain::latent::informed::Informed;
use crate::explain::latent::latent_cf::LatentCf;
use crate::explain::latent::stylex::{Both, Strategy, StylEx};
use crate::explain::latent::{LATENT, Latent, Looked, Task, Variant};

/// Ten times the package's own difference between f32 and f64 (the data's page); what was not rerun there gets that of
/// its kin.
const TOLERANCES: [(&str, f64); 11] = [
    ("xgem_5it", 2e-5),
    ("xgem", 3e-4),
    ("dive_5it", 1e-5),
    ("dive_fisher_chunk", 5e-5),
    ("dive_fisher_range", 5e-5),
    ("dive", 4e-4),
    ("dice_5it", 3e-4),
    ("dice_4cf", 5e-5),
    ("lcf", 5e-5),
    ("stylex", 1e-5),
    ("is", 1e-5),
];
const LOSS: Tolerance = Tolerance::both(1e-4, 1e-5);
/// Losses of chaotic traces that are compared.
const BEFORE_CHAOS: usize = 5;
/// How far latents of a chaotic trace move on average: relative.
const MOVED: Tolerance = Tolerance::relative(0.25);

pub struct Batch {
    pub z: Vec<Latent>,
    pub logits: Vec<[f32; 2]>,
    pub images: Vec<f32>,
}

impl Batch {
    pub fn task(&self, n: usize) -> Task<'_> {
        Task {
            z: &self.z,
            logits: &self.logits,
            images: &self.images,
            n,
        }
    }
}

pub fn run(world: &ReleasedWorld, folder: &Folder, check: &mut Check) -> Result<()> {
    let (Some(arrays), Some(json)) = (
        folder.tensors("traces.safetensors")?,
        folder.json("traces.json")?,
    ) else {
        if let Some(arrays) = folder.tensors("traces.safetensors")? {
            arrays.skip_all();
        }
        if let Some(json) = folder.json("traces.json")? {
            json.root().skip();
        }
        return Ok(());
    };
    let batch = Batch {
        z: latents(&arrays, "z")?,
        logits: logits(&arrays, "logits")?,
        images: arrays.f32("images")?.data,
    };
    if batch.logits.len() != batch.z.len() || batch.z.is_empty() {
        let found = batch.logits.len().to_string();
        return Err(arrays.wrong("logits", "a pair for each latent of `z`", found));
    }
    check.group("traces");
    generator_call(world, &arrays, &batch, check)?;
    let root = json.root();
    let names: Vec<String> = { arrays.names() }
        .filter_map(|n| n.strip_suffix(".z_cf").map(str::to_owned))
        .collect();
    for name in &names {
        check.group(format!("traces {name}"));
        let trace = Trace {
            world,
            arrays: &arrays,
            batch: &batch,
            name,
            told: root.get(name),
        };
        let kind = name.split('_').next().unwrap_or_default();
        match kind {
            "xgem" | "dive" => trace.descent(kind, check)?,
            "dice" => trace.dice(check)?,
            "lcf" => trace.latent_cf(check)?,
            "stylex" => trace.stylex(check)?,
            "is" => trace.informed(check)?,
            "gs" => spheres::trace(world, &arrays, &batch, root.get(name), check)?,
            _ => arrays.skip(&format!("{name}.z_cf")),
        }
        if !["xgem", "dive", "dice", "lcf", "stylex", "is", "gs"].contains(&kind) {
            check.unknown(format!("traces.safetensors: {name}"));
        }
    }
    if let Some(seeds) = root.get("gs_seeds") {
        check.group("traces gs_seeds");
        spheres::seeds(world, &batch, &seeds, check)?;
    }
    Ok(())
}

/// Images and logits of clipped latents.
fn generator_call(
    world: &ReleasedWorld,
    arrays: &Tensors,
    batch: &Batch,
    check: &mut Check,
) -> Result<()> {
    let mut compare =
        |what: &str, z: &[Latent], image: &[f32], logits: &[[f32; 2]]| -> Result<()> {
            let Looked {
                images,
                logits: got,
            } = world.explained().look(z).of(what)?;
            let tolerance = Tolerance::absolute(2e-6);
            check.close_all(
                format!("{what} image"),
                &wide(image),
                &wide(&images),
                tolerance,
            );
            let (expected, got) = (wide(logits.as_flattened()), wide(got.as_flattened()));
            check.close_all(
                format!("{what} logits"),
                &expected,
                &got,
                Tolerance::both(1e-5, 2e-5),
            );
            Ok(())
        };
    if arrays.contains("gencall.z") {
        let z = latents(arrays, "gencall.z")?;
        let image = arrays.f32("gencall.image")?;
        compare(
            "gencall",
            &z,
            &image.data,
            &logits(arrays, "gencall.logits")?,
        )?;
    }
    compare("batch", &batch.z, &batch.images, &batch.logits)
}

struct Trace<'a> {
    world: &'a ReleasedWorld,
    arrays: &'a Tensors,
    batch: &'a Batch,
    name: &'a str,
    told: Option<Node<'a>>,
}

impl Trace<'_> {
    fn field(&self, field: &str) -> String {
        format!("{}.{field}", self.name)
    }

    fn expected(&self) -> Result<(Vec<Latent>, usize)> {
        let all = latents(self.arrays, &self.field("z_cf"))?;
        let samples = self.batch.z.len();
        match all.len().is_multiple_of(samples) && !all.is_empty() {
            true => Ok((all.clone(), all.len() / samples)),
            false => {
                let found = format!("{} of {samples} samples", all.len());
                Err(self
                    .arrays
                    .wrong(&self.field("z_cf"), "as many of each sample", found))
            }
        }
    }

    fn tolerance(&self) -> Tolerance {
        let of = |name: &str| TOLERANCES.iter().find(|(n, _)| *n == name).map(|(_, t)| *t);
        let kind = self.name.split('_').next().unwrap_or_default();
        Tolerance::absolute(of(self.name).or_else(|| of(kind)).unwrap_or(1e-5))
    }

    fn close(&self, check: &mut Check, expected: &[Latent], got: &[Latent]) {
        let (expected, got) = (wide(expected.as_flattened()), wide(got.as_flattened()));
        check.close_all("z_cf", &expected, &got, self.tolerance());
    }

    /// `_5it`, or as many losses as are told.
    fn iterations(&self, told: Option<usize>) -> Result<usize> {
        let said = { self.name.split('_') }
            .find_map(|part| part.strip_suffix("it")?.parse::<usize>().ok());
        said.or(told).ok_or_else(|| {
            let file = self.arrays.file().to_owned();
            ConformanceError::Content {
                file,
                place: self.name.into(),
                expected:
                    "a number of iterations: `_5it` in its name, or its losses in traces.json"
                        .into(),
                found: "neither".into(),
            }
        })
    }

    fn descent(&self, kind: &str, check: &mut Check) -> Result<()> {
        let (expected, n) = self.expected()?;
        let losses = self
            .told
            .as_ref()
            .map(|t| t.at("loss")?.f64s())
            .transpose()?;
        let regularisers = self
            .told
            .as_ref()
            .map(|t| t.at("regularizer")?.f64s())
            .transpose()?;
        let iterations = self.iterations(losses.as_ref().map(Vec::len))?;
        let variant = Variant::AsReleased;
        let settings = match kind {
            "xgem" => Xgem {
                variant,
                iterations,
                ..Xgem::default()
            }
            .as_dive(),
            _ => Dive {
                variant,
                iterations,
                ..Dive::default()
            },
        };
        let masks = match kind {
            "xgem" => [vec![[true; LATENT]; n], vec![[true; LATENT]; n]],
            _ => self.masks(n)?,
        };
        let noise = self.arrays.f32(&self.field("noise"))?;
        if noise.len() != expected.len() * LATENT {
            let found = format!("{:?}", noise.shape);
            return Err(self.arrays.wrong(
                &self.field("noise"),
                "a number for each of `z_cf`",
                found,
            ));
        }
        let (mut all, mut parts) = (Vec::new(), Vec::new());
        let mut watch = |loss: f64, regulariser: f64| {
            all.push(loss);
            parts.push(regulariser);
        };
        let task = self.batch.task(n);
        let found = settings.released(
            &self.world.explained(),
            &task,
            &masks,
            &noise.data,
            Some(&mut watch),
        );
        self.close(check, &expected, &found.of(self.name)?);
        for (what, expected, got) in [("loss", losses, all), ("regularizer", regularisers, parts)] {
            if let Some(expected) = expected {
                check.close_all(what, &expected, &got, LOSS);
            }
        }
        Ok(())
    }

    /// Its masks, or those of the explainer's first trace.
    fn masks(&self, n: usize) -> Result<[Mask; 2]> {
        let own = self.field("mask");
        let name = match self.arrays.contains(&own) {
            true => own,
            false => "dive.mask".into(),
        };
        let rows = latents(self.arrays, &name)?;
        if rows.len() != 2 * n {
            let found = format!("{} rows", rows.len());
            return Err(self.arrays.wrong(&name, &format!("[2, {n}, 11]"), found));
        }
        let mask = |rows: &[Latent]| rows.iter().map(|r| r.map(|v| v != 0.0)).collect();
        Ok([mask(&rows[..n]), mask(&rows[n..])])
    }

    fn dice(&self, check: &mut Check) -> Result<()> {
        let (expected, n) = self.expected()?;
        let rows = match &self.told {
            Some(told) => {
                let columns = told.at("columns")?;
                if columns.strs()? != ["loss", "hinge", "proximity", "det"] {
                    return Err(columns.wrong("loss, hinge, proximity, det"));
                }
                Some(told.at("iterations")?.list(Node::f64s)?)
            }
            None => None,
        };
        let iterations = self.iterations(rows.as_ref().map(Vec::len))?;
        let mads = latent(&self.world.stats, "dice_mads")?.map(f64::from);
        let settings = Dice {
            variant: Variant::AsReleased,
            iterations,
            ..Dice::default()
        };
        let mut parts = Vec::new();
        let task = self.batch.task(n);
        let found = settings.released(&self.world.explained(), &task, &mads, &mut |p| {
            parts.push(p)
        });
        let found = found.of(self.name)?;
        let chaotic = iterations > 10;
        let compared = if chaotic { BEFORE_CHAOS } else { iterations };
        for (i, row) in rows.iter().flatten().take(compared).enumerate() {
            let got = parts.get(i).copied().unwrap_or([f64::NAN; 4]);
            check.close_all(
                format!("losses of iteration {i}"),
                row,
                &got,
                Tolerance::both(1e-4, 1e-4),
            );
        }
        match chaotic {
            true => self.moved(check, &expected, &found, n),
            false => self.close(check, &expected, &found),
        }
        Ok(())
    }

    fn latent_cf(&self, check: &mut Check) -> Result<()> {
        let (expected, n) = self.expected()?;
        let told = self.told.as_ref().ok_or_else(|| {
            let found = "nothing of it in traces.json".to_owned();
            self.arrays
                .wrong(&self.field("z_cf"), "its settings", found)
        })?;
        let params = told.at("params")?;
        let settings = LatentCf {
            variant: Variant::AsReleased,
            rate: params.at("lr")?.f64()?,
            probability: params.at("p")?.f64()?,
            tolerance: params.at("tolerance")?.f64()?,
            iterations: params.at("num_iters")?.usize()?,
        };
        let losses = told.at("loss")?.f64s()?;
        let mut got = Vec::new();
        let task = self.batch.task(n);
        let found = settings.released(&self.world.explained(), &task, &mut |l| got.push(l));
        let found = found.of(self.name)?;
        if self.name.ends_with("_hard") {
            got.truncate(BEFORE_CHAOS);
            let first = losses.len().min(BEFORE_CHAOS);
            check.close_all("loss", &losses[..first], &got, Tolerance::both(1e-4, 1e-4));
            told.skip_fields(&["iterations"]);
            self.moved(check, &expected, &found, n);
        } else {
            check.equal("iterations", &told.at("iterations")?.usize()?, &got.len());
            check.close_all("loss", &losses, &got, LOSS);
            self.close(check, &expected, &found);
        }
        Ok(())
    }

    /// How far latents moved on average.
    fn moved(&self, check: &mut Check, expected: &[Latent], got: &[Latent], n: usize) {
        let mean = |z_cf: &[Latent]| -> f64 {
            let gap = |(i, z_cf): (usize, &Latent)| -> f64 {
                let z = &self.batch.z[i / n];
                z_cf.iter()
                    .zip(z)
                    .map(|(a, b)| f64::from((a - b).abs()))
                    .sum()
            };
            z_cf.iter().enumerate().map(gap).sum::<f64>() / z_cf.len() as f64
        };
        check.close("mean L1 change", mean(expected), mean(got), MOVED);
    }

    fn stylex(&self, check: &mut Check) -> Result<()> {
        let (expected, n) = self.expected()?;
        let told = self.told.as_ref().ok_or_else(|| {
            let found = "nothing of it in traces.json".to_owned();
            self.arrays
                .wrong(&self.field("z_cf"), "its settings", found)
        })?;
        let params = told.at("params")?;
        let strategy = match params.at("strategy")?.str()? {
            "independent" => Strategy::Independent,
            "subset" => Strategy::Subset,
            _ => return Err(params.at("strategy")?.wrong("independent or subset")),
        };
        let settings = StylEx {
            variant: Variant::AsReleased,
            threshold: params.at("t")?.f64()?,
            shift: params.at("shift_size")?.f64()?,
            strategy,
        };
        told.skip_fields(&["error"]);
        let task = self.batch.task(n);
        let (z_cf, found) = settings
            .released(&self.world.explained(), &task)
            .of(self.name)?;
        let both = |values: &[Both]| -> Vec<f64> { wide(values.as_flattened().as_flattened()) };
        for (field, got, tolerance) in [
            ("targets", &found.targets, 1e-5),
            ("logit_change", &found.changes, 1e-4),
        ] {
            let name = self.field(field);
            if self.arrays.contains(&name) {
                let expected = wide(&self.arrays.f32(&name)?.data);
                check.close_all(
                    field,
                    &expected,
                    &both(got),
                    Tolerance::both(1e-5, tolerance),
                );
            }
        }
        let (coordinates, directions): (Vec<usize>, Vec<usize>) = found.chosen.into_iter().unzip();
        check.equal(
            "coordinates",
            &told.at("coordinates")?.usizes()?,
            &coordinates,
        );
        check.equal("directions", &told.at("directions")?.usizes()?, &directions);
        self.close(check, &expected, &z_cf);
        Ok(())
    }

    fn informed(&self, check: &mut Check) -> Result<()> {
        let (expected, _) = self.expected()?;
        let fonts = self.arrays.index_rows(&self.field("fonts"))?;
        let all = self.world.space.fonts.len();
        if fonts.len() != self.batch.z.len() || fonts.iter().flatten().any(|&f| f >= all) {
            let found = format!("{} rows", fonts.len());
            return Err(self
                .arrays
                .wrong(&self.field("fonts"), "typefaces of each sample", found));
        }
        let tied: Vec<usize> = { self.world.stats.i64("correlated_fonts")?.into_iter() }
            .filter_map(|f| usize::try_from(f).ok())
            .collect();
        let (first, second) = tied.split_at(tied.len() / 2);
        let tied = [first.to_vec(), second.to_vec()];
        let explainer = Informed::new(&self.world.space, tied.clone(), Variant::AsReleased);
        let explainer = explainer.of(self.name)?;
        let task = self.batch.task(1);
        let of_other = { fonts.iter().zip(task.classes()) }
            .all(|(fonts, class)| fonts.iter().all(|f| tied[1 - class].contains(f)));
        check.equal(
            "drawn typefaces are tied to the other class",
            &true,
            &of_other,
        );
        let found: Vec<Latent> = { self.batch.z.iter().zip(&fonts) }
            .flat_map(|(z, fonts)| explainer.with_fonts(z, fonts))
            .collect();
        self.close(check, &expected, &found);
        Ok(())
    }
}
