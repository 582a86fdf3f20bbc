//! Documents become tokens.

use std::path::Path;

use rayon::prelude::*;
use tokenizers::Tokenizer as Loaded;

use crate::data::source::{Source, damaged};
use crate::data::token_file::TokenFacts;
use crate::run::Fault;

/// What `data.tokenizer` says for bytes.
pub(in crate::data) const BYTE_TOKENIZER: &str = "byte";

/// Token after each document of the byte tokenizer.
const BYTE_END: u32 = 256;

/// Largest `tokenizer.json`.
const BYTES_MAX: u64 = 256 << 20;

/// Largest vocabulary; tokens travel as `i32`.
const VOCABULARY_MAX: u64 = 1 << 24;

/// Bytes from which a document is handed to the tokenizer in pieces, cut before the first line
/// that begins after them. Only a token that would cross such a cut can come out differently.
const PIECE_BYTES: usize = 1 << 20;

/// Names under which tokenizers know the end of a document, most telling first.
const END_NAMES: [&str; 8] = [
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|im_end|>",
    "</s>",
    "<eos>",
    "[EOS]",
    "<|eot_id|>",
    "[SEP]",
];

/// A tokenizer.
pub(super) enum Tokenizer {
    /// One token per byte.
    Byte,
    /// From a `tokenizer.json` (Hugging Face).
    File(Box<Loaded>),
}

impl Tokenizer {
    /// Reads the file of a tokenizer without understanding it; nothing for bytes.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub(super) fn source(name: &str) -> Result<Option<Source>, Fault> {
        if name == BYTE_TOKENIZER {
            return Ok(None);
        }
        Source::read(Path::new(name), BYTES_MAX)
            .map(Some)
            .map_err(|fault| {
                let advice = format!(
                    "{}{}data.tokenizer is \"{BYTE_TOKENIZER}\" or the path of a tokenizer.json",
                    fault.advice,
                    if fault.advice.is_empty() { "" } else { "; " }
                );
                fault.advise(advice)
            })
    }

    /// Understands it.
    ///
    /// # Errors
    ///
    /// Damaged when it is no tokenizer.
    pub(super) fn load(source: Option<&Source>) -> Result<Self, Fault> {
        let Some(source) = source else {
            return Ok(Tokenizer::Byte);
        };
        // Parsing text is compiled once, in the library; parsing bytes would be compiled here.
        let text = std::str::from_utf8(&source.bytes)
            .map_err(|error| damaged(&source.path, format_args!("it is not UTF-8: {error}")))?;
        let mut loaded: Loaded = text.parse().map_err(|error| {
            damaged(
                &source.path,
                format_args!("it is no tokenizer.json: {error}"),
            )
        })?;
        // Samples are cut here, not by settings that came with a model.
        loaded.with_padding(None);
        loaded
            .with_truncation(None)
            .map_err(|error| damaged(&source.path, error))?;
        Ok(Tokenizer::File(Box::new(loaded)))
    }

    /// All documents as one stream, each followed by the end-of-document token where there is one.
    ///
    /// # Errors
    ///
    /// Damaged when a document cannot be tokenised or the vocabulary is too large.
    pub(super) fn tokens(
        &self,
        path: &Path,
        documents: &[String],
    ) -> Result<(Vec<u32>, TokenFacts), Fault> {
        let (vocabulary, end) = match self {
            Tokenizer::Byte => (u64::from(BYTE_END) + 1, Some(BYTE_END)),
            Tokenizer::File(loaded) => {
                let largest = loaded.get_vocab(true).into_values().max();
                let end = END_NAMES.iter().find_map(|name| loaded.token_to_id(name));
                (largest.map_or(0, |largest| u64::from(largest) + 1), end)
            }
        };
        if vocabulary == 0 || vocabulary > VOCABULARY_MAX {
            return Err(damaged(
                path,
                format_args!("a vocabulary of {vocabulary} tokens cannot be used"),
            ));
        }
        let mut facts = TokenFacts {
            vocabulary,
            documents: documents.len() as u64,
            empty: 0,
            end_of_document: end,
        };
        let encoded = documents
            .par_iter()
            .map(|document| self.encode(path, document))
            .collect::<Result<Vec<_>, Fault>>()?;
        let mut stream = Vec::with_capacity(encoded.iter().map(|tokens| tokens.len() + 1).sum());
        for tokens in encoded {
            if tokens.is_empty() {
                facts.empty += 1;
                continue;
            }
            stream.extend(tokens);
            stream.extend(end);
        }
        if stream.iter().any(|&token| u64::from(token) >= vocabulary) {
            return Err(damaged(
                path,
                "the tokenizer gave a token beyond its vocabulary",
            ));
        }
        Ok((stream, facts))
    }

    fn encode(&self, path: &Path, document: &str) -> Result<Vec<u32>, Fault> {
        match self {
            Tokenizer::Byte => Ok(document.bytes().map(u32::from).collect()),
            Tokenizer::File(loaded) => {
                let parts = pieces(document)
                    .par_iter()
                    .map(|piece| {
                        let encoding = loaded.encode_fast(*piece, false).map_err(|error| {
                            damaged(path, format_args!("it cannot be tokenised: {error}"))
                        })?;
                        Ok(encoding.get_ids().to_vec())
                    })
                    .collect::<Result<Vec<_>, Fault>>()?;
                Ok(parts.concat())
            }
        }
    }
}

/// Cuts a long document before lines.
fn pieces(document: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = document;
    while rest.len() > PIECE_BYTES {
        let Some(newline) = rest
            .as_bytes()
            .iter()
            .skip(PIECE_BYTES)
            .position(|&byte| byte == b'\n')
        else {
            break;
        };
        // A newline is a character of its own in UTF-8: the cut is between characters.
        let (piece, after) = rest.split_at(PIECE_BYTES + newline + 1);
        pieces.push(piece);
        rest = after;
    }
    if !rest.is_empty() {
        pieces.push(rest);
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_tokens_and_documents_end() {
        let documents = ["hé".to_string(), String::new(), "b".to_string()];
        let (tokens, facts) = Tokenizer::Byte.tokens(Path::new("t"), &documents).unwrap();
        assert_eq!(tokens, [104, 195, 169, 256, 98, 256]);
        assert_eq!(
            facts,
            TokenFacts {
                vocabulary: 257,
                documents: 3,
                empty: 1,
                end_of_document: Some(256)
            }
        );
    }

    #[test]
    fn pieces_are_the_whole_cut_at_lines() {
        let line = format!("{}é\n", "x".repeat(1000));
        let document = line.repeat(5000);
        let pieces = pieces(&document);
        assert!(pieces.len() >= 4, "{}", pieces.len());
        assert!(pieces.iter().all(|piece| piece.ends_with('\n')));
        assert_eq!(pieces.concat(), document);
    }

    #[test]
    fn a_tokenizer_file_is_followed() {
        let json = r#"{"version":"1.0","truncation":null,"padding":null,
            "added_tokens":[{"id":9,"content":"</s>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true}],
            "normalizer":null,"pre_tokenizer":{"type":"Whitespace"},"post_processor":null,"decoder":null,
            "model":{"type":"WordLevel","vocab":{"hello":0,"world":1,"?":2},"unk_token":"?"}}"#;
        let source = Source {
            path: "tokenizer.json".into(),
            bytes: json.as_bytes().to_vec(),
            sha256: String::new(),
            stored: 0,
        };
        let tokenizer = Tokenizer::load(Some(&source)).unwrap();
        let documents = ["world hello strange".to_string()];
        let (tokens, facts) = tokenizer.tokens(Path::new("t"), &documents).unwrap();
        // The library gives added tokens the next free numbers.
        assert_eq!(tokens, [1, 0, 2, 3]);
        assert_eq!((facts.vocabulary, facts.end_of_document), (4, Some(3)));
        let broken = Source {
            bytes: b"{}".to_vec(),
            ..source
        };
        assert!(Tokenizer::load(Some(&broken)).is_err());
    }
}
