//! `kind = "table"`.

use std::path::PathBuf;

use serde_json::{Value as Json, json};

use super::split::{Split, SplitForm};
use crate::config::declare::{names, record};
use crate::config::form::{
    At, Form, List, Text, character, flag, list, names, path, text, text_or_empty,
};
use crate::config::tree::{Node, Value};

/// Most columns that can be named.
const COLUMNS_MAX: usize = 10_000;

names! {
    /// What is predicted.
    pub enum Task {
        /// From the label column: text, booleans or few integers are classes, other numbers a value.
        Auto = "auto",
        /// One of several classes.
        Classification = "classification",
        /// A number.
        Regression = "regression",
    }
}

names! {
    /// Layout of a table file.
    pub enum TableFormat {
        /// By the file's ending: `.csv`, `.csv.gz`, `.tsv`, `.parquet`.
        Auto = "auto",
        /// Comma-separated values with a header line, plain or gzip.
        Csv = "csv",
        /// Apache Parquet.
        Parquet = "parquet",
    }
}

/// Columns of one role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Columns {
    /// Inferred from the training split, and shown.
    Auto,
    /// Exactly these.
    Named(Vec<String>),
}

/// Cells that are missing where nothing is said.
const MISSING: [&str; 7] = ["", "?", "NA", "N/A", "NaN", "nan", "null"];

record! {
    /// `kind = "table"`.
    pub struct TableData {
        /// Training file.
        train: PathBuf => path();
        /// Held-out part that early stopping and `best` checkpoints look at: a seeded share of
        /// `train`, a file, or `false`.
        validation: Split => SplitForm, default Split::None;
        /// Held-out part that is evaluated once, at the end: a seeded share of `train`, a file, or
        /// `false`.
        test: Split => SplitForm, default Split::None;
        /// Layout of the files.
        format: TableFormat => names(), default TableFormat::Auto;
        /// Column to predict.
        label: String => text();
        /// Whether the label is a class or a number.
        task: Task => names(), default Task::Auto;
        /// Columns read as numbers; `"auto"` infers them from the training split.
        numeric: Columns => ColumnsForm, default Columns::Auto;
        /// Columns read as categories; `"auto"` infers them from the training split.
        categorical: Columns => ColumnsForm, default Columns::Auto;
        /// Columns left out.
        ignore: Vec<String> => columns(), default Vec::new();
        /// Cells with one of these texts (after trimming) are missing.
        missing: Vec<String> => list(text_or_empty(), 0..=1000),
            default MISSING.map(str::to_string).to_vec();
        /// Whether numeric columns are scaled to mean 0 and standard deviation 1 of the training
        /// split.
        standardize: bool => flag(), default true;
        /// Field separator of CSV files, one ASCII character. A `.tsv` file has tabs where this is
        /// the comma.
        delimiter: char => character(), default ',';
    }
}

/// Takes a list of columns.
fn columns() -> List<Text> {
    list(text(), 0..=COLUMNS_MAX)
}

/// Takes a list of columns or `"auto"`.
struct ColumnsForm;

impl Form for ColumnsForm {
    type Value = Columns;

    fn read(&self, node: &Node, at: &mut At<'_>) -> Option<Columns> {
        match &node.value {
            Value::Text { text, .. } if text == "auto" => Some(Columns::Auto),
            Value::List(_) => columns().read(node, at).map(Columns::Named),
            _ => at.refuse(node, &self.takes()),
        }
    }

    fn write(&self, value: &Columns) -> Json {
        match value {
            Columns::Auto => json!("auto"),
            Columns::Named(names) => columns().write(names),
        }
    }

    fn schema(&self) -> Json {
        json!({"anyOf": [{"const": "auto"}, columns().schema()]})
    }

    fn takes(&self) -> String {
        "\"auto\" or a list of column names".to_string()
    }
}
