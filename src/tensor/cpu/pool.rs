//! Pooling: a block of channels of a pixel stays in registers while it walks its window.

use rayon::prelude::*;

use super::buffer::Buffer;
use super::conv::Target;
use super::simd::{FlushDenormals, for_each_isa};
use super::tensor::Tensor;
use crate::{Pool, PoolKind, Shape, TensorError, rules};

/// Channels that stay in registers: four of AVX2, or one of them, or a single value at the end.
const WIDE: usize = 32;
const NARROW: usize = 8;
/// Values of the inputs of a band of rows.
const BAND_VALUES: usize = 1 << 15;

/// Pools into a new tensor.
pub fn run(x: &Tensor, pool: Pool) -> Result<Tensor, TensorError> {
    let out = rules::pool(x.shape(), pool)?;
    let mut data = Buffer::take(out.len());
    run_into(
        x,
        pool,
        Target {
            data: &mut data,
            channels: out.c,
            first: 0,
        },
    )?;
    Ok(Tensor::new(out, data))
}

/// Pools into a run of channels of a larger output.
pub fn run_into(x: &Tensor, pool: Pool, target: Target<'_>) -> Result<(), TensorError> {
    let shape = x.shape();
    let out = rules::pool(shape, pool)?;
    let Target {
        data,
        channels,
        first,
    } = target;
    let read = pool.stride * shape.w * shape.c;
    let band = (BAND_VALUES / read.max(1)).clamp(1, out.h.max(1));
    for (n, image) in data
        .chunks_exact_mut((out.h * out.w * channels).max(1))
        .enumerate()
    {
        image
            .par_chunks_mut(band * out.w * channels)
            .enumerate()
            .for_each(|(i, lines)| {
                let _flush = FlushDenormals::on();
                let band = Band {
                    pool,
                    shape,
                    image: x.image(n),
                    first_row: i * band,
                    width: out.w,
                    channels,
                    first,
                };
                match pool.kind {
                    PoolKind::Max => max_band(&band, lines),
                    PoolKind::Mean { count_padding } => mean_band(&band, lines, count_padding),
                }
            });
    }
    Ok(())
}

/// The part of a window along one axis that lies inside the input.
pub struct Span {
    start: usize,
    end: usize,
    /// Length including padding, but not what ceil mode adds beyond it (torch's divisor).
    pub padded: usize,
}

impl Span {
    pub fn new(index: usize, pool: Pool, size: usize) -> Self {
        let start = index * pool.stride;
        let end = (start + pool.kernel).min(size + 2 * pool.padding);
        Self {
            start: start.saturating_sub(pool.padding),
            end: end.saturating_sub(pool.padding).min(size),
            padded: end - start,
        }
    }

    pub fn range(&self) -> std::ops::Range<usize> {
        self.start..self.end
    }
}

/// Some rows of output pixels, and where their inputs and outputs lie.
struct Band<'a> {
    pool: Pool,
    shape: Shape,
    image: &'a [f32],
    first_row: usize,
    width: usize,
    /// Channels per pixel of the output, of which those from `first` are filled.
    channels: usize,
    first: usize,
}

/// How the values below a window become one. (Traits, not closures: closures are compiled without the instruction
/// set unless the compiler happens to inline them.)
trait Fold<T: Copy> {
    const START: T;
    fn with(folded: T, value: f32) -> T;
}

struct Max;

impl Fold<f32> for Max {
    const START: f32 = f32::NEG_INFINITY;

    /// A NaN stays a NaN, as in torch.
    #[inline(always)]
    fn with(max: f32, value: f32) -> f32 {
        if value > max || value.is_nan() {
            value
        } else {
            max
        }
    }
}

struct Sum;

impl Fold<f32> for Sum {
    const START: f32 = 0.0;

    #[inline(always)]
    fn with(sum: f32, value: f32) -> f32 {
        sum + value
    }
}

impl Fold<f64> for Sum {
    const START: f64 = 0.0;

    #[inline(always)]
    fn with(sum: f64, value: f32) -> f64 {
        sum + f64::from(value)
    }
}

for_each_isa! {
    fn max_band(band: &Band<'_>, lines: &mut [f32]) {
        fold_windows::<Max>(band, lines, None);
    }
}

for_each_isa! {
    fn mean_band(band: &Band<'_>, lines: &mut [f32], count_padding: bool) {
        fold_windows::<Sum>(band, lines, Some(count_padding));
    }
}

/// Folds the window of every pixel of a band, row by row; a mean is divided by the number of pixels, with or without
/// the padding.
#[inline(always)]
fn fold_windows<F: Fold<f32>>(band: &Band<'_>, lines: &mut [f32], mean: Option<bool>) {
    let (c, w) = (band.shape.c, band.shape.w);
    let rows_of_lines = lines.chunks_exact_mut(band.width * band.channels);
    for (y, line) in rows_of_lines.enumerate() {
        let rows = Span::new(band.first_row + y, band.pool, band.shape.h);
        for (x, pixel) in line.chunks_exact_mut(band.channels).enumerate() {
            let columns = Span::new(x, band.pool, w);
            let pixel = &mut pixel[band.first..band.first + c];
            let window = Window {
                values: &band.image[(rows.start * w + columns.start) * c..],
                rows: rows.range().len(),
                columns: columns.range().len(),
                row: w * c,
                pixel: c,
            };
            let (wide, rest) = pixel.as_chunks_mut::<WIDE>();
            let (narrow, single) = rest.as_chunks_mut::<NARROW>();
            let mut at = 0;
            for to in wide {
                window.fold::<WIDE, f32, F>(at, to);
                at += WIDE;
            }
            for to in narrow {
                window.fold::<NARROW, f32, F>(at, to);
                at += NARROW;
            }
            for to in single {
                window.fold::<1, f32, F>(at, std::array::from_mut(to));
                at += 1;
            }
            if let Some(count_padding) = mean {
                let count = if count_padding {
                    rows.padded * columns.padded
                } else {
                    window.rows * window.columns
                };
                let count = count as f32;
                for value in pixel {
                    *value /= count;
                }
            }
        }
    }
}

/// The inputs of one output pixel.
struct Window<'a> {
    values: &'a [f32],
    rows: usize,
    columns: usize,
    /// Distance between rows and between pixels.
    row: usize,
    pixel: usize,
}

impl Window<'_> {
    /// Folds `N` channels from `at` over all pixels of the window.
    #[inline(always)]
    fn fold<const N: usize, T: Copy, F: Fold<T>>(&self, at: usize, to: &mut [T; N]) {
        let mut folded = [F::START; N];
        for y in 0..self.rows {
            let line = &self.values[y * self.row + at..];
            for x in 0..self.columns {
                let from = &line[x * self.pixel..][..N];
                for i in 0..N {
                    folded[i] = F::with(folded[i], from[i]);
                }
            }
        }
        *to = folded;
    }
}

/// Mean over the cells of a `rows × columns` grid, summed in f64.
pub fn adaptive_mean(x: &Tensor, rows: usize, columns: usize) -> Result<Tensor, TensorError> {
    let shape = x.shape();
    let out = rules::adaptive_mean(shape, rows, columns)?;
    let mut data = Buffer::take(out.len());
    // Blocks of channels of every cell, so that a single large cell has work for many threads.
    let c = shape.c.max(1);
    data.par_chunks_mut(c).enumerate().for_each(|(i, pixel)| {
        let (n, cell) = (i / (rows * columns), i % (rows * columns));
        let ys = cell_range(cell / columns, rows, shape.h);
        let xs = cell_range(cell % columns, columns, shape.w);
        let window = Window {
            values: &x.image(n)[(ys.start * shape.w + xs.start) * c..],
            rows: ys.len(),
            columns: xs.len(),
            row: shape.w * c,
            pixel: c,
        };
        pixel
            .par_chunks_mut(WIDE)
            .enumerate()
            .with_min_len(1 + (BAND_VALUES / WIDE) / (ys.len() * xs.len()))
            .for_each(|(block, to)| mean_block(&window, block * WIDE, to));
    });
    Ok(Tensor::new(out, data))
}

for_each_isa! {
    fn mean_block(window: &Window<'_>, at: usize, to: &mut [f32]) {
        let _flush = FlushDenormals::on();
        let count = (window.rows * window.columns) as f64;
        if let Ok(to) = <&mut [f32; WIDE]>::try_from(&mut *to) {
            let mut sums = [0.0; WIDE];
            window.fold::<WIDE, f64, Sum>(at, &mut sums);
            for (to, sum) in to.iter_mut().zip(sums) {
                *to = (sum / count) as f32;
            }
            return;
        }
        for (i, to) in to.iter_mut().enumerate() {
            let mut sum = [0.0];
            window.fold::<1, f64, Sum>(at + i, &mut sum);
            *to = (sum[0] / count) as f32;
        }
    }
}

/// The pixels of one cell along one axis.
pub fn cell_range(cell: usize, cells: usize, size: usize) -> std::ops::Range<usize> {
    cell * size / cells..((cell + 1) * size).div_ceil(cells)
}
