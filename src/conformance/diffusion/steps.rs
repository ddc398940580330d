//! The arithmetic of steps without guidance, from given noisy images.
//!
//! Tolerance 1e-5. In the predicted clean image the network's noise is amplified, by 150 at the most noisy of the golden
//! steps: there 2e-4, and in proportion elsewhere.

use super::super::Result;
use super::super::check::{Check, Tolerance};
use super::super::error::Of;
use super::super::folder::Folder;
use super::super::json::Node;
use super::super::tensors::Tensors;
use super::{close, images, per_image, settings, wide};
use crate::diffusion::{Moments, Schedule, ddim, drawn, moments, noised, posterior_mean};
use crate::nets::Unet;
use crate::tensor::{Array, Backend};

const STEP: f64 = 1e-5;
const OUTPUT: f64 = 2e-5;
const AMPLIFIED: f64 = 2e-4 / 150.0;

/// The network of the golden data; the settings have no field for it.
const UNET: &str = "unet_a";

pub fn run<B: Backend>(b: &B, folder: &Folder, check: &mut Check) -> Result<()> {
    let (Some(json), Some(stored)) = (
        folder.json("p_mean_variance.json")?,
        folder.tensors("p_mean_variance.safetensors")?,
    ) else {
        return Ok(());
    };
    check.group("steps without guidance");
    let root = json.root();
    let schedule = settings::schedule(&root)?;
    if let Some(map) = root.get("timestep_map") {
        check.equal("timestep_map", &map.usizes()?, &schedule.steps);
    }
    let x = images(&stored, "x_t", None)?;
    let at = indices(&stored, &x, &schedule)?;
    let told: Vec<usize> = at.iter().map(|&t| schedule.steps[t]).collect();
    let seen = per_image(&stored, "timesteps_seen_by_model", &x)?;
    check.equal("timesteps_seen_by_model", &seen, &told);
    let output = stored.f32_of_rank("model_output", 4)?;
    let name = root.get("unet").map_or(Ok(UNET), |n: Node<'_>| n.str())?;
    network(b, folder, name, &x, &told, &output, check)?;

    let find = |clip| moments(&schedule, &x, &output, &at, clip).of("moments");
    let (plain, clipped) = (find(false)?, find(true)?);
    for (name, found) in [("clip_false", &plain), ("clip_true", &clipped)] {
        if stored.contains(&format!("{name}.mean")) {
            compare(&stored, name, found, &schedule, &at, check)?;
        }
    }
    forth(&stored, &x, &schedule, &at, check)?;
    if stored.contains("p_sample_unguided_clip.sample") {
        let noise = images(&stored, "p_sample_unguided_clip.noise", Some(&x))?;
        let found = drawn(&clipped.mean, &clipped.log_variance, &noise, &at);
        let name = "p_sample_unguided_clip.sample";
        close(check, name, &stored.f32(name)?, &found, STEP);
    }
    let steps = stored.names().filter(|n| n.starts_with("ddim_eta"));
    for name in steps.filter_map(|n| n.strip_suffix(".sample")) {
        // `ddim_eta0_5` is 0.5. With noise the clean image is clipped.
        let eta = name["ddim_eta".len()..].replace('_', ".");
        let eta: f64 = eta
            .parse()
            .map_err(|_| stored.wrong(name, "a number after ddim_eta", eta.clone()))?;
        let noise = format!("{name}.noise");
        let (noise, clean) = match stored.contains(&noise) {
            true => (images(&stored, &noise, Some(&x))?, &clipped.clean),
            false => (Array::zeros(x.shape.clone()), &plain.clean),
        };
        let found = ddim(&schedule, &x, clean, &noise, &at, eta);
        let name = format!("{name}.sample");
        close(check, &name, &stored.f32(&name)?, &found, STEP);
    }
    Ok(())
}

/// Steps of the schedule, one per image.
pub fn indices(stored: &Tensors, images: &Array, schedule: &Schedule) -> Result<Vec<usize>> {
    let found = per_image(stored, "index_t", images)?;
    match found.iter().find(|t| **t >= schedule.len()) {
        None => Ok(found),
        Some(t) => {
            let expected = format!("steps below {}", schedule.len());
            Err(stored.wrong("index_t", &expected, t.to_string()))
        }
    }
}

/// The network's output for the same images.
fn network<B: Backend>(
    b: &B,
    folder: &Folder,
    name: &str,
    x: &Array,
    told: &[usize],
    expected: &Array,
    check: &mut Check,
) -> Result<()> {
    let Some((config, dict)) = super::networks::denoiser_of(folder, name, check)? else {
        check.absent(format!(
            "model_output of p_mean_variance ({name} is absent)"
        ));
        return Ok(());
    };
    let unet = Unet::new(b, &dict, config).of(name)?;
    let told: Vec<f32> = told.iter().map(|&t| t as f32).collect();
    let x = b.upload(x).of(name)?;
    let got = unet.predict(b, &x, &told, None).of(name)?;
    let got = b.download(&got).of(name)?;
    close(check, "model_output", expected, &got, OUTPUT);
    Ok(())
}

fn compare(
    stored: &Tensors,
    name: &str,
    found: &Moments,
    schedule: &Schedule,
    at: &[usize],
    check: &mut Check,
) -> Result<()> {
    for (part, got) in [
        ("mean", &found.mean),
        ("variance", &found.variance),
        ("log_variance", &found.log_variance),
    ] {
        let name = format!("{name}.{part}");
        close(check, &name, &stored.f32(&name)?, got, STEP);
    }
    let name = format!("{name}.pred_xstart");
    let expected = images(stored, &name, Some(&found.clean))?;
    for (i, &t) in at.iter().enumerate() {
        let amplified = (1.0 / schedule.alphas[t] - 1.0).sqrt();
        let tolerance = Tolerance::absolute(STEP.max(AMPLIFIED * amplified));
        let row = |a: &Array| -> Vec<f64> { a.row(i).iter().map(|&v| f64::from(v)).collect() };
        let what = format!("{name} of step {t}");
        check.close_all(what, &row(&expected), &row(&found.clean), tolerance);
    }
    Ok(())
}

/// Noise added, the posterior given a clean image, and the two fixed variances.
fn forth(
    stored: &Tensors,
    x: &Array,
    schedule: &Schedule,
    at: &[usize],
    check: &mut Check,
) -> Result<()> {
    if stored.contains("q_sample.x_t") {
        let clean = images(stored, "q_sample.x_start", Some(x))?;
        let noise = images(stored, "q_sample.noise", Some(x))?;
        let noisy = noised(schedule, &clean, &noise, at);
        let expected = stored.f32("q_sample.x_t")?;
        close(check, "q_sample.x_t", &expected, &noisy, STEP);
        if stored.contains("q_posterior.mean") {
            let found = posterior_mean(schedule, &clean, x, at);
            let expected = stored.f32("q_posterior.mean")?;
            close(check, "q_posterior.mean", &expected, &found, STEP);
        }
    }
    let low = |t: usize| schedule.posterior_variance[t];
    let log_low = |t: usize| schedule.posterior_log_variance[t];
    let log_high = |t: usize| schedule.fixed_large_log_variance(t);
    let high = |t: usize| log_high(t).exp();
    let options: [(&str, &dyn Fn(usize) -> f64); 6] = [
        ("q_posterior.variance_per_sample", &low),
        ("q_posterior.log_variance_clipped_per_sample", &log_low),
        ("fixed_small.variance_per_sample", &low),
        ("fixed_small.log_variance_per_sample", &log_low),
        ("fixed_large.variance_per_sample", &high),
        ("fixed_large.log_variance_per_sample", &log_high),
    ];
    for (name, of) in options {
        if stored.contains(name) {
            let found: Vec<f64> = at.iter().map(|&t| of(t)).collect();
            let expected = wide(&stored.f32(name)?);
            check.close_all(name, &expected, &found, Tolerance::absolute(STEP));
        }
    }
    Ok(())
}
