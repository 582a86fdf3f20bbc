//! Everything that can happen to a supervisor, through one channel.

use std::sync::mpsc::SyncSender;

use super::control::Viewer;
use super::ending::Ending;
use super::link::LinkId;
use crate::device::Held;
use crate::run::wire::FromWorker;
use crate::run::{Command, ControlReply, ControlRequest, Environment, Event, Fault};

/// Everything that can happen to a supervisor.
pub(super) enum Input {
    /// A worker says something.
    Worker(LinkId, FromWorker),
    /// A worker closed its channel, or garbled it.
    Closed(LinkId, Option<String>),
    /// A worker process is gone.
    Gone(LinkId, Ending),
    /// Other runs have the devices; with the news to record.
    Queued(Event),
    /// The devices were taken; none when the run gave up waiting.
    Slots(Result<Option<Held>, Fault>),
    /// A signal asks to leave.
    Signal(&'static str),
    /// Another host asks for something; with who, in words.
    Asked(Command, String),
    /// Another process asks for something.
    Control(ControlRequest, SyncSender<ControlReply>),
    /// Another process wants to follow.
    Follow(Viewer),
    /// More is known about the machine; `true` when that is all.
    Probed(Box<Environment>, bool),
}
