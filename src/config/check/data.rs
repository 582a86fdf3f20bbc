//! Contradictions within `[data]`.

use super::{Check, Parts};
use crate::config::data::{Columns, Data, ImageData, ImageFormat, Normalize, Split, TableData};

pub(super) fn check(parts: &Parts, check: &mut Check<'_>) {
    let Some(data) = &parts.data else {
        return;
    };
    parts_of(data, check);
    match data {
        Data::Table(data) => columns(data, check),
        Data::Images(data) => images(data, check),
        Data::Text(_)
        | Data::SyntheticTable(_)
        | Data::SyntheticImages(_)
        | Data::SyntheticText(_) => {}
    }
}

/// The held-out parts must leave something, and be something else than the training part.
fn parts_of(data: &Data, check: &mut Check<'_>) {
    let train = match data {
        Data::Table(data) => &data.train,
        Data::Images(data) => &data.train,
        Data::Text(data) => &data.train,
        Data::SyntheticTable(_) | Data::SyntheticImages(_) | Data::SyntheticText(_) => return,
    };
    let parts = [
        ("data.validation", data.validation()),
        ("data.test", data.test()),
    ];
    for (path, split) in parts {
        if matches!(split, Split::Path(file) if file == train) {
            check.refuse(
                format!("`{path}` is the training data: nothing would be held out"),
                &[path, "data.train"],
                "give another file, or a share like 0.1",
            );
        }
    }
    if let (Split::Fraction(validation), Split::Fraction(test)) = (data.validation(), data.test())
        && validation + test >= 1.0
    {
        check.refuse(
            "the held-out parts leave nothing to train on",
            &["data.validation", "data.test"],
            "make their sum smaller than 1",
        );
    }
}

/// A column has one role.
fn columns(data: &TableData, check: &mut Check<'_>) {
    let none = Vec::new();
    let named = |columns| match columns {
        &Columns::Auto => &none,
        Columns::Named(names) => names,
    };
    let label = vec![data.label.clone()];
    let roles = [
        ("data.label", &label),
        ("data.ignore", &data.ignore),
        ("data.numeric", named(&data.numeric)),
        ("data.categorical", named(&data.categorical)),
    ];
    for (index, (path, names)) in roles.iter().enumerate() {
        for (place, name) in names.iter().enumerate() {
            if names.iter().take(place).any(|other| other == name) {
                let message = format!("column {name:?} is twice in `{path}`");
                check.refuse(message, &[path], "name it once");
            }
            for (earlier, others) in roles.iter().take(index) {
                if others.contains(name) {
                    let message = format!("column {name:?} is both in `{earlier}` and in `{path}`");
                    check.refuse(
                        message,
                        &[path, earlier],
                        "a column has one role: remove one",
                    );
                }
            }
        }
    }
}

/// Labels belong to idx files and to nothing else.
fn images(data: &ImageData, check: &mut Check<'_>) {
    let file = Split::Path(data.train.clone());
    let parts = [
        ("data.train", &file, "data.train_labels", &data.train_labels),
        (
            "data.validation",
            &data.validation,
            "data.validation_labels",
            &data.validation_labels,
        ),
        (
            "data.test",
            &data.test,
            "data.test_labels",
            &data.test_labels,
        ),
    ];
    let idx = data.format == ImageFormat::Idx;
    for (path, split, labels_path, labels) in parts {
        let has_file = matches!(split, Split::Path(_));
        let has_labels = !labels.as_os_str().is_empty();
        if idx && has_file && !has_labels {
            check.refuse(
                format!("format \"idx\" keeps labels in a file of their own, and `{labels_path}` is not given"),
                &["data.format", path],
                &format!("set `{labels_path}`"),
            );
        } else if has_labels && !idx {
            check.refuse(
                format!("`{labels_path}` is for format \"idx\" only"),
                &[labels_path, "data.format"],
                "remove it: labels come with the images",
            );
        } else if has_labels && !has_file {
            check.refuse(
                format!("`{labels_path}` is given, but `{path}` is no file"),
                &[labels_path, path],
                &format!("set `{path}` to the file of images, or remove `{labels_path}`"),
            );
        }
    }
    let [height, width] = data.size;
    if (height == 0) != (width == 0) {
        check.refuse(
            "`data.size` has a side of 0",
            &["data.size"],
            "give both sides, or [0, 0] to keep the files' own size",
        );
    }
    moments(data, check);
}

/// As many means and deviations as channels.
fn moments(data: &ImageData, check: &mut Check<'_>) {
    let Normalize::Fixed { mean, std } = &data.normalize else {
        return;
    };
    if mean.len() != std.len() {
        let message = format!("{} means and {} deviations", mean.len(), std.len());
        check.refuse(message, &["data.normalize"], "give one of each per channel");
    }
    let (channels, path) = match (data.channels, data.format) {
        (0, ImageFormat::Idx) => (1, "data.format"),
        (0, ImageFormat::Cifar10 | ImageFormat::Cifar100) => (3, "data.format"),
        (given, _) => (given as usize, "data.channels"),
    };
    if channels > 0 && mean.len() == std.len() && mean.len() != channels {
        check.refuse(
            format!("{} means for images of {channels} channels", mean.len()),
            &["data.normalize", path],
            "give one mean and one deviation per channel",
        );
    }
}
