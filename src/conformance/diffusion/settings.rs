//! Settings as the golden JSON files have them.

use super::super::error::Of;
use super::super::json::Node;
use super::super::{ConformanceError, Result};
use crate::diffusion::{Betas, Cone, ConeRule, Distance, Guidance, Schedule, Strength, X0, spaced};

/// The schedule of `noise_schedule`, `diffusion_steps` and `timestep_respacing` (empty: all steps).
pub fn schedule(at: &Node<'_>) -> Result<Schedule> {
    let kind = at.at("noise_schedule")?;
    let betas = match kind.str()? {
        "linear" => Betas::Linear,
        "cosine" => Betas::Cosine,
        _ => return Err(kind.wrong("linear or cosine")),
    };
    let steps = at.at("diffusion_steps")?.usize()?;
    let respacing = at.at("timestep_respacing")?.str()?;
    let what = format!("{} of {steps} steps, respacing {respacing:?}", betas.name());
    let full = Schedule::new(betas, steps).of(&what)?;
    let mut schedule = match respacing {
        "" => full,
        _ => full
            .respaced(&spaced(steps, respacing).of(&what)?)
            .of(&what)?,
    };
    // Networks that are told steps as if there were a thousand.
    if let Some(rescale) = at.get("rescale_timesteps")
        && rescale.bool()?
    {
        if steps == 0 || 1000 % steps != 0 {
            return Err(rescale.wrong("a number of steps that divides 1000"));
        }
        let factor = 1000 / steps;
        schedule.steps.iter_mut().for_each(|t| *t *= factor);
    }
    Ok(schedule)
}

/// Steps of a chain that leaves out the first `skip_timesteps`.
pub fn start(at: &Node<'_>, schedule: &Schedule) -> Result<usize> {
    let skipped = at.at("skip_timesteps")?;
    let left = schedule.len().checked_sub(skipped.usize()?);
    left.filter(|s| *s > 0)
        .ok_or_else(|| skipped.wrong(&format!("less than the schedule's {}", schedule.len())))
}

/// The evaluated method as published, from the settings of a step or chain.
pub fn evaluated(at: &Node<'_>) -> Result<Guidance> {
    Ok(Guidance {
        x0: X0::ThroughUnet,
        cone: Some(published_cone(at.at("cone_degrees")?.f64()?)),
        scale: at.at("classifier_scale")?.f64()?,
        distance: Some(Distance {
            exponent: at.at("lp_custom")?.f64()?,
            weight: at.at("lp_regularization_scale")?.f64()?,
            through_unet: false,
        }),
        strength: Strength::Mean,
        clip: at.at("clip_denoised")?.bool()?,
    })
}

pub fn published_cone(degrees: f64) -> Cone {
    Cone {
        degrees,
        rule: ConeRule::Published,
    }
}

/// `x0P_coneC` and what follows it: whether gradients pass the UNet, and whether there is a cone.
pub fn variant(name: &str) -> Option<(X0, bool, &str)> {
    let (x0, rest) = switch(name.strip_prefix("x0")?)?;
    let (cone, rest) = switch(rest.strip_prefix("_cone")?)?;
    let x0 = if x0 { X0::ThroughUnet } else { X0::AtX0 };
    Some((x0, cone, rest.strip_prefix('_').unwrap_or(rest)))
}

fn switch(text: &str) -> Option<(bool, &str)> {
    match text.as_bytes().first()? {
        b'0' => Some((false, &text[1..])),
        b'1' => Some((true, &text[1..])),
        _ => None,
    }
}

/// Insists on the only value that cases of this layout are known with.
pub fn only<T: PartialEq>(node: &Node<'_>, value: &T, found: &T, expected: &str) -> Result<()> {
    match value == found {
        true => Ok(()),
        false => Err::<(), ConformanceError>(node.wrong(expected)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_variants_say_what_is_switched_on() {
        assert_eq!(
            variant("x01_cone0_tiny"),
            Some((X0::ThroughUnet, false, "tiny"))
        );
        assert_eq!(variant("x00_cone1"), Some((X0::AtX0, true, "")));
        assert_eq!(variant("x02_cone1"), None);
        assert_eq!(variant("settings"), None);
    }
}
