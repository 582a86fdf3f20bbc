//! Loss, perplexity and accuracy of next-token predictions.

use serde::{Deserialize, Serialize};

use super::{mean, rank, share};

/// Measures logits against following tokens.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct TokenMeter {
    count: u64,
    loss: f64,
    hits: u64,
    top: Option<(usize, u64)>,
}

impl TokenMeter {
    pub(super) fn new(top_k: Option<usize>) -> Self {
        Self {
            count: 0,
            loss: 0.0,
            hits: 0,
            top: top_k.map(|k| (k, 0)),
        }
    }

    /// `logits` is `[rows, vocabulary]`; tokens below 0 do not count.
    pub(super) fn add(&mut self, logits: &[f32], tokens: &[i32], losses: &[f32]) {
        let width = logits.len().checked_div(tokens.len()).unwrap_or(0).max(1);
        for ((row, &token), &loss) in logits.chunks_exact(width).zip(tokens).zip(losses) {
            let Ok(token) = usize::try_from(token) else {
                continue;
            };
            self.count += 1;
            self.loss += f64::from(loss);
            if let Some(rank) = rank(row, token) {
                self.hits += u64::from(rank == 0);
                if let Some((k, hits)) = &mut self.top {
                    *hits += u64::from(rank < *k);
                }
            }
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.loss += other.loss;
        self.hits += other.hits;
        if let (Some((_, mine)), Some((_, other))) = (&mut self.top, &other.top) {
            *mine += other;
        }
    }

    /// All values; NaN where they are not defined.
    pub(super) fn values(&self) -> Vec<(String, f64)> {
        let loss = mean(self.loss, self.count);
        let mut values = vec![
            ("loss".to_string(), loss),
            ("perplexity".to_string(), loss.exp()),
            ("accuracy".to_string(), share(self.hits, self.count)),
        ];
        if let Some((k, hits)) = self.top {
            values.push((format!("top{k}_accuracy"), share(hits, self.count)));
        }
        values
    }
}
