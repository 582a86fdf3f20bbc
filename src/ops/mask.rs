//! Dropout masks that are a pure function of a seed and a place.
//!
//! The masks are made on the host by the counter-based generator of [`crate::plan::rng`], not by the
//! backend's own: burn's CPU generator is one stream for the whole process, so what it gives would
//! depend on everything drawn before it.

use burn::tensor::{Device, Tensor, TensorData};
use rayon::prelude::*;

use crate::plan::rng::{Purpose, Stream};

/// Values of one stream of the generator. Part of every result: changing it changes bits.
const CHUNK: usize = 1 << 12;

/// A mask of shape `shape`: 0 with probability `p`, else 1 / (1 - p). `p` is in 0 to below 1.
///
/// The same for the same `seed`, `place`, `p` and shape, whatever else happens in the process.
#[must_use]
pub fn dropout_mask<const D: usize>(
    seed: u64,
    place: u64,
    p: f64,
    shape: [usize; D],
    device: &Device,
) -> Tensor<D> {
    let values = dropout_values(seed, place, p, shape.iter().product());
    Tensor::from_data(TensorData::new(values, shape), device)
}

/// The values of [`dropout_mask`], row-major.
fn dropout_values(seed: u64, place: u64, p: f64, length: usize) -> Vec<f32> {
    let mut values = vec![0f32; length];
    let chunks = values.par_chunks_mut(CHUNK).enumerate();
    chunks.for_each(|(index, chunk)| fill(seed, place, p, index * CHUNK, chunk));
    values
}

/// Writes the values of [`dropout_mask`] from number `first` on, row-major.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "p is in 0 to below 1, and one f32 of scale is meant"
)]
pub(super) fn fill(seed: u64, place: u64, p: f64, first: usize, values: &mut [f32]) {
    let dropped_below = (p * 2f64.powi(32)) as u32;
    let kept = (1.0 / (1.0 - p)) as f32;
    let (mut index, mut rest) = (first, values);
    while !rest.is_empty() {
        let within = index % CHUNK;
        let (now, later) = rest.split_at_mut((CHUNK - within).min(rest.len()));
        let chunk = (index / CHUNK) as u64;
        let mut stream = Stream::new(seed, Purpose::Dropout, place, chunk);
        stream.skip(within as u64);
        for value in now.iter_mut() {
            let drawn = stream.next_u32();
            *value = if drawn < dropped_below { 0.0 } else { kept };
        }
        index += now.len();
        rest = later;
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Distribution;

    use super::*;

    #[test]
    fn the_share_and_the_mean_are_right() {
        for p in [0.1, 0.5, 0.9] {
            let n = 200_000;
            let values = dropout_values(3, 4, p, n);
            let dropped = values.iter().filter(|&&v| v == 0.0).count();
            let share = f64::from(u32::try_from(dropped).unwrap()) / f64::from(200_000);
            assert!(
                (share - p).abs() < 5.0 * (p * (1.0 - p) / 200_000.0).sqrt(),
                "{share}"
            );
            let mean = values.iter().map(|&v| f64::from(v)).sum::<f64>() / 200_000.0;
            assert!((mean - 1.0).abs() < 0.02, "{mean}");
        }
    }

    #[test]
    fn any_part_can_be_made_alone() {
        let whole = dropout_values(5, 6, 0.4, 3 * CHUNK);
        for (first, length) in [(0, 10), (3, 9), (CHUNK - 2, 5), (CHUNK, 1), (17, 2 * CHUNK)] {
            let mut part = vec![9f32; length];
            fill(5, 6, 0.4, first, &mut part);
            assert_eq!(part, whole[first..first + length], "{first}");
        }
    }

    #[test]
    fn a_mask_depends_on_seed_and_place_alone() {
        let device = Device::flex();
        let mask = |seed, place| {
            let mask = dropout_mask(seed, place, 0.3, [50, 401], &device);
            crate::ops::download(mask).unwrap()
        };
        let first = mask(1, 2);
        // Other random use in between, of this generator and of the backend's.
        let _ = mask(9, 9);
        let _ = Tensor::<1>::random([100], Distribution::Default, &device);
        assert_eq!(mask(1, 2), first);
        assert_ne!(mask(2, 2), first);
        assert_ne!(mask(1, 3), first);
        for threads in [1, 2, 4] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
            assert_eq!(pool.unwrap().install(|| mask(1, 2)), first);
        }
        // A longer mask begins with the shorter one: chunks are independent.
        assert_eq!(dropout_values(1, 2, 0.3, 30_000)[..50 * 401], first);
    }
}
