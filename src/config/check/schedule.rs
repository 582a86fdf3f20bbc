//! Contradictions between `[schedule]` and the length of training.
//!
//! Steps and epochs can be compared only when the data are known, so here lengths are compared in
//! the same unit; a percentage is of the whole training.

use std::cmp::Ordering;

use super::{Check, Parts};
use crate::config::schedule::Schedule;
use crate::config::unit::Length;

pub(super) fn check(parts: &Parts, check: &mut Check<'_>) {
    let Some(schedule) = &parts.schedule else {
        return;
    };
    let (Schedule::Constant { warmup }
    | Schedule::Linear { warmup, .. }
    | Schedule::Cosine { warmup, .. }
    | Schedule::Step { warmup, .. }) = schedule;
    let length = parts.train.as_ref().map(|train| train.length);
    let length_path = match length {
        Some(Length::Steps(_)) => "train.steps",
        _ => "train.epochs",
    };
    let after_end =
        |at: Length| length.and_then(|length| compare(at, length)) == Some(Ordering::Greater);
    if after_end(*warmup) {
        check.refuse(
            format!("a warm-up of {warmup} is longer than the whole training"),
            &["schedule.warmup", length_path],
            "make it shorter, e.g. \"5 %\"",
        );
    }
    let Schedule::Step { milestones, .. } = schedule else {
        return;
    };
    for (a, b) in milestones.iter().zip(milestones.iter().skip(1)) {
        if matches!(compare(*a, *b), Some(Ordering::Greater | Ordering::Equal)) {
            check.refuse(
                format!("milestone {b} does not come after milestone {a}"),
                &["schedule.milestones"],
                "put the milestones in increasing order",
            );
        }
    }
    if let Some(late) = milestones.iter().find(|at| after_end(**at)) {
        check.refuse(
            format!("milestone {late} is after the end of training"),
            &["schedule.milestones", length_path],
            "remove it, or train longer",
        );
    }
    let in_warmup = |at: &&Length| compare(**at, *warmup) == Some(Ordering::Less);
    if let Some(early) = milestones.iter().find(in_warmup) {
        check.refuse(
            format!("milestone {early} lies within the warm-up"),
            &["schedule.milestones", "schedule.warmup"],
            "put milestones after the warm-up",
        );
    }
}

/// Which of two lengths is longer, where it is known without the data.
fn compare(a: Length, b: Length) -> Option<Ordering> {
    match (a, b) {
        (Length::Steps(a), Length::Steps(b)) | (Length::Epochs(a), Length::Epochs(b)) => {
            Some(a.cmp(&b))
        }
        (Length::Percent(a), Length::Percent(b)) => a.partial_cmp(&b),
        _ => None,
    }
}
