//! The run that most tests train: a small network on the real digits, with everything on that could
//! make two runs differ.

use std::sync::OnceLock;

use crate::support::Trainer;

/// About a second of training: 80 steps in 4 epochs.
pub(crate) const DIGITS: &str = r#"
name = "digits"
seed = 7

[data]
kind = "images"
format = "idx"
train = "assets/data/digits/images-idx3-ubyte.gz"
train_labels = "assets/data/digits/labels-idx1-ubyte.gz"
validation = 0.1
test = 0.2
augment = { crop_padding = 1 }

[model]
kind = "layers"

[[model.layers]]
kind = "conv2d"
out = 16
kernel = 3
padding = 1
bias = false

[[model.layers]]
kind = "batch_norm"

[[model.layers]]
kind = "activation"
function = "relu"

[[model.layers]]
kind = "max_pool2d"
kernel = 2
stride = 2

[[model.layers]]
kind = "flatten"

[[model.layers]]
kind = "dropout"
p = 0.2

[[model.layers]]
kind = "linear"
out = 0

[train]
epochs = 4
global_batch = 64
shards = 2

[optimizer]
kind = "adamw"
learning_rate = 3e-3

[eval]
every = "1 epoch"

[checkpoint]
every = "7 steps"
keep = { latest = 3, best = 1 }

[resources]
backend = "flex"
threads = 1
"#;

/// Steps of [`DIGITS`].
pub(crate) const STEPS: u64 = 80;

/// A scratch folder with [`DIGITS`].
pub(crate) fn digits() -> Trainer {
    Trainer::new().config(DIGITS)
}

/// SHA-256 of the weights that [`DIGITS`] ends with when nothing disturbs it.
pub(crate) fn undisturbed() -> &'static str {
    static WEIGHTS: OnceLock<String> = OnceLock::new();
    WEIGHTS.get_or_init(|| {
        let trainer = digits();
        trainer.run_with(&["--quiet"]).succeeds();
        trainer.weights("latest")
    })
}
