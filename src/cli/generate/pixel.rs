//! `foil generate --method gb|gl|gen`: counterfactuals of small images.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, ValueEnum};

use super::guidance::MethodArg;
use super::{GenerateArgs, Screen, manifest, open_device, usage};
use crate::cli::pace::Pace;
use crate::cli::print;
use crate::explain::diffusion::Made;
use crate::explain::pixel::generate::{self, ANY};
use crate::explain::pixel::{Alpha, Explainer, Method, Prototype, Wachter};
use crate::images::list_images;
use crate::score::Labels;
use crate::weights::{Registry, sha256};

#[derive(Args)]
pub struct PixelArgs {
    /// Of gl: the auto-encoder that keeps images plausible and whose codes have prototypes
    #[arg(long, value_name = "CARD", help_heading = "Methods gb, gl and gen")]
    autoencoder: Option<String>,
    /// Of gl: folder of images for the prototypes, put into classes by the explained network (default: --originals)
    #[arg(long, value_name = "DIR", help_heading = "Methods gb, gl and gen")]
    prototypes: Option<PathBuf>,
    /// Of gl: weight of the auto-encoder's error
    #[arg(long, value_name = "W", help_heading = "Methods gb, gl and gen")]
    gamma: Option<f64>,
    /// Of gl: weight of the distance to the prototype
    #[arg(long, value_name = "W", help_heading = "Methods gb, gl and gen")]
    theta: Option<f64>,
    /// Of gb and gl: iterations for each weight that is tried (default: 1000)
    #[arg(long, value_name = "N", help_heading = "Methods gb, gl and gen",
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    iterations: Option<u32>,
    /// Of gb and gl: weights that are tried (default: gb 10, gl 2)
    #[arg(long, value_name = "N", help_heading = "Methods gb, gl and gen",
          value_parser = clap::value_parser!(u16).range(1..=1000))]
    weight_steps: Option<u16>,
    /// Of gb: how far the wanted class may be from certain (default: 0.05)
    #[arg(long, value_name = "P", help_heading = "Methods gb, gl and gen")]
    tolerance: Option<f64>,
    /// Of gen: how far to go
    #[arg(long, value_enum, help_heading = "Methods gb, gl and gen")]
    alpha: Option<AlphaArg>,
}

#[derive(Clone, Copy, ValueEnum)]
enum AlphaArg {
    /// To where both classes are equally likely
    Boundary,
    /// Beyond, as in the paper
    Convincing,
}

impl PixelArgs {
    /// The first of the options that was given.
    pub(super) fn given(&self) -> Option<&'static str> {
        self.foreign(&[
            ("--autoencoder", self.autoencoder.is_some()),
            ("--prototypes", self.prototypes.is_some()),
            ("--gamma", self.gamma.is_some()),
            ("--theta", self.theta.is_some()),
            ("--iterations", self.iterations.is_some()),
            ("--weight-steps", self.weight_steps.is_some()),
            ("--tolerance", self.tolerance.is_some()),
            ("--alpha", self.alpha.is_some()),
        ])
    }

    fn foreign(&self, options: &[(&'static str, bool)]) -> Option<&'static str> {
        options.iter().find(|o| o.1).map(|o| o.0)
    }

    fn method(&self, method: MethodArg) -> anyhow::Result<Method> {
        let refuse = |name: &str, options: &[(&'static str, bool)]| match self.foreign(options) {
            Some(option) => Err(usage(format!("{option} is no option of --method {name}"))),
            None => Ok(()),
        };
        for (option, value) in [("--gamma", self.gamma), ("--theta", self.theta)] {
            if let Some(value) = value.filter(|v| !(0.0..=1e9).contains(v)) {
                return Err(usage(format!(
                    "{option} {value}: expected a number from 0 on"
                )));
            }
        }
        if let Some(value) = self.tolerance.filter(|v| !(*v > 0.0 && *v < 1.0)) {
            return Err(usage(format!(
                "--tolerance {value}: expected a number between 0 and 1, how far the wanted class may be from certain"
            )));
        }
        let of_gl = [
            ("--autoencoder", self.autoencoder.is_some()),
            ("--prototypes", self.prototypes.is_some()),
            ("--gamma", self.gamma.is_some()),
            ("--theta", self.theta.is_some()),
        ];
        let searched = [
            ("--iterations", self.iterations.is_some()),
            ("--weight-steps", self.weight_steps.is_some()),
        ];
        let alpha = [("--alpha", self.alpha.is_some())];
        let tolerance = [("--tolerance", self.tolerance.is_some())];
        Ok(match method {
            MethodArg::Gb => {
                refuse("gb", &of_gl)?;
                refuse("gb", &alpha)?;
                let usual = Wachter::default();
                Method::Gb(Wachter {
                    iterations: self.iterations.map_or(usual.iterations, |n| n as usize),
                    lambdas: self.weight_steps.map_or(usual.lambdas, usize::from),
                    tolerance: self.tolerance.unwrap_or(usual.tolerance),
                    ..usual
                })
            }
            MethodArg::Gl => {
                refuse("gl", &alpha)?;
                refuse("gl", &tolerance)?;
                let usual = Prototype::default();
                Method::Gl(Prototype {
                    iterations: self.iterations.map_or(usual.iterations, |n| n as usize),
                    c_steps: self.weight_steps.map_or(usual.c_steps, usize::from),
                    gamma: self.gamma.unwrap_or(usual.gamma),
                    theta: self.theta.unwrap_or(usual.theta),
                    ..usual
                })
            }
            _ => {
                refuse("gen", &of_gl)?;
                refuse("gen", &searched)?;
                refuse("gen", &tolerance)?;
                Method::Gen(match self.alpha {
                    Some(AlphaArg::Boundary) => Alpha::Boundary,
                    _ => Alpha::Convincing,
                })
            }
        })
    }
}

/// Makes counterfactuals of small images.
pub fn run(args: &GenerateArgs, method: MethodArg) -> anyhow::Result<()> {
    let method = args.pixel.method(method)?;
    args.no_diffusion(method.name())?;
    let device = open_device(args.device, args.quiet)?;
    let registry = Registry::open()?;
    let explained = match (&args.classifier, &method) {
        (Some(name), _) => name.as_str(),
        (None, Method::Gen(_)) => "dot_inn",
        (None, _) => "dot_cnn",
    };
    let autoencoder = match (&args.pixel.autoencoder, &args.classifier) {
        (Some(name), _) => Some(name.as_str()),
        (None, None) => Some("dot_autoencoder_proto"),
        (None, Some(_)) => None,
    };
    let mut explainer = Explainer::open(&registry, &method, explained, autoencoder, &device)
        .with_context(|| format!("--method {}", method.name()))?;
    let labels = Labels::new(explainer.format.labels.clone());
    let any = args.target.as_deref() == Some("other");
    if any && !explainer.takes_any_target() {
        return Err(usage(
            "--target other: method gen needs a class; give --target or --targets",
        ));
    }
    let (tasks, _) = args.tasks_with(&labels, any.then_some(ANY))?;
    let originals: BTreeMap<String, PathBuf> = { tasks.iter() }
        .map(|t| (t.name.clone(), t.original.clone()))
        .collect();
    let mut learnt_from = None;
    if let Method::Gl(gl) = &method
        && gl.theta != 0.0
    {
        let folder = args.pixel.prototypes.as_ref().unwrap_or(&args.originals);
        let mut images = Vec::new();
        for file in list_images(folder)? {
            images.push(generate::read(&explainer.format, &file)?);
        }
        let values = explainer.format.values(images.iter());
        learnt_from = Some(sha256(bytemuck::cast_slice(&values.data)));
        explainer.learn_prototypes(&values)?;
    }
    if tasks.is_empty() {
        return Err(usage("there is nothing to do: no original has a target"));
    }
    let own = args.own(&tasks);
    let [list, whole] = [args.shard, None].map(|shard| args.out.join(manifest::name(shard)));
    manifest::check(&list)?;
    // Held to the end; nothing is left of it where a check fails.
    let _lock = args.lock()?;
    let settings = serde_json::json!({
        "explainer": explainer.identity,
        "any_target": any,
        "prototypes": learnt_from,
    });
    if args.shard.is_some() {
        manifest::check(&whole)?;
        // Other shards must have been made with the same settings.
        generate::found(&settings, &tasks, &args.out)?;
    }
    let ready = generate::prepare(&explainer, &settings, &own, &args.out)?;
    let mut screen = Screen {
        pace: Pace::new(args.quiet),
        quiet: args.quiet,
        made: Vec::new(),
    };
    let batch = usize::from(args.batch.unwrap_or(64));
    let done = ready.run(batch, &mut screen);
    let made = screen.finish();
    match done {
        Ok(()) => manifest::write(&list, &args.out, &made, &originals, &labels)?,
        Err(error) => {
            manifest::write_longer(&list, &args.out, &made, &originals, &labels)?;
            return Err(error.into());
        }
    }
    let mut said = summary(&made, &args.out);
    if let Some((_, n)) = args.shard
        && let Some(all) = generate::found(&settings, &tasks, &args.out)?
    {
        said.push_str(&manifest::whole(
            &whole, &args.out, all, &originals, &labels, n,
        )?);
    }
    print(&said)
}

/// What came of all.
fn summary(made: &[Made], out: &Path) -> String {
    if made.is_empty() {
        return super::nothing(out);
    }
    let found: Vec<&Made> = made.iter().filter(|m| !m.record.rejected).collect();
    let count = found.len() as f64;
    let flipped = found.iter().filter(|m| m.record.flipped).count();
    let change: f64 = found.iter().map(|m| m.record.change).sum();
    let out = out.display();
    // Nothing found has no mean.
    let mut text = match found.is_empty() {
        true => format!("0 counterfactuals in {out}\n"),
        false => format!(
            "{} counterfactuals in {out}: {:.2} have their class as they are stored; mean change {:.4} of values from -1 to 1\n",
            found.len(),
            flipped as f64 / count,
            change / count
        ),
    };
    if found.len() < made.len() {
        text.push_str(&format!(
            "{} of {} originals have none: they are of the target already, or the search ended without one\n",
            made.len() - found.len(),
            made.len()
        ));
    }
    text
}
