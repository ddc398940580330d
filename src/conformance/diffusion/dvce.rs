//! DVCE, with the distance differentiated at the predicted image and through the network: 1e-4.
//!
//! Images arrive from 0 to 1, and its classifiers see them so. Settings stand in `dvce_dime.json`.

use std::sync::Arc;

use super::super::Result;
use super::super::check::Check;
use super::super::error::Of;
use super::super::folder::Folder;
use super::super::json::{Json, Node};
use super::super::tensors::Tensors;
use super::evaluated::of_mean;
use super::networks::Networks;
use super::settings::{only, published_cone, schedule, start};
use super::{close, close_to_peak, images, part, per_image};
use crate::diffusion::{
    DiffusionError, Distance, Given, Guidance, Guide, Guided, Guider, Sampler, Strength, X0,
    length, noised,
};
use crate::tensor::candle::{Candle, Differentiable, Tensor};
use crate::tensor::{Array, Backend};

const CHAIN: f64 = 1e-4;
/// Raw gradients, as a share of their largest value.
const GRADIENT: f64 = 1e-4;

/// The files, what their sections begin with, and whether the distance passes the network.
const FILES: [(&str, &str, bool); 2] = [
    ("dvce.safetensors", "dvce_", false),
    (
        "dvce_distance_through_unet.safetensors",
        "dvce_denoise_",
        true,
    ),
];

pub fn run(
    networks: &Networks<'_, impl Differentiable>,
    folder: &Folder,
    check: &mut Check,
) -> Result<()> {
    let Some(json) = folder.json("dvce_dime.json")? else {
        return Ok(());
    };
    // Whether the original finds its step again in a float: a matter of its own code.
    const RECOVERY: &str = "dvce_timestep_recovery_mismatches";
    if let Some(node) = json.root().get(RECOVERY) {
        node.skip();
        check.unused(
            format!("dvce_dime.json: {RECOVERY}"),
            "whether the original finds its step again in a float; here the step itself is kept",
        );
    }
    let Some(at) = json.root().get("dvce_settings") else {
        return Ok(());
    };
    let name = at.at("unet")?.str()?;
    let found = (
        networks.unet(name, check)?,
        networks.guide("classifier", check)?,
        networks.guide("robust", check)?,
    );
    let (Some(unet), Some(classifier), Some(robust)) = found else {
        skip_sections(&json, &at)?;
        check.absent("dvce: all cases (a network is absent)");
        return Ok(());
    };
    at.skip_fields(&["single", "cone"]);
    let same = at.at("enforce_same_norms")?;
    only(&same, &true, &same.bool()?, "true")?;
    let copies = at.at("aug_num")?;
    only(&copies, &1, &copies.usize()?, "1: copies are not made")?;
    let schedule = schedule(&at)?;
    let start = start(&at, &schedule)?;
    let guidance = Guidance {
        x0: X0::ThroughUnet,
        cone: Some(published_cone(at.at("deg_cone_projection")?.f64()?)),
        scale: at.at("classifier_lambda")?.f64()?,
        distance: Some(Distance {
            exponent: at.at("lp_custom")?.f64()?,
            weight: at.at("lp_custom_value")?.f64()?,
            through_unet: false,
        }),
        strength: Strength::Noise,
        clip: at.at("clip_denoised")?.bool()?,
    };
    let [classifier, robust] = [classifier, robust].map(|guide| Halved {
        on: networks.on.clone(),
        guide,
    });
    for (file, prefix, through_unet) in FILES {
        let Some(stored) = folder.tensors(file)? else {
            continue;
        };
        check.group(file.trim_end_matches(".safetensors"));
        for case in ["single", "cone"] {
            if !stored.contains(&format!("{case}.samples")) {
                continue;
            }
            let guider = Guider {
                schedule: &schedule,
                unet: &*unet,
                classifier: &classifier,
                robust: Some(&robust),
                guidance: Guidance {
                    cone: guidance.cone.filter(|_| case == "cone"),
                    distance: guidance.distance.map(|d| Distance { through_unet, ..d }),
                    ..guidance
                },
                sampler: Sampler::Ddpm,
            };
            if let Some(section) = json.root().get(&format!("{prefix}{case}")) {
                described(&section, &guider, start, case, check)?;
            }
            chain(&guider, &stored, case, start, check)?;
        }
    }
    Ok(())
}

fn skip_sections(json: &Json, settings: &Node<'_>) -> Result<()> {
    settings.skip();
    for (name, node) in json.root().fields()? {
        if name.starts_with("dvce_") {
            node.skip();
        }
    }
    Ok(())
}

/// Steps, and what the network is told; the rest are measurements of the original.
fn described(
    section: &Node<'_>,
    guider: &Guider<'_>,
    start: usize,
    case: &str,
    check: &mut Check,
) -> Result<()> {
    section.skip_fields(&[
        "seconds",
        "f32_vs_f64_max_abs_per_step",
        "min_abs_pred_xstart_minus_init",
    ]);
    for (field, value) in section.fields()? {
        let what = format!("{case} {field}");
        match field {
            "steps" => check.equal(what, &value.usize()?, &start),
            // The step that the original found again is the one that it was at.
            "index_t" | "t_index_recovered" => {
                let got: Vec<usize> = (0..start).rev().collect();
                check.equal(what, &value.usizes()?, &got);
            }
            "t_float_seen" => {
                let told = guider.schedule.steps[..start].iter().rev();
                let got: Vec<f64> = told.map(|&t| t as f64).collect();
                check.equal(what, &value.f64s()?, &got);
            }
            _ => {}
        }
    }
    Ok(())
}

fn chain(
    guider: &Guider<'_>,
    stored: &Tensors,
    case: &str,
    start: usize,
    check: &mut Check,
) -> Result<()> {
    let mut originals = images(stored, "init_images_0_1", None)?;
    originals.data.iter_mut().for_each(|v| *v = 2.0 * *v - 1.0);
    let targets = per_image(stored, "targets", &originals)?;
    let name = |part: &str| format!("{case}.{part}");
    let noise = stored.f32_of_rank(&name("noise"), 5)?;
    let samples = stored.f32_of_rank(&name("samples"), 5)?;
    let expected = [&[start + 1], &originals.shape[..]].concat();
    if noise.shape != expected {
        let found = format!("{:?}", noise.shape);
        return Err(stored.wrong(&name("noise"), &format!("shape {expected:?}"), found));
    }
    let mut found: Vec<Guided> = Vec::new();
    let end = guider
        .chain(&originals, &targets, start, &Given(&noise), |_, step| {
            found.push(step.clone());
        })
        .of(case)?;
    check.equal(name("samples: steps"), &samples.shape[0], &found.len());
    for (k, found) in found.iter().enumerate() {
        if let Some(expected) = part(&samples, k) {
            let what = name(&format!("samples[{k}]"));
            close(check, &what, &expected, &found.images, CHAIN);
        }
    }
    let mut last = end.clean;
    last.data
        .iter_mut()
        .for_each(|v| *v = ((*v + 1.0) / 2.0).clamp(0.0, 1.0));
    let output = name("output_0_1");
    close(check, &output, &stored.f32(&output)?, &last, CHAIN);
    match (found.first(), part(&noise, 0)) {
        (Some(first), Some(noise)) => {
            let n = targets.len();
            let x = noised(guider.schedule, &originals, &noise, &vec![start - 1; n]);
            first_step(guider, stored, case, &x, first, start, check)
        }
        _ => Ok(()),
    }
}

/// The inside of the first step.
fn first_step(
    guider: &Guider<'_>,
    stored: &Tensors,
    case: &str,
    x: &Array,
    found: &Guided,
    start: usize,
    check: &mut Check,
) -> Result<()> {
    let name = |part: &str| format!("{case}.step0.{part}");
    let n = x.shape[0];
    if stored.contains(&name("index_t")) {
        let got = vec![start - 1; n];
        check.equal(
            name("index_t"),
            &per_image(stored, &name("index_t"), x)?,
            &got,
        );
    }
    let told = vec![guider.schedule.steps[start - 1] as f32; n];
    let seen = Candle.upload(x).and_then(|x| x.on(&guider.unet.device()));
    let output = guider.unet.predict(&seen.of(case)?, &told).of(case)?;
    let output = Candle.download(&output).of(case)?;
    let len = x.len() / n.max(1);
    let eps = Array {
        shape: x.shape.clone(),
        data: (0..n).flat_map(|i| output.row(i)[..len].to_vec()).collect(),
    };
    // Stored with the length of the predicted noise in it.
    let mut guidance = found.guidance.clone();
    for (i, row) in guidance.data.chunks_mut(len.max(1)).enumerate() {
        let factor = length(eps.row(i)) as f32;
        row.iter_mut().for_each(|v| *v *= factor);
    }
    for (part, got) in [
        ("x_t", x),
        ("model_eps", &eps),
        ("mean_unguided", &found.unguided_mean),
        ("variance", &found.variance),
        ("pred_xstart", &found.clean),
        ("guidance", &guidance),
        ("mean_guided", &found.mean),
        ("sample", &found.images),
    ] {
        let name = name(part);
        if stored.contains(&name) {
            close(check, &name, &stored.f32(&name)?, got, CHAIN);
        }
    }
    // First is the robust classifier, second the explained one.
    for (part, which) in [("grad_first", 1), ("grad_second", 0)] {
        let name = name(part);
        if let Some(gradient) = found.gradients.get(which)
            && stored.contains(&name)
        {
            let got = of_mean(gradient);
            close_to_peak(check, &name, &stored.f32(&name)?, &got, GRADIENT);
        }
    }
    let name = name("cone_out");
    if let (Some(cone), [own, robust]) = (guider.guidance.cone, &found.gradients[..])
        && stored.contains(&name)
    {
        let row = |i: usize| {
            let projected = cone.project(robust.row(i), own.row(i));
            projected.map_or(vec![f32::NAN; len], |p| p.direction)
        };
        let got = Array {
            shape: own.shape.clone(),
            data: (0..n).flat_map(row).collect(),
        };
        close(check, &name, &stored.f32(&name)?, &got, CHAIN);
    }
    Ok(())
}

/// A classifier of images from 0 to 1.
struct Halved<B> {
    on: B,
    guide: Arc<dyn Guide>,
}

impl<B: Differentiable> Guide for Halved<B> {
    fn logits(
        &self,
        images: &Tensor,
        steps: &[f32],
    ) -> std::result::Result<Tensor, DiffusionError> {
        let channels = images.shape().c;
        let order: Vec<usize> = (0..channels).collect();
        let half = vec![0.5; channels];
        self.guide
            .logits(&self.on.affine(images, &order, &half, &half)?, steps)
    }
}
