//! What an operation is told: shapes, geometry, activation, layout.

/// What can be wrong with a tensor or with the geometry of an operation.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum TensorError {
    #[error("an array of shape {shape:?} cannot hold {found} values")]
    Length { shape: Vec<usize>, found: usize },
    #[error("{operation}: expected {expected}, found {found}")]
    Shape {
        operation: &'static str,
        expected: String,
        found: String,
    },
    #[error(
        "{operation}: an input of {height}x{width} is too small for a {kernel:?} window; give larger images"
    )]
    TooSmall {
        operation: &'static str,
        height: usize,
        width: usize,
        kernel: [usize; 2],
    },
    /// A device has no memory left for a buffer; a smaller batch may fit.
    #[error(
        "{device} has no memory for {bytes} bytes more; take fewer at once (--batch, where a command has it) or use --device cpu"
    )]
    OutOfMemory { device: String, bytes: usize },
    /// One row or pixel is more than a kernel may see.
    #[error(
        "{operation}: {smallest} is larger than what this device lets a kernel see; use smaller images or --device cpu"
    )]
    TooLarge {
        operation: &'static str,
        smallest: &'static str,
    },
    /// The device is gone, with all that lay on it; it may be opened again.
    #[error("{0}")]
    Lost(String),
    /// What a device's own library says.
    #[error("{0}")]
    Device(String),
}

/// Shape of an activation on a device: images, rows, columns, channels.
/// Tokens are `h = 1, w = tokens`; plain vectors are `h = w = 1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub n: usize,
    pub h: usize,
    pub w: usize,
    pub c: usize,
}

impl Shape {
    pub fn new(n: usize, h: usize, w: usize, c: usize) -> Self {
        Self { n, h, w, c }
    }

    /// Number of values. Of a shape that no rule has seen it may overflow; see [`Shape::checked_len`].
    pub fn len(&self) -> usize {
        self.n * self.h * self.w * self.c
    }

    /// Number of values, if memory has addresses for so many of any f32 or f64 (and for each image of them).
    pub fn checked_len(&self) -> Option<usize> {
        let product = |sides: &[usize]| {
            sides
                .iter()
                .try_fold(1usize, |n, &side| n.checked_mul(side))
        };
        let image = product(&[self.h, self.w, self.c])?;
        let most = isize::MAX as usize / 8;
        let all = image.checked_mul(self.n)?;
        (image <= most && all <= most).then_some(all)
    }

    /// True if there is no value.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Values per image.
    pub fn image(&self) -> usize {
        self.h * self.w * self.c
    }
}

/// Function applied to each value as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Activation {
    #[default]
    None,
    Relu,
    Relu6,
    Silu,
    /// The exact form, `x · Φ(x)` with the error function.
    Gelu,
    /// `x`, below zero `0.2 · x`.
    LeakyRelu,
    Tanh,
}

/// Zero rows and columns around an input; the sides may differ (TensorFlow's "same" padding).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Padding {
    pub top: usize,
    pub left: usize,
    pub bottom: usize,
    pub right: usize,
}

impl Padding {
    /// The same number of rows and columns on both sides.
    pub fn symmetric(rows: usize, columns: usize) -> Self {
        Self {
            top: rows,
            left: columns,
            bottom: rows,
            right: columns,
        }
    }

    /// The same number on all four sides.
    pub fn all(p: usize) -> Self {
        Self::symmetric(p, p)
    }
}

/// A 2-D convolution (cross-correlation) with bias and activation; a linear layer is its 1×1 case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conv {
    pub inputs: usize,
    pub outputs: usize,
    pub kernel: [usize; 2],
    pub stride: usize,
    pub padding: Padding,
    pub groups: usize,
    pub activation: Activation,
}

impl Conv {
    /// A square kernel with stride 1 and no padding.
    pub fn square(inputs: usize, outputs: usize, kernel: usize) -> Self {
        Self {
            inputs,
            outputs,
            kernel: [kernel, kernel],
            stride: 1,
            padding: Padding::default(),
            groups: 1,
            activation: Activation::None,
        }
    }

    /// A linear layer over channels.
    pub fn linear(inputs: usize, outputs: usize) -> Self {
        Self::square(inputs, outputs, 1)
    }

    pub fn stride(self, stride: usize) -> Self {
        Self { stride, ..self }
    }

    pub fn padding(self, p: usize) -> Self {
        Self {
            padding: Padding::all(p),
            ..self
        }
    }

    pub fn groups(self, groups: usize) -> Self {
        Self { groups, ..self }
    }

    pub fn activation(self, activation: Activation) -> Self {
        Self { activation, ..self }
    }

    /// Rows and columns of the output for an input of `h × w`.
    pub fn output(&self, h: usize, w: usize) -> Result<[usize; 2], TensorError> {
        window_output("convolution", h, w, self.kernel, self.stride, self.padding)
    }
}

/// Which number a pooling window yields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolKind {
    Max,
    /// Mean over the window; `count_padding` says whether padded zeros count in the divisor.
    Mean {
        count_padding: bool,
    },
}

/// Pooling over square windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pool {
    pub kind: PoolKind,
    pub kernel: usize,
    pub stride: usize,
    pub padding: usize,
    /// Round the output size up (torch's `ceil_mode`); a window must still start inside the input.
    pub ceil: bool,
}

impl Pool {
    pub fn max(kernel: usize, stride: usize) -> Self {
        Self {
            kind: PoolKind::Max,
            kernel,
            stride,
            padding: 0,
            ceil: false,
        }
    }

    pub fn mean(kernel: usize, stride: usize) -> Self {
        Self {
            kind: PoolKind::Mean {
                count_padding: true,
            },
            ..Self::max(kernel, stride)
        }
    }

    pub fn padding(self, padding: usize) -> Self {
        Self { padding, ..self }
    }

    pub fn ceil(self) -> Self {
        Self { ceil: true, ..self }
    }

    /// Rows and columns of the output for an input of `h × w`.
    pub fn output(&self, h: usize, w: usize) -> Result<[usize; 2], TensorError> {
        let padding = Padding::all(self.padding);
        let kernel = [self.kernel, self.kernel];
        // Windows of more than 2³² pixels have areas that wrap around.
        let area = self.kernel.checked_mul(self.kernel);
        if self.padding > self.kernel / 2 || area.is_none() {
            return Err(TensorError::Shape {
                operation: "pooling",
                expected: format!("padding of at most half the window, {}", self.kernel / 2),
                found: format!("{}", self.padding),
            });
        }
        let [floor_h, floor_w] = window_output("pooling", h, w, kernel, self.stride, padding)?;
        let grow = |size: usize, floor: usize| {
            let covered = (floor - 1) * self.stride + self.kernel;
            let more =
                covered < size + 2 * self.padding && floor * self.stride < size + self.padding;
            floor + usize::from(self.ceil && more)
        };
        Ok([grow(h, floor_h), grow(w, floor_w)])
    }
}

fn window_output(
    operation: &'static str,
    h: usize,
    w: usize,
    kernel: [usize; 2],
    stride: usize,
    padding: Padding,
) -> Result<[usize; 2], TensorError> {
    let padded = |size: usize, before: usize, after: usize| {
        size.checked_add(before).and_then(|s| s.checked_add(after))
    };
    let sides = (
        padded(h, padding.top, padding.bottom),
        padded(w, padding.left, padding.right),
    );
    let ((Some(rows), Some(columns)), false, 1..) = (sides, kernel.contains(&0), stride) else {
        return Err(TensorError::Shape {
            operation,
            expected: "a window and a stride of at least 1, and padding that leaves a size".into(),
            found: format!("window {kernel:?}, stride {stride}, {padding:?}"),
        });
    };
    if rows < kernel[0] || columns < kernel[1] {
        return Err(TensorError::TooSmall {
            operation,
            height: h,
            width: w,
            kernel,
        });
    }
    Ok([
        (rows - kernel[0]) / stride + 1,
        (columns - kernel[1]) / stride + 1,
    ])
}

/// Scale and shift per channel of a layer or group norm, with its epsilon.
#[derive(Clone, Debug, Default)]
pub struct Norm {
    /// What the names of its parameters begin with, in a network's state dict.
    pub name: String,
    pub weight: Vec<f32>,
    pub bias: Vec<f32>,
    pub epsilon: f32,
}

/// How queries, keys and values share the channels of one tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QkvLayout {
    /// `[3][heads][d]`: all queries, then all keys, then all values.
    Stacked,
    /// `[heads][3][d]`: query, key and value of a head side by side (guided-diffusion's legacy order).
    PerHead,
}

/// Multi-head scaled dot-product attention within each image of a batch of token sequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attention {
    pub heads: usize,
    pub layout: QkvLayout,
}

/// The three bilinear resizes met in FID code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Resize {
    /// Source coordinate `i · in/out`, no half-pixel shift (TensorFlow 1; torch-fidelity).
    Tf1,
    /// Half-pixel centres (pytorch-fid).
    HalfPixel,
    /// Half-pixel centres with a triangle filter widened when shrinking (torchmetrics ≥ 1).
    Antialias,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ceil_mode_adds_a_window_only_if_it_starts_inside() {
        let pool = Pool::max(3, 2).ceil();
        assert_eq!(pool.output(34, 44).unwrap(), [17, 22]);
        assert_eq!(pool.output(35, 45).unwrap(), [17, 22]);
        assert_eq!(Pool::max(2, 2).ceil().output(5, 5).unwrap(), [3, 3]);
        assert_eq!(
            Pool::max(1, 2).padding(0).ceil().output(4, 4).unwrap(),
            [2, 2]
        );
    }

    #[test]
    fn a_window_larger_than_the_input_is_an_error() {
        assert!(Conv::square(3, 8, 11).output(8, 20).is_err());
    }
}
