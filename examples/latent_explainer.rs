//! An explainer of your own on the builtin world: one struct with one function, scored like the others.
//!
//! `cargo run --release --example latent_explainer`

use foil::explain::latent::{
    Explained, Explainer, LATENT, Latent, LatentError, Noise, Setting, Task, Variant, builtin,
    explain_all,
};
use foil::study::latent::scoring::score;
use foil::tensor::candle::Candle;
use foil::tensor::{WithGradients, cpu::Cpu};
use foil::weights::Registry;

/// Tries random steps and keeps those that change the classifier's mind.
struct RandomSteps {
    length: f32,
}

impl Explainer for RandomSteps {
    fn name(&self) -> &str {
        "random steps"
    }

    fn explain(
        &self,
        world: &Explained<'_>,
        task: &Task<'_>,
        noise: &mut dyn Noise,
    ) -> Result<Vec<Latent>, LatentError> {
        let mut all = task.copies();
        for (i, latent) in all.iter_mut().enumerate() {
            let step = noise.normals(i / task.n, LATENT);
            for (value, step) in latent.iter_mut().zip(step) {
                *value += self.length * step;
            }
        }
        // ĥ of all of them at once; what does not flip stays where it was.
        let classes = task.classes();
        for (i, logits) in world.logits(&all)?.into_iter().enumerate() {
            let sample = i / task.n;
            if usize::from(logits[1] > logits[0]) == classes[sample] {
                all[i] = task.z[sample];
            }
        }
        Ok(all)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let setting = Setting {
        spurious: 10,
        percent: 95,
    };
    let device = WithGradients::Engine(Candle);
    let mut world = builtin(&Registry::open()?, &device, setting, 2000, Variant::Correct)?;
    world.choose(5, Variant::Correct)?;
    let made = explain_all(&world, &RandomSteps { length: 0.5 }, 10, 0, &mut |_, _| ())?;
    let scored = score(&Cpu, &world, &made.z_cf, &made.logits_cf)?;
    println!(
        "S# {:.2} exact, {:.2} as released; {:.0} % flips",
        scored.exact.cardinality,
        scored.as_released.cardinality,
        100.0 * scored.exact.estimator_flip
    );
    Ok(())
}
