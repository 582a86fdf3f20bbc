//! Area under the ROC curve, exact: the share of pairs (positive, negative) in which the positive one
//! has the higher score, ties counting half (Mann and Whitney 1947).

use serde::{Deserialize, Serialize};

use super::mean;

/// Most scores that are kept, 64 MiB of them. Beyond it AUROC is not reported: an approximation
/// under the same name would be a lie.
pub(super) const AUROC_SCORES_MAX: usize = 1 << 24;

/// Scores of all rows seen. Two classes need one score per row, the difference of the logits; more
/// need one per class, the log-probability, for one class against the rest.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Scores {
    classes: usize,
    /// Scores by class against the rest; one list for two classes.
    lists: Vec<Vec<f32>>,
    truth: Vec<u32>,
    complete: bool,
}

impl Scores {
    pub(super) fn new(classes: usize) -> Self {
        let lists = match classes {
            0 | 1 => 0,
            2 => 1,
            more => more,
        };
        Self {
            classes,
            lists: vec![Vec::new(); lists],
            truth: Vec::new(),
            complete: true,
        }
    }

    pub(super) fn add(&mut self, logits: &[f32], class: usize) {
        if !self.complete || self.lists.is_empty() {
            return;
        }
        if (self.truth.len() + 1) * self.lists.len() > AUROC_SCORES_MAX {
            self.give_up();
            return;
        }
        self.truth.push(u32::try_from(class).unwrap_or(u32::MAX));
        if let ([list], [negative, positive]) = (&mut self.lists[..], logits) {
            list.push(positive - negative);
            return;
        }
        let log_sum = log_sum_exp(logits);
        for (list, &logit) in self.lists.iter_mut().zip(logits) {
            list.push(narrow(f64::from(logit) - log_sum));
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        let rows = self.truth.len() + other.truth.len();
        if !self.complete || !other.complete || rows * self.lists.len() > AUROC_SCORES_MAX {
            self.give_up();
            return;
        }
        for (mine, other) in self.lists.iter_mut().zip(&other.lists) {
            mine.extend_from_slice(other);
        }
        self.truth.extend_from_slice(&other.truth);
    }

    fn give_up(&mut self) {
        self.complete = false;
        self.lists = vec![Vec::new(); self.lists.len()];
        self.truth = Vec::new();
    }

    /// The area for two classes; for more the mean over the classes that have both positives and
    /// negatives. `None` when there is none, when a score is NaN or too many were seen.
    pub(super) fn auroc(&self) -> Option<f64> {
        if !self.complete || self.lists.iter().flatten().any(|score| score.is_nan()) {
            return None;
        }
        let (mut sum, mut classes) = (0.0, 0);
        for (index, list) in self.lists.iter().enumerate() {
            let positive = if self.classes == 2 { 1 } else { index };
            if let Some(value) = area(list, &self.truth, positive) {
                sum += value;
                classes += 1;
            }
        }
        (classes > 0).then(|| mean(sum, classes))
    }
}

/// The area for one class; counts in integers, of half pairs, so nothing is rounded before the end.
#[expect(clippy::cast_precision_loss, reason = "the quotient is rounded once")]
fn area(scores: &[f32], truth: &[u32], positive: usize) -> Option<f64> {
    let mut order: Vec<(f32, bool)> = scores
        .iter()
        .zip(truth)
        // Adding 0 makes -0 and 0 one score.
        .map(|(&score, &class)| (score + 0.0, class as usize == positive))
        .collect();
    order.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let (mut half_pairs, mut negatives) = (0u128, 0u128);
    for tied in order.chunk_by(|a, b| a.0.total_cmp(&b.0).is_eq()) {
        let here = tied.iter().filter(|(_, positive)| *positive).count() as u128;
        let others = tied.len() as u128 - here;
        half_pairs += here * (2 * negatives + others);
        negatives += others;
    }
    let pairs = negatives * (order.len() as u128 - negatives);
    (pairs > 0).then(|| half_pairs as f64 / (2 * pairs) as f64)
}

fn log_sum_exp(logits: &[f32]) -> f64 {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let largest = f64::from(largest);
    let sum: f64 = logits
        .iter()
        .map(|&logit| (f64::from(logit) - largest).exp())
        .sum();
    largest + sum.ln()
}

#[expect(clippy::cast_possible_truncation, reason = "scores are kept in f32")]
fn narrow(value: f64) -> f32 {
    value as f32
}
