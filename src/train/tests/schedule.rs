//! Learning rates against recorded ones, which were checked against PyTorch's schedulers.

use super::fixture::{self, assert_close};
use super::run::config;
use crate::config::{Length, Schedule};
use crate::plan::Timetable;
use crate::plan::schedule::learning_rate;
use crate::run::Step;

fn schedule(recorded: &serde_json::Value) -> Schedule {
    let length = |value: &serde_json::Value| value.as_str().unwrap().parse::<Length>().unwrap();
    let number = |key: &str| recorded[key].as_f64().unwrap();
    let warmup = length(&recorded["warmup"]);
    match recorded["kind"].as_str().unwrap() {
        "constant" => Schedule::Constant { warmup },
        "linear" => Schedule::Linear {
            warmup,
            final_ratio: number("final_ratio"),
        },
        "cosine" => Schedule::Cosine {
            warmup,
            final_ratio: number("final_ratio"),
        },
        "step" => Schedule::Step {
            warmup,
            milestones: recorded["milestones"]
                .as_array()
                .unwrap()
                .iter()
                .map(length)
                .collect(),
            factor: number("factor"),
        },
        other => panic!("{other}"),
    }
}

#[test]
fn rates_are_the_recorded_ones() {
    for case in fixture::cases("schedules.json") {
        let schedule = schedule(&case["schedule"]);
        let mut config = config();
        config.train.length = Length::Steps(case["steps_total"].as_u64().unwrap());
        let timetable = Timetable::new(&config, 1000);
        let peak = case["peak"].as_f64().unwrap();
        let wanted = fixture::numbers(&case["rates"]);
        let found: Vec<f64> = (0..wanted.len() as u64)
            .map(|step| learning_rate(&schedule, peak, &timetable, Step::new(step)))
            .collect();
        assert_close(&found, &wanted, 1e-12, 1e-15);
    }
}
