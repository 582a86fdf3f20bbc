//! One pass over all images: sums for the normalisation, hashes for leakage, and what validation
//! has to say.

use std::collections::HashSet;
use std::hash::Hasher;

use rayon::prelude::*;

use super::ImagePreparation;
use super::folder::Look;
use super::store::{Geometry, Store};
use crate::config::{ImageData, Normalize};
use crate::data::batch::Part;
use crate::data::dataset::Report;
use crate::data::mix::{BuildMix, Mix};
use crate::data::nearest::listed;
use crate::data::split::PartSamples;
use crate::run::{ClassCount, Fault, PartSummary};

/// What the pass found.
#[derive(Debug)]
pub(super) struct Scan {
    /// Pixels of the training images, per channel.
    pixels: u64,
    /// Sum of their bytes, per channel. Integers: the same for any number of threads.
    sums: Vec<u64>,
    /// Sum of the squares of their bytes, per channel.
    squares: Vec<u64>,
    /// Training images that have one colour throughout.
    blank: usize,
    /// By held-out part: images that are in the training part, too.
    leaked: Vec<(Part, usize)>,
    /// Training images that are in the training part more than once.
    repeated: usize,
}

/// Sums and hash of one image.
struct One {
    sums: Vec<u64>,
    squares: Vec<u64>,
    blank: bool,
    hash: u64,
}

/// Decodes every image once.
///
/// # Errors
///
/// Damaged, with the file's name, for what cannot be decoded.
pub(super) fn scan(
    stores: &[Store],
    looks: &[Vec<Look>],
    parts: &[PartSamples],
    geometry: Geometry,
) -> Result<Scan, Fault> {
    let mut scan = Scan {
        pixels: 0,
        sums: vec![0; geometry.channels],
        squares: vec![0; geometry.channels],
        blank: 0,
        leaked: Vec::new(),
        repeated: 0,
    };
    let mut train: HashSet<u64, BuildMix> = HashSet::default();
    for part in parts {
        let images: Vec<usize> = part.samples.iter().collect();
        let found = images
            .par_iter()
            .map(|&index| {
                let planes = stores[part.source].pixels(index, geometry)?;
                let mut one = look(&planes, geometry);
                // Files are compared as they are, not as they look after resizing.
                if let Some(look) = looks[part.source].get(index) {
                    one.hash = hash(look.sha256.as_bytes());
                }
                Ok(one)
            })
            .collect::<Result<Vec<_>, Fault>>()?;
        if part.part == Part::Train {
            scan.pixels = (images.len() * geometry.height * geometry.width) as u64;
            for one in &found {
                for (sum, own) in scan.sums.iter_mut().zip(&one.sums) {
                    *sum += own;
                }
                for (sum, own) in scan.squares.iter_mut().zip(&one.squares) {
                    *sum += own;
                }
                scan.blank += usize::from(one.blank);
                scan.repeated += usize::from(!train.insert(one.hash));
            }
        } else {
            let leaked = found.iter().filter(|one| train.contains(&one.hash)).count();
            scan.leaked.push((part.part, leaked));
        }
    }
    Ok(scan)
}

fn look(planes: &[u8], geometry: Geometry) -> One {
    let size = geometry.height * geometry.width;
    let mut one = One {
        sums: Vec::with_capacity(geometry.channels),
        squares: Vec::with_capacity(geometry.channels),
        blank: true,
        hash: hash(planes),
    };
    for plane in planes.chunks_exact(size) {
        // A plane has at most 2^28 pixels: the sums fit 64 bits.
        let (mut sum, mut square) = (0u64, 0u64);
        for chunk in plane.chunks(1 << 12) {
            // Within a chunk 32 bits do, which vectorises twice as wide.
            let (mut part, mut squared) = (0u32, 0u32);
            for &byte in chunk {
                let value = u32::from(byte);
                part += value;
                squared += value * value;
            }
            sum += u64::from(part);
            square += u64::from(squared);
        }
        one.sums.push(sum);
        one.squares.push(square);
        one.blank &= plane
            .first()
            .is_none_or(|first| plane.iter().all(|byte| byte == first));
    }
    one
}

fn hash(bytes: &[u8]) -> u64 {
    let mut mix = Mix::default();
    mix.write(bytes);
    mix.finish()
}

impl Scan {
    /// Mean and deviation of the training pixels, per channel, on the 0 to 1 scale. A channel
    /// without spread keeps its scale.
    #[expect(
        clippy::cast_precision_loss,
        reason = "means need no more than 53 bits"
    )]
    pub(super) fn moments(&self) -> (Vec<f64>, Vec<f64>) {
        let count = self.pixels.max(1);
        self.sums
            .iter()
            .zip(&self.squares)
            .map(|(&sum, &square)| {
                // n sum(x^2) - sum(x)^2 without rounding.
                let spread =
                    u128::from(count) * u128::from(square) - u128::from(sum) * u128::from(sum);
                let std = (spread as f64).sqrt() / count as f64 / 255.0;
                let mean = sum as f64 / count as f64 / 255.0;
                (mean, if std > 0.0 { std } else { 1.0 })
            })
            .unzip()
    }
}

/// What validation has to say.
pub(super) fn report(
    config: &ImageData,
    stores: &[Store],
    parts: &[PartSamples],
    preparation: &ImagePreparation,
    found: &Scan,
) -> Report {
    let mut report = Report::default();
    for part in parts {
        let mut counts = vec![0u64; preparation.classes.len()];
        for index in part.samples.iter() {
            if let Some(count) = counts.get_mut(stores[part.source].label(index) as usize) {
                *count += 1;
            }
        }
        report.parts.push(PartSummary {
            split: part.part.split().to_string(),
            samples: part.samples.len() as u64,
            classes: preparation
                .classes
                .iter()
                .zip(counts)
                .map(|(class, count)| ClassCount {
                    class: class.clone(),
                    count,
                })
                .collect(),
        });
    }
    facts(&mut report, config, preparation);
    warnings(&mut report, stores, parts, found);
    report
}

fn facts(report: &mut Report, config: &ImageData, preparation: &ImagePreparation) {
    let colour = if preparation.channels == 1 {
        "grey"
    } else {
        "colour"
    };
    report.fact(
        "images",
        format!(
            "{} by {} pixels, {colour}",
            preparation.height, preparation.width
        ),
    );
    report.fact("classes", preparation.classes.len().to_string());
    let listed = |values: &[f64]| {
        let texts: Vec<String> = values.iter().map(|value| format!("{value:.4}")).collect();
        texts.join(" ")
    };
    let how = match config.normalize {
        Normalize::None => "none".to_string(),
        Normalize::Auto | Normalize::Fixed { .. } => format!(
            "mean {}, deviation {}",
            listed(&preparation.mean),
            listed(&preparation.std)
        ),
    };
    report.fact("normalisation", how);
    let augment = &config.augment;
    if augment.flip > 0.0 || augment.crop_padding > 0 {
        report.fact(
            "augmentation",
            format!(
                "flip {}, crop from {} pixels of padding",
                augment.flip, augment.crop_padding
            ),
        );
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of images")]
fn warnings(report: &mut Report, stores: &[Store], parts: &[PartSamples], found: &Scan) {
    let absent: Vec<String> = report
        .parts
        .first()
        .map(|train| {
            let empty = train.classes.iter().filter(|class| class.count == 0);
            empty.map(|class| class.class.clone()).collect()
        })
        .unwrap_or_default();
    if !absent.is_empty() {
        report
            .warnings
            .push(format!("no training image has class {}", listed(&absent)));
    }
    for part in parts {
        let Some(&(_, leaked)) = found.leaked.iter().find(|(of, _)| *of == part.part) else {
            continue;
        };
        if leaked > 0 {
            report.warnings.push(format!(
                "{leaked} of {} images in {} ({:.2} %) are in train, too",
                part.samples.len(),
                part.part.split(),
                100.0 * leaked as f64 / part.samples.len() as f64
            ));
        }
    }
    if found.repeated > 0 {
        report.warnings.push(format!(
            "{} training images repeat another one",
            found.repeated
        ));
    }
    if found.blank > 0 {
        report.warnings.push(format!(
            "{} training images have one colour throughout",
            found.blank
        ));
    }
    for store in stores {
        if let Store::Folder(folder) = store
            && folder.passed_over > 0
        {
            report.warnings.push(format!(
                "{} files were passed over because they are neither `.png` nor `.jpg`",
                folder.passed_over
            ));
        }
    }
}
