//! The prefetcher gives the same steps whatever it does ahead.

use std::sync::Arc;
use std::time::{Duration, Instant};

use trainer::data::{Part, Prefetcher, StepBatch};
use trainer::plan::Timetable;
use trainer::run::{Fault, Seat, ShardId, Step};

use crate::support::{Scratch, png};

const DATA: &str = "kind = \"images\"\nformat = \"folder\"\ntrain = \"@/f\"\naugment = { flip = 0.5, crop_padding = 1 }";

fn scratch() -> Scratch {
    let scratch = Scratch::new();
    for shade in 0..53 {
        scratch.write(
            &format!("f/class{}/{shade:02}.png", shade % 3),
            png(5, shade),
        );
    }
    scratch
}

fn start(scratch: &Scratch, from: u64, ahead: usize) -> (Prefetcher, u64) {
    let config = scratch.config(DATA);
    let dataset = Arc::new(scratch.open(DATA).unwrap());
    let timetable = Timetable::new(&config, dataset.samples(Part::Train));
    let total = timetable.steps_total();
    (
        Prefetcher::start(dataset, timetable, 3, Step::new(from), ahead, Seat::ALONE),
        total,
    )
}

fn steps(scratch: &Scratch, from: u64, ahead: usize) -> Vec<StepBatch> {
    let (mut prefetcher, total) = start(scratch, from, ahead);
    // Two beyond the end: a run that is extended.
    (from..total + 2)
        .map(|_| prefetcher.next().unwrap())
        .collect()
}

#[test]
fn steps_are_the_same_whatever_is_prepared_ahead() {
    let scratch = scratch();
    let inline = steps(&scratch, 0, 0);
    // 53 samples in global batches of 8: seven steps an epoch, the last with five.
    assert_eq!(inline.len(), 3 * 7 + 2);
    for (place, step) in inline.iter().enumerate() {
        assert_eq!(step.plan.step, Step::new(place as u64));
        assert_eq!((step.first, step.shards.len()), (ShardId::new(0), 3));
        let seen: Vec<_> = step
            .shards
            .iter()
            .flat_map(|shard| shard.ids.clone())
            .collect();
        assert_eq!(seen, step.plan.samples);
        assert_eq!(seen.len(), if place % 7 == 6 { 5 } else { 8 });
    }
    for ahead in [1, 2, 3, 9, 100] {
        assert!(steps(&scratch, 0, ahead) == inline, "ahead {ahead}");
    }
    for from in [1, 6, 7, 20] {
        assert!(
            steps(&scratch, from, 3) == inline[from as usize..],
            "from {from}"
        );
    }
}

#[test]
fn a_fault_comes_in_the_place_of_its_step() {
    let faults = |ahead: usize| -> Vec<Result<usize, Fault>> {
        let scratch = scratch();
        let (mut prefetcher, total) = start(&scratch, 0, 0);
        drop(prefetcher);
        // The prefetcher opens the data once more; the file breaks after that.
        let config = scratch.config(DATA);
        let dataset = Arc::new(scratch.open(DATA).unwrap());
        scratch.write("f/class1/16.png", "broken");
        let timetable = Timetable::new(&config, dataset.samples(Part::Train));
        prefetcher = Prefetcher::start(dataset, timetable, 3, Step::new(0), ahead, Seat::ALONE);
        (0..total)
            .map(|_| prefetcher.next().map(|step| step.plan.samples.len()))
            .map(|result| {
                // Scratch folders differ.
                result.map_err(|mut fault| {
                    assert!(fault.message.contains("16.png"), "{fault}");
                    fault.message.clear();
                    fault
                })
            })
            .collect()
    };
    let inline = faults(0);
    assert_eq!(inline.iter().filter(|step| step.is_err()).count(), 3);
    for (place, step) in inline.iter().enumerate() {
        if let Err(fault) = step {
            assert_eq!(fault.step, Some(Step::new(place as u64)));
        }
    }
    assert_eq!(faults(4), inline);
}

#[test]
fn dropping_stops_the_threads_at_once() {
    let scratch = scratch();
    let (mut prefetcher, _) = start(&scratch, 0, 64);
    prefetcher.next().unwrap();
    let began = Instant::now();
    drop(prefetcher);
    assert!(began.elapsed() < Duration::from_secs(5));
}
