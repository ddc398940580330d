//! Couplings: one part of the values is scaled and shifted by what a network says of the other part.

use candle_core::{D, Tensor as Values};

use super::fixed::{rotation, to_depth, to_space};
use super::subnet::{ConvSubnet, DenseSubnet};
use super::{Parameters, Result, candle};
use crate::nets::layers::Scope;
use crate::tensor::Conv;
use crate::tensor::candle::Tensor;

/// Bounds a logarithm of a scale to ±0.7: `0.7 tanh(slope · s)`.
fn bounded(s: &Values, slope: f64) -> candle_core::Result<Values> {
    (s * slope)?.tanh()? * 0.7
}

/// Sum over all values of an image.
fn total(x: &Values) -> candle_core::Result<Values> {
    x.flatten_from(1)?.sum(D::Minus1)
}

/// `x · exp(s) + t`, where `a` are `s` (before it is bounded) and `t`; and the sum of `s`.
fn affine(
    x: &Values,
    a: &Values,
    bound: impl Fn(&Values) -> candle_core::Result<Values>,
) -> Result<(Values, Values)> {
    let run = || {
        let axis = x.rank() - 1;
        let c = x.dim(axis)?;
        let s = bound(&a.narrow(axis, 0, c)?)?;
        let y = ((x * s.exp()?)? + a.narrow(axis, c, c)?)?;
        Ok((y, total(&s)?))
    };
    candle(run())
}

/// Undoes [`affine`].
fn affine_back(
    y: &Values,
    a: &Values,
    bound: impl Fn(&Values) -> candle_core::Result<Values>,
) -> Result<Values> {
    let run = || {
        let axis = y.rank() - 1;
        let c = y.dim(axis)?;
        let s = bound(&a.narrow(axis, 0, c)?)?;
        (y - a.narrow(axis, c, c)?)? * s.neg()?.exp()?
    };
    candle(run())
}

fn cut(x: &Values, first: usize) -> Result<(Values, Values)> {
    let run = || {
        let axis = x.rank() - 1;
        let all = x.dim(axis)?;
        let part = |from, len| x.narrow(axis, from, len)?.contiguous();
        Ok((part(0, first)?, part(first, all - first)?))
    };
    candle(run())
}

fn joined(a: &Values, b: &Values) -> Result<Values> {
    candle(Values::cat(&[a, b], a.rank() - 1))
}

/// A coupling of channels, then a fixed rotation of them, then scale and offset of each.
pub struct Coupling<B: Parameters> {
    subnet: ConvSubnet<B>,
    there: B::Conv,
    back: B::Conv,
    /// `[c]`: logarithms of the scales.
    scale: Values,
    /// `[c]`.
    offset: Values,
    first: usize,
}

impl<B: Parameters> Coupling<B> {
    pub fn new(
        backend: &B,
        at: &Scope<'_>,
        name: &str,
        channels: usize,
        place: usize,
    ) -> Result<Self> {
        let first = channels.div_ceil(2);
        let spec = Conv::linear(channels, channels);
        let [there, back] = rotation(channels, place);
        let of_channels = |end: &str| {
            let array = at.shaped(end, &[channels])?;
            backend.parameter(&format!("{name}{end}"), array)
        };
        Ok(Self {
            subnet: ConvSubnet::new(backend, &at.at("subnet"), first, 2 * (channels - first), 1)?,
            there: backend.prepare(spec, &there, &[])?,
            back: backend.prepare(spec, &back, &[])?,
            scale: of_channels("scale")?,
            offset: of_channels("offset")?,
            first,
        })
    }

    pub fn forward(&self, b: &B, x: &Values, log: &Values) -> Result<(Values, Values)> {
        let (kept, changed) = cut(x, self.first)?;
        let a = self.subnet.run(b, &kept)?;
        let (changed, grown) = affine(&changed, &a, |s| bounded(s, 0.1))?;
        let turned = b.conv(&Tensor::new(&joined(&kept, &changed)?)?, &self.there, None)?;
        let run = || {
            let (_, h, w, _) = x.dims4()?;
            let y = { turned.candle() }
                .broadcast_mul(&self.scale.exp()?)?
                .broadcast_add(&self.offset)?;
            let own = (self.scale.sum_all()? * (h * w) as f64)?;
            Ok((y, (log + grown)?.broadcast_add(&own)?))
        };
        candle(run())
    }

    pub fn inverse(&self, b: &B, y: &Values) -> Result<Values> {
        let run = || {
            y.broadcast_sub(&self.offset)?
                .broadcast_mul(&self.scale.neg()?.exp()?)
        };
        let turned = b.conv(&Tensor::new(&candle(run())?)?, &self.back, None)?;
        let (kept, changed) = cut(turned.candle(), self.first)?;
        let a = self.subnet.run(b, &kept)?;
        joined(&kept, &affine_back(&changed, &a, |s| bounded(s, 0.1))?)
    }
}

/// Halves the size: 2×2 blocks of both halves of the channels become channels; the second half is coupled to the first
/// by a network with a stride, the first to the second by one at the lower size.
pub struct Downsampling<B: Parameters> {
    high: ConvSubnet<B>,
    low: ConvSubnet<B>,
    first: usize,
}

impl<B: Parameters> Downsampling<B> {
    pub fn new(backend: &B, at: &Scope<'_>, channels: usize) -> Result<Self> {
        let first = channels.div_ceil(2);
        let second = channels - first;
        Ok(Self {
            high: ConvSubnet::new(backend, &at.at("high"), first, 8 * second, 2)?,
            low: ConvSubnet::new(backend, &at.at("low"), 4 * second, 8 * first, 1)?,
            first,
        })
    }

    pub fn forward(&self, b: &B, x: &Values, log: &Values) -> Result<(Values, Values)> {
        let (one, two) = cut(x, self.first)?;
        let bound = |s: &Values| bounded(s, 0.2);
        let (two, grown) = affine(&to_depth(&two)?, &self.high.run(b, &one)?, bound)?;
        let (one, further) = affine(&to_depth(&one)?, &self.low.run(b, &two)?, bound)?;
        let log = candle((|| (log + grown)? + further)())?;
        Ok((joined(&one, &two)?, log))
    }

    pub fn inverse(&self, b: &B, y: &Values) -> Result<Values> {
        let (one, two) = cut(y, 4 * self.first)?;
        let bound = |s: &Values| bounded(s, 0.2);
        let one = to_space(&affine_back(&one, &self.low.run(b, &two)?, bound)?)?;
        let two = to_space(&affine_back(&two, &self.high.run(b, &one)?, bound)?)?;
        joined(&one, &two)
    }
}

/// A GLOW coupling of the two halves of a vector, both ways.
pub struct Glow<B: Parameters> {
    first: DenseSubnet<B>,
    second: DenseSubnet<B>,
    half: usize,
}

/// `2 · 0.636 · atan(s / 2)`.
fn soft(s: &Values) -> candle_core::Result<Values> {
    arc_tangent(&(s * 0.5)?)? * (2.0 * 0.636)
}

impl<B: Parameters> Glow<B> {
    pub fn new(backend: &B, at: &Scope<'_>, d: usize) -> Result<Self> {
        let half = d / 2;
        let rest = d - half;
        Ok(Self {
            first: DenseSubnet::new(backend, &at.at("first"), rest, 2 * half)?,
            second: DenseSubnet::new(backend, &at.at("second"), half, 2 * rest)?,
            half,
        })
    }

    pub fn forward(&self, b: &B, x: &Values, log: &Values) -> Result<(Values, Values)> {
        let (one, two) = cut(x, self.half)?;
        let (one, grown) = affine(&one, &self.first.run(b, &two)?, soft)?;
        let (two, further) = affine(&two, &self.second.run(b, &one)?, soft)?;
        let log = candle((|| (log + grown)? + further)())?;
        Ok((joined(&one, &two)?, log))
    }

    pub fn inverse(&self, b: &B, z: &Values) -> Result<Values> {
        let (one, two) = cut(z, self.half)?;
        let two = affine_back(&two, &self.second.run(b, &one)?, soft)?;
        let one = affine_back(&one, &self.first.run(b, &two)?, soft)?;
        joined(&one, &two)
    }
}

/// `atan(x)` as an operation of our own, with its gradient `1 / (1 + x²)`.
fn arc_tangent(x: &Values) -> candle_core::Result<Values> {
    x.contiguous()?.apply_op1(ArcTangent)
}

struct ArcTangent;

impl candle_core::CustomOp1 for ArcTangent {
    fn name(&self) -> &'static str {
        "arc tangent"
    }

    fn cpu_fwd(
        &self,
        storage: &candle_core::CpuStorage,
        layout: &candle_core::Layout,
    ) -> candle_core::Result<(candle_core::CpuStorage, candle_core::Shape)> {
        let Some((from, to)) = layout.contiguous_offsets() else {
            return Err(candle_core::Error::Msg("values are not contiguous".into()));
        };
        let values = &storage.as_slice::<f32>()?[from..to];
        let angles: Vec<f32> = values.iter().map(|v| v.atan()).collect();
        let shape = layout.shape().clone();
        Ok((candle_core::CpuStorage::F32(angles), shape))
    }

    fn bwd(
        &self,
        x: &Values,
        _: &Values,
        gradient: &Values,
    ) -> candle_core::Result<Option<Values>> {
        Ok(Some(gradient.div(&(x.sqr()? + 1.0)?)?))
    }
}
