//! Rows of a table by their numbers.

use std::sync::Arc;

use burn::tensor::{Shape, Tensor};

use super::operation::{Operation, Values, apply};
use super::{tensor, values};

/// As [`crate::ops::embedding`], on the CPU.
pub(in crate::ops) fn embedding(table: Tensor<2>, ids: Arc<[i32]>) -> Tensor<2> {
    let [vocabulary, width] = table.dims();
    let lookup = Lookup {
        ids,
        vocabulary,
        width,
    };
    apply(&lookup, [table.into_dispatch()])
}

#[derive(Clone, Debug)]
struct Lookup {
    ids: Arc<[i32]>,
    vocabulary: usize,
    width: usize,
}

impl Lookup {
    /// Where the row of an id begins. Data sets are checked for ids outside the vocabulary.
    fn start(&self, id: i32) -> usize {
        let row = usize::try_from(id).unwrap_or(usize::MAX);
        assert!(row < self.vocabulary, "id {id} is outside the vocabulary");
        row * self.width
    }
}

impl Operation<1> for Lookup {
    type Saved = ();

    fn forward(&self, [table]: [Values; 1]) -> (Values, ()) {
        let mut rows = Vec::with_capacity(self.ids.len() * self.width);
        values(&table, |table| {
            for &id in self.ids.iter() {
                let start = self.start(id);
                rows.extend_from_slice(&table[start..start + self.width]);
            }
        });
        (tensor(rows, Shape::new([self.ids.len(), self.width])), ())
    }

    /// Adds the rows one after another: a few million additions are not worth a second thread, and
    /// their order is fixed.
    fn backward(&self, (): (), gradient: Values, _: [bool; 1]) -> [Option<Values>; 1] {
        let mut table = vec![0f32; self.vocabulary * self.width];
        values(&gradient, |gradient| {
            for (&id, gradient) in self.ids.iter().zip(gradient.chunks(self.width)) {
                let start = self.start(id);
                let row = &mut table[start..start + self.width];
                row.iter_mut().zip(gradient).for_each(|(sum, g)| *sum += g);
            }
        });
        let shape = Shape::new([self.vocabulary, self.width]);
        [Some(tensor(table, shape))]
    }
}
