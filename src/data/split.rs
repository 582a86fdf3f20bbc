//! Seeded choice of held-out samples.

use super::batch::Part;
use crate::config::Split;
use crate::plan::Permutation;
use crate::plan::rng::Purpose;
use crate::run::Fault;

/// Samples of a source that belong to a part, in increasing order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Selection {
    /// All of the source, which has this many.
    All(usize),
    /// These.
    Some(Vec<u32>),
}

impl Selection {
    /// Number of samples.
    pub(super) fn len(&self) -> usize {
        match self {
            Selection::All(len) => *len,
            Selection::Some(list) => list.len(),
        }
    }

    /// Index in the source of the `place`-th sample, if there is one.
    pub(super) fn get(&self, place: usize) -> Option<usize> {
        match self {
            Selection::All(len) => (place < *len).then_some(place),
            Selection::Some(list) => list.get(place).map(|&index| index as usize),
        }
    }

    /// Indices in the source, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.len()).filter_map(|place| self.get(place))
    }

    /// Whether the source's sample `index` is one of them.
    pub(super) fn contains(&self, index: usize) -> bool {
        match self {
            Selection::All(len) => index < *len,
            Selection::Some(list) => {
                u32::try_from(index).is_ok_and(|index| list.binary_search(&index).is_ok())
            }
        }
    }
}

/// How the training source is divided. Parts with files of their own are not in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Divided {
    /// What is trained on.
    pub train: Selection,
    /// Held out as a fraction, if asked for.
    pub validation: Option<Selection>,
    /// Held out as a fraction, if asked for.
    pub test: Option<Selection>,
}

/// Divides the `count` samples of the training source: a seeded permutation gives its first places
/// to validation, the next to test and the rest to training.
///
/// # Errors
///
/// When nothing is left to train on, or there are more samples than indices.
pub(super) fn divide(
    count: usize,
    validation: &Split,
    test: &Split,
    seed: u64,
) -> Result<Divided, Fault> {
    let all = u32::try_from(count)
        .map_err(|_| Fault::damaged(format!("{count} samples are more than can be numbered")))?;
    let (wanted_validation, wanted_test) = (share(validation, count), share(test, count));
    let held_out = wanted_validation.unwrap_or(0) + wanted_test.unwrap_or(0);
    if held_out == 0 {
        return Ok(Divided {
            train: Selection::All(count),
            validation: None,
            test: None,
        });
    }
    if held_out >= count {
        return Err(Fault::usage(format!(
            "the held-out fractions take {held_out} of {count} samples and leave none to train on"
        ))
        .advise("make data.validation and data.test smaller"));
    }
    let order = Permutation::new(u64::from(all), seed, Purpose::Split, 0);
    let mut part_of = vec![0u8; count];
    for place in 0..held_out {
        let index = usize::try_from(order.at(place as u64)).unwrap_or(0);
        part_of[index] = if place < wanted_validation.unwrap_or(0) {
            1
        } else {
            2
        };
    }
    let of = |part: u8| -> Selection {
        Selection::Some(
            (0..all)
                .filter(|&index| part_of[index as usize] == part)
                .collect(),
        )
    };
    Ok(Divided {
        train: of(0),
        validation: wanted_validation.map(|_| of(1)),
        test: wanted_test.map(|_| of(2)),
    })
}

/// A part of the data: its source and which of the source's samples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PartSamples {
    /// Which part.
    pub part: Part,
    /// Place of its source among those that were read; 0 is the training source.
    pub source: usize,
    /// Its samples.
    pub samples: Selection,
}

/// The parts of a data set, looked up by name.
pub(super) struct Parts(pub(super) Vec<PartSamples>);

impl Parts {
    /// Samples of a part; 0 when there is no such part.
    pub(super) fn count(&self, part: Part) -> usize {
        self.find(part).map_or(0, |found| found.samples.len())
    }

    /// A part.
    ///
    /// # Errors
    ///
    /// Internal when there is no such part: whoever asks for samples has counted them before.
    pub(super) fn get(&self, part: Part) -> Result<&PartSamples, Fault> {
        self.find(part)
            .ok_or_else(|| Fault::internal(format!("the data have no {} part", part.split())))
    }

    /// Source and index in it of the sample at `place` of a part, if there is one.
    pub(super) fn locate(&self, part: Part, place: usize) -> Option<(usize, usize)> {
        let found = self.find(part)?;
        Some((found.source, found.samples.get(place)?))
    }

    fn find(&self, part: Part) -> Option<&PartSamples> {
        self.0.iter().find(|found| found.part == part)
    }
}

/// The parts there are, training first. `counts` has the samples of each source: the training
/// source, then those of parts with files of their own.
pub(super) fn parts(
    divided: Divided,
    validation: &Split,
    test: &Split,
    counts: &[usize],
) -> Vec<PartSamples> {
    let mut parts = vec![PartSamples {
        part: Part::Train,
        source: 0,
        samples: divided.train,
    }];
    let mut own = counts.iter().copied().enumerate().skip(1);
    for (part, split, chosen) in [
        (Part::Validation, validation, divided.validation),
        (Part::Test, test, divided.test),
    ] {
        let found = match (chosen, split) {
            (Some(samples), _) => Some((0, samples)),
            (None, Split::Path(_)) => own
                .next()
                .map(|(source, count)| (source, Selection::All(count))),
            (None, _) => None,
        };
        parts.extend(found.map(|(source, samples)| PartSamples {
            part,
            source,
            samples,
        }));
    }
    parts
}

/// Samples that a fraction asks for, at least one; nothing when the split is no fraction.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts stay below 2^32, fractions between 0 and 1"
)]
fn share(split: &Split, count: usize) -> Option<usize> {
    match split {
        Split::Fraction(fraction) => Some(((count as f64 * fraction).round() as usize).max(1)),
        Split::None | Split::Path(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn parts_are_disjoint_and_complete(
            count in 3usize..2000, validation in 0.01f64..0.45, test in 0.01f64..0.45, seed: u64
        ) {
            let divided = divide(count, &Split::Fraction(validation), &Split::Fraction(test), seed).unwrap();
            let again = divide(count, &Split::Fraction(validation), &Split::Fraction(test), seed).unwrap();
            prop_assert_eq!(&divided, &again);
            let (v, t) = (divided.validation.unwrap(), divided.test.unwrap());
            let mut all: Vec<usize> = divided.train.iter().chain(v.iter()).chain(t.iter()).collect();
            for index in v.iter() {
                prop_assert!(v.contains(index) && !divided.train.contains(index) && !t.contains(index));
            }
            all.sort_unstable();
            prop_assert_eq!(all, (0..count).collect::<Vec<_>>());
        }
    }

    #[test]
    fn seeds_choose_differently() {
        let of = |seed| divide(1000, &Split::Fraction(0.1), &Split::None, seed).unwrap();
        assert_ne!(of(1), of(2));
        assert_eq!(of(1).validation.unwrap().len(), 100);
        assert_eq!(of(1).test, None);
    }

    #[test]
    fn nothing_to_train_on_is_refused() {
        assert!(divide(1, &Split::Fraction(0.1), &Split::None, 0).is_err());
        assert!(divide(10, &Split::Fraction(0.5), &Split::Fraction(0.5), 0).is_err());
        assert!(divide(0, &Split::Fraction(0.5), &Split::None, 0).is_err());
    }
}
