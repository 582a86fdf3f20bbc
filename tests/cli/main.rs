//! The executable as a user meets it: each test runs `trainer` in a scratch folder.

#![expect(
    clippy::unwrap_used,
    reason = "a test stops at what it does not expect"
)]

#[path = "../support/mod.rs"]
mod support;

mod bench;
mod control;
mod digits;
mod display;
mod failure;
mod fast;
mod group;
mod nodes;
mod query;
mod resume;
mod slots;
mod usage;
