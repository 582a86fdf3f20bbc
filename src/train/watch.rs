//! What evaluations decide: which checkpoint is the best, and whether training stops early.

use std::collections::BTreeMap;

use crate::checkpoint::{EarlyStoppingMemory, TrainState};
use crate::config::{Checkpoint, Config, EarlyStopping, Goal};
use crate::run::{Best, Event, Fault, Step};

/// Prefix of validation metrics in configs and checkpoints.
pub(super) const VALIDATION: &str = "validation/";

/// Remembers evaluations. All of it is part of a checkpoint.
#[derive(Clone, Debug)]
pub(super) struct MetricWatch {
    early_stopping: Option<EarlyStopping>,
    metric: String,
    goal: Goal,
    /// Memory of early stopping; `None` where it is not configured.
    pub(super) memory: Option<EarlyStoppingMemory>,
    /// Best value of the metric that checkpoints go by.
    pub(super) best: Option<Best>,
    /// Last evaluation by full name.
    pub(super) last_metrics: BTreeMap<String, f64>,
}

impl MetricWatch {
    pub(super) fn new(checkpoint: &Checkpoint, early_stopping: Option<&EarlyStopping>) -> Self {
        Self {
            early_stopping: early_stopping.cloned(),
            metric: checkpoint.metric.clone(),
            goal: checkpoint.goal,
            memory: early_stopping.map(|_| EarlyStoppingMemory::default()),
            best: None,
            last_metrics: BTreeMap::new(),
        }
    }

    /// Continues with what a checkpoint remembers. A memory of early stopping is taken only where it
    /// is still configured, and a best value only if it is of the same metric.
    pub(super) fn restore(&mut self, state: &TrainState) {
        if let (Some(mine), Some(memory)) = (&mut self.memory, &state.early_stopping) {
            *mine = memory.clone();
        }
        let best = state.best.as_ref();
        self.best = best.filter(|best| best.metric == self.metric).cloned();
        self.last_metrics.clone_from(&state.last_metrics);
    }

    /// Takes a validation. `scheduled` is false for the one at the end of training that no schedule
    /// asked for: it must not count for early stopping, or a run that is extended would stop at
    /// another step than one that was long from the beginning.
    pub(super) fn take(
        &mut self,
        step: Step,
        metrics: &BTreeMap<String, f64>,
        scheduled: bool,
    ) -> Vec<Event> {
        self.last_metrics = metrics
            .iter()
            .map(|(name, &value)| (format!("{VALIDATION}{name}"), value))
            .collect();
        let mut improved = Vec::new();
        let best = self.best.as_ref().map(|best| best.value);
        if let Some(&value) = self.last_metrics.get(&self.metric)
            && better(value, best, self.goal, 0.0)
        {
            let metric = self.metric.clone();
            improved.push((metric.clone(), value));
            self.best = Some(Best {
                metric,
                value,
                step,
            });
        }
        if let (Some(config), Some(memory), true) =
            (&self.early_stopping, &mut self.memory, scheduled)
        {
            // A metric that is not there, or not a number, is no improvement.
            let value = self.last_metrics.get(&config.metric).copied();
            match value.filter(|&v| better(v, memory.best, config.goal, config.min_delta)) {
                Some(value) => {
                    *memory = EarlyStoppingMemory {
                        best: Some(value),
                        best_step: step,
                        bad: 0,
                    };
                    improved.push((config.metric.clone(), value));
                }
                None => memory.bad = memory.bad.saturating_add(1),
            }
        }
        improved.dedup();
        improved
            .into_iter()
            .map(|(metric, value)| Event::Improved {
                step,
                metric,
                value,
            })
            .collect()
    }

    /// Whether patience has run out.
    pub(super) fn stops(&self) -> bool {
        match (&self.early_stopping, &self.memory) {
            (Some(config), Some(memory)) => memory.bad >= config.patience.max(1),
            _ => false,
        }
    }

    /// Last value of the metric that `best` checkpoints go by.
    pub(super) fn checkpoint_metric(&self) -> Option<f64> {
        self.last_metrics.get(&self.metric).copied()
    }
}

/// A config must not go by a metric that the run never measures: early stopping would stop every
/// run, and no checkpoint would be the best. `measured` are the names of validation metrics, none
/// when there is no validation part.
///
/// # Errors
///
/// A usage fault that lists what is measured.
pub(super) fn check(config: &Config, measured: &[String]) -> Result<(), Fault> {
    let stopping = config.train.early_stopping.as_ref();
    let stopping = stopping.map(|stopping| ("train.early_stopping.metric", &stopping.metric));
    let best = (config.checkpoint.keep.best > 0)
        .then_some(("checkpoint.metric", &config.checkpoint.metric));
    for (key, metric) in [stopping, best].into_iter().flatten() {
        let name = metric.strip_prefix(VALIDATION).unwrap_or(metric);
        if measured.iter().any(|measured| measured == name) {
            continue;
        }
        let fault = Fault::usage(format!(
            "{key} is \"{metric}\", which this run does not measure"
        ));
        return Err(if measured.is_empty() {
            fault.advise("give the data a validation part with `data.validation`")
        } else {
            fault.advise(format!("validation measures {}", measured.join(", ")))
        });
    }
    Ok(())
}

/// Whether `value` is better than `best` by more than `min_delta`; anything is better than nothing.
fn better(value: f64, best: Option<f64>, goal: Goal, min_delta: f64) -> bool {
    value.is_finite()
        && best.is_none_or(|best| match goal {
            Goal::Min => value < best - min_delta,
            Goal::Max => value > best + min_delta,
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Every, Keep};

    fn watch(goal: Goal, patience: u32, min_delta: f64) -> MetricWatch {
        let checkpoint = Checkpoint {
            every: Every::Never,
            keep: Keep {
                latest: 1,
                best: 1,
                every: 0,
            },
            metric: "validation/loss".into(),
            goal: Goal::Min,
        };
        let early_stopping = EarlyStopping {
            metric: "validation/x".into(),
            goal,
            patience,
            min_delta,
        };
        MetricWatch::new(&checkpoint, Some(&early_stopping))
    }

    fn metrics(x: f64, loss: f64) -> BTreeMap<String, f64> {
        BTreeMap::from([("x".into(), x), ("loss".into(), loss)])
    }

    #[test]
    fn patience_counts_evaluations_without_improvement() {
        let mut watch = watch(Goal::Max, 2, 0.1);
        for (step, x, bad) in [
            (1, 1.0, 0),
            (2, 1.05, 1),
            (3, 1.2, 0),
            (4, 1.3, 1),
            (5, 0.0, 2),
        ] {
            assert!(!watch.stops(), "{step}");
            watch.take(Step::new(step), &metrics(x, 1.0), true);
            assert_eq!(watch.memory.as_ref().unwrap().bad, bad, "{step}");
        }
        assert!(watch.stops());
        assert_eq!(watch.memory.as_ref().unwrap().best_step, Step::new(3));
    }

    #[test]
    fn nothing_and_nan_are_no_improvement() {
        let mut watch = watch(Goal::Min, 2, 0.0);
        watch.take(Step::new(1), &BTreeMap::new(), true);
        watch.take(Step::new(2), &metrics(f64::NAN, f64::NAN), true);
        assert!(watch.stops());
        assert_eq!(watch.best, None);
    }

    #[test]
    fn metrics_that_are_not_measured_are_refused() {
        let mut config = crate::train::tests::run::config();
        config.train.early_stopping = Some(EarlyStopping {
            metric: "validation/auroc".into(),
            goal: Goal::Max,
            patience: 1,
            min_delta: 0.0,
        });
        let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert!(check(&config, &names(&["loss", "auroc"])).is_ok());
        let fault = check(&config, &names(&["loss", "perplexity"])).unwrap_err();
        assert!(fault.message.contains("validation/auroc"), "{fault:?}");
        assert!(fault.advice.contains("loss, perplexity"), "{fault:?}");
        config.train.early_stopping = None;
        assert!(check(&config, &names(&["loss"])).is_ok());
        assert!(
            check(&config, &[])
                .unwrap_err()
                .advice
                .contains("data.validation")
        );
        config.checkpoint.keep.best = 0;
        assert!(check(&config, &[]).is_ok());
    }

    #[test]
    fn an_unscheduled_evaluation_counts_only_for_the_best() {
        let mut watch = watch(Goal::Min, 1, 0.0);
        let events = watch.take(Step::new(9), &metrics(1.0, 2.0), false);
        assert_eq!(events.len(), 1);
        assert_eq!(watch.best.as_ref().unwrap().step, Step::new(9));
        assert_eq!(watch.memory, Some(EarlyStoppingMemory::default()));
        assert_eq!(watch.checkpoint_metric(), Some(2.0));
    }
}
