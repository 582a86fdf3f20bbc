//! Images: idx pairs, CIFAR batches and folders of PNG and JPEG files.
//!
//! What is compact on disk (idx, CIFAR) is held in memory as bytes; files of folders are decoded
//! when a batch asks for them, after all of them were decoded once to validate them.
//!
//! Refuses to: compute the normalisation from anything but training images.

mod augment;
mod cifar;
mod folder;
mod idx;
mod report;
mod resize;
mod samples;
mod store;

use std::path::Path;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use self::cifar::{CIFAR10_CLASSES, CIFAR100_CLASSES, Layout};
use self::folder::{Folder, Look};
use self::report::{Scan, report, scan};
use self::samples::ImageSamples;
use self::store::{Geometry, Pictures, Store};
use super::batch::{InputShape, Part, TargetShape};
use super::dataset::Opened;
use super::prepared::{Earlier, FileRecord, Preparation};
use super::source::Source;
use super::split::{divide, parts};
use crate::config::{ImageData, ImageFormat, Normalize, Split};
use crate::run::Fault;

/// What images are prepared with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct ImagePreparation {
    channels: usize,
    height: usize,
    width: usize,
    classes: Vec<String>,
    /// Subtracted, by channel, on the 0 to 1 scale.
    mean: Vec<f64>,
    /// Divided by; never 0.
    std: Vec<f64>,
}

/// A source of images as read.
struct Raw {
    path: std::path::PathBuf,
    store: Store,
    /// Shapes and hashes of a folder's files.
    looks: Vec<Look>,
}

/// Reads, splits, validates and prepares the images of a config.
///
/// # Errors
///
/// See [`super::Dataset::open`].
pub(super) fn open(config: &ImageData, seed: u64, earlier: &Earlier) -> Result<Opened, Fault> {
    let (classes, raws, files) = read_all(config)?;
    let known = match earlier.check(&files)? {
        Some(Preparation::Images(known)) => Some(known.clone()),
        _ => None,
    };
    let geometry = match &known {
        Some(known) => {
            Geometry::new(known.channels, known.height, known.width).map_err(Fault::damaged)?
        }
        None => common_geometry(config, &raws)?,
    };
    let counts: Vec<usize> = raws.iter().map(|raw| raw.store.len()).collect();
    let divided = divide(counts[0], &config.validation, &config.test, seed)?;
    let parts = parts(divided, &config.validation, &config.test, &counts);
    let looks: Vec<Vec<Look>> = raws.iter().map(|raw| raw.looks.clone()).collect();
    let mut stores = Vec::with_capacity(raws.len());
    for raw in raws {
        stores.push(match raw.store {
            Store::Memory(pictures) => Store::Memory(pictures.reshaped(geometry)?),
            folder @ Store::Folder(_) => folder,
        });
    }
    check_labels(&stores, &classes)?;
    let (preparation, report) = if let Some(known) = known {
        (known, None)
    } else {
        let found = scan(&stores, &looks, &parts, geometry)?;
        let (mean, std) = normalization(&config.normalize, geometry, &found)?;
        let preparation = ImagePreparation {
            channels: geometry.channels,
            height: geometry.height,
            width: geometry.width,
            classes,
            mean,
            std,
        };
        let report = report(config, &stores, &parts, &preparation, &found);
        (preparation, Some(report))
    };
    Ok(Opened {
        files,
        input: InputShape::Image {
            channels: geometry.channels,
            height: geometry.height,
            width: geometry.width,
        },
        target: TargetShape::Classes {
            names: preparation.classes.clone(),
        },
        samples: Box::new(ImageSamples::new(
            stores,
            parts,
            geometry,
            &preparation,
            config.augment.clone(),
        )),
        preparation: Preparation::Images(preparation),
        report,
    })
}

/// Class names, sources (training first) and the files they came from.
type ReadAll = (Vec<String>, Vec<Raw>, Vec<FileRecord>);

fn read_all(config: &ImageData) -> Result<ReadAll, Fault> {
    let mut wanted = vec![(Part::Train, "train", &config.train, &config.train_labels)];
    for (part, role, split, labels) in [
        (
            Part::Validation,
            "validation",
            &config.validation,
            &config.validation_labels,
        ),
        (Part::Test, "test", &config.test, &config.test_labels),
    ] {
        if let Split::Path(path) = split {
            wanted.push((part, role, path, labels));
        }
    }
    let folder_classes = match config.format {
        ImageFormat::Folder => folder::classes(&config.train)?,
        _ => Vec::new(),
    };
    let read: Vec<(Raw, Vec<FileRecord>)> = wanted
        .par_iter()
        .map(|&(part, role, path, labels)| {
            read_one(config, part, role, path, labels, &folder_classes)
        })
        .collect::<Result<_, Fault>>()?;
    let (raws, records): (Vec<Raw>, Vec<Vec<FileRecord>>) = read.into_iter().unzip();
    let classes = match config.format {
        ImageFormat::Folder => folder_classes,
        ImageFormat::Cifar10 => CIFAR10_CLASSES.map(String::from).to_vec(),
        ImageFormat::Cifar100 => (0..CIFAR100_CLASSES).map(|n| n.to_string()).collect(),
        ImageFormat::Idx => {
            let store = &raws[0].store;
            let last = (0..store.len())
                .map(|index| store.label(index))
                .max()
                .unwrap_or(0);
            (0..=last).map(|n| n.to_string()).collect()
        }
    };
    Ok((classes, raws, records.concat()))
}

fn read_one(
    config: &ImageData,
    part: Part,
    role: &str,
    path: &Path,
    labels: &Path,
    classes: &[String],
) -> Result<(Raw, Vec<FileRecord>), Fault> {
    let in_memory = |pictures: Pictures, sources: &[Source], roles: &[&str]| {
        let records = sources
            .iter()
            .zip(roles.iter().cycle())
            .map(|(source, kind)| source.record(format!("{role}{kind}")))
            .collect();
        let raw = Raw {
            path: path.to_path_buf(),
            store: Store::Memory(pictures),
            looks: Vec::new(),
        };
        (raw, records)
    };
    match config.format {
        ImageFormat::Idx => {
            if labels.as_os_str().is_empty() {
                return Err(Fault::usage(format!(
                    "the labels of {} are not named",
                    path.display()
                ))
                .advise(format!(
                    "set data.{role}_labels to the idx file with the labels"
                )));
            }
            let (pictures, sources) = idx::read(path, labels)?;
            Ok(in_memory(pictures, &sources, &[" images", " labels"]))
        }
        ImageFormat::Cifar10 | ImageFormat::Cifar100 => {
            let layout = if config.format == ImageFormat::Cifar10 {
                Layout::Cifar10
            } else {
                Layout::Cifar100
            };
            let (pictures, sources) = cifar::read(path, part, layout)?;
            Ok(in_memory(pictures, &sources, &[""]))
        }
        ImageFormat::Folder => {
            let folder = Folder::list(path, classes)?;
            let looks = folder.look()?;
            let records = folder.records(role, &looks);
            let raw = Raw {
                path: path.to_path_buf(),
                store: Store::Folder(folder),
                looks,
            };
            Ok((raw, records))
        }
    }
}

/// The one shape that all images are brought to.
fn common_geometry(config: &ImageData, raws: &[Raw]) -> Result<Geometry, Fault> {
    let own: Vec<(Geometry, String)> = raws
        .iter()
        .flat_map(|raw| match &raw.store {
            Store::Memory(pictures) => vec![(pictures.geometry, raw.path.display().to_string())],
            Store::Folder(folder) => folder
                .files
                .iter()
                .zip(&raw.looks)
                .map(|(file, look)| (look.geometry, file.path.display().to_string()))
                .collect(),
        })
        .collect();
    let Some((first, first_name)) = own.first() else {
        return Err(Fault::damaged("there are no images"));
    };
    let [height, width] = config.size.map(|side| side as usize);
    let (height, width) = if (height, width) == (0, 0) {
        let odd = own
            .iter()
            .find(|(geometry, _)| (geometry.height, geometry.width) != (first.height, first.width));
        if let Some((geometry, name)) = odd {
            return Err(Fault::usage(format!(
                "images differ in size: {first_name} is {} by {}, {name} is {} by {}",
                first.height, first.width, geometry.height, geometry.width
            ))
            .advise("set data.size = [height, width] to resize all of them"));
        }
        (first.height, first.width)
    } else {
        (height, width)
    };
    let channels = match config.channels {
        0 => own
            .iter()
            .map(|(geometry, _)| geometry.channels)
            .max()
            .unwrap_or(1),
        channels => channels as usize,
    };
    Geometry::new(channels, height, width)
        .map_err(|what| Fault::usage(what).advise("look at data.size and data.channels"))
}

/// Labels of held-out files must be classes of the training file.
fn check_labels(stores: &[Store], classes: &[String]) -> Result<(), Fault> {
    for store in stores {
        for index in 0..store.len() {
            let label = store.label(index);
            if label as usize >= classes.len() {
                return Err(Fault::damaged(format!(
                    "{} has label {label}, out of range: training labels go from 0 to {}",
                    store.name(index),
                    classes.len() - 1
                ))
                .advise("is it the label file of other images?"));
            }
        }
    }
    Ok(())
}

/// Mean and deviation by channel.
fn normalization(
    normalize: &Normalize,
    geometry: Geometry,
    found: &Scan,
) -> Result<(Vec<f64>, Vec<f64>), Fault> {
    match normalize {
        Normalize::None => Ok((vec![0.0; geometry.channels], vec![1.0; geometry.channels])),
        Normalize::Auto => Ok(found.moments()),
        Normalize::Fixed { mean, std } => {
            let ok = mean.len() == geometry.channels
                && std.len() == geometry.channels
                && mean.iter().all(|value| value.is_finite())
                && std.iter().all(|&value| value.is_finite() && value > 0.0);
            if !ok {
                return Err(Fault::usage(format!(
                    "data.normalize has {} means and {} deviations; the images have {} channels, and deviations are above 0",
                    mean.len(),
                    std.len(),
                    geometry.channels
                )));
            }
            let wide = |values: &[f32]| values.iter().map(|&value| f64::from(value)).collect();
            Ok((wide(mean), wide(std)))
        }
    }
}
