//! What every explainer has in common, and how one is run over all samples.

use std::sync::Mutex;
use std::time::Instant;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::{Explained, Keyed, Latent, LatentError, Noise, Result, World};
use crate::metrics::latent::released::BATCH;

/// Which rules a method follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Variant {
    /// What the method's own paper says, each sample for itself.
    #[default]
    Correct,
    /// What the package bex 0.5.2 does to a batch of 12, mistakes included.
    AsReleased,
}

impl Variant {
    pub fn name(self) -> &'static str {
        match self {
            Variant::Correct => "correct",
            Variant::AsReleased => "as-released",
        }
    }
}

/// Samples to explain.
#[derive(Clone, Copy, Debug)]
pub struct Task<'a> {
    /// Standardised latents.
    pub z: &'a [Latent],
    /// Their logits.
    pub logits: &'a [[f32; 2]],
    /// Their images, one after another.
    pub images: &'a [f32],
    /// Counterfactuals wanted of each.
    pub n: usize,
}

impl Task<'_> {
    /// Class that each sample is given.
    pub fn classes(&self) -> Vec<usize> {
        let class = crate::metrics::latent::class;
        self.logits.iter().map(|&l| class(l)).collect()
    }

    /// Every sample `n` times.
    pub fn copies(&self) -> Vec<Latent> {
        self.z
            .iter()
            .flat_map(|z| std::iter::repeat_n(*z, self.n))
            .collect()
    }

    /// Every sample `n` times, copy `i` moved by `0.01 i` in all numbers (as \[bex\] A.3.2 follows DiCE).
    pub fn spread(&self) -> Vec<Latent> {
        let moved = |z: &Latent, i: usize| z.map(|v| v + 0.01 * i as f32);
        let n = self.n;
        self.z
            .iter()
            .flat_map(|z| (0..n).map(move |i| moved(z, i)))
            .collect()
    }
}

/// A method that makes counterfactuals.
pub trait Explainer: Sync {
    fn name(&self) -> &str;

    /// `n` counterfactuals of each sample, those of a sample together. A counterfactual that was not found is the
    /// sample itself. Several batches may be explained at once, on different threads.
    fn explain(
        &self,
        world: &Explained<'_>,
        task: &Task<'_>,
        noise: &mut dyn Noise,
    ) -> Result<Vec<Latent>>;

    /// False if no random number is drawn: all runs are the same.
    fn is_random(&self) -> bool {
        true
    }

    /// Samples that are explained together; a method that treats each for itself gives the same for any number.
    fn batch(&self) -> usize {
        64
    }
}

/// Counterfactuals of samples.
#[derive(Clone, Debug, PartialEq)]
pub struct Made {
    pub z_cf: Vec<Latent>,
    pub logits_cf: Vec<[f32; 2]>,
    /// Time that the explainer took, without that of [`Made::logits_cf`].
    pub seconds: f64,
}

/// Explains all samples of a world; `progress` hears how many are done.
pub fn explain_all(
    world: &World,
    explainer: &dyn Explainer,
    n: usize,
    seed: u64,
    progress: &mut (dyn FnMut(usize, usize) + Send),
) -> Result<Made> {
    if n == 0 || n > 10_000 {
        return Err(LatentError::setting(
            "explanations of a sample",
            "1 to 10000",
            n,
        ));
    }
    let samples = &world.samples;
    let view = world.explained();
    let all = samples.z.len();
    let pixels = view.image().0;
    let batch = explainer.batch().max(1);
    let done = Mutex::new((0, progress));
    let explain = |first: usize| {
        let last = all.min(first + batch);
        let task = Task {
            z: &samples.z[first..last],
            logits: &samples.logits[first..last],
            images: &samples.images[first * pixels..last * pixels],
            n,
        };
        let mut noise = Keyed::new(seed, first, last - first);
        let found = explainer.explain(&view, &task, &mut noise)?;
        check(explainer, &task, &found)?;
        if let Ok(mut done) = done.lock() {
            done.0 += last - first;
            let so_far = done.0;
            (done.1)(so_far, all);
        }
        Ok(found)
    };
    let batches: Vec<usize> = (0..all).step_by(batch).collect();
    let started = Instant::now();
    let z_cf = match view.batch_by_thread() {
        true => {
            let found: Vec<Result<Vec<Latent>>> = batches.into_par_iter().map(explain).collect();
            // The first error, whichever came first.
            found.into_iter().collect::<Result<Vec<_>>>()?.concat()
        }
        false => {
            let found = batches.into_iter().map(explain);
            found.collect::<Result<Vec<_>>>()?.concat()
        }
    };
    let seconds = started.elapsed().as_secs_f64();
    let logits_cf = view.logits(&z_cf)?;
    Ok(Made {
        z_cf,
        logits_cf,
        seconds,
    })
}

/// Refuses what is not as many finite latents as were asked for.
fn check(explainer: &dyn Explainer, task: &Task<'_>, found: &[Latent]) -> Result<()> {
    let expected = task.z.len() * task.n;
    if found.len() != expected {
        return Err(LatentError::setting(
            format!("explainer {}", explainer.name()),
            format!("{expected} latents"),
            found.len(),
        ));
    }
    match found.iter().position(|z| z.iter().any(|v| !v.is_finite())) {
        None => Ok(()),
        Some(row) => Err(LatentError::NotFinite {
            what: "a counterfactual",
            row,
        }),
    }
}

/// Samples that the package explains together.
pub(super) fn released_batch(variant: Variant) -> usize {
    match variant {
        Variant::Correct => 64,
        Variant::AsReleased => BATCH,
    }
}

#[cfg(test)]
mod tests {
    use super::super::world::Data;
    use super::super::{LATENT, Layer, Method, NAMES, Perceptrons};
    use super::*;
    use crate::stats::random::{Draws, Stream};

    /// A world of small random perceptrons with `samples` samples; the classifier's last layer is scaled by `last`.
    fn world(samples: usize, last: f32, variant: Variant) -> World {
        let mut draws = Draws::new(17, Stream(9997), 0);
        let mut normals = |count: usize, scale: f32| -> Vec<f32> {
            (0..count).map(|_| scale * draws.normal() as f32).collect()
        };
        let mut layer = |inputs: usize, outputs: usize, scale: f32, tanh: bool| {
            let weight = normals(inputs * outputs, scale);
            Layer::new(weight, vec![0.0; outputs], tanh).unwrap()
        };
        let generator = vec![layer(LATENT, 12, 0.4, true), layer(12, 16, 0.4, true)];
        let classifier = vec![layer(16, 10, 0.6, true), layer(10, 2, last, false)];
        let networks = Perceptrons::new(generator, classifier, [1, 4, 4]).unwrap();
        let tables: [Vec<[f32; 3]>; 2] = [0, 1].map(|_| normals(24, 1.0).as_chunks().0.to_vec());
        let mut latent = || {
            let mut raw: Latent = normals(LATENT, 1.0).try_into().unwrap();
            raw[6] = f32::from(u8::from(raw[6] > 0.0));
            raw
        };
        let data = Data {
            train: (0..300).map(|_| latent()).collect(),
            validation: (0..20).map(|_| latent()).collect(),
            labels: (0..20).map(|i| i % 2).collect(),
        };
        let z: Vec<Latent> = (0..samples).map(|_| latent()).collect();
        let tied = [vec![0, 1, 2], vec![3, 4, 5]];
        let tables = [&tables[0][..], &tables[1][..]];
        let name = "perceptrons".to_owned();
        let mut world = World::new(
            name,
            serde_json::Value::Null,
            Box::new(networks),
            tables,
            data,
            tied,
            variant,
        )
        .unwrap();
        world.take((0..samples).collect(), z).unwrap();
        world
    }

    /// Batches that are odd or hold one sample, one explanation and more than there are numbers in a latent; classifiers that
    /// see something, and one that does not and has no gradient.
    #[test]
    fn any_number_of_samples_and_explanations_has_an_answer() {
        for variant in [Variant::Correct, Variant::AsReleased] {
            for (samples, n) in [(1, 1), (5, 1), (13, 3), (3, 12)] {
                for last in [1.0, 0.0] {
                    let world = world(samples, last, variant);
                    for name in NAMES {
                        let method = Method::new(name, variant, &[]).unwrap();
                        let explainer = method.build(&world).unwrap();
                        let made = explain_all(&world, explainer.as_ref(), n, 3, &mut |_, _| ());
                        let made =
                            made.unwrap_or_else(|e| panic!("{name} {samples} {n} {last}: {e}"));
                        assert_eq!(made.z_cf.len(), samples * n, "{name}");
                        let flips = made.logits_cf.iter().enumerate().filter(|(i, l)| {
                            let class = crate::metrics::latent::class;
                            class(**l) != class(world.samples.logits[i / n])
                        });
                        let flips = flips.count();
                        assert!(
                            last > 0.0 || flips == 0,
                            "{name}: {flips} flips of a constant classifier"
                        );
                    }
                }
            }
        }
    }

    /// Growing spheres of a classifier that flips nowhere give the samples themselves, after finitely many layers.
    #[test]
    fn spheres_without_an_enemy_stop_and_return_the_sample() {
        for variant in [Variant::Correct, Variant::AsReleased] {
            let world = world(3, 0.0, variant);
            let spheres = Method::new("gs", variant, &[])
                .unwrap()
                .build(&world)
                .unwrap();
            let made = explain_all(&world, spheres.as_ref(), 4, 0, &mut |_, _| ()).unwrap();
            let copies: Vec<Latent> = { world.samples.z.iter() }
                .flat_map(|z| std::iter::repeat_n(*z, 4))
                .collect();
            assert_eq!(made.z_cf, copies);
        }
    }

    /// Samples of one batch do not see each other where the method's own paper treats each for itself.
    #[test]
    fn correct_explanations_do_not_depend_on_the_size_of_a_batch() {
        struct Alone<'a>(&'a dyn Explainer);
        impl Explainer for Alone<'_> {
            fn name(&self) -> &str {
                self.0.name()
            }
            fn explain(
                &self,
                world: &Explained<'_>,
                task: &Task<'_>,
                noise: &mut dyn Noise,
            ) -> Result<Vec<Latent>> {
                self.0.explain(world, task, noise)
            }
            fn batch(&self) -> usize {
                1
            }
        }
        let world = world(7, 1.0, Variant::Correct);
        for name in NAMES {
            let method = Method::new(name, Variant::Correct, &[]).unwrap();
            let explainer = method.build(&world).unwrap();
            let together = explain_all(&world, explainer.as_ref(), 3, 1, &mut |_, _| ()).unwrap();
            let alone =
                explain_all(&world, &Alone(explainer.as_ref()), 3, 1, &mut |_, _| ()).unwrap();
            assert_eq!(together.z_cf, alone.z_cf, "{name}");
        }
    }

    /// Batches that are explained at once give what they give one after another.
    #[test]
    fn threads_do_not_change_explanations() {
        for variant in [Variant::Correct, Variant::AsReleased] {
            let world = world(27, 1.0, variant);
            for name in NAMES {
                let explainer = Method::new(name, variant, &[]).unwrap();
                let explainer = explainer.build(&world).unwrap();
                let [one, three] = [1, 3].map(|threads| {
                    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
                    let mut heard = Vec::new();
                    let made = pool.build().unwrap().install(|| {
                        let hear = &mut |done, all| heard.push((done, all));
                        explain_all(&world, explainer.as_ref(), 2, 1, hear).unwrap()
                    });
                    assert_eq!(heard.last(), Some(&(27, 27)));
                    made
                });
                assert_eq!(one.z_cf, three.z_cf, "{name}");
                assert_eq!(one.logits_cf, three.logits_cf, "{name}");
            }
        }
    }
}
