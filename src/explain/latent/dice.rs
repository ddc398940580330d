//! DiCE (Mothilal, Sharma & Tan 2020): hinge loss, weighted L1 distance, and a determinant that keeps explanations apart.
//!
//! `loss = hinge + λ₁ · proximity − λ₂ · det K`, `K_ij = 1 / (1 + dist(cᵢ, cⱼ))` (+ 1e-4 on the diagonal), by Adam.
//!
//! Correct: for each sample by itself; the hinge is of the log-odds of the other class, `max(0, 1 − logit)`; distances are means of
//! |difference| / MAD over the numbers, with the median absolute deviation of standardised training latents (1 where it
//! is 0); a sample stops when its loss changes by less than 1e-3 and all of its explanations are valid.
//! As released: all means are over the batch; the hinge takes log(|m| / |1 − m|) of the LARGEST LOGIT m, as if it were a
//! probability, whichever class it is of; the MADs are of raw latents, + 1e-3; the distances in K are sums over the batch.

use serde::{Deserialize, Serialize};

use super::adam::Adam;
use super::explainer::released_batch;
use super::latent_cf::narrow;
use super::{Explained, Explainer, LATENT, Latent, Noise, Pull, Result, Task, Variant, Weighed};

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Dice {
    pub variant: Variant,
    pub rate: f64,
    pub iterations: usize,
    /// λ₁.
    pub proximity: f64,
    /// λ₂.
    pub diversity: f64,
}

impl Default for Dice {
    fn default() -> Self {
        Self {
            variant: Variant::Correct,
            rate: 0.1,
            iterations: 50,
            proximity: 1.0,
            diversity: 1.0,
        }
    }
}

/// Loss, hinge, proximity and determinant of an iteration.
pub type Parts = [f64; 4];

/// A loss that changes less has settled.
const SETTLED: f64 = 1e-3;
const PATIENCE: usize = 10;
const SMALL: f64 = 1e-6;

type Wide = [f64; LATENT];

/// Median absolute deviation of each number.
pub fn median_deviations(latents: &[Latent]) -> Wide {
    std::array::from_fn(|k| {
        let mut column: Vec<f64> = latents.iter().map(|z| f64::from(z[k])).collect();
        let middle = median(&mut column);
        let mut gaps: Vec<f64> = column.iter().map(|v| (v - middle).abs()).collect();
        median(&mut gaps)
    })
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    match n {
        0 => 0.0,
        _ if n.is_multiple_of(2) => (values[n / 2 - 1] + values[n / 2]) / 2.0,
        _ => values[n / 2],
    }
}

fn sign(x: f64) -> f64 {
    if x == 0.0 { 0.0 } else { x.signum() }
}

/// Explanations of some samples that share one loss.
struct Group<'a> {
    origins: &'a [Latent],
    n: usize,
    weights: Wide,
}

impl Group<'_> {
    /// Mean weighted distance to the originals; its derivative times `factor` is added to `gradient`.
    fn proximity(&self, z: &[Wide], factor: f64, gradient: &mut [f64]) -> f64 {
        let count = (z.len() * LATENT) as f64;
        let mut sum = 0.0;
        for (i, row) in z.iter().enumerate() {
            let origin = &self.origins[i / self.n];
            for k in 0..LATENT {
                let gap = row[k] - f64::from(origin[k]);
                sum += gap.abs() * self.weights[k];
                gradient[i * LATENT + k] += factor * sign(gap) * self.weights[k] / count;
            }
        }
        sum / count
    }

    /// det K; its derivative times `factor` is added to `gradient`.
    fn determinant(&self, z: &[Wide], factor: f64, gradient: &mut [f64]) -> f64 {
        let n = self.n;
        if n == 1 {
            return 0.0;
        }
        let mut distance = vec![0.0; n * n];
        for rows in z.chunks_exact(n) {
            for i in 0..n {
                for j in 0..i {
                    let gap = |k: usize| (rows[i][k] - rows[j][k]).abs() * self.weights[k];
                    let d = (0..LATENT).map(gap).sum::<f64>() / LATENT as f64;
                    distance[i * n + j] += d;
                    distance[j * n + i] += d;
                }
            }
        }
        let mut matrix: Vec<f64> = distance.iter().map(|d| 1.0 / (1.0 + d)).collect();
        (0..n).for_each(|i| matrix[i * n + i] += 1e-4);
        let (determinant, cofactors) = determinant_and_cofactors(&matrix, n);
        for (sample, rows) in z.chunks_exact(n).enumerate() {
            for i in 0..n {
                for j in 0..n {
                    if i == j {
                        continue;
                    }
                    let by_entry = cofactors[i * n + j] + cofactors[j * n + i];
                    let slope = -1.0 / (1.0 + distance[i * n + j]).powi(2);
                    let scale = factor * by_entry * slope / LATENT as f64;
                    for k in 0..LATENT {
                        gradient[(sample * n + i) * LATENT + k] +=
                            scale * self.weights[k] * sign(rows[i][k] - rows[j][k]);
                    }
                }
            }
        }
        determinant
    }
}

/// The determinant, and its derivative by each entry: det · A⁻ᵀ. Gauss–Jordan with pivots; a singular matrix has
/// determinant 0 and, as PyTorch has it, no derivative.
fn determinant_and_cofactors(matrix: &[f64], n: usize) -> (f64, Vec<f64>) {
    let mut a = matrix.to_vec();
    let mut inverse = vec![0.0; n * n];
    (0..n).for_each(|i| inverse[i * n + i] = 1.0);
    let mut determinant = 1.0;
    for c in 0..n {
        let pivot = (c..n).max_by(|&x, &y| a[x * n + c].abs().total_cmp(&a[y * n + c].abs()));
        let pivot = pivot.unwrap_or(c);
        if a[pivot * n + c] == 0.0 {
            return (0.0, vec![0.0; n * n]);
        }
        if pivot != c {
            determinant = -determinant;
            for k in 0..n {
                a.swap(pivot * n + k, c * n + k);
                inverse.swap(pivot * n + k, c * n + k);
            }
        }
        let head = a[c * n + c];
        determinant *= head;
        for k in 0..n {
            a[c * n + k] /= head;
            inverse[c * n + k] /= head;
        }
        for r in (0..n).filter(|&r| r != c) {
            let factor = a[r * n + c];
            if factor != 0.0 {
                for k in 0..n {
                    a[r * n + k] -= factor * a[c * n + k];
                    inverse[r * n + k] -= factor * inverse[c * n + k];
                }
            }
        }
    }
    let cofactor = |i: usize| determinant * inverse[(i % n) * n + i / n];
    (determinant, (0..n * n).map(cofactor).collect())
}

impl Dice {
    /// As released; `mads` are those of raw training latents; `watch` hears the parts of each iteration's loss.
    pub fn released(
        &self,
        world: &Explained<'_>,
        task: &Task<'_>,
        mads: &Wide,
        watch: &mut dyn FnMut(Parts),
    ) -> Result<Vec<Latent>> {
        let group = Group {
            origins: task.z,
            n: task.n,
            weights: mads.map(|m| 1.0 / (m + 1e-3)),
        };
        let targets: Vec<usize> = task.classes().iter().map(|c| 1 - c).collect();
        let mut z: Vec<Wide> = task.spread().iter().map(|z| z.map(f64::from)).collect();
        let rows = z.len() as f64;
        let by = |row: usize, seen: &super::Seen<'_>, _: &mut [f32]| {
            let label = 2.0 * targets[row / task.n] as f64 - 1.0;
            let largest = crate::metrics::latent::class(seen.logits);
            let m = f64::from(seen.logits[largest]);
            let (above, below) = (m - SMALL, 1.0 - m - SMALL);
            let loss = (1.0 - label * (above.abs() / below.abs()).ln()).max(0.0);
            let slope = -label * (1.0 / above + 1.0 / below) / rows;
            let mut by_logits = [0.0; 2];
            if loss > 0.0 && slope.is_finite() {
                by_logits[largest] = slope as f32;
            }
            Weighed {
                loss: loss / rows,
                by_logits,
            }
        };
        let pull = Pull {
            images: false,
            by: &by,
        };
        let mut adam = Adam::new(self.rate, z.len() * LATENT);
        let (mut before, mut patience) = (0.0, PATIENCE);
        for _ in 0..self.iterations {
            let pulled = world.gradient(&narrow(&z), &pull)?;
            let hinge: f64 = pulled.losses.iter().sum();
            let mut gradient = wide(&pulled.gradient);
            let (l1, l2) = (self.proximity, self.diversity);
            let proximity = match l1 > 0.0 {
                true => group.proximity(&z, l1, &mut gradient),
                false => 0.0,
            };
            let determinant = match l2 > 0.0 {
                true => group.determinant(&z, -l2, &mut gradient),
                false => 0.0,
            };
            let loss = hinge + l1 * proximity - l2 * determinant;
            watch([loss, hinge, proximity, determinant]);
            adam.step(z.as_flattened_mut(), &gradient);
            let settled = (loss - before).abs() <= SETTLED;
            before = loss;
            // The package looks at its patience before it takes from it: the eleventh settled iteration is the last.
            if patience == 0 {
                break;
            }
            if settled {
                patience -= 1;
                let mut of_target = { pulled.logits.iter().enumerate() }
                    .map(|(row, logits)| logits[targets[row / task.n]]);
                if of_target.all(|logit| logit > 0.0) {
                    break;
                }
            }
        }
        Ok(narrow(&z))
    }

    fn correct(&self, world: &Explained<'_>, task: &Task<'_>) -> Result<Vec<Latent>> {
        let mads = median_deviations(&world.training());
        let weights = mads.map(|m| if m > 0.0 { 1.0 / m } else { 1.0 });
        let targets: Vec<usize> = task.classes().iter().map(|c| 1 - c).collect();
        let n = task.n;
        let mut z: Vec<Wide> = task.spread().iter().map(|z| z.map(f64::from)).collect();
        let mut adams = vec![Adam::new(self.rate, n * LATENT); task.z.len()];
        let mut before = vec![f64::INFINITY; task.z.len()];
        let mut open: Vec<usize> = (0..task.z.len()).collect();
        for _ in 0..self.iterations {
            let rows = |i: usize| i * n..(i + 1) * n;
            let by = |row: usize, seen: &super::Seen<'_>, _: &mut [f32]| {
                let target = targets[open[row / n]];
                let odds = f64::from(seen.logits[target]) - f64::from(seen.logits[1 - target]);
                let loss = (1.0 - odds).max(0.0) / n as f64;
                let mut by_logits = [0.0; 2];
                if loss > 0.0 {
                    by_logits[target] = -1.0 / n as f32;
                    by_logits[1 - target] = 1.0 / n as f32;
                }
                Weighed { loss, by_logits }
            };
            let pull = Pull {
                images: false,
                by: &by,
            };
            let at: Vec<Wide> = open.iter().flat_map(|&i| z[rows(i)].to_vec()).collect();
            let pulled = world.gradient(&narrow(&at), &pull)?;
            let mut still = Vec::new();
            for (place, &i) in open.iter().enumerate() {
                let group = Group {
                    origins: &task.z[i..=i],
                    n,
                    weights,
                };
                let own = rows(place);
                let mut gradient = wide(&pulled.gradient[own.clone()]);
                let hinge: f64 = pulled.losses[own.clone()].iter().sum();
                let current = &mut z[rows(i)];
                let proximity = group.proximity(current, self.proximity, &mut gradient);
                let determinant = group.determinant(current, -self.diversity, &mut gradient);
                let loss = hinge + self.proximity * proximity - self.diversity * determinant;
                let valid = { pulled.logits[own].iter() }
                    .all(|&l| crate::metrics::latent::class(l) == targets[i]);
                let settled = (loss - before[i]).abs() <= SETTLED;
                before[i] = loss;
                if settled && valid {
                    continue;
                }
                adams[i].step(current.as_flattened_mut(), &gradient);
                still.push(i);
            }
            open = still;
            if open.is_empty() {
                break;
            }
        }
        Ok(narrow(&z))
    }
}

fn wide(gradient: &[Latent]) -> Vec<f64> {
    gradient
        .as_flattened()
        .iter()
        .map(|&v| f64::from(v))
        .collect()
}

impl Explainer for Dice {
    fn name(&self) -> &str {
        "dice"
    }

    fn explain(
        &self,
        world: &Explained<'_>,
        task: &Task<'_>,
        _: &mut dyn Noise,
    ) -> Result<Vec<Latent>> {
        match self.variant {
            Variant::Correct => self.correct(world, task),
            Variant::AsReleased => {
                let mads = median_deviations(world.training_raw());
                self.released(world, task, &mads, &mut |_| ())
            }
        }
    }

    fn is_random(&self) -> bool {
        false
    }

    fn batch(&self) -> usize {
        released_batch(self.variant)
    }
}
