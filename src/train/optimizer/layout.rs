//! Where each parameter lies in the flat vector, and how flat state becomes named tensors.

use std::collections::BTreeMap;
use std::ops::Range;

use burn::tensor::{Device, Tensor};

use crate::checkpoint::TensorBytes;
use crate::ops;
use crate::run::Fault;

/// One parameter in the flat vector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    /// Name of the parameter.
    pub(crate) name: String,
    /// Its shape.
    pub(crate) shape: Vec<usize>,
    /// Its place in the flat vector.
    pub(crate) range: Range<usize>,
    /// Whether it is a matrix between input and output layers, as Muon takes them.
    pub(crate) hidden_matrix: bool,
}

/// All parameters, in order of their places, without gaps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// The parameters.
    pub(crate) slots: Vec<Slot>,
    /// Length of the prefix that weight decay applies to.
    pub(crate) decay_count: usize,
}

/// Flat state over some slots, cut into one tensor per parameter, each called `kind.<parameter>`.
/// `flat` holds the slots' values one after another.
pub(super) fn named(kind: &str, flat: &[f32], slots: &[Slot]) -> Vec<TensorBytes> {
    let mut rest = flat;
    slots
        .iter()
        .map(|slot| {
            let (values, after) = rest.split_at(slot.range.len().min(rest.len()));
            rest = after;
            TensorBytes::from_f32(format!("{kind}.{}", slot.name), slot.shape.clone(), values)
        })
        .collect()
}

/// Saved state by name. Everything must be taken exactly once: what is missing, of another shape or
/// left over is one fault that lists it all.
pub(super) struct Saved<'a> {
    tensors: BTreeMap<&'a str, &'a TensorBytes>,
    faults: Vec<String>,
}

impl<'a> Saved<'a> {
    pub(super) fn new(tensors: &'a [TensorBytes]) -> Self {
        Self {
            tensors: tensors.iter().map(|t| (t.name.as_str(), t)).collect(),
            faults: Vec::new(),
        }
    }

    /// The flat vector over `slots` of what [`named`] made of it. After a fault it is too short and
    /// must not be used; [`Saved::finish`] says so.
    pub(super) fn flat(&mut self, kind: &str, slots: &[Slot], device: &Device) -> Tensor<1> {
        let mut flat = Vec::new();
        for slot in slots {
            let name = format!("{kind}.{}", slot.name);
            match self.tensors.remove(name.as_str()) {
                None => self.faults.push(format!("{name} is missing")),
                Some(tensor) => match tensor.to_f32() {
                    Some(values)
                        if tensor.shape == slot.shape && values.len() == slot.range.len() =>
                    {
                        flat.extend_from_slice(&values);
                    }
                    _ => self.faults.push(format!(
                        "{name} is {} {:?}, expected f32 {:?}",
                        tensor.dtype, tensor.shape, slot.shape
                    )),
                },
            }
        }
        ops::upload(flat, device)
    }

    /// The count saved under `name`; 0 after a fault.
    pub(super) fn count(&mut self, name: &str) -> u64 {
        let count = self
            .tensors
            .remove(name)
            .and_then(TensorBytes::to_i64)
            .and_then(|values| <[i64; 1]>::try_from(values).ok())
            .and_then(|[value]| u64::try_from(value).ok());
        count.unwrap_or_else(|| {
            self.faults.push(format!("{name} is missing or no count"));
            0
        })
    }

    /// # Errors
    ///
    /// With all that did not fit.
    pub(super) fn finish(mut self) -> Result<(), Fault> {
        self.faults.extend(
            self.tensors
                .keys()
                .map(|name| format!("{name} is unexpected")),
        );
        if self.faults.is_empty() {
            return Ok(());
        }
        Err(Fault::damaged(format!(
            "the checkpoint's optimizer state does not fit this config:\n    {}",
            self.faults.join("\n    ")
        ))
        .advise(
            "resume with the [optimizer] and [model] sections that the checkpoint was written with",
        ))
    }
}
