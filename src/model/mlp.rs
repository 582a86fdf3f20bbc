//! The `mlp` family: embeddings for categorical columns, hidden layers, output.

use super::ModelError;
use super::chain::{Chain, size};
use super::parameter::{Initial, Role};
use super::shape::Shape;
use super::weights::LinearInitial;
use crate::config::{Mlp, Norm};

/// Appends the whole network. `categories` are the vocabularies of the categorical columns.
pub(super) fn mlp(
    chain: &mut Chain<'_>,
    config: &Mlp,
    categories: &[usize],
    outputs: usize,
) -> Result<(), ModelError> {
    match chain.shape {
        Shape::Row { .. } => chain.columns("embeddings", categories, size(config.embedding))?,
        _ => chain.flatten("flatten")?,
    };
    for (index, &width) in config.hidden.iter().enumerate() {
        let role = if index == 0 { Role::Edge } else { Role::Hidden };
        let hidden = |part: &str| format!("hidden.{index}.{part}");
        chain.linear(
            &hidden("linear"),
            size(width),
            true,
            LinearInitial::Uniform,
            role,
        )?;
        match config.norm {
            Norm::None => {}
            Norm::Batch => drop(chain.batch_norm(&hidden("norm"), Initial::Ones)?),
            Norm::Layer => drop(chain.norm(&hidden("norm"), false, true)?),
            Norm::Rms => drop(chain.norm(&hidden("norm"), true, false)?),
        }
        chain.activation(&hidden("activation"), config.activation)?;
        chain.dropout(&hidden("dropout"), config.dropout)?;
    }
    chain.linear("output", outputs, true, LinearInitial::Uniform, Role::Edge)?;
    Ok(())
}
