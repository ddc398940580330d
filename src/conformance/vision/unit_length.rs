//! `unit_normalisation_eps_case`: how channel vectors near zero are scaled to unit length.
//!
//! The distance of a feature map from zero under a head that picks one channel is that channel's squared unit-length
//! value, which shows what the device's fused operation does with tiny vectors. 1e-4 relative + 1e-7.

use super::super::Result;
use super::super::check::Check;
use super::super::error::Of;
use super::super::json::Node;
use super::lpips::LPIPS;
use crate::tensor::{Array, Backend};

pub fn run<B: Backend>(backend: &B, case: &Node<'_>, check: &mut Check) -> Result<()> {
    check.group("LPIPS unit length");
    let layout = case.at("layout")?.str()?;
    let input: Vec<f32> = case
        .at("input")?
        .f64s()?
        .iter()
        .map(|&v| v as f32)
        .collect();
    let expected = case.at("lpips_package_output")?.f64s()?;
    if let Some(other) = case.get("torchmetrics_output") {
        other.skip();
        check.unused(
            "lpips_expected.json: unit_normalisation_eps_case.torchmetrics_output",
            "another convention, x/sqrt(1e-8 + sum x²); foil follows the lpips package, x/(norm + 1e-10)",
        );
    }
    let Some(shape) = shape_in(layout) else {
        check.unknown(format!("unit_normalisation_eps_case: layout {layout:?}"));
        return Ok(());
    };
    let channels = shape[1];
    let what = "unit_normalisation_eps_case";
    let x = Array::new(shape.clone(), input.clone()).of(what)?;
    let (x, zero) = (
        backend.upload(&x).of(what)?,
        backend.upload(&Array::zeros(shape)).of(what)?,
    );
    let mut got = vec![0.0; input.len()];
    let pixels = input.len() / channels.max(1);
    for channel in 0..channels {
        let mut head = vec![0.0; channels];
        head[channel] = 1.0;
        let squared = backend
            .download(&backend.feature_distance(&x, &zero, &head).of(what)?)
            .of(what)?;
        for (pixel, &value) in squared.data.iter().enumerate() {
            let at = channel * pixels + pixel;
            got[at] = f64::from(value).sqrt() * f64::from(input[at].signum());
        }
    }
    check.close_all(format!("{what} {layout}"), &expected, &got, LPIPS);
    Ok(())
}

/// The shape of one NCHW image in a text such as `NCHW [1,4,2,3], …`.
fn shape_in(layout: &str) -> Option<Vec<usize>> {
    let numbers = layout.strip_prefix("NCHW")?.split(['[', ']']).nth(1)?;
    let shape: Option<Vec<usize>> = numbers.split(',').map(|n| n.trim().parse().ok()).collect();
    shape.filter(|s| s.len() == 4 && s[0] == 1)
}
