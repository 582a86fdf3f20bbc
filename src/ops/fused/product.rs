//! Matrix products.
#![expect(unsafe_code, reason = "the matrix product takes raw pointers")]

use gemm::{Parallelism, gemm};

/// A matrix over row-major values, or the transpose of one.
#[derive(Clone, Copy)]
pub(super) struct Matrix<'a> {
    values: &'a [f32],
    rows: usize,
    columns: usize,
    row_stride: usize,
    column_stride: usize,
}

impl<'a> Matrix<'a> {
    /// `rows` x `columns` numbers, row-major.
    pub(super) fn new(values: &'a [f32], rows: usize, columns: usize) -> Self {
        assert_eq!(
            values.len(),
            rows * columns,
            "a matrix has rows x columns numbers"
        );
        Self::within(values, rows, columns, columns)
    }

    /// The first `columns` of `rows` rows that begin `row_stride` numbers after one another.
    pub(super) fn within(
        values: &'a [f32],
        rows: usize,
        columns: usize,
        row_stride: usize,
    ) -> Self {
        assert!(
            rows == 0 || (rows - 1) * row_stride + columns <= values.len(),
            "the rows lie within the values"
        );
        Self {
            values,
            rows,
            columns,
            row_stride,
            column_stride: 1,
        }
    }

    /// Rows and columns exchanged, without a copy.
    pub(super) fn transposed(self) -> Self {
        Self {
            values: self.values,
            rows: self.columns,
            columns: self.rows,
            row_stride: self.column_stride,
            column_stride: self.row_stride,
        }
    }
}

/// `output` = `left` x `right`, or += if `add`, on this thread. `output` is row-major.
pub(super) fn multiply(output: &mut [f32], left: Matrix<'_>, right: Matrix<'_>, add: bool) {
    run(output, left, right, add, Parallelism::None);
}

/// As [`multiply`], on all threads. How the work is cut for them does not touch the order of any sum:
/// a number of the output is one thread's, and its terms are cut by the sizes alone.
pub(super) fn multiply_on_all(output: &mut [f32], left: Matrix<'_>, right: Matrix<'_>, add: bool) {
    run(output, left, right, add, Parallelism::Rayon(0));
}

fn run(
    output: &mut [f32],
    left: Matrix<'_>,
    right: Matrix<'_>,
    add: bool,
    parallelism: Parallelism,
) {
    assert_eq!(left.columns, right.rows, "inner sizes agree");
    assert_eq!(
        output.len(),
        left.rows * right.columns,
        "the output has the outer sizes"
    );
    let signed = |stride: usize| isize::try_from(stride).unwrap_or(isize::MAX);
    // SAFETY: each matrix spans rows x columns numbers of its slice in the strides given (checked when
    // it was made, kept by transposing), the inner sizes agree and the output has left.rows x
    // right.columns numbers (checked above). `output` is borrowed for writing, so it overlaps neither
    // input.
    unsafe {
        gemm(
            left.rows,
            right.columns,
            left.columns,
            output.as_mut_ptr(),
            1,
            signed(right.columns),
            add,
            left.values.as_ptr(),
            signed(left.column_stride),
            signed(left.row_stride),
            right.values.as_ptr(),
            signed(right.column_stride),
            signed(right.row_stride),
            if add { 1.0 } else { 0.0 },
            1.0,
            false,
            false,
            false,
            parallelism,
        );
    }
}
