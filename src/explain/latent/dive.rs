//! DiVE (Rodríguez et al. 2021) and xGEM (Joshi et al. 2018): Adam on a perturbation ε of the latent.
//!
//! DiVE keeps each explanation to its own part of the latent: the numbers that the classifier uses together, clusters of
//! the Fisher information matrix ([`super::fisher`], [`super::spectral`]). xGEM has one part, all numbers, and no other terms than the classifier's loss and
//! the distance of images.
//!
//! Correct: for each sample by itself, cross-entropy of the other class + `reconstruction` (‖x − x′‖₁ + `lasso` ‖ε‖₁) + `diversity`
//! Σ_{i≠j} cos²(εᵢ, εⱼ); masks are those of the class that the sample is given.
//! As released: binary cross-entropy of both logits with 1 − σ(logits) as target, as a mean over the batch; the sums of the regularisers
//! (`lasso` a term of its own) are divided by the number of ones in all masks; masks alternate by the place in the batch; the
//! last step is not returned. (The package refuses odd batches; here the alternation goes on.)

use serde::{Deserialize, Serialize};

use super::adam::Adam;
use super::explainer::released_batch;
use super::fisher::{fisher, last_chunk};
use super::spectral::clusters;
use super::{Explained, Explainer, LATENT, Latent, Noise, Pull, Result, Task, Variant, Weighed};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Masks {
    /// Explanation i moves the i-th cluster of the Fisher matrix.
    #[default]
    Spectral,
    /// All but that cluster.
    SpectralInverse,
    /// Explanation i moves all but the i-th chunk of the numbers with most information.
    Chunk,
    /// Explanation i moves all but the i numbers with most information.
    Range,
    /// Every explanation moves all numbers.
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Dive {
    pub variant: Variant,
    pub rate: f64,
    pub iterations: usize,
    pub diversity: f64,
    pub lasso: f64,
    pub reconstruction: f64,
    pub masks: Masks,
}

impl Default for Dive {
    fn default() -> Self {
        Self {
            variant: Variant::Correct,
            rate: 0.1,
            iterations: 50,
            diversity: 0.001,
            lasso: 0.1,
            reconstruction: 0.0001,
            masks: Masks::Spectral,
        }
    }
}

/// xGEM: DiVE without masks and without terms of the latent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Xgem {
    pub variant: Variant,
    pub rate: f64,
    pub iterations: usize,
    pub reconstruction: f64,
}

impl Default for Xgem {
    fn default() -> Self {
        Self {
            variant: Variant::Correct,
            rate: 0.1,
            iterations: 50,
            reconstruction: 0.001,
        }
    }
}

impl Xgem {
    pub fn as_dive(&self) -> Dive {
        Dive {
            variant: self.variant,
            rate: self.rate,
            iterations: self.iterations,
            diversity: 0.0,
            lasso: 0.0,
            reconstruction: self.reconstruction,
            masks: Masks::None,
        }
    }
}

/// Which numbers each explanation may move.
pub type Mask = Vec<[bool; LATENT]>;

type Wide = [f64; LATENT];

/// How far from the sample a search begins, times a standard normal.
const START: f64 = 0.01;

/// Training latents that an estimate of the Fisher matrix needs at most.
const MOST_ROWS: usize = 2048;

impl Dive {
    /// Masks of samples of class 0 and of class 1, from the Fisher matrices of the two logits.
    pub fn masks(&self, fishers: &[Vec<f64>; 2], n: usize) -> [Mask; 2] {
        fishers.each_ref().map(|fisher| {
            let mut order: Vec<usize> = (0..LATENT).collect();
            order.sort_by(|&a, &b| fisher[b * LATENT + b].total_cmp(&fisher[a * LATENT + a]));
            let chunk = LATENT / n.max(1);
            let without = |numbers: &[usize]| std::array::from_fn(|k| !numbers.contains(&k));
            match self.masks {
                Masks::None => vec![[true; LATENT]; n],
                Masks::Range => (0..n).map(|i| without(&order[..i.min(LATENT)])).collect(),
                Masks::Chunk => {
                    let at = |i: usize| (i * chunk).min(LATENT);
                    (0..n).map(|i| without(&order[at(i)..at(i + 1)])).collect()
                }
                Masks::Spectral | Masks::SpectralInverse => {
                    let labels = clusters(fisher, LATENT, n);
                    let inverse = self.masks == Masks::SpectralInverse;
                    let of = |i| std::array::from_fn(|k| (labels[k] == i) != inverse);
                    (0..n).map(of).collect()
                }
            }
        })
    }

    /// The explainer for a world, whose Fisher matrices are computed once.
    pub fn for_world(self, world: &Explained<'_>) -> Result<MaskedDive> {
        let fishers = match self.masks {
            Masks::None => Default::default(),
            _ => {
                let train = world.training();
                let used = match self.variant {
                    Variant::Correct => &train[..train.len().min(MOST_ROWS)],
                    Variant::AsReleased => &train[last_chunk(train.len())..],
                };
                fisher(world, used)?
            }
        };
        Ok(MaskedDive {
            dive: self,
            fishers,
        })
    }

    fn run(
        &self,
        world: &Explained<'_>,
        task: &Task<'_>,
        masks: &[Mask; 2],
        noise: &mut dyn Noise,
    ) -> Result<Vec<Latent>> {
        let noise = first(task, noise);
        match self.variant {
            Variant::Correct => self.correct(world, task, masks, &noise),
            Variant::AsReleased => self.released(world, task, masks, &noise, None),
        }
    }

    /// As released, with given masks and first perturbations (standard normals, sample by sample); `watch` hears loss and
    /// regulariser of each iteration.
    pub fn released(
        &self,
        world: &Explained<'_>,
        task: &Task<'_>,
        masks: &[Mask; 2],
        noise: &[f32],
        mut watch: Option<&mut dyn FnMut(f64, f64)>,
    ) -> Result<Vec<Latent>> {
        let n = task.n;
        let watched = watch.is_some();
        let mask = |row: usize| &masks[(row / n) % 2][row % n];
        let rows = task.z.len() * n;
        let ones: usize = (0..rows)
            .map(|r| mask(r).iter().filter(|m| **m).count())
            .sum();
        // Nothing may move: the regularisers are nothing, not 0/0.
        let ones = ones.max(1) as f64;
        let wanted: Vec<[f64; 2]> = { task.logits.iter() }
            .map(|l| l.map(|v| 1.0 - 1.0 / (1.0 + (-f64::from(v)).exp())))
            .collect();
        let (pixels, repeated) = world.image();
        let weight = self.reconstruction * repeated / ones;
        let by = |row: usize, seen: &super::Seen<'_>, by_image: &mut [f32]| {
            let sample = row / n;
            let mut weighed = Weighed::default();
            for (k, &logit) in seen.logits.iter().enumerate() {
                let (l, t) = (f64::from(logit), wanted[sample][k]);
                if watched {
                    weighed.loss += cross_entropy(l, t) / (2 * rows) as f64;
                }
                let p = 1.0 / (1.0 + (-l).exp());
                weighed.by_logits[k] = ((p - t) / (2 * rows) as f64) as f32;
            }
            let own = &task.images[sample * pixels..(sample + 1) * pixels];
            weighed.loss += l1_of_images(own, seen.image, weight, by_image);
            weighed
        };
        let pull = Pull {
            images: weight > 0.0,
            by: &by,
        };
        let mut epsilon: Vec<Wide> = { noise.as_chunks::<LATENT>().0.iter() }
            .map(|e| e.map(|v| START * f64::from(v)))
            .collect();
        let mut adam = Adam::new(self.rate, rows * LATENT);
        let mut last = task.copies();
        for _ in 0..self.iterations {
            for (row, epsilon) in epsilon.iter_mut().enumerate() {
                keep(epsilon, mask(row));
            }
            last = moved(task, &epsilon);
            let pulled = world.gradient(&last, &pull)?;
            let mut gradient: Vec<f64> = widen(&pulled.gradient);
            let mut regulariser = 0.0;
            for (sample, own) in epsilon.chunks_exact(n).enumerate() {
                let at = &mut gradient[sample * n * LATENT..(sample + 1) * n * LATENT];
                regulariser += diversity(own, self.diversity / ones, at);
                regulariser += lasso(own, self.lasso / ones, at);
            }
            if let Some(watch) = &mut watch {
                // The pulled losses hold the classifier's part and that of the images.
                let all: f64 = pulled.losses.iter().sum::<f64>() + regulariser;
                let of_row = |(row, l): (usize, &[f32; 2])| -> f64 {
                    let term = |k: usize| cross_entropy(f64::from(l[k]), wanted[row / n][k]);
                    (term(0) + term(1)) / (2 * rows) as f64
                };
                let classifier: f64 = pulled.logits.iter().enumerate().map(of_row).sum();
                watch(all, all - classifier);
            }
            adam.step(epsilon.as_flattened_mut(), &gradient);
        }
        Ok(last)
    }

    fn correct(
        &self,
        world: &Explained<'_>,
        task: &Task<'_>,
        masks: &[Mask; 2],
        noise: &[f32],
    ) -> Result<Vec<Latent>> {
        let n = task.n;
        let classes = task.classes();
        let mask = |row: usize| &masks[classes[row / n]][row % n];
        let (pixels, repeated) = world.image();
        let weight = self.reconstruction * repeated;
        let by = |row: usize, seen: &super::Seen<'_>, by_image: &mut [f32]| {
            let (sample, target) = (row / n, 1 - classes[row / n]);
            let odds = f64::from(seen.logits[target]) - f64::from(seen.logits[1 - target]);
            let p = 1.0 / (1.0 + (-odds).exp());
            let mut by_logits = [0.0; 2];
            by_logits[target] = (p - 1.0) as f32;
            by_logits[1 - target] = (1.0 - p) as f32;
            let own = &task.images[sample * pixels..(sample + 1) * pixels];
            // Of the classifier's loss nothing but the derivative is needed.
            Weighed {
                loss: l1_of_images(own, seen.image, weight, by_image),
                by_logits,
            }
        };
        let pull = Pull {
            images: weight > 0.0,
            by: &by,
        };
        let mut epsilon: Vec<Wide> = { noise.as_chunks::<LATENT>().0.iter() }
            .map(|e| e.map(|v| START * f64::from(v)))
            .collect();
        for (row, epsilon) in epsilon.iter_mut().enumerate() {
            keep(epsilon, mask(row));
        }
        let mut adam = Adam::new(self.rate, epsilon.len() * LATENT);
        for _ in 0..self.iterations {
            let pulled = world.gradient(&moved(task, &epsilon), &pull)?;
            let mut gradient: Vec<f64> = widen(&pulled.gradient);
            for (sample, own) in epsilon.chunks_exact(n).enumerate() {
                let at = &mut gradient[sample * n * LATENT..(sample + 1) * n * LATENT];
                diversity(own, self.diversity, at);
                lasso(own, self.reconstruction * self.lasso, at);
            }
            adam.step(epsilon.as_flattened_mut(), &gradient);
            for (row, epsilon) in epsilon.iter_mut().enumerate() {
                keep(epsilon, mask(row));
            }
        }
        Ok(moved(task, &epsilon))
    }
}

/// Binary cross-entropy of a logit, whose probability should be `t`.
fn cross_entropy(logit: f64, t: f64) -> f64 {
    logit.max(0.0) - logit * t + (-logit.abs()).exp().ln_1p()
}

fn keep(epsilon: &mut Wide, mask: &[bool; LATENT]) {
    for (e, &free) in epsilon.iter_mut().zip(mask) {
        if !free {
            *e = 0.0;
        }
    }
}

fn moved(task: &Task<'_>, epsilon: &[Wide]) -> Vec<Latent> {
    let of = |(z, e): (&Latent, &Wide)| -> Latent {
        std::array::from_fn(|k| (f64::from(z[k]) + e[k]) as f32)
    };
    let rows = task.z.iter().zip(epsilon.chunks_exact(task.n));
    rows.flat_map(|(z, own)| own.iter().map(move |e| of((z, e))))
        .collect()
}

fn widen(gradient: &[Latent]) -> Vec<f64> {
    gradient
        .as_flattened()
        .iter()
        .map(|&v| f64::from(v))
        .collect()
}

/// `weight ‖x − x′‖₁`, and its derivative by x′.
fn l1_of_images(own: &[f32], seen: &[f32], weight: f64, by_image: &mut [f32]) -> f64 {
    if by_image.is_empty() {
        return 0.0;
    }
    let slope = weight as f32;
    let way = |gap: f32| match gap == 0.0 {
        true => 0.0,
        false => slope.copysign(gap),
    };
    // Sums side by side, which vector units add at once.
    const LANES: usize = 8;
    let mut sums = [0.0f64; LANES];
    for ((by, x), drawn) in by_image
        .chunks_mut(LANES)
        .zip(own.chunks(LANES))
        .zip(seen.chunks(LANES))
    {
        for (((by, x), drawn), sum) in by.iter_mut().zip(x).zip(drawn).zip(&mut sums) {
            let gap = drawn - x;
            *sum += f64::from(gap.abs());
            *by = way(gap);
        }
    }
    weight * sums.iter().sum::<f64>()
}

/// `weight ‖ε‖₁` of a sample's explanations; its derivative is added.
fn lasso(epsilon: &[Wide], weight: f64, gradient: &mut [f64]) -> f64 {
    let mut sum = 0.0;
    for (g, &e) in gradient.iter_mut().zip(epsilon.as_flattened()) {
        sum += e.abs();
        if e != 0.0 {
            *g += weight * e.signum();
        }
    }
    weight * sum
}

/// `weight Σ_{i≠j} cos²(εᵢ, εⱼ)` of a sample's explanations; its derivative is added.
fn diversity(epsilon: &[Wide], weight: f64, gradient: &mut [f64]) -> f64 {
    if weight == 0.0 {
        return 0.0;
    }
    let dot = |a: &Wide, b: &Wide| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let norms: Vec<f64> = epsilon
        .iter()
        .map(|e| dot(e, e).sqrt().max(1e-12))
        .collect();
    let units: Vec<Wide> = { epsilon.iter().zip(&norms) }
        .map(|(e, norm)| e.map(|v| v / norm))
        .collect();
    let mut sum = 0.0;
    for i in 0..units.len() {
        for j in 0..i {
            let (a, b) = (&units[i], &units[j]);
            let cosine = dot(a, b);
            if cosine == 0.0 {
                continue;
            }
            sum += 2.0 * cosine * cosine;
            let [to_a, to_b] = [i, j].map(|at| 4.0 * weight * cosine / norms[at]);
            let (before, rest) = gradient.split_at_mut(i * LATENT);
            let (by_a, by_b) = (&mut rest[..LATENT], &mut before[j * LATENT..][..LATENT]);
            for k in 0..LATENT {
                by_a[k] += to_a * (b[k] - cosine * a[k]);
                by_b[k] += to_b * (a[k] - cosine * b[k]);
            }
        }
    }
    weight * sum
}

fn first(task: &Task<'_>, noise: &mut dyn Noise) -> Vec<f32> {
    (0..task.z.len())
        .flat_map(|i| noise.normals(i, task.n * LATENT))
        .collect()
}

/// DiVE with the Fisher matrices of a world.
#[derive(Clone, Debug)]
pub struct MaskedDive {
    dive: Dive,
    fishers: [Vec<f64>; 2],
}

impl Explainer for MaskedDive {
    fn name(&self) -> &str {
        "dive"
    }

    fn explain(
        &self,
        world: &Explained<'_>,
        task: &Task<'_>,
        noise: &mut dyn Noise,
    ) -> Result<Vec<Latent>> {
        let masks = match self.dive.masks {
            Masks::None => [vec![[true; LATENT]; task.n], vec![[true; LATENT]; task.n]],
            _ => self.dive.masks(&self.fishers, task.n),
        };
        self.dive.run(world, task, &masks, noise)
    }

    fn batch(&self) -> usize {
        released_batch(self.dive.variant)
    }
}

impl Explainer for Xgem {
    fn name(&self) -> &str {
        "xgem"
    }

    fn explain(
        &self,
        world: &Explained<'_>,
        task: &Task<'_>,
        noise: &mut dyn Noise,
    ) -> Result<Vec<Latent>> {
        let all = [vec![[true; LATENT]; task.n], vec![[true; LATENT]; task.n]];
        self.as_dive().run(world, task, &all, noise)
    }

    fn batch(&self) -> usize {
        released_batch(self.variant)
    }
}
