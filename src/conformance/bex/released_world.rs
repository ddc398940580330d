//! The small world of the golden data.

use std::rc::Rc;

use super::super::Result;
use super::super::error::Of;
use super::super::folder::Folder;
use super::super::tensors::Tensors;
use super::{latent, latents, table};
use crate::explain::latent::{Explained, Latent, Layer, Perceptrons};
use crate::metrics::latent::space::Space;

pub struct ReleasedWorld {
    pub networks: Perceptrons,
    pub space: Space,
    pub train: Vec<Latent>,
    pub stats: Rc<Tensors>,
}

impl ReleasedWorld {
    /// None if one of its files is absent.
    pub fn open(folder: &Folder) -> Result<Option<Self>> {
        let (model, stats) = (
            folder.tensors("world_model.safetensors")?,
            folder.tensors("world_stats.safetensors")?,
        );
        let (Some(model), Some(stats)) = (&model, &stats) else {
            for arrays in [model, stats].into_iter().flatten() {
                arrays.skip_all();
            }
            return Ok(None);
        };
        let what = "world_model.safetensors";
        let layer = |name: &str, tanh: bool| -> Result<Layer> {
            let weight = model.f32_of_rank(&format!("{name}.weight"), 2)?;
            let bias = model.f32_of_rank(&format!("{name}.bias"), 1)?;
            Layer::new(weight.data, bias.data, tanh).of(what)
        };
        let pixels = model.f32("generator.l2.bias")?.len();
        let networks = Perceptrons::new(
            vec![layer("generator.l1", true)?, layer("generator.l2", true)?],
            vec![
                layer("classifier.a", true)?,
                layer("classifier.b", true)?,
                layer("classifier.c", false)?,
            ],
            [1, 1, pixels],
        );
        let tables = [
            table(model, "generator.char_embedding.weight")?,
            table(model, "generator.font_embedding.weight")?,
        ];
        let space = Space::new(
            [&tables[0], &tables[1]],
            (latent(stats, "latent_mean")?, latent(stats, "latent_std")?),
            (latent(stats, "clip_min")?, latent(stats, "clip_max")?),
        );
        Ok(Some(Self {
            networks: networks.of(what)?,
            space: space.of("world_stats.safetensors")?,

            train: latents(stats, "train_latents_raw")?,
            stats: stats.clone(),
        }))
    }

    pub fn explained(&self) -> Explained<'_> {
        Explained::new(&self.space, &self.networks, &self.train)
    }
}
