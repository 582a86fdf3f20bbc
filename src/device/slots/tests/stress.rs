//! Many processes and few devices.

use std::fs::File;
use std::thread;
use std::time::{Duration, Instant};

use super::super::decide::Claim;
use super::child::{Dice, Started, Taken};
use super::{Bench, Want, devices, eventually};

/// Whether `first` waited, with the right of way, when `second` took a device that could be given to
/// either. Tickets and takings are numbered by one counter, so this needs no clock.
fn was_overtaken(first: &Taken, second: &Taken) -> bool {
    let waited = first.numbers[0] < second.numbers[1] && second.numbers[1] < first.numbers[1];
    let before = (-first.priority, first.numbers[0]) < (-second.priority, second.numbers[0]);
    let claim = Claim::new(&first.want, &devices(4)).unwrap();
    let shared = claim
        .devices()
        .iter()
        .any(|device| second.devices.contains(&device.id));
    waited && before && shared
}

#[track_caller]
fn assert_order(log: &[Taken]) {
    for first in log {
        let overtaker = log.iter().find(|second| was_overtaken(first, second));
        assert!(overtaker.is_none(), "{overtaker:?} overtook {first:?}");
    }
}

fn start_hammering(bench: &Bench, seed: u64, ms: u64) -> Started {
    let mut job = bench.job(&format!("run-{seed}"), 0, Want::All, 0);
    job.hammer_ms = Some(ms);
    job.seed = seed;
    job.start()
}

fn assert_untouched(bench: &Bench) {
    assert!(!bench.folder.path().join("violation").exists());
    assert_eq!(bench.held(), Vec::<String>::new());
    assert_eq!(bench.queue(), Vec::<String>::new());
    assert_eq!(bench.tickets(), 0);
    assert_eq!(bench.take(Want::All).devices().len(), 4);
}

#[test]
fn twenty_processes_share_four_devices_in_order() {
    let bench = Bench::new();
    let start = Instant::now();
    let mut children: Vec<Started> = (1..=20)
        .map(|seed| start_hammering(&bench, seed, 3000))
        .collect();
    eventually("all children end", || {
        children.retain_mut(|child| !child.is_done());
        children.is_empty()
    });
    let log = bench.log();
    let longest = log.iter().map(|one| one.waited_ms).max().unwrap_or(0);
    println!(
        "{} taken in {:?}; longest wait {longest} ms",
        log.len(),
        start.elapsed()
    );
    assert!(log.len() > 40, "only {} were served", log.len());
    assert_order(&log);
    assert_untouched(&bench);
}

#[test]
fn killed_processes_leave_no_slot_taken_and_no_order_broken() {
    let bench = Bench::new();
    File::create(bench.folder.path().join("killing")).unwrap();
    let mut dice = Dice(42);
    let mut children: Vec<Started> = (1..=12)
        .map(|seed| start_hammering(&bench, seed, 2500))
        .collect();
    for seed in 100..160 {
        thread::sleep(Duration::from_millis(30));
        let index = usize::try_from(dice.roll(12)).unwrap();
        children[index].kill();
        children[index] = start_hammering(&bench, seed, 700);
    }
    eventually("all children end", || {
        children.retain_mut(|child| !child.is_done());
        children.is_empty()
    });
    assert!(!bench.log().is_empty());
    assert_order(&bench.log());
    assert_untouched(&bench);
}
