//! Recorded outputs of other programs, and comparison with them.

use std::path::Path;

use serde_json::Value;

/// A file of `tests/fixtures/torch`.
pub(in crate::train) fn file(name: &str) -> Value {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/torch");
    let text = std::fs::read_to_string(folder.join(name)).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Its cases; at least one.
pub(in crate::train) fn cases(name: &str) -> Vec<Value> {
    let cases = file(name)["cases"].as_array().unwrap().clone();
    assert!(!cases.is_empty());
    cases
}

/// A list of numbers.
pub(in crate::train) fn numbers(value: &Value) -> Vec<f64> {
    let values = value.as_array().unwrap().iter();
    values.map(|v| v.as_f64().unwrap()).collect()
}

/// Panics unless every value is within `relative` of the wanted one, or within `absolute`.
#[track_caller]
pub(in crate::train) fn assert_close(found: &[f64], wanted: &[f64], relative: f64, absolute: f64) {
    assert_eq!(found.len(), wanted.len());
    for (index, (&found, &wanted)) in found.iter().zip(wanted).enumerate() {
        let error = (found - wanted).abs();
        assert!(
            error <= relative * wanted.abs() || error <= absolute,
            "value {index}: found {found}, wanted {wanted}, off by {error:e}"
        );
    }
}
