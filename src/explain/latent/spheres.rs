//! Growing spheres (Laugel et al. 2017): the nearest enemy (a latent of the other class), then as few changed numbers as keep
//! it one.
//!
//! A ball of the first radius is halved until it holds no enemy; then layers around it grow until there are some. Both
//! phases draw `candidates` points. Numbers are set back to the sample's in ascending order of their change.
//!
//! Correct: layers are shells between two radii, with the ball's radius as their thickness; they are drawn until there are as many enemies as
//! explanations are wanted, of which the nearest are taken; setting back ends at the first number that undoes the flip. If balls down to
//! 1e-6 hold enemies, those of the last one are taken.
//! As released: layers are spheres, the first of 1.5 times the radius, all enemies of the first layer that has any are equally near; setting back goes
//! on over all numbers; balls that never run out of enemies give nothing.
//!
//! A search ends when its layers are outside of all that the generator can be shown (as released: four times as far; the package would
//! search for ever). Explanations that were not found are the sample itself.

use serde::{Deserialize, Serialize};

use super::explainer::released_batch;
use super::{Explained, Explainer, LATENT, Latent, Noise, Result, Task, Variant};
use crate::metrics::latent::class;

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Spheres {
    pub variant: Variant,
    /// Points of each ball or layer.
    pub candidates: usize,
    /// η.
    pub first_radius: f64,
    /// What a radius is divided by; above 1.
    pub shrink: f64,
}

impl Default for Spheres {
    fn default() -> Self {
        Self {
            variant: Variant::Correct,
            candidates: 50,
            first_radius: 10.0,
            shrink: 2.0,
        }
    }
}

/// Balls are not made smaller.
const SMALLEST: f64 = 1e-6;

/// Where a search is.
enum Phase {
    Ball,
    /// Inner radius of the next layer, and its thickness.
    Layer(f64, f64),
    Done,
}

struct Search {
    radius: f64,
    phase: Phase,
    /// Beyond this nothing new is drawn.
    reach: f64,
    enemies: Vec<Latent>,
}

impl Spheres {
    /// Enemies of each sample: those that explanations are made from, the nearest first.
    pub fn enemies(
        &self,
        world: &Explained<'_>,
        task: &Task<'_>,
        noise: &mut dyn Noise,
    ) -> Result<Vec<Vec<Latent>>> {
        let [low, high] = world.limits();
        let classes = task.classes();
        let mut searches: Vec<Search> = { task.z.iter() }
            .map(|z| {
                let far = |k: usize| f64::from((z[k] - low[k]).abs().max((z[k] - high[k]).abs()));
                let reach = (0..LATENT).map(|k| far(k).powi(2)).sum::<f64>().sqrt();
                Search {
                    radius: self.first_radius,
                    phase: Phase::Ball,
                    reach: match self.variant {
                        Variant::Correct => reach,
                        Variant::AsReleased => 4.0 * reach,
                    },
                    enemies: Vec::new(),
                }
            })
            .collect();
        loop {
            let mut points = Vec::new();
            let mut open = Vec::new();
            for (i, search) in searches.iter().enumerate() {
                if !matches!(search.phase, Phase::Done) {
                    open.push(i);
                    points.extend(self.draw(&search.phase, search.radius, &task.z[i], i, noise));
                }
            }
            if open.is_empty() {
                break;
            }
            let logits = world.logits(&points)?;
            for (place, &i) in open.iter().enumerate() {
                let own = place * self.candidates..(place + 1) * self.candidates;
                let found: Vec<Latent> = { points[own.clone()].iter().zip(&logits[own]) }
                    .filter(|(_, logits)| class(**logits) != classes[i])
                    .map(|(point, _)| *point)
                    .collect();
                self.advance(&mut searches[i], found, task.n);
            }
        }
        let nearest = |(search, z): (Search, &Latent)| {
            let distance = |e: &Latent| -> f64 {
                let gaps = e.iter().zip(z);
                gaps.map(|(a, b)| (f64::from(*a) - f64::from(*b)).powi(2))
                    .sum()
            };
            let mut enemies = search.enemies;
            enemies.sort_by(|a, b| distance(a).total_cmp(&distance(b)));
            enemies
        };
        Ok(searches.into_iter().zip(task.z).map(nearest).collect())
    }

    fn advance(&self, search: &mut Search, found: Vec<Latent>, wanted: usize) {
        let correct = self.variant == Variant::Correct;
        match search.phase {
            Phase::Ball if found.is_empty() => {
                let inner = match correct {
                    true => search.radius,
                    false => search.radius / self.shrink,
                };
                search.phase = Phase::Layer(inner, inner * if correct { 1.0 } else { self.shrink });
            }
            Phase::Ball => {
                search.radius /= self.shrink;
                if search.radius < SMALLEST {
                    search.phase = Phase::Done;
                    if correct {
                        search.enemies = found;
                    }
                }
            }
            Phase::Layer(inner, step) => {
                let some = !found.is_empty();
                search.enemies.extend(found);
                let enough = match correct {
                    true => search.enemies.len() >= wanted,
                    false => some,
                };
                search.phase = match enough || inner + step > search.reach {
                    true => Phase::Done,
                    false => Phase::Layer(inner + step, step),
                };
            }
            Phase::Done => {}
        }
    }

    /// Points of a ball (the first numbers of a sphere with two more dimensions), a sphere or a shell.
    fn draw(
        &self,
        phase: &Phase,
        radius: f64,
        centre: &Latent,
        sample: usize,
        noise: &mut dyn Noise,
    ) -> Vec<Latent> {
        let n = self.candidates;
        let (columns, radii): (usize, Vec<f64>) = match phase {
            Phase::Layer(inner, step) if self.variant == Variant::Correct => {
                let d = LATENT as f64;
                let [a, b] = [inner.powf(d), (inner + step).powf(d)];
                let shell = noise.uniforms(sample, n);
                (
                    LATENT,
                    shell
                        .iter()
                        .map(|u| (a + u * (b - a)).powf(1.0 / d))
                        .collect(),
                )
            }
            Phase::Layer(inner, step) => (LATENT, vec![inner + step; n]),
            _ => (LATENT + 2, vec![radius; n]),
        };
        let normals = noise.normals(sample, n * columns);
        let point = |(row, r): (&[f32], &f64)| {
            let norm = row
                .iter()
                .map(|v| f64::from(*v).powi(2))
                .sum::<f64>()
                .sqrt();
            let scale = r / norm.max(f64::MIN_POSITIVE);
            std::array::from_fn(|k| (f64::from(row[k]) * scale + f64::from(centre[k])) as f32)
        };
        normals
            .chunks_exact(columns)
            .zip(&radii)
            .map(point)
            .collect()
    }

    /// Sets numbers of enemies back to those of their samples while they stay enemies.
    pub fn sparse(
        &self,
        world: &Explained<'_>,
        enemies: &[Latent],
        origins: &[Latent],
        classes: &[usize],
    ) -> Result<Vec<Latent>> {
        let orders: Vec<Vec<usize>> = { enemies.iter().zip(origins) }
            .map(|(e, z)| {
                let mut order: Vec<usize> = (0..LATENT).collect();
                let change = |k: &usize| (e[*k] - z[*k]).abs();
                order.sort_by(|a, b| change(a).total_cmp(&change(b)));
                order
            })
            .collect();
        let mut sparse = enemies.to_vec();
        let mut open: Vec<usize> = (0..enemies.len()).collect();
        for place in 0..LATENT {
            let tried: Vec<Latent> = { open.iter() }
                .map(|&i| {
                    let mut tried = sparse[i];
                    tried[orders[i][place]] = origins[i][orders[i][place]];
                    tried
                })
                .collect();
            let logits = world.logits(&tried)?;
            let mut still = Vec::new();
            for ((&i, tried), logits) in open.iter().zip(&tried).zip(&logits) {
                let enemy = class(*logits) != classes[i];
                if enemy {
                    sparse[i] = *tried;
                }
                if enemy || self.variant == Variant::AsReleased {
                    still.push(i);
                }
            }
            open = still;
        }
        Ok(sparse)
    }
}

impl Explainer for Spheres {
    fn name(&self) -> &str {
        "gs"
    }

    fn explain(
        &self,
        world: &Explained<'_>,
        task: &Task<'_>,
        noise: &mut dyn Noise,
    ) -> Result<Vec<Latent>> {
        let enemies = self.enemies(world, task, noise)?;
        let classes = task.classes();
        let mut all = task.copies();
        let mut places = Vec::new();
        for (i, enemies) in enemies.iter().enumerate() {
            for (k, enemy) in enemies.iter().take(task.n).enumerate() {
                all[i * task.n + k] = *enemy;
                places.push(i * task.n + k);
            }
        }
        let chosen: Vec<Latent> = places.iter().map(|&p| all[p]).collect();
        let origins: Vec<Latent> = places.iter().map(|&p| task.z[p / task.n]).collect();
        let classes: Vec<usize> = places.iter().map(|&p| classes[p / task.n]).collect();
        let sparse = self.sparse(world, &chosen, &origins, &classes)?;
        for (&place, latent) in places.iter().zip(sparse) {
            all[place] = latent;
        }
        Ok(all)
    }

    fn batch(&self) -> usize {
        released_batch(self.variant)
    }
}
