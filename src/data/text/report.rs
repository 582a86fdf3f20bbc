//! What validation has to say about text.

use std::ops::Range;

use super::leak::Wanted;
use super::window::block_length;
use super::{BYTE_TOKENIZER, Stream};
use crate::config::TextData;
use crate::data::batch::Part;
use crate::data::dataset::Report;
use crate::data::split::{PartSamples, Selection};
use crate::run::PartSummary;

/// Counts, and held-out text that is in the training text.
pub(super) fn report(
    config: &TextData,
    streams: &[Stream],
    parts: &[PartSamples],
    length: usize,
) -> Report {
    let mut report = Report::default();
    let facts = streams[0].tokens.facts();
    let tokenizer = if config.tokenizer == BYTE_TOKENIZER {
        "bytes".to_string()
    } else {
        config.tokenizer.clone()
    };
    let end = facts
        .end_of_document
        .map_or("no end-of-document token".to_string(), |token| {
            format!("end of document {token}")
        });
    report.fact(
        "tokenizer",
        format!("{tokenizer}, vocabulary {}, {end}", facts.vocabulary),
    );
    report.fact("sequence", format!("{length} tokens"));
    for part in parts {
        let stream = &streams[part.source];
        report.parts.push(PartSummary {
            split: part.part.split().to_string(),
            samples: part.samples.len() as u64,
            classes: Vec::new(),
        });
        report.fact(
            &format!("tokens in {}", part.part.split()),
            (part.samples.len() * length).to_string(),
        );
        if part.part != Part::Train {
            report
                .warnings
                .extend(leakage(streams, parts, part, length));
        }
        let facts = stream.tokens.facts();
        let own = part.part == Part::Train || part.source > 0;
        if own && facts.empty > 0 {
            report.warnings.push(format!(
                "{} of {} documents of {} are empty",
                facts.empty,
                facts.documents,
                stream.path.display()
            ));
        }
        if own {
            report.warnings.extend(stream.rebuilt.clone());
        }
    }
    report.fact("documents in train", facts.documents.to_string());
    let is_divided = parts
        .iter()
        .any(|part| matches!(part.samples, Selection::Some(_)));
    if is_divided {
        let count = streams[0].tokens.len() / length;
        report.fact(
            "held out in blocks of",
            format!("{} sequences", block_length(count)),
        );
    }
    report
}

#[expect(clippy::cast_precision_loss, reason = "counts of windows")]
fn leakage(
    streams: &[Stream],
    parts: &[PartSamples],
    part: &PartSamples,
    length: usize,
) -> Option<String> {
    let train = parts.first()?;
    let starts: Vec<usize> = part.samples.iter().map(|window| window * length).collect();
    let wanted = Wanted::new(&streams[part.source].tokens, &starts, length);
    let runs = runs(&train.samples, length);
    let (found, looked_for) = wanted.found(&streams[train.source].tokens, &runs);
    (found > 0).then(|| {
        format!(
            "{found} of {looked_for} sequences looked at in {} ({:.2} %) begin with text that is in train, too",
            part.part.split(),
            100.0 * found as f64 / looked_for as f64
        )
    })
}

/// Token ranges of neighbouring windows.
fn runs(windows: &Selection, length: usize) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    if let Selection::All(count) = windows {
        return std::iter::once(0..count * length).collect();
    }
    for window in windows.iter() {
        let range = window * length..(window + 1) * length;
        match runs.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => runs.push(range),
        }
    }
    runs
}
