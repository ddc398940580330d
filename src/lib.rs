//! foil evaluates counterfactual explanations of image classifiers: how valid, close, realistic and diverse are they?
//!
//! The rooms of the crate, in the order in which data flows:
//!
//! - [`images`] finds, pairs and decodes images (pixels equal to libjpeg-turbo's, resizing equal to Pillow's);
//! - [`weights`] knows model cards and finds the weights of networks;
//! - [`tensor`] states what a device must do ([`tensor::Backend`]) and holds the devices;
//! - [`nets`] holds the networks, each written once against that trait;
//! - [`metrics`] are pure functions from features, logits and pixels to scores, with [`stats`] below them;
//! - [`attribute`] explains models of tables by weights of features, and judges the weights;
//! - [`glyphs`] renders images of characters whose causes are all known;
//! - [`diffusion`] turns noise into images and [`train`] makes small networks;
//! - [`score`] runs all of it over a folder of pairs and [`report`] writes the results;
//! - [`study`] makes the papers' tables of many such results;
//! - [`demo`] shows what they tell apart;
//! - [`conformance`] proves the numbers on golden data; [`cli`] is the command line.
//!
//! ```no_run
//! use foil::metrics::lpips::{Lpips, LpipsNet};
//! use foil::tensor::{Backend, cpu::Cpu};
//!
//! // LPIPS of two images with the weights inside the program.
//! let weights = foil::weights::Registry::open()?.lpips("alex")?;
//! let lpips = Lpips::new(&Cpu, LpipsNet::Alex, &weights.backbone, weights.heads)?;
//! let limits = foil::images::Limits::default();
//! let [a, b] = ["a.png", "b.png"].map(|f| foil::images::read(f.as_ref(), &limits));
//! let (a, b) = (a?, b?);
//! let features = |image: &foil::images::Image| {
//!     let pixels = Cpu.upload_pixels(&[&image.pixels], image.height, image.width)?;
//!     lpips.features(&Cpu, &pixels, 1.0 / 127.5, -1.0)
//! };
//! println!("{}", lpips.distances(&Cpu, &features(&a)?, &features(&b)?)?[0].value);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod attribute;
pub mod cli;
pub mod conformance;
pub mod demo;
pub mod diffusion;
pub mod explain;
mod folder;
pub mod glyphs;
pub mod images;
pub mod metrics;
pub mod nets;
pub mod report;
pub mod score;
mod shell;
pub mod stats;
pub mod study;
pub mod tabular;
pub mod train;
pub mod weights;

pub use foil_tensor as tensor;
