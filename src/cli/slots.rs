//! `trainer slots`: the devices of this machine, who has them and who waits.

use std::io::{self, Write};

use serde::Serialize;

use crate::device::{Device, Listing, Pool, Waiter, devices};
use crate::run::Fault;
use crate::store::now_ms;
use crate::ui::{Table, ago};

use super::args::Slots;
use super::json::{self, FORMAT};
use super::outcome::{CommandResult, Outcome};
use super::screen::Screen;

#[derive(Serialize)]
struct SlotsJson<'a> {
    format: u32,
    devices: Vec<DeviceJson<'a>>,
    queue: Vec<WaiterJson<'a>>,
}

#[derive(Serialize)]
struct DeviceJson<'a> {
    device: &'a str,
    group: u32,
    held: bool,
    run: Option<&'a str>,
    pid: Option<u32>,
    since_ms: Option<u64>,
}

#[derive(Serialize)]
struct WaiterJson<'a> {
    run: &'a str,
    pid: u32,
    priority: i32,
    wants: String,
    since_ms: u64,
}

/// Prints devices and queue. Only runs of this user are seen.
pub(super) fn slots(args: &Slots, out: &mut dyn Write) -> CommandResult {
    let devices = devices("auto");
    let listing = Pool::open(Pool::default_folder())
        .and_then(|pool| pool.list(&devices))
        .map_err(Fault::from)?;
    let rows: Vec<DeviceJson<'_>> = devices.iter().map(|device| row(device, &listing)).collect();
    if args.json {
        let shown = SlotsJson {
            format: FORMAT,
            devices: rows,
            queue: listing.queue.iter().map(waiter).collect(),
        };
        json::pretty(&shown, out)?;
    } else if rows.is_empty() {
        writeln!(
            out,
            "no devices to share out: runs on the CPU take turns on its cores (TRAINER_SLOTS=a,b,c names slots)"
        )?;
    } else {
        print(&rows, &listing.queue, out)?;
    }
    Ok(Outcome::Done)
}

fn row<'a>(device: &'a Device, listing: &'a Listing) -> DeviceJson<'a> {
    let held = listing.held.iter().find(|held| held.device == device.id);
    let holder = held.and_then(|held| held.holder.as_ref());
    DeviceJson {
        device: &device.id,
        group: device.group,
        held: held.is_some(),
        run: holder.map(|holder| holder.name.as_str()),
        pid: holder.map(|holder| holder.pid),
        since_ms: holder.map(|holder| holder.since_unix_ms),
    }
}

fn waiter(waiter: &Waiter) -> WaiterJson<'_> {
    WaiterJson {
        run: &waiter.name,
        pid: waiter.pid,
        priority: waiter.priority,
        wants: waiter.want.to_string(),
        since_ms: waiter.since_unix_ms,
    }
}

fn print(devices: &[DeviceJson<'_>], queue: &[Waiter], out: &mut dyn Write) -> io::Result<()> {
    let (screen, now) = (Screen::stdout(), now_ms());
    let table = |header: &[&str], right: &[usize]| {
        let table = Table::new(header).right(right).fit(screen.columns);
        table.style(screen.style)
    };
    let mut held = table(&["DEVICE", "GROUP", "RUN", "PID", "SINCE"], &[1, 3]);
    for device in devices {
        let run = match (device.held, device.run) {
            (false, _) => "-",
            (true, None) => "(unknown)",
            (true, Some(run)) => run,
        };
        held.row(vec![
            device.device.to_string(),
            device.group.to_string(),
            run.to_string(),
            device.pid.map_or_else(String::new, |pid| pid.to_string()),
            device
                .since_ms
                .map_or_else(String::new, |since| ago(since, now)),
        ]);
    }
    held.print(0, out)?;
    if queue.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    let mut waits = table(&["WAITS", "WANTS", "PRIORITY", "PID", "SINCE"], &[2, 3]);
    for waiter in queue {
        waits.row(vec![
            waiter.name.clone(),
            waiter.want.to_string(),
            waiter.priority.to_string(),
            waiter.pid.to_string(),
            ago(waiter.since_unix_ms, now),
        ]);
    }
    waits.print(0, out)
}
