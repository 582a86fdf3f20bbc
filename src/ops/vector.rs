//! Functions of one number that the compiler can turn into vector instructions, and loops that let it.
//!
//! The library's `exp` and `erf` are calls, one number at a time. These are branch-free and correct to
//! a few units in the last place; a NaN stays one. Every operation in them is exactly rounded, so they
//! give the same bits with vectors of any width.
#![allow(
    clippy::inline_always,
    reason = "a function that is not inlined is compiled for the oldest processor, not for this one"
)]

/// Runs a loop compiled for the widest vectors this processor has.
///
/// The closure needs `#[inline(always)]`: on its own it would be compiled for the oldest processor, where
/// a fused multiplication and addition is a call.
#[inline(always)]
pub(crate) fn vectorized<T>(function: impl FnOnce() -> T) -> T {
    pulp::Arch::new().dispatch(function)
}

/// Added and taken away, it rounds a small number to an integer, which stands in its lowest bits.
const ROUNDER: f32 = 12_582_912.0;

/// Coefficients of the exponential's Taylor series from the highest down: 1/7!, ..., 1/1!.
const EXPONENTIAL: [f32; 7] = [
    1.0 / 5040.0,
    1.0 / 720.0,
    1.0 / 120.0,
    1.0 / 24.0,
    1.0 / 6.0,
    0.5,
    1.0,
];

/// The exponential; results below the least normal number are 0.
///
/// 2^n e^r with |r| <= ln 2 / 2, where the series' next term is below 1e-8.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    // As comparisons, because `max` and `min` would turn a NaN into a number.
    let bounded = if x < -87.336_54 { -87.336_54 } else { x };
    let bounded = if bounded > 88.722_84 {
        88.722_84
    } else {
        bounded
    };
    let shifted = bounded.mul_add(std::f32::consts::LOG2_E, ROUNDER);
    let n = shifted - ROUNDER;
    // ln 2 in two parts, of which the first has few enough bits to be multiplied exactly.
    let r = n.mul_add(-0.693_359_4, bounded);
    let r = n.mul_add(2.121_944_4e-4, r);
    let mut series = EXPONENTIAL[0];
    for coefficient in &EXPONENTIAL[1..] {
        series = series.mul_add(r, *coefficient);
    }
    let power = f32::from_bits(shifted.to_bits().wrapping_add(127) << 23);
    let value = series.mul_add(r, 1.0) * power;
    if x < -87.336_54 { 0.0 } else { value }
}

/// The logistic function.
#[inline(always)]
pub(crate) fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// Where the polynomial of [`normal`] has its variable: 1 / (1 + 0.26 |x|).
const TAIL_SCALE: f32 = 0.26;

/// From the highest down. Interpolates `exp(x^2 / 2) P(X > x) / t` at the Chebyshev nodes for |x| up to
/// 13.5; the largest relative error is 6e-8.
const TAIL: [f32; 9] = [
    0.032_369_81,
    -0.161_791_79,
    0.269_789_36,
    -0.171_623_4,
    0.175_052_8,
    0.045_091_815,
    0.104_531_9,
    0.102_808_29,
    0.103_771_21,
];

/// The normal distribution at `x`: probability of a smaller value, and density.
#[inline(always)]
pub(crate) fn normal(x: f32) -> (f32, f32) {
    const INVERSE_ROOT_TAU: f32 = 0.398_942_3;
    let bell = exp(-0.5 * x * x);
    let t = 1.0 / TAIL_SCALE.mul_add(x.abs(), 1.0);
    let mut series = TAIL[0];
    for coefficient in &TAIL[1..] {
        series = series.mul_add(t, *coefficient);
    }
    let tail = series * t * bell;
    let below = if x < 0.0 { tail } else { 1.0 - tail };
    (below, bell * INVERSE_ROOT_TAU)
}

/// Numbers that a sum goes over side by side.
const LANES: usize = 16;

/// The sum of `term(index)` over 0..`length`, in an order that depends on the length alone: sixteen
/// sums side by side, then those in pairs.
#[inline(always)]
pub(crate) fn sum(length: usize, term: impl Fn(usize) -> f32) -> f32 {
    let mut lanes = [0f32; LANES];
    let whole = length / LANES * LANES;
    let mut first = 0;
    while first < whole {
        for (lane, sum) in lanes.iter_mut().enumerate() {
            *sum += term(first + lane);
        }
        first += LANES;
    }
    for (lane, index) in (whole..length).enumerate() {
        lanes[lane] += term(index);
    }
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            lanes[lane] += lanes[lane + width];
        }
        width /= 2;
    }
    lanes[0]
}

/// As [`sum`], in 64 bits.
#[inline(always)]
pub(crate) fn sum_64(length: usize, term: impl Fn(usize) -> f32) -> f64 {
    let mut lanes = [0f64; LANES];
    let whole = length / LANES * LANES;
    let mut first = 0;
    while first < whole {
        for (lane, sum) in lanes.iter_mut().enumerate() {
            *sum += f64::from(term(first + lane));
        }
        first += LANES;
    }
    for (lane, index) in (whole..length).enumerate() {
        lanes[lane] += f64::from(term(index));
    }
    lanes.into_iter().sum()
}

/// The largest of some numbers, NaN if one is.
#[inline(always)]
pub(crate) fn largest(values: &[f32]) -> f32 {
    let mut lanes = [f32::NEG_INFINITY; LANES];
    let mut groups = values.chunks_exact(LANES);
    let larger = |most: f32, value: f32| {
        if value > most || value.is_nan() {
            value
        } else {
            most
        }
    };
    for group in &mut groups {
        for (most, &value) in lanes.iter_mut().zip(group) {
            *most = larger(*most, value);
        }
    }
    for (most, &value) in lanes.iter_mut().zip(groups.remainder()) {
        *most = larger(*most, value);
    }
    lanes.into_iter().fold(f32::NEG_INFINITY, larger)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points() -> impl Iterator<Item = f32> {
        (-30_000i16..=30_000).map(|i| f32::from(i) / 343.0)
    }

    #[test]
    fn the_exponential_is_exact_to_a_few_units() {
        for x in points().filter(|x| x.abs() < 87.0) {
            let wanted = f64::from(x).exp();
            let error = (f64::from(exp(x)) / wanted - 1.0).abs();
            assert!(error < 3e-7, "exp({x}) is off by {error}");
        }
        assert_eq!(exp(0.0).to_bits(), 1f32.to_bits());
        assert_eq!(exp(-200.0).to_bits(), 0f32.to_bits());
        assert_eq!(exp(f32::NEG_INFINITY).to_bits(), 0f32.to_bits());
        assert!(exp(200.0).is_infinite() && exp(f32::INFINITY).is_infinite());
        assert!(exp(f32::NAN).is_nan());
    }

    /// Simpson's rule over the density: slow, and independent of the polynomial.
    fn probability_above(x: f64) -> f64 {
        let density = |x: f64| (-0.5 * x * x).exp() / std::f64::consts::TAU.sqrt();
        let (steps, width) = (4_000, 12.0);
        let h = width / f64::from(steps);
        let inner: f64 = (1..steps)
            .map(|i| density(x + f64::from(i) * h) * if i % 2 == 1 { 4.0 } else { 2.0 })
            .sum();
        (density(x) + inner + density(x + width)) * h / 3.0
    }

    #[test]
    fn the_normal_distribution_is_exact_in_its_tails() {
        for step in 0..=120u8 {
            let x = f32::from(step) / 10.0;
            let above = probability_above(f64::from(x));
            let found = f64::from(normal(-x).0);
            // The exponent -x^2 / 2 itself is rounded to 24 bits.
            let bound = 1e-6 + f64::from(x * x) * 0.5 * 6e-8;
            assert!((found / above - 1.0).abs() < bound, "{x}: {found} {above}");
            let below = f64::from(normal(x).0);
            assert!((below - (1.0 - above)).abs() < 2e-7, "{x}: {below}");
        }
        assert!(normal(f32::NAN).0.is_nan());
    }

    #[test]
    fn sums_take_all_terms_and_nan_is_the_largest() {
        for length in [0usize, 1, 15, 16, 17, 100] {
            let values: Vec<f32> = (0..length)
                .map(|i| f32::from(u16::try_from(i).unwrap()))
                .collect();
            let wanted: f32 = values.iter().sum();
            assert!((sum(length, |i| values[i]) - wanted).abs() < 1e-3);
            assert!((sum_64(length, |i| values[i]) - f64::from(wanted)).abs() < 1e-3);
            let most = values.last().copied().unwrap_or(f32::NEG_INFINITY);
            assert_eq!(largest(&values).to_bits(), most.to_bits());
        }
        let mut values = [1f32; 40];
        values[3] = f32::NAN;
        assert!(largest(&values).is_nan());
    }
}
