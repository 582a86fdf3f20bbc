//! Windows of a token stream as samples, and which part each belongs to.

use crate::config::Split;
use crate::data::split::{Divided, Selection, divide};
use crate::run::Fault;

/// Largest number of windows that are held out together. Neighbouring windows share context: the
/// longer the block, the more a held-out window differs from what was trained on.
const BLOCK_MAX: usize = 16;

/// Blocks that a stream is cut into at least, so that fractions can be met.
const BLOCKS_MIN: usize = 100;

/// Number of whole windows of `length` tokens.
pub(super) fn windows(tokens: usize, length: usize) -> usize {
    tokens / length.max(1)
}

/// Windows of a block.
pub(super) fn block_length(windows: usize) -> usize {
    (windows / BLOCKS_MIN).clamp(1, BLOCK_MAX)
}

/// Divides windows by whole blocks.
///
/// # Errors
///
/// When nothing is left to train on, or there are more windows than indices.
pub(super) fn divide_blocks(
    windows: usize,
    validation: &Split,
    test: &Split,
    seed: u64,
) -> Result<Divided, Fault> {
    let block = block_length(windows);
    let blocks = divide(windows.div_ceil(block), validation, test, seed)?;
    u32::try_from(windows)
        .map_err(|_| Fault::damaged(format!("{windows} windows are more than can be numbered")))?;
    let spread = |selection: Selection| match selection {
        Selection::All(_) => Selection::All(windows),
        Selection::Some(list) => Selection::Some(
            list.into_iter()
                .flat_map(|index| {
                    let start = index as usize * block;
                    start..(start + block).min(windows)
                })
                // Checked above: windows fit 32 bits.
                .filter_map(|window| u32::try_from(window).ok())
                .collect(),
        ),
    };
    Ok(Divided {
        train: spread(blocks.train),
        validation: blocks.validation.map(spread),
        test: blocks.test.map(spread),
    })
}

/// Whether the token after window `index` may be the target of its last token: it may not when it
/// lies in a window of another part.
pub(super) fn may_look_ahead(part: &Selection, index: usize, windows: usize) -> bool {
    index + 1 >= windows || part.contains(index + 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn blocks_cover_all_windows_once(
            windows in 10usize..5000, validation in 0.05f64..0.4, test in 0.05f64..0.4, seed: u64
        ) {
            let divided =
                divide_blocks(windows, &Split::Fraction(validation), &Split::Fraction(test), seed).unwrap();
            let parts = [divided.train, divided.validation.unwrap(), divided.test.unwrap()];
            let mut all: Vec<usize> = parts.iter().flat_map(Selection::iter).collect();
            all.sort_unstable();
            prop_assert_eq!(all, (0..windows).collect::<Vec<_>>());
            let block = block_length(windows);
            for part in &parts {
                for index in part.iter() {
                    // Windows of one block stay together, and nothing looks into another part.
                    prop_assert!(part.contains(index / block * block));
                    let next_is_ours = index + 1 == windows || part.contains(index + 1);
                    prop_assert_eq!(may_look_ahead(part, index, windows), next_is_ours);
                }
            }
        }
    }
}
