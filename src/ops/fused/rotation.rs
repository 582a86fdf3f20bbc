//! Rotary positions: pairs of numbers of a head turn by angles that depend on the place.

use std::sync::Arc;

use burn::backend::TensorMetadata;
use burn::tensor::Tensor;
use rayon::prelude::*;

use super::operation::{Operation, Values, apply};
use super::{ROWS, tensor, values};
use crate::ops::vector::vectorized;

/// As [`crate::ops::Rotation::rotate`], on the CPU. `cosine` and `sine` are `[length, width / 2]`.
pub(in crate::ops) fn rotate(
    x: Tensor<2>,
    width: usize,
    cosine: Arc<Vec<f32>>,
    sine: Arc<Vec<f32>>,
) -> Tensor<2> {
    let turn = Turn {
        width,
        cosine,
        sine,
    };
    apply(&turn, [x.into_dispatch()])
}

#[derive(Clone, Debug)]
struct Turn {
    width: usize,
    cosine: Arc<Vec<f32>>,
    sine: Arc<Vec<f32>>,
}

impl Turn {
    /// Turns forwards (`direction` 1) or back (-1).
    fn run(&self, x: &Values, direction: f32) -> Values {
        let shape = x.shape();
        let [rows, row] = shape.dims();
        let mut y = vec![0f32; rows * row];
        values(x, |x| {
            let tasks = y.par_chunks_mut(ROWS * row).zip(x.par_chunks(ROWS * row));
            tasks.enumerate().for_each(|(index, (y, x))| {
                vectorized(
                    #[inline(always)]
                    || {
                        let rows = y.chunks_mut(row).zip(x.chunks(row));
                        for (offset, (y, x)) in rows.enumerate() {
                            self.turn_row(index * ROWS + offset, direction, x, y);
                        }
                    },
                );
            });
        });
        tensor(y, shape)
    }

    #[allow(clippy::inline_always, reason = "see `ops::vector`")]
    #[inline(always)]
    fn turn_row(&self, index: usize, direction: f32, x: &[f32], y: &mut [f32]) {
        let half = self.width / 2;
        let place = index % (self.cosine.len() / half);
        let cosine = &self.cosine[place * half..][..half];
        let sine = &self.sine[place * half..][..half];
        for (y, x) in y.chunks_mut(self.width).zip(x.chunks(self.width)) {
            let (first, second) = x.split_at(half);
            let (y_first, y_second) = y.split_at_mut(half);
            for i in 0..half {
                let sine = sine[i] * direction;
                y_first[i] = first[i] * cosine[i] - second[i] * sine;
                y_second[i] = second[i] * cosine[i] + first[i] * sine;
            }
        }
    }
}

impl Operation<1> for Turn {
    type Saved = ();

    fn forward(&self, [x]: [Values; 1]) -> (Values, ()) {
        (self.run(&x, 1.0), ())
    }

    fn backward(&self, (): (), gradient: Values, _: [bool; 1]) -> [Option<Values>; 1] {
        [Some(self.run(&gradient, -1.0))]
    }
}
