//! `kind = "text"`.

use std::path::PathBuf;

use super::split::{Split, SplitForm};
use crate::config::declare::{names, record};
use crate::config::form::{names, path, text, whole};

names! {
    /// Layout of text files.
    pub enum TextFormat {
        /// By the file's ending: `.jsonl` is JSONL, all else plain text.
        Auto = "auto",
        /// UTF-8 text; one document per file.
        Plain = "plain",
        /// One JSON object per line; one document per line.
        Jsonl = "jsonl",
    }
}

record! {
    /// `kind = "text"`.
    pub struct TextData {
        /// Training text: a file, or a folder whose files are read in order of their names.
        train: PathBuf => path();
        /// Held-out part that early stopping and `best` checkpoints look at: a share of `train`
        /// (taken in blocks of whole sequences), a file or folder, or `false`.
        validation: Split => SplitForm, default Split::None;
        /// Held-out part that is evaluated once, at the end: a share of `train`, a file or folder,
        /// or `false`.
        test: Split => SplitForm, default Split::None;
        /// Layout of the files.
        format: TextFormat => names(), default TextFormat::Auto;
        /// Key of the text in a JSONL object.
        field: String => text(), default "text".to_string();
        /// `byte` (256 bytes and an end-of-document token) or the path of a `tokenizer.json`.
        tokenizer: String => text(), default "byte".to_string();
        /// Tokens a sample has as input; its targets are the same tokens one place further.
        sequence_length: u32 => whole(1..=1_048_576), default 128;
        /// Folder for token files; they are keyed by content and tokenizer and can be deleted.
        cache: PathBuf => path(), default PathBuf::from(".trainer/tokens");
    }
}
