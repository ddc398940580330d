//! Growing spheres of the package: its draws replayed, and what many seeds give.
//!
//! All enemies of a sphere are equally far, so that which of them the package took, and in which order, is rounding. Hence each of its rows must
//! be one that an enemy of the last sphere leads to; as many as there are enemies, at most as many as were wanted.

use super::super::check::{Check, Tolerance};
use super::super::error::Of;
use super::super::json::Node;
use super::super::tensors::Tensors;
use super::super::{ConformanceError, Result};
use super::latents;
use super::released_world::ReleasedWorld;
use super::traces::Batch;
use crate::explain::latent::spheres::Spheres;
use crate::explain::latent::{Explainer, Keyed, LATENT, Latent, Noise, Task, Variant};

const SAME: f64 = 1e-6;

/// The package's draws, in order.
struct Recorded {
    draws: Vec<Vec<f32>>,
    next: usize,
    /// What was asked for and not there.
    missing: bool,
}

impl Noise for Recorded {
    fn normals(&mut self, _: usize, count: usize) -> Vec<f32> {
        self.next += 1;
        match self.draws.get(self.next - 1) {
            Some(draw) if draw.len() == count => draw.clone(),
            _ => {
                self.missing = true;
                vec![0.0; count]
            }
        }
    }

    fn uniforms(&mut self, _: usize, count: usize) -> Vec<f64> {
        self.missing = true;
        vec![0.0; count]
    }

    fn below(&mut self, _: usize, _: usize) -> usize {
        self.missing = true;
        0
    }

    fn order(&mut self, _: usize, n: usize) -> Vec<usize> {
        self.missing = true;
        (0..n).collect()
    }
}

pub fn trace(
    world: &ReleasedWorld,
    arrays: &Tensors,
    batch: &Batch,
    told: Option<Node<'_>>,
    check: &mut Check,
) -> Result<()> {
    let rows = latents(arrays, "gs.z_cf")?;
    let shape = arrays.f32("gs.z_cf")?.shape;
    let samples = shape.first().copied().unwrap_or(0);
    if shape.len() != 3 || samples == 0 || samples > batch.z.len() || shape[1] == 0 {
        let found = format!("{shape:?}");
        return Err(arrays.wrong("gs.z_cf", "[samples, explanations, 11]", found));
    }
    let mut settings = Spheres {
        variant: Variant::AsReleased,
        ..Spheres::default()
    };
    let mut counts = None;
    if let Some(told) = &told {
        settings.first_radius = told.at("first_radius")?.f64()?;
        settings.candidates = told.at("n_candidates")?.usize()?;
        settings.shrink = told.at("decrease_radius")?.f64()?;
        let layer = told.at("layer")?;
        if layer.str()? != "sphere" {
            return Err(layer.wrong("sphere"));
        }
        counts = Some(told.at("draws_per_sample")?.usizes()?);
    }
    let n = shape[1];
    let view = world.explained();
    for k in 0..samples {
        let mut noise = Recorded {
            draws: draws(arrays, k)?,
            next: 0,
            missing: false,
        };
        let task = Task {
            z: &batch.z[k..=k],
            logits: &batch.logits[k..=k],
            images: &[],
            n,
        };
        let enemies = settings
            .enemies(&view, &task, &mut noise)
            .of("gs")?
            .remove(0);
        check.equal(
            format!("sample {k}: its draws suffice"),
            &false,
            &noise.missing,
        );
        if let Some(counts) = &counts {
            let told = counts.get(k).copied().unwrap_or(0);
            check.equal(format!("sample {k}: draws"), &told, &noise.next);
        }
        let origins = vec![task.z[0]; enemies.len()];
        let classes = vec![task.classes()[0]; enemies.len()];
        let sparse = settings
            .sparse(&view, &enemies, &origins, &classes)
            .of("gs")?;
        let own = &rows[k * n..(k + 1) * n];
        let changed: Vec<&Latent> = own.iter().filter(|r| **r != task.z[0]).collect();
        let wanted = enemies.len().min(n);
        check.equal(
            format!("sample {k}: explanations found"),
            &changed.len(),
            &wanted,
        );
        let gap = |row: &Latent| -> f64 {
            let to = |e: &Latent| {
                let gaps = e.iter().zip(row);
                gaps.fold(0.0f64, |m, (a, b)| m.max(f64::from((a - b).abs())))
            };
            sparse.iter().map(to).fold(f64::INFINITY, f64::min)
        };
        let worst = changed.iter().map(|row| gap(row)).fold(0.0, f64::max);
        check.close(
            format!("sample {k}: rows that enemies lead to"),
            0.0,
            worst,
            Tolerance::absolute(SAME),
        );
    }
    Ok(())
}

/// `gs.sK.drawNN` in order.
fn draws(arrays: &Tensors, sample: usize) -> Result<Vec<Vec<f32>>> {
    let mut all = Vec::new();
    loop {
        let name = format!("gs.s{sample}.draw{:02}", all.len());
        if !arrays.contains(&name) {
            return Ok(all);
        }
        all.push(arrays.f32_of_rank(&name, 2)?.data);
    }
}

/// Mean size and mean number of changed numbers over seeds: ours within four standard errors of the package's.
pub fn seeds(
    world: &ReleasedWorld,
    batch: &Batch,
    told: &Node<'_>,
    check: &mut Check,
) -> Result<()> {
    let seeds = told.at("n_seeds")?.usize()?;
    if !(2..=1000).contains(&seeds) {
        return Err(told.at("n_seeds")?.wrong("2 to 1000"));
    }
    let settings = Spheres {
        variant: Variant::AsReleased,
        ..Spheres::default()
    };
    let n = 10;
    let (mut sizes, mut changes) = (Vec::new(), Vec::new());
    for seed in 0..seeds {
        let mut noise = Keyed::new(seed as u64, 0, batch.z.len());
        let found = settings.explain(&world.explained(), &batch.task(n), &mut noise);
        let found = found.of("gs_seeds")?;
        let (mut size, mut changed) = (0.0, 0.0);
        for (i, z_cf) in found.iter().enumerate() {
            let z = &batch.z[i / n];
            let gaps = (0..LATENT).map(|k| f64::from(z_cf[k] - z[k]));
            size += gaps.clone().map(|g| g * g).sum::<f64>().sqrt();
            changed += gaps.filter(|g| *g != 0.0).count() as f64;
        }
        sizes.push(size / found.len() as f64);
        changes.push(changed / found.len() as f64);
    }
    for (field, own) in [("mean_l2", sizes), ("mean_nonzero", changes)] {
        let expected = told.at(field)?.f64s()?;
        let [mean, std] = expected[..] else {
            return Err(ConformanceError::Content {
                file: "traces.json".into(),
                place: format!("gs_seeds.{field}"),
                expected: "a mean and a standard deviation".into(),
                found: format!("{} numbers", expected.len()),
            });
        };
        let got = own.iter().sum::<f64>() / seeds as f64;
        let error = std * (2.0 / seeds as f64).sqrt();
        check.close(field, mean, got, Tolerance::absolute(4.0 * error));
    }
    Ok(())
}
