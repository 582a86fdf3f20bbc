//! Pictures as they wait for a batch: in memory, or as files that are decoded when asked for.

use std::borrow::Cow;
use std::path::PathBuf;

use rayon::prelude::*;

use super::folder::Folder;
use super::resize::resize;
use crate::data::source::file_name;
use crate::run::Fault;

/// Largest height and width, in pixels.
pub(super) const SIDE_MAX: usize = 1 << 14;

/// Shape of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Geometry {
    /// 1 (grey) or 3 (colour).
    pub channels: usize,
    /// Pixels.
    pub height: usize,
    /// Pixels.
    pub width: usize,
}

impl Geometry {
    /// A shape within bounds.
    ///
    /// # Errors
    ///
    /// What is out of bounds, in words.
    pub(super) fn new(channels: usize, height: usize, width: usize) -> Result<Self, String> {
        if !matches!(channels, 1 | 3) {
            return Err(format!(
                "images have {channels} channels, which is neither 1 nor 3"
            ));
        }
        if height == 0 || width == 0 || height > SIDE_MAX || width > SIDE_MAX {
            return Err(format!(
                "images are {height} by {width} pixels; 1 to {SIDE_MAX} are possible on each side"
            ));
        }
        Ok(Self {
            channels,
            height,
            width,
        })
    }

    /// Bytes of a picture.
    pub(super) fn len(self) -> usize {
        self.channels * self.height * self.width
    }
}

/// Pictures in memory.
#[derive(Debug)]
pub(super) struct Pictures {
    /// Shape of each.
    pub geometry: Geometry,
    /// `[n, channels, height, width]`.
    pub pixels: Vec<u8>,
    /// Class numbers, `[n]`.
    pub labels: Vec<u32>,
    /// Where they came from, with the number of pictures of each file.
    pub files: Vec<(PathBuf, usize)>,
}

impl Pictures {
    /// The same pictures in another shape.
    pub(super) fn reshaped(self, geometry: Geometry) -> Result<Self, Fault> {
        if geometry == self.geometry {
            return Ok(self);
        }
        let from = self.geometry;
        let mut pixels = vec![0; geometry.len() * self.labels.len()];
        pixels
            .par_chunks_exact_mut(geometry.len())
            .zip(self.pixels.par_chunks_exact(from.len()))
            .try_for_each(|(out, image)| {
                out.copy_from_slice(&resize(image, from, geometry)?);
                Ok::<_, Fault>(())
            })?;
        Ok(Self {
            geometry,
            pixels,
            ..self
        })
    }
}

/// Where pictures come from.
#[derive(Debug)]
pub(super) enum Store {
    /// Memory.
    Memory(Pictures),
    /// Files.
    Folder(Folder),
}

impl Store {
    /// Number of pictures.
    pub(super) fn len(&self) -> usize {
        match self {
            Store::Memory(pictures) => pictures.labels.len(),
            Store::Folder(folder) => folder.files.len(),
        }
    }

    /// Class number of a picture.
    pub(super) fn label(&self, index: usize) -> u32 {
        match self {
            Store::Memory(pictures) => pictures.labels[index],
            Store::Folder(folder) => folder.files[index].class,
        }
    }

    /// Planes of a picture in the prepared shape.
    ///
    /// # Errors
    ///
    /// When a file cannot be decoded any more.
    pub(super) fn pixels(&self, index: usize, geometry: Geometry) -> Result<Cow<'_, [u8]>, Fault> {
        match self {
            Store::Memory(pictures) => {
                let start = index * geometry.len();
                Ok(Cow::Borrowed(
                    &pictures.pixels[start..start + geometry.len()],
                ))
            }
            Store::Folder(folder) => folder.decode(index, geometry).map(Cow::Owned),
        }
    }

    /// What a person would call a picture.
    pub(super) fn name(&self, index: usize) -> String {
        match self {
            Store::Folder(folder) => folder.files[index].path.display().to_string(),
            Store::Memory(pictures) => {
                let mut place = index;
                for (path, count) in &pictures.files {
                    if place < *count {
                        return format!("image {} of {}", place + 1, file_name(path));
                    }
                    place -= count;
                }
                format!("image {}", index + 1)
            }
        }
    }
}
