//! Accuracy, top-k accuracy, macro F1 and AUROC of class predictions.

use serde::{Deserialize, Serialize};

use super::auroc::Scores;
use super::{mean, rank, share};

/// Measures logits against classes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ClassMeter {
    count: u64,
    loss: f64,
    /// Predicted and true, predicted, true: by class.
    tallies: Vec<Tally>,
    top: Option<(usize, u64)>,
    scores: Scores,
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Tally {
    hits: u64,
    predicted: u64,
    occurs: u64,
}

impl ClassMeter {
    pub(super) fn new(classes: usize, top_k: Option<usize>) -> Self {
        Self {
            count: 0,
            loss: 0.0,
            tallies: vec![Tally::default(); classes],
            top: top_k.map(|k| (k, 0)),
            scores: Scores::new(classes),
        }
    }

    pub(super) fn classes(&self) -> usize {
        self.tallies.len()
    }

    /// `logits` is `[rows, classes]`. A row whose logits hold a NaN predicts nothing; rows with a
    /// negative class do not count.
    pub(super) fn add(&mut self, logits: &[f32], classes: &[i32], losses: &[f32]) {
        let width = self.classes().max(1);
        for ((row, &class), &loss) in logits.chunks_exact(width).zip(classes).zip(losses) {
            let Ok(class) = usize::try_from(class) else {
                continue;
            };
            self.count += 1;
            self.loss += f64::from(loss);
            let guess = largest(row);
            if let Some(tally) = self.tallies.get_mut(class) {
                tally.occurs += 1;
                tally.hits += u64::from(guess == Some(class));
            }
            if let Some(tally) = guess.and_then(|guess| self.tallies.get_mut(guess)) {
                tally.predicted += 1;
            }
            if let Some((k, hits)) = &mut self.top {
                *hits += u64::from(rank(row, class).is_some_and(|rank| rank < *k));
            }
            self.scores.add(row, class);
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.loss += other.loss;
        for (mine, other) in self.tallies.iter_mut().zip(&other.tallies) {
            mine.hits += other.hits;
            mine.predicted += other.predicted;
            mine.occurs += other.occurs;
        }
        if let (Some((_, mine)), Some((_, other))) = (&mut self.top, &other.top) {
            *mine += other;
        }
        self.scores.merge(&other.scores);
    }

    /// All values; NaN where they are not defined.
    pub(super) fn values(&self) -> Vec<(String, f64)> {
        let hits = self.tallies.iter().map(|tally| tally.hits).sum();
        let mut values = vec![
            ("loss".to_string(), mean(self.loss, self.count)),
            ("accuracy".to_string(), share(hits, self.count)),
            ("f1".to_string(), self.macro_f1()),
        ];
        if let Some((k, hits)) = self.top {
            values.push((format!("top{k}_accuracy"), share(hits, self.count)));
        }
        let auroc = self.scores.auroc().unwrap_or(f64::NAN);
        values.push(("auroc".to_string(), auroc));
        values
    }

    /// Mean over the classes that occur or are predicted of 2 hits / (predicted + occurring).
    fn macro_f1(&self) -> f64 {
        let (mut sum, mut classes) = (0.0, 0);
        for tally in &self.tallies {
            let both = tally.predicted + tally.occurs;
            if both > 0 {
                sum += share(2 * tally.hits, both);
                classes += 1;
            }
        }
        mean(sum, classes)
    }
}

/// Index of the largest value, the first of equal ones; `None` with a NaN.
fn largest(row: &[f32]) -> Option<usize> {
    let mut best: Option<(usize, f32)> = None;
    for (index, &value) in row.iter().enumerate() {
        if value.is_nan() {
            return None;
        }
        if best.is_none_or(|(_, best)| value > best) {
            best = Some((index, value));
        }
    }
    best.map(|(index, _)| index)
}
