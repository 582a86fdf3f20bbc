//! `prepared.json`: what was computed from the training split, once for all attempts of a run.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::image::ImagePreparation;
use super::source::{damaged, read_stored, sha256_hex};
use super::synthetic::SyntheticPreparation;
use super::table::TablePreparation;
use super::text::TextPreparation;
use crate::config::{Data, Split};
use crate::run::{DataSummary, Fault};

/// Version of the file. A newer one is refused, an older one does not exist yet.
const VERSION: u32 = 1;

/// Largest file that is read.
const BYTES_MAX: u64 = 256 << 20;

/// Keys of `[data]` that do not decide which samples there are or how they are prepared: paths
/// (content counts, not place), the cache, and augmentation, which depends on the step.
const SETTINGS_LEFT_OUT: [&str; 6] = [
    "train",
    "train_labels",
    "validation_labels",
    "test_labels",
    "cache",
    "augment",
];

/// One input file as it was when the run was prepared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileRecord {
    /// What it is for: `train`, `train labels`, `test`…
    pub role: String,
    /// Where it was, as written in the config.
    pub path: String,
    /// Its length.
    pub bytes: u64,
    /// SHA-256 of its content as stored.
    pub sha256: String,
}

/// What was computed from the training split.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Preparation {
    /// Of a table.
    Table(TablePreparation),
    /// Of images.
    Images(ImagePreparation),
    /// Of text.
    Text(TextPreparation),
    /// Of random samples.
    Synthetic(SyntheticPreparation),
}

/// The whole file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Prepared {
    version: u32,
    /// SHA-256 over settings, file hashes and preparation.
    pub fingerprint: String,
    settings: Value,
    files: Vec<FileRecord>,
    /// What was computed.
    pub preparation: Preparation,
    /// What was found out.
    pub summary: DataSummary,
}

/// Only the version, to be looked at before the rest.
#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

/// What an earlier attempt left, if there was one, and what this one is to be compared by.
#[derive(Debug)]
pub(super) struct Earlier {
    /// The file of the earlier attempt.
    pub prepared: Option<Prepared>,
    settings: Value,
    place: PathBuf,
}

impl Earlier {
    /// Reads the file at `place`, if a place is given and a file is there.
    ///
    /// # Errors
    ///
    /// Damaged when the file cannot be understood or was written by a newer version.
    pub(super) fn read(config: &Data, seed: u64, place: Option<&Path>) -> Result<Self, Fault> {
        let prepared = match place {
            Some(path) if path.exists() => Some(Prepared::read(path)?),
            _ => None,
        };
        Ok(Self {
            prepared,
            settings: settings(config, seed)?,
            place: place.map(Path::to_path_buf).unwrap_or_default(),
        })
    }

    /// The earlier preparation, if there is one and `files` and the settings are still the same.
    ///
    /// # Errors
    ///
    /// Damaged, with the name of a file that changed; usage when settings changed.
    pub(super) fn check(&self, files: &[FileRecord]) -> Result<Option<&Preparation>, Fault> {
        let Some(prepared) = &self.prepared else {
            return Ok(None);
        };
        let changed = difference(&prepared.settings, &self.settings);
        if !changed.is_empty() {
            return Err(Fault::usage(format!(
                "the data of this run were prepared with other settings of {}",
                changed.join(", ")
            ))
            .advise("undo the change, or start a new run with `trainer run`"));
        }
        for (before, now) in prepared.files.iter().zip(files) {
            if before.role != now.role || before.sha256 != now.sha256 {
                return Err(Fault::damaged(format!(
                    "{} changed since this run was prepared: it had {} bytes with SHA-256 {}, now {} with {}",
                    now.path, before.bytes, short(&before.sha256), now.bytes, short(&now.sha256)
                ))
                .advise("bring the file of that time back, or start a new run with `trainer run`"));
            }
        }
        if prepared.files.len() != files.len() {
            let shorter = prepared.files.len().min(files.len());
            let odd = if files.len() > shorter {
                files.get(shorter)
            } else {
                prepared.files.get(shorter)
            };
            return Err(Fault::damaged(format!(
                "this run was prepared from {} files, now there are {}; the first that differs is {}",
                prepared.files.len(),
                files.len(),
                odd.map_or("unknown", |file| file.path.as_str())
            ))
            .advise("bring the files of that time back, or start a new run with `trainer run`"));
        }
        if fingerprint(&prepared.settings, &prepared.files, &prepared.preparation)?
            != prepared.fingerprint
        {
            return Err(damaged(
                &self.place,
                "its content does not match its fingerprint",
            ));
        }
        Ok(Some(&prepared.preparation))
    }

    /// Puts together what this attempt found out.
    ///
    /// # Errors
    ///
    /// Internal when it cannot be serialised.
    pub(super) fn finish(
        self,
        files: Vec<FileRecord>,
        preparation: Preparation,
        mut summary: DataSummary,
    ) -> Result<Prepared, Fault> {
        let fingerprint = fingerprint(&self.settings, &files, &preparation)?;
        summary.fingerprint.clone_from(&fingerprint);
        Ok(Prepared {
            version: VERSION,
            fingerprint,
            settings: self.settings,
            files,
            preparation,
            summary,
        })
    }
}

impl Prepared {
    fn read(path: &Path) -> Result<Self, Fault> {
        let bytes = read_stored(path, BYTES_MAX)?;
        let advice =
            "delete the file to prepare the data again; the weights then need the same data";
        let broken = |error| {
            damaged(
                path,
                format_args!("it is no record of prepared data: {error}"),
            )
        };
        let found: Versioned =
            serde_json::from_slice(&bytes).map_err(|error| broken(error).advise(advice))?;
        if found.version != VERSION {
            return Err(damaged(
                path,
                format_args!(
                    "it has version {}, this program reads version {VERSION}",
                    found.version
                ),
            )
            .advise("use the program that started the run, or a newer one"));
        }
        serde_json::from_slice(&bytes).map_err(|error| broken(error).advise(advice))
    }

    /// Writes the file: whole or not at all.
    ///
    /// # Errors
    ///
    /// When the disk does not take it.
    pub(super) fn write(&self, path: &Path) -> Result<(), Fault> {
        let text = serde_json::to_vec(self).map_err(|error| unserializable(&error))?;
        write_whole(path, &text)
    }
}

/// Writes a file to a temporary sibling, syncs it and renames it.
pub(super) fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), Fault> {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = path.with_file_name(name);
    let written = File::create(&temporary).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    written
        .and_then(|()| std::fs::rename(&temporary, path))
        .map_err(|error| {
            // The fault to tell of is the first one.
            let _ = std::fs::remove_file(&temporary);
            Fault::io("write", path, &error)
        })
}

/// What of `[data]` (and the seed, where it splits) decides which samples there are.
fn settings(config: &Data, seed: u64) -> Result<Value, Fault> {
    let mut settings = serde_json::to_value(config).map_err(|error| unserializable(&error))?;
    let (validation, test) = (config.validation(), config.test());
    let Value::Object(map) = &mut settings else {
        return Err(Fault::internal("the data section is no object"));
    };
    for key in SETTINGS_LEFT_OUT {
        map.remove(key);
    }
    let mut seeded = matches!(
        config,
        Data::SyntheticTable(_) | Data::SyntheticImages(_) | Data::SyntheticText(_)
    );
    for (key, split) in [("validation", validation), ("test", test)] {
        seeded |= matches!(split, Split::Fraction(_));
        if matches!(split, Split::Path(_)) {
            map.insert(key.into(), "path".into());
        }
    }
    if let Data::Text(text) = config
        && text.tokenizer != super::text::BYTE_TOKENIZER
    {
        map.insert("tokenizer".into(), "file".into());
    }
    if seeded {
        map.insert("seed".into(), seed.into());
    }
    Ok(settings)
}

/// Names of the keys that differ.
fn difference(before: &Value, now: &Value) -> Vec<String> {
    let (Value::Object(before), Value::Object(now)) = (before, now) else {
        return vec!["data".into()];
    };
    let mut keys: Vec<&String> = before.keys().chain(now.keys()).collect();
    keys.sort_unstable();
    keys.dedup();
    keys.into_iter()
        .filter(|key| before.get(*key) != now.get(*key))
        .map(|key| {
            if key == "seed" {
                "seed".into()
            } else {
                format!("data.{key}")
            }
        })
        .collect()
}

fn fingerprint(
    settings: &Value,
    files: &[FileRecord],
    preparation: &Preparation,
) -> Result<String, Fault> {
    let contents: Vec<(&str, &str)> = files
        .iter()
        .map(|file| (file.role.as_str(), file.sha256.as_str()))
        .collect();
    let text = serde_json::to_vec(&(VERSION, settings, contents, preparation))
        .map_err(|error| unserializable(&error))?;
    Ok(sha256_hex(&text))
}

fn unserializable(error: &serde_json::Error) -> Fault {
    Fault::internal(format!("cannot serialise the prepared data: {error}"))
}

fn short(sha256: &str) -> &str {
    sha256.get(..12).unwrap_or(sha256)
}
