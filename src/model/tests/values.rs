//! Initial values, and parameters as bytes.

use burn::tensor::Device;

use super::*;
use crate::checkpoint::{DType, TensorBytes};
use crate::model::{Buffers, ModelError, Parameters};
use crate::ops;
use crate::run::{Fault, FaultClass};

fn values_of(network: &Network, seed: u64, name: &str) -> Vec<f32> {
    let parameters = Parameters::initial(network, seed, &Device::flex());
    let values = ops::download(parameters.flat()).unwrap();
    let spec = network
        .parameters()
        .iter()
        .find(|spec| spec.name == name)
        .unwrap();
    values[spec.range.clone()].to_vec()
}

#[test]
fn initial_values_depend_on_seed_and_name_alone() {
    let small = expand(&mlp(&[6], Norm::None, 0.0), &table(), &classes(2));
    let large = expand(&mlp(&[6, 9, 4], Norm::Layer, 0.5), &table(), &classes(5));
    let name = "hidden.0.linear.weight";
    assert_eq!(values_of(&small, 1, name), values_of(&large, 1, name));
    assert_ne!(values_of(&small, 1, name), values_of(&small, 2, name));
    assert_ne!(
        values_of(&large, 1, "hidden.1.linear.bias")[..4],
        values_of(&large, 1, "hidden.2.linear.bias")[..4]
    );
    for threads in [1, 2, 4] {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap();
        let again = pool.install(|| values_of(&large, 1, name));
        assert_eq!(again, values_of(&large, 1, name));
    }
}

#[test]
fn initial_values_have_the_spread_they_should() {
    let network = expand(&mlp(&[400], Norm::Layer, 0.0), &image(1, 20), &classes(2));
    let weight = values_of(&network, 1, "hidden.0.linear.weight");
    let bound = 1.0 / 400f32.sqrt();
    assert!(weight.iter().all(|value| value.abs() <= bound));
    let mean_square = ops::squared_norm_of(&weight) / 160_000.0;
    let expected = f64::from(bound) * f64::from(bound) / 3.0;
    assert!(
        (mean_square / expected - 1.0).abs() < 0.02,
        "{mean_square} {expected}"
    );
    assert!(
        values_of(&network, 1, "hidden.0.norm.weight")
            .iter()
            .all(|v| v.to_bits() == 1f32.to_bits())
    );
    assert!(
        values_of(&network, 1, "hidden.0.norm.bias")
            .iter()
            .all(|v| v.to_bits() == 0f32.to_bits())
    );

    let network = expand(&resnet(20, Stem::Cifar, 64), &image(3, 8), &classes(2));
    let kernel = values_of(&network, 1, "layer3.1.conv1.weight");
    let mean_square = ops::squared_norm_of(&kernel) / (256.0 * 256.0 * 9.0);
    let expected = 2.0 / (9.0 * 256.0);
    assert!(
        (mean_square / expected - 1.0).abs() < 0.02,
        "{mean_square} {expected}"
    );
}

#[test]
fn bytes_come_back_bit_for_bit() {
    let network = expand(&resnet(8, Stem::Cifar, 4), &image(1, 8), &classes(3));
    let device = Device::flex();
    let parameters = Parameters::initial(&network, 9, &device);
    let buffers = Buffers::initial(&network, &device);
    let mut tensors = parameters.to_bytes(&network).unwrap();
    tensors.extend(buffers.to_bytes(&network).unwrap());
    assert_eq!(
        tensors.len(),
        network.parameters().len() + network.buffers().len()
    );
    assert_eq!(tensors[0].name, "conv1.weight");
    assert_eq!(tensors[0].shape, [4, 1, 3, 3]);
    tensors.reverse();
    let again = Parameters::from_bytes(&network, &tensors, &device).unwrap();
    assert_eq!(
        again.to_bytes(&network).unwrap(),
        parameters.to_bytes(&network).unwrap()
    );
    let again = Buffers::from_bytes(&network, &tensors, &device).unwrap();
    assert_eq!(
        again.to_bytes(&network).unwrap(),
        buffers.to_bytes(&network).unwrap()
    );
}

#[test]
fn wrong_bytes_are_listed_all_at_once() {
    let network = expand(&mlp(&[4], Norm::Batch, 0.0), &image(1, 2), &classes(3));
    let device = Device::flex();
    let mut tensors = Parameters::initial(&network, 9, &device)
        .to_bytes(&network)
        .unwrap();
    tensors.extend(
        Buffers::initial(&network, &device)
            .to_bytes(&network)
            .unwrap(),
    );
    let find = |name: &str| {
        tensors
            .iter()
            .position(|tensor| tensor.name == name)
            .unwrap()
    };
    let (weight, bias) = (find("output.weight"), find("output.bias"));
    let (gain, linear) = (find("hidden.0.norm.weight"), find("hidden.0.linear.bias"));
    tensors[weight].shape = vec![4, 3];
    tensors[bias].dtype = DType::F16;
    tensors[gain].bytes.pop();
    tensors[linear].name = "strange".to_owned();
    let twice = tensors[weight].clone();
    tensors.push(twice);
    let error = Parameters::from_bytes(&network, &tensors, &device).unwrap_err();
    let ModelError::Tensors { problems, .. } = &error else {
        panic!("{error}")
    };
    assert_eq!(problems.len(), 6, "{error}");
    let text = error.to_string();
    for expected in [
        "output.weight is there twice",
        "output.weight has shape [4, 3], the model needs [3, 4]",
        "output.bias has type F16, the model needs F32",
        "hidden.0.norm.weight has 15 bytes, which is not its shape",
        "hidden.0.linear.bias [4] is missing",
        "strange is not part of the model",
    ] {
        assert!(text.contains(expected), "{text} has no {expected:?}");
    }
    assert_eq!(Fault::from(error).class, FaultClass::Damaged);
    let error = Buffers::from_bytes(&network, &[], &device).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("hidden.0.norm.running_mean [4] is missing")
    );
}

#[test]
fn long_lists_of_problems_are_cut() {
    let network = expand(&resnet(56, Stem::Cifar, 2), &image(1, 8), &classes(3));
    let error = Parameters::from_bytes(&network, &[], &Device::flex()).unwrap_err();
    let text = error.to_string();
    assert_eq!(text.lines().count(), 22, "{text}");
    assert!(text.ends_with("more"));
}

#[test]
fn models_without_statistics_have_no_buffers() {
    let network = expand(&mlp(&[4], Norm::None, 0.0), &image(1, 2), &classes(3));
    let buffers = Buffers::initial(&network, &Device::flex());
    assert!(buffers.flat().is_none());
    let tensors: Vec<TensorBytes> = buffers.to_bytes(&network).unwrap();
    assert!(tensors.is_empty());
}
