//! The devices of a host whose supervisor is elsewhere: each worker takes one that is free.
//!
//! Nothing waits here: the supervisor cannot hold back a whole run for one host, so a worker without a
//! device is not started, and is gone on without or is the end of the run.

use std::collections::BTreeMap;

use crate::config::{self, Source};
use crate::device::{Device, Held, Holding, Pool, Request, Want, devices};
use crate::run::wire::Job;
use crate::run::{Fault, Rank, RunDir};
use crate::store::shown_name;

/// What workers of this host hold, as long as the session lasts: one that is started again has the
/// same device.
#[derive(Default)]
pub(super) struct Slots {
    /// Devices of this host, once they were looked for.
    there_are: Option<Vec<Device>>,
    held: BTreeMap<Rank, Held>,
}

impl Slots {
    /// The device of a worker; none where runs need not share devices out.
    ///
    /// # Errors
    ///
    /// When others have all of them.
    pub(super) fn of(&mut self, job: &Job) -> Result<Option<String>, Fault> {
        if !self.held.contains_key(&job.rank) {
            let there_are = match self.there_are.take() {
                Some(known) => known,
                None => devices(backend(job)?),
            };
            let there_are = self.there_are.insert(there_are);
            if there_are.is_empty() {
                return Ok(None);
            }
            let held = take(there_are, &shown_name(&RunDir::new(&job.run_dir)))?;
            self.held.insert(job.rank, held);
        }
        let held = self.held.get(&job.rank);
        Ok(held.and_then(|held| held.devices().first().cloned()))
    }
}

/// One device that is free now.
fn take(devices: &[Device], name: &str) -> Result<Held, Fault> {
    let request = Request {
        name: name.to_string(),
        priority: 0,
        want: Want::Count(1),
    };
    let pool = Pool::open(Pool::default_folder())?;
    let mut holders = Vec::new();
    let taken = pool.acquire(devices, &request, &mut |place| {
        holders = place.held.iter().map(described).collect();
        false
    })?;
    taken.ok_or_else(|| {
        Fault::machine(format!(
            "none of the {} devices of this host is free ({})",
            devices.len(),
            holders.join(", ")
        ))
    })
}

fn described(holding: &Holding) -> String {
    let Holding { device, holder } = holding;
    match holder {
        Some(holder) => format!("{device}: {}", holder.name),
        None => device.clone(),
    }
}

/// Where the tensors of a job live.
fn backend(job: &Job) -> Result<&'static str, Fault> {
    let source = Source {
        name: RunDir::new(&job.run_dir).config().display().to_string(),
        text: job.config.clone(),
    };
    let config = config::parse(&source, &[], &|name: &str| std::env::var(name).ok())
        .map_err(|faults| Fault::usage(faults.render(false)))?;
    Ok(config.resources.backend.as_str())
}
