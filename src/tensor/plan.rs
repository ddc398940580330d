//! What a network costs on a GPU, before anything is computed: a device whose tensors are shapes, and which notes of every
//! operation the launches it comes to.
//!
//! Flops are those of the formula at the head of the kernel, bytes are every operand read once and every result written
//! once: what a device with caches cannot go below. The roofline time of a kernel is the larger of flops over the device's
//! peak and bytes over its bandwidth. Sizes of tiles are stated here again, apart from the code that launches, so that
//! the counters of a device check both.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use super::{
    Activation, Along, Array, Attention, Backend, Conv, Layer, Norm, Padding, Part, PixelPass,
    Pool, PoolKind, Resize, Shape, TensorError, Then, rules,
};

type Result<T> = std::result::Result<T, TensorError>;

/// What one kernel is asked to do.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    pub launches: u64,
    pub invocations: u64,
    pub flops: f64,
    pub bytes: f64,
}

/// Peak of a GPU: single-precision flops and bytes of memory per second, as its maker states them.
#[derive(Clone, Copy, Debug)]
pub struct Peak {
    pub name: &'static str,
    /// What the driver calls the GPU.
    pub device: &'static str,
    pub flops: f64,
    pub bytes: f64,
}

/// The GPUs of the table in `docs/performance.md`.
pub const PEAKS: [Peak; 3] = [
    Peak {
        name: "A100 (SXM, 40 GB)",
        device: "NVIDIA A100-SXM4-40GB",
        flops: 19.5e12,
        bytes: 1555e9,
    },
    Peak {
        name: "H100 (SXM)",
        device: "NVIDIA H100 80GB HBM3",
        flops: 66.9e12,
        bytes: 3350e9,
    },
    Peak {
        name: "RTX 4090",
        device: "NVIDIA GeForce RTX 4090",
        flops: 82.6e12,
        bytes: 1008e9,
    },
];

impl Peak {
    /// Seconds below which a kernel cannot come.
    pub fn seconds(&self, cost: &Cost) -> f64 {
        (cost.flops / self.flops).max(cost.bytes / self.bytes)
    }
}

/// Costs by file and entry of `kernels/`.
pub type Costs = BTreeMap<(&'static str, &'static str), Cost>;

/// The device that only counts.
#[derive(Default)]
pub struct Plan {
    costs: Mutex<Costs>,
    asked: Mutex<BTreeSet<String>>,
}

/// Flops of an activation, and of the exponential, as `kernels/activation.wgsl` computes them.
fn flops_of(activation: Activation) -> usize {
    match activation {
        Activation::None => 0,
        Activation::Relu => 1,
        Activation::Relu6 | Activation::LeakyRelu => 2,
        Activation::Tanh => 25,
        Activation::Silu => EXPONENTIAL + 2,
        Activation::Gelu => 32,
    }
}

const EXPONENTIAL: usize = 25;
/// A sum of a number of two f32 and an f32.
const ADDED: usize = 10;

/// Sides of the tiles of convolutions and of attention, pixels of a workgroup of norms and distances, rows of the softmax.
const TILE: usize = 64;
const SMALL_TILE: usize = 16;
const INVOCATIONS: usize = 256;

impl Plan {
    /// What was asked so far.
    pub fn costs(&self) -> Costs {
        let costs = self.costs.lock().unwrap_or_else(PoisonError::into_inner);
        costs.clone()
    }

    /// Names of the parameters of all layers that were prepared and of all norms that were run.
    pub fn asked(&self) -> BTreeSet<String> {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.clone()
    }

    fn ask(&self, prefix: &str, parts: &[&str]) {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.extend(parts.iter().map(|part| format!("{prefix}{part}")));
    }

    /// Notes a launch: workgroups, flops, and values read and written.
    fn note(
        &self,
        name: &'static str,
        entry: &'static str,
        groups: usize,
        flops: usize,
        values: usize,
    ) {
        if groups == 0 {
            return;
        }
        let mut costs = self.costs.lock().unwrap_or_else(PoisonError::into_inner);
        let cost = costs.entry((name, entry)).or_default();
        cost.launches += 1;
        cost.invocations += (groups * INVOCATIONS) as u64;
        cost.flops += flops as f64;
        cost.bytes += 4.0 * values as f64;
    }

    /// The same for a kernel with an invocation for each output.
    fn note_values(
        &self,
        (name, entry): (&'static str, &'static str),
        outputs: usize,
        flops: usize,
        values: usize,
    ) {
        let groups = outputs.div_ceil(INVOCATIONS);
        self.note(name, entry, groups, flops, values);
    }

    fn copied(&self, entry: &'static str, from: Shape, to: Shape) -> Shape {
        self.note_values(("layout", entry), to.len(), 0, from.len() + to.len());
        to
    }

    fn convolved(&self, x: Shape, conv: &Conv, residual: bool) -> Result<Shape> {
        let out = rules::conv(x, conv)?;
        let terms = conv.kernel[0] * conv.kernel[1] * (conv.inputs / conv.groups);
        let flops = 2 * terms * out.len();
        let weights = terms * conv.outputs + conv.outputs;
        let values = x.len() + weights + out.len() * (1 + usize::from(residual));
        let plain = conv.groups == 1 && conv.padding == Padding::default();
        let pointwise = conv.kernel == [1, 1] && conv.stride == 1;
        let pixels = out.n * out.h * out.w;
        if conv.groups == conv.inputs && conv.groups > 1 {
            self.note_values(("conv2d", "depthwise"), out.len(), flops, values);
        } else if plain && (pointwise || conv.kernel == [x.h, x.w]) {
            let groups = pixels.div_ceil(TILE) * out.c.div_ceil(TILE);
            self.note("matmul", "linear", groups, flops, values);
        } else {
            let tiles = conv.groups * (conv.outputs / conv.groups).div_ceil(TILE);
            let groups = pixels.div_ceil(TILE) * tiles;
            self.note("conv2d", "dense", groups, flops, values);
        }
        Ok(out)
    }

    fn pooled(&self, x: Shape, pool: Pool) -> Result<Shape> {
        let out = rules::pool(x, pool)?;
        let entry = match pool.kind {
            PoolKind::Max => "largest",
            PoolKind::Mean { .. } => "mean",
        };
        let flops = pool.kernel * pool.kernel * out.len();
        self.note_values(("pool", entry), out.len(), flops, x.len() + out.len());
        Ok(out)
    }
}

impl Backend for Plan {
    type Tensor = Shape;
    type Conv = Conv;

    fn describe(&self) -> String {
        "plan".into()
    }

    fn upload(&self, array: &Array) -> Result<Shape> {
        rules::upload(array)
    }

    fn upload_pixels(&self, images: &[&[u8]], height: usize, width: usize) -> Result<Shape> {
        let shape = rules::pixels(images, height, width)?;
        // Bytes go up, words come of them.
        self.note_values(("layout", "pixels"), shape.len(), 0, shape.len() * 5 / 4);
        Ok(shape)
    }

    fn download(&self, tensor: &Shape) -> Result<Array> {
        let Shape { n, h, w, c } = *tensor;
        match (h, w) {
            (1, 1) => Array::new([n, c], vec![0.0; n * c]),
            _ => Array::new([n, c, h, w], vec![0.0; tensor.len()]),
        }
    }

    fn shape(&self, tensor: &Shape) -> Shape {
        *tensor
    }

    fn select(&self, tensor: &Shape, _: usize) -> Shape {
        Shape { n: 1, ..*tensor }
    }

    fn stack(&self, tensors: &[Shape]) -> Result<Shape> {
        rules::stack(tensors)
    }

    fn prepare(&self, conv: Conv, weight: &Array, bias: &[f32]) -> Result<Conv> {
        rules::conv_weights(&conv, weight, bias)?;
        Ok(conv)
    }

    fn prepare_layer(&self, conv: Conv, layer: &Layer<'_>) -> Result<Conv> {
        self.ask(&layer.name, &["weight"]);
        if !layer.bias.is_empty() {
            self.ask(&layer.name, &["bias"]);
        }
        match &layer.then {
            Then::Nothing => {}
            Then::Scale(name, _) => self.ask(name, &[""]),
            Then::BatchNorm(norm) => {
                let parts = ["weight", "bias", "running_mean", "running_var"];
                self.ask(&norm.name, &parts);
            }
        }
        self.prepare(conv, &layer.weight, layer.bias)
    }

    fn conv(&self, x: &Shape, conv: &Conv, residual: Option<&Shape>) -> Result<Shape> {
        self.convolved(*x, conv, residual.is_some())
    }

    fn concat(&self, parts: &[Part<'_, Self>]) -> Result<Shape> {
        let shapes = parts
            .iter()
            .map(|part| match part {
                Part::Tensor(x) => Ok(self.copied("channels", **x, **x)),
                Part::Conv(x, conv) => self.convolved(**x, conv, false),
                Part::Pool(x, pool) => self.pooled(**x, *pool),
            })
            .collect::<Result<Vec<_>>>()?;
        rules::concat(&shapes)
    }

    fn pool(&self, x: &Shape, pool: Pool) -> Result<Shape> {
        self.pooled(*x, pool)
    }

    fn global_mean(&self, x: &Shape) -> Shape {
        let out = Shape { h: 1, w: 1, ..*x };
        let values = x.len() + out.len();
        self.note_values(("pool", "cell"), out.len(), ADDED * x.len(), values);
        out
    }

    fn adaptive_mean(&self, x: &Shape, rows: usize, columns: usize) -> Result<Shape> {
        let out = rules::adaptive_mean(*x, rows, columns)?;
        let values = x.len() + out.len();
        self.note_values(("pool", "cell"), out.len(), ADDED * x.len(), values);
        Ok(out)
    }

    fn layer_norm(&self, x: &Shape, norm: &Norm) -> Result<Shape> {
        self.ask(&norm.name, &["weight", "bias"]);
        rules::norm("layer norm", *x, norm, 1)?;
        let groups = (x.n * x.h * x.w).div_ceil(SMALL_TILE);
        self.note("norm", "layer", groups, 8 * x.len(), 2 * x.len() + 2 * x.c);
        Ok(*x)
    }

    fn group_norm(
        &self,
        x: &Shape,
        groups: usize,
        norm: &Norm,
        modulation: Option<&Shape>,
        _: Activation,
    ) -> Result<Shape> {
        self.ask(&norm.name, &["weight", "bias"]);
        rules::norm("group norm", *x, norm, groups)?;
        let maps = 3 * x.n * x.c;
        let more = modulation.map_or(0, Shape::len);
        let values = x.len() + maps + more;
        self.note("norm", "statistics", x.n * groups, 5 * x.len(), values);
        let values = 2 * x.len() + maps;
        self.note_values(("norm", "normalise"), x.len(), 3 * x.len(), values);
        Ok(*x)
    }

    fn modulate(&self, x: &Shape, modulation: &Shape, _: Activation) -> Result<Shape> {
        rules::modulation("modulation", *x, *modulation)?;
        let values = 2 * x.len() + modulation.len();
        self.note_values(("norm", "modulate"), x.len(), 2 * x.len(), values);
        Ok(*x)
    }

    fn attention(&self, qkv: &Shape, attention: Attention, bias: Option<&Shape>) -> Result<Shape> {
        let out = rules::attention(*qkv, attention, bias.copied())?;
        let (heads, tokens) = (qkv.n * attention.heads, qkv.h * qkv.w);
        let d = out.c / attention.heads;
        let scores = heads * tokens * tokens;
        let rows = tokens.div_ceil(SMALL_TILE);
        let values = qkv.len() * 2 / 3 + bias.map_or(0, Shape::len) + scores;
        let groups = rows * rows * heads;
        self.note("attention", "scores", groups, 2 * d * scores, values);
        let groups = (heads * tokens).div_ceil(SMALL_TILE);
        let flops = (EXPONENTIAL + 4) * scores;
        self.note("softmax", "softmax", groups, flops, 2 * scores);
        let groups = rows * d.div_ceil(SMALL_TILE) * heads;
        let values = scores + qkv.len() / 3 + out.len();
        self.note("attention", "mix", groups, 2 * d * scores, values);
        Ok(out)
    }

    fn add(&self, a: &Shape, b: &Shape) -> Result<Shape> {
        rules::add(*a, *b)?;
        let values = 2 * a.len() + b.len();
        self.note_values(("elementwise", "add"), a.len(), a.len(), values);
        Ok(*a)
    }

    fn activate(&self, x: &Shape, activation: Activation) -> Shape {
        let flops = flops_of(activation) * x.len();
        self.note_values(("elementwise", "activated"), x.len(), flops, 2 * x.len());
        *x
    }

    fn affine(&self, x: &Shape, order: &[usize], scale: &[f32], shift: &[f32]) -> Result<Shape> {
        let out = rules::affine(*x, order, scale, shift)?;
        let values = x.len() + out.len();
        self.note_values(("elementwise", "affine"), out.len(), 2 * out.len(), values);
        Ok(out)
    }

    fn windows(&self, x: &Shape, size: usize, _: [usize; 2]) -> Shape {
        let windows = x.h.div_ceil(size) * x.w.div_ceil(size);
        let out = Shape::new(x.n * windows, 1, size * size, x.c);
        self.copied("windows", *x, out)
    }

    fn unwindows(&self, x: &Shape, size: usize, _: [usize; 2], h: usize, w: usize) -> Shape {
        let windows = h.div_ceil(size) * w.div_ceil(size);
        let out = Shape::new(x.n / windows.max(1), h, w, x.c);
        self.copied("unwindows", *x, out)
    }

    fn merge_patches(&self, x: &Shape) -> Shape {
        let out = Shape::new(x.n, x.h.div_ceil(2), x.w.div_ceil(2), 4 * x.c);
        self.copied("patches", *x, out)
    }

    fn view(&self, x: &Shape, shape: Shape) -> Result<Shape> {
        rules::view(*x, shape)?;
        Ok(shape)
    }

    fn upsample(&self, x: &Shape, factor: usize) -> Result<Shape> {
        let out = rules::upsample(*x, factor)?;
        Ok(self.copied("upsample", *x, out))
    }

    fn resize(&self, x: &Shape, height: usize, width: usize, mode: Resize) -> Result<Shape> {
        let out = rules::resize(*x, height, width)?;
        let values = x.len() + out.len();
        let one = |entry, flops| {
            self.note_values(("resize", entry), out.len(), flops * out.len(), values);
        };
        match mode {
            Resize::Tf1 => one("tf1", 9),
            Resize::HalfPixel => one("half_pixel", 11),
            Resize::Antialias => {
                let between = Shape { w: width, ..*x };
                let values = x.len() + between.len();
                let flops = 2 * x.w.div_ceil(width).max(2) * between.len();
                self.note_values(("resize", "columns"), between.len(), flops, values);
                one("rows", 2 * x.h.div_ceil(height).max(2));
            }
        }
        Ok(out)
    }

    fn crop(
        &self,
        x: &Shape,
        top: usize,
        left: usize,
        height: usize,
        width: usize,
    ) -> Result<Shape> {
        let out = rules::crop(*x, top, left, height, width)?;
        // What is left out is not read.
        Ok(self.copied("crop", out, out))
    }

    fn resize_pixels(&self, x: &Shape, pass: &PixelPass) -> Result<Shape> {
        let out = rules::pixel_pass(*x, pass)?;
        let taps: usize = pass.taps.iter().map(|t| t.weights.len()).sum();
        let (entry, lines) = match pass.along {
            Along::Width => ("pixel_columns", x.n * x.h * x.c),
            Along::Height => ("pixel_rows", x.n * x.w * x.c),
        };
        let values = x.len() + out.len();
        self.note_values(("resize", entry), out.len(), 2 * taps * lines, values);
        Ok(out)
    }

    fn look_up(&self, x: &Shape, _: &[f32; 256]) -> Result<Shape> {
        self.note_values(("elementwise", "looked_up"), x.len(), 0, 2 * x.len());
        Ok(*x)
    }

    fn feature_distance(&self, a: &Shape, b: &Shape, head: &[f32]) -> Result<Shape> {
        let out = rules::feature_distance(*a, *b, head)?;
        let values = a.len() + b.len() + a.c + out.len();
        let groups = out.len().div_ceil(SMALL_TILE);
        self.note("lpips_head", "distances", groups, 11 * a.len(), values);
        Ok(out)
    }

    fn mean_feature_distance(&self, a: &Shape, b: &Shape, head: &[f32]) -> Result<Vec<f64>> {
        let out = rules::feature_distance(*a, *b, head)?;
        let parts = out.n * out.image().div_ceil(TILE);
        let values = a.len() + b.len() + a.c + 2 * parts;
        self.note("lpips_head", "mean", parts, 11 * a.len(), values);
        Ok(vec![0.0; out.n])
    }
}
