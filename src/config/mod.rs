//! The experiment file as plain data: one Rust file per section.
//!
//! Text becomes a [`Config`] in one pass that finds every fault ([`parse`]), with spans, nearest
//! names and the source line for each. What comes out is complete: defaults filled in, ranges and
//! contradictions checked, nothing optional that a reader would have to decide again.
//!
//! Each section is declared once (macros of `declare`): from the declaration come the type, the
//! reader, [`Config::to_toml`], [`schema`] and [`reference`].
//!
//! `${NAME}` and `${NAME:-default}` in texts are filled in from the environment, and what is filled
//! in is part of the resolved config: printed, stored and hashed. A variable whose name says that
//! it holds a secret is therefore refused (see `interpolate`).
//!
//! Refuses to: read data files, know devices, or change after it was resolved.

mod check;
mod checkpoint;
mod data;
mod declare;
mod diagnostic;
mod difference;
mod eval;
mod experiment;
mod form;
mod interpolate;
mod log;
mod model;
mod optimizer;
mod overrides;
mod parse;
mod reader;
mod recovery;
mod reference;
mod resources;
mod schedule;
mod schema;
mod section;
mod spell;
mod suggest;
mod train;
mod tree;
mod unit;

pub use checkpoint::{Checkpoint, Keep};
pub use data::{
    Augment, Columns, Data, ImageData, ImageFormat, Normalize, Split, SyntheticImages,
    SyntheticTable, SyntheticText, TableData, TableFormat, Task, TextData, TextFormat,
};
pub use diagnostic::{Diagnostics, Report, Source};
pub use difference::difference;
pub use eval::Eval;
pub use experiment::Config;
pub use interpolate::Environment;
pub use log::Log;
pub use model::{
    Activation, Block, Gpt, GptActivation, LayerConfig, Layers, Mlp, Model, Norm, Position, Resnet,
    Stem,
};
pub use optimizer::Optimizer;
pub use parse::{SOURCE_BYTES_MAX, parse};
pub use recovery::Recovery;
pub use reference::reference;
pub use resources::{Backend, Resources, Slots, Transport};
pub use schedule::Schedule;
pub use schema::schema;
pub use train::{EarlyStopping, Goal, Loss, SumOrder, Train};
pub use unit::{Every, Length};
