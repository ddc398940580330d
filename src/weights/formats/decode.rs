//! Numbers in memory layouts of other libraries → row-major `f32`.
//!
//! Half, bfloat16 and double are converted (double rounds to nearest). Integers are taken only
//! where `f32` holds them exactly; the one exception is PyTorch's counter
//! `num_batches_tracked`, which no network computes with and which is rounded.

use super::error::{Result, Source};
use crate::tensor::Array;
use half::{bf16, f16};

/// More axes than any network weight has.
const MAX_AXES: usize = 16;

/// Type of the stored numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DType {
    F16,
    BF16,
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    Bool,
}

impl DType {
    /// Bytes of one number.
    pub fn size(self) -> usize {
        match self {
            Self::I8 | Self::U8 | Self::Bool => 1,
            Self::F16 | Self::BF16 | Self::I16 | Self::U16 => 2,
            Self::F32 | Self::I32 | Self::U32 => 4,
            Self::F64 | Self::I64 | Self::U64 => 8,
        }
    }
}

/// How much memory the content of one file may take. Honest files stay far below: f16 doubles,
/// bytes become four times as large, and a few names may share one storage.
pub(super) struct Budget {
    left: u64,
    total: u64,
}

impl Budget {
    const FACTOR: u64 = 16;
    const FREE: u64 = 1 << 20;
    /// Book-keeping per tensor: name, shape, map entries.
    const PER_TENSOR: u64 = 256;

    /// The budget of a file that really holds `bytes` bytes of content.
    pub fn of(bytes: u64) -> Self {
        let total = bytes
            .saturating_mul(Self::FACTOR)
            .saturating_add(Self::FREE);
        Self { left: total, total }
    }

    fn charge(&mut self, file: Source, tensor: &str, count: usize) -> Result<()> {
        let cost = (count as u64)
            .saturating_mul(4)
            .saturating_add(Self::PER_TENSOR + 2 * tensor.len() as u64);
        let Some(left) = self.left.checked_sub(cost) else {
            return Err(file.limit(
                format!(
                    "tensor `{}` with {count} numbers makes the content larger than the file \
                     justifies, in bytes",
                    super::error::shorten(tensor)
                ),
                self.total,
            ));
        };
        self.left = left;
        Ok(())
    }
}

/// A tensor as some file describes it: a view into bytes. Nothing of it is trusted.
pub(super) struct View<'a> {
    pub dtype: DType,
    pub big_endian: bool,
    /// The whole storage.
    pub bytes: &'a [u8],
    /// First number of the tensor, counted in numbers.
    pub offset: usize,
    pub shape: Vec<usize>,
    /// Distance of neighbours along each axis in numbers; `None` is row-major.
    pub strides: Option<Vec<usize>>,
}

impl View<'_> {
    /// The tensor as a dense `f32` array.
    pub fn decode(self, file: Source, tensor: &str, budget: &mut Budget) -> Result<Array> {
        let wrong = |expected: String, found: String| {
            file.tensor(
                tensor,
                expected,
                found,
                "The file is damaged: fetch it again",
            )
        };
        let shape = &self.shape;
        if shape.len() > MAX_AXES {
            return Err(wrong(
                format!("at most {MAX_AXES} axes"),
                shape.len().to_string(),
            ));
        }
        let product = shape.iter().try_fold(1usize, |n, &s| n.checked_mul(s));
        let dense = product.and_then(|_| row_major(shape));
        let (Some(count), Some(dense)) = (product, dense) else {
            return Err(wrong(
                "a shape that fits memory".into(),
                format!("{shape:?}"),
            ));
        };
        let strides = self.strides.as_deref().unwrap_or(&dense);
        if strides.len() != shape.len() {
            return Err(wrong(
                format!("{} strides", shape.len()),
                strides.len().to_string(),
            ));
        }
        let held = self.bytes.len() / self.dtype.size();
        let needed = if count == 0 {
            Some(0)
        } else {
            shape
                .iter()
                .zip(strides)
                .try_fold(self.offset.saturating_add(1), |end, (&size, &stride)| {
                    end.checked_add((size - 1).checked_mul(stride)?)
                })
        };
        if needed.is_none_or(|n| n > held) {
            let needed = needed.map_or("too many".into(), |n| n.to_string());
            return Err(wrong(
                format!("{needed} stored numbers for shape {shape:?}, strides {strides:?}"),
                format!("{held}"),
            ));
        }
        budget.charge(file, tensor, count)?;
        let plain = shape
            .iter()
            .zip(strides.iter().zip(&dense))
            .all(|(&size, (stride, wanted))| size == 1 || stride == wanted);
        let walk = if plain { None } else { Some(strides) };
        let exact = !tensor.ends_with("num_batches_tracked");
        let data = self.numbers(count, walk, exact).map_err(|at| {
            file.tensor(
                tensor,
                "integers that 32-bit floats hold exactly (up to 2^24)",
                format!("a larger one at position {at}"),
                "Remove this tensor from the file or store it as float",
            )
        })?;
        Ok(Array {
            shape: self.shape,
            data,
        })
    }

    /// All numbers in row-major order, or the position of an integer that `f32` cannot hold.
    fn numbers(&self, count: usize, strides: Option<&[usize]>, exact: bool) -> Numbers {
        macro_rules! integers {
            ($kind:ty) => {
                self.each(count, strides, |b| {
                    let whole = <$kind>::from_le_bytes(b);
                    let float = whole as f32;
                    (!exact || float as i128 == whole as i128).then_some(float)
                })
            };
        }
        match self.dtype {
            DType::F32 => self.each(count, strides, |b| Some(f32::from_le_bytes(b))),
            DType::F16 => self.each(count, strides, |b| Some(f16::from_le_bytes(b).to_f32())),
            DType::BF16 => self.each(count, strides, |b| Some(bf16::from_le_bytes(b).to_f32())),
            DType::F64 => self.each(count, strides, |b| Some(f64::from_le_bytes(b) as f32)),
            DType::I8 => integers!(i8),
            DType::I16 => integers!(i16),
            DType::I32 => integers!(i32),
            DType::I64 => integers!(i64),
            DType::U8 => integers!(u8),
            DType::U16 => integers!(u16),
            DType::U32 => integers!(u32),
            DType::U64 => integers!(u64),
            DType::Bool => self.each(count, strides, |[b]: [u8; 1]| Some(f32::from(b != 0))),
        }
    }

    fn each<const N: usize>(
        &self,
        count: usize,
        strides: Option<&[usize]>,
        convert: impl Fn([u8; N]) -> Option<f32>,
    ) -> Numbers {
        let (stored, _) = self.bytes.as_chunks::<N>();
        let one = |mut raw: [u8; N]| {
            if self.big_endian {
                raw.reverse();
            }
            convert(raw)
        };
        let mut data = Vec::with_capacity(count);
        match strides {
            _ if count == 0 => {}
            None => {
                for &raw in &stored[self.offset..self.offset + count] {
                    data.push(one(raw).ok_or(data.len())?);
                }
            }
            Some(strides) => {
                let mut bad = None;
                for_each_index(&self.shape, strides, self.offset, |at| {
                    let number = one(stored[at]);
                    if number.is_none() && bad.is_none() {
                        bad = Some(data.len());
                    }
                    data.push(number.unwrap_or(0.0));
                });
                if let Some(at) = bad {
                    return Err(at);
                }
            }
        }
        Ok(data)
    }
}

type Numbers = std::result::Result<Vec<f32>, usize>;

/// Row-major strides; `None` if they overflow.
fn row_major(shape: &[usize]) -> Option<Vec<usize>> {
    let mut strides = vec![1usize; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis].checked_mul(shape[axis].max(1))?;
    }
    Some(strides)
}

/// Column-major (Fortran) strides; `None` if they overflow.
pub(super) fn column_major(shape: &[usize]) -> Option<Vec<usize>> {
    let mut strides = vec![1usize; shape.len()];
    for axis in 1..shape.len() {
        strides[axis] = strides[axis - 1].checked_mul(shape[axis - 1].max(1))?;
    }
    Some(strides)
}

/// Calls `visit` with the storage position of every element, in row-major order of `shape`.
/// The caller has checked that every position exists; steps past the last position of an axis
/// are taken back, so they may wrap.
pub(super) fn for_each_index(
    shape: &[usize],
    strides: &[usize],
    offset: usize,
    mut visit: impl FnMut(usize),
) {
    if shape.contains(&0) {
        return;
    }
    let (inner, inner_stride, outer) = match shape.split_last() {
        None => return visit(offset),
        Some((&size, outer)) => (size, strides[shape.len() - 1], outer),
    };
    let mut counter = vec![0usize; outer.len()];
    let mut start = offset;
    loop {
        for k in 0..inner {
            visit(start + k * inner_stride);
        }
        let mut axis = outer.len();
        loop {
            if axis == 0 {
                return;
            }
            axis -= 1;
            counter[axis] += 1;
            start = start.wrapping_add(strides[axis]);
            if counter[axis] < outer[axis] {
                break;
            }
            start = start.wrapping_sub(strides[axis].wrapping_mul(outer[axis]));
            counter[axis] = 0;
        }
    }
}
