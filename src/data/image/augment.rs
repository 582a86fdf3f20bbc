//! Bytes become normalised numbers, flipped and cropped as a seed says.

use super::store::Geometry;
use crate::config::Augment;
use crate::data::batch::AugmentKey;
use crate::plan::rng::{Purpose, Stream};

/// What happens to one picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Change {
    flip: bool,
    /// Rows and columns that the window starts away from the picture's own corner.
    down: isize,
    right: isize,
}

impl Change {
    /// Nothing.
    pub(super) const NONE: Change = Change {
        flip: false,
        down: 0,
        right: 0,
    };

    /// The change of a sample in an epoch. All values are drawn in a fixed order, whether or not
    /// they are used, so that one setting does not move the other.
    pub(super) fn draw(augment: &Augment, key: AugmentKey, sample: u64) -> Self {
        let mut stream = Stream::new(key.seed, Purpose::Augment, key.epoch.get(), sample);
        let flip = stream.uniform() < augment.flip;
        let padding = u64::from(augment.crop_padding);
        let mut offset = || {
            let place = stream.below(2 * padding + 1);
            // Both are far below the range of `isize`: paddings have 32 bits.
            isize::try_from(place).unwrap_or(0) - isize::try_from(padding).unwrap_or(0)
        };
        Self {
            flip,
            down: offset(),
            right: offset(),
        }
    }
}

/// Value of each byte, by channel.
pub(super) type Scale = Vec<[f32; 256]>;

/// The values of bytes on the 0 to 1 scale, less the mean, over the deviation.
#[expect(
    clippy::cast_possible_truncation,
    reason = "model inputs are 32-bit numbers"
)]
pub(super) fn scale(mean: &[f64], std: &[f64]) -> Scale {
    mean.iter()
        .zip(std)
        .map(|(mean, std)| {
            let mut table = [0.0; 256];
            for (byte, value) in (0u8..=255).zip(&mut table) {
                *value = ((f64::from(byte) / 255.0 - mean) / std) as f32;
            }
            table
        })
        .collect()
}

/// Writes a picture. What lies beyond its edge is black (byte 0).
pub(super) fn write(
    planes: &[u8],
    geometry: Geometry,
    change: Change,
    scale: &Scale,
    out: &mut [f32],
) {
    let Geometry { height, width, .. } = geometry;
    let size = height * width;
    for ((plane, out), table) in planes
        .chunks_exact(size)
        .zip(out.chunks_exact_mut(size))
        .zip(scale)
    {
        if change == Change::NONE {
            look_up(out.iter_mut(), plane.iter(), table);
            continue;
        }
        let black = table[0];
        for (y, row_out) in out.chunks_exact_mut(width).enumerate() {
            let row = y
                .checked_add_signed(change.down)
                .filter(|&row| row < height);
            let Some(row) = row else {
                row_out.fill(black);
                continue;
            };
            let row = &plane[row * width..(row + 1) * width];
            // Columns of the window that lie within the row, and what they show.
            let shift = change.right.unsigned_abs().min(width);
            let (inside, shown) = if change.right < 0 {
                (shift..width, &row[..width - shift])
            } else {
                (0..width - shift, &row[shift..])
            };
            // A flip turns the window around.
            let inside = if change.flip {
                width - inside.end..width - inside.start
            } else {
                inside
            };
            row_out[..inside.start].fill(black);
            row_out[inside.end..].fill(black);
            let values = row_out[inside].iter_mut();
            if change.flip {
                look_up(values, shown.iter().rev(), table);
            } else {
                look_up(values, shown.iter(), table);
            }
        }
    }
}

fn look_up<'a>(
    values: impl Iterator<Item = &'a mut f32>,
    bytes: impl Iterator<Item = &'a u8>,
    table: &[f32; 256],
) {
    for (value, &byte) in values.zip(bytes) {
        *value = table[usize::from(byte)];
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::run::Epoch;

    proptest! {
        #[test]
        fn every_pixel_comes_from_its_place(
            [height, width] in [1usize..9, 1..9], down in -12isize..12, right in -12isize..12,
            flip: bool
        ) {
            let geometry = Geometry::new(1, height, width).unwrap();
            let plane: Vec<u8> = (1..=u8::try_from(height * width).unwrap()).collect();
            let mut out = vec![-1.0; height * width];
            write(&plane, geometry, Change { flip, down, right }, &identity(), &mut out);
            for (place, value) in out.iter().enumerate() {
                let (y, x) = (place / width, place % width);
                let x = if flip { width - 1 - x } else { x };
                let row = y.checked_add_signed(down).filter(|&row| row < height);
                let column = x.checked_add_signed(right).filter(|&column| column < width);
                let byte = row.zip(column).map_or(0, |(row, column)| plane[row * width + column]);
                prop_assert!((value - f32::from(byte)).abs() < 1e-3, "{value} is not {byte}");
            }
        }
    }

    fn identity() -> Scale {
        scale(&[0.0], &[1.0 / 255.0])
    }

    fn shown(change: Change) -> Vec<String> {
        let geometry = Geometry::new(1, 2, 3).unwrap();
        let mut out = vec![0.0; 6];
        write(&[1, 2, 3, 4, 5, 6], geometry, change, &identity(), &mut out);
        out.iter().map(|value| format!("{value:.0}")).collect()
    }

    #[test]
    fn flips_and_crops_move_pixels() {
        assert_eq!(shown(Change::NONE), ["1", "2", "3", "4", "5", "6"]);
        let flip = Change {
            flip: true,
            ..Change::NONE
        };
        assert_eq!(shown(flip), ["3", "2", "1", "6", "5", "4"]);
        let moved = Change {
            flip: false,
            down: 1,
            right: -1,
        };
        assert_eq!(shown(moved), ["0", "4", "5", "0", "0", "0"]);
    }

    #[test]
    fn changes_depend_on_seed_epoch_and_sample_alone() {
        let augment = Augment {
            flip: 0.5,
            crop_padding: 4,
        };
        let draw = |seed, epoch, sample| {
            let epoch = Epoch::new(epoch);
            Change::draw(&augment, AugmentKey { seed, epoch }, sample)
        };
        let many = |seed, epoch| -> Vec<Change> { (0..50).map(|s| draw(seed, epoch, s)).collect() };
        assert_eq!(many(1, 2), many(1, 2));
        assert_ne!(many(1, 2), many(2, 2));
        assert_ne!(many(1, 2), many(1, 3));
        let flips = (0..2000).filter(|&s| draw(1, 0, s).flip).count();
        assert!((850..1150).contains(&flips), "{flips}");
        let mut rights: Vec<isize> = (0..500).map(|s| draw(1, 0, s).right).collect();
        rights.sort_unstable();
        rights.dedup();
        assert_eq!(rights, (-4..=4).collect::<Vec<_>>());
        let none = Augment {
            flip: 0.0,
            crop_padding: 0,
        };
        let epoch = Epoch::new(0);
        assert_eq!(
            Change::draw(&none, AugmentKey { seed: 1, epoch }, 3),
            Change::NONE
        );
    }
}
