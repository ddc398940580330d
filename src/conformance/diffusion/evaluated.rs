//! One step of the evaluated method in every variant: 2e-6 for guidance, 1e-5 for images, raw gradients 1e-4 of their
//! largest value.

use std::sync::Arc;

use super::super::Result;
use super::super::check::{Check, Tolerance};
use super::super::error::Of;
use super::super::folder::Folder;
use super::super::json::Node;
use super::super::tensors::Tensors;
use super::networks::Networks;
use super::steps::indices;
use super::{close, close_to_peak, images, per_image, settings};
use crate::diffusion::{
    Denoiser, Distance, Guidance, Guide, Guided, Guider, Noisy, Sampler, Schedule, normalise, pull,
};
use crate::tensor::Array;
use crate::tensor::candle::Differentiable;

const GUIDANCE: f64 = 2e-6;
const IMAGE: f64 = 1e-5;
const GRADIENT: f64 = 1e-4;
/// Degrees: what errors of the gradients make of it.
pub const ANGLE: Tolerance = Tolerance::absolute(0.02);
/// Scale and weight of the cases `lpP` with other exponents; the layout has no fields for them.
const OTHER_EXPONENTS: (f64, f64) = (0.7, 0.4);

pub fn run(
    networks: &Networks<'_, impl Differentiable>,
    folder: &Folder,
    check: &mut Check,
) -> Result<()> {
    let Some(json) = folder.json("guidance.json")? else {
        return Ok(());
    };
    let Some(section) = json.root().get("guided_step") else {
        return Ok(());
    };
    let at = section.at("settings")?;
    let guidance = settings::evaluated(&at)?;
    let schedule = settings::schedule(&at)?;
    let name = at.at("unet")?.str()?;
    let Some(unet) = networks.unet(name, check)? else {
        section.skip();
        check.absent(format!("guided_step: all cases ({name} is absent)"));
        return Ok(());
    };
    let Some(stored) = folder.tensors("guided_step.safetensors")? else {
        section.skip();
        return Ok(());
    };
    check.group("guided steps");
    let step = Step::read(&stored, &schedule, &*unet)?;
    let told: Vec<usize> = { step.indices.iter() }
        .map(|&t| schedule.steps[t])
        .collect();
    let seen = per_image(&stored, "timesteps_seen_by_model", &step.images)?;
    check.equal("timesteps_seen_by_model", &seen, &told);
    let mut common = false;
    for (case, node) in section.at("cases")?.fields()? {
        let Some((x0, cone, kind)) = settings::variant(case) else {
            continue;
        };
        node.skip_fields(&["seconds"]);
        let Some((classifier, robust)) = judges(networks, kind, check)? else {
            node.skip();
            step.skip(case);
            check.absent(format!("guided_step {case} (a classifier is absent)"));
            continue;
        };
        let variant = Guidance {
            x0,
            cone: guidance.cone.filter(|_| cone),
            ..guidance
        };
        let found = step.run(variant, &*classifier, &*robust, case)?;
        step.compare(case, &variant, &found, check)?;
        angles(&node, &found, case, check)?;
        if !common {
            step.common(&guidance, &found, check)?;
            common = true;
        }
    }
    other_exponents(networks, &step, &guidance, check)
}

type Judges = (Arc<dyn Guide>, Arc<dyn Guide>);

/// The explained and the robust classifier of a kind of case.
fn judges(
    networks: &Networks<'_, impl Differentiable>,
    kind: &str,
    check: &mut Check,
) -> Result<Option<Judges>> {
    let (explained, robust) = match kind {
        "" | "tiny" => ("classifier", "robust"),
        "near" => ("classifier", "near"),
        noise_aware => (noise_aware, "robust"),
    };
    let explained = networks.guide(explained, check)?;
    Ok(explained.zip(networks.guide(robust, check)?))
}

/// Angles between the two gradients; null without a cone.
fn angles(node: &Node<'_>, found: &Guided, case: &str, check: &mut Check) -> Result<()> {
    let Some(expected) = node.get("angle_deg") else {
        return Ok(());
    };
    let got: Vec<f64> = found.angles.iter().flatten().copied().collect();
    match expected.items() {
        Err(_) => {
            expected.f64_or_null()?;
            check.equal(format!("{case}: number of angles"), &0, &got.len());
        }
        Ok(_) => check.close_all(format!("{case} angles"), &expected.f64s()?, &got, ANGLE),
    }
    Ok(())
}

/// The cases `lpP`: all switches on, another exponent of the distance.
fn other_exponents(
    networks: &Networks<'_, impl Differentiable>,
    step: &Step<'_>,
    guidance: &Guidance,
    check: &mut Check,
) -> Result<()> {
    let names = step
        .stored
        .names()
        .filter_map(|n| n.strip_suffix(".guidance"));
    for name in names {
        let exponent = name.strip_prefix("lp").and_then(|p| p.parse::<f64>().ok());
        let Some(exponent) = exponent else { continue };
        let Some((classifier, robust)) = judges(networks, "tiny", check)? else {
            step.skip(name);
            continue;
        };
        let (scale, weight) = OTHER_EXPONENTS;
        let other = Guidance {
            scale,
            distance: Some(Distance {
                exponent,
                weight,
                through_unet: false,
            }),
            ..*guidance
        };
        let found = step.run(other, &*classifier, &*robust, name)?;
        // From the stored clean image: near the original this slope is steep.
        let what = format!("{name}.lp_grad_before_norm");
        let clean = images(step.stored, "common.pred_xstart", Some(&step.images))?;
        let pulled = pull(&clean, &step.originals, exponent);
        close_to_peak(check, &what, &step.stored.f32(&what)?, &pulled, GRADIENT);
        step.compare(name, &other, &found, check)?;
    }
    Ok(())
}

/// What all variants begin with.
struct Step<'a> {
    stored: &'a Tensors,
    schedule: &'a Schedule,
    unet: &'a dyn Denoiser,
    images: Array,
    originals: Array,
    fresh: Array,
    targets: Vec<usize>,
    indices: Vec<usize>,
}

impl<'a> Step<'a> {
    fn read(stored: &'a Tensors, schedule: &'a Schedule, unet: &'a dyn Denoiser) -> Result<Self> {
        let x = images(stored, "x_t", None)?;
        Ok(Self {
            originals: images(stored, "init_images", Some(&x))?,
            fresh: images(stored, "common.noise", Some(&x))?,
            targets: per_image(stored, "targets", &x)?,
            indices: indices(stored, &x, schedule)?,
            images: x,
            stored,
            schedule,
            unet,
        })
    }

    fn run(
        &self,
        guidance: Guidance,
        classifier: &dyn Guide,
        robust: &dyn Guide,
        what: &str,
    ) -> Result<Guided> {
        let guider = Guider {
            schedule: self.schedule,
            unet: self.unet,
            classifier,
            robust: Some(robust),
            guidance,
            sampler: Sampler::Ddpm,
        };
        let at = Noisy {
            images: &self.images,
            originals: &self.originals,
            targets: &self.targets,
            indices: &self.indices,
            fresh: &self.fresh,
        };
        guider.step(at).of(what)
    }

    fn skip(&self, case: &str) {
        let prefix = format!("{case}.");
        let own = self.stored.names().filter(|n| n.starts_with(&prefix));
        own.for_each(|name| self.stored.skip(name));
    }

    /// Every array of the case that is stored.
    fn compare(
        &self,
        case: &str,
        guidance: &Guidance,
        found: &Guided,
        check: &mut Check,
    ) -> Result<()> {
        let none = vec![false; found.without.len()];
        check.equal(format!("{case}: without guidance"), &none, &found.without);
        for (part, got, tolerance) in [
            ("guidance", &found.guidance, guidance_tolerance(guidance)),
            ("mean_guided", &found.mean, IMAGE),
            ("sample", &found.images, IMAGE),
        ] {
            let name = format!("{case}.{part}");
            if self.stored.contains(&name) {
                close(check, &name, &self.stored.f32(&name)?, got, tolerance);
            }
        }
        for (part, which) in [
            ("classifier_grad_before_norm", 0),
            ("target_grad", 0),
            ("robust_grad", 1),
        ] {
            let name = format!("{case}.{part}");
            if let Some(gradient) = found.gradients.get(which)
                && self.stored.contains(&name)
            {
                let got = of_mean(gradient);
                close_to_peak(check, &name, &self.stored.f32(&name)?, &got, GRADIENT);
            }
        }
        let name = format!("{case}.cone_out");
        if let (Some(cone), [own, robust]) = (guidance.cone, &found.gradients[..])
            && self.stored.contains(&name)
        {
            let expected = self.stored.f32(&name)?;
            let row = |i: usize| {
                let projected = cone.project(robust.row(i), own.row(i));
                projected.map_or(vec![f32::NAN; own.row(i).len()], |p| p.direction)
            };
            let got = Array {
                shape: own.shape.clone(),
                data: (0..own.shape[0]).flat_map(row).collect(),
            };
            close(check, &name, &expected, &got, IMAGE);
        }
        Ok(())
    }

    /// What does not depend on the variant.
    fn common(&self, guidance: &Guidance, found: &Guided, check: &mut Check) -> Result<()> {
        let exponent = guidance.distance.map_or(1.0, |d| d.exponent);
        let mut pulled = pull(&found.clean, &self.originals, exponent);
        let len = pulled.len() / pulled.shape[0].max(1);
        for row in pulled.data.chunks_mut(len.max(1)) {
            normalise(row);
        }
        for (part, got) in [
            ("mean_unguided", &found.unguided_mean),
            ("variance", &found.variance),
            ("log_variance", &found.log_variance),
            ("pred_xstart", &found.clean),
            ("lp_grad_unit", &pulled),
        ] {
            let name = format!("common.{part}");
            close(check, &name, &self.stored.f32(&name)?, got, IMAGE);
        }
        Ok(())
    }
}

/// Larger scales than the published ones have larger errors.
pub fn guidance_tolerance(guidance: &Guidance) -> f64 {
    let weight = guidance.distance.map_or(0.0, |d| d.weight);
    GUIDANCE * ((guidance.scale + weight) / 0.25).max(1.0)
}

/// The public code differentiates the mean over the batch.
pub fn of_mean(gradient: &Array) -> Array {
    let n = gradient.shape.first().copied().unwrap_or(1) as f32;
    Array {
        shape: gradient.shape.clone(),
        data: gradient.data.iter().map(|v| v / n).collect(),
    }
}
