//! Pictures of one shape become pictures of another.

use fast_image_resize::images::{TypedImage, TypedImageRef};
use fast_image_resize::pixels::U8;
use fast_image_resize::{FilterType, ResizeAlg, ResizeOptions, Resizer};

use super::store::Geometry;
use crate::run::Fault;

/// Resizes planes (bilinear, with the area filter that shrinking needs) and turns colour to grey
/// or grey to colour.
///
/// # Errors
///
/// Internal when the library refuses the sizes.
pub(super) fn resize(planes: &[u8], from: Geometry, to: Geometry) -> Result<Vec<u8>, Fault> {
    let recoloured = match (from.channels, to.channels) {
        (3, 1) => grey(planes, from),
        (1, 3) => planes.repeat(3),
        _ => planes.to_vec(),
    };
    if (from.height, from.width) == (to.height, to.width) {
        return Ok(recoloured);
    }
    let refused = |error: &dyn std::fmt::Display| {
        Fault::internal(format!("cannot resize {from:?} to {to:?}: {error}"))
    };
    let side = |pixels: usize| u32::try_from(pixels).map_err(|error| refused(&error));
    let mut resizer = Resizer::new();
    let options = ResizeOptions::new().resize_alg(ResizeAlg::Convolution(FilterType::Bilinear));
    let mut out = Vec::with_capacity(to.len());
    for plane in recoloured.chunks_exact(from.height * from.width) {
        // One pixel type: the untyped call compiles the filters of all fourteen into this crate.
        let (width, height) = (side(from.width)?, side(from.height)?);
        let source = TypedImageRef::<U8>::from_buffer(width, height, plane)
            .map_err(|error| refused(&error))?;
        let mut target = TypedImage::<U8>::new(side(to.width)?, side(to.height)?);
        resizer
            .resize_typed(&source, &mut target, &options)
            .map_err(|error| refused(&error))?;
        out.extend(target.pixels().iter().map(|pixel| pixel.0));
    }
    Ok(out)
}

/// Luma of Rec. ITU-R BT.601, in integers, rounded.
fn grey(planes: &[u8], from: Geometry) -> Vec<u8> {
    let size = from.height * from.width;
    let (red, rest) = planes.split_at(size);
    let (green, blue) = rest.split_at(size);
    red.iter()
        .zip(green)
        .zip(blue)
        .map(|((&r, &g), &b)| {
            let sum = 299 * u32::from(r) + 587 * u32::from(g) + 114 * u32::from(b);
            // At most 255 by the weights, which add up to 1000.
            u8::try_from((sum + 500) / 1000).unwrap_or(u8::MAX)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flat_pictures_stay_flat() {
        let from = Geometry::new(3, 6, 5).unwrap();
        let planes: Vec<u8> = [200u8, 100, 50].iter().flat_map(|&v| vec![v; 30]).collect();
        let to = Geometry::new(3, 3, 9).unwrap();
        let out = resize(&planes, from, to).unwrap();
        let expected: Vec<u8> = [200u8, 100, 50].iter().flat_map(|&v| vec![v; 27]).collect();
        assert_eq!(out, expected);
        let out = resize(&planes, from, Geometry::new(1, 6, 5).unwrap()).unwrap();
        assert_eq!(out, vec![124; 30]);
        let back = resize(&out, Geometry::new(1, 6, 5).unwrap(), from).unwrap();
        assert_eq!(back, vec![124; 90]);
    }
}
