//! Writing one checkpoint, and removing those that the keep-policy lets go.
//!
//! Order of things, each on the disk before the next begins: the files, the manifest, their folder,
//! the name, the folder of the names. Whatever is interrupted, there is a whole checkpoint under the
//! name of its step, or none, or the one that was there before.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use sha2::{Digest, Sha256};

use super::disk::{Disk, PIECE_BYTES};
use super::error::WriteError;
use super::keep::{Held, dispensable};
use super::layout::Layout;
use super::manifest::{FileEntry, Files, MANIFEST, MODEL, Manifest, OPTIMIZER, STATE};
use super::name::{self, Use};
use super::{Snapshot, read};
use crate::config::{Goal, Keep};
use crate::run::{CheckpointInfo, Event, Step};

/// File systems give space out in blocks of this size; each file wastes up to one of them.
const BLOCK_BYTES: u64 = 4096;

/// Writes checkpoints into one folder. Keeps nothing in memory: the folder is the truth.
pub(super) struct Committer {
    pub(super) dir: PathBuf,
    pub(super) disk: Box<dyn Disk>,
    pub(super) keep: Keep,
    pub(super) goal: Goal,
    pub(super) pid: u32,
}

/// A checkpoint in the form that goes to the disk.
struct Draft<'a> {
    step: Step,
    metric: Option<f64>,
    model: Layout<'a>,
    optimizer: Layout<'a>,
    state: Vec<u8>,
}

impl<'a> Draft<'a> {
    fn of(snapshot: &'a Snapshot) -> Result<Self, WriteError> {
        let inconsistent =
            |file: &'static str| move |why| WriteError::Inconsistent(format!("{file}: {why}"));
        if snapshot.step != snapshot.state.step {
            let why = format!("{} is not {}", snapshot.state.step, snapshot.step);
            return Err(inconsistent(STATE)(why));
        }
        let mut state = serde_json::to_vec_pretty(&snapshot.state)
            .map_err(|error| inconsistent(STATE)(error.to_string()))?;
        state.push(b'\n');
        if state.len() as u64 > read::STATE_BYTES_MAX {
            let why = format!("{} bytes are over the limit", state.len());
            return Err(inconsistent(STATE)(why));
        }
        Ok(Self {
            step: snapshot.step,
            metric: snapshot.metric,
            model: Layout::of(&snapshot.model).map_err(inconsistent(MODEL))?,
            optimizer: Layout::of(&snapshot.optimizer).map_err(inconsistent(OPTIMIZER))?,
            state,
        })
    }

    /// Bytes on the disk, exact but for what the file system adds.
    fn disk_bytes(&self) -> u64 {
        let entry = |bytes| FileEntry {
            bytes,
            sha256: "0".repeat(64),
        };
        let files = Files {
            model: entry(self.model.bytes()),
            optimizer: entry(self.optimizer.bytes()),
            state: entry(self.state.len() as u64),
        };
        let manifest = Manifest::new(self.step, self.metric, files);
        // Four files and their folder.
        manifest.total_bytes().saturating_add(5 * BLOCK_BYTES)
    }
}

impl Committer {
    /// Writes a checkpoint, then applies the keep-policy. Says what happened; never fails.
    pub(super) fn commit(&self, snapshot: &Snapshot, blocked_seconds: f64) -> Vec<Event> {
        let begun = Instant::now();
        match self.write(snapshot) {
            Ok(manifest) => {
                let info = CheckpointInfo {
                    step: snapshot.step,
                    directory: name::of_step(snapshot.step),
                    bytes: manifest.total_bytes(),
                    model_sha256: manifest.files.model.sha256,
                    metric: manifest.metric,
                    blocked_seconds,
                    write_seconds: begun.elapsed().as_secs_f64(),
                };
                let mut events = vec![Event::CheckpointCommitted(info)];
                events.extend(self.prune(snapshot.step));
                events
            }
            Err(error) => vec![Event::CheckpointFailed {
                step: snapshot.step,
                reason: error.to_string(),
            }],
        }
    }

    /// Writes a checkpoint; when that fails, nothing of it is left.
    pub(super) fn write(&self, snapshot: &Snapshot) -> Result<Manifest, WriteError> {
        let draft = Draft::of(snapshot)?;
        self.disk
            .make_folder(&self.dir)
            .map_err(failed("make", &self.dir))?;
        self.check_space(draft.disk_bytes())?;
        let temporary = self.hidden(Use::Temporary, draft.step);
        self.disk
            .remove(&temporary)
            .map_err(failed("remove", &temporary))?;
        let written = self
            .fill(&temporary, &draft)
            .and_then(|manifest| self.publish(&temporary, &manifest).map(|()| manifest));
        if written.is_err() {
            // The error that brought us here says more than one from here could.
            let _ = self.disk.remove(&temporary);
        }
        written
    }

    fn hidden(&self, what: Use, step: Step) -> PathBuf {
        self.dir.join(name::hidden(what, step, self.pid))
    }

    fn check_space(&self, needed: u64) -> Result<(), WriteError> {
        // A file system that cannot tell is one that we find out about by writing.
        let free = self.disk.free_bytes(&self.dir).ok().flatten();
        match free {
            Some(free) if free < needed => Err(WriteError::NoSpace {
                needed,
                free,
                path: self.dir.clone(),
            }),
            _ => Ok(()),
        }
    }

    /// Writes all files into a new folder, the manifest last.
    fn fill(&self, folder: &Path, draft: &Draft<'_>) -> Result<Manifest, WriteError> {
        self.disk
            .make_folder(folder)
            .map_err(failed("make", folder))?;
        let model = self.file(&folder.join(MODEL), draft.model.pieces())?;
        let optimizer = self.file(&folder.join(OPTIMIZER), draft.optimizer.pieces())?;
        let state = self.file(&folder.join(STATE), [draft.state.as_slice()])?;
        let files = Files {
            model,
            optimizer,
            state,
        };
        let manifest = Manifest::new(draft.step, draft.metric, files);
        self.file(&folder.join(MANIFEST), [manifest.to_bytes().as_slice()])?;
        self.sync(folder)?;
        Ok(manifest)
    }

    /// Writes one file, hashed on its way, and waits until it is on the disk.
    fn file<'a>(
        &self,
        path: &Path,
        pieces: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<FileEntry, WriteError> {
        let mut output = self.disk.create(path).map_err(failed("make", path))?;
        let mut hash = Sha256::new();
        let mut bytes = 0;
        for piece in pieces.into_iter().flat_map(|p| p.chunks(PIECE_BYTES)) {
            hash.update(piece);
            output.append(piece).map_err(failed("write", path))?;
            bytes += piece.len() as u64;
        }
        output.sync().map_err(failed("write", path))?;
        Ok(FileEntry {
            bytes,
            sha256: format!("{:x}", hash.finalize()),
        })
    }

    /// Gives the finished folder its name.
    fn publish(&self, temporary: &Path, manifest: &Manifest) -> Result<(), WriteError> {
        let path = self.dir.join(name::of_step(manifest.step));
        match self.disk.rename(temporary, &path) {
            Ok(()) => self.sync(&self.dir).inspect_err(|_| {
                let _ = self.disk.rename(&path, temporary);
            }),
            Err(error) if is_occupied(&error) => self.replace(temporary, &path, manifest),
            Err(error) => Err(failed("rename", temporary)(error)),
        }
    }

    /// Puts a finished folder in the place of one of the same step, which a resumed run has computed
    /// again. The same content stays as it is.
    fn replace(
        &self,
        temporary: &Path,
        path: &Path,
        manifest: &Manifest,
    ) -> Result<(), WriteError> {
        if read::verified_manifest(path).is_ok_and(|there| there == *manifest) {
            // The checkpoint is there; what cannot be removed now goes at the next start.
            let _ = self.disk.remove(temporary);
            return Ok(());
        }
        match self.disk.exchange(temporary, path) {
            Ok(()) => {}
            Err(error) if is_unsupported(&error) => {
                return self.replace_in_two_steps(temporary, path, manifest.step);
            }
            Err(error) => return Err(failed("replace", path)(error)),
        }
        self.sync(&self.dir).inspect_err(|_| {
            let _ = self.disk.exchange(temporary, path);
        })?;
        let _ = self.discard(temporary, manifest.step);
        Ok(())
    }

    /// For file systems that cannot exchange two names. Between the two steps the former content is
    /// there under a name from which [`super::clean`] brings it back.
    fn replace_in_two_steps(
        &self,
        temporary: &Path,
        path: &Path,
        step: Step,
    ) -> Result<(), WriteError> {
        let old = self.hidden(Use::Old, step);
        self.disk.remove(&old).map_err(failed("remove", &old))?;
        self.disk
            .rename(path, &old)
            .map_err(failed("rename", path))?;
        let moved = self.disk.rename(temporary, path);
        if moved.is_err() {
            let _ = self.disk.rename(&old, path);
        }
        moved.map_err(failed("rename", temporary))?;
        self.sync(&self.dir)?;
        let _ = self.disk.remove(&old);
        Ok(())
    }

    /// Removes what the keep-policy lets go. Called after a commit only.
    fn prune(&self, newest: Step) -> Vec<Event> {
        let listed = match read::list(&self.dir) {
            Ok(listed) => listed,
            Err(error) => return vec![warning(&error)],
        };
        // One whose manifest cannot be read is not ours to remove.
        let held: Vec<Held> = listed
            .iter()
            .filter_map(|listed| {
                Some(Held {
                    step: listed.step,
                    metric: listed.info.as_ref().ok()?.metric,
                })
            })
            .collect();
        dispensable(&held, newest, &self.keep, self.goal)
            .into_iter()
            .map(|step| {
                let path = self.dir.join(name::of_step(step));
                match self.discard(&path, step) {
                    Ok(()) => Event::CheckpointRemoved { step },
                    Err(error) => warning(&failed("remove", &path)(error)),
                }
            })
            .collect()
    }

    /// Takes a folder's name away, then its content: no half of it is ever seen under its name.
    fn discard(&self, path: &Path, step: Step) -> io::Result<()> {
        let trash = self.hidden(Use::Trash, step);
        self.disk.remove(&trash)?;
        self.disk.rename(path, &trash)?;
        self.disk.remove(&trash)
    }

    fn sync(&self, folder: &Path) -> Result<(), WriteError> {
        self.disk
            .sync_folder(folder)
            .map_err(failed("sync", folder))
    }
}

fn failed(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> WriteError {
    move |source| WriteError::Io {
        doing,
        path: path.to_path_buf(),
        source,
    }
}

fn warning(error: &dyn std::error::Error) -> Event {
    Event::Warned {
        message: format!("an old checkpoint was not removed: {error}"),
    }
}

fn is_occupied(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::AlreadyExists | io::ErrorKind::DirectoryNotEmpty
    )
}

fn is_unsupported(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::Unsupported | io::ErrorKind::InvalidInput
    )
}
