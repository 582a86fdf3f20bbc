//! Fused operations against their plain twins, and against thread counts.

use burn::tensor::{Device, Tensor, TensorData};
use proptest::prelude::*;

use crate::ops::convolution::plain_conv2d;
use crate::ops::norm::plain_batch_norm_train;
use crate::ops::{batch_norm_train, conv2d, download};
use crate::plan::rng::{Purpose, Stream};

fn random<const D: usize>(seed: u64, shape: [usize; D]) -> Tensor<D> {
    let mut stream = Stream::new(seed, Purpose::Augment, 0, 0);
    let count = shape.iter().product();
    #[expect(clippy::cast_possible_truncation, reason = "test data")]
    let values: Vec<f32> = (0..count).map(|_| stream.normal_pair()[0] as f32).collect();
    Tensor::from_data(TensorData::new(values, shape), &Device::flex().autodiff()).require_grad()
}

/// Output times fixed numbers, summed: gradients of all kinds.
fn backward<const D: usize>(output: &Tensor<D>) -> burn::tensor::Gradients {
    let upstream = random(99, output.dims()).detach();
    (output.clone() * upstream).sum().backward()
}

fn close<const D: usize>(
    what: &str,
    got: Tensor<D>,
    expected: Tensor<D>,
) -> Result<(), TestCaseError> {
    prop_assert_eq!(got.dims(), expected.dims());
    let [got, expected] = [got, expected].map(|x| download(x.without_autodiff()).unwrap());
    let largest = expected.iter().fold(1f32, |a, b| a.max(b.abs()));
    for (got, expected) in got.iter().zip(&expected) {
        prop_assert!(
            (got - expected).abs() <= 2e-5 * largest,
            "{what}: {got} and {expected}"
        );
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn convolution_is_that_of_burn(
        n in 1usize..20,
        channels in 1usize..5,
        height in 1usize..10,
        width in 1usize..10,
        output in 1usize..6,
        kernel in 1usize..5,
        stride in 1usize..4,
        padding in 0usize..3,
        track_x: bool,
    ) {
        prop_assume!(padding < kernel && kernel <= height.min(width) + 2 * padding);
        let x = random(1, [n, channels, height, width]).set_require_grad(track_x);
        let weight = random(2, [output, channels, kernel, kernel]);
        let bias = random(3, [output]);
        let fused = conv2d(x.clone(), weight.clone(), Some(bias.clone()), stride, padding);
        let plain = plain_conv2d(x.clone(), weight.clone(), Some(bias.clone()), stride, padding);
        close("output", fused.clone(), plain.clone())?;
        let (fused, plain) = (backward(&fused), backward(&plain));
        if track_x {
            close("x", x.grad(&fused).unwrap(), x.grad(&plain).unwrap())?;
        }
        close("weight", weight.grad(&fused).unwrap(), weight.grad(&plain).unwrap())?;
        close("bias", bias.grad(&fused).unwrap(), bias.grad(&plain).unwrap())?;
    }

    #[test]
    fn batch_norm_is_that_of_burn(
        n in 2usize..20,
        channels in 1usize..5,
        positions in 1usize..40,
        relu: bool,
    ) {
        let x = random(1, [n, channels, positions]);
        let (gain, bias) = (random(2, [channels]), random(3, [channels]));
        let fused = batch_norm_train(x.clone(), gain.clone(), bias.clone(), relu);
        let plain = plain_batch_norm_train(x.clone(), gain.clone(), bias.clone(), relu);
        close("output", fused.output.clone(), plain.output.clone())?;
        close("mean", fused.mean, plain.mean)?;
        close("variance", fused.variance, plain.variance)?;
        // A value next to 0 may be on different sides of the ReLU.
        let smallest = download(plain.output.clone().without_autodiff().abs()).unwrap();
        prop_assume!(smallest.iter().all(|&value| value == 0.0 || value > 1e-5));
        let (fused, plain) = (backward(&fused.output), backward(&plain.output));
        close("x", x.grad(&fused).unwrap(), x.grad(&plain).unwrap())?;
        close("gain", gain.grad(&fused).unwrap(), gain.grad(&plain).unwrap())?;
        close("bias", bias.grad(&fused).unwrap(), bias.grad(&plain).unwrap())?;
    }
}

#[test]
fn transposed_inputs_are_read_in_their_own_order() {
    let x = random(1, [3, 4, 5, 6]);
    let weight = random(2, [2, 5, 3, 3]);
    let moved = x.clone().permute([0, 2, 1, 3]);
    let copied = moved.clone() + 0.0;
    let fused = conv2d(moved, weight.clone(), None, 1, 1);
    close("output", fused, conv2d(copied, weight, None, 1, 1)).unwrap();
}

#[test]
fn bits_do_not_depend_on_threads() {
    let run = || {
        let x = random(1, [37, 6, 11, 9]);
        let weight = random(2, [5, 6, 3, 3]);
        let y = conv2d(x.clone(), weight.clone(), None, 2, 1);
        let [n, channels, height, width] = y.dims();
        let (gain, bias) = (random(3, [channels]), random(4, [channels]));
        let flat = y.reshape([n, channels, height * width]);
        let y = batch_norm_train(flat, gain.clone(), bias, true).output;
        let gradients = backward(&y);
        let mut values = download(y.without_autodiff()).unwrap();
        values.extend(download(x.grad(&gradients).unwrap()).unwrap());
        values.extend(download(weight.grad(&gradients).unwrap()).unwrap());
        values.extend(download(gain.grad(&gradients).unwrap()).unwrap());
        values.into_iter().map(f32::to_bits).collect::<Vec<_>>()
    };
    let first = run();
    for threads in [1, 2, 3, 7] {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap();
        assert!(pool.install(run) == first, "{threads} threads");
    }
}
