//! A folder with one sub-folder of PNG or JPEG files per class.

use std::io::Cursor;
use std::path::{Path, PathBuf};

use image::{DynamicImage, ImageDecoder, ImageFormat, ImageReader, Limits};
use rayon::prelude::*;

use super::resize::{resize, resize_colours};
use super::store::{Geometry, SIDE_MAX};
use crate::data::nearest::nearest;
use crate::data::prepared::FileRecord;
use crate::data::source::{damaged, missing, read_stored, sha256_hex};
use crate::run::Fault;

/// Largest file.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// Most memory that decoding one file may take.
const DECODE_BYTES_MAX: u64 = 1 << 30;

/// Most classes.
const CLASSES_MAX: usize = 1 << 15;

/// Most files.
const FILES_MAX: usize = 1 << 26;

/// Files up to which each has its own line in the record of the preparation.
const RECORDS_MAX: usize = 4096;

/// One picture.
#[derive(Clone, Debug)]
pub(super) struct FolderFile {
    /// Where it is.
    pub path: PathBuf,
    /// Its class.
    pub class: u32,
}

/// Pictures of a folder, by class and name.
#[derive(Debug)]
pub(super) struct Folder {
    /// All pictures.
    pub files: Vec<FolderFile>,
    /// Files that were passed over because of their ending.
    pub passed_over: usize,
}

/// What a file says of itself.
#[derive(Clone, Debug)]
pub(super) struct Look {
    /// SHA-256 of its content.
    pub sha256: String,
    /// Its length.
    pub bytes: u64,
    /// Its own shape.
    pub geometry: Geometry,
}

/// Names of the classes: the sub-folders, sorted.
///
/// # Errors
///
/// Usage for a path that is no folder or has no sub-folder.
pub(super) fn classes(root: &Path) -> Result<Vec<String>, Fault> {
    let mut names = Vec::new();
    for entry in entries(root)? {
        if entry.is_dir() {
            names.push(utf8_name(&entry)?);
        }
    }
    if names.is_empty() {
        return Err(Fault::usage(format!(
            "{} has no sub-folders; one for each class is needed",
            root.display()
        )));
    }
    if names.len() > CLASSES_MAX {
        return Err(Fault::usage(format!(
            "{} has {} sub-folders, more than {CLASSES_MAX} classes",
            root.display(),
            names.len()
        )));
    }
    names.sort_unstable();
    Ok(names)
}

/// Entries of a folder whose name does not begin with a full stop, sorted.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, Fault> {
    let listing = std::fs::read_dir(folder).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotADirectory => {
            Fault::usage(format!("{} is a file, not a folder", folder.display()))
                .advise("name the folder that holds one sub-folder per class")
        }
        _ => missing(folder, &error),
    })?;
    let mut paths = Vec::new();
    for entry in listing {
        let entry = entry.map_err(|error| Fault::io("read", folder, &error))?;
        if !entry.file_name().as_encoded_bytes().starts_with(b".") {
            paths.push(entry.path());
        }
        if paths.len() > FILES_MAX {
            return Err(damaged(
                folder,
                format_args!("it holds more than {FILES_MAX} files"),
            ));
        }
    }
    paths.sort_unstable();
    Ok(paths)
}

fn utf8_name(path: &Path) -> Result<String, Fault> {
    path.file_name()
        .and_then(|name| name.to_str())
        .map(ToString::to_string)
        .ok_or_else(|| damaged(path, "its name is not UTF-8 text"))
}

impl Folder {
    /// Lists the pictures of a folder for known classes.
    ///
    /// # Errors
    ///
    /// Usage when there are none, or a sub-folder is no class.
    pub(super) fn list(root: &Path, names: &[String]) -> Result<Self, Fault> {
        let mut folder = Folder {
            files: Vec::new(),
            passed_over: 0,
        };
        for entry in entries(root)?.into_iter().filter(|entry| entry.is_dir()) {
            let name = utf8_name(&entry)?;
            let Ok(class) = names.binary_search(&name) else {
                let fault = Fault::usage(format!(
                    "{} is no class of the training folder",
                    entry.display()
                ));
                return Err(match nearest(&name, names.iter().map(String::as_str)) {
                    Some(found) => fault.advise(format!("did you mean `{found}`?")),
                    None => fault.advise("remove it, or add training images of that class"),
                });
            };
            for path in entries(&entry)? {
                let ending = path
                    .extension()
                    .and_then(|e| e.to_str())
                    .unwrap_or_default();
                if ["png", "jpg", "jpeg"]
                    .iter()
                    .any(|known| ending.eq_ignore_ascii_case(known))
                {
                    // Classes are bounded.
                    let class = u32::try_from(class).unwrap_or(0);
                    folder.files.push(FolderFile { path, class });
                } else {
                    folder.passed_over += 1;
                }
            }
        }
        if folder.files.is_empty() {
            return Err(Fault::usage(format!(
                "{} holds no PNG or JPEG file in its sub-folders",
                root.display()
            )));
        }
        Ok(folder)
    }

    /// Reads every file: its hash, and the shape that its header claims.
    ///
    /// # Errors
    ///
    /// Damaged, with the file's name, for what is no picture.
    pub(super) fn look(&self) -> Result<Vec<Look>, Fault> {
        self.files
            .par_iter()
            .map(|file| {
                let bytes = read_stored(&file.path, FILE_BYTES_MAX)?;
                Ok(Look {
                    sha256: sha256_hex(&bytes),
                    bytes: bytes.len() as u64,
                    geometry: header(&file.path, &bytes)?,
                })
            })
            .collect()
    }

    /// Lines for the record of the preparation: one per file, or one per class when there are many.
    pub(super) fn records(&self, role: &str, looks: &[Look]) -> Vec<FileRecord> {
        let pairs: Vec<(&FolderFile, &Look)> = self.files.iter().zip(looks).collect();
        if pairs.len() <= RECORDS_MAX {
            return pairs
                .iter()
                .map(|(file, look)| FileRecord {
                    role: format!("{role} class {}", file.class),
                    path: file.path.display().to_string(),
                    bytes: look.bytes,
                    sha256: look.sha256.clone(),
                })
                .collect();
        }
        pairs
            .chunk_by(|a, b| a.0.class == b.0.class)
            .map(|chunk| {
                let hashes: Vec<&str> =
                    chunk.iter().map(|(_, look)| look.sha256.as_str()).collect();
                let (first, _) = chunk[0];
                FileRecord {
                    role: format!("{role} class {}", first.class),
                    path: first
                        .path
                        .parent()
                        .unwrap_or(&first.path)
                        .display()
                        .to_string(),
                    bytes: chunk.iter().map(|(_, look)| look.bytes).sum(),
                    sha256: sha256_hex(hashes.join("\n").as_bytes()),
                }
            })
            .collect()
    }

    /// Planes of one picture in the prepared shape.
    ///
    /// # Errors
    ///
    /// Damaged, with the file's name, when it cannot be decoded.
    pub(super) fn decode(&self, index: usize, to: Geometry) -> Result<Vec<u8>, Fault> {
        let path = &self.files[index].path;
        let bytes = read_stored(path, FILE_BYTES_MAX)?;
        let decoder = decoder(path, &bytes)?;
        let from = Geometry {
            channels: to.channels,
            ..claimed(path, &decoder)?
        };
        if decoder.total_bytes() > DECODE_BYTES_MAX {
            return Err(damaged(path, "decoding it takes too much memory"));
        }
        let picture =
            DynamicImage::from_decoder(decoder).map_err(|error| undecodable(path, &error))?;
        if to.channels == 1 {
            resize(&picture.into_luma8().into_raw(), from, to)
        } else {
            resize_colours(&picture.into_rgb8().into_raw(), from, to)
        }
    }
}

fn reader<'a>(path: &Path, bytes: &'a [u8]) -> Result<ImageReader<Cursor<&'a [u8]>>, Fault> {
    let mut reader = ImageReader::new(Cursor::new(bytes))
        .with_guessed_format()
        .map_err(|error| Fault::io("read", path, &error))?;
    if !matches!(reader.format(), Some(ImageFormat::Png | ImageFormat::Jpeg)) {
        return Err(damaged(path, "it is neither a PNG nor a JPEG picture"));
    }
    let mut limits = Limits::default();
    let side = u32::try_from(SIDE_MAX).unwrap_or(u32::MAX);
    limits.max_image_width = Some(side);
    limits.max_image_height = Some(side);
    limits.max_alloc = Some(DECODE_BYTES_MAX);
    reader.limits(limits);
    Ok(reader)
}

/// The shape that a file's header claims.
fn header(path: &Path, bytes: &[u8]) -> Result<Geometry, Fault> {
    claimed(path, &decoder(path, bytes)?)
}

/// A decoder that has read the header.
fn decoder<'a>(path: &Path, bytes: &'a [u8]) -> Result<impl ImageDecoder + 'a, Fault> {
    if bytes.is_empty() {
        return Err(damaged(path, "it is empty"));
    }
    reader(path, bytes)?
        .into_decoder()
        .map_err(|error| undecodable(path, &error))
}

fn claimed(path: &Path, decoder: &impl ImageDecoder) -> Result<Geometry, Fault> {
    let (width, height) = decoder.dimensions();
    let channels = if decoder.color_type().has_color() {
        3
    } else {
        1
    };
    Geometry::new(channels, height as usize, width as usize).map_err(|what| damaged(path, what))
}

fn undecodable(path: &Path, error: &image::ImageError) -> Fault {
    damaged(path, format_args!("it cannot be decoded: {error}"))
        .advise("replace or remove the file")
}
