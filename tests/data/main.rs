//! The data part as a user of the library sees it: real files, bad files, resuming, prefetching.

#![expect(
    clippy::unwrap_used,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "tests stop at what they do not expect, and their numbers are small"
)]

mod fault;
mod good;
mod prefetch;
mod resume;
mod support;
