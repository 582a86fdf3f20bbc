//! How displays and recorders follow a run.

use super::Entry;

/// Somebody who follows a run. A new kind of output is a new reader; what runs knows none of them.
///
/// A reader never fails: what only observes cannot stop a run. One that cannot write any more goes
/// silent.
pub trait Reader {
    /// Takes the next entry of the journal, after it was written.
    fn take(&mut self, entry: &Entry);

    /// Called a few times a second, also when nothing happens, so that clocks and rates move on.
    fn tick(&mut self) {}
}
