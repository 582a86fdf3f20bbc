//! Random samples of configured shapes, drawn once and held in memory: what a step costs can be
//! measured without files, and without the data path in the way.
//!
//! Refuses to: hold anything to learn. All samples are for training.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::batch::{AugmentKey, Input, InputShape, Part, Target, TargetShape};
use super::dataset::{Opened, Report, Samples};
use super::prepared::{Earlier, Preparation};
use crate::config::{SyntheticImages, SyntheticTable, SyntheticText};
use crate::plan::rng::{Purpose, Stream};
use crate::run::{Fault, PartSummary};

/// Most numbers that are held, over all samples.
const NUMBERS_MAX: u64 = 1 << 30;

/// Nothing is computed from random samples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct SyntheticPreparation;

/// Samples of one shape: numbers and codes of each, one sample after another.
struct Synthetic {
    count: usize,
    input: InputShape,
    /// Numeric columns or pixels.
    floats: Width<f32>,
    /// Categorical columns, or tokens with the one that follows the last.
    codes: Width<i32>,
    /// Classes; none where the target is the next token.
    labels: Vec<i32>,
}

/// Values of all samples, so many for each.
struct Width<T> {
    of_one: usize,
    values: Vec<T>,
}

impl<T: Copy + Default + Send> Width<T> {
    /// Draws `of_one` values for each of `count` samples.
    fn draw(
        count: usize,
        of_one: usize,
        seed: u64,
        what: Drawn,
        draw: impl Fn(&mut Stream, usize) -> T + Sync,
    ) -> Self {
        let mut values = vec![T::default(); count * of_one];
        let chunks = values.par_chunks_mut(of_one.max(1)).enumerate();
        chunks.for_each(|(sample, values)| {
            let mut stream = Stream::new(seed, Purpose::Synthetic, what as u64, sample as u64);
            for (place, value) in values.iter_mut().enumerate() {
                *value = draw(&mut stream, place);
            }
        });
        Self { of_one, values }
    }

    fn of(&self, sample: usize) -> &[T] {
        &self.values[sample * self.of_one..(sample + 1) * self.of_one]
    }

    fn gather(&self, places: &[usize]) -> Vec<T> {
        let mut gathered = Vec::with_capacity(places.len() * self.of_one);
        for &place in places {
            gathered.extend_from_slice(self.of(place));
        }
        gathered
    }
}

/// What a stream of random numbers is for.
#[derive(Clone, Copy)]
enum Drawn {
    Floats = 0,
    Codes = 1,
    Labels = 2,
}

/// Rows of a table.
///
/// # Errors
///
/// Usage when they would not fit in memory.
pub(super) fn table(
    config: &SyntheticTable,
    seed: u64,
    earlier: &Earlier,
) -> Result<Opened, Fault> {
    let categories: Vec<usize> = config.categories.iter().map(|&n| n as usize).collect();
    let numeric = config.numeric as usize;
    let shape = InputShape::Table {
        numeric,
        categories: categories.clone(),
    };
    open(
        config.samples,
        numeric + categories.len(),
        earlier,
        |count| {
            let codes = Width::draw(
                count,
                categories.len(),
                seed,
                Drawn::Codes,
                |stream, column| below(stream, categories[column]),
            );
            classified(count, shape, numeric, codes, config.classes, seed)
        },
    )
}

/// Pictures.
///
/// # Errors
///
/// Usage when they would not fit in memory.
pub(super) fn images(
    config: &SyntheticImages,
    seed: u64,
    earlier: &Earlier,
) -> Result<Opened, Fault> {
    let [height, width] = config.size.map(|side| side as usize);
    let channels = config.channels as usize;
    let shape = InputShape::Image {
        channels,
        height,
        width,
    };
    let pixels = channels * height * width;
    open(config.samples, pixels, earlier, |count| {
        let codes = Width {
            of_one: 0,
            values: Vec::new(),
        };
        classified(count, shape, pixels, codes, config.classes, seed)
    })
}

/// Sequences of tokens.
///
/// # Errors
///
/// Usage when they would not fit in memory.
pub(super) fn text(config: &SyntheticText, seed: u64, earlier: &Earlier) -> Result<Opened, Fault> {
    let length = config.sequence_length as usize;
    let vocabulary = config.vocabulary as usize;
    open(config.samples, length + 1, earlier, |count| {
        let samples = Synthetic {
            count,
            input: InputShape::Tokens { length, vocabulary },
            floats: Width {
                of_one: 0,
                values: Vec::new(),
            },
            codes: Width::draw(count, length + 1, seed, Drawn::Codes, |stream, _| {
                below(stream, vocabulary)
            }),
            labels: Vec::new(),
        };
        (samples, TargetShape::NextToken { vocabulary })
    })
}

/// Samples with a class each.
fn classified(
    count: usize,
    input: InputShape,
    floats: usize,
    codes: Width<i32>,
    classes: u32,
    seed: u64,
) -> (Synthetic, TargetShape) {
    let classes = classes as usize;
    let samples = Synthetic {
        count,
        input,
        floats: Width::draw(count, floats, seed, Drawn::Floats, |stream, _| unit(stream)),
        codes,
        labels: Width::draw(count, 1, seed, Drawn::Labels, |stream, _| {
            below(stream, classes)
        })
        .values,
    };
    let names = (0..classes).map(|class| class.to_string()).collect();
    (samples, TargetShape::Classes { names })
}

fn open(
    samples: u32,
    of_one: usize,
    earlier: &Earlier,
    draw: impl FnOnce(usize) -> (Synthetic, TargetShape),
) -> Result<Opened, Fault> {
    // Settings that changed since the run began are told of here; there are no files.
    earlier.check(&[])?;
    let numbers = u64::from(samples).saturating_mul(of_one as u64);
    if of_one == 0 {
        return Err(Fault::usage("the synthetic samples have no columns")
            .advise("set data.numeric or data.categories"));
    }
    if numbers > NUMBERS_MAX {
        return Err(Fault::usage(format!(
            "{samples} synthetic samples of {of_one} numbers are more than {NUMBERS_MAX} numbers"
        ))
        .advise("make data.samples smaller: random samples are held in memory"));
    }
    let (samples, target) = draw(samples as usize);
    let report = Report {
        parts: vec![PartSummary {
            split: Part::Train.split().to_string(),
            samples: samples.count as u64,
            classes: Vec::new(),
        }],
        ..Report::default()
    };
    Ok(Opened {
        files: Vec::new(),
        preparation: Preparation::Synthetic(SyntheticPreparation),
        input: samples.input.clone(),
        target,
        samples: Box::new(samples),
        report: Some(report),
    })
}

impl Samples for Synthetic {
    fn count(&self, part: Part) -> usize {
        if part == Part::Train { self.count } else { 0 }
    }

    fn batch(
        &self,
        _: Part,
        places: &[usize],
        _: Option<AugmentKey>,
    ) -> Result<(Input, Target), Fault> {
        let floats = self.floats.gather(places);
        let classes = || Target::Classes(places.iter().map(|&place| self.labels[place]).collect());
        Ok(match self.input {
            InputShape::Table { .. } => {
                let input = Input::Table {
                    numeric: floats,
                    categorical: self.codes.gather(places),
                };
                (input, classes())
            }
            InputShape::Image { .. } => (Input::Images { pixels: floats }, classes()),
            InputShape::Tokens { length, .. } => {
                let (mut ids, mut next) = (Vec::new(), Vec::new());
                for &place in places {
                    let tokens = self.codes.of(place);
                    ids.extend_from_slice(&tokens[..length]);
                    next.extend_from_slice(&tokens[1..]);
                }
                (Input::Tokens { ids }, Target::Tokens(next))
            }
        })
    }

    fn name(&self, _: Part, place: usize) -> String {
        format!("synthetic sample {place}")
    }
}

/// Uniform in 0..bound, which the config keeps far below 2^31.
fn below(stream: &mut Stream, bound: usize) -> i32 {
    i32::try_from(stream.below(bound as u64)).unwrap_or(0)
}

/// Uniform, with mean 0 and deviation 1, as prepared data have.
#[expect(
    clippy::cast_possible_truncation,
    reason = "model inputs are 32-bit numbers"
)]
fn unit(stream: &mut Stream) -> f32 {
    ((stream.uniform() - 0.5) * 12f64.sqrt()) as f32
}

#[cfg(test)]
mod tests {
    use crate::config::{Data, SyntheticImages, SyntheticTable, SyntheticText};
    use crate::data::{Batch, Dataset, Input, Part, Target, TargetShape};
    use crate::run::SampleId;

    fn open(data: &Data, seed: u64) -> (Dataset, Batch) {
        let dataset = Dataset::open(data, seed, None).unwrap();
        assert_eq!(dataset.samples(Part::Train), 5);
        assert_eq!(dataset.samples(Part::Test), 0);
        let ids = [3, 0, 4].map(SampleId::new);
        let batch = dataset.batch(Part::Train, &ids, None).unwrap();
        (dataset, batch)
    }

    fn table() -> Data {
        Data::SyntheticTable(SyntheticTable {
            samples: 5,
            numeric: 2,
            categories: vec![7, 1],
            classes: 3,
        })
    }

    #[test]
    fn shapes_are_as_configured() {
        let (dataset, batch) = open(&table(), 1);
        let Input::Table {
            numeric,
            categorical,
        } = &batch.input
        else {
            panic!("{batch:?}");
        };
        assert_eq!((numeric.len(), categorical.len()), (6, 6));
        assert!(
            categorical
                .chunks(2)
                .all(|row| (0..7).contains(&row[0]) && row[1] == 0)
        );
        assert!(matches!(dataset.target(), TargetShape::Classes { names } if names.len() == 3));
        assert!(matches!(&batch.target, Target::Classes(of) if of.iter().all(|&class| class < 3)));

        let images = Data::SyntheticImages(SyntheticImages {
            samples: 5,
            channels: 3,
            size: [4, 6],
            classes: 10,
        });
        let (_, batch) = open(&images, 1);
        assert!(matches!(&batch.input, Input::Images { pixels } if pixels.len() == 3 * 72));

        let text = Data::SyntheticText(SyntheticText {
            samples: 5,
            sequence_length: 8,
            vocabulary: 11,
        });
        let (_, batch) = open(&text, 1);
        let (Input::Tokens { ids }, Target::Tokens(next)) = (&batch.input, &batch.target) else {
            panic!("{batch:?}");
        };
        for (ids, next) in ids.chunks(8).zip(next.chunks(8)) {
            assert_eq!(ids[1..], next[..7]);
        }
    }

    #[test]
    fn samples_follow_from_the_seed() {
        assert_eq!(open(&table(), 1).1, open(&table(), 1).1);
        assert_ne!(open(&table(), 1).1, open(&table(), 2).1);
        let print = |seed| open(&table(), seed).0.summary().fingerprint.clone();
        assert_ne!(print(1), print(2));
    }

    #[test]
    fn what_does_not_fit_or_has_no_columns_is_refused() {
        let wide = Data::SyntheticImages(SyntheticImages {
            samples: u32::MAX,
            channels: 3,
            size: [16_384, 16_384],
            classes: 10,
        });
        let empty = Data::SyntheticTable(SyntheticTable {
            samples: 5,
            numeric: 0,
            categories: Vec::new(),
            classes: 2,
        });
        for (data, text) in [(wide, "data.samples"), (empty, "data.numeric")] {
            let fault = Dataset::open(&data, 0, None).unwrap_err();
            assert!(fault.advice.contains(text), "{fault:?}");
        }
    }
}
