//! The record of a run: an append-only journal, what follows from it, and finding runs in a folder.
//!
//! The journal `events.jsonl` is the truth. The summary and the metric index are derived: they can be
//! deleted or damaged at any time and nothing is lost.
//!
//! Refuses to: stop training for want of a disk, or trust a cache that does not fit its journal.
//! Main types: [`Journal`], [`Fold`], [`Runs`].

mod entries;
mod error;
mod feed;
pub(crate) mod file;
mod fold;
mod history;
mod index;
mod journal;
mod lock;
mod query;
mod remove;
mod runs;
#[cfg(test)]
mod sample;
mod summary;

pub use entries::Entries;
pub use error::StoreError;
pub use feed::Feed;
pub use fold::{Fold, Folded};
pub use history::{MetricRow, Restarts, history};
pub use journal::{JOURNAL_FORMAT, Journal, Reopened, now_ms, read};
pub use lock::{Lock, is_alive};
pub use query::{MetricQuery, metrics};
pub use remove::remove;
pub(crate) use runs::shown_name;
pub use runs::{DIRECTORY_FORMAT, LATEST, Listed, Runs, identity};
pub use summary::{FOUND_DEAD, Source, observed, summary, summary_from, write_summary};
