//! What travels from layer to layer: a tensor of one of the ranks that layers use.

use burn::tensor::{Int, Tensor};

use crate::ops;

/// Values of `n` samples between two layers.
#[derive(Clone, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "a few live at a time, and handles move cheaply"
)]
pub(super) enum Value {
    /// Rows of a table: `[n, numeric]`, `[n, categorical]`; none where there are no such columns.
    Row(Option<Tensor<2>>, Option<Tensor<2, Int>>),
    /// Token ids, `[n, length]`.
    Ids(Tensor<2, Int>),
    /// `[n, features]`.
    Features(Tensor<2>),
    /// `[n, length, width]`.
    Sequence(Tensor<3>),
    /// `[n, channels, height, width]`.
    Map(Tensor<4>),
}

// A network is checked when it is expanded, so a layer always meets the rank it was built for. The
// conversions below are total all the same: another rank is flattened to the one asked for.
impl Value {
    /// `[n, features]`.
    pub(super) fn features(self) -> Tensor<2> {
        match self {
            Value::Features(x) => x,
            Value::Sequence(x) => x.flatten(1, 2),
            Value::Map(x) => x.flatten(1, 3),
            Value::Ids(x) => x.float(),
            Value::Row(numeric, categorical) => {
                let parts = [numeric, categorical.map(Tensor::<2, Int>::float)];
                Tensor::cat(parts.into_iter().flatten().collect(), 1)
            }
        }
    }

    /// `[n, length, width]`.
    pub(super) fn sequence(self) -> Tensor<3> {
        match self {
            Value::Sequence(x) => x,
            other => other.features().unsqueeze_dim(1),
        }
    }

    /// `[n, channels, height, width]`.
    pub(super) fn map(self) -> Tensor<4> {
        match self {
            Value::Map(x) => x,
            other => {
                let features = other.features();
                let [n, width] = features.dims();
                features.reshape([n, width, 1, 1])
            }
        }
    }

    /// `[n, length]` ids.
    pub(super) fn ids(self) -> Tensor<2, Int> {
        match self {
            Value::Ids(ids) => ids,
            other => other.features().int(),
        }
    }

    /// Applies a function that takes any rank.
    pub(super) fn each(self, function: impl Elementwise) -> Self {
        match self {
            Value::Features(x) => Value::Features(function.apply(x)),
            Value::Sequence(x) => Value::Sequence(function.apply(x)),
            Value::Map(x) => Value::Map(function.apply(x)),
            other => Value::Features(function.apply(other.features())),
        }
    }

    /// Applies a function of rows to the last dimension of features or a sequence.
    pub(super) fn rows(self, function: impl FnOnce(Tensor<2>) -> Tensor<2>) -> Self {
        match self {
            Value::Sequence(x) => {
                let [n, length, width] = x.dims();
                let y = function(x.reshape([n * length, width]));
                let width = y.dims()[1];
                Value::Sequence(y.reshape([n, length, width]))
            }
            other => Value::Features(function(other.features())),
        }
    }

    /// Applies a function of `[n, channels, positions]` to features or a map.
    pub(super) fn channels(self, function: impl FnOnce(Tensor<3>) -> Tensor<3>) -> Self {
        match self {
            Value::Map(x) => {
                let dims = x.dims();
                let [n, channels, height, width] = dims;
                let y = function(x.reshape([n, channels, height * width]));
                Value::Map(y.reshape(dims))
            }
            other => {
                let x = other.features();
                let [n, features] = x.dims();
                Value::Features(function(x.reshape([n, features, 1])).reshape([n, features]))
            }
        }
    }

    /// Sum of two values of the same shape.
    pub(super) fn add(self, other: Self) -> Self {
        match (self, other) {
            (Value::Map(x), Value::Map(y)) => Value::Map(x + y),
            (Value::Sequence(x), Value::Sequence(y)) => Value::Sequence(x + y),
            (x, y) => Value::Features(x.features() + y.features()),
        }
    }

    /// ReLU of the sum of two values of the same shape.
    pub(super) fn add_relu(self, other: Self) -> Self {
        match (self, other) {
            (Value::Map(x), Value::Map(y)) => Value::Map(ops::add_relu(x, y)),
            (Value::Sequence(x), Value::Sequence(y)) => Value::Sequence(ops::add_relu(x, y)),
            (x, y) => Value::Features(ops::add_relu(x.features(), y.features())),
        }
    }

    /// Whether no number is NaN or infinite. Reads the value back from its device.
    pub(super) fn is_finite(&self) -> bool {
        let check = |x: Tensor<2>| {
            let all = x.without_autodiff().is_finite().all();
            // A device that cannot be read is not this layer's fault.
            all.try_into_scalar::<bool>().unwrap_or(true)
        };
        match self {
            Value::Ids(_) | Value::Row(None, _) => true,
            Value::Row(Some(numeric), _) => check(numeric.clone()),
            other => check(other.clone().features()),
        }
    }
}

/// A function of tensors of any rank.
pub(super) trait Elementwise {
    /// Same shape in and out.
    fn apply<const D: usize>(self, x: Tensor<D>) -> Tensor<D>;
}
