//! `MANIFEST.json`: size and SHA-256 of each file of a checkpoint, written last.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::run::Step;

/// Version of the checkpoint format.
pub(super) const FORMAT: u32 = 1;

/// Largest manifest that is read, in bytes.
pub(super) const MANIFEST_BYTES_MAX: u64 = 64 << 10;

/// Name of the manifest.
pub(super) const MANIFEST: &str = "MANIFEST.json";
/// Name of the file of parameters and buffers.
pub(super) const MODEL: &str = "model.safetensors";
/// Name of the file of the optimiser's state.
pub(super) const OPTIMIZER: &str = "optimizer.safetensors";
/// Name of the file of the rest.
pub(super) const STATE: &str = "state.json";

/// Size and hash of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileEntry {
    /// Bytes.
    pub(super) bytes: u64,
    /// SHA-256 in lower-case hexadecimal digits.
    pub(super) sha256: String,
}

/// The three files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Files {
    /// Parameters and buffers.
    #[serde(rename = "model.safetensors")]
    pub(super) model: FileEntry,
    /// State of the optimiser.
    #[serde(rename = "optimizer.safetensors")]
    pub(super) optimizer: FileEntry,
    /// The rest.
    #[serde(rename = "state.json")]
    pub(super) state: FileEntry,
}

/// What a checkpoint consists of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Manifest {
    /// [`FORMAT`] of the writer.
    pub(super) format: u32,
    /// Finished steps.
    pub(super) step: Step,
    /// Value of the metric that `best` goes by.
    pub(super) metric: Option<f64>,
    /// The files.
    pub(super) files: Files,
    /// SHA-256 of this manifest with this field empty: also its own bytes are protected.
    sha256: String,
}

/// Why a manifest is not accepted.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ManifestError {
    /// A later version wrote it.
    Newer(u32),
    /// It is not what was written.
    Damaged(String),
}

impl Manifest {
    /// The manifest of files as they were written. A metric that is not finite counts as none.
    pub(super) fn new(step: Step, metric: Option<f64>, files: Files) -> Self {
        let mut manifest = Self {
            format: FORMAT,
            step,
            metric: metric.filter(|value| value.is_finite()),
            files,
            sha256: String::new(),
        };
        manifest.sha256 = manifest.own_hash();
        manifest
    }

    /// Bytes of the file. The same manifest always gives the same bytes.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        // Plain structs with string keys and finite numbers always serialise.
        let mut bytes = serde_json::to_vec_pretty(self).unwrap_or_default();
        bytes.push(b'\n');
        bytes
    }

    /// Reads a manifest. Every change of a byte is noticed.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, ManifestError> {
        let damaged = |error: serde_json::Error| {
            ManifestError::Damaged(format!("it is not a manifest: {error}"))
        };
        // The version is looked at alone: a later one may have other fields.
        let version: Version = serde_json::from_slice(bytes).map_err(damaged)?;
        if version.format > FORMAT {
            return Err(ManifestError::Newer(version.format));
        }
        let manifest: Self = serde_json::from_slice(bytes).map_err(damaged)?;
        if manifest.sha256 != manifest.own_hash() || manifest.to_bytes() != bytes {
            return Err(ManifestError::Damaged(
                "its content does not match its SHA-256".into(),
            ));
        }
        Ok(manifest)
    }

    /// Bytes of the files and of the manifest itself.
    pub(super) fn total_bytes(&self) -> u64 {
        let Files {
            model,
            optimizer,
            state,
        } = &self.files;
        [model.bytes, optimizer.bytes, state.bytes]
            .into_iter()
            .fold(self.to_bytes().len() as u64, u64::saturating_add)
    }

    fn own_hash(&self) -> String {
        let bare = Self {
            sha256: String::new(),
            ..self.clone()
        };
        format!("{:x}", Sha256::digest(bare.to_bytes()))
    }
}

/// What every version of the format has.
#[derive(Deserialize)]
struct Version {
    format: u32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(super) fn manifest() -> Manifest {
        let entry = |bytes, c: &str| FileEntry {
            bytes,
            sha256: c.repeat(64),
        };
        let files = Files {
            model: entry(1000, "a"),
            optimizer: entry(2000, "b"),
            state: entry(300, "c"),
        };
        Manifest::new(Step::new(12), Some(0.25), files)
    }

    #[test]
    fn a_manifest_is_read_back() {
        let bytes = manifest().to_bytes();
        assert_eq!(Manifest::parse(&bytes).unwrap(), manifest());
        assert_eq!(manifest().total_bytes(), 3300 + bytes.len() as u64);
        insta::assert_snapshot!(String::from_utf8(bytes).unwrap());
    }

    #[test]
    fn a_later_format_is_told_from_damage() {
        let later = br#"{"format": 2, "pieces": [], "sha256": 7}"#;
        assert_eq!(Manifest::parse(later), Err(ManifestError::Newer(2)));
        for text in ["", "{}", "[]", "nonsense", r#"{"format": 1}"#] {
            let result = Manifest::parse(text.as_bytes());
            assert!(matches!(result, Err(ManifestError::Damaged(_))), "{text}");
        }
    }

    #[test]
    fn metrics_that_are_not_numbers_are_none() {
        let odd = Manifest::new(Step::new(1), Some(f64::NAN), Files::default());
        assert_eq!(odd.metric, None);
        assert!(Manifest::parse(&odd.to_bytes()).is_ok());
    }

    proptest! {
        #[test]
        fn every_changed_byte_is_noticed(place in any::<prop::sample::Index>(), flip in 1u8..) {
            let mut bytes = manifest().to_bytes();
            let place = place.index(bytes.len());
            bytes[place] ^= flip;
            prop_assert!(Manifest::parse(&bytes).is_err());
        }

        #[test]
        fn every_cut_is_noticed(length in any::<prop::sample::Index>()) {
            let bytes = manifest().to_bytes();
            prop_assert!(Manifest::parse(&bytes[..length.index(bytes.len())]).is_err());
        }
    }
}
