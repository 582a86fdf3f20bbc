//! A snapshot as one piece of bytes: what a worker hands to one that takes its place in the group.
//!
//! The same parts as in a checkpoint's directory, in the same formats and read with the same checks;
//! lengths in front of them.

use super::layout::{Contents, Layout};
use super::{Snapshot, TensorBytes, TrainState};
use crate::run::Fault;

/// Bytes of one length.
const LENGTH_BYTES: usize = 8;

impl Snapshot {
    /// All of it as bytes.
    ///
    /// # Errors
    ///
    /// When the tensors contradict themselves; a mistake of the program.
    pub fn pack(&self) -> Result<Vec<u8>, Fault> {
        let state = serde_json::to_vec(&(&self.state, self.metric))
            .map_err(|error| inconsistent(&error.to_string()))?;
        let model = Layout::of(&self.model).map_err(|what| inconsistent(&what))?;
        let optimizer = Layout::of(&self.optimizer).map_err(|what| inconsistent(&what))?;
        let mut out = Vec::new();
        section(&mut out, std::iter::once(state.as_slice()));
        section(&mut out, model.pieces());
        section(&mut out, optimizer.pieces());
        Ok(out)
    }

    /// The snapshot that [`Snapshot::pack`] made bytes of.
    ///
    /// # Errors
    ///
    /// When they are not such bytes.
    pub fn unpack(mut bytes: &[u8]) -> Result<Self, Fault> {
        let state = take(&mut bytes)?;
        let (state, metric): (TrainState, Option<f64>) =
            serde_json::from_slice(state).map_err(|error| inconsistent(&error.to_string()))?;
        let model = tensors(take(&mut bytes)?)?;
        let optimizer = tensors(take(&mut bytes)?)?;
        if !bytes.is_empty() {
            return Err(inconsistent("something follows its last part"));
        }
        Ok(Self {
            step: state.step,
            model,
            optimizer,
            state,
            metric,
        })
    }
}

fn section<'a>(out: &mut Vec<u8>, pieces: impl Iterator<Item = &'a [u8]>) {
    let start = out.len();
    out.extend_from_slice(&[0; LENGTH_BYTES]);
    pieces.for_each(|piece| out.extend_from_slice(piece));
    let length = (out.len() - start - LENGTH_BYTES) as u64;
    out[start..start + LENGTH_BYTES].copy_from_slice(&length.to_le_bytes());
}

fn take<'a>(bytes: &mut &'a [u8]) -> Result<&'a [u8], Fault> {
    let cut = || inconsistent("it is cut short");
    let (length, rest) = bytes.split_first_chunk().ok_or_else(cut)?;
    let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|_| cut())?;
    let (part, rest) = rest.split_at_checked(length).ok_or_else(cut)?;
    *bytes = rest;
    Ok(part)
}

fn tensors(mut bytes: &[u8]) -> Result<Vec<TensorBytes>, Fault> {
    let length = bytes.len() as u64;
    Contents::read(&mut bytes, length)
        .and_then(|contents| contents.tensors(&mut bytes).map_err(|e| e.to_string()))
        .map_err(|what| inconsistent(&what))
}

fn inconsistent(what: &str) -> Fault {
    Fault::internal(format!(
        "a state that travels between workers is broken: {what}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::tests::snapshot;

    #[test]
    fn a_snapshot_survives_the_way_and_a_cut_one_is_refused() {
        let whole = snapshot(7, 3);
        let packed = whole.pack().unwrap();
        let found = Snapshot::unpack(&packed).unwrap();
        assert_eq!(found.state, whole.state);
        assert_eq!(found.metric, whole.metric);
        // Tensors come in the order of the file format.
        assert_eq!(found.pack().unwrap(), packed);
        let tensor = |name: &str| whole.model.iter().find(|tensor| tensor.name == name);
        for found in &found.model {
            assert_eq!(Some(found), tensor(&found.name));
        }
        for length in 0..packed.len() {
            assert!(Snapshot::unpack(&packed[..length]).is_err(), "{length}");
        }
        let longer = [packed.as_slice(), &[0]].concat();
        assert!(Snapshot::unpack(&longer).is_err());
    }
}
