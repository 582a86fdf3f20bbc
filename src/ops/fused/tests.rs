//! Fused operations against their plain twins, and against thread counts.

use burn::backend::DType;
use burn::tensor::{Device, Int, Tensor, TensorData, activation};
use proptest::prelude::*;

use crate::ops::attention::plain_causal_attention;
use crate::ops::convolution::plain_conv2d;
use crate::ops::linear::plain_linear;
use crate::ops::norm::{plain_batch_norm_train, plain_layer_norm, plain_rms_norm};
use crate::ops::pool::plain_max_pool;
use crate::ops::{
    Heads, Rotation, WeightDropout, Window, add_relu, batch_norm_train, bias_gelu,
    causal_attention, conv2d, download, embedding, gelu, layer_norm, linear, max_pool2d,
    mean_of_positions, relu, rms_norm, swiglu, with_gradient,
};
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

/// Holds value and gradients of an operation on leaves of these sizes against a plain twin that gets
/// the same numbers in 64 bits.
fn agree(
    sizes: &[usize],
    fused: impl Fn(&[Tensor<1>]) -> Tensor<2>,
    plain: impl Fn(&[Tensor<1>]) -> Tensor<2>,
) -> Result<(), TestCaseError> {
    let leaves: Vec<Tensor<1>> = (1..)
        .zip(sizes)
        .map(|(seed, &size)| random(seed, [size]))
        .collect();
    let wide: Vec<Tensor<1>> = leaves.iter().map(|x| x.clone().cast(DType::F64)).collect();
    let (fused, plain) = (fused(&leaves), plain(&wide).cast(DType::F32));
    close("output", fused.clone(), plain.clone())?;
    let (fused, plain) = (backward(&fused), backward(&plain));
    for (index, leaf) in leaves.iter().enumerate() {
        let what = format!("gradient {index}");
        close(
            &what,
            leaf.grad(&fused).unwrap(),
            leaf.grad(&plain).unwrap(),
        )?;
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn linear_maps_are_those_of_burn(
        rows in 1usize..80,
        input in 1usize..40,
        output in 1usize..40,
        biased: bool,
    ) {
        let run = |function: fn(Tensor<2>, Tensor<2>, Option<Tensor<1>>) -> Tensor<2>| {
            move |leaves: &[Tensor<1>]| {
                let x = leaves[0].clone().reshape([rows, input]);
                let weight = leaves[1].clone().reshape([output, input]);
                function(x, weight, leaves.get(2).cloned())
            }
        };
        let sizes = [rows * input, output * input, output];
        let count = if biased { 3 } else { 2 };
        agree(&sizes[..count], run(linear), run(plain_linear))?;
    }

    #[test]
    fn layer_norm_is_that_of_burn(rows in 1usize..80, width in 2usize..50, biased: bool) {
        let run = |function: fn(Tensor<2>, Tensor<1>, Option<Tensor<1>>) -> Tensor<2>| {
            move |leaves: &[Tensor<1>]| {
                let x = leaves[0].clone().reshape([rows, width]);
                function(x, leaves[1].clone(), leaves.get(2).cloned())
            }
        };
        let count = if biased { 3 } else { 2 };
        let sizes = [rows * width, width, width];
        agree(&sizes[..count], run(layer_norm), run(plain_layer_norm))?;
    }

    #[test]
    fn rms_norm_is_that_of_burn(rows in 1usize..80, width in 1usize..50) {
        let run = |function: fn(Tensor<2>, Tensor<1>) -> Tensor<2>| {
            move |leaves: &[Tensor<1>]| {
                function(leaves[0].clone().reshape([rows, width]), leaves[1].clone())
            }
        };
        agree(&[rows * width, width], run(rms_norm), run(plain_rms_norm))?;
    }

    #[test]
    fn activations_are_those_of_burn(rows in 1usize..80, width in 1usize..70) {
        let shape = [rows, width];
        agree(
            &[rows * width],
            |leaves| gelu(leaves[0].clone().reshape(shape)),
            |leaves| activation::gelu(leaves[0].clone().reshape(shape)),
        )?;
        agree(
            &[rows * width, width],
            |leaves| bias_gelu(leaves[0].clone().reshape(shape), leaves[1].clone()),
            |leaves| activation::gelu(leaves[0].clone().reshape(shape) + leaves[1].clone().unsqueeze()),
        )?;
        agree(
            &[rows * width, rows * width],
            |leaves| swiglu(leaves[0].clone().reshape(shape), leaves[1].clone().reshape(shape)),
            |leaves| {
                activation::silu(leaves[0].clone().reshape(shape)) * leaves[1].clone().reshape(shape)
            },
        )?;
    }

    #[test]
    fn attention_is_that_of_burn(
        n in 1usize..4,
        length in 1usize..150,
        kv_heads in 1usize..3,
        groups in 1usize..3,
        width in 1usize..9,
        dropped: bool,
    ) {
        let heads = Heads { length, heads: kv_heads * groups, kv_heads, width };
        let dropout = dropped.then_some(WeightDropout { seed: 3, place: 4, p: 0.3 });
        let (wide, narrow) = (heads.heads * width, kv_heads * width);
        let cut = |leaves: &[Tensor<1>]| {
            let rows = |index: usize, row: usize| leaves[index].clone().reshape([n * length, row]);
            [rows(0, wide), rows(1, narrow), rows(2, narrow)]
        };
        agree(
            &[n * length * wide, n * length * narrow, n * length * narrow],
            |leaves| {
                let [query, key, value] = cut(leaves);
                causal_attention(query, key, value, heads, dropout)
            },
            |leaves| {
                let [query, key, value] = cut(leaves);
                plain_causal_attention(query, key, value, heads, dropout)
            },
        )?;
    }

    #[test]
    fn rotation_is_its_plain_twin(
        n in 1usize..4,
        length in 1usize..40,
        heads in 1usize..4,
        half in 1usize..6,
    ) {
        let rotation = Rotation::new(length, 2 * half, 100.0);
        let shape = [n * length, heads * 2 * half];
        agree(
            &[shape[0] * shape[1]],
            |leaves| rotation.rotate(leaves[0].clone().reshape(shape)),
            |leaves| rotation.plain_rotate(leaves[0].clone().reshape(shape)),
        )?;
    }

    #[test]
    fn pooling_is_that_of_burn(
        n in 1usize..4,
        channels in 1usize..4,
        height in 3usize..12,
        width in 3usize..12,
        kernel in 1usize..4,
        stride in 1usize..4,
        padding in 0usize..2,
    ) {
        prop_assume!(2 * padding <= kernel);
        let window = Window { kernel, stride, padding };
        let shape = [n, channels, height, width];
        let flat = |y: Tensor<4>| y.flatten(1, 3);
        agree(
            &[n * channels * height * width],
            |leaves| flat(max_pool2d(leaves[0].clone().reshape(shape), window)),
            |leaves| flat(plain_max_pool(leaves[0].clone().reshape(shape), window)),
        )?;
        let shape = [n, channels, height * width];
        agree(
            &[n * channels * height * width],
            |leaves| mean_of_positions(leaves[0].clone().reshape(shape)),
            |leaves| leaves[0].clone().reshape(shape).mean_dim(2).squeeze_dim(2),
        )?;
    }

    #[test]
    fn rectified_values_are_those_of_burn(rows in 1usize..80, width in 1usize..70) {
        let shape = [rows, width];
        let leaf = |leaves: &[Tensor<1>], index: usize| leaves[index].clone().reshape(shape);
        agree(
            &[rows * width],
            |leaves| relu(leaf(leaves, 0)),
            |leaves| activation::relu(leaf(leaves, 0)),
        )?;
        agree(
            &[rows * width, rows * width],
            |leaves| add_relu(leaf(leaves, 0), leaf(leaves, 1)),
            |leaves| activation::relu(leaf(leaves, 0) + leaf(leaves, 1)),
        )?;
    }

    #[test]
    fn embedding_is_that_of_burn(
        ids in proptest::collection::vec(0i32..7, 1..60),
        width in 1usize..9,
    ) {
        let count = ids.len();
        let ids: Tensor<2, Int> =
            Tensor::from_data(TensorData::new(ids, [1, count]), &Device::flex());
        let rows = |found: Tensor<3>| found.reshape([count, width]);
        agree(
            &[7 * width],
            |leaves| rows(embedding(leaves[0].clone().reshape([7, width]), ids.clone())),
            |leaves| {
                let table = leaves[0].clone().reshape([7, width]);
                rows(burn::tensor::module::embedding(table, ids.clone()))
            },
        )?;
    }

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
fn a_nan_passes_rectifier_and_pool() {
    let x: Tensor<4> = Tensor::from_data(
        TensorData::new(vec![1f32, f32::NAN, 3.0, -1.0], [1, 1, 2, 2]),
        &Device::flex(),
    );
    let window = Window {
        kernel: 2,
        stride: 2,
        padding: 0,
    };
    assert!(download(max_pool2d(x.clone(), window)).unwrap()[0].is_nan());
    assert!(download(relu(x.clone())).unwrap()[1].is_nan());
    assert!(download(add_relu(x.clone(), x)).unwrap()[1].is_nan());
}

#[test]
fn a_given_gradient_is_the_gradient() {
    let x = random(1, [3, 4]);
    let gradient = random(2, [3, 4]).without_autodiff();
    let scalar = with_gradient(x.clone() * 2.0, gradient.clone());
    let found = x.grad(&scalar.backward()).unwrap();
    close("x", found, gradient.clone() * 2.0).unwrap();
    let scaled = with_gradient(x.clone(), gradient.clone()) * 3.0;
    close(
        "scaled",
        x.grad(&scaled.backward()).unwrap(),
        gradient * 3.0,
    )
    .unwrap();
}

/// Value and gradients of a small transformer block, as bits.
fn block() -> Vec<u32> {
    let (n, length, width) = (3, 100, 24);
    let heads = Heads {
        length,
        heads: 4,
        kv_heads: 2,
        width: 6,
    };
    let dropout = Some(WeightDropout {
        seed: 1,
        place: 2,
        p: 0.2,
    });
    let x = random(1, [n * length, width]);
    let (gain, bias) = (random(2, [width]), random(3, [width]));
    let normal = layer_norm(x.clone(), gain.clone(), Some(bias.clone()));
    let weights = [(width, 4), (width / 2, 5), (width / 2, 6)];
    let weights = weights.map(|(output, seed)| random(seed, [output, width]));
    let projected = weights
        .clone()
        .map(|weight| linear(normal.clone(), weight, None));
    let [query, key, value] = projected;
    let rotation = Rotation::new(length, 6, 100.0);
    let attended = causal_attention(
        rotation.rotate(query),
        rotation.rotate(key),
        value,
        heads,
        dropout,
    );
    let normal = rms_norm(attended, gain.clone());
    let y = swiglu(bias_gelu(normal, bias.clone()), x.clone());
    let gradients = backward(&y);
    let mut values = download(y.without_autodiff()).unwrap();
    values.extend(download(x.grad(&gradients).unwrap()).unwrap());
    values.extend(download(gain.grad(&gradients).unwrap()).unwrap());
    values.extend(download(bias.grad(&gradients).unwrap()).unwrap());
    for weight in weights {
        values.extend(download(weight.grad(&gradients).unwrap()).unwrap());
    }
    values.into_iter().map(f32::to_bits).collect()
}

#[test]
fn bits_do_not_depend_on_threads() {
    assert_same_for_all_threads(block);
    assert_same_for_all_threads(convolution_and_norm);
}

fn convolution_and_norm() -> Vec<u32> {
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
    values.into_iter().map(f32::to_bits).collect()
}

fn assert_same_for_all_threads(run: fn() -> Vec<u32>) {
    let first = run();
    for threads in [1, 2, 3, 7] {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap();
        assert!(pool.install(run) == first, "{threads} threads");
    }
}
