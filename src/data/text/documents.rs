//! Text files become documents.

use std::path::{Path, PathBuf};

use rayon::prelude::*;
use serde_json::Value;

use crate::config::{TextData, TextFormat};
use crate::data::nearest::nearest;
use crate::data::source::{Source, damaged, missing};
use crate::run::Fault;

/// Largest file, before and after decompression.
const FILE_BYTES_MAX: u64 = 8 << 30;

/// Most bytes of all files of a part.
const TOTAL_BYTES_MAX: u64 = 16 << 30;

/// Most files of a folder.
const FILES_MAX: usize = 1 << 20;

/// Reads a file, or all files of a folder in order of their names. Hidden files and sub-folders
/// are left out.
///
/// # Errors
///
/// Usage when there is none, machine when reading fails, damaged when they are too large.
pub(super) fn read(path: &Path) -> Result<Vec<Source>, Fault> {
    let sources = files(path)?
        .par_iter()
        .map(|path| Source::read(path, FILE_BYTES_MAX))
        .collect::<Result<Vec<_>, Fault>>()?;
    let total: u64 = sources.iter().map(|source| source.bytes.len() as u64).sum();
    if total > TOTAL_BYTES_MAX {
        return Err(damaged(
            path,
            format_args!("it holds {total} bytes, more than {TOTAL_BYTES_MAX}"),
        ));
    }
    Ok(sources)
}

fn files(path: &Path) -> Result<Vec<PathBuf>, Fault> {
    if !path.is_dir() {
        return Ok(vec![path.to_path_buf()]);
    }
    let mut found = Vec::new();
    for entry in std::fs::read_dir(path).map_err(|error| missing(path, &error))? {
        let entry = entry.map_err(|error| Fault::io("read", path, &error))?;
        let hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        if !hidden && entry.path().is_file() {
            found.push(entry.path());
        }
        if found.len() > FILES_MAX {
            return Err(damaged(
                path,
                format_args!("it holds more than {FILES_MAX} files"),
            ));
        }
    }
    found.sort_unstable();
    if found.is_empty() {
        return Err(Fault::usage(format!("{} holds no file", path.display())));
    }
    Ok(found)
}

/// The documents of a file.
///
/// # Errors
///
/// Damaged, with the line, for text that is not UTF-8 and lines that are no JSON object with the
/// field; usage when the first line has the field under another name.
pub(super) fn documents(source: &Source, config: &TextData) -> Result<Vec<String>, Fault> {
    let text = std::str::from_utf8(&source.bytes).map_err(|error| {
        let before = source.bytes.get(..error.valid_up_to()).unwrap_or_default();
        let line = before.split(|&byte| byte == b'\n').count();
        damaged(&source.path, format_args!("line {line} is not UTF-8 text"))
            .advise("convert the file, e.g. with `iconv -f latin1 -t utf8`")
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if !is_jsonl(config.format, &source.path) {
        return Ok(vec![text.to_string()]);
    }
    let lines: Vec<(usize, &str)> = text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
        .collect();
    lines
        .par_iter()
        .map(|&(place, line)| field(source, &config.field, place + 1, line))
        .collect()
}

/// Whether a file has one JSON object per line.
pub(super) fn is_jsonl(format: TextFormat, path: &Path) -> bool {
    let is_named = |path: &Path| {
        path.extension()
            .is_some_and(|ending| ending.eq_ignore_ascii_case("jsonl"))
    };
    match format {
        TextFormat::Plain => false,
        TextFormat::Jsonl => true,
        TextFormat::Auto => {
            let is_packed = path.extension().is_some_and(|ending| ending == "gz");
            is_named(path) || is_packed && is_named(&path.with_extension(""))
        }
    }
}

/// The text of one line.
fn field(source: &Source, field: &str, place: usize, line: &str) -> Result<String, Fault> {
    let path = &source.path;
    let value: Value = serde_json::from_str(line)
        .map_err(|error| damaged(path, format_args!("line {place} is no JSON: {error}")))?;
    let Value::Object(mut object) = value else {
        return Err(damaged(
            path,
            format_args!("line {place} is no JSON object"),
        ));
    };
    match object.remove(field) {
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(damaged(
            path,
            format_args!("field `{field}` in line {place} is no text"),
        )),
        None => {
            let fault = damaged(path, format_args!("line {place} has no field `{field}`"));
            let names: Vec<&str> = object.keys().map(String::as_str).collect();
            Err(match nearest(field, names.iter().copied()) {
                Some(found) => fault.advise(format!("did you mean `{found}`? set data.field")),
                None => fault.advise(format!(
                    "its fields are {}; set data.field",
                    names.join(", ")
                )),
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::config::Split;

    fn config() -> TextData {
        TextData {
            train: "t.jsonl".into(),
            validation: Split::None,
            test: Split::None,
            format: TextFormat::Auto,
            field: "text".into(),
            tokenizer: "byte".into(),
            sequence_length: 4,
            cache: PathBuf::new(),
        }
    }

    fn source(name: &str, bytes: &[u8]) -> Source {
        Source {
            path: name.into(),
            bytes: bytes.to_vec(),
            sha256: String::new(),
            stored: 0,
        }
    }

    #[test]
    fn lines_become_documents_in_order() {
        let source = source(
            "t.jsonl",
            b"{\"text\":\"a\"}\n\n{\"id\":1,\"text\":\"b\\n\"}\n",
        );
        assert_eq!(documents(&source, &config()).unwrap(), ["a", "b\n"]);
    }

    #[test]
    fn faults_name_the_line() {
        for (bytes, expected) in [
            (
                &b"{\"text\":\"a\"}\n{\"txet\":\"a\"}"[..],
                "line 2 has no field",
            ),
            (b"[1]", "line 1 is no JSON object"),
            (b"{\"text\":1}", "line 1 is no text"),
            (b"\n{", "line 2 is no JSON"),
            (b"\n\xff", "line 2 is not UTF-8"),
        ] {
            let fault = documents(&source("t.jsonl", bytes), &config()).unwrap_err();
            assert!(fault.message.contains(expected), "{fault}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_give_documents_or_a_fault(bytes: Vec<u8>) {
            let _ = documents(&source("t.jsonl", &bytes), &config());
            let _ = documents(&source("t.txt", &bytes), &config());
        }
    }
}
