//! DiME: attempts with one scale, and the search for a scale; 1e-4, gradients 1e-4 of their largest value.
//!
//! Settings stand in `dvce_dime.json`; noises are stored in the order in which the original draws them.

use std::collections::BTreeMap;
use std::sync::Mutex;

use super::super::Result;
use super::super::check::{Check, Tolerance};
use super::super::error::Of;
use super::super::folder::Folder;
use super::super::json::{Json, Node};
use super::super::tensors::Tensors;
use super::classifiers::logits;
use super::networks::Networks;
use super::{close, close_to_peak, images, part, per_image, settings, wide};
use crate::diffusion::{DiffusionError, Dime, DimeSettings, Features, Given, Loss, Noise};
use crate::tensor::candle::{Differentiable, Tensor};
use crate::tensor::{Activation, Array, Conv};

const IMAGE: f64 = 1e-4;
const GRADIENT: f64 = 1e-4;
/// Square roots of cumulative alphas, in f64.
const SIGNAL: Tolerance = Tolerance::relative(1e-12);

pub fn run(
    networks: &Networks<'_, impl Differentiable>,
    folder: &Folder,
    check: &mut Check,
) -> Result<()> {
    let Some(json) = folder.json("dvce_dime.json")? else {
        return Ok(());
    };
    let Some(at) = json.root().get("dime_settings") else {
        return Ok(());
    };
    let name = at.at("unet")?.str()?;
    let found = (
        networks.unet(name, check)?,
        networks.guide("classifier", check)?,
        folder.tensors("dime.safetensors")?,
    );
    let (Some(unet), Some(classifier), Some(stored)) = found else {
        skip_sections(&json)?;
        if let Some(stored) = folder.tensors("dime.safetensors")? {
            stored.names().for_each(|n| stored.skip(n));
            check.absent("dime: all cases (a network is absent)");
        }
        return Ok(());
    };
    let clip = at.at("clip_denoised")?;
    settings::only(&clip, &true, &clip.bool()?, "true, as in every DiME")?;
    let schedule = settings::schedule(&at)?;
    let features = Perceptual::read(&networks.on, &stored)?;
    let run = Run {
        stored: &stored,
        column: at.at("classifier_column")?.usize()?,
        start: at.at("start_step")?.usize()?,
        dime: Dime {
            schedule: &schedule,
            unet: &*unet,
            classifier: &*classifier,
            features: Some(&features),
            settings: DimeSettings {
                loss: Loss::Logit(0),
                l1: 0.0,
                l2: 0.0,
                perceptual: 0.0,
                start: 1,
                sampled: true,
                in_pixels: false,
            },
        },
    };
    for (section, node) in json.root().fields()? {
        match section.strip_prefix("dime_") {
            None | Some("settings") => {}
            Some(name) if name.starts_with("grid_") => {
                check.group("dime: search for a scale");
                run.search(name, &node, check)?;
            }
            Some(name) => {
                check.group("dime: attempts");
                run.attempt(name, &node, check)?;
            }
        }
    }
    Ok(())
}

fn skip_sections(json: &Json) -> Result<()> {
    for (name, node) in json.root().fields()? {
        if name.starts_with("dime_") {
            node.skip();
        }
    }
    Ok(())
}

struct Run<'a> {
    stored: &'a Tensors,
    /// The logit that is the classifier's.
    column: usize,
    start: usize,
    dime: Dime<'a>,
}

impl Run<'_> {
    fn loss(&self, use_logits: bool) -> Loss {
        match use_logits {
            true => Loss::Logit(self.column),
            false => Loss::LogSigmoid(self.column),
        }
    }

    fn with(&self, settings: DimeSettings) -> Dime<'_> {
        Dime {
            settings,
            ..self.dime
        }
    }

    /// The classifier's logit of every image.
    fn logit(&self, images: &Array) -> Result<Vec<f64>> {
        let logits = logits(
            self.dime.classifier,
            images,
            &self.dime.unet.device(),
            "dime",
        )?;
        let column = |i: usize| {
            logits
                .row(i)
                .get(self.column)
                .map_or(f64::NAN, |&v| v.into())
        };
        Ok((0..logits.shape[0]).map(column).collect())
    }

    fn attempt(&self, name: &str, node: &Node<'_>, check: &mut Check) -> Result<()> {
        node.skip_fields(&["seconds", "f32_vs_f64_max_abs"]);
        let at = node.at("settings")?;
        let sampled = at.get("use_sampling").map_or(Ok(true), |s| s.bool())?;
        let dime = self.with(DimeSettings {
            loss: self.loss(at.at("use_logits")?.bool()?),
            l1: at.at("l1")?.f64()?,
            l2: at.at("l2")?.f64()?,
            perceptual: at.at("cperc")?.f64()?,
            start: self.start,
            sampled,
            in_pixels: false,
        });
        let scale = at.at("s")?.f64()?;
        self.described(name, node, &dime, check)?;
        let stored = |part: &str| format!("{name}.{part}");
        let originals = images(self.stored, "init_images", None)?;
        let targets = per_image(self.stored, "targets", &originals)?;
        let noise = self.stored.f32_of_rank(&stored("noise_in_draw_order"), 5)?;
        let expected = [&[1 + dime.draws()], &originals.shape[..]].concat();
        if noise.shape != expected {
            let found = format!("{:?}", noise.shape);
            let name = stored("noise_in_draw_order");
            return Err(self
                .stored
                .wrong(&name, &format!("shape {expected:?}"), found));
        }
        let noise = Given(&noise);
        let begin = dime.begin(&originals, &noise).of(name)?;
        let what = stored("noisy_start");
        close(check, &what, &self.stored.f32(&what)?, &begin, IMAGE);
        let mut steps: Vec<[Array; 4]> = Vec::new();
        let end = dime.attempt(&originals, &targets, &begin, scale, (&noise, 1), |step| {
            steps.push(
                [
                    step.noisy,
                    step.clean,
                    step.class_gradient,
                    step.distance_gradient,
                ]
                .map(Array::clone),
            );
        });
        let end = end.of(name)?;
        let kinds = [
            "z_t_steps",
            "x_t_steps",
            "class_grad_steps",
            "dist_grad_steps",
        ];
        for (which, kind) in kinds.into_iter().enumerate() {
            let what = stored(kind);
            let all = self.stored.f32_of_rank(&what, 5)?;
            check.equal(format!("{what}: steps"), &all.shape[0], &steps.len());
            for (k, found) in steps.iter().enumerate() {
                let (Some(expected), what) = (part(&all, k), format!("{what}[{k}]")) else {
                    continue;
                };
                match which < 2 {
                    true => close(check, &what, &expected, &found[which], IMAGE),
                    false => close_to_peak(check, &what, &expected, &found[which], GRADIENT),
                }
            }
        }
        let what = stored("counterfactual");
        close(check, &what, &self.stored.f32(&what)?, &end, IMAGE);
        for (part, images) in [("logit_before", &originals), ("logit_after", &end)] {
            let (what, got) = (stored(part), self.logit(images)?);
            let expected = wide(&self.stored.f32(&what)?);
            check.close_all(what, &expected, &got, Tolerance::absolute(IMAGE));
        }
        Ok(())
    }

    fn described(
        &self,
        name: &str,
        node: &Node<'_>,
        dime: &Dime<'_>,
        check: &mut Check,
    ) -> Result<()> {
        let (schedule, start) = (dime.schedule, dime.settings.start);
        for (field, value) in node.fields()? {
            let what = format!("{name} {field}");
            match field {
                "unet_calls" => {
                    let calls = start + start * start.saturating_sub(1) / 2;
                    check.equal(what, &value.usize()?, &calls);
                }
                "noise_draws" => check.equal(what, &value.usize()?, &(1 + dime.draws())),
                "timestep_map" => check.equal(what, &value.usizes()?, &schedule.steps),
                "alpha_t_sqrt_abar" => {
                    let signal = schedule.alphas[..start.min(schedule.len())].iter().rev();
                    let got: Vec<f64> = signal.map(|a| a.sqrt()).collect();
                    check.close_all(what, &value.f64s()?, &got, SIGNAL);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn search(&self, name: &str, node: &Node<'_>, check: &mut Check) -> Result<()> {
        let dime = self.with(DimeSettings {
            loss: self.loss(node.at("use_logits")?.bool()?),
            l1: node.at("l1_loss")?.f64()?,
            l2: node.get("l2_loss").map_or(Ok(0.0), |n| n.f64())?,
            perceptual: node.at("l_perc")?.f64()?,
            start: node.at("start_step")?.usize()?,
            sampled: true,
            in_pixels: false,
        });
        let scales = node.at("scales")?.f64s()?;
        let originals = images(self.stored, "grid.init_images", None)?;
        let targets = per_image(self.stored, "grid.targets", &originals)?;
        let stored = |part: &str| format!("{name}.{part}");
        let noise = self.stored.f32(&stored("noise_flat"))?.data;
        let draws = InOrder::new(noise);
        let (found, reached) = dime
            .search(&originals, &targets, &scales, &draws)
            .of(name)?;
        let sizes = draws.sizes();
        let expected = super::numbers(self.stored, &stored("noise_batch_sizes"))?;
        check.equal(stored("noise_batch_sizes"), &Some(expected), &sizes);
        let what = stored("counterfactual");
        close(check, &what, &self.stored.f32(&what)?, &found, IMAGE);
        let flipped: Vec<usize> = reached.iter().map(|r| r.is_some().into()).collect();
        let what = stored("transformed");
        check.equal(&what, &per_image(self.stored, &what, &originals)?, &flipped);
        let what = stored("final_logit");
        let expected = wide(&self.stored.f32(&what)?);
        let got = self.logit(&found)?;
        check.close_all(what, &expected, &got, Tolerance::absolute(IMAGE));
        self.calls(name, node, &dime, &reached, &scales, check)
    }

    /// Which scales were tried, on how many images.
    fn calls(
        &self,
        name: &str,
        node: &Node<'_>,
        dime: &Dime<'_>,
        reached: &[Option<f64>],
        scales: &[f64],
        check: &mut Check,
    ) -> Result<()> {
        let Some(calls) = node.get("calls") else {
            return Ok(());
        };
        let (mut expected, mut got) = (Vec::new(), Vec::new());
        for call in calls.items()? {
            let number = |field: &str| call.at(field)?.usize();
            let scale = call.at("scale")?.f64()?;
            expected.push((
                scale,
                number("batch")?,
                number("first_draw")?,
                number("last_draw")?,
            ));
        }
        let mut left = reached.len();
        for (k, &scale) in scales.iter().enumerate() {
            if left == 0 {
                break;
            }
            let first = 1 + k * dime.draws();
            got.push((scale, left, first, first + dime.draws()));
            left -= reached.iter().filter(|r| **r == Some(scale)).count();
        }
        check.equal(format!("{name} calls"), &expected, &got);
        Ok(())
    }
}

/// Given numbers one after the other, whatever they are for.
struct InOrder(Mutex<Drawn>);

struct Drawn {
    values: Vec<f32>,
    used: usize,
    /// For how many images each draw was.
    images: BTreeMap<usize, usize>,
}

impl InOrder {
    fn new(values: Vec<f32>) -> Self {
        Self(Mutex::new(Drawn {
            values,
            used: 0,
            images: BTreeMap::new(),
        }))
    }

    /// For how many images each draw was; none unless all numbers were used, and no more.
    fn sizes(&self) -> Option<Vec<usize>> {
        let drawn = self.0.lock().ok()?;
        let all = drawn.used == drawn.values.len();
        all.then(|| drawn.images.values().copied().collect())
    }
}

impl Noise for InOrder {
    fn fill(&self, _image: usize, draw: usize, to: &mut [f32]) {
        let Ok(mut drawn) = self.0.lock() else { return };
        let end = drawn.used + to.len();
        if let Some(values) = drawn.values.get(drawn.used..end) {
            to.copy_from_slice(values);
        }
        drawn.used = end;
        *drawn.images.entry(draw).or_default() += 1;
    }
}

/// Two convolutions, each with a ReLU.
struct Perceptual<B: Differentiable> {
    on: B,
    layers: Vec<B::Conv>,
}

impl<B: Differentiable> Perceptual<B> {
    fn read(on: &B, stored: &Tensors) -> Result<Self> {
        let mut layers = Vec::new();
        for i in [0, 2] {
            let name = format!("perceptual.{i}");
            let weight = stored.f32_of_rank(&format!("{name}.weight"), 4)?;
            let bias = stored.f32(&format!("{name}.bias"))?.data;
            let spec = Conv::square(weight.shape[1], weight.shape[0], weight.shape[2])
                .padding(weight.shape[2] / 2)
                .activation(Activation::Relu);
            layers.push(on.prepare(spec, &weight, &bias).of(name)?);
        }
        Ok(Self {
            on: on.clone(),
            layers,
        })
    }
}

impl<B: Differentiable> Features for Perceptual<B> {
    fn features(&self, images: &Tensor) -> std::result::Result<Tensor, DiffusionError> {
        let mut x = images.clone();
        for conv in &self.layers {
            x = self.on.conv(&x, conv, None)?;
        }
        Ok(x)
    }
}
