//! Holders and waiters that are killed.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::super::wait;
use super::{Bench, Want, devices, eventually, request, these};

#[test]
fn a_killed_holder_frees_its_slots_though_a_child_of_it_lives_on() {
    let bench = Bench::new();
    let mut job = bench.job("holder", 0, Want::Count(3), 60_000);
    job.with_sleep = true;
    let mut holder = job.start();
    eventually("it holds", || !bench.log().is_empty());
    assert_eq!(bench.held(), ["g0:holder", "g1:holder", "g2:holder"]);
    assert!(bench.try_take(Want::Count(2)).is_none());
    holder.kill();
    let sleep = bench.log()[0].sleep_pid.unwrap();
    let sleep = Pid::from_raw(i32::try_from(sleep).unwrap()).unwrap();
    rustix::process::test_kill_process(sleep).unwrap();
    assert_eq!(bench.take(Want::All).devices().len(), 4);
    kill_process(sleep, Signal::KILL).unwrap();
}

#[test]
fn a_killed_waiter_is_forgotten() {
    let bench = Bench::new();
    let held = bench.take(Want::Count(1));
    let mut first = bench.job("first", 0, Want::All, 60_000).start();
    eventually("it waits", || bench.queue() == ["first"]);
    let mut second = bench.job("second", 0, Want::Count(2), 60_000).start();
    eventually("both wait", || bench.queue() == ["first", "second"]);
    first.kill();
    // Nothing was given back: it is the death alone that lets the second one pass.
    eventually("the second holds", || !bench.log().is_empty());
    assert_eq!(bench.queue(), Vec::<String>::new());
    assert_eq!(bench.tickets(), 0);
    assert_eq!(bench.held(), ["g0:test", "g2:second", "g3:second"]);
    second.kill();
    drop(held);
    assert_eq!(bench.held(), Vec::<String>::new());
}

#[test]
fn priority_counts_first_and_arrival_second() {
    let bench = Bench::new();
    let held = bench.take(Want::All);
    let mut children = Vec::new();
    for (name, priority, want) in [
        ("all", 0, Want::All),
        ("one", 0, Want::Count(1)),
        ("three", 0, Want::Count(3)),
        ("low", -1, these(&["g1"])),
        ("named", 0, these(&["g1", "g2"])),
        ("high", 5, Want::Count(3)),
    ] {
        children.push(bench.job(name, priority, want, 50).start());
        eventually("it waits", || bench.queue().contains(&name.to_string()));
    }
    let order = ["high", "all", "one", "three", "named", "low"];
    assert_eq!(bench.queue(), order);
    drop(held);
    eventually("all are served", || bench.log().len() == order.len());
    let mut log = bench.log();
    log.sort_by_key(|taken| taken.numbers[1]);
    let names: Vec<&str> = log.iter().map(|taken| taken.name.as_str()).collect();
    assert_eq!(names, order);
}

#[test]
fn a_waiter_that_is_stopped_holds_up_the_others_for_a_while_only() {
    let bench = Bench::new();
    let held = bench.take(Want::All);
    let stopped = bench.job("stopped", 0, Want::Count(2), 0).start();
    eventually("it waits", || bench.queue() == ["stopped"]);
    let pid = Pid::from_raw(i32::try_from(stopped.pid()).unwrap()).unwrap();
    // In the middle of a look it would keep the turn, which is another matter.
    let turn = bench.pool.folder().turn(Duration::from_secs(5)).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    drop(turn);
    drop(held);
    let courtesy = Duration::from_millis(400);
    assert!(courtesy < wait::COURTESY);
    let pool = bench.pool.clone().with_courtesy(courtesy);
    let start = Instant::now();
    let take = |count| {
        let request = request("passer", 0, Want::Count(count));
        pool.acquire(&devices(4), &request, &mut |_| {
            start.elapsed() < Duration::from_secs(5)
        })
    };
    let passer = take(2).unwrap().unwrap();
    assert!(start.elapsed() >= courtesy);
    assert_eq!(passer.devices(), ["g2", "g3"]);
    // What the stopped one is entitled to stays its own.
    assert!(take(1).unwrap().is_none());
    kill_process(pid, Signal::CONT).unwrap();
    eventually("it is served", || bench.log().len() == 1);
}
