//! The adapter without a CLI: rules of configs, logs of recordings.

mod config;
mod log;

use serde_json::Value;

/// What a schema says against a value; nothing if it fits.
fn complaints(schema: &str, value: &Value) -> Vec<String> {
    let schema: Value = serde_json::from_str(schema).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    validator
        .iter_errors(value)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect()
}
