//! Schema, parser and printer hold together: they come from one declaration, and this is the proof.

#![expect(
    clippy::unwrap_used,
    reason = "a test stops at what it does not expect"
)]

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};
use trainer::config::{self, Config, Source};

fn parse(text: &str) -> Result<Config, config::Diagnostics> {
    let source = Source {
        name: "test.toml".to_string(),
        text: text.to_string(),
    };
    let environment = |name: &str| match name {
        "DATA" => Some("assets".to_string()),
        "EPOCHS" => Some("3".to_string()),
        _ => None,
    };
    config::parse(&source, &[], &environment)
}

/// TOML as JSON, as an editor's schema check sees it.
fn as_json(text: &str) -> Value {
    serde_json::to_value(text.parse::<toml::Table>().unwrap()).unwrap()
}

fn fixtures(kind: &str) -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/config")
        .join(kind);
    let mut files: Vec<(String, String)> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "toml"))
        .map(|path| {
            let name = path.file_stem().unwrap().to_str().unwrap().to_string();
            (name, std::fs::read_to_string(path).unwrap())
        })
        .collect();
    files.sort();
    files
}

fn validator() -> jsonschema::Validator {
    let schema = config::schema();
    jsonschema::draft202012::meta::validate(&schema).unwrap();
    jsonschema::draft202012::new(&schema).unwrap()
}

#[test]
fn valid_files_fit_the_schema_also_when_every_default_is_printed() {
    let validator = validator();
    for (name, text) in fixtures("valid") {
        let errors: Vec<String> = validator
            .iter_errors(&as_json(&text))
            .map(|error| error.to_string())
            .collect();
        assert!(errors.is_empty(), "{name}: {errors:?}");
        let printed = parse(&text).unwrap().to_toml();
        assert!(validator.is_valid(&as_json(&printed)), "{name}: {printed}");
    }
}

/// The schema knows keys and values. Beyond it are contradictions, the environment, overrides, and
/// dates, which JSON does not have.
#[test]
fn invalid_keys_and_values_do_not_fit_the_schema() {
    const BEYOND: [&str; 4] = ["contradiction_", "variable_", "set_", "wrong_type_date"];
    let validator = validator();
    let mut refused = 0;
    for (name, text) in fixtures("invalid") {
        let Ok(table) = text.parse::<toml::Table>() else {
            continue;
        };
        let json = serde_json::to_value(table).unwrap();
        if BEYOND.iter().any(|beyond| name.starts_with(beyond)) {
            continue;
        }
        assert!(!validator.is_valid(&json), "{name} fits the schema");
        refused += 1;
    }
    assert!(refused >= 40, "only {refused}");
}

/// Paths of all keys below a schema; list items and alternatives share their path.
fn schema_paths(schema: &Value, path: &str, out: &mut BTreeSet<String>) {
    for word in ["anyOf", "oneOf", "allOf"] {
        for branch in schema[word].as_array().into_iter().flatten() {
            schema_paths(branch, path, out);
        }
    }
    schema_paths_of_items(schema, path, out);
    for (key, value) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{key}");
        out.insert(path.clone());
        schema_paths(value, &path, out);
    }
}

fn schema_paths_of_items(schema: &Value, path: &str, out: &mut BTreeSet<String>) {
    if schema["items"].is_object() {
        schema_paths(&schema["items"], path, out);
    }
}

fn value_paths(value: &Value, path: &str, out: &mut BTreeSet<String>) {
    match value {
        Value::Object(table) => {
            for (key, value) in table {
                let path = format!("{path}.{key}");
                out.insert(path.clone());
                value_paths(value, &path, out);
            }
        }
        Value::Array(list) => {
            for value in list {
                value_paths(value, path, out);
            }
        }
        _ => {}
    }
}

#[test]
fn parser_and_schema_know_the_same_keys() {
    let mut known = BTreeSet::new();
    schema_paths(&config::schema(), "", &mut known);
    // What the parser knows: every key of every kind, as the resolved configs print them.
    let mut printed = BTreeSet::new();
    for (_, text) in fixtures("valid") {
        if let Ok(config) = parse(&text) {
            value_paths(&as_json(&config.to_toml()), "", &mut printed);
        }
    }
    for kind in ["adam", "adamw", "lion", "muon", "sgd"] {
        let text = format!(
            "{}[optimizer]\nkind = \"{kind}\"\n",
            fixture("smallest_table")
        );
        value_paths(&as_json(&parse(&text).unwrap().to_toml()), "", &mut printed);
    }
    let missing: Vec<_> = known.symmetric_difference(&printed).collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert!(known.len() > 100, "{}", known.len());
}

fn fixture(name: &str) -> String {
    let files = fixtures("valid");
    files
        .into_iter()
        .find(|(found, _)| found == name)
        .unwrap()
        .1
}

#[test]
fn every_key_has_a_meaning_and_every_default_fits() {
    fn visit(schema: &Value, path: &str, root: &Value) {
        for word in ["anyOf", "oneOf"] {
            for branch in schema[word].as_array().into_iter().flatten() {
                visit(branch, path, root);
            }
        }
        for (key, value) in schema["properties"].as_object().into_iter().flatten() {
            let path = format!("{path}.{key}");
            if value["$ref"].is_null() {
                assert!(
                    value["description"]
                        .as_str()
                        .is_some_and(|text| text.len() > 3),
                    "{path}"
                );
            }
            if let Some(default) = value.get("default") {
                let mut alone = value.clone();
                alone["$defs"] = root["$defs"].clone();
                let validator = jsonschema::draft202012::new(&alone).unwrap();
                assert!(validator.is_valid(default), "{path}: {default}");
            }
            visit(value, &path, root);
        }
    }
    let schema = config::schema();
    visit(&schema, "", &schema);
}

#[test]
fn the_reference_names_every_key() {
    let reference = config::reference();
    let mut known = BTreeSet::new();
    schema_paths(&config::schema(), "", &mut known);
    for path in known {
        let key = path.rsplit('.').next().unwrap();
        let named = [format!("{key}`"), format!("`{key} ="), format!("[{key}]")];
        let named = named.iter().any(|named| reference.contains(named));
        assert!(named, "{path}");
    }
    for line in reference.lines().filter(|line| line.starts_with('|')) {
        assert_eq!(line.replace("\\|", "").matches('|').count(), 5, "{line}");
    }
}

#[test]
fn the_schema_is_what_an_editor_needs() {
    let schema = config::schema();
    assert_eq!(
        schema["$schema"],
        "https://json-schema.org/draft/2020-12/schema"
    );
    assert_eq!(
        schema["required"],
        json!(["name", "data", "model", "train"])
    );
    insta::with_settings!({ snapshot_path => "snapshots", prepend_module_to_snapshot => false, omit_expression => true }, {
        insta::assert_snapshot!("config_schema_train", serde_json::to_string_pretty(&schema["properties"]["train"]).unwrap());
    });
}
