//! Linear maps of rows: `x` weightᵀ + bias.

use burn::backend::TensorMetadata;
use burn::tensor::{Shape, Tensor};

use super::operation::{Operation, Values, apply};
use super::product::{Matrix, multiply_on_all};
use super::{column_sums, tensor, values};

/// As [`crate::ops::linear`], on the CPU.
pub(in crate::ops) fn linear(
    x: Tensor<2>,
    weight: Tensor<2>,
    bias: Option<Tensor<1>>,
) -> Tensor<2> {
    let (x, weight) = (x.into_dispatch(), weight.into_dispatch());
    match bias {
        Some(bias) => apply(&Linear, [x, weight, bias.into_dispatch()]),
        None => apply(&Linear, [x, weight]),
    }
}

#[derive(Clone, Debug)]
struct Linear;

impl Linear {
    fn run(x: &Values, weight: &Values, bias: Option<&Values>) -> Values {
        let ([rows, input], [output, _]) = (x.shape().dims(), weight.shape().dims());
        let mut y = match bias {
            Some(bias) => values(bias, |bias| bias.repeat(rows)),
            None => vec![0f32; rows * output],
        };
        values(x, |x| {
            values(weight, |weight| {
                let x = Matrix::new(x, rows, input);
                let weight = Matrix::new(weight, output, input);
                multiply_on_all(&mut y, x, weight.transposed(), bias.is_some());
            });
        });
        tensor(y, Shape::new([rows, output]))
    }

    /// Gradients of `x` and weight.
    fn back(
        [x, weight]: [&Values; 2],
        gradient: &Values,
        wanted: [bool; 2],
    ) -> [Option<Values>; 2] {
        let ([rows, input], [output, _]) = (x.shape().dims(), weight.shape().dims());
        values(gradient, |gradient| {
            let gradient = Matrix::new(gradient, rows, output);
            let for_x = wanted[0].then(|| {
                let mut for_x = vec![0f32; rows * input];
                values(weight, |weight| {
                    let weight = Matrix::new(weight, output, input);
                    multiply_on_all(&mut for_x, gradient, weight, false);
                });
                tensor(for_x, Shape::new([rows, input]))
            });
            let for_weight = wanted[1].then(|| {
                let mut for_weight = vec![0f32; output * input];
                values(x, |x| {
                    let x = Matrix::new(x, rows, input);
                    multiply_on_all(&mut for_weight, gradient.transposed(), x, false);
                });
                tensor(for_weight, Shape::new([output, input]))
            });
            [for_x, for_weight]
        })
    }
}

impl Operation<2> for Linear {
    type Saved = [Values; 2];

    fn forward(&self, [x, weight]: [Values; 2]) -> (Values, Self::Saved) {
        let y = Self::run(&x, &weight, None);
        (y, [x, weight])
    }

    fn backward(
        &self,
        [x, weight]: Self::Saved,
        gradient: Values,
        wanted: [bool; 2],
    ) -> [Option<Values>; 2] {
        Self::back([&x, &weight], &gradient, wanted)
    }
}

impl Operation<3> for Linear {
    type Saved = [Values; 2];

    fn forward(&self, [x, weight, bias]: [Values; 3]) -> (Values, Self::Saved) {
        let y = Self::run(&x, &weight, Some(&bias));
        (y, [x, weight])
    }

    fn backward(
        &self,
        [x, weight]: Self::Saved,
        gradient: Values,
        wanted: [bool; 3],
    ) -> [Option<Values>; 3] {
        let [for_x, for_weight] = Self::back([&x, &weight], &gradient, [wanted[0], wanted[1]]);
        let for_bias = wanted[2].then(|| {
            let [_, output] = gradient.shape().dims();
            let sums = values(&gradient, |gradient| column_sums(gradient, output));
            tensor(sums, Shape::new([output]))
        });
        [for_x, for_weight, for_bias]
    }
}
