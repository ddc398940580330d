//! Counterfactuals by guided diffusion, as `foil generate` makes them: the method that [diffusion-vce] evaluates, with
//! x0-prediction and the gradient of a robust classifier in a cone.

use image::RgbImage;

use super::originals::Original;
use super::{CLASSIFIER, Demo, DemoError};
use crate::diffusion::{Cone, Guidance, Sampler};
use crate::explain::diffusion::{self, Batch, Cards, Made, Method, Plan, Progress, Task, Watch};
use crate::score;
use crate::tensor::candle::Candle;
use crate::tensor::{Kept, WithGradients};
use crate::weights::Registry;

pub use crate::explain::diffusion::Networks;

/// The networks besides the classifier.
const DENOISER: &str = "glyph_ddpm";
const ROBUST: &str = "glyph_robust";

/// Steps of the schedule, of which the noisier half is left out: few, so that a demonstration takes seconds.
const STEPS: usize = 20;
/// Weight of the classifier's gradient; images of 32x32 pixels want more than the 0.1 of the paper.
const SCALE: f64 = 0.6;

/// The networks of the glyph world.
pub(super) fn open(registry: &Registry) -> Result<Networks, DemoError> {
    let cards = Cards {
        unet: DENOISER,
        classifier: CLASSIFIER,
        robust: Some(ROBUST),
        perceptual: None,
        checkpointing: false,
        precision: Some(Kept::F32),
    };
    // The same images on every machine, hence not on its GPU.
    Ok(Networks::open(
        registry,
        &cards,
        &WithGradients::Engine(Candle),
    )?)
}

/// A counterfactual of every original.
pub(super) fn make(
    demo: &Demo,
    originals: &[Original],
    networks: &Networks,
    progress: score::Progress<'_>,
) -> Result<Vec<RgbImage>, DemoError> {
    let plan = Plan {
        method: Method::Guided(Guidance {
            cone: Some(Cone::default()),
            scale: SCALE,
            ..Guidance::default()
        }),
        steps: STEPS.to_string(),
        skip: STEPS / 2,
        sampler: Sampler::default(),
        samples: 1,
        seed: demo.seed,
        noise: None,
        reject: false,
        batch: Batch::Images(16),
    };
    let folder = tempfile::tempdir().map_err(|e| DemoError::Write {
        path: "temporary folder".into(),
        reason: e.to_string(),
    })?;
    let mut tasks = Vec::new();
    for (index, original) in originals.iter().enumerate() {
        let path = folder.path().join(format!("{index:03}.png"));
        super::save(&path, &original.image())?;
        tasks.push(Task {
            original: path,
            name: format!("made/{index:03}"),
            noise: original.index.to_string(),
            target: 1 - original.label,
            index,
        });
    }
    diffusion::run(&plan, networks, &tasks, folder.path(), &mut Steps(progress))?;
    let images = tasks.iter().map(|task| {
        let path = folder.path().join(format!("{}.png", task.name));
        let read = image::open(&path).map(|image| image.into_rgb8());
        read.map_err(|e| DemoError::Write {
            path: path.display().to_string(),
            reason: e.to_string(),
        })
    });
    images.collect()
}

/// Passes progress on.
struct Steps<'a>(score::Progress<'a>);

impl Watch for Steps<'_> {
    fn progress(&mut self, now: Progress) {
        (self.0)("steps of the guided diffusion", now.steps, now.all_steps);
    }

    fn made(&mut self, _: &Made) {}
}
