//! Options of the kinds of guidance.

use clap::{Args, ValueEnum};

use super::usage;
use crate::diffusion::{Cone, ConeRule, Distance, Guidance, Sampler, Strength, X0};
use crate::explain::diffusion::{Dime, LARGEST_WEIGHT as LARGEST, Method, parse_distance};

#[derive(Args)]
pub struct GuidanceArgs {
    /// Kind of guidance: that of the evaluated study, DVCE's, DiME's nested chains, or the classic one; or a method of
    /// small images without diffusion
    #[arg(long, value_enum, default_value_t = MethodArg::Guided)]
    pub method: MethodArg,
    /// A robust classifier, whose gradient is brought into a cone around that of the explained one; with openai, whose gradients
    /// keep their lengths, it gets that of the explained one
    #[arg(long, value_name = "CARD")]
    pub robust: Option<String>,
    /// What the classifier looks at: the predicted clean image with gradients through the UNet, the same without, or the
    /// noisy image (default: through-unet; openai: off)
    #[arg(long, value_enum)]
    x0: Option<X0Arg>,
    /// Opening of the cone in degrees, or off (default: 30 with --robust)
    #[arg(long, value_name = "DEG|off")]
    cone: Option<String>,
    /// Inside the cone: keep the robust gradient (projection, the default), or drop it, as the public code does
    /// (published)
    #[arg(long, value_enum)]
    cone_rule: Option<RuleArg>,
    /// Weight of the classifier's gradient (default: 0.1; openai: 1); for dime a list to try in order (default: 8,10,15)
    #[arg(long, value_name = "WEIGHT", value_delimiter = ',')]
    scale: Vec<f64>,
    /// Pull towards the original: l1, l1.5 or l2, with a weight behind a colon, or off (default: l1:0.15; dime: l1:0.05;
    /// openai: off). `l1:0.15:through-unet` differentiates it through the UNet, as DVCE's published commands do
    #[arg(long, value_name = "NORM[:WEIGHT]|off")]
    distance: Option<String>,
    /// Of dime: features that shall stay, alex (inside the program) or vgg, with a weight, or off (default: alex:30)
    #[arg(long, value_name = "NET[:WEIGHT]|off")]
    perceptual: Option<String>,
    /// How a step draws the next image: with fresh noise (ddpm, the default), or by DDIM, for few steps. `--steps ddim20` only
    /// spaces the steps as DDIM does; part of every record. Not of dime
    #[arg(long, value_enum)]
    sampler: Option<SamplerArg>,
    /// Of --sampler ddim: share of the noise of ddpm, from 0 (none, the default) to 1
    #[arg(long, value_name = "SHARE")]
    eta: Option<f64>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MethodArg {
    Guided,
    Dvce,
    Dime,
    Openai,
    /// Gradients in pixel space with a search for the weight of the distance (Wachter et al.)
    Gb,
    /// Guided by prototypes of other classes (Van Looveren & Klaise)
    Gl,
    /// A correction of an invertible network's code (ECINN)
    Gen,
}

#[derive(Clone, Copy, ValueEnum)]
enum X0Arg {
    ThroughUnet,
    AtX0,
    Off,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SamplerArg {
    Ddpm,
    Ddim,
}

#[derive(Clone, Copy, ValueEnum)]
enum RuleArg {
    Projection,
    Published,
}

impl GuidanceArgs {
    /// The first option that was given and is of guided diffusion only.
    pub fn given(&self) -> Option<&'static str> {
        let options = [
            ("--robust", self.robust.is_some()),
            ("--x0", self.x0.is_some()),
            ("--cone", self.cone.is_some()),
            ("--cone-rule", self.cone_rule.is_some()),
            ("--scale", !self.scale.is_empty()),
            ("--distance", self.distance.is_some()),
            ("--perceptual", self.perceptual.is_some()),
            ("--sampler", self.sampler.is_some()),
            ("--eta", self.eta.is_some()),
        ];
        options.iter().find(|o| o.1).map(|o| o.0)
    }

    pub fn is_dime(&self) -> bool {
        self.method == MethodArg::Dime
    }

    pub fn sampler(&self) -> anyhow::Result<Sampler> {
        match (self.sampler, self.eta) {
            (None | Some(SamplerArg::Ddpm), None) => Ok(Sampler::Ddpm),
            (Some(SamplerArg::Ddim), eta) => {
                let eta = eta.unwrap_or(0.0);
                if !(0.0..=1.0).contains(&eta) {
                    return Err(usage(format!("--eta {eta}: expected a share from 0 to 1")));
                }
                Ok(Sampler::Ddim { eta })
            }
            _ => Err(usage("--eta: only --sampler ddim has it")),
        }
    }

    pub fn method(&self) -> anyhow::Result<Method> {
        self.sampler()?;
        if let Some(wrong) = { self.scale.iter() }.find(|s| !(0.0..=LARGEST).contains(*s)) {
            let why = format!("--scale {wrong}: expected a number from 0 to {LARGEST}");
            return Err(usage(why));
        }
        match self.method {
            MethodArg::Dime => Ok(Method::Dime(self.dime()?)),
            _ => Ok(Method::Guided(self.guided()?)),
        }
    }

    fn dime(&self) -> anyhow::Result<Dime> {
        let foreign = [
            ("--robust", self.robust.is_some()),
            ("--x0", self.x0.is_some()),
            ("--cone", self.cone.is_some()),
            ("--cone-rule", self.cone_rule.is_some()),
        ];
        if self.sampler()? != Sampler::Ddpm {
            return Err(usage(
                "--sampler ddim: DiME's nested chains draw with fresh noise; leave --sampler out",
            ));
        }
        if let Some((option, _)) = foreign.iter().find(|(_, given)| *given) {
            return Err(usage(format!(
                "{option}: DiME asks one classifier about clean images that it draws; leave {option} out"
            )));
        }
        let text = self.distance.as_deref().unwrap_or("l1:0.05");
        let distance = self::distance(text)?;
        let weight = |exponent: f64| {
            let own = distance.filter(|d| d.exponent == exponent);
            own.map_or(0.0, |d| d.weight)
        };
        if let Some(d) = distance
            && (![1.0, 2.0].contains(&d.exponent) || d.through_unet)
        {
            let why = format!("--distance {text:?}: DiME knows l1 and l2, at the noisy image");
            return Err(usage(why));
        }
        Ok(Dime {
            scales: match self.scale.is_empty() {
                true => vec![8.0, 10.0, 15.0],
                false => self.scale.clone(),
            },
            l1: weight(1.0),
            l2: weight(2.0),
            perceptual: perceptual(self.perceptual.as_deref().unwrap_or("alex"))?,
        })
    }

    fn guided(&self) -> anyhow::Result<Guidance> {
        let classic = self.method == MethodArg::Openai;
        if self.perceptual.is_some() {
            return Err(usage("--perceptual: only --method dime has it"));
        }
        let cone = match self.cone.as_deref() {
            None if self.robust.is_some() => Some(30.0),
            None | Some("off") => None,
            Some(text) => Some(parse_cone(text).map_err(usage)?),
        };
        if cone.is_some() && self.robust.is_none() {
            return Err(usage("--cone: give the robust classifier with --robust"));
        }
        if cone.is_none() && self.robust.is_some() {
            return Err(usage(
                "--robust: with --cone off it is never asked; leave it out",
            ));
        }
        if cone.is_none() && self.cone_rule.is_some() {
            return Err(usage("--cone-rule: there is no cone; give --robust"));
        }
        let rule = match self.cone_rule {
            None | Some(RuleArg::Projection) => ConeRule::Projection,
            Some(RuleArg::Published) => ConeRule::Published,
        };
        let scale = match self.scale[..] {
            [] => [0.1, 1.0][usize::from(classic)],
            [one] => one,
            _ => return Err(usage("--scale: only --method dime tries several")),
        };
        Ok(Guidance {
            x0: match self.x0 {
                Some(X0Arg::ThroughUnet) => X0::ThroughUnet,
                Some(X0Arg::AtX0) => X0::AtX0,
                Some(X0Arg::Off) => X0::Off,
                None if classic => X0::Off,
                None => X0::ThroughUnet,
            },
            cone: cone.map(|degrees| Cone { degrees, rule }),
            scale,
            distance: match (self.distance.as_deref(), classic) {
                (None, true) => None,
                (text, _) => distance(text.unwrap_or("l1"))?,
            },
            strength: match self.method {
                MethodArg::Dvce => Strength::Noise,
                MethodArg::Openai => Strength::Plain,
                _ => Strength::Mean,
            },
            clip: classic,
        })
    }
}

/// Degrees of a cone.
fn parse_cone(text: &str) -> Result<f64, String> {
    let degrees = text.parse::<f64>().ok();
    let inside = degrees.filter(|d| *d > 0.0 && *d < 90.0);
    inside.ok_or_else(|| format!("--cone {text:?}: expected degrees between 0 and 90, or off"))
}

fn distance(text: &str) -> anyhow::Result<Option<Distance>> {
    parse_distance(text).map_err(|why| usage(format!("--distance {why}")))
}

/// `alex:30`, or off.
fn perceptual(text: &str) -> anyhow::Result<Option<(String, f64)>> {
    if text == "off" {
        return Ok(None);
    }
    let (net, weight) = text.split_once(':').unwrap_or((text, "30"));
    match weight.parse::<f64>() {
        Ok(weight) if ["alex", "vgg"].contains(&net) && (0.0..=LARGEST).contains(&weight) => {
            Ok(Some((net.to_owned(), weight)))
        }
        _ => Err(usage(format!(
            "--perceptual {text:?}: expected alex or vgg with a weight, such as alex:30, or off"
        ))),
    }
}
