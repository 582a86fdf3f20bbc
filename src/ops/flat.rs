//! Flat vectors: cut, joined, read and measured in ways that do not depend on the number of threads.

use std::ops::Range;

use burn::tensor::{Device, Tensor, TensorData};
use rayon::prelude::*;

use super::vector::vectorized;
use crate::run::Fault;

/// Numbers that one partial sum covers. Part of every result: changing it changes bits.
const CHUNK: usize = 1 << 14;

/// A vector on a device.
#[must_use]
pub fn upload(values: Vec<f32>, device: &Device) -> Tensor<1> {
    let length = values.len();
    Tensor::from_data(TensorData::new(values, [length]), device)
}

/// The values of a tensor, row-major.
///
/// # Errors
///
/// When the device fails, e.g. because it was lost.
pub fn download<const D: usize>(tensor: Tensor<D>) -> Result<Vec<f32>, Fault> {
    tensor.try_into_vec_as::<f32>().map_err(|error| {
        Fault::machine(format!("cannot read a tensor from its device: {error:?}"))
            .advise("check that the device still works, then continue with `trainer resume`")
    })
}

/// Part of a vector, on the CPU without a copy.
#[must_use]
pub fn part(vector: &Tensor<1>, range: Range<usize>) -> Tensor<1> {
    vector.clone().slice([range])
}

/// Vectors one after another. At least one must be given.
#[must_use]
pub fn join(parts: Vec<Tensor<1>>) -> Tensor<1> {
    Tensor::cat(parts, 0)
}

/// Sum of squares, in 64 bits. The same bits for any number of threads.
///
/// # Errors
///
/// When the device fails.
pub fn squared_norm(vector: &Tensor<1>) -> Result<f64, Fault> {
    if is_host(&vector.device()) && super::fused::takes(vector.dtype()) {
        return Ok(super::fused::read(vector.clone(), squared_norm_of));
    }
    // Partial sums on the device; only they are moved.
    let length = vector.dims()[0];
    let chunks = length / CHUNK;
    let mut parts = Vec::new();
    if chunks > 0 {
        let body = part(vector, 0..chunks * CHUNK).reshape([chunks, CHUNK]);
        parts.extend(download(body.square().sum_dim(1))?);
    }
    if chunks * CHUNK < length {
        let tail = part(vector, chunks * CHUNK..length);
        parts.extend(download(tail.square().sum())?);
    }
    Ok(parts.into_iter().map(f64::from).sum())
}

/// Sum of squares of host values, in a fixed order.
#[must_use]
pub fn squared_norm_of(values: &[f32]) -> f64 {
    let partial: Vec<f64> = values
        .par_chunks(CHUNK)
        .map(|chunk| {
            vectorized(
                #[inline(always)]
                || {
                    // Sixteen sums side by side: the compiler vectorises them.
                    let mut lanes = [0f64; 16];
                    let mut groups = chunk.chunks_exact(16);
                    for group in &mut groups {
                        for (lane, &value) in lanes.iter_mut().zip(group) {
                            *lane += f64::from(value) * f64::from(value);
                        }
                    }
                    for (lane, &value) in lanes.iter_mut().zip(groups.remainder()) {
                        *lane += f64::from(value) * f64::from(value);
                    }
                    lanes.iter().sum()
                },
            )
        })
        .collect();
    partial.iter().sum()
}

/// Whether tensors of a device are in this process's memory.
#[must_use]
pub fn is_host(device: &Device) -> bool {
    device.clone().without_autodiff() == Device::flex()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn norm_is_that_of_a_plain_sum() {
        for length in [
            0usize,
            1,
            15,
            16,
            17,
            CHUNK - 1,
            CHUNK,
            CHUNK + 1,
            3 * CHUNK + 5,
        ] {
            let values: Vec<f32> = (0..length)
                .map(|i| (f32::from(u16::try_from(i % 1000).unwrap()) - 400.0) / 37.0)
                .collect();
            let expected: f64 = values.iter().map(|&v| f64::from(v) * f64::from(v)).sum();
            let got = squared_norm_of(&values);
            assert!(
                (got - expected).abs() <= 1e-12 * expected.max(1.0),
                "{length}"
            );
            if length > 0 {
                let tensor = upload(values, &Device::flex());
                assert!(is_host(&tensor.device()));
                assert_eq!(squared_norm(&tensor).unwrap().to_bits(), got.to_bits());
            }
        }
    }

    #[test]
    fn norm_does_not_depend_on_threads() {
        let values: Vec<f32> = (0..200_000u32)
            .map(|i| f32::from(u16::try_from(i * 7919 % 65_521).unwrap()) * 1e-3 - 30.0)
            .collect();
        let run = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
            pool.unwrap().install(|| squared_norm_of(&values)).to_bits()
        };
        assert_eq!(run(1), run(2));
        assert_eq!(run(1), run(4));
    }

    #[test]
    fn parts_join_to_the_whole() {
        let device = Device::flex();
        let whole: Vec<f32> = (0..10u8).map(f32::from).collect();
        let tensor = upload(whole.clone(), &device);
        let joined = join(vec![
            part(&tensor, 0..3),
            part(&tensor, 3..4),
            part(&tensor, 4..10),
        ]);
        assert_eq!(download(joined).unwrap(), whole);
    }
}
