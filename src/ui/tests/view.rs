//! What the view makes of events.

use super::super::RunView;
use super::sample::{EPOCH, STEPS, Script, good_run, paused_summary};
use crate::run::{Attempt, Event, RunState, Step};

fn view(script: &Script) -> RunView {
    let mut view = RunView::default();
    for entry in &script.entries {
        view.take(entry);
    }
    view
}

fn near(value: Option<f64>, expected: f64) -> bool {
    value.is_some_and(|value| (value - expected).abs() <= expected * 1e-9)
}

#[test]
fn rates_and_the_time_left_follow_from_the_last_steps() {
    let mut script = Script::new();
    script.start().steps(0, 30, 250);
    let view = view(&script);
    assert_eq!(view.step, Step::new(30));
    assert_eq!(view.epoch_of(), Some((1, 3)));
    assert!(near(view.fraction(), 0.25));
    assert!(near(view.samples_per_second(), 256.0));
    assert_eq!(view.tokens_per_second(), None);
    assert!(near(view.seconds_left(), 90.0 * 0.25));
    let loss = view.loss.unwrap();
    assert!(
        view.smoothed_loss.unwrap() > loss,
        "it lags behind a falling loss"
    );
}

#[test]
fn rates_do_not_depend_on_how_often_steps_are_recorded() {
    let mut every = Script::new();
    every.start().steps(0, 40, 250);
    let mut fourth = Script::new();
    fourth.start();
    let began = fourth.now_ms;
    for entry in &every.entries {
        if let Event::StepFinished(report) = &entry.event
            && report.step.get() % 4 == 0
        {
            fourth.now_ms = began + report.step.get() * 250;
            fourth.then(0, entry.event.clone());
        }
    }
    let (every, fourth) = (view(&every), view(&fourth));
    assert!(near(
        fourth.samples_per_second(),
        every.samples_per_second().unwrap()
    ));
    assert!(near(fourth.seconds_left(), every.seconds_left().unwrap()));
}

#[test]
fn nothing_is_claimed_before_it_is_known() {
    let view = RunView::default();
    assert_eq!(view.fraction(), None);
    assert_eq!(view.epoch_of(), None);
    assert_eq!(view.samples_per_second(), None);
    assert_eq!(view.seconds_left(), None);
    assert_eq!(view.state, None);
    let mut script = Script::new();
    script.start().steps(0, 1, 250);
    assert_eq!(self::view(&script).seconds_left(), None);
}

#[test]
fn a_resume_from_an_earlier_step_forgets_what_lies_ahead() {
    let mut script = Script::new();
    script.start();
    script.steps(0, EPOCH, 250).evaluated(EPOCH, "valid");
    script.steps(EPOCH, 2 * EPOCH, 250);
    let earlier = view(&script);
    assert_eq!(earlier.evaluations["valid"].step, Step::new(EPOCH));
    script.evaluated(2 * EPOCH, "valid");
    script.attempt = Attempt::new(2);
    script.began(EPOCH, Some("step-00000040"));
    let view = view(&script);
    assert_eq!(view.step, Step::new(EPOCH));
    assert_eq!(view.attempt, Attempt::new(2));
    assert!(
        view.evaluations.is_empty(),
        "the evaluation at 80 is of the future"
    );
    assert_eq!(view.best, None);
    assert_eq!(view.loss, None);
    assert_eq!(view.samples_per_second(), None);
}

#[test]
fn steps_that_repeat_without_notice_start_the_window_again() {
    let mut script = Script::new();
    script.start().steps(0, 50, 250).steps(10, 20, 500);
    let view = view(&script);
    assert_eq!(view.step, Step::new(20));
    assert!(near(view.samples_per_second(), 128.0));
    assert!(near(view.seconds_left(), 50.0));
}

#[test]
fn a_run_that_was_extended_goes_on_past_its_old_end() {
    let mut view = RunView::default();
    for entry in &good_run() {
        view.take(entry);
    }
    assert!(near(view.fraction(), 1.0));
    assert_eq!(view.state, Some(RunState::Completed));
    assert_eq!(view.epoch_of(), Some((3, 3)));
    let mut script = Script::new();
    script.steps(STEPS, STEPS + 5, 250);
    for entry in &script.entries {
        view.take(entry);
    }
    assert!(near(view.fraction(), 1.0));
    assert_eq!(view.epoch_of(), Some((3, 3)));
    assert!(near(view.seconds_left().map(|s| s + 1.0), 1.0));
}

#[test]
fn a_recorded_run_is_seen_before_its_next_event() {
    let view = RunView::of(&paused_summary());
    assert_eq!(view.name, "digits-1a2b3c4d");
    assert_eq!(view.state, Some(RunState::Paused));
    assert_eq!(view.epoch_of(), Some((2, 3)));
    assert_eq!(view.evaluations.len(), 1);
    assert!(near(Some(view.evaluations["valid"].metrics["loss"]), 0.025));
    assert_eq!(view.checkpoint.unwrap().step, Step::new(80));
}

#[test]
fn memory_stays_bounded() {
    let mut view = RunView::default();
    let mut script = Script::new();
    script.start().steps(0, STEPS, 1);
    for (seq, entry) in script.entries.iter().cycle().take(100_000).enumerate() {
        let mut entry = entry.clone();
        if let Event::StepFinished(report) = &mut entry.event {
            report.step = Step::new(seq as u64);
        }
        view.take(&entry);
    }
    for split in 0..100 {
        let mut script = Script::new();
        script.evaluated(1, &format!("split {split}"));
        for entry in &script.entries {
            view.take(entry);
        }
    }
    assert!(view.evaluations.len() <= 8);
    assert!(view.window_len() <= 512);
}
