//! Whole trainings in one process, on small data.
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    clippy::float_cmp,
    reason = "small numbers, compared exactly where they must be exact"
)]

mod boundary;
mod determinism;
mod digits;
pub(in crate::train) mod fixture;
mod group;
mod non_finite;
mod resume;
pub(in crate::train) mod run;
mod schedule;
