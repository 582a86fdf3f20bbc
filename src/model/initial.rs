//! Initial values: a pure function of the seed and the parameter's name.

use rayon::prelude::*;

use super::chain::name_hash;
use super::parameter::{Initial, ParameterSpec};
use crate::plan::rng::{Purpose, Stream};

/// Values of one stream of the generator, an even number. Part of every result.
const CHUNK: usize = 1 << 14;

/// Fills `values` with the initial values of a parameter, row-major. They do not depend on other
/// parameters, the order of the layers, threads or the device.
#[expect(
    clippy::cast_possible_truncation,
    reason = "parameters are 32-bit floats"
)]
pub(super) fn fill(spec: &ParameterSpec, seed: u64, values: &mut [f32]) {
    let draw: &(dyn Fn(&mut Stream) -> [f64; 2] + Sync) = match spec.initial {
        Initial::Zeros => return values.fill(0.0),
        Initial::Ones => return values.fill(1.0),
        Initial::Uniform { bound } => &move |stream| {
            let mut next = || (2.0 * stream.uniform() - 1.0) * bound;
            [next(), next()]
        },
        Initial::Normal { std } => &move |stream| stream.normal_pair().map(|value| value * std),
    };
    let place = name_hash(&spec.name);
    values
        .par_chunks_mut(CHUNK)
        .enumerate()
        .for_each(|(index, chunk)| {
            let mut stream = Stream::new(seed, Purpose::Initial, place, index as u64);
            for pair in chunk.chunks_mut(2) {
                for (value, drawn) in pair.iter_mut().zip(draw(&mut stream)) {
                    *value = drawn as f32;
                }
            }
        });
}
