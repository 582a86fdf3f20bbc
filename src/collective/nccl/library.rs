//! What this module needs of NCCL and of the CUDA driver, as a trait: tests put another library in its place.

use std::ops::Range;

use crate::run::{Rank, WorldSize};

/// Name of a group, as the library makes it.
pub(super) const ID_BYTES: usize = 128;

/// Name of a group: rank 0 makes it, all begin with it.
pub(super) type Id = [u8; ID_BYTES];

/// How far the library is with what it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// It has taken it, or is done.
    Settled,
    /// Its threads are still at it; nothing else may be asked of it meanwhile.
    UnderWay,
}

/// What is said when the library refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    /// What was being done, for "cannot …".
    pub(super) doing: &'static str,
    /// In the library's words.
    pub(super) reason: String,
    /// Whether another rank is the cause: its process or its connection is gone.
    pub(super) remote: bool,
}

/// Which way floats go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// To the other rank.
    Out,
    /// From the other rank.
    In,
}

/// Floats of the array that go to another rank or come from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Transfer {
    pub(super) peer: Rank,
    pub(super) way: Way,
    pub(super) range: Range<usize>,
}

/// One communicator, one stream of one device, and one array of floats in its memory.
///
/// `begin`, `transfer`, `all_reduce` and `finish` only start something: [`progress`](Self::progress) says
/// when the library has taken it, then [`is_idle`](Self::is_idle) when the device is done. Only then may
/// anything else be called, but for `abort`.
pub(super) trait Library: Send {
    /// A new name for a group.
    fn id(&mut self) -> Result<Id, Refusal>;

    /// Starts to become a rank of the group of that name.
    fn begin(&mut self, id: &Id, rank: Rank, world: WorldSize) -> Result<(), Refusal>;

    /// How far the communicator is; also what went wrong in its threads since the last look.
    fn progress(&mut self) -> Result<Progress, Refusal>;

    /// Whether the device has done all it was given.
    fn is_idle(&mut self) -> Result<bool, Refusal>;

    /// Makes the array this long at least. What it held is lost.
    fn reserve(&mut self, floats: usize) -> Result<(), Refusal>;

    /// Writes floats into the array.
    fn upload(&mut self, at: usize, values: &[f32]) -> Result<(), Refusal>;

    /// Reads floats from the array.
    fn download(&mut self, at: usize, values: &mut [f32]) -> Result<(), Refusal>;

    /// Starts transfers, all at once. Between two ranks they meet in the order given.
    fn transfer(&mut self, transfers: &[Transfer]) -> Result<(), Refusal>;

    /// Starts to replace floats of the array by their sum over all ranks, in the library's own order.
    fn all_reduce(&mut self, range: Range<usize>) -> Result<(), Refusal>;

    /// Starts to leave the group in peace.
    fn finish(&mut self) -> Result<(), Refusal>;

    /// Frees the communicator, after `finish`.
    fn free(&mut self);

    /// Ends whatever is under way and frees the communicator, without regard to other ranks.
    fn abort(&mut self);
}
