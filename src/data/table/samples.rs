//! Batches of rows.

use std::path::PathBuf;

use super::encode::{Encoded, EncodedLabel};
use super::raw::RawTable;
use crate::data::batch::{AugmentKey, Input, Part, Target};
use crate::data::dataset::Samples;
use crate::data::source::file_name;
use crate::data::split::{PartSamples, Parts};
use crate::run::Fault;

/// Encoded tables with the rows of each part.
pub(super) struct TableSamples {
    tables: Vec<Encoded>,
    paths: Vec<PathBuf>,
    parts: Parts,
}

impl TableSamples {
    pub(super) fn new(tables: Vec<Encoded>, raw: &[RawTable], parts: Vec<PartSamples>) -> Self {
        Self {
            tables,
            paths: raw.iter().map(|table| table.path.clone()).collect(),
            parts: Parts(parts),
        }
    }
}

impl Samples for TableSamples {
    fn count(&self, part: Part) -> usize {
        self.parts.count(part)
    }

    fn batch(
        &self,
        part: Part,
        places: &[usize],
        _augment: Option<AugmentKey>,
    ) -> Result<(Input, Target), Fault> {
        let part = self.parts.get(part)?;
        let table = &self.tables[part.source];
        let rows: Vec<usize> = places
            .iter()
            .filter_map(|&place| part.samples.get(place))
            .collect();
        let mut numeric = Vec::with_capacity(rows.len() * table.numeric.len());
        let mut categorical = Vec::with_capacity(rows.len() * table.categorical.len());
        for &row in &rows {
            numeric.extend(table.numeric.iter().map(|column| column[row]));
            categorical.extend(table.categorical.iter().map(|column| column[row]));
        }
        let target = match &table.label {
            EncodedLabel::Classes(labels) => {
                Target::Classes(rows.iter().map(|&row| labels[row]).collect())
            }
            EncodedLabel::Values(labels) => {
                Target::Values(rows.iter().map(|&row| labels[row]).collect())
            }
        };
        Ok((
            Input::Table {
                numeric,
                categorical,
            },
            target,
        ))
    }

    fn name(&self, part: Part, place: usize) -> String {
        match self.parts.locate(part, place) {
            Some((table, row)) => {
                format!("row {} of {}", row + 1, file_name(&self.paths[table]))
            }
            None => format!("sample {place}"),
        }
    }
}
