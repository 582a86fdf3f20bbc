//! CIFAR-10 and CIFAR-100 binary batches (Krizhevsky 2009): records of labels and three planes of
//! 32 by 32 bytes.

use std::path::{Path, PathBuf};

use rayon::prelude::*;

use super::store::{Geometry, Pictures};
use crate::data::batch::Part;
use crate::data::source::{Source, damaged};
use crate::run::Fault;

/// Largest batch file.
const BYTES_MAX: u64 = 4 << 30;

const GEOMETRY: Geometry = Geometry {
    channels: 3,
    height: 32,
    width: 32,
};

/// Names of the CIFAR-10 classes, in order of their numbers.
pub(super) const CIFAR10_CLASSES: [&str; 10] = [
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
];

/// Number of CIFAR-100 fine classes; the files do not name them.
pub(super) const CIFAR100_CLASSES: u8 = 100;

/// Which of the two layouts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// One label, 0 to 9.
    Cifar10,
    /// A coarse label, 0 to 19, and a fine one, 0 to 99, which is used.
    Cifar100,
}

/// Reads a file, or the `.bin` files of a folder in order of their names. Of a folder, training
/// takes those whose name does not begin with `test`, other parts those that do, if there are any.
///
/// # Errors
///
/// Usage for a folder without such files, damaged for lengths and labels that cannot be.
pub(super) fn read(
    path: &Path,
    part: Part,
    layout: Layout,
) -> Result<(Pictures, Vec<Source>), Fault> {
    let paths = files(path, part)?;
    let mut sources = paths
        .par_iter()
        .map(|path| Source::read(path, BYTES_MAX))
        .collect::<Result<Vec<_>, Fault>>()?;
    let mut pictures = Pictures {
        geometry: GEOMETRY,
        pixels: Vec::new(),
        labels: Vec::new(),
        files: Vec::new(),
    };
    for source in &mut sources {
        let bytes = std::mem::take(&mut source.bytes);
        add(&mut pictures, &source.path, &bytes, layout)?;
    }
    Ok((pictures, sources))
}

fn files(path: &Path, part: Part) -> Result<Vec<PathBuf>, Fault> {
    if !path.is_dir() {
        return Ok(vec![path.to_path_buf()]);
    }
    let entries = std::fs::read_dir(path).map_err(|error| Fault::io("read", path, &error))?;
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| Fault::io("read", path, &error))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry
            .path()
            .extension()
            .is_some_and(|ending| ending == "bin")
        {
            found.push((name.starts_with("test"), entry.path()));
        }
    }
    let held_out = part != Part::Train && found.iter().any(|(is_test, _)| *is_test);
    let mut paths: Vec<PathBuf> = found
        .into_iter()
        .filter(|(is_test, _)| *is_test == held_out)
        .map(|(_, path)| path)
        .collect();
    paths.sort_unstable();
    if paths.is_empty() {
        return Err(Fault::usage(format!(
            "{} holds no `.bin` file for this part",
            path.display()
        ))
        .advise("name the folder that the CIFAR binary archive unpacks to, or one of its files"));
    }
    Ok(paths)
}

fn add(pictures: &mut Pictures, path: &Path, bytes: &[u8], layout: Layout) -> Result<(), Fault> {
    let head = match layout {
        Layout::Cifar10 => 1,
        Layout::Cifar100 => 2,
    };
    let record = head + GEOMETRY.len();
    if bytes.is_empty() || !bytes.len().is_multiple_of(record) {
        return Err(damaged(
            path,
            format_args!(
                "{} bytes are no whole number of {record}-byte records",
                bytes.len()
            ),
        )
        .advise(
            "is data.format right? cifar10 and cifar100 differ; a cut file must be fetched again",
        ));
    }
    for (place, record) in bytes.chunks_exact(record).enumerate() {
        let (labels, planes) = record.split_at(head);
        let label = match (layout, labels) {
            (Layout::Cifar10, &[label]) if label < 10 => label,
            (Layout::Cifar100, &[coarse, fine]) if coarse < 20 && fine < CIFAR100_CLASSES => fine,
            _ => {
                return Err(damaged(
                    path,
                    format_args!("image {} has labels {labels:?}, out of range", place + 1),
                )
                .advise("is data.format right? cifar10 and cifar100 differ"));
            }
        };
        pictures.labels.push(u32::from(label));
        pictures.pixels.extend_from_slice(planes);
    }
    pictures
        .files
        .push((path.to_path_buf(), bytes.len() / record));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_gives_training_and_test_files_to_their_parts() {
        let folder = tempfile::tempdir().unwrap();
        let record = |label: u8| [vec![label], vec![label; GEOMETRY.len()]].concat();
        let write = |name: &str, bytes: Vec<u8>| {
            std::fs::write(folder.path().join(name), bytes).unwrap();
        };
        write("data_batch_2.bin", record(2));
        write("data_batch_1.bin", [record(1), record(9)].concat());
        write("test_batch.bin", record(3));
        write("readme.html", vec![]);
        let labels = |part| read(folder.path(), part, Layout::Cifar10).unwrap().0.labels;
        assert_eq!(labels(Part::Train), [1, 9, 2]);
        assert_eq!(labels(Part::Test), [3]);
        let fault = read(folder.path(), Part::Train, Layout::Cifar100).unwrap_err();
        assert!(fault.message.contains("whole number"), "{fault}");
        write("test_batch.bin", record(10));
        let fault = read(folder.path(), Part::Test, Layout::Cifar10).unwrap_err();
        assert!(fault.message.contains("out of range"), "{fault}");
    }
}
