//! The executable as a user meets it: each test runs `trainer` in a scratch folder.

#[path = "../support/mod.rs"]
mod support;

mod control;
mod digits;
mod display;
mod failure;
mod query;
mod resume;
mod usage;
