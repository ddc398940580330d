//! Schedules, respacings and all coefficients, in f64: 1e-12 relative.

use super::super::Result;
use super::super::check::{Check, Tolerance};
use super::super::folder::Folder;
use super::super::json::Node;
use super::super::tensors::Tensors;
use super::settings;
use crate::diffusion::{Schedule, spaced};

const EXACT: Tolerance = Tolerance::relative(1e-12);

pub fn run(folder: &Folder, check: &mut Check) -> Result<()> {
    respacings(folder, check)?;
    let stored = folder.tensors("schedules.safetensors")?;
    let Some(json) = folder.json("schedules.json")? else {
        return match stored {
            Some(stored) => by_name(&stored, check),
            None => Ok(()),
        };
    };
    check.group("schedules");
    for (key, case) in json.root().fields()? {
        let schedule = settings::schedule(&case)?;
        described(key, &case, &schedule, check)?;
        if let Some(stored) = &stored {
            vectors(key, stored, &schedule, check)?;
        }
    }
    Ok(())
}

/// Which steps a respacing keeps, and what it refuses.
fn respacings(folder: &Folder, check: &mut Check) -> Result<()> {
    let Some(json) = folder.json("space_timesteps.json")? else {
        return Ok(());
    };
    check.group("respacings");
    for case in json.root().items()? {
        let steps = case.at("num_timesteps")?.usize()?;
        let text = case.at("section_counts")?.str()?;
        let found = spaced(steps, text);
        let what = format!("{text} of {steps}");
        match case.get("error") {
            Some(error) if error.bool()? => check.equal(what, &true, &found.is_err()),
            _ => {
                let expected = case.at("result")?.usizes()?;
                check.equal(what, &Some(expected), &found.ok());
            }
        }
    }
    Ok(())
}

/// A coefficient of every step, by the name of the public code.
fn coefficient(schedule: &Schedule, name: &str) -> Option<Vec<f64>> {
    let of = |values: &[f64], f: &dyn Fn(f64) -> f64| Some(values.iter().map(|&v| f(v)).collect());
    let alphas = &schedule.alphas[..];
    match name {
        "betas" => Some(schedule.betas.clone()),
        "log_betas_upper_bound" => of(&schedule.betas, &f64::ln),
        "alphas_cumprod" => Some(alphas.to_vec()),
        "alphas_cumprod_prev" => Some(schedule.earlier_alphas.clone()),
        "alphas_cumprod_next" => Some([alphas.get(1..)?, &[0.0]].concat()),
        "sqrt_alphas_cumprod" => of(alphas, &f64::sqrt),
        "sqrt_one_minus_alphas_cumprod" => of(alphas, &|a| (1.0 - a).sqrt()),
        "log_one_minus_alphas_cumprod" => of(alphas, &|a| (1.0 - a).ln()),
        "sqrt_recip_alphas_cumprod" => of(alphas, &|a| (1.0 / a).sqrt()),
        "sqrt_recipm1_alphas_cumprod" => of(alphas, &|a| (1.0 / a - 1.0).sqrt()),
        "posterior_variance" => Some(schedule.posterior_variance.clone()),
        "posterior_log_variance_clipped" => Some(schedule.posterior_log_variance.clone()),
        "posterior_mean_coef1" => Some(schedule.posterior_mean[0].clone()),
        "posterior_mean_coef2" => Some(schedule.posterior_mean[1].clone()),
        "timestep_map" => Some(schedule.steps.iter().map(|&t| t as f64).collect()),
        _ => None,
    }
}

/// Single values and sums; fields that nobody knows stay unread.
fn described(key: &str, case: &Node<'_>, schedule: &Schedule, check: &mut Check) -> Result<()> {
    let steps = case.at("num_timesteps")?.usize()?;
    check.equal(format!("{key} steps"), &steps, &schedule.len());
    let map = case.at("timestep_map")?.usizes()?;
    check.identical(format!("{key} timestep_map"), &map, &schedule.steps);
    case.skip_fields(&["sample_indices"]);
    for (name, values) in case.at("values")?.fields()? {
        let Some(found) = coefficient(schedule, name) else {
            continue;
        };
        let (mut expected, mut got) = (Vec::new(), Vec::new());
        for (index, value) in values.fields()? {
            expected.push(value.f64()?);
            let at: Option<usize> = index.parse().ok();
            let found = at.and_then(|at| found.get(at));
            got.push(*found.ok_or_else(|| value.wrong("a step of the schedule"))?);
        }
        check.close_all(format!("{key} {name}"), &expected, &got, EXACT);
    }
    for (name, sum) in case.at("sums")?.fields()? {
        if let Some(found) = coefficient(schedule, name) {
            let found = found.iter().sum();
            check.close(format!("{key} sum of {name}"), sum.f64()?, found, EXACT);
        }
    }
    Ok(())
}

fn vectors(key: &str, stored: &Tensors, schedule: &Schedule, check: &mut Check) -> Result<()> {
    let prefix = format!("{key}.");
    let names = stored.names().filter_map(|n| n.strip_prefix(&prefix));
    for (name, found) in names.filter_map(|n| Some((n, coefficient(schedule, n)?))) {
        let name = format!("{key}.{name}");
        check.close_all(&name, &stored.f64(&name)?, &found, EXACT);
    }
    Ok(())
}

/// Without the JSON file: names say the settings, `<schedule>_<steps>_<respacing or full>`.
fn by_name(stored: &Tensors, check: &mut Check) -> Result<()> {
    check.group("schedules");
    let keys = stored.names().filter_map(|n| n.strip_suffix(".betas"));
    for key in keys {
        let [kind, steps, respacing] = key.splitn(3, '_').collect::<Vec<_>>()[..] else {
            continue;
        };
        let respacing = match respacing {
            "full" => String::new(),
            parts => parts.replace('-', ","),
        };
        let text = serde_json::json!({
            "noise_schedule": kind,
            "diffusion_steps": steps.parse::<usize>().unwrap_or(0),
            "timestep_respacing": respacing,
        });
        let json = super::super::json::Json::parse(key, text.to_string().as_bytes())?;
        vectors(key, stored, &settings::schedule(&json.root())?, check)?;
    }
    Ok(())
}
