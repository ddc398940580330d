//! The published 256×256 networks: every tensor by name and shape, without the memory of their weights.
//!
//! The networks are built on a device that computes shapes only: they must ask for all of the listed tensors and no
//! others, and their layers must fit together.

use std::collections::BTreeSet;

use super::super::check::Check;
use super::super::error::Of;
use super::super::folder::Folder;
use super::super::json::Node;
use super::super::weight_table::shape;
use super::super::{Result, unet_settings};
use crate::nets::{Unet, UnetEncoder};
use crate::tensor::plan::Plan;
use crate::tensor::{Array, Backend, Shape, StateDict};

/// An activation from the start, so that no layer is made of it.
const POSITIONS: &str = "out.2.positional_embedding";

pub fn run(folder: &Folder, check: &mut Check) -> Result<()> {
    let Some(json) = folder.json("full_size_shapes.json")? else {
        return Ok(());
    };
    check.group("full size");
    for (name, node) in json.root().fields()? {
        // As the command line has it, and modules by name: the resolved settings and the shapes say both.
        node.skip_fields(&["settings_as_given", "blocks"]);
        network(name, &node, check)?;
    }
    Ok(())
}

fn network(name: &str, node: &Node<'_>, check: &mut Check) -> Result<()> {
    let mut dict = StateDict::named(name);
    let mut parameters = 0;
    for (tensor, node) in node.at("shapes")?.fields()? {
        // Pages of zeros that nothing writes to take no memory.
        let array = Array::zeros(shape(&node)?);
        parameters += array.len();
        dict.insert(tensor, array);
    }
    let what = |part: &str| format!("{name}: {part}");
    let count = node.at("parameter_count")?.usize()?;
    check.equal(what("parameters"), &count, &parameters);
    check.equal(
        what("tensors"),
        &node.at("tensor_count")?.usize()?,
        &dict.len(),
    );
    let settings = node.at("resolved")?;
    let (side, inputs) = (
        settings.at("image_size")?.usize()?,
        settings.at("in_channels")?.usize()?,
    );
    let outputs = settings.at("out_channels")?.usize()?;
    let device = Plan::default();
    let x = Shape::new(1, side, side, inputs);
    let (got, expected) = match settings.get("pool") {
        None => {
            let mut config = unet_settings::denoiser(&settings, check)?;
            if let Some(groups) = settings.get("group_norm_groups") {
                config.num_groups = groups.usize()?;
            }
            let unet = Unet::new(&device, &dict, config).of(name)?;
            let got = unet.predict(&device, &x, &[0.0], None).of(name)?;
            (got, Shape::new(1, side, side, outputs))
        }
        Some(_) => {
            let config = unet_settings::encoder(&settings, check)?;
            let encoder = UnetEncoder::new(&device, &dict, config).of(name)?;
            let got = encoder.predict_at(&device, &x, &[0.0]).of(name)?.logits;
            (got, Shape::new(1, 1, 1, outputs))
        }
    };
    check.equal(what("output"), &expected, &device.shape(&got));
    let side_of = |tensor: &str, axis: usize| {
        let array = dict.get(tensor);
        array.and_then(|a| a.shape.get(axis).copied())
    };
    for (field, value) in settings.fields()? {
        match field {
            "time_embed_dim" => {
                let got = side_of("time_embed.0.weight", 0);
                check.equal(what(field), &Some(value.usize()?), &got);
            }
            "attention_pool_spatial" => {
                let tokens = value.usize()?.pow(2) + 1;
                check.equal(what(field), &Some(tokens), &side_of(POSITIONS, 1));
            }
            _ => {}
        }
    }
    let listed: BTreeSet<String> = dict.iter().map(|(name, _)| name.to_owned()).collect();
    let mut asked = device.asked();
    if listed.contains(POSITIONS) {
        asked.insert(POSITIONS.into());
    }
    let unasked: Vec<&String> = listed.difference(&asked).collect();
    let unlisted: Vec<&String> = asked.difference(&listed).collect();
    let none: Vec<&String> = Vec::new();
    check.equal(what("tensors that it does not ask for"), &none, &unasked);
    check.equal(what("tensors that are not listed"), &none, &unlisted);
    Ok(())
}
