//! The data part as a user of the library sees it: real files, bad files, resuming, prefetching.

mod fault;
mod good;
mod prefetch;
mod resume;
mod support;
