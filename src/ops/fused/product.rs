//! Products of small matrices on one thread.
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
        Self {
            values,
            rows,
            columns,
            row_stride: columns,
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

/// `output` = `left` x `right`, or += if `add`. `output` is row-major.
pub(super) fn multiply(output: &mut [f32], left: Matrix<'_>, right: Matrix<'_>, add: bool) {
    assert_eq!(left.columns, right.rows, "inner sizes agree");
    assert_eq!(
        output.len(),
        left.rows * right.columns,
        "the output has the outer sizes"
    );
    let signed = |stride: usize| isize::try_from(stride).unwrap_or(isize::MAX);
    // SAFETY: each matrix spans exactly rows x columns numbers of its slice in the strides given
    // (checked when it was made, kept by transposing), the inner sizes agree and the output has
    // left.rows x right.columns numbers (checked above). `output` is borrowed for writing, so it
    // overlaps neither input.
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
            Parallelism::None,
        );
    }
}
