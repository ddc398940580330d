//! Classic classifier guidance, by equation 1: the noise-aware classifier looks at the noisy image itself. DDPM and DDIM
//! steps: 1e-5.

use super::super::Result;
use super::super::check::Check;
use super::super::error::Of;
use super::super::folder::Folder;
use super::networks::Networks;
use super::steps::indices;
use super::{close, images, per_image, settings};
use crate::diffusion::{Guidance, Guider, Noisy, Sampler, Strength, X0};
use crate::tensor::candle::Differentiable;

const STEP: f64 = 1e-5;
/// DDIM's clean image goes once more through the amplification of noise.
const CLEAN: f64 = 2e-5;

pub fn run(
    networks: &Networks<'_, impl Differentiable>,
    folder: &Folder,
    check: &mut Check,
) -> Result<()> {
    // Steps and network are those of the guided steps.
    let Some(json) = folder.json("guidance.json")? else {
        return Ok(());
    };
    let Some(section) = json.root().get("guided_step") else {
        return Ok(());
    };
    let at = section.at("settings")?;
    let schedule = settings::schedule(&at)?;
    let unet = networks.unet(at.at("unet")?.str()?, check)?;
    let encoder = match networks.encoders()?.first() {
        Some(name) => networks.guide(name, check)?,
        None => None,
    };
    let (Some(unet), Some(encoder)) = (unet, encoder) else {
        check.absent("openai_guided_step: all cases (a network is absent)");
        return Ok(());
    };
    let Some(stored) = folder.tensors("openai_guided_step.safetensors")? else {
        return Ok(());
    };
    check.group("classic guidance");
    let x = images(&stored, "x_t", None)?;
    let (targets, at) = (
        per_image(&stored, "targets", &x)?,
        indices(&stored, &x, &schedule)?,
    );
    let cases = stored
        .names()
        .filter_map(|n| n.strip_suffix(".ddpm.sample"));
    for case in cases {
        // `sSCALE_clip0` or `sSCALE_clip1`.
        let parsed = case.strip_prefix('s').and_then(|c| {
            let (scale, clip) = c.split_once("_clip")?;
            Some((scale.parse::<f64>().ok()?, clip == "1"))
        });
        let Some((scale, clip)) = parsed else {
            continue;
        };
        let name = |part: &str| format!("{case}.{part}");
        let fresh = images(&stored, &name("ddpm.noise"), Some(&x))?;
        let guider = |sampler| Guider {
            schedule: &schedule,
            unet: &*unet,
            classifier: &*encoder,
            robust: None,
            guidance: Guidance {
                x0: X0::Off,
                cone: None,
                scale,
                distance: None,
                strength: Strength::Plain,
                clip,
            },
            sampler,
        };
        let step = |sampler| {
            let found = guider(sampler).step(Noisy {
                images: &x,
                originals: &x,
                targets: &targets,
                indices: &at,
                fresh: &fresh,
            });
            found.of(case)
        };
        let found = step(Sampler::Ddpm)?;
        let bent = step(Sampler::Ddim { eta: 0.0 })?;
        for (part, got, tolerance) in [
            ("ddpm.guidance", &found.guidance, STEP),
            ("ddpm.sample", &found.images, STEP),
            ("ddim_eta0.pred_xstart", &bent.clean, CLEAN),
            ("ddim_eta0.sample", &bent.images, STEP),
        ] {
            let name = name(part);
            if stored.contains(&name) {
                close(check, &name, &stored.f32(&name)?, got, tolerance);
            }
        }
    }
    Ok(())
}
