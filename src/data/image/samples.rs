//! Batches of images.

use rayon::prelude::*;

use super::ImagePreparation;
use super::augment::{Change, Scale, scale, write};
use super::store::{Geometry, Store};
use crate::config::Augment;
use crate::data::batch::{AugmentKey, Input, Part, Target};
use crate::data::dataset::Samples;
use crate::data::split::{PartSamples, Parts};
use crate::run::Fault;

/// Stores with the images of each part.
pub(super) struct ImageSamples {
    stores: Vec<Store>,
    parts: Parts,
    geometry: Geometry,
    scale: Scale,
    augment: Augment,
}

impl ImageSamples {
    pub(super) fn new(
        stores: Vec<Store>,
        parts: Vec<PartSamples>,
        geometry: Geometry,
        preparation: &ImagePreparation,
        augment: Augment,
    ) -> Self {
        Self {
            stores,
            parts: Parts(parts),
            geometry,
            scale: scale(&preparation.mean, &preparation.std),
            augment,
        }
    }
}

impl Samples for ImageSamples {
    fn count(&self, part: Part) -> usize {
        self.parts.count(part)
    }

    fn batch(
        &self,
        part: Part,
        places: &[usize],
        augment: Option<AugmentKey>,
    ) -> Result<(Input, Target), Fault> {
        let part = self.parts.get(part)?;
        let store = &self.stores[part.source];
        let images: Vec<(usize, usize)> = places
            .iter()
            .filter_map(|&place| Some((place, part.samples.get(place)?)))
            .collect();
        let length = self.geometry.len();
        let mut pixels = vec![0.0; images.len() * length];
        let one = |(out, &(place, index)): (&mut [f32], &(usize, usize))| -> Result<(), Fault> {
            let change = augment.map_or(Change::NONE, |key| {
                Change::draw(&self.augment, key, place as u64)
            });
            let planes = store.pixels(index, self.geometry)?;
            write(&planes, self.geometry, change, &self.scale, out);
            Ok(())
        };
        match store {
            Store::Memory(_) => pixels
                .chunks_exact_mut(length)
                .zip(&images)
                .try_for_each(one)?,
            // Decoding is slow: worth all threads.
            Store::Folder(_) => pixels
                .par_chunks_exact_mut(length)
                .zip(&images)
                .try_for_each(one)?,
        }
        let labels = images
            .iter()
            .map(|&(_, index)| i32::try_from(store.label(index)).unwrap_or(i32::MAX))
            .collect();
        Ok((Input::Images { pixels }, Target::Classes(labels)))
    }

    fn name(&self, part: Part, place: usize) -> String {
        match self.parts.locate(part, place) {
            Some((store, index)) => self.stores[store].name(index),
            None => format!("sample {place}"),
        }
    }
}
