//! Waiting, giving up, and the order of the queue.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::{Bench, Place, SlotError, Want, request, these};

#[test]
fn slots_are_taken_and_given_back() {
    let bench = Bench::new();
    let three = bench.take(Want::Count(3));
    assert_eq!(three.devices(), ["g0", "g1", "g2"]);
    assert!(bench.try_take(Want::Count(2)).is_none());
    let one = bench.take(Want::Count(1));
    assert_eq!(one.devices(), ["g3"]);
    drop(three);
    assert!(bench.try_take(Want::All).is_none());
    drop(one);
    assert_eq!(bench.take(Want::All).devices().len(), 4);
    assert_eq!(bench.take(these(&["g3", "g1"])).devices(), ["g1", "g3"]);
    assert!(bench.take(Want::Count(0)).devices().is_empty());
}

#[test]
fn a_waiter_is_told_its_place_and_leaves_no_trace_when_it_gives_up() {
    let bench = Bench::new();
    let _held = bench.take(Want::Count(1));
    let mut seen: Vec<Place> = Vec::new();
    let got = bench.acquire(&request("me", 3, Want::All), &mut |place| {
        assert_eq!(bench.queue(), ["me"]);
        seen.push(place.clone());
        seen.len() < 3
    });
    assert!(got.unwrap().is_none());
    assert_eq!(bench.tickets(), 0);
    assert!(bench.queue().is_empty());
    let changed: Vec<bool> = seen.iter().map(|place| place.changed).collect();
    assert_eq!(changed, [true, false, false]);
    assert!(seen[0].ahead.is_empty());
    assert_eq!(seen[0].held[0].device, "g0");
    let holder = seen[0].held[0].holder.clone().unwrap();
    assert_eq!(
        (holder.name.as_str(), holder.pid),
        ("test", std::process::id())
    );
    // What it had tried is free again.
    bench.take(Want::Count(3));
}

#[test]
fn a_waiter_behind_others_sees_them_go() {
    let bench = Bench::new();
    let held = bench.take(Want::All);
    let mut lengths = Vec::new();
    thread::scope(|scope| {
        let first = scope.spawn(|| {
            let wait = &mut |_: &Place| bench.queue().len() < 2;
            bench.acquire(&request("first", 0, Want::All), wait)
        });
        super::eventually("it waits", || bench.queue() == ["first"]);
        let request = request("second", 0, Want::Count(1));
        let got = bench.acquire(&request, &mut |place| {
            if place.changed {
                lengths.push(place.ahead.len());
            }
            !place.ahead.is_empty()
        });
        assert!(got.unwrap().is_none());
        assert!(first.join().unwrap().unwrap().is_none());
    });
    assert_eq!(lengths, [1, 0]);
    drop(held);
}

#[test]
fn a_freed_slot_is_taken_soon() {
    let bench = Bench::new();
    let mut worst = Duration::ZERO;
    for _ in 0..5 {
        let held = bench.take(Want::All);
        thread::scope(|scope| {
            // Four in a row: the last one is reached by a chain of three.
            let waiters: Vec<_> = (0..4)
                .map(|index| {
                    let bench = &bench;
                    let name = index.to_string();
                    let waiter = scope.spawn(move || {
                        let request = request(&name, 0, Want::Count(1));
                        let held = bench.acquire(&request, &mut |_| true);
                        (held.unwrap().unwrap(), Instant::now())
                    });
                    super::eventually("it waits", || bench.queue().len() == index + 1);
                    waiter
                })
                .collect();
            drop(held);
            let freed = Instant::now();
            let taken: Vec<_> = waiters.into_iter().map(|one| one.join().unwrap()).collect();
            let last = taken.iter().map(|one| one.1).max().unwrap();
            worst = worst.max(last.duration_since(freed));
        });
    }
    println!("the last of four waiters had its slot after {worst:?} at worst");
    // 200 ms are promised on a machine that has time for us.
    assert!(worst < Duration::from_secs(1));
}

#[test]
fn waiting_costs_next_to_no_processor_time() {
    let bench = Bench::new();
    let _held = bench.take(Want::All);
    let cpu = || {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::new(
            time.tv_sec.unsigned_abs(),
            u32::try_from(time.tv_nsec).unwrap(),
        )
    };
    let (start, before) = (Instant::now(), cpu());
    let wait = &mut |_: &Place| start.elapsed() < Duration::from_secs(1);
    let got = bench.acquire(&request("me", 0, Want::All), wait);
    assert!(got.unwrap().is_none());
    let used = cpu().checked_sub(before).unwrap();
    println!("a second of waiting took {used:?} of processor time");
    assert!(used < Duration::from_millis(50));
}

#[test]
fn devices_that_others_do_not_want_are_no_reason_to_wait() {
    let bench = Bench::new();
    let _held = bench.take(these(&["g0"]));
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let wait = &mut |_: &Place| !done.load(Ordering::Relaxed);
            bench.acquire(&request("named", 9, these(&["g0", "g1"])), wait)
        });
        super::eventually("it waits", || bench.queue() == ["named"]);
        let g1 = bench.try_take(these(&["g1"]));
        let three = bench.try_take(Want::Count(3));
        let two = bench.try_take(Want::Count(2));
        done.store(true, Ordering::Relaxed);
        assert!(g1.is_none() && three.is_none());
        assert_eq!(two.unwrap().devices(), ["g2", "g3"]);
    });
}

#[test]
fn a_folder_that_is_removed_meanwhile_is_an_error() {
    let bench = Bench::new();
    let _held = bench.take(Want::All);
    let got = bench.acquire(&request("me", 0, Want::All), &mut |_| {
        let _ = std::fs::remove_dir_all(bench.slots());
        true
    });
    assert!(matches!(got, Err(SlotError::Removed { .. })), "{got:?}");
}
