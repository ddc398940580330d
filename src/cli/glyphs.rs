//! `foil glyphs`: images of characters whose causes are all known.

use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, Subcommand, ValueEnum};
use image::codecs::png::{CompressionType, FilterType, PngEncoder};
use image::{ExtendedColorType, ImageEncoder};

use super::progress::Bar;
use super::{UsageError, print};
use crate::glyphs::dataset::{self, Plan, Shares};
use crate::glyphs::sheet::Sheet;
use crate::glyphs::{Atlas, Drawing, Fonts, GlyphError, Labels, Model};

/// Images of characters with known attributes.
#[derive(Args)]
pub struct GlyphsArgs {
    #[command(subcommand)]
    command: GlyphsCommand,
}

#[derive(Subcommand)]
enum GlyphsCommand {
    /// Render images and the table of their attributes.
    Render(Box<RenderArgs>),
    /// Draw a contact sheet: typefaces down, characters across.
    Sheet(SheetArgs),
}

#[derive(Args)]
struct RenderArgs {
    /// Folder for images/, attributes.csv and dataset.json; must be new or empty.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Number of images.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    n: usize,
    /// Seed; image i depends on it and on i, not on the number of images or threads.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Side of the images in pixels; the benchmark has 32.
    #[arg(long, value_name = "PIXELS", default_value_t = 32)]
    size: usize,
    /// Folder of typefaces (.ttf, .otf) instead of the 48 inside the program.
    #[arg(long, value_name = "DIR")]
    fonts: Option<PathBuf>,
    /// `exact`: all 48 characters, split 60,20,20; `published`: as the benchmark's code drew them, 47 characters, split
    /// 80,20,0.
    #[arg(long, value_enum, default_value_t = ProtocolArg::Exact)]
    protocol: ProtocolArg,
    /// The first of the 48 characters only. Default: by --protocol.
    #[arg(long, value_name = "K")]
    characters: Option<usize>,
    /// What the label is: the parity of the character's number, the character, or a dot in the first column whose row
    /// alone tells it.
    #[arg(long, value_enum, default_value_t = LabelsArg::Parity)]
    labels: LabelsArg,
    /// Number of typefaces tied to the label, half of them to each class: the benchmark has 6 and 10; 0 for none.
    #[arg(long, value_name = "K", default_value_t = Model::default().spurious)]
    spurious: usize,
    /// Probability that the typeface is one of those tied to the label: the benchmark has 0.50 and 0.95.
    #[arg(long, value_name = "P", default_value_t = Model::default().correlation)]
    correlation: f64,
    /// Probability that the label is not the parity of the character.
    #[arg(long, value_name = "P", default_value_t = Model::default().label_noise)]
    label_noise: f64,
    /// Standard deviation of the noise on intensities from 0 to 1.
    #[arg(long, value_name = "S", default_value_t = Drawing::default().pixel_noise)]
    pixel_noise: f32,
    /// Probability of black on white instead of white on black.
    #[arg(long, value_name = "P", default_value_t = Model::default().inverse)]
    inverse: f64,
    /// Median of the scale: longest side of a glyph as a share of the image.
    #[arg(long, value_name = "S", default_value_t = Model::default().scale)]
    scale: f64,
    /// Standard deviation of the logarithm of the scale.
    #[arg(long, value_name = "S", default_value_t = Model::default().scale_spread)]
    scale_spread: f64,
    /// Standard deviation of the rotation in radians.
    #[arg(long, value_name = "S", default_value_t = Model::default().rotation_spread)]
    rotation_spread: f64,
    /// Largest position left, right, up and down as a share of the free space.
    #[arg(long, value_name = "T", default_value_t = Model::default().translation)]
    translation: f64,
    /// Percentages for train, validation and test. Default: by --protocol.
    #[arg(long, value_name = "A,B,C", value_parser = parse_shares)]
    split: Option<Shares>,
    /// Replace the images and tables of a former run in --out; files of others are never touched.
    #[arg(long)]
    force: bool,
    /// Print dataset.json on standard output instead of a summary.
    #[arg(long)]
    json: bool,
    /// No progress on standard error.
    #[arg(long, short)]
    quiet: bool,
}

#[derive(Args)]
struct SheetArgs {
    /// The picture, .png.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Folder of typefaces (.ttf, .otf) instead of the 48 inside the program.
    #[arg(long, value_name = "DIR")]
    fonts: Option<PathBuf>,
    /// Side of a glyph's cell in pixels.
    #[arg(long, value_name = "PIXELS", default_value_t = 32)]
    cell: usize,
    /// Number of typefaces, spread evenly over all. Default: all.
    #[arg(long, value_name = "N")]
    rows: Option<usize>,
    /// Number of characters, spread evenly over all. Default: all.
    #[arg(long, value_name = "N")]
    columns: Option<usize>,
}

#[derive(Clone, Copy, ValueEnum)]
enum ProtocolArg {
    Exact,
    Published,
}

#[derive(Clone, Copy, ValueEnum)]
enum LabelsArg {
    Parity,
    Character,
    Dot,
}

fn parse_shares(text: &str) -> Result<Shares, String> {
    let numbers: Result<Vec<f64>, _> = text.split(',').map(|part| part.trim().parse()).collect();
    match numbers.as_deref() {
        Ok([train, validation]) => Ok(Shares([*train, *validation, 0.0])),
        Ok([train, validation, test]) => Ok(Shares([*train, *validation, *test])),
        _ => Err("expected two or three numbers such as 60,20,20".into()),
    }
}

pub fn run(args: &GlyphsArgs) -> anyhow::Result<()> {
    match &args.command {
        GlyphsCommand::Render(args) => render(args),
        GlyphsCommand::Sheet(args) => sheet(args),
    }
}

/// Wrong settings are the command line's fault, everything else is failed work.
fn blame(error: GlyphError) -> anyhow::Error {
    match error {
        GlyphError::Setting { .. } => UsageError(error.to_string()).into(),
        other => other.into(),
    }
}

fn open_atlas(fonts: Option<&PathBuf>) -> anyhow::Result<Atlas> {
    let fonts = match fonts {
        Some(folder) => Fonts::from_folder(folder).context("--fonts")?,
        None => Fonts::embedded()?,
    };
    Ok(Atlas::new(fonts))
}

impl RenderArgs {
    fn plan(&self) -> Plan {
        let (base, shares) = match self.protocol {
            ProtocolArg::Exact => (Model::default(), Shares::default()),
            ProtocolArg::Published => (Model::published(), Shares::published()),
        };
        Plan {
            n: self.n,
            seed: self.seed,
            drawing: Drawing {
                size: self.size,
                pixel_noise: self.pixel_noise,
            },
            model: Model {
                characters: self.characters.unwrap_or(base.characters),
                labels: match self.labels {
                    LabelsArg::Parity => Labels::Parity,
                    LabelsArg::Character => Labels::Character,
                    LabelsArg::Dot => Labels::Dot,
                },
                spurious: self.spurious,
                correlation: self.correlation,
                label_noise: self.label_noise,
                inverse: self.inverse,
                scale: self.scale,
                scale_spread: self.scale_spread,
                rotation_spread: self.rotation_spread,
                translation: self.translation,
            },
            shares: self.split.unwrap_or(shares),
        }
    }
}

fn render(args: &RenderArgs) -> anyhow::Result<()> {
    let atlas = open_atlas(args.fonts.as_ref())?;
    let mut bar = Bar::new(args.quiet);
    let done = dataset::write(
        &atlas,
        &args.plan(),
        &args.out,
        args.force,
        &mut |what, done, total| bar.update(what, done, total),
    );
    bar.finish();
    let summary = done.map_err(blame)?;
    if args.json {
        return print(&format!("{}\n", serde_json::to_string_pretty(&summary)?));
    }
    let split = &summary["splits"];
    let labels = summary["labels"].as_object().cloned().unwrap_or_default();
    let names = labels.keys().cloned().collect::<Vec<_>>().join("/");
    let counts: Vec<String> = labels.values().map(ToString::to_string).collect();
    let counts = counts.join("/");
    print(&format!(
        "{} images of {} typefaces in {}: {} for training, {} for validation, {} for test; labels {}: {}\n",
        summary["images"],
        summary["fonts"],
        args.out.display(),
        split["train"],
        split["validation"],
        split["test"],
        names,
        counts,
    ))
}

fn sheet(args: &SheetArgs) -> anyhow::Result<()> {
    let extension = args.out.extension().unwrap_or_default();
    if !extension.eq_ignore_ascii_case("png") {
        let out = args.out.display();
        let why =
            format!("--out {out}: expected a name that ends in .png, the format of the picture");
        return Err(UsageError(why).into());
    }
    let atlas = open_atlas(args.fonts.as_ref())?;
    let whole = Sheet::whole(&atlas, args.cell);
    let sheet = Sheet {
        rows: args.rows.unwrap_or(whole.rows),
        columns: args.columns.unwrap_or(whole.columns),
        ..whole
    };
    let (width, height, pixels) = sheet.draw(&atlas).map_err(blame)?;
    let mut bytes = Vec::new();
    PngEncoder::new_with_quality(&mut bytes, CompressionType::Best, FilterType::Adaptive)
        .write_image(&pixels, width as u32, height as u32, ExtendedColorType::L8)?;
    std::fs::write(&args.out, bytes)
        .with_context(|| format!("{}: cannot write", args.out.display()))?;
    print(&format!(
        "{} typefaces, {} characters: {}\n",
        sheet.rows,
        sheet.columns,
        args.out.display()
    ))
}
