//! `kind = "images"`.

use std::path::PathBuf;

use serde_json::{Value as Json, json};

use super::split::{Split, SplitForm};
use crate::config::declare::{names, record};
use crate::config::form::{At, Form, list, names, only, pair, path, path_or_empty, real, whole};
use crate::config::section::{Section, Shape, section};
use crate::config::tree::{Node, Value};

/// Longest side of an image, in pixels.
const SIDE_MAX: u32 = 16_384;

names! {
    /// Layout of image files.
    pub enum ImageFormat {
        /// A pair of idx files (MNIST layout), plain or gzip.
        Idx = "idx",
        /// CIFAR-10 binary batches: a file or a folder of `*.bin`.
        Cifar10 = "cifar10",
        /// CIFAR-100 binary batches with fine labels.
        Cifar100 = "cifar100",
        /// A folder with one sub-folder of PNG or JPEG files per class.
        Folder = "folder",
    }
}

/// Mean and spread that pixels are normalised with, per channel, on the 0 to 1 scale.
#[derive(Clone, Debug, PartialEq)]
pub enum Normalize {
    /// Leave pixels on the 0 to 1 scale.
    None,
    /// Computed on the training split and stored with the run.
    Auto,
    /// Given.
    Fixed {
        /// One mean per channel.
        mean: Vec<f32>,
        /// One standard deviation per channel, above 0.
        std: Vec<f32>,
    },
}

record! {
    /// Seeded changes to training images; each depends on seed, epoch and sample alone.
    pub struct Augment {
        /// Probability of a left-right flip.
        flip: f64 => real(0.0..=1.0), default 0.0;
        /// Zero padding on each side before a random crop back to size, in pixels.
        crop_padding: u32 => whole(0..=SIDE_MAX), default 0;
    }
}

record! {
    /// `kind = "images"`.
    pub struct ImageData {
        /// Layout of the files.
        format: ImageFormat => names();
        /// Training images: a file or folder.
        train: PathBuf => path();
        /// Training labels (`idx` only; empty otherwise).
        train_labels: PathBuf => path_or_empty(), default PathBuf::new();
        /// Held-out part that early stopping and `best` checkpoints look at: a seeded share of
        /// `train`, a file or folder, or `false`.
        validation: Split => SplitForm, default Split::None;
        /// Labels of a validation file (`idx` only; empty otherwise).
        validation_labels: PathBuf => path_or_empty(), default PathBuf::new();
        /// Held-out part that is evaluated once, at the end: a seeded share of `train`, a file or
        /// folder, or `false`.
        test: Split => SplitForm, default Split::None;
        /// Labels of a test file (`idx` only; empty otherwise).
        test_labels: PathBuf => path_or_empty(), default PathBuf::new();
        /// Height and width in pixels that images are resized to; `[0, 0]` keeps the files' own
        /// size.
        size: [u32; 2] => pair(whole(0..=SIDE_MAX)), default [0, 0];
        /// 1 (grey) or 3 (colour); 0 takes what the files have.
        channels: u32 => only(&[0, 1, 3]), default 0;
        /// Normalisation of pixels per channel: `"auto"` computes it on the training split,
        /// `"none"` leaves the 0 to 1 scale, `{ mean = […], std = […] }` gives it.
        normalize: Normalize => NormalizeForm, default Normalize::Auto;
        /// Seeded changes to training images.
        augment: Augment => section();
    }
}

/// Takes `"none"`, `"auto"` or a table of means and deviations.
struct NormalizeForm;

record! {
    /// The table of [`Normalize::Fixed`].
    pub(super) struct Moments {
        /// One mean per channel.
        mean: Vec<f64> => list(real(-1000.0..=1000.0), 1..=3);
        /// One standard deviation per channel.
        std: Vec<f64> => list(real(1e-6..=1000.0), 1..=3);
    }
}

/// As the user wrote it: the shortest decimal that gives the same `f32`.
fn widen(values: &[f32]) -> Vec<f64> {
    let widened = values.iter().map(|value| value.to_string().parse());
    widened.map(|value| value.unwrap_or(0.0)).collect()
}

/// To the precision that pixels have.
#[expect(
    clippy::cast_possible_truncation,
    reason = "values are within 1000, only digits are lost"
)]
fn narrow(values: &[f64]) -> Vec<f32> {
    // Adding 0 turns -0 into 0, so that equal configs print alike.
    values.iter().map(|&value| value as f32 + 0.0).collect()
}

impl Form for NormalizeForm {
    type Value = Normalize;

    fn read(&self, node: &Node, at: &mut At<'_>) -> Option<Normalize> {
        match &node.value {
            Value::Text { text, .. } if text == "none" => Some(Normalize::None),
            Value::Text { text, .. } if text == "auto" => Some(Normalize::Auto),
            Value::Table(_) => {
                let moments = section::<Moments>().read(node, at)?;
                Some(Normalize::Fixed {
                    mean: narrow(&moments.mean),
                    std: narrow(&moments.std),
                })
            }
            _ => at.refuse(node, &self.takes()),
        }
    }

    fn write(&self, value: &Normalize) -> Json {
        match value {
            Normalize::None => json!("none"),
            Normalize::Auto => json!("auto"),
            Normalize::Fixed { mean, std } => section().write(&Moments {
                mean: widen(mean),
                std: widen(std),
            }),
        }
    }

    fn schema(&self) -> Json {
        json!({"anyOf": [{"enum": ["none", "auto"]}, section::<Moments>().schema()]})
    }

    fn shape(&self) -> Option<Shape> {
        Some(Moments::shape())
    }

    fn takes(&self) -> String {
        "\"none\", \"auto\" or { mean = [one number per channel], std = [one per channel] }"
            .to_string()
    }
}
