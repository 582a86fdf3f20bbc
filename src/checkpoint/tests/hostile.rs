//! Files whose hashes match, made by somebody who means harm: the format itself is checked too.

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use sha2::{Digest, Sha256};

use super::super::layout::{Contents, HEADER_BYTES_MAX};
use super::super::manifest::{FileEntry, Files, Manifest};
use super::super::{CheckpointError, load};
use super::{put, scratch, snapshot};
use crate::run::Step;

/// A file of tensors with any header and `data` bytes behind it.
fn file(header: &str, data: usize) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.resize(bytes.len() + data, 0);
    bytes
}

/// Puts `content` in the place of a file and makes the manifest match.
fn forge(folder: &Path, name: &str, content: &[u8]) {
    fs::write(folder.join(name), content).unwrap();
    let entry = |name: &str| {
        let bytes = fs::read(folder.join(name)).unwrap();
        FileEntry {
            bytes: bytes.len() as u64,
            sha256: format!("{:x}", Sha256::digest(&bytes)),
        }
    };
    let files = Files {
        model: entry("model.safetensors"),
        optimizer: entry("optimizer.safetensors"),
        state: entry("state.json"),
    };
    let manifest = Manifest::new(Step::new(20), None, files);
    fs::write(folder.join("MANIFEST.json"), manifest.to_bytes()).unwrap();
}

fn what(result: Result<super::Snapshot, CheckpointError>) -> String {
    match result {
        Err(CheckpointError::Damaged { what, .. }) => what,
        other => panic!("{other:?}"),
    }
}

/// The entry of a tensor of 32-bit floats in a header.
fn f32s(name: &str, shape: &str, from: u64, to: u64) -> String {
    format!(r#""{name}":{{"dtype":"F32","shape":{shape},"data_offsets":[{from},{to}]}}"#)
}

/// Writes a checkpoint with `content` as each of its files of tensors, and compares the complaint.
fn assert_refused(content: &[u8], expected: &str) {
    for name in ["model.safetensors", "optimizer.safetensors"] {
        let dir = scratch();
        put(dir.path(), &snapshot(20, 1));
        let folder = dir.path().join("step-00000020");
        forge(&folder, name, content);
        let what = what(load(&folder));
        let shown = String::from_utf8_lossy(content);
        assert!(what.contains(expected), "{shown:?}: {what}");
    }
}

#[test]
fn lengths_that_lie_are_refused() {
    for (content, expected) in [
        (vec![], "failed to fill"),
        (vec![1, 2, 3], "failed to fill"),
        (u64::MAX.to_le_bytes().to_vec(), "does not fit"),
        (
            (HEADER_BYTES_MAX + 1).to_le_bytes().to_vec(),
            "does not fit",
        ),
        (100u64.to_le_bytes().to_vec(), "does not fit"),
    ] {
        assert_refused(&content, expected);
    }
}

#[test]
fn headers_that_are_no_headers_are_refused() {
    let deep = "[".repeat(10_000);
    let deeper = format!(r#"{{"x":{deep}"#);
    for header in ["", "[]", "{", "{}}", "7", deep.as_str(), deeper.as_str()] {
        assert_refused(&file(header, 0), "header");
    }
}

#[test]
fn places_that_lie_are_refused() {
    let one = f32s("a", "[2]", 0, 8);
    let cases = [
        (one.clone(), 7, "exactly"),
        (one.clone(), 9, "exactly"),
        (format!("{one},{one}"), 8, "there twice"),
        (format!("{one},{}", f32s("b", "[2]", 0, 8)), 8, "header"),
        (format!("{one},{}", f32s("b", "[1]", 12, 16)), 16, "header"),
        (f32s("a", "[2]", 8, 0), 8, "header"),
        (f32s("a", "[3]", 0, 8), 8, "header"),
        (
            f32s("a", "[4294967296,4294967296,4294967296]", 0, 8),
            8,
            "header",
        ),
        (f32s("a", "[4611686018427387904]", 0, 0), 0, "header"),
        (f32s("a", "[-1]", 0, 8), 8, "header"),
        (f32s("a", "[2]", 0, u64::MAX), 8, "header"),
        (
            one.replace("F32", "F64").replace("[2]", "[1]"),
            8,
            "type F64",
        ),
        (one.replace("F32", "F99"), 8, "header"),
    ];
    for (entries, data, expected) in cases {
        assert_refused(&file(&format!("{{{entries}}}"), data), expected);
    }
}

#[test]
fn a_state_of_a_later_version_or_another_step_is_refused() {
    let dir = scratch();
    put(dir.path(), &snapshot(20, 1));
    let folder = dir.path().join("step-00000020");
    let text = fs::read_to_string(folder.join("state.json")).unwrap();
    let mut state: serde_json::Value = serde_json::from_str(&text).unwrap();

    state["version"] = 3.into();
    forge(&folder, "state.json", state.to_string().as_bytes());
    assert!(matches!(
        load(&folder),
        Err(CheckpointError::Newer {
            what: "state version",
            found: 3,
            ..
        })
    ));
    state["version"] = 1.into();
    state["step"] = 21.into();
    forge(&folder, "state.json", state.to_string().as_bytes());
    assert!(what(load(&folder)).contains("state of step 21"));
    state["step"] = 20.into();
    forge(&folder, "state.json", state.to_string().as_bytes());
    assert!(load(&folder).is_ok());
    forge(&folder, "state.json", b"{}");
    assert!(what(load(&folder)).contains("version"));
}

#[test]
fn sizes_are_bounded_before_anything_is_read() {
    let dir = scratch();
    put(dir.path(), &snapshot(20, 1));
    let folder = dir.path().join("step-00000020");
    forge(&folder, "state.json", &vec![b' '; (4 << 20) + 1]);
    assert!(what(load(&folder)).contains("too large"));
    fs::write(folder.join("MANIFEST.json"), vec![b' '; 1 << 20]).unwrap();
    assert!(what(load(&folder)).contains("too large"));
    // A sparse file of a terabyte is not hashed: its size is wrong already.
    put(dir.path(), &snapshot(30, 1));
    let folder = dir.path().join("step-00000030");
    let model = fs::OpenOptions::new()
        .write(true)
        .open(folder.join("model.safetensors"))
        .unwrap();
    if model.set_len(1 << 40).is_ok() {
        assert!(what(load(&folder)).contains("bytes instead of"));
    }
}

proptest! {
    #[test]
    fn random_bytes_are_refused_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let length = bytes.len() as u64;
        let _ = Contents::read(&mut bytes.as_slice(), length);
    }

    #[test]
    fn random_headers_are_refused_or_read_whole(
        names in prop::collection::vec("[ab]", 0..4),
        shapes in prop::collection::vec(prop::collection::vec(0u64..4, 0..3), 4),
        ends in prop::collection::vec(0u64..40, 4),
        data in 0usize..80,
    ) {
        let mut from = 0;
        let entries: Vec<String> = names.iter().zip(shapes).zip(ends).map(|((name, shape), end)| {
            let entry = format!(r#""{name}":{{"dtype":"F32","shape":{shape:?},"data_offsets":[{from},{end}]}}"#);
            from = end;
            entry
        }).collect();
        let bytes = file(&format!("{{{}}}", entries.join(",")), data);
        let mut input = bytes.as_slice();
        if let Ok(contents) = Contents::read(&mut input, bytes.len() as u64) {
            let tensors = contents.tensors(&mut input).unwrap();
            prop_assert!(input.is_empty());
            prop_assert!(tensors.iter().all(super::TensorBytes::is_consistent));
        }
    }
}
