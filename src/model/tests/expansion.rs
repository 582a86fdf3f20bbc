//! Names, sizes and mistakes.

use proptest::prelude::*;

use super::*;
use crate::model::{Initial, ModelError, Shape, layer_table, memory_table};
use crate::run::{Fault, FaultClass};

fn names(network: &Network) -> Vec<&str> {
    network
        .parameters()
        .iter()
        .map(|p| p.name.as_str())
        .collect()
}

#[test]
fn known_models_have_their_known_sizes() {
    let count = |model: &Model, input: &InputShape, target: &TargetShape| {
        expand(model, input, target).parameter_count()
    };
    let cifar = image(3, 32);
    // 269,722 of the paper's parameter-free shortcuts, and two 1x1 projections with their norms.
    let projections = 16 * 32 + 2 * 32 + 32 * 64 + 2 * 64;
    let resnet20 = resnet(20, Stem::Cifar, 0);
    assert_eq!(
        count(&resnet20, &cifar, &classes(10)),
        269_722 + projections
    );
    // torchvision's numbers.
    let imagenet = image(3, 224);
    for (depth, size) in [(18, 11_689_512), (34, 21_797_672), (50, 25_557_032)] {
        let model = resnet(depth, Stem::Imagenet, 0);
        assert_eq!(
            count(&model, &imagenet, &classes(1000)),
            size,
            "resnet {depth}"
        );
    }
    let gpt2 = Model::Gpt(Gpt {
        layers: 12,
        width: 768,
        heads: 12,
        kv_heads: 12,
        ..gpt()
    });
    let (input, target) = tokens(1024, 50_257);
    assert_eq!(count(&gpt2, &input, &target), 124_439_808);
    // TinyLlama 1.1B: grouped-query attention, SwiGLU, untied.
    let tiny_llama = Model::Gpt(Gpt {
        layers: 22,
        width: 2048,
        heads: 32,
        kv_heads: 4,
        feed_forward: 5632,
        ..llama()
    });
    let (input, target) = tokens(2048, 32_000);
    assert_eq!(count(&tiny_llama, &input, &target), 1_100_048_384);
}

#[test]
fn names_are_those_of_the_families() {
    let network = expand(&resnet(8, Stem::Cifar, 0), &image(1, 28), &classes(10));
    let names_of = names(&network);
    for name in [
        "conv1.weight",
        "bn1.weight",
        "layer1.0.conv1.weight",
        "layer2.0.bn2.bias",
        "layer2.0.downsample.0.weight",
        "layer2.0.downsample.1.weight",
        "fc.weight",
        "fc.bias",
    ] {
        assert!(names_of.contains(&name), "{name} is not in {names_of:?}");
    }
    assert_eq!(network.buffers()[0].name, "bn1.running_mean");
    assert_eq!(network.buffers()[1].name, "bn1.running_var");

    let (input, target) = tokens(8, 11);
    let network = expand(&Model::Gpt(llama()), &input, &target);
    let first_block: Vec<&str> = names(&network).into_iter().skip(1).take(9).collect();
    assert_eq!(
        first_block,
        [
            "model.layers.0.input_layernorm.weight",
            "model.layers.0.self_attn.q_proj.weight",
            "model.layers.0.self_attn.k_proj.weight",
            "model.layers.0.self_attn.v_proj.weight",
            "model.layers.0.self_attn.o_proj.weight",
            "model.layers.0.post_attention_layernorm.weight",
            "model.layers.0.mlp.gate_proj.weight",
            "model.layers.0.mlp.up_proj.weight",
            "model.layers.0.mlp.down_proj.weight",
        ]
    );
    assert_eq!(names(&network).last(), Some(&"lm_head.weight"));

    let network = expand(&mlp(&[8], Norm::Batch, 0.1), &table(), &classes(2));
    assert_eq!(
        names(&network),
        [
            "embeddings.0.weight",
            "embeddings.1.weight",
            "hidden.0.linear.weight",
            "hidden.0.linear.bias",
            "hidden.0.norm.weight",
            "hidden.0.norm.bias",
            "output.weight",
            "output.bias",
        ]
    );
    // min(50, (5 + 1) / 2) and min(50, (2 + 1) / 2), beside three numbers.
    assert_eq!(network.parameters()[0].shape, [5, 3]);
    assert_eq!(network.parameters()[1].shape, [2, 1]);
    assert_eq!(network.parameters()[2].shape, [8, 7]);
}

#[test]
fn the_flat_vector_has_decaying_parameters_first() {
    let (input, target) = tokens(8, 11);
    for network in [
        expand(&Model::Gpt(gpt()), &input, &target),
        expand(&mlp(&[8, 4], Norm::Layer, 0.0), &table(), &classes(2)),
        expand(&resnet(8, Stem::Cifar, 4), &image(1, 8), &classes(3)),
    ] {
        let mut covered = vec![0; network.parameter_count()];
        for spec in network.parameters() {
            assert_eq!(spec.range.len(), spec.shape.iter().product::<usize>());
            assert_eq!(spec.decay, spec.shape.len() > 1, "{}", spec.name);
            assert_eq!(
                spec.decay,
                spec.range.end <= network.decay_count(),
                "{}",
                spec.name
            );
            for index in spec.range.clone() {
                covered[index] += 1;
            }
            for index in [spec.range.start, spec.range.end - 1] {
                assert_eq!(network.parameter_at(index).unwrap().name, spec.name);
            }
        }
        assert!(covered.iter().all(|&times| times == 1));
        assert!(network.parameter_at(covered.len()).is_none());
        let summed: u64 = network.summary().iter().map(|row| row.parameters).sum();
        assert_eq!(summed, u64::try_from(covered.len()).unwrap());
    }
}

#[test]
fn muon_takes_hidden_matrices_only() {
    let hidden = |network: &Network| -> Vec<String> {
        let specs = network
            .parameters()
            .iter()
            .filter(|spec| spec.hidden_matrix);
        specs.map(|spec| spec.name.clone()).collect()
    };
    let network = expand(&mlp(&[8, 4], Norm::None, 0.0), &table(), &classes(2));
    assert_eq!(hidden(&network), ["hidden.1.linear.weight"]);
    let network = expand(&resnet(8, Stem::Cifar, 0), &image(1, 28), &classes(10));
    let convolutions = hidden(&network);
    assert_eq!(convolutions.len(), 8, "{convolutions:?}");
    assert!(!convolutions.contains(&"conv1.weight".to_owned()));
    let (input, target) = tokens(8, 11);
    let network = expand(&Model::Gpt(llama()), &input, &target);
    assert_eq!(hidden(&network).len(), 2 * 7);
}

fn conv(out: u32, kernel: u32, stride: u32, padding: u32) -> LayerConfig {
    LayerConfig::Conv2d {
        out,
        kernel,
        stride,
        padding,
        bias: true,
    }
}

fn linear(out: u32) -> LayerConfig {
    LayerConfig::Linear { out, bias: true }
}

#[test]
fn shape_mistakes_name_the_layer() {
    let (ids, next) = tokens(8, 11);
    let block = |heads| LayerConfig::TransformerBlock {
        heads,
        feed_forward: 8,
        dropout: 0.0,
    };
    let embedding = LayerConfig::Embedding { width: 6 };
    let pool = |padding| LayerConfig::MaxPool2d {
        kernel: 2,
        stride: 2,
        padding,
    };
    for (layers, input, target, expected) in [
        (
            vec![
                conv(4, 3, 2, 0),
                conv(4, 2, 2, 0),
                LayerConfig::BatchNorm,
                conv(8, 5, 1, 0),
            ],
            image(1, 17),
            classes(2),
            "layers.3 (Conv2d): kernel 5 is larger than its 4x4 input",
        ),
        (
            vec![conv(4, 9, 1, 1)],
            image(1, 4),
            classes(2),
            "layers.0 (Conv2d): kernel 9 is larger than its 4x4 input with 1 of padding on each side",
        ),
        (
            vec![conv(4, 3, 0, 0)],
            image(1, 4),
            classes(2),
            "layers.0 (Conv2d): kernel and stride must be at least 1",
        ),
        (
            vec![conv(4, 3, 1, 3)],
            image(1, 4),
            classes(2),
            "layers.0 (Conv2d): padding 3 is not smaller than kernel 3",
        ),
        (
            vec![pool(2)],
            image(1, 4),
            classes(2),
            "layers.0 (MaxPool2d): padding 2 is more than half of kernel 2",
        ),
        (
            vec![linear(0)],
            image(1, 4),
            classes(2),
            "layers.0 (Linear): needs features or a sequence (add `flatten` before it), but its \
             input is a 1x4x4 image",
        ),
        (
            vec![linear(0), linear(0)],
            table(),
            classes(2),
            "layers.0 (Linear): out = 0 is allowed on the last layer only",
        ),
        (
            vec![linear(5)],
            table(),
            classes(3),
            "layers.0 (Linear): the last layer gives 5 features, but the target needs 3 features \
             (one score for each of 3 classes)",
        ),
        (
            vec![LayerConfig::Flatten],
            image(2, 3),
            classes(3),
            "layers.0 (Flatten): the last layer gives 18 features, but the target needs 3 features \
             (one score for each of 3 classes); end with a linear layer with `out = 0`",
        ),
        (
            vec![conv(4, 3, 1, 0)],
            table(),
            classes(2),
            "layers.0 (Conv2d): needs an image, but its input is 7 features",
        ),
        (
            vec![embedding.clone(), block(4), linear(0)],
            ids.clone(),
            next.clone(),
            "layers.1 (TransformerBlock): width 6 is not a multiple of 4 heads",
        ),
        (
            vec![block(1)],
            image(1, 4),
            classes(2),
            "layers.0 (TransformerBlock): needs a sequence, but its input is a 1x4x4 image",
        ),
        (
            vec![LayerConfig::Dropout { p: 1.0 }],
            table(),
            classes(2),
            "layers.0 (Dropout): p = 1 is not in 0 to below 1",
        ),
        (
            vec![embedding.clone(), LayerConfig::GlobalAvgPool, linear(0)],
            ids.clone(),
            next.clone(),
            "layers.2 (Linear): the last layer gives 11 features, but the target needs a 8x11 \
             sequence (one score for each of 11 tokens)",
        ),
        (
            vec![LayerConfig::ResidualBlock { out: 4, stride: 0 }],
            image(1, 4),
            classes(2),
            "layers.0.conv1 (Conv2d): kernel and stride must be at least 1",
        ),
    ] {
        let error = Network::expand(&list(layers), &input, &target).unwrap_err();
        assert_eq!(error.to_string(), expected);
        let fault = Fault::from(error);
        assert_eq!(fault.class, FaultClass::Usage);
        assert!(fault.layer.is_some() && !fault.advice.is_empty());
    }
}

#[test]
fn models_that_do_not_fit_their_data_are_refused() {
    let (ids, next) = tokens(8, 11);
    let gpt = |change: &dyn Fn(&mut Gpt)| {
        let mut config = gpt();
        change(&mut config);
        Model::Gpt(config)
    };
    for (model, input, target, expected) in [
        (
            mlp(&[4], Norm::None, 0.0),
            ids.clone(),
            next.clone(),
            "an mlp takes rows",
        ),
        (
            resnet(20, Stem::Cifar, 0),
            table(),
            classes(2),
            "a resnet takes images",
        ),
        (
            resnet(21, Stem::Cifar, 0),
            image(3, 8),
            classes(2),
            "depth of 6n + 2, not 21",
        ),
        (
            resnet(2, Stem::Cifar, 0),
            image(3, 8),
            classes(2),
            "depth of 6n + 2, not 2",
        ),
        (
            resnet(20, Stem::Imagenet, 0),
            image(3, 64),
            classes(2),
            "no resnet with depth 20",
        ),
        (gpt(&|_| ()), image(3, 8), classes(2), "a gpt takes tokens"),
        (
            gpt(&|c| c.heads = 5),
            ids.clone(),
            next.clone(),
            "not a multiple of 5 heads",
        ),
        (
            gpt(&|c| c.kv_heads = 3),
            ids.clone(),
            next.clone(),
            "not a multiple of 3 kv_heads",
        ),
        (
            gpt(&|c| c.norm = Norm::Batch),
            ids.clone(),
            next.clone(),
            "`layer` or `rms`",
        ),
        (
            gpt(&|c| c.layers = 20_000),
            ids.clone(),
            next.clone(),
            "more than 10000 layers",
        ),
        (
            gpt(&|c| c.width = u32::MAX - 3),
            ids.clone(),
            next.clone(),
            "parameters",
        ),
        (
            gpt(&|c| {
                c.width = 12;
                c.position = Position::Rotary;
            }),
            ids.clone(),
            next.clone(),
            "even head width, not 3",
        ),
        (list(Vec::new()), table(), classes(2), "no layers"),
        (
            list(vec![LayerConfig::Flatten]),
            image(1, 2),
            classes(4),
            "anything to train",
        ),
        (
            mlp(&[4], Norm::None, 0.0),
            table(),
            classes(0),
            "no columns",
        ),
        (
            mlp(&[0], Norm::None, 0.0),
            table(),
            classes(2),
            "its output would be 0 features",
        ),
    ] {
        let error = Network::expand(&model, &input, &target).unwrap_err();
        assert!(
            error.to_string().contains(expected),
            "{error} has no {expected:?}"
        );
        assert_eq!(Fault::from(error).class, FaultClass::Usage);
    }
}

#[test]
fn regressions_give_one_number() {
    let target = TargetShape::Value {
        mean: 0.0,
        std: 1.0,
    };
    let network = expand(&mlp(&[4], Norm::None, 0.0), &table(), &target);
    assert_eq!(network.layers().last().unwrap().output, Shape::Features(1));
}

#[test]
fn initial_values_have_the_deviations_of_their_sources() {
    let (input, target) = tokens(8, 11);
    let network = expand(&Model::Gpt(gpt()), &input, &target);
    let initial = |name: &str| {
        let spec = network.parameters().iter().find(|spec| spec.name == name);
        spec.unwrap().initial
    };
    let std = |initial| match initial {
        Initial::Normal { std } => std,
        other => panic!("{other:?}"),
    };
    assert_eq!(std(initial("model.layers.0.self_attn.q_proj.weight")), 0.02);
    let residual = std(initial("model.layers.1.mlp.down_proj.weight"));
    assert!(
        (residual - 0.01).abs() < 1e-12,
        "0.02 / sqrt(2 x 2 layers), not {residual}"
    );
    let network = expand(&resnet(8, Stem::Cifar, 0), &image(1, 28), &classes(10));
    let zero = network
        .parameters()
        .iter()
        .filter(|spec| spec.initial == Initial::Zeros);
    let gains: Vec<&str> = zero
        .map(|spec| spec.name.as_str())
        .filter(|name| name.ends_with("weight"))
        .collect();
    assert_eq!(
        gains,
        [
            "layer1.0.bn2.weight",
            "layer2.0.bn2.weight",
            "layer3.0.bn2.weight"
        ]
    );
}

#[test]
fn tables_show_layers_and_memory() {
    let network = expand(&mlp(&[1000], Norm::None, 0.5), &table(), &classes(2));
    let table = layer_table(&network.summary());
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[0].starts_with("layer") && lines[0].ends_with("parameters"));
    assert!(
        lines[2].contains("Linear(7 -> 1000)") && lines[2].ends_with("8,000"),
        "{table}"
    );
    assert!(lines.last().unwrap().starts_with("total"), "{table}");
    assert!(lines.last().unwrap().ends_with("10,019"), "{table}");
    let optimizer = crate::config::Optimizer::Adamw {
        learning_rate: 1e-3,
        betas: [0.9, 0.999],
        epsilon: 1e-8,
        weight_decay: 0.0,
    };
    let estimate = network.memory(&optimizer, 64, 8);
    assert_eq!(estimate.parameters, 4 * 10_019);
    assert_eq!(estimate.optimizer, 8 * 10_019);
    assert_eq!(estimate.gradients, 4 * 4 * 10_019);
    assert!(memory_table(&estimate).contains("activations of a shard"));
}

proptest! {
    /// Any free list of convolutions and pools either expands, with sizes that follow the
    /// arithmetic of windows, or fails naming one of its layers. Never a panic.
    #[test]
    fn odd_sizes_expand_or_name_a_layer(
        side in 1usize..20,
        windows in prop::collection::vec((0u32..6, 0u32..4, 0u32..4, any::<bool>()), 1..5),
    ) {
        let mut layers: Vec<LayerConfig> = windows.iter().map(|&(kernel, stride, padding, pool)| {
            if pool {
                LayerConfig::AvgPool2d { kernel, stride, padding }
            } else {
                conv(3, kernel, stride, padding)
            }
        }).collect();
        layers.push(LayerConfig::GlobalAvgPool);
        layers.push(linear(0));
        match Network::expand(&list(layers), &image(2, side), &classes(4)) {
            Ok(network) => {
                let mut expected = side;
                for (layer, &(kernel, stride, padding, _)) in network.layers().iter().zip(&windows) {
                    let [kernel, stride, padding] =
                        [kernel, stride, padding].map(|n| usize::try_from(n).unwrap());
                    expected = (expected + 2 * padding - kernel) / stride + 1;
                    prop_assert_eq!(&layer.output.dims()[1..], &[expected, expected]);
                }
            }
            Err(ModelError::Layer { layer, .. }) => prop_assert!(layer.starts_with("layers.")),
            Err(other) => prop_assert!(false, "{other}"),
        }
    }
}
