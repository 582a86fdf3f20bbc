//! JSON Schema (draft 2020-12) of what users write.

use serde_json::{Map, Value as Json, json};

use super::experiment::Config;
use super::section::{Key, Presence, Section, Shape, TAG};

/// The JSON Schema of a config file, for editors: what [`super::parse`] takes, apart from
/// contradictions between keys.
#[must_use]
pub fn schema() -> Json {
    let mut schema = of_shape(&Config::shape());
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["title"] = json!("trainer experiment");
    schema["$defs"] = json!({"reference": {
        "description": "A text with references to environment variables.",
        "type": "string",
        "pattern": "\\$\\{[A-Za-z_][A-Za-z0-9_]*(:-[^}]*)?\\}",
        "examples": ["${NAME}", "${NAME:-default}"],
    }});
    schema
}

/// The schema of a section.
pub(super) fn of_shape(shape: &Shape) -> Json {
    match shape {
        Shape::Keys(keys) => of_keys(keys, None),
        Shape::Kinds { default, kinds } => {
            let mut branches: Vec<Json> = kinds
                .iter()
                .map(|kind| {
                    let mut tag = json!({"const": kind.tag, "description": kind.doc});
                    let optional = *default == Some(kind.tag);
                    if optional {
                        tag["default"] = json!(kind.tag);
                    }
                    let mut branch = of_keys(&kind.keys, Some((tag, optional)));
                    branch["title"] = json!(kind.tag);
                    branch
                })
                .collect();
            // A kind that is filled in from the environment is known only then.
            branches.push(json!({
                "title": "kind from the environment",
                "properties": {TAG: {"$ref": "#/$defs/reference"}},
                "required": [TAG],
            }));
            json!({"type": "object", "oneOf": branches})
        }
    }
}

/// The schema of a table with these keys, and with `kind` where there is one.
fn of_keys(keys: &[Key], tag: Option<(Json, bool)>) -> Json {
    let mut properties = Map::new();
    let mut required: Vec<&str> = Vec::new();
    let mut alternatives: Vec<Json> = Vec::new();
    if let Some((tag, optional)) = tag {
        properties.insert(TAG.to_string(), tag);
        if !optional {
            required.push(TAG);
        }
    }
    for key in keys {
        properties.insert(key.name.to_string(), of_key(key));
        match key.presence {
            Presence::Required => required.push(key.name),
            Presence::OneOf => alternatives.push(json!({"required": [key.name]})),
            Presence::Default(_) | Presence::Derived => {}
        }
    }
    let mut schema = json!({
        "type": "object", "properties": properties, "additionalProperties": false,
    });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    // A section has at most one such group of keys.
    if !alternatives.is_empty() {
        schema["oneOf"] = json!(alternatives);
    }
    schema
}

/// The schema of a key's value, with meaning and default.
fn of_key(key: &Key) -> Json {
    let mut schema = key.form.schema();
    let meanings = schema.get("description").and_then(Json::as_str);
    let description = match meanings {
        Some(meanings) => format!("{}\n\n{meanings}", key.doc),
        None => key.doc.clone(),
    };
    schema["description"] = json!(description);
    if let Presence::Default(default) = &key.presence {
        schema["default"] = default.clone();
    }
    schema
}
