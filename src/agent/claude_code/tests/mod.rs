//! Tests of the adapter without a CLI: rules of configs, and logs of recordings.

mod config;
mod log;

use serde_json::Value;

/// The violations of a schema by a value; empty if the value fits.
fn complaints(schema: &str, value: &Value) -> Vec<String> {
    let schema: Value = serde_json::from_str(schema).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    validator
        .iter_errors(value)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect()
}
