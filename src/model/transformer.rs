//! Pre-norm causal transformer blocks and the `gpt` family.
//!
//! Names of parameters are those of the Llama family in Hugging Face's transformers.

use super::ModelError;
use super::chain::{Chain, size};
use super::layer::{Attention, FeedForward, Layer, NamedLayer, Residual};
use super::parameter::{Initial, Role};
use super::shape::Shape;
use super::weights::LinearInitial;
use crate::config::{Gpt, GptActivation, Norm, Position};

/// Deviation of initial weights (Radford et al. 2019).
const INITIAL_STD: f64 = 0.02;

/// How embeddings and matrices start.
pub(super) fn normal() -> Initial {
    Initial::Normal { std: INITIAL_STD }
}

/// What a transformer block is made of.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockSizes {
    /// Query heads.
    pub(super) heads: usize,
    /// Key and value heads.
    pub(super) kv_heads: usize,
    /// Width of the feed-forward layer.
    pub(super) feed_forward: usize,
    /// SiLU-gated feed-forward layer.
    pub(super) gated: bool,
    /// Root-mean-square normalisation.
    pub(super) rms: bool,
    /// Biases of linear layers and of layer normalisation.
    pub(super) bias: bool,
    /// Base of the rotary angles.
    pub(super) rope_base: Option<f64>,
    /// Dropout of attention weights and of what a branch adds.
    pub(super) dropout: f64,
    /// Blocks of the model: what a branch adds starts smaller by sqrt(2 x blocks), so that the
    /// variance of the residual stream does not grow with depth (Radford et al. 2019, section 2.3).
    pub(super) blocks: usize,
}

/// Appends the transformer block `name`.
pub(super) fn block(
    chain: &mut Chain<'_>,
    name: &str,
    sizes: &BlockSizes,
) -> Result<(), ModelError> {
    let shape = chain.shape;
    let full = chain.name(name);
    let Shape::Sequence { width, .. } = shape else {
        let problem = format!("needs a sequence, but its input is {shape}");
        return Err(ModelError::layer(&full, "TransformerBlock", problem));
    };
    if let Some(problem) = mismatch(width, sizes) {
        return Err(ModelError::layer(&full, "TransformerBlock", problem));
    }
    let mut inner = chain.inner(name, shape);

    let mut branch = inner.inner_branch();
    branch.norm("input_layernorm", sizes.rms, sizes.bias)?;
    attention(&mut branch, width, sizes)?;
    branch.dropout("attention_dropout", sizes.dropout)?;
    let attention = branch.finish();
    inner.residual("attention_residual", plain(attention))?;

    let mut branch = inner.inner_branch();
    branch.norm("post_attention_layernorm", sizes.rms, sizes.bias)?;
    feed_forward(&mut branch, width, sizes)?;
    branch.dropout("mlp_dropout", sizes.dropout)?;
    let feed_forward = branch.finish();
    inner.residual("mlp_residual", plain(feed_forward))?;

    let layers = inner.finish();
    chain.push(name, Layer::Block(layers), shape)?;
    Ok(())
}

fn plain(branch: Vec<NamedLayer>) -> Residual {
    Residual {
        branch,
        shortcut: Vec::new(),
        activation: None,
    }
}

fn mismatch(width: usize, sizes: &BlockSizes) -> Option<String> {
    let BlockSizes {
        heads, kv_heads, ..
    } = *sizes;
    if heads == 0 || !width.is_multiple_of(heads) {
        Some(format!("width {width} is not a multiple of {heads} heads"))
    } else if kv_heads == 0 || !heads.is_multiple_of(kv_heads) {
        Some(format!(
            "{heads} heads are not a multiple of {kv_heads} kv_heads"
        ))
    } else if sizes.rope_base.is_some() && !(width / heads).is_multiple_of(2) {
        let head = width / heads;
        Some(format!(
            "rotary positions need an even head width, not {head}"
        ))
    } else {
        None
    }
}

fn residual_std(sizes: &BlockSizes) -> f64 {
    let blocks = u32::try_from(sizes.blocks.max(1)).unwrap_or(u32::MAX);
    INITIAL_STD / (2.0 * f64::from(blocks)).sqrt()
}

fn attention(chain: &mut Chain<'_>, width: usize, sizes: &BlockSizes) -> Result<(), ModelError> {
    let name = "self_attn";
    let shape = chain.shape;
    let head_width = width / sizes.heads;
    let mut inner = chain.inner(name, shape);
    let mut linear = |name: &str, input: usize, output: usize, std: f64| {
        let initial = LinearInitial::Normal(std);
        inner.linear_parts(name, input, output, sizes.bias, initial, Role::Hidden)
    };
    let kv_width = sizes.kv_heads * head_width;
    let query = linear("q_proj", width, width, INITIAL_STD)?;
    let key = linear("k_proj", width, kv_width, INITIAL_STD)?;
    let value = linear("v_proj", width, kv_width, INITIAL_STD)?;
    let output = linear("o_proj", width, width, residual_std(sizes))?;
    let dropout = inner.dropout_parts("weights_dropout", sizes.dropout)?;
    let layer = Layer::Attention(Attention {
        heads: sizes.heads,
        kv_heads: sizes.kv_heads,
        head_width,
        rope_base: sizes.rope_base,
        query,
        key,
        value,
        output,
        dropout,
    });
    chain.push(name, layer, shape)?;
    Ok(())
}

fn feed_forward(chain: &mut Chain<'_>, width: usize, sizes: &BlockSizes) -> Result<(), ModelError> {
    let name = "mlp";
    let shape = chain.shape;
    let hidden = sizes.feed_forward;
    if hidden == 0 {
        let problem = "feed_forward must be at least 1";
        return Err(ModelError::layer(&chain.name(name), "FeedForward", problem));
    }
    let mut inner = chain.inner(name, shape);
    let mut linear = |name: &str, input: usize, output: usize, std: f64| {
        let initial = LinearInitial::Normal(std);
        inner.linear_parts(name, input, output, sizes.bias, initial, Role::Hidden)
    };
    let gate = if sizes.gated {
        Some(linear("gate_proj", width, hidden, INITIAL_STD)?)
    } else {
        None
    };
    let up = linear("up_proj", width, hidden, INITIAL_STD)?;
    let down = linear("down_proj", hidden, width, residual_std(sizes))?;
    chain.push(
        name,
        Layer::FeedForward(FeedForward { gate, up, down }),
        shape,
    )?;
    Ok(())
}

/// The `gpt` family: embedding, positions, blocks, normalisation, output layer.
pub(super) fn gpt(
    chain: &mut Chain<'_>,
    config: &Gpt,
    vocabulary: usize,
) -> Result<(), ModelError> {
    let width = size(config.width);
    let gated = config.activation == GptActivation::Swiglu;
    let rms = match config.norm {
        Norm::Layer => false,
        Norm::Rms => true,
        Norm::None | Norm::Batch => {
            return Err(ModelError::model(
                "a gpt has `layer` or `rms` normalisation",
                "set `model.norm` to \"layer\" or \"rms\"",
            ));
        }
    };
    let sizes = BlockSizes {
        heads: size(config.heads),
        kv_heads: size(config.kv_heads),
        feed_forward: match (size(config.feed_forward), gated) {
            (0, false) => width.saturating_mul(4),
            // Two thirds of four times the width keeps the parameters of three matrices at those
            // of two (Shazeer 2020).
            (0, true) => (width.saturating_mul(8) / 3).next_multiple_of(64),
            (given, _) => given,
        },
        gated,
        rms,
        bias: config.bias,
        rope_base: (config.position == Position::Rotary).then_some(config.rope_base),
        dropout: config.dropout,
        blocks: size(config.layers),
    };
    let (_, embedding) = chain.embedding("model.embed_tokens", width, normal())?;
    if config.position == Position::Learned {
        chain.position_embedding("model.embed_positions", normal())?;
    }
    chain.dropout("model.embed_dropout", config.dropout)?;
    for index in 0..config.layers {
        block(chain, &format!("model.layers.{index}"), &sizes)?;
    }
    chain.norm("model.norm", rms, config.bias)?;
    if config.tied {
        chain.tied_linear("lm_head", vocabulary, embedding)?;
    } else {
        let initial = LinearInitial::Normal(INITIAL_STD);
        chain.linear("lm_head", vocabulary, false, initial, Role::Edge)?;
    }
    Ok(())
}
