//! Whole networks: gradients, determinism, modes, finding the layer that went wrong.

use burn::tensor::{Device, Tensor};

use super::*;
use crate::model::{Buffers, Mode, Output, Parameters};
use crate::ops;

fn flat(output: Output) -> Tensor<1> {
    match output {
        Output::Logits(x) | Output::Values(x) => x.flatten(0, 1),
        Output::TokenLogits(x) => x.flatten(0, 2),
    }
}

/// One network of each kind, with the shape it takes.
fn zoo() -> Vec<(&'static str, Network)> {
    let (ids, next) = tokens(6, 11);
    let free = vec![
        LayerConfig::Conv2d {
            out: 4,
            kernel: 3,
            stride: 1,
            padding: 1,
            bias: true,
        },
        LayerConfig::BatchNorm,
        LayerConfig::Activation {
            function: Activation::Relu,
        },
        LayerConfig::MaxPool2d {
            kernel: 2,
            stride: 2,
            padding: 0,
        },
        LayerConfig::ResidualBlock { out: 6, stride: 2 },
        LayerConfig::Flatten,
        LayerConfig::LayerNorm,
        LayerConfig::Linear { out: 0, bias: true },
    ];
    let mut dropped = gpt();
    dropped.dropout = 0.2;
    dropped.norm = Norm::Rms;
    vec![
        (
            "mlp",
            expand(&mlp(&[8, 6], Norm::None, 0.0), &table(), &classes(3)),
        ),
        (
            "mlp with norm",
            expand(&mlp(&[8], Norm::Batch, 0.3), &image(1, 4), &classes(3)),
        ),
        (
            "resnet",
            expand(&resnet(8, Stem::Cifar, 4), &image(2, 8), &classes(3)),
        ),
        ("bottleneck", {
            let model = Model::Resnet(Resnet {
                depth: 11,
                width: 2,
                stem: Stem::Cifar,
                block: Block::Bottleneck,
                dropout: 0.1,
            });
            expand(&model, &image(2, 8), &classes(3))
        }),
        ("gpt", expand(&Model::Gpt(gpt()), &ids, &next)),
        (
            "gpt with dropout",
            expand(&Model::Gpt(dropped), &ids, &next),
        ),
        ("llama", expand(&Model::Gpt(llama()), &ids, &next)),
        ("free", expand(&list(free), &image(1, 9), &classes(3))),
    ]
}

/// Parameters away from their start, where gains of 0 would hide whole branches.
fn moved(network: &Network) -> Parameters {
    let start = Parameters::initial(network, 3, &Device::flex()).flat();
    let noise = batch(&image(1, 1), network.parameter_count(), 5);
    let Input::Images { pixels } = noise else {
        unreachable!()
    };
    let noise = ops::upload(pixels, &Device::flex());
    Parameters::from_flat(network, start + noise * 0.1)
}

const TRAIN: Mode = Mode::Train { dropout_seed: 17 };

/// Sum of the outputs times fixed weights: as sensitive as any loss, and smooth.
fn loss(network: &Network, parameters: &Parameters, input: &Input) -> Tensor<1> {
    let buffers = Buffers::initial(network, &Device::flex());
    let output = flat(network.forward(parameters, &buffers, input, TRAIN).output);
    let [length] = output.dims();
    let Input::Images { pixels } = batch(&image(1, 1), length, 8) else {
        unreachable!()
    };
    (output * ops::upload(pixels, &Device::flex())).sum()
}

#[test]
fn gradients_are_slopes() {
    for (name, network) in zoo() {
        let input = batch(network.input(), 5, 2);
        let parameters = moved(&network);
        let gradients = loss(&network, &parameters, &input).backward();
        let gradient = ops::download(parameters.gradient(&network, gradients)).unwrap();
        // Along the gradient itself and along each single parameter tensor's part of it.
        for spec in network.parameters() {
            let mut direction = vec![0f32; gradient.len()];
            direction[spec.range.clone()].copy_from_slice(&gradient[spec.range.clone()]);
            let squared = ops::squared_norm_of(&direction);
            if squared < 1e-8 {
                continue;
            }
            #[expect(clippy::cast_possible_truncation, reason = "test data")]
            let step = (3e-4 / squared.sqrt()) as f32;
            let along = |sign: f32| {
                let direction = ops::upload(direction.clone(), &Device::flex());
                let there = parameters.flat() + direction * (sign * step);
                let there = Parameters::from_flat(&network, there);
                let loss = loss(&network, &there, &input);
                f64::from(ops::download(loss).unwrap()[0])
            };
            let slope = (along(1.0) - along(-1.0)) / (2.0 * f64::from(step));
            let error = (slope - squared).abs() / squared.max(1e-2);
            assert!(
                error < 0.1,
                "{name}: {}: slope {slope}, gradient {squared}",
                spec.name
            );
        }
        // A parameter that never gets a gradient would be a layer that is not connected.
        let silent = network.parameters().iter().filter(|spec| {
            gradient[spec.range.clone()]
                .iter()
                .all(|&value| value == 0.0)
        });
        let silent: Vec<&str> = silent.map(|spec| spec.name.as_str()).collect();
        assert!(silent.is_empty(), "{name}: {silent:?}");
    }
}

fn bits(network: &Network, dropout_seed: u64) -> Vec<u32> {
    let parameters = Parameters::initial(network, 3, &Device::flex());
    let parameters = Parameters::from_flat(network, parameters.flat() + 0.01);
    let buffers = Buffers::initial(network, &Device::flex());
    let input = batch(network.input(), 5, 2);
    let mode = Mode::Train { dropout_seed };
    let forward = network.forward(&parameters, &buffers, &input, mode);
    let output = flat(forward.output);
    let mut values = ops::download(output.clone().without_autodiff()).unwrap();
    let gradients = output.clone().mul(output).sum().backward();
    values.extend(ops::download(parameters.gradient(network, gradients)).unwrap());
    if let Some(statistics) = forward.statistics {
        values.extend(ops::download(statistics).unwrap());
    }
    values.into_iter().map(f32::to_bits).collect()
}

#[test]
fn bits_do_not_depend_on_threads_or_other_random_use() {
    for (name, network) in zoo() {
        let first = bits(&network, 1);
        let device = Device::flex();
        let _ = Tensor::<1>::random([64], burn::tensor::Distribution::Default, &device);
        assert_eq!(bits(&network, 1), first, "{name}");
        for threads in [1, 2, 4] {
            let pool = rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .unwrap();
            assert!(
                pool.install(|| bits(&network, 1)) == first,
                "{name}, {threads} threads"
            );
        }
        let drops = format!("{:?}", network.layers()).contains("Dropout { p: 0.");
        let has_dropout = drops && !format!("{:?}", network.layers()).contains("p: 0.0");
        if has_dropout {
            assert_ne!(bits(&network, 2), first, "{name}");
        }
    }
}

#[test]
fn large_layers_do_not_depend_on_threads() {
    // Sizes at which the backend's parallel paths are taken.
    let network = expand(&resnet(8, Stem::Cifar, 0), &image(1, 28), &classes(10));
    let input = batch(network.input(), 24, 2);
    let run = || {
        let parameters = Parameters::initial(&network, 3, &Device::flex());
        let buffers = Buffers::initial(&network, &Device::flex());
        let forward = network.forward(&parameters, &buffers, &input, TRAIN);
        let output = flat(forward.output);
        let gradients = output.clone().mul(output).sum().backward();
        let gradient = parameters.gradient(&network, gradients);
        let values = ops::download(gradient).unwrap();
        values.into_iter().map(f32::to_bits).collect::<Vec<_>>()
    };
    let first = run();
    for threads in [1, 2, 3] {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap();
        assert!(pool.install(run) == first, "{threads} threads");
    }
}

#[test]
fn evaluation_has_no_dropout_and_no_statistics() {
    for (name, network) in zoo() {
        let parameters = moved(&network);
        let buffers = Buffers::initial(&network, &Device::flex());
        let run = |n: usize| {
            let input = batch(network.input(), n, 2);
            let forward = network.forward(&parameters, &buffers, &input, Mode::Evaluate);
            assert!(forward.statistics.is_none(), "{name}");
            let output = flat(forward.output);
            assert!(!output.is_autodiff(), "{name}");
            ops::download(output).unwrap()
        };
        let (one, many) = (run(4), run(4));
        assert_eq!(one, many, "{name}");
    }
}

#[test]
fn a_sample_is_evaluated_alone_as_among_others() {
    for (name, network) in zoo() {
        let parameters = moved(&network);
        let buffers = Buffers::initial(&network, &Device::flex());
        let evaluate = |input: &Input| {
            let forward = network.forward(&parameters, &buffers, input, Mode::Evaluate);
            ops::download(flat(forward.output)).unwrap()
        };
        let all = evaluate(&batch(network.input(), 3, 2));
        // The first sample of a batch made by the same seed is the same.
        let first = evaluate(&first_of(&batch(network.input(), 3, 2), 3));
        for (a, b) in first.iter().zip(&all) {
            assert!(
                (a - b).abs() <= 1e-4 * a.abs().max(1.0),
                "{name}: {a} and {b}"
            );
        }
    }
}

fn first_of(input: &Input, n: usize) -> Input {
    fn cut<T: Clone>(values: &[T], n: usize) -> Vec<T> {
        values[..values.len() / n].to_vec()
    }
    match input {
        Input::Table {
            numeric,
            categorical,
        } => Input::Table {
            numeric: cut(numeric, n),
            categorical: cut(categorical, n),
        },
        Input::Images { pixels } => Input::Images {
            pixels: cut(pixels, n),
        },
        Input::Tokens { ids } => Input::Tokens { ids: cut(ids, n) },
    }
}

#[test]
fn attention_does_not_look_ahead() {
    let (ids, next) = tokens(6, 11);
    for model in [gpt(), llama()] {
        let network = expand(&Model::Gpt(model), &ids, &next);
        let parameters = moved(&network);
        let buffers = Buffers::initial(&network, &Device::flex());
        let scores = |ids: [i32; 6]| {
            let input = Input::Tokens { ids: ids.to_vec() };
            let forward = network.forward(&parameters, &buffers, &input, Mode::Evaluate);
            ops::download(flat(forward.output)).unwrap()
        };
        let (a, b) = (scores([1, 2, 3, 4, 5, 6]), scores([1, 2, 3, 9, 5, 6]));
        assert_eq!(a[..3 * 11], b[..3 * 11]);
        assert_ne!(a[3 * 11..4 * 11], b[3 * 11..4 * 11]);
        assert_ne!(a[5 * 11..], b[5 * 11..]);
    }
}

#[test]
fn the_layer_that_went_wrong_is_named() {
    for (model, input, target, parameter, layer) in [
        (
            Model::Gpt(llama()),
            tokens(6, 11).0,
            tokens(6, 11).1,
            "model.layers.1.mlp.up_proj.weight",
            "model.layers.1.mlp",
        ),
        (
            resnet(8, Stem::Cifar, 4),
            image(1, 8),
            classes(3),
            "layer2.0.conv2.weight",
            "layer2.0.conv2",
        ),
        (
            mlp(&[4, 4], Norm::None, 0.0),
            table(),
            classes(3),
            "output.bias",
            "output",
        ),
    ] {
        let network = expand(&model, &input, &target);
        let buffers = Buffers::initial(&network, &Device::flex());
        let healthy = moved(&network);
        let input = batch(&input, 2, 2);
        for mode in [TRAIN, Mode::Evaluate] {
            assert_eq!(
                network.first_non_finite(&healthy, &buffers, &input, mode),
                None
            );
        }
        let mut values = ops::download(healthy.flat()).unwrap();
        let spec = network
            .parameters()
            .iter()
            .find(|spec| spec.name == parameter)
            .unwrap();
        values[spec.range.start] = f32::NAN;
        let broken = Parameters::from_flat(&network, ops::upload(values, &Device::flex()));
        let found = network.first_non_finite(&broken, &buffers, &input, TRAIN);
        assert_eq!(found.as_deref(), Some(layer));
    }
    let network = expand(&mlp(&[4], Norm::None, 0.0), &table(), &classes(3));
    let input = Input::Table {
        numeric: vec![0.0, f32::INFINITY, 0.0],
        categorical: vec![0, 1],
    };
    let buffers = Buffers::initial(&network, &Device::flex());
    let found = network.first_non_finite(&moved(&network), &buffers, &input, TRAIN);
    assert_eq!(found.as_deref(), Some("input"));
}
