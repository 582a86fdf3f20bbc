//! Learning rates against recorded ones, which were checked against PyTorch's schedulers.

use super::fixture::{self, assert_close};
use super::run::config;
use crate::config::{Length, Schedule};
use crate::plan::Timetable;
use crate::plan::schedule::learning_rate;
use crate::run::Step;

#[test]
fn rates_are_the_recorded_ones() {
    for case in fixture::cases("schedules.json") {
        let schedule: Schedule = serde_json::from_value(case["schedule"].clone()).unwrap();
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
