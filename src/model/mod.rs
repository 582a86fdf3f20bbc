//! A configured model: one list of named layers, as plain data, and how to run it.
//!
//! A [`Network`] expands from a config and the shapes of the data. It knows the name, shape and
//! place of each parameter in one flat vector; [`Parameters`] and [`Buffers`] hold the values.
//! Every family (`mlp`, `resnet`, `gpt`, free lists) becomes the same kinds of [`Layer`].
//!
//! Refuses to: read data, know a loss or an optimiser, or keep state from one pass to the next.
//!
//! Main type: [`Network`].

mod chain;
mod error;
mod forward;
mod free;
mod initial;
mod layer;
mod mlp;
mod network;
mod parameter;
mod parameters;
mod resnet;
mod shape;
mod summary;
mod transformer;
mod value;
mod weights;
mod work;

#[cfg(test)]
mod tests;

pub use error::ModelError;
pub use forward::{Forward, Mode, Output};
pub use layer::{
    Attention, BatchNorm, Columns, Conv2d, Dropout, Embedding, FeedForward, Layer, Linear,
    NamedLayer, Norm, Pool, PositionEmbedding, Residual,
};
pub use network::Network;
pub use parameter::{BufferSpec, Initial, ParameterId, ParameterSpec};
pub use parameters::{BATCH_NORM_MOMENTUM, Buffers, Parameters};
pub use shape::Shape;
pub use summary::{MemoryEstimate, layer_table, memory_table};
pub use work::Work;
