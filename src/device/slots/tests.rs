//! Tests of slots: the decision as a function, the folder, and processes that compete and are killed.

mod child;
mod decision;
mod folder;
mod process;
mod stress;
mod waiting;

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use super::{Device, Held, Place, Pool, Request, SlotError, Want};

/// Devices `g0`, `g1`, … in groups of two.
fn devices(count: u32) -> Vec<Device> {
    (0..count)
        .map(|index| Device {
            id: format!("g{index}"),
            group: index / 2,
        })
        .collect()
}

fn these(ids: &[&str]) -> Want {
    Want::These(ids.iter().map(ToString::to_string).collect())
}

fn request(name: &str, priority: i32, want: Want) -> Request {
    Request {
        name: name.to_string(),
        priority,
        want,
    }
}

/// A pool of four devices in a folder of its own.
struct Bench {
    folder: tempfile::TempDir,
    pool: Pool,
    devices: Vec<Device>,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let pool = Pool::open(folder.path().join("slots")).unwrap();
        Self {
            folder,
            pool,
            devices: devices(4),
        }
    }

    fn slots(&self) -> std::path::PathBuf {
        self.folder.path().join("slots")
    }

    /// Takes slots that are free.
    fn take(&self, want: Want) -> Held {
        self.try_take(want).unwrap()
    }

    /// Takes slots if that is possible without waiting.
    fn try_take(&self, want: Want) -> Option<Held> {
        self.acquire(&request("test", 0, want), &mut |_| false)
            .unwrap()
    }

    fn acquire(
        &self,
        request: &Request,
        waiting: &mut dyn FnMut(&Place) -> bool,
    ) -> Result<Option<Held>, SlotError> {
        self.pool.acquire(&self.devices, request, waiting)
    }

    /// Names of the runs that wait, first one first.
    fn queue(&self) -> Vec<String> {
        let listing = self.pool.list(&self.devices).unwrap();
        listing.queue.into_iter().map(|one| one.name).collect()
    }

    /// `device:run` for each device that is held.
    fn held(&self) -> Vec<String> {
        let listing = self.pool.list(&self.devices).unwrap();
        let name = |holder: Option<super::Holder>| holder.map_or("?".to_string(), |one| one.name);
        listing
            .held
            .into_iter()
            .map(|one| format!("{}:{}", one.device, name(one.holder)))
            .collect()
    }

    fn tickets(&self) -> usize {
        names(&self.slots())
            .iter()
            .filter(|name| name.starts_with("ticket"))
            .count()
    }
}

fn names(folder: &Path) -> Vec<String> {
    std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

/// Waits for something that is to come true soon.
#[track_caller]
fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(20);
    while !done() {
        assert!(Instant::now() < until, "never came true: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}
