//! What can be wrong with a model: its config, or the weights it is given.

use std::fmt::Write as _;

use crate::run::Fault;

/// A model that cannot be built, or weights that do not belong to it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// A layer does not fit what comes before it.
    #[error("{layer} ({kind}): {problem}")]
    Layer {
        /// Name of the layer, e.g. `layers.3`.
        layer: String,
        /// Kind of the layer, e.g. `Conv2d`.
        kind: &'static str,
        /// What does not fit.
        problem: String,
    },
    /// The model as a whole does not fit the data, or is too large.
    #[error("model: {problem}")]
    Model {
        /// What does not fit.
        problem: String,
        /// What to do.
        advice: &'static str,
    },
    /// Stored tensors are not those of this model. Lists every difference up to a bound.
    #[error("the stored {what} do not fit this model:{}", list(problems))]
    Tensors {
        /// `weights` or `buffers`.
        what: &'static str,
        /// One line per tensor.
        problems: Vec<String>,
    },
}

/// Most differences that [`ModelError::Tensors`] prints; the rest is counted.
const LISTED_MAX: usize = 20;

fn list(problems: &[String]) -> String {
    let mut text = String::new();
    for problem in problems.iter().take(LISTED_MAX) {
        text.push_str("\n  ");
        text.push_str(problem);
    }
    if problems.len() > LISTED_MAX {
        let _ = write!(text, "\n  … and {} more", problems.len() - LISTED_MAX);
    }
    text
}

impl ModelError {
    /// A layer that does not fit.
    pub(super) fn layer(layer: &str, kind: &'static str, problem: impl Into<String>) -> Self {
        Self::Layer {
            layer: layer.to_owned(),
            kind,
            problem: problem.into(),
        }
    }

    /// A model that does not fit.
    pub(super) fn model(problem: impl Into<String>, advice: &'static str) -> Self {
        Self::Model {
            problem: problem.into(),
            advice,
        }
    }
}

impl From<ModelError> for Fault {
    fn from(error: ModelError) -> Self {
        let message = error.to_string();
        match error {
            ModelError::Layer { layer, .. } => Fault::usage(message)
                .in_layer(layer)
                .advise("change this layer or the one before it in `[model]`"),
            ModelError::Model { advice, .. } => Fault::usage(message).advise(advice),
            ModelError::Tensors { .. } => Fault::damaged(message)
                .advise("use the config that the checkpoint was written with"),
        }
    }
}
