//! The learning rate as a pure function of the optimiser step.

use super::Timetable;
use crate::config::Schedule;
use crate::run::Step;

/// Learning rate of the step that follows `step` finished ones, for a peak of `peak`.
///
/// Warm-up over w steps gives peak (s + 1) / w for s < w. After it, `linear` and `cosine` reach
/// `final_ratio` at the last step of the run and stay there if the run is extended.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "steps stay far below 2^52")]
pub fn learning_rate(schedule: &Schedule, peak: f64, timetable: &Timetable, step: Step) -> f64 {
    let (Schedule::Constant { warmup }
    | Schedule::Linear { warmup, .. }
    | Schedule::Cosine { warmup, .. }
    | Schedule::Step { warmup, .. }) = schedule;
    let warmup = timetable.steps_in(*warmup);
    let step = step.get();
    if step < warmup {
        return peak * (step + 1) as f64 / warmup as f64;
    }
    let last = timetable.steps_total().saturating_sub(1);
    let progress = if last > warmup {
        ((step - warmup) as f64 / (last - warmup) as f64).min(1.0)
    } else {
        0.0
    };
    match schedule {
        Schedule::Constant { .. } => peak,
        Schedule::Linear { final_ratio, .. } => peak * (1.0 + (final_ratio - 1.0) * progress),
        Schedule::Cosine { final_ratio, .. } => {
            let cosine = 0.5 * (1.0 + (std::f64::consts::PI * progress).cos());
            peak * (final_ratio + (1.0 - final_ratio) * cosine)
        }
        Schedule::Step {
            milestones, factor, ..
        } => {
            let passed = milestones
                .iter()
                .filter(|&&milestone| step >= timetable.steps_in(milestone))
                .count();
            peak * factor.powi(i32::try_from(passed).unwrap_or(i32::MAX))
        }
    }
}
