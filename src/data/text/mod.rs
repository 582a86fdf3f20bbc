//! Text: documents become one stream of tokens, and windows of it are samples.
//!
//! Tokens are kept in a memory-mapped file in the cache folder, named by the content of the text
//! and the tokenizer; a missing or damaged one is made anew. Window `i` has the tokens from
//! `i * sequence_length` on; the targets are the same tokens one place further. Held-out fractions
//! are taken in blocks of whole windows, and a target that lies in another part is not counted.
//!
//! Refuses to: let a target cross from one part to another.

mod documents;
mod leak;
mod report;
mod tokenizer;
mod window;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

pub(super) use tokenizer::BYTE_TOKENIZER;

use self::documents::documents;
use self::report::report;
use self::tokenizer::Tokenizer;
use self::window::{divide_blocks, may_look_ahead, windows};
use super::batch::{AugmentKey, Input, InputShape, Part, Target, TargetShape};
use super::dataset::{Opened, Samples};
use super::prepared::{Earlier, FileRecord, Preparation};
use super::source::{Source, damaged, hex};
use super::split::{PartSamples, Parts, parts};
use super::token_file::{TokenFacts, TokenFile, TokenFileError};
use crate::config::{Split, TextData};
use crate::run::Fault;

/// Written for targets that are not counted.
const NOT_COUNTED: i32 = -1;

/// What text is prepared with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TextPreparation {
    /// Number of different tokens.
    vocabulary: u64,
    /// Token after each document.
    end_of_document: Option<u32>,
    /// Tokens of a sample.
    sequence_length: u32,
    /// Windows that are held out together.
    block: u64,
}

/// A token stream and where it came from.
struct Stream {
    path: PathBuf,
    tokens: TokenFile,
    /// Why the cached file could not be used, if there was a damaged one.
    rebuilt: Option<String>,
}

/// Reads, tokenises and divides the text of a config.
///
/// # Errors
///
/// See [`super::Dataset::open`].
pub(super) fn open(config: &TextData, seed: u64, earlier: &Earlier) -> Result<Opened, Fault> {
    let wanted = wanted(config);
    let tokenizer = Tokenizer::source(&config.tokenizer)?;
    let mut files: Vec<FileRecord> = tokenizer.iter().map(|t| t.record("tokenizer")).collect();
    let mut read = Vec::with_capacity(wanted.len());
    for &(role, path) in &wanted {
        let sources = documents::read(path)?;
        files.extend(sources.iter().map(|source| source.record(role)));
        read.push(sources);
    }
    let is_new = earlier.check(&files)?.is_none();
    let mut loaded = None;
    let mut streams = Vec::with_capacity(wanted.len());
    for (&(_, path), sources) in wanted.iter().zip(read) {
        streams.push(stream(
            config,
            path,
            &sources,
            tokenizer.as_ref(),
            &mut loaded,
        )?);
    }
    let length = config.sequence_length.max(1) as usize;
    let parts = divide_parts(config, seed, &streams, length)?;
    let facts = streams[0].tokens.facts();
    let vocabulary = usize::try_from(facts.vocabulary)
        .map_err(|_| damaged(&config.train, "its vocabulary is too large"))?;
    let preparation = TextPreparation {
        vocabulary: facts.vocabulary,
        end_of_document: facts.end_of_document,
        sequence_length: config.sequence_length,
        block: window::block_length(windows(streams[0].tokens.len(), length)) as u64,
    };
    let report = is_new.then(|| report(config, &streams, &parts, length));
    Ok(Opened {
        files,
        preparation: Preparation::Text(preparation),
        input: InputShape::Tokens { length, vocabulary },
        target: TargetShape::NextToken { vocabulary },
        samples: Box::new(TextSamples {
            streams,
            parts: Parts(parts),
            length,
        }),
        report,
    })
}

/// Sources, training first: what each is called in the record, and its path.
fn wanted(config: &TextData) -> Vec<(&'static str, &Path)> {
    let mut wanted = vec![("train", config.train.as_path())];
    for (role, split) in [("validation", &config.validation), ("test", &config.test)] {
        if let Split::Path(path) = split {
            wanted.push((role, path));
        }
    }
    wanted
}

/// Cuts the streams into windows and gives them to the parts.
fn divide_parts(
    config: &TextData,
    seed: u64,
    streams: &[Stream],
    length: usize,
) -> Result<Vec<PartSamples>, Fault> {
    let mut counts = Vec::with_capacity(streams.len());
    for stream in streams {
        let tokens = stream.tokens.len();
        let count = windows(tokens, length);
        if count == 0 {
            return Err(damaged(
                &stream.path,
                format_args!("it holds {tokens} tokens, fewer than one sequence of {length}"),
            )
            .advise("make data.sequence_length smaller, or give more text"));
        }
        counts.push(count);
    }
    let divided = divide_blocks(counts[0], &config.validation, &config.test, seed)?;
    Ok(parts(divided, &config.validation, &config.test, &counts))
}

/// The tokens of one part's files: from the cache, or made and put there.
fn stream(
    config: &TextData,
    path: &Path,
    sources: &[Source],
    tokenizer: Option<&Source>,
    loaded: &mut Option<Tokenizer>,
) -> Result<Stream, Fault> {
    let key = key(config, sources, tokenizer)?;
    let name = hex(&key);
    let place = config
        .cache
        .join(format!("{}.tokens", name.get(..32).unwrap_or(&name)));
    let rebuilt = match TokenFile::open(&place, &key) {
        Ok(tokens) => {
            return Ok(Stream {
                path: path.to_path_buf(),
                tokens,
                rebuilt: None,
            });
        }
        Err(TokenFileError::Missing) => None,
        Err(error) => Some(format!("{} was made anew: {error}", place.display())),
    };
    let tokenizer = match loaded {
        Some(tokenizer) => tokenizer,
        None => loaded.insert(Tokenizer::load(tokenizer)?),
    };
    let mut all = Vec::new();
    for source in sources {
        all.extend(documents(source, config)?);
    }
    let (tokens, facts): (Vec<u32>, TokenFacts) = tokenizer.tokens(path, &all)?;
    if tokens.is_empty() {
        return Err(damaged(path, "it holds no text"));
    }
    std::fs::create_dir_all(&config.cache)
        .map_err(|error| Fault::io("create", &config.cache, &error))?;
    TokenFile::write(&place, &key, facts, &tokens)
        .map_err(|error| Fault::io("write", &place, &error).advise("look at data.cache"))?;
    let tokens = TokenFile::open(&place, &key).map_err(|error| {
        Fault::machine(format!(
            "{} was just written and cannot be used: {error}",
            place.display()
        ))
        .advise("look at data.cache: another disk may help")
    })?;
    Ok(Stream {
        path: path.to_path_buf(),
        tokens,
        rebuilt,
    })
}

/// What the tokens depend on, hashed.
fn key(
    config: &TextData,
    sources: &[Source],
    tokenizer: Option<&Source>,
) -> Result<[u8; 32], Fault> {
    let contents: Vec<(&str, bool)> = sources
        .iter()
        .map(|source| {
            let is_jsonl = documents::is_jsonl(config.format, &source.path);
            (source.sha256.as_str(), is_jsonl)
        })
        .collect();
    let tokenizer = tokenizer.map_or(BYTE_TOKENIZER, |source| source.sha256.as_str());
    let text = serde_json::to_vec(&(1, tokenizer, &config.field, contents))
        .map_err(|error| Fault::internal(format!("cannot name the token file: {error}")))?;
    Ok(Sha256::digest(text).into())
}

/// Batches of windows.
struct TextSamples {
    streams: Vec<Stream>,
    parts: Parts,
    length: usize,
}

impl Samples for TextSamples {
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
        let tokens = &self.streams[part.source].tokens;
        let count = windows(tokens.len(), self.length);
        let mut ids = Vec::with_capacity(places.len() * self.length);
        let mut targets = Vec::with_capacity(places.len() * self.length);
        for window in places.iter().filter_map(|&place| part.samples.get(place)) {
            let start = window * self.length;
            // Vocabularies are below 2^24.
            let mut signed = tokens
                .tokens(start, self.length + 1)
                .map(|token| i32::try_from(token).unwrap_or(i32::MAX));
            let first = ids.len();
            ids.extend(signed.by_ref().take(self.length));
            targets.extend_from_slice(ids.get(first + 1..).unwrap_or_default());
            let ahead = signed
                .next()
                .filter(|_| may_look_ahead(&part.samples, window, count));
            targets.push(ahead.unwrap_or(NOT_COUNTED));
        }
        Ok((Input::Tokens { ids }, Target::Tokens(targets)))
    }

    fn name(&self, part: Part, place: usize) -> String {
        match self.parts.locate(part, place) {
            Some((stream, window)) => format!(
                "tokens {} to {} of {}",
                window * self.length,
                (window + 1) * self.length - 1,
                self.streams[stream].path.display()
            ),
            None => format!("sample {place}"),
        }
    }
}
