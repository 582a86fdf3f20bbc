//! The one order in which shards are summed.
//!
//! Floating-point sums depend on their order, so the order is fixed by the number of shards: a binary
//! tree whose left half holds the largest power of two below the number of leaves. [`Sum`] builds it
//! from shards that arrive one after another and holds at most one value per level.

/// A sum in canonical order over shards that arrive in the order of their ids.
#[derive(Debug)]
pub struct Sum<T> {
    /// Partial sums with the number of shards in each, largest first.
    partial: Vec<(u64, T)>,
}

impl<T> Default for Sum<T> {
    fn default() -> Self {
        Self {
            partial: Vec::new(),
        }
    }
}

impl<T> Sum<T> {
    /// Takes the next shard; `add(a, b)` must give a + b.
    pub fn push(&mut self, value: T, mut add: impl FnMut(T, T) -> T) {
        self.partial.push((1, value));
        while let [.., (left, _), (right, _)] = self.partial[..]
            && left == right
        {
            self.merge(&mut add);
        }
    }

    /// The sum of all shards, or `None` when there were none.
    pub fn finish(mut self, mut add: impl FnMut(T, T) -> T) -> Option<T> {
        while self.partial.len() > 1 {
            self.merge(&mut add);
        }
        self.partial.pop().map(|(_, value)| value)
    }

    fn merge(&mut self, add: &mut impl FnMut(T, T) -> T) {
        if let (Some((right, b)), Some((left, a))) = (self.partial.pop(), self.partial.pop()) {
            self.partial.push((left + right, add(a, b)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tree by its definition, as text.
    fn defined(first: u32, count: u32) -> String {
        if count == 1 {
            return first.to_string();
        }
        let left = (count.next_power_of_two()) / 2;
        format!(
            "({}+{})",
            defined(first, left),
            defined(first + left, count - left)
        )
    }

    #[test]
    fn streaming_gives_the_defined_tree() {
        for count in 1..40 {
            let mut sum = Sum::default();
            for shard in 0..count {
                sum.push(shard.to_string(), |a, b| format!("({a}+{b})"));
                assert!(sum.partial.len() <= 7);
            }
            let text = sum.finish(|a, b| format!("({a}+{b})")).unwrap();
            assert_eq!(text, defined(0, count));
        }
        assert_eq!(Sum::<u32>::default().finish(|a, b| a + b), None);
    }
}
