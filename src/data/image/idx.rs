//! The idx format of MNIST: a magic number, sizes, bytes. All numbers are big-endian.

use std::path::Path;

use super::store::{Geometry, Pictures};
use crate::data::source::{Source, damaged, file_name};
use crate::run::Fault;

/// Largest file, before and after decompression.
const BYTES_MAX: u64 = 16 << 30;

/// Element type code of unsigned bytes, the only one images and labels are stored in.
const UNSIGNED_BYTE: u8 = 0x08;

/// Reads a pair of files.
///
/// Images have rank 3 (`[n, height, width]`, grey) or rank 4: `[n, height, width, channels]` when
/// the last size is 1 or 3, else `[n, channels, height, width]`.
///
/// # Errors
///
/// Damaged when a header is wrong, does not match the file's length, or the two do not match.
pub(super) fn read(images: &Path, labels: &Path) -> Result<(Pictures, [Source; 2]), Fault> {
    let (pixels, numbers) = rayon::join(
        || Source::read(images, BYTES_MAX),
        || Source::read(labels, BYTES_MAX),
    );
    let (mut pixels, numbers) = (pixels?, numbers?);
    let image_sizes = header(images, &pixels.bytes, "images")?;
    let (geometry, interleaved) = geometry(images, &image_sizes.sizes)?;
    let label_sizes = header(labels, &numbers.bytes, "labels")?;
    if label_sizes.sizes.len() != 1 {
        return Err(damaged(
            labels,
            format_args!(
                "labels have rank 1, this file has rank {}",
                label_sizes.sizes.len()
            ),
        )
        .advise("are the paths of images and labels mixed up?"));
    }
    let count = image_sizes.sizes[0];
    if label_sizes.sizes[0] != count {
        return Err(damaged(
            labels,
            format_args!(
                "it holds {} labels, {} holds {count} images",
                label_sizes.sizes[0],
                file_name(images)
            ),
        )
        .advise("is it the label file of other images?"));
    }
    let mut bytes = std::mem::take(&mut pixels.bytes);
    bytes.drain(..image_sizes.length);
    if interleaved && geometry.channels > 1 {
        bytes = planar(&bytes, geometry);
    }
    let labels_read = numbers.bytes[label_sizes.length..]
        .iter()
        .map(|&label| u32::from(label))
        .collect();
    let pictures = Pictures {
        geometry,
        pixels: bytes,
        labels: labels_read,
        files: vec![(images.to_path_buf(), count)],
    };
    Ok((pictures, [pixels, numbers]))
}

/// A checked header.
struct Header {
    sizes: Vec<usize>,
    /// Its own bytes.
    length: usize,
}

/// Reads a header and holds it against the length of the file.
fn header(path: &Path, bytes: &[u8], what: &str) -> Result<Header, Fault> {
    let no_idx = || {
        damaged(
            path,
            "it is no idx file: it must begin with 00 00 08 and a rank from 1 to 4",
        )
        .advise("is data.format right?")
    };
    let &[0, 0, kind, rank] = bytes.first_chunk::<4>().ok_or_else(no_idx)? else {
        return Err(no_idx());
    };
    if !(1..=4).contains(&rank) {
        return Err(no_idx());
    }
    if kind != UNSIGNED_BYTE {
        return Err(damaged(
            path,
            format_args!(
                "its elements have type {kind:#04x}; {what} must be unsigned bytes (0x08)"
            ),
        ));
    }
    let length = 4 + 4 * usize::from(rank);
    let sizes: Vec<usize> = bytes
        .get(4..length)
        .ok_or_else(|| damaged(path, "it ends within its header"))?
        .as_chunks::<4>()
        .0
        .iter()
        .map(|size| u32::from_be_bytes(*size) as usize)
        .collect();
    let claimed = sizes
        .iter()
        .try_fold(1usize, |product, &size| product.checked_mul(size));
    if claimed != Some(bytes.len() - length) {
        return Err(damaged(
            path,
            format_args!(
                "its header claims sizes {sizes:?}, which do not match the {} bytes that follow",
                bytes.len() - length
            ),
        )
        .advise("the file is cut short or damaged; fetch it again"));
    }
    if sizes.contains(&0) {
        return Err(damaged(
            path,
            format_args!("it holds no {what}: sizes {sizes:?}"),
        ));
    }
    Ok(Header { sizes, length })
}

/// Geometry from the sizes, and whether channels are interleaved.
fn geometry(path: &Path, sizes: &[usize]) -> Result<(Geometry, bool), Fault> {
    let (channels, height, width, interleaved) = match *sizes {
        [_, height, width] => (1, height, width, false),
        [_, height, width, channels @ (1 | 3)] => (channels, height, width, true),
        [_, channels @ (1 | 3), height, width] => (channels, height, width, false),
        _ => {
            return Err(damaged(
                path,
                format_args!("sizes {sizes:?} are not those of grey or colour images"),
            )
            .advise("are the paths of images and labels mixed up?"));
        }
    };
    Geometry::new(channels, height, width)
        .map(|geometry| (geometry, interleaved))
        .map_err(|what| damaged(path, what))
}

/// `[n, h, w, c]` to `[n, c, h, w]`.
fn planar(bytes: &[u8], geometry: Geometry) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    for image in bytes.chunks_exact(geometry.len()) {
        for channel in 0..geometry.channels {
            out.extend(image.iter().skip(channel).step_by(geometry.channels));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn idx(sizes: &[u32], bytes: &[u8]) -> Vec<u8> {
        let mut out = vec![0, 0, 8, u8::try_from(sizes.len()).unwrap()];
        for size in sizes {
            out.extend(size.to_be_bytes());
        }
        out.extend(bytes);
        out
    }

    fn read_bytes(images: &[u8], labels: &[u8]) -> Result<Pictures, Fault> {
        let folder = tempfile::tempdir().unwrap();
        let (a, b) = (folder.path().join("images"), folder.path().join("labels"));
        std::fs::write(&a, images).unwrap();
        std::fs::write(&b, labels).unwrap();
        read(&a, &b).map(|(pictures, _)| pictures)
    }

    #[test]
    fn interleaved_channels_become_planes() {
        let pictures =
            read_bytes(&idx(&[1, 1, 2, 3], &[1, 2, 3, 4, 5, 6]), &idx(&[1], &[7])).unwrap();
        assert_eq!(pictures.pixels, [1, 4, 2, 5, 3, 6]);
        assert_eq!(pictures.labels, [7]);
        let pictures =
            read_bytes(&idx(&[1, 3, 1, 2], &[1, 2, 3, 4, 5, 6]), &idx(&[1], &[7])).unwrap();
        assert_eq!(pictures.pixels, [1, 2, 3, 4, 5, 6]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn any_bytes_give_pictures_or_a_fault(
            images: Vec<u8>, labels: Vec<u8>, sizes in prop::collection::vec(0u32..5, 0..5)
        ) {
            let _ = read_bytes(&images, &labels);
            let _ = read_bytes(&idx(&sizes, &images), &idx(&sizes, &labels));
        }
    }
}
