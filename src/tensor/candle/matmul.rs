//! Matrix products over strided views, by the `gemm` crate, on one thread: callers share out the work themselves,
//! so that a result never depends on the number of threads.

/// A matrix somewhere in a slice.
#[derive(Clone, Copy)]
pub struct Matrix<'a> {
    pub data: &'a [f32],
    pub rows: usize,
    pub columns: usize,
    pub row_stride: usize,
    pub column_stride: usize,
}

impl<'a> Matrix<'a> {
    /// Rows of `columns` values, each `stride` after the one before.
    pub fn strided(data: &'a [f32], rows: usize, columns: usize, stride: usize) -> Self {
        Self {
            data,
            rows,
            columns,
            row_stride: stride,
            column_stride: 1,
        }
    }

    /// Rows right after each other.
    pub fn dense(data: &'a [f32], rows: usize, columns: usize) -> Self {
        Self::strided(data, rows, columns, columns)
    }

    pub fn transposed(self) -> Self {
        Self {
            rows: self.columns,
            columns: self.rows,
            row_stride: self.column_stride,
            column_stride: self.row_stride,
            ..self
        }
    }

    /// Whether all its values lie within its slice.
    pub fn fits(&self) -> bool {
        let last = |count: usize, stride: usize| count.saturating_sub(1) * stride;
        self.rows * self.columns == 0
            || last(self.rows, self.row_stride) + last(self.columns, self.column_stride)
                < self.data.len()
    }
}

/// `out = scale · a · b`, or `out += …`; the rows of `out` are `stride` apart.
pub fn product(
    out: &mut [f32],
    stride: usize,
    add: bool,
    a: Matrix<'_>,
    b: Matrix<'_>,
    scale: f32,
) {
    let (m, n, k) = (a.rows, b.columns, a.columns);
    if m * n == 0 {
        return;
    }
    assert!(k == b.rows && a.fits() && b.fits(), "shapes of a product");
    assert!(stride >= n && out.len() >= (m - 1) * stride + n);
    // SAFETY: the asserts bound all three matrices within their slices, and `out` is ours alone.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            out.as_mut_ptr(),
            1,
            stride as isize,
            add,
            a.data.as_ptr(),
            a.column_stride as isize,
            a.row_stride as isize,
            b.data.as_ptr(),
            b.column_stride as isize,
            b.row_stride as isize,
            1.0,
            scale,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}
