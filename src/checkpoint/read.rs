//! Reading checkpoints. What lies on a disk is not trusted: sizes are bounded, hashes come first, and
//! only what matches the manifest is looked into.

use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::disk::PIECE_BYTES;
use super::layout::Contents;
use super::manifest::{
    FORMAT, FileEntry, MANIFEST, MANIFEST_BYTES_MAX, MODEL, Manifest, ManifestError, OPTIMIZER,
    STATE,
};
use super::{CheckpointError, STATE_VERSION, Snapshot, TensorBytes, TrainState, name};
use crate::run::{CheckpointInfo, Step};

/// Largest `state.json`, in bytes.
pub(super) const STATE_BYTES_MAX: u64 = 4 << 20;

/// How often a checkpoint that was replaced while it was opened is tried again.
const RACES_MAX: usize = 5;

/// A checkpoint of a folder, as its manifest describes it. Nothing was hashed.
#[derive(Debug)]
pub struct Listed {
    /// Directory name.
    pub directory: String,
    /// Step that the name says.
    pub step: Step,
    /// What its manifest says, or why that cannot be read.
    pub info: Result<CheckpointInfo, CheckpointError>,
}

/// Reads and verifies a checkpoint.
///
/// # Errors
///
/// When it is not there, not whole, of a later version, or not readable.
pub fn load(path: &Path) -> Result<Snapshot, CheckpointError> {
    let opened = Opened::verified(path)?;
    let Opened {
        place,
        manifest,
        state,
        model,
        optimizer,
    } = opened;
    Ok(Snapshot {
        step: manifest.step,
        metric: manifest.metric,
        model: place.tensors(model)?,
        optimizer: place.tensors(optimizer)?,
        state,
    })
}

/// Verifies a checkpoint: hashes of all files, headers of the tensors, and the state.
///
/// # Errors
///
/// As [`load`].
pub fn verify(path: &Path) -> Result<CheckpointInfo, CheckpointError> {
    let opened = Opened::verified(path)?;
    Ok(info(path, &opened.manifest))
}

/// The manifest of a checkpoint that verifies.
pub(super) fn verified_manifest(path: &Path) -> Result<Manifest, CheckpointError> {
    Ok(Opened::verified(path)?.manifest)
}

/// The checkpoints of a folder, oldest first, without hashing them. No folder, no checkpoints.
///
/// # Errors
///
/// When the folder cannot be read.
pub fn list(dir: &Path) -> Result<Vec<Listed>, CheckpointError> {
    let mut listed: Vec<Listed> = steps(dir)?
        .into_iter()
        .map(|step| {
            let directory = name::of_step(step);
            let place = Place::new(&dir.join(&directory));
            let info = place
                .folder()
                .and_then(|folder| place.manifest(&folder))
                .map(|manifest| info(&place.path, &manifest));
            Listed {
                directory,
                step,
                info,
            }
        })
        .collect();
    // One that went while we looked is not there.
    listed.retain(|listed| !matches!(listed.info, Err(CheckpointError::NotFound { .. })));
    Ok(listed)
}

/// Steps that have a checkpoint in a folder, in order.
pub(super) fn steps(dir: &Path) -> Result<Vec<Step>, CheckpointError> {
    let failed = |source| CheckpointError::Io {
        doing: "list",
        path: dir.to_path_buf(),
        source,
    };
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed)?,
    };
    let mut steps = Vec::new();
    for entry in entries {
        steps.extend(name::step_of_path(&entry.map_err(failed)?.path()));
    }
    steps.sort_unstable();
    Ok(steps)
}

fn info(path: &Path, manifest: &Manifest) -> CheckpointInfo {
    CheckpointInfo {
        step: manifest.step,
        directory: path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default(),
        bytes: manifest.total_bytes(),
        model_sha256: manifest.files.model.sha256.clone(),
        metric: manifest.metric,
        blocked_seconds: 0.0,
        write_seconds: 0.0,
    }
}

/// A checkpoint whose files are open and match its manifest. It can be read to its end also when its
/// folder is replaced or removed meanwhile.
struct Opened {
    place: Place,
    manifest: Manifest,
    state: TrainState,
    model: Part,
    optimizer: Part,
}

/// One open file of tensors, behind its header.
struct Part {
    name: &'static str,
    file: File,
    contents: Contents,
}

impl Opened {
    fn verified(path: &Path) -> Result<Self, CheckpointError> {
        let place = Place::new(path);
        let (manifest, [mut model, mut optimizer, mut state]) = place.open()?;
        let files = &manifest.files;
        if files.state.bytes > STATE_BYTES_MAX {
            return Err(place.damaged(STATE, "it is too large to be one"));
        }
        place.check(MODEL, &mut model, &files.model)?;
        place.check(OPTIMIZER, &mut optimizer, &files.optimizer)?;
        place.check(STATE, &mut state, &files.state)?;
        Ok(Self {
            state: place.state(&mut state, manifest.step)?,
            model: place.part(MODEL, model, &files.model)?,
            optimizer: place.part(OPTIMIZER, optimizer, &files.optimizer)?,
            place,
            manifest,
        })
    }
}

/// Where a checkpoint is, for messages.
struct Place {
    path: PathBuf,
    step: Option<Step>,
}

impl Place {
    fn new(path: &Path) -> Self {
        Self {
            path: path.to_path_buf(),
            step: name::step_of_path(path),
        }
    }

    fn damaged(&self, file: &str, what: impl Into<String>) -> CheckpointError {
        CheckpointError::Damaged {
            path: self.path.clone(),
            step: self.step,
            file: file.to_string(),
            what: what.into(),
        }
    }

    /// An error while a file of the checkpoint was opened or read.
    fn failed(&self, file: &str, error: io::Error) -> CheckpointError {
        use io::ErrorKind as Kind;
        let kind = error.kind();
        match kind {
            Kind::NotFound => self.damaged(file, "it is missing"),
            Kind::UnexpectedEof => self.damaged(file, "it is cut short"),
            Kind::NotADirectory | Kind::IsADirectory | Kind::InvalidData => {
                self.damaged(file, error.to_string())
            }
            _ if error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error()) => {
                self.damaged(file, "the disk cannot read it")
            }
            _ if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
                self.damaged(file, "it is a link")
            }
            _ => CheckpointError::Io {
                doing: "read",
                path: self.path.join(file),
                source: error,
            },
        }
    }

    /// Opens manifest and files of one and the same checkpoint, also when it is being replaced.
    fn open(&self) -> Result<(Manifest, [File; 3]), CheckpointError> {
        let mut tries = 0;
        loop {
            let before = self.identity();
            let opened = self.open_once();
            tries += 1;
            if opened.is_ok() || tries > RACES_MAX || before == self.identity() {
                return opened;
            }
        }
    }

    fn open_once(&self) -> Result<(Manifest, [File; 3]), CheckpointError> {
        let folder = self.folder()?;
        let manifest = self.manifest(&folder)?;
        let open = |name| open_in(&folder, name).map_err(|error| self.failed(name, error));
        Ok((manifest, [open(MODEL)?, open(OPTIMIZER)?, open(STATE)?]))
    }

    /// What tells this folder from one that takes its place.
    fn identity(&self) -> Option<(u64, u64)> {
        let metadata = fs::metadata(&self.path).ok()?;
        Some((metadata.dev(), metadata.ino()))
    }

    fn folder(&self) -> Result<File, CheckpointError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        match rustix::fs::open(&self.path, flags, Mode::empty()) {
            Ok(folder) => Ok(File::from(folder)),
            Err(rustix::io::Errno::NOENT) => Err(CheckpointError::NotFound {
                path: self.path.clone(),
            }),
            Err(rustix::io::Errno::NOTDIR) => Err(self.damaged(".", "it is not a folder")),
            Err(error) => Err(CheckpointError::Io {
                doing: "open",
                path: self.path.clone(),
                source: error.into(),
            }),
        }
    }

    fn manifest(&self, folder: &File) -> Result<Manifest, CheckpointError> {
        let failed = |error| self.failed(MANIFEST, error);
        let file = open_in(folder, MANIFEST).map_err(failed)?;
        let mut bytes = Vec::new();
        file.take(MANIFEST_BYTES_MAX + 1)
            .read_to_end(&mut bytes)
            .map_err(failed)?;
        if bytes.len() as u64 > MANIFEST_BYTES_MAX {
            return Err(self.damaged(MANIFEST, "it is too large to be one"));
        }
        let manifest = Manifest::parse(&bytes).map_err(|error| match error {
            ManifestError::Newer(found) => CheckpointError::Newer {
                path: self.path.clone(),
                what: "format",
                found,
                supported: FORMAT,
            },
            ManifestError::Damaged(what) => self.damaged(MANIFEST, what),
        })?;
        match self.step {
            Some(step) if step != manifest.step => {
                let what = format!("it is the manifest of step {}", manifest.step);
                Err(self.damaged(MANIFEST, what))
            }
            _ => Ok(manifest),
        }
    }

    /// Compares a file with its manifest; leaves it at its beginning.
    fn check(&self, name: &str, file: &mut File, entry: &FileEntry) -> Result<(), CheckpointError> {
        let failed = |error| self.failed(name, error);
        let bytes = file.metadata().map_err(failed)?.len();
        if bytes != entry.bytes {
            let what = format!("it has {bytes} bytes instead of {}", entry.bytes);
            return Err(self.damaged(name, what));
        }
        let mut hash = Sha256::new();
        let mut piece = vec![0; PIECE_BYTES];
        let mut left = entry.bytes;
        while left > 0 {
            let length = usize::try_from(left).map_or(PIECE_BYTES, |n| n.min(PIECE_BYTES));
            let piece = piece.get_mut(..length).unwrap_or_default();
            file.read_exact(piece).map_err(failed)?;
            hash.update(&*piece);
            left -= length as u64;
        }
        if format!("{:x}", hash.finalize()) != entry.sha256 {
            return Err(self.damaged(name, "its content does not match its SHA-256"));
        }
        file.rewind().map_err(failed)
    }

    fn part(
        &self,
        name: &'static str,
        mut file: File,
        entry: &FileEntry,
    ) -> Result<Part, CheckpointError> {
        let contents =
            Contents::read(&mut file, entry.bytes).map_err(|what| self.damaged(name, what))?;
        Ok(Part {
            name,
            file,
            contents,
        })
    }

    fn tensors(&self, part: Part) -> Result<Vec<TensorBytes>, CheckpointError> {
        let Part {
            name,
            mut file,
            contents,
        } = part;
        contents
            .tensors(&mut file)
            .map_err(|error| self.failed(name, error))
    }

    /// Reads the state. `file` matches the manifest, so its size is bounded.
    fn state(&self, file: &mut File, step: Step) -> Result<TrainState, CheckpointError> {
        #[derive(Deserialize)]
        struct Version {
            version: u32,
        }

        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)
            .map_err(|error| self.failed(STATE, error))?;
        let malformed = |error: serde_json::Error| self.damaged(STATE, error.to_string());
        let Version { version } = serde_json::from_slice(&bytes).map_err(malformed)?;
        if version > STATE_VERSION {
            return Err(CheckpointError::Newer {
                path: self.path.clone(),
                what: "state version",
                found: version,
                supported: STATE_VERSION,
            });
        }
        let state: TrainState = serde_json::from_slice(&bytes).map_err(malformed)?;
        if state.step != step {
            return Err(self.damaged(STATE, format!("it is the state of step {}", state.step)));
        }
        Ok(state)
    }
}

/// Opens a regular file of a folder. A pipe or a device would block, a link would lead elsewhere.
fn open_in(folder: &File, name: &str) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::openat(folder, name, flags, Mode::empty())?);
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        let error = "it is not a file";
        Err(io::Error::new(io::ErrorKind::InvalidData, error))
    }
}
