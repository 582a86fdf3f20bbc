//! The keep-policy: which checkpoints may go. Pure.

use std::collections::BTreeSet;

use crate::config::{Goal, Keep};
use crate::run::Step;

/// A checkpoint as the policy sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Held {
    /// Its step.
    pub(super) step: Step,
    /// Value of the metric that `best` goes by, if one was measured.
    pub(super) metric: Option<f64>,
}

/// Steps of the checkpoints that no rule keeps, oldest first. `newest` is the one that was committed
/// last, also when there are checkpoints of later steps (after a resume from an earlier one): it
/// always stays. Of equally good ones the earliest stays, as it is nearest to the measurement.
pub(super) fn dispensable(held: &[Held], newest: Step, keep: &Keep, goal: Goal) -> Vec<Step> {
    let mut kept = BTreeSet::from([newest]);

    let mut steps: Vec<Step> = held.iter().map(|h| h.step).collect();
    steps.sort_unstable();
    steps.dedup();
    let latest = usize::try_from(keep.latest.max(1)).unwrap_or(usize::MAX);
    kept.extend(steps.iter().rev().take(latest));

    let mut measured: Vec<(f64, Step)> = held
        .iter()
        .filter_map(|h| Some((h.metric.filter(|value| value.is_finite())?, h.step)))
        .collect();
    measured.sort_by(|(a, a_step), (b, b_step)| {
        let order = match goal {
            Goal::Min => a.total_cmp(b),
            Goal::Max => b.total_cmp(a),
        };
        order.then(a_step.cmp(b_step))
    });
    let best = usize::try_from(keep.best).unwrap_or(usize::MAX);
    kept.extend(measured.iter().take(best).map(|(_, step)| *step));

    if keep.every > 0 {
        kept.extend(steps.iter().filter(|step| step.get() % keep.every == 0));
    }
    steps.retain(|step| !kept.contains(step));
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn keep(latest: u32, best: u32, every: u64) -> Keep {
        Keep {
            latest,
            best,
            every,
        }
    }

    fn held(list: &[(u64, f64)]) -> Vec<Held> {
        list.iter()
            .map(|&(step, metric)| Held {
                step: Step::new(step),
                metric: Some(metric),
            })
            .collect()
    }

    #[test]
    fn each_rule_keeps_its_own() {
        let five = [(10, 0.5), (20, 0.3), (30, 0.4), (40, 0.3), (50, 0.9)];
        let cases: [(Keep, Goal, &[u64]); 9] = [
            (keep(1, 0, 0), Goal::Min, &[10, 20, 30, 40]),
            (keep(2, 0, 0), Goal::Min, &[10, 20, 30]),
            (keep(9, 0, 0), Goal::Min, &[]),
            // 20 and 40 are equally good: the earlier one stays.
            (keep(1, 1, 0), Goal::Min, &[10, 30, 40]),
            (keep(1, 2, 0), Goal::Min, &[10, 30]),
            (keep(1, 2, 0), Goal::Max, &[20, 30, 40]),
            (keep(1, 0, 20), Goal::Min, &[10, 30]),
            (keep(2, 1, 30), Goal::Max, &[10, 20]),
            // 0 of `latest` is not allowed by the config, and must not empty the folder.
            (keep(0, 0, 0), Goal::Min, &[10, 20, 30, 40]),
        ];
        for (keep, goal, gone) in cases {
            let steps = dispensable(&held(&five), Step::new(50), &keep, goal);
            let steps: Vec<u64> = steps.iter().map(|step| step.get()).collect();
            assert_eq!(steps, gone, "{keep:?} {goal:?}");
        }
    }

    #[test]
    fn what_was_not_measured_is_not_best() {
        let mut list = held(&[(1, f64::NAN), (2, f64::NEG_INFINITY), (3, 0.7), (4, 0.1)]);
        list[3].metric = None;
        let gone = dispensable(&list, Step::new(4), &keep(1, 1, 0), Goal::Min);
        assert_eq!(gone, [Step::new(1), Step::new(2)]);
    }

    #[test]
    fn what_was_just_written_stays_beside_later_steps() {
        let list = held(&[(100, 0.1), (110, 0.2), (300, 0.3)]);
        let gone = dispensable(&list, Step::new(110), &keep(1, 0, 0), Goal::Min);
        assert_eq!(gone, [Step::new(100)]);
    }

    proptest! {
        #[test]
        fn the_newest_stays_and_nothing_unknown_goes(
            list in prop::collection::vec((0u64..50, any::<f64>()), 1..20),
            latest in 0u32..5, best in 0u32..5, every in 0u64..7, max in any::<bool>()
        ) {
            let list = held(&list);
            let newest = list.iter().map(|h| h.step).max().unwrap();
            let goal = if max { Goal::Max } else { Goal::Min };
            let gone = dispensable(&list, newest, &keep(latest, best, every), goal);
            prop_assert!(!gone.contains(&newest));
            prop_assert!(gone.iter().all(|step| list.iter().any(|h| h.step == *step)));
            let left = list.iter().filter(|h| !gone.contains(&h.step)).count();
            prop_assert!(left >= 1);
            let gone_twice = dispensable(
                &list.iter().copied().filter(|h| !gone.contains(&h.step)).collect::<Vec<_>>(),
                newest, &keep(latest, best, every), goal,
            );
            prop_assert!(gone_twice.is_empty());
        }
    }
}
