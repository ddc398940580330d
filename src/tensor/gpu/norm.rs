//! Layer and group norms, and scales and shifts of each image's own.

use std::ops::Range;

use super::constants::Constant;
use super::kernels::{
    Kernel, NORM_CONCLUDE, NORM_GATHER, NORM_LAYER, NORM_MODULATE, NORM_NORMALISE, NORM_STATISTICS,
};
use super::pieces::{Piece, pieces};
use super::tensor::Tensor;
use super::{Argument, Gpu, bits, code};
use crate::{Activation, Norm, Shape, TensorError, rules};

/// Pixels that a workgroup of the layer norm takes.
const PIXELS: usize = 16;
/// What the sums over some rows of an image leave of each group.
const KEPT: usize = 513;

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
    first_pixel: usize,
    stage: usize,
}

impl Params {
    fn words(&self) -> [u32; 14] {
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
            self.first_pixel as u32,
            self.stage as u32,
        ]
    }
}

/// What a group norm does after its statistics.
struct Tables<'a> {
    weight: Constant,
    bias: Constant,
    modulation: Option<&'a Tensor>,
    groups: usize,
    epsilon: f32,
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
        let tables = Tables {
            weight: self.constant(&bits(&norm.weight).collect::<Vec<_>>())?,
            bias: self.constant(&bits(&norm.bias).collect::<Vec<_>>())?,
            modulation,
            groups,
            epsilon: norm.epsilon,
        };
        let maps = self.scratch(Shape::new(shape.n, 1, 1, 3 * shape.c))?;
        match self.fits(shape.image()) {
            true => self.statistics_of_images(x, &tables, &maps)?,
            false => self.statistics_by_rows(x, &tables, &maps)?,
        }
        self.mapped(&NORM_NORMALISE, x, &maps, activation)
    }

    fn statistics_of_images(
        &self,
        x: &Tensor,
        tables: &Tables<'_>,
        maps: &Tensor,
    ) -> Result<(), TensorError> {
        let shape = x.shape();
        let image = shape.image();
        let all = pieces("group norm", shape.n, 1, |p| self.fits(p.images() * image))?;
        for Piece { images, .. } in all {
            let from = self.reads(x, images.start * image..images.end * image)?;
            self.statistics(&NORM_STATISTICS, from, shape, &images, tables, maps)?;
        }
        Ok(())
    }

    /// The same, with the same bits, of images that a kernel cannot see whole.
    fn statistics_by_rows(
        &self,
        x: &Tensor,
        tables: &Tables<'_>,
        maps: &Tensor,
    ) -> Result<(), TensorError> {
        let shape = x.shape();
        let (line, of_image) = (shape.w * shape.c, tables.groups * KEPT);
        let sums = self.scratch(Shape::new(1, 1, 1, of_image))?;
        let all = pieces("group norm", 1, shape.h, |p| self.fits(p.rows() * line))?;
        for n in 0..shape.n {
            for (stage, Piece { rows, .. }) in
                (0..2).flat_map(|stage| all.iter().map(move |piece| (stage, piece)))
            {
                let first = n * shape.image();
                let from = self.reads(x, first + rows.start * line..first + rows.end * line)?;
                let to = self.writes(&sums, 0..of_image)?;
                let params = Params {
                    x_at: from.at(0),
                    y_at: to.at(0),
                    c: shape.c,
                    pixels: rows.len() * shape.w,
                    count: tables.groups,
                    groups: tables.groups,
                    image: shape.h * shape.w,
                    first_pixel: rows.start * shape.w,
                    stage,
                    ..Params::default()
                };
                let [gx, gy] = self.grid(tables.groups);
                let bindings = [
                    from.binding,
                    tables.weight.binding(),
                    tables.bias.binding(),
                    tables.bias.binding(),
                    to.binding,
                ];
                self.launch(&NORM_GATHER, [gx, gy, 1], &params.words(), &bindings)?;
            }
            let from = self.reads(&sums, 0..of_image)?;
            self.statistics(&NORM_CONCLUDE, from, shape, &(n..n + 1), tables, maps)?;
        }
        Ok(())
    }

    /// The maps of some images, of their values or of sums of them.
    fn statistics(
        &self,
        kernel: &'static Kernel,
        from: Argument<'_>,
        shape: Shape,
        images: &Range<usize>,
        tables: &Tables<'_>,
        maps: &Tensor,
    ) -> Result<(), TensorError> {
        let part = |width: usize| images.start * width..images.end * width;
        let modulation = tables
            .modulation
            .map(|m| self.reads(m, part(2 * shape.c)))
            .transpose()?;
        let to = self.writes(maps, part(3 * shape.c))?;
        let params = Params {
            x_at: from.at(0),
            modulation_at: modulation.as_ref().map_or(0, |m| m.at(0)),
            y_at: to.at(0),
            c: shape.c,
            pixels: shape.h * shape.w,
            count: images.len() * tables.groups,
            groups: tables.groups,
            has_modulation: modulation.is_some(),
            epsilon: tables.epsilon,
            ..Params::default()
        };
        let [gx, gy] = self.grid(images.len() * tables.groups);
        let bindings = [
            from.binding,
            tables.weight.binding(),
            tables.bias.binding(),
            modulation.map_or_else(|| tables.bias.binding(), |m| m.binding),
            to.binding,
        ];
        self.launch(kernel, [gx, gy, 1], &params.words(), &bindings)
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
