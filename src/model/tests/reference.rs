//! Every layer against values that PyTorch computed in 64 bits: `tests/fixtures/torch`.

use burn::tensor::{Device, Tensor, TensorData};
use serde_json::Value as Json;

use crate::config::Activation;
use crate::data::InputShape;
use crate::model::chain::{Chain, Window};
use crate::model::forward::Pass;
use crate::model::network::OutputKind;
use crate::model::parameter::{Initial, Registry, Role};
use crate::model::value::Value;
use crate::model::weights::LinearInitial;
use crate::model::{Buffers, Mode, ModelError, Network, Parameters, Shape};
use crate::ops;

const NORMS: &str = include_str!("../../../tests/fixtures/torch/norms.json");
const CONVOLUTIONS: &str = include_str!("../../../tests/fixtures/torch/convolutions.json");
const ACTIVATIONS: &str = include_str!("../../../tests/fixtures/torch/activations.json");
const ATTENTION: &str = include_str!("../../../tests/fixtures/torch/attention.json");
const ROTARY: &str = include_str!("../../../tests/fixtures/torch/rotary.json");

/// Largest difference, relative to the largest value of the tensor.
const TOLERANCE: f64 = 1e-5;

fn cases(text: &str) -> Vec<Json> {
    let file: Json = serde_json::from_str(text).unwrap();
    file["cases"].as_array().unwrap().clone()
}

fn numbers(json: &Json) -> Vec<f64> {
    let list = json.get("data").unwrap_or(json).as_array().unwrap();
    list.iter().map(|value| value.as_f64().unwrap()).collect()
}

fn floats(json: &Json) -> Vec<f32> {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the file holds 32-bit values"
    )]
    numbers(json)
        .into_iter()
        .map(|value| value as f32)
        .collect()
}

fn dims(json: &Json) -> Vec<usize> {
    let list = json["shape"].as_array().unwrap();
    let sizes = list
        .iter()
        .map(|size| usize::try_from(size.as_u64().unwrap()).unwrap());
    sizes.collect()
}

fn size(json: &Json) -> usize {
    usize::try_from(json.as_u64().unwrap()).unwrap()
}

fn tensor<const D: usize>(json: &Json) -> Tensor<D> {
    let dims: [usize; D] = dims(json).try_into().unwrap();
    tracked(TensorData::new(floats(json), dims))
}

fn tracked<const D: usize>(data: TensorData) -> Tensor<D> {
    Tensor::from_data(data, &Device::flex().autodiff()).require_grad()
}

fn close<const D: usize>(case: &str, what: &str, got: Tensor<D>, expected: &Json) {
    let got = ops::download(got.without_autodiff()).unwrap();
    let expected = numbers(expected);
    assert_eq!(got.len(), expected.len(), "{case}: {what}");
    let largest = expected.iter().fold(1e-3f64, |a, b| a.max(b.abs()));
    for (index, (got, expected)) in got.iter().zip(&expected).enumerate() {
        let difference = (f64::from(*got) - expected).abs();
        assert!(
            difference <= TOLERANCE * largest,
            "{case}: {what}[{index}] is {got}, not {expected}"
        );
    }
}

/// A network of what `build` appends, for inputs of this shape.
fn network(input: Shape, build: impl FnOnce(&mut Chain<'_>) -> Result<(), ModelError>) -> Network {
    let mut registry = Registry::default();
    let mut chain = Chain::new(&mut registry, "", input);
    build(&mut chain).unwrap();
    let layers = chain.finish();
    let (parameters, buffers, decay_count) = registry.finish();
    let mut flat_order: Vec<usize> = (0..parameters.len()).collect();
    flat_order.sort_by_key(|&index| parameters[index].range.start);
    Network {
        input: InputShape::Tokens {
            length: 1,
            vocabulary: 1,
        },
        layers,
        parameters,
        buffers,
        decay_count,
        flat_order,
        output: OutputKind::Values,
    }
}

/// The case's weight and bias as parameters of the network.
fn given(network: &Network, case: &Json) -> Parameters {
    let mut flat = vec![0f32; network.parameter_count()];
    for spec in network.parameters() {
        let part = spec.name.rsplit('.').next().unwrap();
        flat[spec.range.clone()].copy_from_slice(&floats(&case[part]));
    }
    Parameters::from_flat(network, ops::upload(flat, &Device::flex()))
}

/// Input of a case as a tracked value, with the shape of one sample.
enum Given {
    Features(Tensor<2>),
    Sequence(Tensor<3>),
    Map(Tensor<4>),
}

impl Given {
    fn of(input: &Json) -> Self {
        match dims(input).len() {
            2 => Given::Features(tensor(input)),
            3 => Given::Sequence(tensor(input)),
            _ => Given::Map(tensor(input)),
        }
    }

    fn shape(&self) -> Shape {
        match self {
            Given::Features(x) => Shape::Features(x.dims()[1]),
            Given::Sequence(x) => Shape::Sequence {
                length: x.dims()[1],
                width: x.dims()[2],
            },
            Given::Map(x) => Shape::Map {
                channels: x.dims()[1],
                height: x.dims()[2],
                width: x.dims()[3],
            },
        }
    }

    fn value(&self) -> Value {
        match self {
            Given::Features(x) => Value::Features(x.clone()),
            Given::Sequence(x) => Value::Sequence(x.clone()),
            Given::Map(x) => Value::Map(x.clone()),
        }
    }

    fn gradient(&self, gradients: &burn::tensor::Gradients) -> Tensor<1> {
        match self {
            Given::Features(x) => x.grad(gradients).unwrap().flatten(0, 1),
            Given::Sequence(x) => x.grad(gradients).unwrap().flatten(0, 2),
            Given::Map(x) => x.grad(gradients).unwrap().flatten(0, 3),
        }
    }
}

/// Checks output and gradients of one layer; returns what evaluation needs.
fn check_layer(
    case: &Json,
    build: impl FnOnce(&mut Chain<'_>) -> Result<(), ModelError>,
) -> (Network, Parameters) {
    let name = case["name"].as_str().unwrap();
    let expected = &case["float64"];
    let input = Given::of(&case["input"]);
    let network = network(input.shape(), build);
    let parameters = given(&network, case);
    let buffers = Buffers::initial(&network, &Device::flex());
    let mode = Mode::Train { dropout_seed: 1 };
    let mut pass = Pass::new(&parameters, &buffers, mode, false);
    let output = pass.run_all(network.layers(), input.value()).features();
    close(name, "output", output.clone(), &expected["output"]);
    let [n, width] = output.dims();
    let upstream = TensorData::new(floats(&case["upstream"]), [n, width]);
    let upstream = Tensor::<2>::from_data(upstream, &Device::flex());
    let gradients = (output * upstream).sum().backward();
    close(
        name,
        "gradient of the input",
        input.gradient(&gradients),
        &expected["gradient_input"],
    );
    if network.parameters().is_empty() {
        return (network, parameters);
    }
    let flat = parameters.gradient(&network, gradients);
    for spec in network.parameters() {
        let part = spec.name.rsplit('.').next().unwrap();
        let gradient = ops::part(&flat, spec.range.clone());
        close(
            name,
            &spec.name,
            gradient,
            &expected[format!("gradient_{part}").as_str()],
        );
    }
    (network, parameters)
}

fn window(case: &Json) -> Window {
    Window {
        kernel: size(&case["kernel"]),
        stride: size(&case["stride"]),
        padding: size(&case["padding"]),
    }
}

#[test]
fn convolutions_pools_and_linear_layers() {
    let mut checked = 0;
    for case in cases(CONVOLUTIONS) {
        let bias = case.get("bias").is_some();
        let outputs = case.get("weight").map_or(0, |weight| dims(weight)[0]);
        let build = |chain: &mut Chain<'_>| {
            match case["layer"].as_str().unwrap() {
                "conv2d" => drop(chain.conv2d("x", outputs, window(&case), bias, Role::Edge)?),
                "max_pool2d" => drop(chain.pool("x", false, window(&case))?),
                "avg_pool2d" => drop(chain.pool("x", true, window(&case))?),
                "global_avg_pool" => drop(chain.global_avg_pool("x")?),
                _ => drop(chain.linear("x", outputs, bias, LinearInitial::Uniform, Role::Edge)?),
            }
            Ok(())
        };
        // Padding is never counted here.
        if case["counts_padding"] == true && size(&case["padding"]) > 0 {
            continue;
        }
        check_layer(&case, build);
        checked += 1;
    }
    assert_eq!(checked, 10);
}

#[test]
fn normalisations() {
    let mut checked = 0;
    for case in cases(NORMS) {
        if (case["epsilon"].as_f64().unwrap() - ops::EPSILON).abs() > 1e-12 {
            continue;
        }
        let rms = case["layer"] == "rms_norm";
        if case["layer"] == "batch_norm" {
            check_batch_norm(&case);
        } else {
            check_layer(&case, |chain| chain.norm("x", rms, !rms).map(drop));
        }
        checked += 1;
    }
    assert_eq!(checked, 6);
}

fn check_batch_norm(case: &Json) {
    let name = case["name"].as_str().unwrap();
    let (network, parameters) =
        check_layer(case, |chain| chain.batch_norm("x", Initial::Ones).map(drop));
    let mut buffers = Buffers::initial(&network, &Device::flex());
    let expected = &case["float64"];
    for (step, input) in ["input", "second_input"].into_iter().enumerate() {
        let mode = Mode::Train { dropout_seed: 1 };
        let mut pass = Pass::new(&parameters, &buffers, mode, false);
        pass.run_all(network.layers(), Given::of(&case[input]).value());
        let statistics = pass.finish().unwrap();
        buffers.update(statistics);
        let running = &expected["running_after_step"][step];
        let mean = buffers.part(&network.buffers()[0].range).unwrap();
        let variance = buffers.part(&network.buffers()[1].range).unwrap();
        close(name, "running mean", mean, &running["mean"]);
        close(name, "running variance", variance, &running["var"]);
    }
    let mut pass = Pass::new(&parameters, &buffers, Mode::Evaluate, false);
    let input = Given::of(&case["input"]).value();
    let output = pass.run_all(network.layers(), input).features();
    close(name, "evaluated", output, &expected["evaluated"]);
}

#[test]
fn activations() {
    for case in cases(ACTIVATIONS) {
        let function = match case["name"].as_str().unwrap() {
            "relu" => Activation::Relu,
            "gelu" => Activation::Gelu,
            "silu" => Activation::Silu,
            "tanh" => Activation::Tanh,
            _ => Activation::Sigmoid,
        };
        let mut case = case.clone();
        let length = case["input"]["shape"][0].clone();
        case["input"]["shape"] = serde_json::json!([1, length]);
        check_layer(&case, |chain| chain.activation("x", function).map(drop));
    }
}

#[test]
fn attention() {
    for case in cases(ATTENTION) {
        let name = case["name"].as_str().unwrap();
        let expected = &case["float64"];
        let [query, key, value] = ["query", "key", "value"].map(|part| tensor::<4>(&case[part]));
        let [n, heads, length, width] = query.dims();
        let kv_heads = key.dims()[1];
        let joined = |x: &Tensor<4>| {
            let heads = x.dims()[1];
            x.clone()
                .swap_dims(1, 2)
                .reshape([n * length, heads * width])
        };
        let shape = ops::Heads {
            length,
            heads,
            kv_heads,
            width,
        };
        let [q, k, v] = [&query, &key, &value].map(joined);
        let output: Tensor<4> = ops::causal_attention(q, k, v, shape, None)
            .reshape([n, length, heads, width])
            .swap_dims(1, 2);
        close(name, "output", output.clone(), &expected["output"]);
        let upstream = TensorData::new(floats(&case["upstream"]), output.dims());
        let upstream = Tensor::<4>::from_data(upstream, &Device::flex());
        let gradients = (output * upstream).sum().backward();
        for (part, tensor) in [("query", query), ("key", key), ("value", value)] {
            let gradient = tensor.grad(&gradients).unwrap();
            close(
                name,
                part,
                gradient,
                &expected[format!("gradient_{part}").as_str()],
            );
        }
    }
}

#[test]
fn rotary_positions() {
    for case in cases(ROTARY) {
        let name = case["name"].as_str().unwrap();
        let x = tensor::<4>(&case["input"]);
        let [n, heads, length, width] = x.dims();
        let base = case["base"].as_f64().unwrap();
        let rows = x.clone().swap_dims(1, 2);
        let rows = rows.reshape([n * length, heads * width]);
        let turned = ops::Rotation::new(length, width, base).rotate(rows);
        let output: Tensor<4> = turned.reshape([n, length, heads, width]).swap_dims(1, 2);
        close(name, "output", output.clone(), &case["float64"]["output"]);
        let upstream = TensorData::new(floats(&case["upstream"]), output.dims());
        let upstream = Tensor::<4>::from_data(upstream, &Device::flex());
        let gradients = (output * upstream).sum().backward();
        let gradient = x.grad(&gradients).unwrap();
        close(
            name,
            "gradient",
            gradient,
            &case["float64"]["gradient_input"],
        );
    }
}
