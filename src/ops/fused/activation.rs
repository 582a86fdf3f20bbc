//! Activations of a wide layer, with what comes right before them: bias + GELU, SiLU x value.
//!
//! GELU is x P(X <= x) of a normal X, not the approximation by tanh (Hendrycks and Gimpel 2016). SwiGLU
//! is silu(gate) x value (Shazeer 2020).

use burn::backend::TensorMetadata;
use burn::tensor::{Shape, Tensor};
use rayon::prelude::*;

use super::operation::{Operation, Values, apply};
use super::{ROWS, add_up, owned, tensor, values};
use crate::ops::vector::{normal, sigmoid, vectorized};

/// Numbers that one task of the thread pool takes.
const TASK: usize = 1 << 13;

/// As [`crate::ops::bias_gelu`], on the CPU.
pub(in crate::ops) fn bias_gelu(x: Tensor<2>, bias: Tensor<1>) -> Tensor<2> {
    apply(&BiasGelu, [x.into_dispatch(), bias.into_dispatch()])
}

/// As [`crate::ops::gelu`], on the CPU.
pub(in crate::ops) fn gelu<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    apply(&Gelu, [x.into_dispatch()])
}

/// As [`crate::ops::swiglu`], on the CPU.
pub(in crate::ops) fn swiglu(gate: Tensor<2>, value: Tensor<2>) -> Tensor<2> {
    apply(&SwiGlu, [gate.into_dispatch(), value.into_dispatch()])
}

/// `function` of each number; a NaN gives a NaN.
fn map(x: &[f32], function: impl Fn(f32) -> f32 + Sync) -> Vec<f32> {
    let mut y = vec![0f32; x.len()];
    let tasks = y.par_chunks_mut(TASK).zip(x.par_chunks(TASK));
    tasks.for_each(|(y, x)| {
        vectorized(
            #[inline(always)]
            || y.iter_mut().zip(x).for_each(|(y, &x)| *y = function(x)),
        );
    });
    y
}

/// GELU's value at `x`.
#[allow(clippy::inline_always, reason = "see `ops::vector`")]
#[inline(always)]
fn gelu_of(x: f32) -> f32 {
    x * normal(x).0
}

/// GELU's derivative at `x`.
#[allow(clippy::inline_always, reason = "see `ops::vector`")]
#[inline(always)]
fn gelu_slope(x: f32) -> f32 {
    let (below, density) = normal(x);
    x.mul_add(density, below)
}

#[derive(Clone, Debug)]
struct Gelu;

impl Operation<1> for Gelu {
    type Saved = Values;

    fn forward(&self, [x]: [Values; 1]) -> (Values, Values) {
        let y = values(&x, |x| map(x, gelu_of));
        (tensor(y, x.shape()), x)
    }

    fn backward(&self, x: Values, gradient: Values, _: [bool; 1]) -> [Option<Values>; 1] {
        let shape = x.shape();
        let mut for_x = owned(gradient);
        values(&x, |x| {
            let tasks = for_x.par_chunks_mut(TASK).zip(x.par_chunks(TASK));
            tasks.for_each(|(g, x)| {
                vectorized(
                    #[inline(always)]
                    || g.iter_mut().zip(x).for_each(|(g, &x)| *g *= gelu_slope(x)),
                );
            });
        });
        [Some(tensor(for_x, shape))]
    }
}

/// `x` `[rows, width]`, bias `[width]`.
#[derive(Clone, Debug)]
struct BiasGelu;

impl Operation<2> for BiasGelu {
    /// `x` and bias: their sum is made again, it is cheaper than to keep it.
    type Saved = [Values; 2];

    fn forward(&self, [x, bias]: [Values; 2]) -> (Values, Self::Saved) {
        let shape = x.shape();
        let [rows, width] = shape.dims();
        let mut y = vec![0f32; rows * width];
        values(&x, |x| {
            values(&bias, |bias| {
                let tasks = y
                    .par_chunks_mut(ROWS * width)
                    .zip(x.par_chunks(ROWS * width));
                tasks.for_each(|(y, x)| {
                    vectorized(
                        #[inline(always)]
                        || {
                            for (y, x) in y.chunks_mut(width).zip(x.chunks(width)) {
                                for ((y, &x), &bias) in y.iter_mut().zip(x).zip(bias) {
                                    *y = gelu_of(x + bias);
                                }
                            }
                        },
                    );
                });
            });
        });
        (tensor(y, shape), [x, bias])
    }

    fn backward(
        &self,
        [x, bias]: Self::Saved,
        gradient: Values,
        _: [bool; 2],
    ) -> [Option<Values>; 2] {
        let shape = x.shape();
        let [_, width] = shape.dims();
        let mut for_x = owned(gradient);
        let for_bias = values(&x, |x| {
            values(&bias, |bias| {
                let tasks = for_x
                    .par_chunks_mut(ROWS * width)
                    .zip(x.par_chunks(ROWS * width));
                let partial: Vec<Vec<f32>> = tasks
                    .map(|(g, x)| {
                        vectorized(
                            #[inline(always)]
                            || back_rows(g, x, bias),
                        )
                    })
                    .collect();
                add_up(&partial, width)
            })
        });
        let for_bias = tensor(for_bias, Shape::new([width]));
        [Some(tensor(for_x, shape)), Some(for_bias)]
    }
}

/// Turns some rows of the gradient by the result into that by `x`; returns their sum.
#[allow(clippy::inline_always, reason = "see `ops::vector`")]
#[inline(always)]
fn back_rows(gradient: &mut [f32], x: &[f32], bias: &[f32]) -> Vec<f32> {
    let width = bias.len();
    let mut sums = vec![0f32; width];
    for (g, x) in gradient.chunks_mut(width).zip(x.chunks(width)) {
        for (((g, &x), &bias), sum) in g.iter_mut().zip(x).zip(bias).zip(&mut sums) {
            *g *= gelu_slope(x + bias);
            *sum += *g;
        }
    }
    sums
}

#[derive(Clone, Debug)]
struct SwiGlu;

impl Operation<2> for SwiGlu {
    type Saved = [Values; 2];

    fn forward(&self, [gate, value]: [Values; 2]) -> (Values, Self::Saved) {
        let shape = gate.shape();
        let mut y = vec![0f32; shape.num_elements()];
        values(&gate, |gate| {
            values(&value, |value| {
                let tasks = y
                    .par_chunks_mut(TASK)
                    .zip(gate.par_chunks(TASK))
                    .zip(value.par_chunks(TASK));
                tasks.for_each(|((y, gate), value)| {
                    vectorized(
                        #[inline(always)]
                        || {
                            for ((y, &gate), &value) in y.iter_mut().zip(gate).zip(value) {
                                *y = gate * sigmoid(gate) * value;
                            }
                        },
                    );
                });
            });
        });
        (tensor(y, shape), [gate, value])
    }

    fn backward(
        &self,
        [gate, value]: Self::Saved,
        gradient: Values,
        _: [bool; 2],
    ) -> [Option<Values>; 2] {
        let shape = gate.shape();
        let mut for_gate = vec![0f32; shape.num_elements()];
        let mut for_value = owned(gradient);
        values(&gate, |gate| {
            values(&value, |value| {
                let tasks = for_gate
                    .par_chunks_mut(TASK)
                    .zip(for_value.par_chunks_mut(TASK))
                    .zip(gate.par_chunks(TASK))
                    .zip(value.par_chunks(TASK));
                tasks.for_each(|(((for_gate, g), gate), value)| {
                    vectorized(
                        #[inline(always)]
                        || {
                            let numbers = for_gate.iter_mut().zip(g).zip(gate).zip(value);
                            for (((for_gate, g), &gate), &value) in numbers {
                                let s = sigmoid(gate);
                                let silu = gate * s;
                                *for_gate = *g * value * silu.mul_add(1.0 - s, s);
                                *g *= silu;
                            }
                        },
                    );
                });
            });
        });
        [
            Some(tensor(for_gate, shape.clone())),
            Some(tensor(for_value, shape)),
        ]
    }
}
