//! Pictures of one shape become pictures of another.

use fast_image_resize::images::{TypedImage, TypedImageRef};
use fast_image_resize::pixels::{U8, U8x3};
use fast_image_resize::{FilterType, PixelTrait, ResizeAlg, ResizeOptions, Resizer};

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
    let mut out = Vec::with_capacity(to.len());
    for plane in recoloured.chunks_exact(from.height * from.width) {
        // One pixel type: the untyped call compiles the filters of all fourteen into this crate.
        let target = convolve::<U8>(plane, from, to)?;
        out.extend(target.pixels().iter().map(|pixel| pixel.0));
    }
    Ok(out)
}

/// Resizes a picture whose three channels lie side by side, as decoders give it, and parts it into
/// planes. Each plane has the same bytes as [`resize`] gives: the filter adds whole numbers.
///
/// # Errors
///
/// Internal when the library refuses the sizes.
pub(super) fn resize_colours(
    pixels: &[u8],
    from: Geometry,
    to: Geometry,
) -> Result<Vec<u8>, Fault> {
    if (from.height, from.width) == (to.height, to.width) {
        let (pixels, _) = pixels.as_chunks::<3>();
        return Ok(parted(pixels.iter().copied(), to));
    }
    let target = convolve::<U8x3>(pixels, from, to)?;
    Ok(parted(target.pixels().iter().map(|pixel| pixel.0), to))
}

/// Three planes.
fn parted(pixels: impl Iterator<Item = [u8; 3]>, to: Geometry) -> Vec<u8> {
    let size = to.height * to.width;
    let mut planes = vec![0; 3 * size];
    let (red, rest) = planes.split_at_mut(size);
    let (green, blue) = rest.split_at_mut(size);
    let places = red.iter_mut().zip(green).zip(blue);
    for (((r, g), b), pixel) in places.zip(pixels) {
        [*r, *g, *b] = pixel;
    }
    planes
}

fn convolve<P: PixelTrait>(
    pixels: &[u8],
    from: Geometry,
    to: Geometry,
) -> Result<TypedImage<'static, P>, Fault> {
    let refused = |error: &dyn std::fmt::Display| {
        Fault::internal(format!("cannot resize {from:?} to {to:?}: {error}"))
    };
    let side = |pixels: usize| u32::try_from(pixels).map_err(|error| refused(&error));
    let (width, height) = (side(from.width)?, side(from.height)?);
    let source =
        TypedImageRef::<P>::from_buffer(width, height, pixels).map_err(|error| refused(&error))?;
    let mut target = TypedImage::<P>::new(side(to.width)?, side(to.height)?);
    let options = ResizeOptions::new().resize_alg(ResizeAlg::Convolution(FilterType::Bilinear));
    Resizer::new()
        .resize_typed(&source, &mut target, &options)
        .map_err(|error| refused(&error))?;
    Ok(target)
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
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn colours_side_by_side_give_the_planes_of_each_alone(
            [height, width] in [1usize..80, 1..80], [new_height, new_width] in [1usize..80, 1..80],
            seed: u64
        ) {
            let from = Geometry::new(3, height, width).unwrap();
            let to = Geometry::new(3, new_height, new_width).unwrap();
            let mut state = seed;
            let mut planes = vec![0; from.len()];
            for byte in &mut planes {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                *byte = u8::try_from(state >> 56).unwrap();
            }
            let size = height * width;
            let pixels: Vec<u8> =
                (0..size).flat_map(|place| [0, 1, 2].map(|c| planes[c * size + place])).collect();
            let apart = resize(&planes, from, to).unwrap();
            prop_assert_eq!(resize_colours(&pixels, from, to).unwrap(), apart);
        }
    }

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
