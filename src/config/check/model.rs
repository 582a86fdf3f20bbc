//! Contradictions within `[model]`, and with the kind of data.

use super::{Check, Parts};
use crate::config::data::{Data, Nature};
use crate::config::model::{Block, Gpt, Model, Position, Resnet, Stem};
use crate::config::optimizer::Optimizer;

pub(super) fn check(parts: &Parts, check: &mut Check<'_>) {
    if let (Some(model), Some(data)) = (&parts.model, &parts.data) {
        kinds(model, data, check);
    }
    match &parts.model {
        Some(Model::Gpt(gpt)) => attention(gpt, check),
        Some(Model::Resnet(resnet)) => depth(resnet, check),
        Some(Model::Mlp(_) | Model::Layers(_)) | None => {}
    }
    if let Some(Optimizer::Sgd {
        momentum,
        nesterov: true,
        ..
    }) = parts.optimizer
        && momentum == 0.0
    {
        check.refuse(
            "Nesterov momentum needs a momentum",
            &["optimizer.nesterov", "optimizer.momentum"],
            "set `optimizer.momentum` above 0, or `nesterov = false`",
        );
    }
}

/// Each family takes one kind of data; the mlp also takes images, flattened.
fn kinds(model: &Model, data: &Data, check: &mut Check<'_>) {
    let nature = data.nature();
    let (model, takes) = match (model, nature) {
        (Model::Mlp(_), Nature::Text) => ("an mlp", "tables or images"),
        (Model::Resnet(_), Nature::Table | Nature::Text) => ("a resnet", "images"),
        (Model::Gpt(_), Nature::Table | Nature::Images) => ("a gpt", "text"),
        (Model::Mlp(_) | Model::Resnet(_) | Model::Gpt(_) | Model::Layers(_), _) => return,
    };
    let (data, fitting) = match nature {
        Nature::Table => ("a table", "mlp"),
        Nature::Images => ("images", "resnet"),
        Nature::Text => ("text", "gpt"),
    };
    check.refuse(
        format!("{model} takes {takes}, and the data are {data}"),
        &["model.kind", "data.kind"],
        &format!("use `model.kind = \"{fitting}\"`, or other data"),
    );
}

fn attention(gpt: &Gpt, check: &mut Check<'_>) {
    if !gpt.width.is_multiple_of(gpt.heads) {
        let message = format!("{} heads do not divide a width of {}", gpt.heads, gpt.width);
        let help = "each head takes an equal share of the width";
        check.refuse(message, &["model.heads", "model.width"], help);
    } else if gpt.position == Position::Rotary && !(gpt.width / gpt.heads).is_multiple_of(2) {
        check.refuse(
            format!(
                "rotary positions turn pairs, and a head is {} wide",
                gpt.width / gpt.heads
            ),
            &["model.position", "model.heads", "model.width"],
            "choose `model.width / model.heads` even, or `position = \"learned\"`",
        );
    }
    if !gpt.heads.is_multiple_of(gpt.kv_heads) {
        check.refuse(
            format!(
                "{} key and value heads do not divide {} heads",
                gpt.kv_heads, gpt.heads
            ),
            &["model.kv_heads", "model.heads"],
            "each of them serves an equal share of the heads",
        );
    }
}

fn depth(resnet: &Resnet, check: &mut Check<'_>) {
    let depth = resnet.depth;
    let (fits, help) = match (resnet.stem, resnet.block) {
        (Stem::Cifar, Block::Auto | Block::Basic) => (
            depth % 6 == 2,
            "use 8, 14, 20, 32, 44, 56 or 110 (6n+2), or `stem = \"imagenet\"`",
        ),
        (Stem::Cifar, Block::Bottleneck) => {
            (depth % 9 == 2, "use 11, 20, 29, 38, 47, 56 or 110 (9n+2)")
        }
        (Stem::Imagenet, Block::Auto) => (matches!(depth, 18 | 34 | 50), "use 18, 34 or 50"),
        (Stem::Imagenet, Block::Basic) => (
            matches!(depth, 18 | 34),
            "use 18 or 34, or `block = \"bottleneck\"` with 50",
        ),
        (Stem::Imagenet, Block::Bottleneck) => {
            (depth == 50, "use 50, or `block = \"basic\"` with 18 or 34")
        }
    };
    if !fits {
        let message = format!("there is no resnet of depth {depth} with this stem and block");
        let paths = ["model.depth", "model.stem", "model.block"];
        check.refuse(message, &paths, help);
    }
}
