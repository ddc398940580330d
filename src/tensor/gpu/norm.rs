//! Layer and group norms, and scales and shifts of each image's own.

use super::kernels::{Kernel, NORM_LAYER, NORM_MODULATE, NORM_NORMALISE, NORM_STATISTICS};
use super::pieces::{Piece, pieces};
use super::tensor::Tensor;
use super::{Gpu, bits, code};
use crate::tensor::{Activation, Norm, Shape, TensorError, rules};

/// Pixels that a workgroup of the layer norm takes.
const PIXELS: usize = 16;

/// The words of the kernels' parameters that not every kernel needs.
#[derive(Default)]
struct Params {
    x_at: u32,
    modulation_at: u32,
    y_at: u32,
    c: usize,
    pixels: usize,
    count: usize,
    groups: usize,
    has_modulation: bool,
    activation: Activation,
    epsilon: f32,
    image: usize,
    first_image: usize,
}

impl Params {
    fn words(&self) -> [u32; 12] {
        [
            self.x_at,
            self.modulation_at,
            self.y_at,
            self.c as u32,
            self.pixels as u32,
            self.count as u32,
            self.groups as u32,
            u32::from(self.has_modulation),
            code(self.activation),
            self.epsilon.to_bits(),
            self.image as u32,
            self.first_image as u32,
        ]
    }
}

impl Gpu {
    pub(super) fn layer_normed(&self, x: &Tensor, norm: &Norm) -> Result<Tensor, TensorError> {
        let shape = x.shape();
        rules::norm("layer norm", shape, norm, 1)?;
        let y = self.tensor(shape)?;
        if shape.is_empty() {
            return Ok(y);
        }
        let weight = self.constant(&bits(&norm.weight).collect::<Vec<_>>())?;
        let bias = self.constant(&bits(&norm.bias).collect::<Vec<_>>())?;
        let (c, pixels) = (shape.c, shape.n * shape.h * shape.w);
        let all = pieces("layer norm", 1, pixels, |p| self.fits(p.rows() * c))?;
        for Piece { rows, .. } in all {
            let from = self.reads(x, rows.start * c..rows.end * c)?;
            let to = self.writes(&y, rows.start * c..rows.end * c)?;
            let params = Params {
                x_at: from.at(0),
                y_at: to.at(0),
                c,
                pixels: rows.len(),
                epsilon: norm.epsilon,
                ..Params::default()
            };
            let [gx, gy] = self.grid(rows.len().div_ceil(PIXELS));
            let bindings = [
                from.binding,
                weight.binding(),
                bias.binding(),
                bias.binding(),
                to.binding,
            ];
            self.launch(&NORM_LAYER, [gx, gy, 1], &params.words(), &bindings)?;
        }
        Ok(y)
    }

    pub(super) fn group_normed(
        &self,
        x: &Tensor,
        groups: usize,
        norm: &Norm,
        modulation: Option<&Tensor>,
        activation: Activation,
    ) -> Result<Tensor, TensorError> {
        let shape = x.shape();
        rules::norm("group norm", shape, norm, groups)?;
        if let Some(m) = modulation {
            rules::modulation("modulation of a group norm", shape, m.shape())?;
        }
        if shape.is_empty() {
            return self.tensor(shape);
        }
        let weight = self.constant(&bits(&norm.weight).collect::<Vec<_>>())?;
        let bias = self.constant(&bits(&norm.bias).collect::<Vec<_>>())?;
        let maps = self.scratch(Shape::new(shape.n, 1, 1, 3 * shape.c))?;
        // Statistics are of whole images.
        let all = pieces("group norm", shape.n, 1, |p| {
            self.fits(p.images() * shape.image())
        })?;
        for Piece { images, .. } in all {
            let image = shape.image();
            let from = self.reads(x, images.start * image..images.end * image)?;
            let modulation = modulation
                .map(|m| {
                    let c = 2 * shape.c;
                    self.reads(m, images.start * c..images.end * c)
                })
                .transpose()?;
            let c = 3 * shape.c;
            let to = self.writes(&maps, images.start * c..images.end * c)?;
            let params = Params {
                x_at: from.at(0),
                modulation_at: modulation.as_ref().map_or(0, |m| m.at(0)),
                y_at: to.at(0),
                c: shape.c,
                pixels: shape.h * shape.w,
                count: images.len() * groups,
                groups,
                has_modulation: modulation.is_some(),
                epsilon: norm.epsilon,
                ..Params::default()
            };
            let [gx, gy] = self.grid(images.len() * groups);
            let bindings = [
                from.binding,
                weight.binding(),
                bias.binding(),
                modulation.map_or_else(|| bias.binding(), |m| m.binding),
                to.binding,
            ];
            self.launch(&NORM_STATISTICS, [gx, gy, 1], &params.words(), &bindings)?;
        }
        self.mapped(&NORM_NORMALISE, x, &maps, activation)
    }

    pub(super) fn modulated(
        &self,
        x: &Tensor,
        modulation: &Tensor,
        activation: Activation,
    ) -> Result<Tensor, TensorError> {
        rules::modulation("modulation", x.shape(), modulation.shape())?;
        self.mapped(&NORM_MODULATE, x, modulation, activation)
    }

    /// Every value of an image by the map of its channel.
    fn mapped(
        &self,
        kernel: &'static Kernel,
        x: &Tensor,
        maps: &Tensor,
        activation: Activation,
    ) -> Result<Tensor, TensorError> {
        let shape = x.shape();
        let y = self.tensor(shape)?;
        if shape.is_empty() {
            return Ok(y);
        }
        let line = shape.w * shape.c;
        let all = pieces("modulation", shape.n, shape.h, |p| {
            self.fits(p.images() * p.rows() * line)
        })?;
        for piece in &all {
            let count = piece.images() * piece.rows() * line;
            let first = piece.images.start * shape.image() + piece.rows.start * line;
            let from = self.reads(x, first..first + count)?;
            let to = self.writes(&y, first..first + count)?;
            let map = self.reads(maps, 0..maps.shape().len())?;
            let params = Params {
                x_at: from.at(0),
                modulation_at: map.at(0),
                y_at: to.at(0),
                c: shape.c,
                count,
                activation,
                image: piece.rows() * line,
                first_image: piece.images.start,
                ..Params::default()
            };
            // The two tables of a norm are not looked at.
            let bindings = [
                from.binding,
                map.binding.clone(),
                map.binding.clone(),
                map.binding,
                to.binding,
            ];
            self.launch_values(kernel, count, &params.words(), &bindings)?;
        }
        Ok(y)
    }
}
