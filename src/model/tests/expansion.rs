//! Names, sizes and tables.

use super::*;
use crate::model::{Initial, Shape, layer_table, memory_table};

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
    let query = std(initial("model.layers.0.self_attn.q_proj.weight"));
    assert!((query - 0.02).abs() < 1e-12);
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
