//! The border to burn: devices, and operations on tensors that the model and the training loop use.
//!
//! Refuses to: know a model, a file or a process.

mod attention;
mod convolution;
pub mod device;
mod flat;
mod fused;
mod limit;
mod linear;
mod mask;
mod norm;
mod pool;
pub(crate) mod vector;

pub use attention::{Heads, Rotation, WeightDropout, causal_attention};
pub use convolution::conv2d;
pub use flat::{download, is_host, join, part, squared_norm, squared_norm_of, upload};
pub use limit::{Limits, measure};
pub use linear::{bias_gelu, embedding, gelu, linear, swiglu, with_gradient};
pub use mask::dropout_mask;
pub use norm::{
    BatchNormTrain, EPSILON, batch_norm_evaluate, batch_norm_train, layer_norm, rms_norm,
};
pub use pool::{Window, add_relu, avg_pool2d, max_pool2d, mean_of_positions, relu};
