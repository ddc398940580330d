//! Classifiers, oracles, robust classifiers and the attribute encoder.

use anyhow::Result;
use clap::{Args, ValueEnum};

use super::{CommonArgs, Finished, Task};
use crate::nets::{Architecture, UnetEncoderConfig, build};
use crate::tensor::candle::Candle;
use crate::tensor::{Backend, StateDict, cpu::Cpu};
use crate::train::{self, Attack, Meaning, Split, Target};

/// How far an adversary may move an image, in the L2 norm over pixel values from 0 to 1.
const RADIUS: f64 = 1.5;
/// Test images that are attacked.
const JUDGED: usize = 512;

#[derive(Args)]
pub struct ClassifierArgs {
    #[command(flatten)]
    common: CommonArgs,
    #[command(flatten)]
    layout: LayoutArgs,
    /// What to learn
    #[arg(long, value_enum, default_value = "label")]
    target: TargetName,
    /// Learn from the label alone. Without this the network learns the character as well, which makes it learn
    /// faster, and forgets it in the end
    #[arg(long)]
    unaided: bool,
}

#[derive(Args)]
pub struct RobustArgs {
    #[command(flatten)]
    common: CommonArgs,
    #[command(flatten)]
    layout: LayoutArgs,
    /// How far an adversary may move an image, in the L2 norm over pixel values from 0 to 1
    #[arg(long, default_value_t = RADIUS, value_parser = super::positive)]
    radius: f64,
    /// Steps of the adversary
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..))]
    attack_steps: u8,
}

#[derive(Args)]
pub struct EncoderArgs {
    #[command(flatten)]
    common: CommonArgs,
    #[command(flatten)]
    layout: LayoutArgs,
}

#[derive(Args)]
struct LayoutArgs {
    /// Layout of the network
    #[arg(long, value_enum)]
    architecture: Option<Layout>,
    /// Channels of its first layer
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=512))]
    width: Option<u16>,
}

#[derive(Clone, Copy, ValueEnum, PartialEq, Eq)]
enum TargetName {
    Label,
    Character,
    Font,
}

#[derive(Clone, Copy, ValueEnum, PartialEq, Eq, Debug)]
enum Layout {
    /// torchvision's ResNet-18, slim
    Resnet18,
    /// Pairs of 3×3 convolutions and max-pools
    PlainCnn,
    /// torchvision's ConvNeXt, small
    Convnext,
    /// A small ConvNeXt with batch norms
    ConvnextBn,
}

impl Layout {
    fn architecture(self) -> Architecture {
        match self {
            Layout::Resnet18 => Architecture::ResNet18,
            Layout::PlainCnn => Architecture::PlainCnn,
            Layout::Convnext => Architecture::ConvNextTiny,
            Layout::ConvnextBn => Architecture::ConvNextBn,
        }
    }

    /// Its last layer.
    fn head(self) -> &'static str {
        match self {
            Layout::Resnet18 => "fc",
            Layout::PlainCnn | Layout::ConvnextBn => "head",
            Layout::Convnext => "classifier.2",
        }
    }

    fn initial(self, seed: u64, width: Option<u16>, outputs: usize) -> StateDict {
        let width = |default: usize| width.map_or(default, usize::from);
        match self {
            Layout::Resnet18 => train::resnet18(seed, width(16), outputs),
            Layout::PlainCnn => {
                let w = width(24);
                train::plain_cnn(seed, &[w, 2 * w, 4 * w], outputs)
            }
            Layout::Convnext => {
                let w = width(24);
                train::convnext(seed, 2, &[w, 2 * w, 4 * w], &[1, 1, 2], outputs)
            }
            Layout::ConvnextBn => {
                let w = width(32);
                train::convnext_bn(seed, &[w, 2 * w, 4 * w], &[1, 2, 2], outputs)
            }
        }
    }
}

/// What to learn, and how.
struct Wanted {
    target: Target,
    aided: bool,
    layout: Layout,
    width: Option<u16>,
    attack: Option<Attack>,
}

pub fn classifier(what: &'static str, args: &ClassifierArgs) -> Result<()> {
    let usual = if what == "oracle" {
        Layout::PlainCnn
    } else {
        Layout::Resnet18
    };
    let wanted = Wanted {
        target: match args.target {
            TargetName::Label => Target::Label,
            TargetName::Character => Target::Character,
            TargetName::Font => Target::Font,
        },
        aided: !args.unaided,
        layout: args.layout.architecture.unwrap_or(usual),
        width: args.layout.width,
        attack: None,
    };
    learn(what, &args.common, 2000, &wanted)
}

pub fn robust(args: &RobustArgs) -> Result<()> {
    let wanted = Wanted {
        target: Target::Label,
        aided: true,
        layout: args.layout.architecture.unwrap_or(Layout::Resnet18),
        width: args.layout.width,
        attack: Some(Attack {
            radius: args.radius,
            steps: usize::from(args.attack_steps),
        }),
    };
    learn("robust", &args.common, 2000, &wanted)
}

pub fn encoder(args: &EncoderArgs) -> Result<()> {
    let wanted = Wanted {
        target: Target::Attributes,
        aided: false,
        layout: args.layout.architecture.unwrap_or(Layout::PlainCnn),
        width: args.layout.width,
        attack: None,
    };
    learn("encoder", &args.common, 3000, &wanted)
}

fn learn(what: &'static str, common: &CommonArgs, steps: usize, wanted: &Wanted) -> Result<()> {
    let task = Task::new(what, common, steps, |_| true)?;
    if task.data.labels_only && wanted.target != Target::Label {
        let why = match wanted.target {
            Target::Attributes => {
                "an encoder reads the attributes of glyphs off an image, but of these images only labels are known; train a classifier"
            }
            _ => "--target: of these images only labels are known; leave it out",
        };
        return Err(super::UsageError(why.into()).into());
    }
    let (data, layout, attack) = (&task.data, wanted.layout, &wanted.attack);
    let meaning = Meaning::new(wanted.target, wanted.aided, data, &task.items);
    let architecture = layout.architecture();
    let initial = layout.initial(common.seed, wanted.width, meaning.outputs());
    let unet = UnetEncoderConfig::default();
    let plan = task.plan(
        None,
        &[
            ("target", format!("{:?}", wanted.target).to_lowercase()),
            ("aided", meaning.aided.to_string()),
            ("architecture", architecture.to_string()),
            (
                "width",
                wanted.width.map_or("default".into(), |w| w.to_string()),
            ),
            ("attack", format!("{attack:?}")),
        ],
    );
    let trained = task.train(
        &plan,
        initial.clone(),
        |training, dict| Ok(build(architecture, training, dict, &unet)?),
        |training, net, chosen, _| {
            let mut images = data.batch(chosen);
            if let Some(attack) = attack {
                // The adversary sees the network as it is used: finished, with its norms folded.
                let now = training.values(&initial)?;
                let fixed = build(architecture, &Candle, &now, &unet)?;
                images = attack.run(fixed.as_ref(), &images, |logits| {
                    meaning.loss(logits, data, chosen)
                })?;
            }
            let outputs = net.predict(training, &training.upload(&images)?)?.logits;
            meaning.loss(outputs.candle(), data, chosen)
        },
    )?;
    let mut dict = trained.weights;
    let meaning = meaning.finish(&mut dict, layout.head());
    if common.half {
        train::round_to_half(&mut dict);
    }
    let net = build(architecture, &Cpu, &dict, &unet)?;
    let mut found = Vec::new();
    let mut measure = |name: &str, values: Vec<(String, f64)>| {
        found.extend(
            values
                .into_iter()
                .map(|(kind, v)| (format!("{name} {kind}"), v)),
        );
    };
    for (name, split) in [("validation", Split::Validation), ("test", Split::Test)] {
        let items = task.held_out(split, |_| true);
        if !items.is_empty() {
            let plain = |items: &[usize]| Ok(data.batch(items));
            measure(name, meaning.evaluate(net.as_ref(), data, &items, plain)?);
        }
    }
    let mut judged = task.held_out(Split::Test, |_| true);
    judged.truncate(JUDGED);
    if meaning.target == Target::Label && !judged.is_empty() {
        let attack = Attack {
            radius: attack.map_or(RADIUS, |a| a.radius),
            steps: 10,
        };
        let open = build(architecture, &Candle, &dict, &unet)?;
        let attacked = |items: &[usize]| {
            attack.run(open.as_ref(), &data.batch(items), |logits| {
                meaning.loss(logits, data, items)
            })
        };
        let name = format!("attacked (L2 {})", attack.radius);
        measure(
            &name,
            meaning.evaluate(net.as_ref(), data, &judged, attacked)?,
        );
    }
    let labels = match meaning.target {
        Target::Label if meaning.labels == data.label_names.len() => data.label_names.clone(),
        _ => Vec::new(),
    };
    let further = match meaning.target {
        Target::Attributes => "role = \"encoder\"\n".to_owned(),
        _ => String::new(),
    };
    task.finish(&Finished {
        architecture,
        dict,
        cost: trained.cost,
        found,
        labels,
        range: [-1.0, 1.0],
        grey: false,
        further,
    })
}
