//! Contradictions: values that are each right and cannot be true together.
//!
//! Every section that could be read takes part, also when another could not: so a contradiction is
//! told together with the other faults.

mod data;
mod model;
mod schedule;
mod train;

use serde_json::Value as Json;

use super::checkpoint::Checkpoint;
use super::data::{Data, Split, Task};
use super::diagnostic::{Diagnostic, Faults, Span};
use super::eval::Eval;
use super::form::{At, Form, Object};
use super::model::Model;
use super::optimizer::Optimizer;
use super::resources::Resources;
use super::schedule::Schedule;
use super::section::{Section, section};
use super::spell::inline;
use super::train::Train;
use super::tree::Table;

/// Names of metrics, but for `top<k>_accuracy`.
pub(super) const METRICS: [&str; 8] = [
    "loss",
    "accuracy",
    "f1",
    "auroc",
    "mse",
    "mae",
    "r2",
    "perplexity",
];

/// Reports all contradictions.
pub(super) fn contradictions(root: &Table, faults: &mut Faults) {
    let parts = Parts::read(root);
    let mut check = Check {
        root,
        written: parts.written(),
        faults,
    };
    data::check(&parts, &mut check);
    model::check(&parts, &mut check);
    train::check(&parts, &mut check);
    schedule::check(&parts, &mut check);
}

/// The sections that could be read.
struct Parts {
    data: Option<Data>,
    model: Option<Model>,
    train: Option<Train>,
    optimizer: Option<Optimizer>,
    schedule: Option<Schedule>,
    eval: Option<Eval>,
    resources: Option<Resources>,
    checkpoint: Option<Checkpoint>,
}

/// What is predicted, as far as the config says.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Target {
    Classes,
    Number,
    Tokens,
    /// Follows from the label column.
    Unknown,
}

impl Parts {
    fn read(root: &Table) -> Self {
        Self {
            data: part(root, "data"),
            model: part(root, "model"),
            train: part(root, "train"),
            optimizer: part(root, "optimizer"),
            schedule: part(root, "schedule"),
            eval: part(root, "eval"),
            resources: part(root, "resources"),
            checkpoint: part(root, "checkpoint"),
        }
    }

    /// The parts as the user would write them, with every default.
    fn written(&self) -> Object {
        fn put<S: Section>(out: &mut Object, name: &str, part: Option<&S>) {
            if let Some(part) = part {
                out.insert(name.to_string(), Json::Object(part.write()));
            }
        }
        let mut out = Object::new();
        put(&mut out, "data", self.data.as_ref());
        put(&mut out, "model", self.model.as_ref());
        put(&mut out, "train", self.train.as_ref());
        put(&mut out, "optimizer", self.optimizer.as_ref());
        put(&mut out, "schedule", self.schedule.as_ref());
        put(&mut out, "eval", self.eval.as_ref());
        put(&mut out, "resources", self.resources.as_ref());
        put(&mut out, "checkpoint", self.checkpoint.as_ref());
        out
    }

    fn target(&self) -> Target {
        match &self.data {
            Some(Data::Images(_) | Data::SyntheticImages(_) | Data::SyntheticTable(_)) => {
                Target::Classes
            }
            Some(Data::Text(_) | Data::SyntheticText(_)) => Target::Tokens,
            Some(Data::Table(data)) => match data.task {
                Task::Classification => Target::Classes,
                Task::Regression => Target::Number,
                Task::Auto => Target::Unknown,
            },
            None => Target::Unknown,
        }
    }

    /// The data, if they are known to have no validation part.
    fn unvalidated(&self) -> bool {
        let data = self.data.as_ref();
        data.is_some_and(|data| data.validation() == &Split::None)
    }
}

/// A section, if nothing is wrong with it. What is wrong is told where the whole is read.
fn part<S: Section>(root: &Table, name: &str) -> Option<S> {
    let mut faults = Faults::default();
    let entry = root.get(name);
    let empty = super::tree::Node {
        value: super::tree::Value::Table(Table::default()),
        span: Span::default(),
    };
    let node = entry.map_or(&empty, |entry| &entry.node);
    let mut at = At {
        path: name.to_string(),
        faults: &mut faults,
    };
    let part = section::<S>().read(node, &mut at);
    part.filter(|_| faults.is_empty())
}

/// Where contradictions go.
struct Check<'a> {
    root: &'a Table,
    written: Object,
    faults: &'a mut Faults,
}

impl Check<'_> {
    /// Reports a contradiction between the keys at `paths`, of which the first is to blame. Keys
    /// that are not in the file are shown by their default.
    fn refuse(&mut self, message: impl Into<String>, paths: &[&str], help: &str) {
        let (given, absent): (Vec<&str>, Vec<&str>) = paths
            .iter()
            .partition(|path| self.root.find(path).is_some());
        let mut places: Vec<(Span, String)> = Vec::new();
        for path in given {
            if let Some(entry) = self.root.find(path) {
                places.push((entry.node.span.clone(), String::new()));
            }
        }
        let mut notes = Vec::new();
        for path in absent {
            let value = self.default_of(path);
            let label = format!("`{path}` is {value} by default");
            let section = path.split('.').next().and_then(|name| self.root.get(name));
            match section {
                Some(section) => places.push((section.key_span.clone(), label)),
                None => notes.push(label),
            }
        }
        let mut places = places.into_iter();
        let (first, label) = places.next().unwrap_or_default();
        let mut fault = Diagnostic::new(message, &first).label(label);
        for (span, label) in places {
            fault = fault.and(&span, label);
        }
        for note in notes {
            fault = fault.help(note);
        }
        self.faults.push(fault.help(help));
    }

    /// Whether the key is in the file or an override.
    fn given(&self, path: &str) -> bool {
        self.root.find(path).is_some()
    }

    /// The resolved value at a path, as text.
    fn default_of(&self, path: &str) -> String {
        let mut keys = path.split('.');
        let mut value = keys.next().and_then(|key| self.written.get(key));
        for key in keys {
            value = value.and_then(|value| value.get(key));
        }
        value.map_or_else(|| "absent".to_string(), inline)
    }
}
