//! Chains of the evaluated method: ten steps with all of their states (1e-4), and the published number of steps (5e-4).
//!
//! The distance term is a sign: a pixel that comes as near to the original as single precision is coarse may jump, and
//! everything after it differs. Golden data say how near pixels come. Where that is too near, steps are taken one by one
//! from the stored states, and such pixels are left out.

use super::super::Result;
use super::super::check::{Check, Tolerance};
use super::super::error::Of;
use super::super::folder::Folder;
use super::super::json::Node;
use super::super::tensors::Tensors;
use super::classifiers::logits;
use super::evaluated::{ANGLE, guidance_tolerance};
use super::networks::Networks;
use super::{close, images, part, per_image, settings};
use crate::diffusion::{Given, Guidance, Guide, Guided, Guider, Noisy, Sampler, Schedule, noised};
use crate::tensor::Array;
use crate::tensor::candle::Differentiable;

const SHORT: f64 = 1e-4;
const LONG: f64 = 5e-4;
/// Pixels nearer to the original than this may change their sign in single precision.
const NEAR: f64 = 1.5e-5;

pub fn run(
    networks: &Networks<'_, impl Differentiable>,
    folder: &Folder,
    check: &mut Check,
) -> Result<()> {
    let Some(json) = folder.json("guidance.json")? else {
        return Ok(());
    };
    for (section, tolerance) in [("chain", SHORT), ("chain_long", LONG)] {
        let Some(node) = json.root().get(section) else {
            continue;
        };
        let at = node.at("settings")?;
        let schedule = settings::schedule(&at)?;
        let start = settings::start(&at, &schedule)?;
        let guidance = settings::evaluated(&at)?;
        let name = at.at("unet")?.str()?;
        let (unet, classifier, robust) = (
            networks.unet(name, check)?,
            networks.guide("classifier", check)?,
            networks.guide("robust", check)?,
        );
        let (Some(unet), Some(classifier), Some(robust)) = (unet, classifier, robust) else {
            node.skip();
            check.absent(format!("{section}: all cases (a network is absent)"));
            continue;
        };
        let Some(stored) = folder.tensors(&format!("{section}.safetensors"))? else {
            node.skip();
            continue;
        };
        check.group(section);
        if let Some(map) = at.get("timestep_map") {
            check.equal("timestep_map", &map.usizes()?, &schedule.steps);
        }
        if let Some(size) = at.get("image_size") {
            let originals = images(&stored, "init_images", None)?;
            let got = originals.shape[2..].to_vec();
            check.equal("image_size", &vec![size.usize()?; 2], &got);
        }
        check.unused(
            format!("guidance.json: {section}: seconds…, f32_vs_f64…"),
            "measurements of the original's own arithmetic",
        );
        for (case, node) in node.fields()? {
            let Some((x0, cone, "")) = settings::variant(case) else {
                continue;
            };
            let guider = Guider {
                schedule: &schedule,
                unet: &*unet,
                classifier: &*classifier,
                robust: Some(&*robust),
                guidance: Guidance {
                    x0,
                    cone: guidance.cone.filter(|_| cone),
                    ..guidance
                },
                sampler: Sampler::Ddpm,
            };
            let chain = Chain::read(&stored, case, start, tolerance)?;
            chain.described(&node, check)?;
            chain.run(&guider, &node, check)?;
        }
    }
    Ok(())
}

/// One variant with what is stored of it.
struct Chain<'a> {
    stored: &'a Tensors,
    case: &'a str,
    originals: Array,
    targets: Vec<usize>,
    noise: Array,
    start: usize,
    tolerance: f64,
}

impl<'a> Chain<'a> {
    fn read(stored: &'a Tensors, case: &'a str, start: usize, tolerance: f64) -> Result<Self> {
        let originals = images(stored, "init_images", None)?;
        let noise = stored.f32_of_rank("noise", 5)?;
        // The noise of the start, and of every step.
        let expected = [&[start + 1], &originals.shape[..]].concat();
        if noise.shape != expected {
            let found = format!("{:?}", noise.shape);
            return Err(stored.wrong("noise", &format!("shape {expected:?}"), found));
        }
        Ok(Self {
            targets: per_image(stored, "targets", &originals)?,
            originals,
            stored,
            case,
            noise,
            start,
            tolerance,
        })
    }

    fn name(&self, part: &str) -> String {
        format!("{}.{part}", self.case)
    }

    /// What the JSON file says besides settings: mostly measurements of the original in both precisions.
    fn described(&self, node: &Node<'_>, check: &mut Check) -> Result<()> {
        for (field, value) in node.fields()? {
            match field {
                "steps" => {
                    check.equal(self.name("steps"), &value.usize()?, &self.start);
                }
                f if f.starts_with("seconds")
                    || f.starts_with("f32_vs_f64")
                    || f.starts_with("min_abs_pred_xstart_minus_init") =>
                {
                    value.skip();
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// How near any pixel comes to the original.
    fn nearest(&self, node: &Node<'_>) -> Result<f64> {
        let all = node.get("min_abs_pred_xstart_minus_init");
        let steps = node.get("min_abs_pred_xstart_minus_init_per_step");
        match (all, steps) {
            (Some(all), _) => all.f64(),
            (None, Some(steps)) => Ok(steps.f64s()?.into_iter().fold(f64::INFINITY, f64::min)),
            (None, None) => Ok(f64::INFINITY),
        }
    }

    fn run(&self, guider: &Guider<'_>, node: &Node<'_>, check: &mut Check) -> Result<()> {
        let states = self.name("samples");
        if self.nearest(node)? < NEAR && self.stored.contains(&states) {
            check.unused(
                format!("{}: free running", self.case),
                "a pixel comes too near to its original; compared step by step",
            );
            return self.step_by_step(guider, node, check);
        }
        let mut found: Vec<Guided> = Vec::new();
        let every = self.every();
        let mut angles = Vec::new();
        let end = guider
            .chain(
                &self.originals,
                &self.targets,
                self.start,
                &Given(&self.noise),
                |t, step| {
                    let k = self.start - t;
                    angles.push(step.angles.clone());
                    if every.is_none_or(|n| k.is_multiple_of(n)) {
                        found.push(step.clone());
                    }
                },
            )
            .of(self.case)?;
        let stored = match every {
            Some(n) => format!("samples_every_{n}"),
            None => "samples".into(),
        };
        self.states(&stored, &found, |s| &s.images, self.tolerance, check)?;
        let peaks: Vec<f64> = found.iter().map(|s| peak(&s.images)).collect();
        self.peaks(node, every, &peaks, check)?;
        if every.is_none() && self.stored.contains(&self.name("pred_xstart")) {
            self.states("pred_xstart", &found, |s| &s.clean, self.tolerance, check)?;
        }
        let name = self.name("last_pred_xstart");
        if self.stored.contains(&name) {
            let expected = self.stored.f32(&name)?;
            close(check, &name, &expected, &end.clean, self.tolerance);
        }
        if let Some(first) = found.first().filter(|_| every.is_none()) {
            self.first_guidance(guider, &first.guidance, check)?;
        }
        self.angles(node, &angles, check)?;
        self.opinions(guider, &end.images, check)
    }

    /// Of which steps the images are stored; of all, if nothing is said.
    fn every(&self) -> Option<usize> {
        let prefix = self.name("samples_every_");
        let found = self.stored.names().find_map(|n| n.strip_prefix(&prefix));
        found.and_then(|n| n.parse().ok()).filter(|n| *n > 0)
    }

    /// The largest value of the state after each step that is stored.
    fn peaks(
        &self,
        node: &Node<'_>,
        every: Option<usize>,
        got: &[f64],
        check: &mut Check,
    ) -> Result<()> {
        let field = match every {
            Some(n) => format!("sample_abs_max_every_{n}"),
            None => "sample_abs_max_per_step".into(),
        };
        if let Some(expected) = node.get(&field) {
            let tolerance = Tolerance::absolute(self.tolerance);
            check.close_all(self.name(&field), &expected.f64s()?, got, tolerance);
        }
        Ok(())
    }

    fn states(
        &self,
        stored: &str,
        found: &[Guided],
        of: impl Fn(&Guided) -> &Array,
        tolerance: f64,
        check: &mut Check,
    ) -> Result<()> {
        let name = self.name(stored);
        let expected = self.stored.f32_of_rank(&name, 5)?;
        check.equal(format!("{name}: steps"), &expected.shape[0], &found.len());
        for (k, found) in found.iter().enumerate() {
            if let Some(expected) = part(&expected, k) {
                close(
                    check,
                    &format!("{name}[{k}]"),
                    &expected,
                    of(found),
                    tolerance,
                );
            }
        }
        Ok(())
    }

    fn first_guidance(&self, guider: &Guider<'_>, got: &Array, check: &mut Check) -> Result<()> {
        let name = self.name("first_guidance");
        if self.stored.contains(&name) {
            let tolerance = guidance_tolerance(&guider.guidance);
            close(check, &name, &self.stored.f32(&name)?, got, tolerance);
        }
        Ok(())
    }

    fn angles(&self, node: &Node<'_>, found: &[Vec<Option<f64>>], check: &mut Check) -> Result<()> {
        let Some(expected) = node.get("robust_target_angle_deg") else {
            return Ok(());
        };
        let got: Vec<f64> = found.iter().flatten().flatten().copied().collect();
        let what = format!("{} angles", self.case);
        let Ok(steps) = expected.items() else {
            expected.f64_or_null()?;
            check.equal(format!("{what}: number"), &0, &got.len());
            return Ok(());
        };
        let mut all = Vec::new();
        for step in steps {
            all.extend(step.f64s()?);
        }
        check.close_all(what, &all, &got, ANGLE);
        Ok(())
    }

    /// What the classifiers say of the last images.
    fn opinions(&self, guider: &Guider<'_>, end: &Array, check: &mut Check) -> Result<()> {
        let judges: [(&str, Option<&dyn Guide>); 2] = [
            ("classifier_logits", Some(guider.classifier)),
            ("robust_logits", guider.robust),
        ];
        for (part, judge) in judges {
            let name = self.name(part);
            if let Some(judge) = judge.filter(|_| self.stored.contains(&name)) {
                let got = logits(judge, end, &guider.unet.device(), &name)?;
                close(check, &name, &self.stored.f32(&name)?, &got, self.tolerance);
            }
        }
        Ok(())
    }

    /// Every step from the stored state before it.
    fn step_by_step(&self, guider: &Guider<'_>, node: &Node<'_>, check: &mut Check) -> Result<()> {
        let name = self.name("samples");
        let states = self.stored.f32_of_rank(&name, 5)?;
        let predicted = self.name("pred_xstart");
        let predicted = match self.stored.contains(&predicted) {
            true => Some(self.stored.f32_of_rank(&predicted, 5)?),
            false => None,
        };
        let mut x = first(guider.schedule, &self.originals, &self.noise, self.start);
        let (mut angles, mut peaks) = (Vec::new(), Vec::new());
        for k in 0..self.start {
            let t = self.start - 1 - k;
            let (Some(fresh), Some(expected)) = (part(&self.noise, k + 1), part(&states, k)) else {
                return Err(self
                    .stored
                    .wrong(&name, "every step", format!("no step {k}")));
            };
            let found = guider.step(Noisy {
                images: &x,
                originals: &self.originals,
                targets: &self.targets,
                indices: &vec![t; self.targets.len()],
                fresh: &fresh,
            });
            let found = found.of(self.case)?;
            if k == 0 {
                self.first_guidance(guider, &found.guidance, check)?;
            }
            let sure = |i: &usize| {
                let d = found.clean.data[*i] - self.originals.data[*i];
                f64::from(d.abs()) >= NEAR
            };
            let kept: Vec<usize> = (0..found.images.len()).filter(sure).collect();
            let pick =
                |a: &Array| -> Vec<f64> { kept.iter().map(|&i| f64::from(a.data[i])).collect() };
            let tolerance = Tolerance::absolute(self.tolerance);
            let what = format!("{name}[{k}] from the stored state");
            check.close_all(what, &pick(&expected), &pick(&found.images), tolerance);
            if let Some(expected) = predicted.as_ref().and_then(|p| part(p, k)) {
                let what = self.name(&format!("pred_xstart[{k}] from the stored state"));
                close(check, &what, &expected, &found.clean, self.tolerance);
            }
            angles.push(found.angles.clone());
            // Of the stored states, which each step begins with.
            peaks.push(peak(&expected));
            x = expected;
        }
        self.peaks(node, None, &peaks, check)?;
        self.angles(node, &angles, check)?;
        self.opinions(guider, &x, check)
    }
}

fn peak(images: &Array) -> f64 {
    let size = |m: f32, v: &f32| m.max(v.abs());
    f64::from(images.data.iter().fold(0.0, size))
}

/// The originals with the noise of the start.
fn first(schedule: &Schedule, originals: &Array, noise: &Array, start: usize) -> Array {
    let n = originals.shape.first().copied().unwrap_or(0);
    match part(noise, 0) {
        Some(noise) => noised(schedule, originals, &noise, &vec![start - 1; n]),
        None => originals.clone(),
    }
}
