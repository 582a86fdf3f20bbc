//! Waiting for the devices of a run: all of them, or none.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::thread;

use super::input::Input;
use crate::device::{Device, Held, Place, Pool, Request};
use crate::run::{Event, Fault};

/// Devices that a run wants.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    /// Those of this machine, best first.
    pub(super) devices: Vec<Device>,
    /// How many or which, and how urgently.
    pub(super) request: Request,
}

/// A run that waits. Gives up its place when dropped.
pub(super) struct Waiting {
    leaves: Arc<AtomicBool>,
}

impl Waiting {
    /// Begins to wait: what becomes of it arrives as inputs.
    pub(super) fn start(wanted: Wanted, inputs: &SyncSender<Input>) -> Result<Self, Fault> {
        let leaves = Arc::new(AtomicBool::new(false));
        let (left, inputs) = (Arc::clone(&leaves), inputs.clone());
        thread::Builder::new()
            .name("slots".to_string())
            .spawn(move || {
                let taken = take(&wanted, &left, &inputs);
                let _ = inputs.send(Input::Slots(taken));
            })
            .map_err(|error| Fault::machine(format!("cannot start a thread: {error}")))?;
        Ok(Self { leaves })
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.leaves.store(true, Ordering::Relaxed);
    }
}

/// Nothing when the run gave up.
fn take(
    wanted: &Wanted,
    left: &AtomicBool,
    inputs: &SyncSender<Input>,
) -> Result<Option<Held>, Fault> {
    let pool = Pool::open(Pool::default_folder())?;
    let mut waiting = |place: &Place| {
        if place.changed {
            // Dropped when the supervisor is busy: it is only news, and others wait for us here.
            let _ = inputs.try_send(Input::Queued(event(wanted, place)));
        }
        !left.load(Ordering::Relaxed)
    };
    Ok(pool.acquire(&wanted.devices, &wanted.request, &mut waiting)?)
}

fn event(wanted: &Wanted, place: &Place) -> Event {
    let holders = place.held.iter().filter_map(|held| held.holder.as_ref());
    let holders: BTreeSet<String> = holders.map(|holder| holder.name.clone()).collect();
    Event::SlotsAwaited {
        wants: wanted.request.want.to_string(),
        behind: place.ahead.iter().map(|w| w.name.clone()).collect(),
        holders: holders.into_iter().collect(),
    }
}
