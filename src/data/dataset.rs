//! The one door to samples, whatever they are.

use std::path::Path;
use std::time::Instant;

use super::batch::{AugmentKey, Batch, Input, InputShape, Part, Target, TargetShape};
use super::prepared::{Earlier, FileRecord, Preparation};
use super::{image, synthetic, table, text};
use crate::config::Data;
use crate::run::{DataSummary, Fault, PartSummary, SampleId};

/// Samples of one kind of data. Places within a part are checked by [`Dataset`].
pub(super) trait Samples: Send + Sync {
    /// Samples of a part; 0 when there is no such part.
    fn count(&self, part: Part) -> usize;

    /// Inputs and targets of the samples at `places` of a part.
    fn batch(
        &self,
        part: Part,
        places: &[usize],
        augment: Option<AugmentKey>,
    ) -> Result<(Input, Target), Fault>;

    /// What a person would call the sample.
    fn name(&self, part: Part, place: usize) -> String;
}

/// What validation found, to be shown and recorded.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Report {
    /// Parts with their class counts.
    pub parts: Vec<PartSummary>,
    /// Label and value.
    pub facts: Vec<(String, String)>,
    /// What looks wrong.
    pub warnings: Vec<String>,
}

impl Report {
    /// Adds a fact.
    pub(super) fn fact(&mut self, label: &str, value: impl Into<String>) {
        self.facts.push((label.to_string(), value.into()));
    }
}

/// What opening one kind of data gives.
pub(super) struct Opened {
    /// All files that were read.
    pub files: Vec<FileRecord>,
    /// What was computed from the training split.
    pub preparation: Preparation,
    /// Shape of an input.
    pub input: InputShape,
    /// Shape of a target.
    pub target: TargetShape,
    /// The samples.
    pub samples: Box<dyn Samples>,
    /// What validation found; absent when an earlier attempt did it.
    pub report: Option<Report>,
}

/// All samples of an experiment, validated and prepared.
pub struct Dataset {
    input: InputShape,
    target: TargetShape,
    samples: Box<dyn Samples>,
    summary: DataSummary,
}

impl std::fmt::Debug for Dataset {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dataset")
            .field("input", &self.input)
            .field("target", &self.target)
            .field("fingerprint", &self.summary.fingerprint)
            .finish_non_exhaustive()
    }
}

impl Dataset {
    /// Reads, splits, validates and prepares the data. With a place for `prepared.json`: takes
    /// means, vocabularies and findings from there when an earlier attempt wrote them, after
    /// checking that the data are the same, else writes them.
    ///
    /// # Errors
    ///
    /// Usage for a wrong path, column or setting; damaged for bad content, and for files that
    /// changed since `prepared` was written; machine when reading or writing fails.
    pub fn open(config: &Data, seed: u64, prepared: Option<&Path>) -> Result<Dataset, Fault> {
        let began = Instant::now();
        let earlier = Earlier::read(config, seed, prepared)?;
        let (kind, opened) = match config {
            Data::Table(config) => ("table", table::open(config, seed, &earlier)?),
            Data::Images(config) => ("images", image::open(config, seed, &earlier)?),
            Data::Text(config) => ("text", text::open(config, seed, &earlier)?),
            Data::SyntheticTable(config) => ("table", synthetic::table(config, seed, &earlier)?),
            Data::SyntheticImages(config) => ("images", synthetic::images(config, seed, &earlier)?),
            Data::SyntheticText(config) => ("text", synthetic::text(config, seed, &earlier)?),
        };
        let mut summary = if let Some(found) = &earlier.prepared {
            found.summary.clone()
        } else {
            let report = opened.report.unwrap_or_default();
            let summary = DataSummary {
                kind: kind.to_string(),
                parts: report.parts,
                facts: report.facts,
                warnings: report.warnings,
                ..DataSummary::default()
            };
            let made = earlier.finish(opened.files, opened.preparation, summary)?;
            if let Some(path) = prepared {
                made.write(path)?;
            }
            made.summary
        };
        summary.seconds = began.elapsed().as_secs_f64();
        Ok(Dataset {
            input: opened.input,
            target: opened.target,
            samples: opened.samples,
            summary,
        })
    }

    /// Shape of one sample's input.
    #[must_use]
    pub fn input(&self) -> &InputShape {
        &self.input
    }

    /// What one sample's target is.
    #[must_use]
    pub fn target(&self) -> &TargetShape {
        &self.target
    }

    /// Samples of a part; 0 when there is no such part.
    #[must_use]
    pub fn samples(&self, part: Part) -> u64 {
        self.samples.count(part) as u64
    }

    /// What the data are, on one screen.
    #[must_use]
    pub fn summary(&self) -> &DataSummary {
        &self.summary
    }

    /// What a person would call a sample: `row 17 of train.csv.gz`.
    #[must_use]
    pub fn sample_name(&self, part: Part, id: SampleId) -> String {
        match self.place(part, id) {
            Some(place) => self.samples.name(part, place),
            None => format!("sample {id} of {} (there is none)", part.split()),
        }
    }

    /// The samples with these ids in host memory, in that order. With `augment`, images are changed
    /// as the config says, each depending on seed, epoch and sample alone.
    ///
    /// # Errors
    ///
    /// Internal when there is no such sample; damaged when a file that is read late is bad.
    pub fn batch(
        &self,
        part: Part,
        ids: &[SampleId],
        augment: Option<AugmentKey>,
    ) -> Result<Batch, Fault> {
        let mut places = Vec::with_capacity(ids.len());
        for &id in ids {
            places.push(self.place(part, id).ok_or_else(|| {
                Fault::internal(format!(
                    "sample {id} of part {} was asked for, which has {}",
                    part.split(),
                    self.samples(part)
                ))
            })?);
        }
        let (input, target) = self.samples.batch(part, &places, augment)?;
        Ok(Batch {
            ids: ids.to_vec(),
            input,
            target,
        })
    }

    fn place(&self, part: Part, id: SampleId) -> Option<usize> {
        usize::try_from(id.get())
            .ok()
            .filter(|&place| place < self.samples.count(part))
    }
}
