//! The executable as a user meets it: each test runs `trainer` in a scratch folder.

#[path = "../support/mod.rs"]
mod support;

mod usage;
