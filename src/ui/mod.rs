//! What people and programs see of a run: displays that follow its events, and tables for queries.
//!
//! [`RunView`] folds events into what a display needs; every display is a [`crate::run::Reader`] that
//! draws it. All of them write to what they are given, so tests look over their shoulder.
//!
//! Refuses to: stop a run (a display that cannot write goes silent), let control characters of a file
//! reach a terminal, or grow with the length of a run. Main types: [`RunView`], [`Progress`],
//! [`Plain`], [`Json`], [`Quiet`], [`Table`].

mod ending;
mod human;
mod json;
mod notice;
mod origin;
mod panel;
mod plain;
mod progress;
mod quiet;
mod screen;
mod style;
mod table;
mod view;

#[cfg(test)]
mod tests;

pub use human::{ago, bytes, count, duration, moment, number, printable, short_hash};
pub use json::{JSON_FORMAT, Json};
pub use origin::Origin;
pub use plain::Plain;
pub use progress::Progress;
pub use quiet::Quiet;
pub use style::{Style, Tone};
pub use table::{CheckpointRow, RunRow, Table, checkpoints, metrics, run, runs};
pub use view::{Evaluation, RunView};
