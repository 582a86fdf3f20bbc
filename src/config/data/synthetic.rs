//! `kind = "synthetic_table"`, `"synthetic_images"` and `"synthetic_text"`: samples of given shapes
//! with nothing to learn in them, for measuring.

use crate::config::declare::record;
use crate::config::form::{list, only, pair, whole};

/// Most samples: what can be numbered.
const SAMPLES_MAX: u32 = u32::MAX;

record! {
    /// `kind = "synthetic_table"`.
    pub struct SyntheticTable {
        /// Rows.
        samples: u32 => whole(1..=SAMPLES_MAX), default 4096;
        /// Numeric columns.
        numeric: u32 => whole(0..=1_048_576);
        /// Categories of each categorical column.
        categories: Vec<u32> => list(whole(1..=16_777_216), 0..=10_000), default Vec::new();
        /// Classes of the label.
        classes: u32 => whole(2..=32_768), default 2;
    }
}

record! {
    /// `kind = "synthetic_images"`.
    pub struct SyntheticImages {
        /// Pictures.
        samples: u32 => whole(1..=SAMPLES_MAX), default 512;
        /// 1 (grey) or 3 (colour).
        channels: u32 => only(&[1, 3]), default 3;
        /// Height and width in pixels.
        size: [u32; 2] => pair(whole(1..=16_384));
        /// Classes of the label.
        classes: u32 => whole(2..=32_768), default 10;
    }
}

record! {
    /// `kind = "synthetic_text"`.
    pub struct SyntheticText {
        /// Sequences.
        samples: u32 => whole(1..=SAMPLES_MAX), default 512;
        /// Tokens a sample has as input; its targets are as many.
        sequence_length: u32 => whole(1..=1_048_576), default 128;
        /// Different tokens.
        vocabulary: u32 => whole(2..=16_777_216), default 257;
    }
}
