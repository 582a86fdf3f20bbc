//! Linear maps, activations of wide layers, and tables of rows.

use burn::tensor::{Int, Tensor, activation};

/// Whether the operations of `fused` take this tensor.
fn fuses<const D: usize>(x: &Tensor<D>) -> bool {
    super::is_host(&x.device()) && super::fused::takes(x.dtype())
}

/// `x` weightᵀ + bias of rows `x` `[rows, input]`; weight is `[output, input]`, bias `[output]`.
#[must_use]
pub fn linear(x: Tensor<2>, weight: Tensor<2>, bias: Option<Tensor<1>>) -> Tensor<2> {
    if fuses(&x) {
        return super::fused::linear(x, weight, bias);
    }
    plain_linear(x, weight, bias)
}

/// [`linear`] by burn's own operations, for every device.
pub(super) fn plain_linear(x: Tensor<2>, weight: Tensor<2>, bias: Option<Tensor<1>>) -> Tensor<2> {
    let y = x.matmul(weight.transpose());
    match bias {
        Some(bias) => y + bias.unsqueeze(),
        None => y,
    }
}

/// GELU of each number (Hendrycks and Gimpel 2016), by the error function.
#[must_use]
pub fn gelu<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    if fuses(&x) {
        return super::fused::gelu(x);
    }
    activation::gelu(x)
}

/// GELU of `x` + bias; `x` is `[rows, width]`, bias `[width]`.
#[must_use]
pub fn bias_gelu(x: Tensor<2>, bias: Tensor<1>) -> Tensor<2> {
    if fuses(&x) {
        return super::fused::bias_gelu(x, bias);
    }
    activation::gelu(x + bias.unsqueeze())
}

/// SiLU of `gate`, times `value` (Shazeer 2020); both are `[rows, width]`.
#[must_use]
pub fn swiglu(gate: Tensor<2>, value: Tensor<2>) -> Tensor<2> {
    if fuses(&gate) {
        return super::fused::swiglu(gate, value);
    }
    activation::silu(gate) * value
}

/// The rows of a table `[vocabulary, width]` for ids `[n, length]`: `[n, length, width]`.
///
/// Every id must be in 0..vocabulary.
#[must_use]
pub fn embedding(table: Tensor<2>, ids: Tensor<2, Int>) -> Tensor<3> {
    if fuses(&table)
        && let Ok(values) = ids.clone().try_into_vec_as::<i32>()
    {
        let [n, length] = ids.dims();
        let width = table.dims()[1];
        let rows = super::fused::embedding(table, values.into());
        return rows.reshape([n, length, width]);
    }
    burn::tensor::module::embedding(table, ids)
}

/// A scalar whose gradient by `output` `[rows, width]` is `gradient`, which must not be recorded. Its
/// value means nothing.
#[must_use]
pub fn with_gradient(output: Tensor<2>, gradient: Tensor<2>) -> Tensor<1> {
    if fuses(&output) {
        return super::fused::with_gradient(output, gradient);
    }
    (output * gradient.autodiff()).sum()
}
