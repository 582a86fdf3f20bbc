//! `trainer` trains deep-learning models from one TOML file.
//!
//! The map, top to bottom; a module imports only from lines below it.

pub mod bench;
pub mod checkpoint;
pub mod cli;
pub mod collective;
pub mod config;
pub mod data;
pub mod device;
pub mod model;
pub mod ops;
pub mod plan;
pub mod run;
pub mod store;
pub mod supervisor;
pub mod train;
pub mod ui;
pub mod worker;
