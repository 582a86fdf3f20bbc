//! A gradient that is known already.

use burn::backend::TensorMetadata;
use burn::tensor::{Shape, Tensor};

use super::operation::{Operation, Values, apply, detached};
use super::{owned, tensor};

/// As [`crate::ops::with_gradient`], on the CPU.
pub(in crate::ops) fn with_gradient(output: Tensor<2>, gradient: Tensor<2>) -> Tensor<1> {
    let gradient = detached(gradient);
    apply(&Given { gradient }, [output.into_dispatch()])
}

#[derive(Clone, Debug)]
struct Given {
    gradient: Values,
}

impl Operation<1> for Given {
    type Saved = ();

    fn forward(&self, _: [Values; 1]) -> (Values, ()) {
        (tensor(vec![0.0], Shape::new([1])), ())
    }

    fn backward(&self, (): (), scale: Values, _: [bool; 1]) -> [Option<Values>; 1] {
        let scale = owned(scale).first().copied().unwrap_or(1.0);
        #[expect(clippy::float_cmp, reason = "exactly 1 where backward passes begin")]
        if scale == 1.0 {
            return [Some(self.gradient.clone())];
        }
        let shape = self.gradient.shape();
        let scaled = owned(self.gradient.clone());
        let scaled = scaled.into_iter().map(|value| value * scale).collect();
        [Some(tensor(scaled, shape))]
    }
}
