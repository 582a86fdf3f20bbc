//! Many measurements of one thing as three numbers.

/// The middle of measurements, and how far they lie around it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    /// Half of them are smaller.
    pub median: f64,
    /// One in ten is smaller.
    pub p10: f64,
    /// One in ten is larger.
    pub p90: f64,
}

impl Spread {
    /// Of measurements in any order; all 0 when there are none.
    #[must_use]
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        Self {
            median: quantile(&values, 0.5),
            p10: quantile(&values, 0.1),
            p90: quantile(&values, 0.9),
        }
    }

    /// Each of the three, changed.
    #[must_use]
    pub fn map(self, change: impl Fn(f64) -> f64) -> Self {
        Self {
            median: change(self.median),
            p10: change(self.p10),
            p90: change(self.p90),
        }
    }
}

/// On a straight line between the two values around the place, as numpy does it.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "places of a list, and shares between 0 and 1"
)]
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let place = share * sorted.len().saturating_sub(1) as f64;
    let below = place.floor() as usize;
    let at = |index: usize| sorted.get(index).or(sorted.last()).copied().unwrap_or(0.0);
    at(below) + (at(below + 1) - at(below)) * place.fract()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_lie_between_the_values() {
        assert_eq!(Spread::of([]), Spread::default());
        let one = Spread::of([3.0]);
        assert_eq!((one.p10, one.median, one.p90), (3.0, 3.0, 3.0));
        let many = Spread::of((0..=10).rev().map(f64::from));
        assert_eq!((many.p10, many.median, many.p90), (1.0, 5.0, 9.0));
        let two = Spread::of([2.0, 1.0]).map(|value| value * 10.0);
        assert!((two.p90 - 19.0).abs() < 1e-9, "{two:?}");
    }
}
