//! The command line: [`main`] reads what was typed and calls one file of this module per command.
//!
//! A command resolves its arguments, calls the module that does the work, and prints. Results go to
//! standard output, everything else to standard error. `docs/json.md` describes the JSON.
//!
//! Refuses to: train, or write into a run directory itself.

mod args;
mod bench;
mod checkpoint;
mod checkpoints;
mod completions;
mod config;
mod control;
mod data;
mod dispatch;
mod display;
mod json;
mod load;
mod logs;
mod ls;
mod man;
mod metrics;
mod model;
mod node;
mod outcome;
mod pause;
mod resize;
mod resume;
mod rm;
mod run;
mod screen;
mod select;
mod show;
mod slots;

pub use dispatch::main;
pub use outcome::Outcome;
