//! What a device reaches at most, measured: the rate of matrix products, and that of copies.

use std::hint::black_box;
use std::time::{Duration, Instant};

use burn::tensor::{Device, Distribution, Tensor};
use rayon::prelude::*;

use super::flat::is_host;
use crate::run::Fault;

/// Side of the square matrices on the CPU: large enough that packing and threads cost nothing.
const SIDE_HOST: usize = 1024;

/// Side of the square matrices elsewhere.
const SIDE_DEVICE: usize = 4096;

/// Numbers of a copied vector, far beyond any cache.
const COPIED: usize = 32 << 20;

/// How long each of the two is repeated. The best repetition counts: what disturbs only slows.
const REPEATED: Duration = Duration::from_millis(500);

/// Fewest repetitions, the first of which warms up.
const REPETITIONS_MIN: usize = 4;

/// The rates of a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Floating-point operations per second in a product of square matrices; a multiplication and its
    /// addition are two.
    pub flops_per_s: f64,
    /// Bytes read plus bytes written per second by a copy.
    pub bytes_per_s: f64,
}

/// Measures a device, for about a second, with the threads that computations on it have.
///
/// # Errors
///
/// When the device fails.
pub fn measure(device: &Device) -> Result<Limits, Fault> {
    let device = device.clone().without_autodiff();
    let host = is_host(&device);
    let side = if host { SIDE_HOST } else { SIDE_DEVICE };
    let random = || Tensor::<2>::random([side, side], Distribution::Uniform(-1.0, 1.0), &device);
    let (left, right) = (random(), random());
    let product = best(&device, || {
        black_box(left.clone().matmul(right.clone()));
    })?;
    drop((left, right));
    let copy = if host {
        let from = vec![1f32; COPIED];
        let mut to = vec![0f32; COPIED];
        let part = COPIED.div_ceil(rayon::current_num_threads());
        best(&device, || {
            let pairs = to.par_chunks_mut(part).zip(from.par_chunks(part));
            pairs.for_each(|(to, from)| to.copy_from_slice(from));
            black_box(&mut to);
        })?
    } else {
        let from = Tensor::<1>::ones([COPIED], &device);
        best(&device, || {
            black_box(from.clone().add_scalar(1.0));
        })?
    };
    Ok(Limits {
        flops_per_s: count(2 * side * side * side) / product,
        bytes_per_s: count(2 * COPIED * size_of::<f32>()) / copy,
    })
}

/// Seconds of the fastest repetition.
fn best(device: &Device, mut work: impl FnMut()) -> Result<f64, Fault> {
    let began = Instant::now();
    let mut best = f64::INFINITY;
    let mut done = 0;
    while done < REPETITIONS_MIN || began.elapsed() < REPEATED {
        let clock = Instant::now();
        work();
        device.sync().map_err(|error| {
            Fault::machine(format!("the device failed: {error:?}"))
                .advise("check that the device still works")
        })?;
        if done > 0 {
            best = best.min(clock.elapsed().as_secs_f64());
        }
        done += 1;
    }
    Ok(best)
}

#[expect(clippy::cast_precision_loss, reason = "a rate needs no more digits")]
fn count(number: usize) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Backend;

    #[test]
    fn a_machine_reaches_something() {
        let device = crate::ops::device::open(Backend::Flex, 0, 0).unwrap();
        let limits = measure(&device).unwrap();
        for rate in [limits.flops_per_s, limits.bytes_per_s] {
            assert!(rate.is_finite() && rate > 1e6, "{limits:?}");
        }
    }
}
