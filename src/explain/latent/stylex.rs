//! AttFind of StylEx (Lang et al. 2021): which single numbers of a latent, moved towards a limit, raise the logit of the
//! other class.
//!
//! Correct: number `s` moves by `shift (limit − z_s)`; a number that raises the logit in both directions says nothing and is left
//! out. Independent strategy: for each sample, explanation i is the i-th best number and direction, while the logit
//! rises by more than `threshold`; further explanations are the sample itself. Subset strategy: explanation i moves the i best together.
//! As released: the target is `z_s · shift (limit − z_s)`, a product; numbers are chosen once for the whole batch by mean effects; when one
//! has been taken, places among the remaining numbers are used as if they were among all; what is left of the explanations differs by 0.01 i.

use serde::{Deserialize, Serialize};

use super::explainer::released_batch;
use super::{Explained, Explainer, LATENT, Latent, Noise, Result, Task, Variant};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    #[default]
    Independent,
    Subset,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct StylEx {
    pub variant: Variant,
    /// t: the change of the logit that explains a sample.
    pub threshold: f64,
    /// How far towards the limit a number is moved.
    pub shift: f64,
    pub strategy: Strategy,
}

impl Default for StylEx {
    fn default() -> Self {
        Self {
            variant: Variant::Correct,
            threshold: 0.3,
            shift: 0.8,
            strategy: Strategy::Independent,
        }
    }
}

/// A value for each number of a latent and each direction: towards the lower and towards the upper limit.
pub type Both = [[f32; 2]; LATENT];

/// What was found for a batch as released.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// Values that numbers are set to.
    pub targets: Vec<Both>,
    /// Changes of the logit of the other class.
    pub changes: Vec<Both>,
    /// Numbers and directions, the most effective first.
    pub chosen: Vec<(usize, usize)>,
}

impl StylEx {
    fn targets(&self, world: &Explained<'_>, z: &Latent) -> Both {
        let limits = world.limits();
        let shift = self.shift as f32;
        std::array::from_fn(|s| {
            [0, 1].map(|d| {
                let way = shift * (limits[d][s] - z[s]);
                match self.variant {
                    Variant::Correct => z[s] + way,
                    Variant::AsReleased => z[s] * way,
                }
            })
        })
    }

    /// Changes of the logit of each latent's other class, when one number is set to its target.
    fn effects(
        &self,
        world: &Explained<'_>,
        z: &[Latent],
        targets: &[Both],
        classes: &[usize],
    ) -> Result<Vec<Both>> {
        let before = world.logits(z)?;
        let mut changes = vec![[[0.0; 2]; LATENT]; z.len()];
        for s in 0..LATENT {
            for d in 0..2 {
                let with = |(z, targets): (&Latent, &Both)| {
                    let mut moved = *z;
                    moved[s] = targets[s][d];
                    moved
                };
                let moved: Vec<Latent> = z.iter().zip(targets).map(with).collect();
                for (i, after) in world.logits(&moved)?.iter().enumerate() {
                    let target = 1 - classes[i];
                    changes[i][s][d] = after[target] - before[i][target];
                }
            }
        }
        Ok(changes)
    }

    /// As released, with what was found.
    pub fn released(&self, world: &Explained<'_>, task: &Task<'_>) -> Result<(Vec<Latent>, Found)> {
        let n = task.n;
        let mut z = task.spread();
        let classes: Vec<usize> = { task.classes().into_iter() }
            .flat_map(|c| std::iter::repeat_n(c, n))
            .collect();
        let targets: Vec<Both> = z.iter().map(|z| self.targets(world, z)).collect();
        let changes = self.effects(world, &z, &targets, &classes)?;
        let chosen = self.chosen_for_batch(&changes);
        match self.strategy {
            Strategy::Independent => {
                for (row, z) in z.iter_mut().enumerate() {
                    if let Some(&(s, d)) = chosen.get(row % n) {
                        z[s] = targets[row][s][d];
                    }
                }
            }
            Strategy::Subset => self.subset(world, &mut z, &targets, &classes, &chosen)?,
        }
        let found = Found {
            targets,
            changes,
            chosen,
        };
        Ok((z, found))
    }

    /// The package's choice: means over those that are not explained yet, by places in a list that shrinks.
    fn chosen_for_batch(&self, changes: &[Both]) -> Vec<(usize, usize)> {
        let mut rows: Vec<Both> = changes.to_vec();
        let mut left: Vec<usize> = (0..LATENT).collect();
        let mut chosen = Vec::new();
        while !left.is_empty() && !rows.is_empty() {
            let mean = |s: usize, d: usize| {
                rows.iter().map(|r| f64::from(r[s][d])).sum::<f64>() / rows.len() as f64
            };
            let mut best = (f64::NEG_INFINITY, 0, 0);
            for (place, &s) in left.iter().enumerate() {
                let means = [mean(s, 0), mean(s, 1)];
                let both = means.iter().all(|m| *m > 0.0);
                for (d, value) in means.into_iter().enumerate() {
                    let value = if both { 0.0 } else { value };
                    if value > best.0 {
                        best = (value, place, d);
                    }
                }
            }
            // The place among those left is taken for the number itself.
            let (_, s, d) = best;
            if rows.iter().all(|r| r[s][d] == 0.0) {
                break;
            }
            let Some(at) = left.iter().position(|&l| l == s) else {
                break;
            };
            left.remove(at);
            chosen.push((s, d));
            rows.retain(|r| f64::from(r[s][d]) < self.threshold);
            rows.iter_mut().for_each(|r| r[s] = [0.0; 2]);
        }
        chosen
    }

    /// The package's subsets: numbers are moved one after another in those that have not flipped; results are written
    /// to the rows that these have among the remaining ones, not among all.
    fn subset(
        &self,
        world: &Explained<'_>,
        z: &mut [Latent],
        targets: &[Both],
        classes: &[usize],
        chosen: &[(usize, usize)],
    ) -> Result<()> {
        let mut rows: Vec<usize> = (0..z.len()).collect();
        let mut moved: Vec<Latent> = z.to_vec();
        // Places within the remaining rows.
        let mut places = rows.clone();
        for &(s, d) in chosen {
            rows = places.iter().map(|&p| rows[p]).collect();
            moved = places.iter().map(|&p| moved[p]).collect();
            for (m, &row) in moved.iter_mut().zip(&rows) {
                m[s] = targets[row][s][d];
            }
            for (&place, m) in places.iter().zip(&moved) {
                z[place] = *m;
            }
            let now = world.logits(&moved)?;
            let kept = |i: &usize| crate::metrics::latent::class(now[*i]) == classes[rows[*i]];
            places = (0..moved.len()).filter(kept).collect();
            if places.is_empty() {
                break;
            }
        }
        Ok(())
    }

    fn correct(&self, world: &Explained<'_>, task: &Task<'_>) -> Result<Vec<Latent>> {
        let targets: Vec<Both> = task.z.iter().map(|z| self.targets(world, z)).collect();
        let changes = self.effects(world, task.z, &targets, &task.classes())?;
        let mut all = Vec::with_capacity(task.z.len() * task.n);
        for (i, z) in task.z.iter().enumerate() {
            let mut best: Vec<(f32, usize, usize)> = changes[i]
                .iter()
                .enumerate()
                .filter(|(_, both)| !both.iter().all(|c| *c > 0.0))
                .flat_map(|(s, both)| [(both[0], s, 0), (both[1], s, 1)])
                .filter(|(change, ..)| f64::from(*change) > self.threshold)
                .collect();
            best.sort_by(|a, b| b.0.total_cmp(&a.0));
            let mut together = *z;
            for k in 0..task.n {
                let mut moved = *z;
                if let Some(&(_, s, d)) = best.get(k) {
                    moved[s] = targets[i][s][d];
                    together[s] = targets[i][s][d];
                    if self.strategy == Strategy::Subset {
                        moved = together;
                    }
                }
                all.push(moved);
            }
        }
        Ok(all)
    }
}

impl Explainer for StylEx {
    fn name(&self) -> &str {
        "stylex"
    }

    fn explain(
        &self,
        world: &Explained<'_>,
        task: &Task<'_>,
        _: &mut dyn Noise,
    ) -> Result<Vec<Latent>> {
        match self.variant {
            Variant::Correct => self.correct(world, task),
            Variant::AsReleased => Ok(self.released(world, task)?.0),
        }
    }

    fn is_random(&self) -> bool {
        false
    }

    fn batch(&self) -> usize {
        released_batch(self.variant)
    }
}
