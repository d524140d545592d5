//! A tool as the executor knows it: its name, its description, and the check of arguments by its schema.
//!
//! In: a [`ToolSpec`] and its compiled schema. Out: a [`Tool`] that checks arguments. A check runs right in the executor's step,
//! because [`Schema::check`] limits its cost.

use std::sync::Arc;

use serde_json::Value;
use serde_json::value::RawValue;

use dfp_model::message::ToolSpec;
use dfp_text::schema::Schema;

/// The kind of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolKind {
    /// A tool of the caller, who runs it.
    Caller,
    /// The built-in tool `completion-report`.
    Report,
    /// The built-in tool `planner-output`.
    Plan,
    /// The built-in tool `handoff`.
    Handoff,
}

/// A tool that the model may call.
#[derive(Debug)]
pub struct Tool {
    /// The specification that the model sees.
    pub spec: ToolSpec,
    pub kind: ToolKind,
    schema: Arc<Schema>,
}

impl Tool {
    /// A tool; `schema` is the compiled schema of `spec`.
    pub fn new(spec: ToolSpec, kind: ToolKind, schema: Arc<Schema>) -> Tool {
        Tool { spec, kind, schema }
    }

    /// Checks `args` by the schema.
    ///
    /// # Errors
    /// A description for the model of what is wrong with them.
    pub fn check(&self, args: &RawValue) -> Result<(), String> {
        let value: Value = serde_json::from_str(args.get()).map_err(|error| format!("they can't be read: {error}"))?;
        self.schema.check_quoting(&value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(schema: &str) -> Result<Tool, String> {
        let spec = ToolSpec {
            name: "t".to_owned(),
            description: None,
            schema: RawValue::from_string(schema.to_owned()).unwrap(),
        };
        let schema = Schema::new(spec.schema.get())?;
        Ok(Tool::new(spec, ToolKind::Caller, Arc::new(schema)))
    }

    fn check(schema: &str, args: &str) -> Result<(), String> {
        tool(schema)
            .unwrap()
            .check(&RawValue::from_string(args.to_owned()).unwrap())
    }

    #[test]
    fn tells_every_mistake_with_its_place() {
        let schema = r#"{"type":"object","properties":{"path":{"type":"string"},"n":{"type":"integer","minimum":1}},
                        "required":["path"],"additionalProperties":false}"#;
        assert_eq!(check(schema, r#"{"path":"a","n":2}"#), Ok(()));
        assert_eq!(
            check(schema, r#"{"n":0,"more":true}"#).unwrap_err(),
            "/n: 0 is less than the minimum of 1; Additional properties are not allowed ('more' was unexpected); \
             \"path\" is a required property"
        );
        let lone = check(schema, r#"{"path":"\ud800"}"#).unwrap_err();
        assert!(lone.starts_with("they can't be read: "), "{lone}");
    }

    #[test]
    fn refuses_a_schema_that_is_none() {
        assert!(tool("true").is_ok() && tool("{}").is_ok());
        for schema in ["3", r#"{"type":"strin"}"#, r##"{"$ref":"#/nowhere"}"##] {
            assert!(tool(schema).is_err(), "{schema}");
        }
        // Nothing is fetched for a schema.
        assert!(tool(r#"{"$ref":"http://127.0.0.1:9/schema.json"}"#).is_err());
    }

    #[test]
    fn every_draft_and_what_references_itself_is_read() {
        let list = r##"{"$schema":"http://json-schema.org/draft-07/schema#","type":"object",
            "properties":{"next":{"anyOf":[{"type":"null"},{"$ref":"#"}]}},"required":["next"]}"##;
        assert_eq!(check(list, r#"{"next":{"next":null}}"#), Ok(()));
        assert!(check(list, r#"{"next":{}}"#).is_err());
        let tuple = r#"{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"array",
            "prefixItems":[{"type":"string"}],"items":false}"#;
        assert_eq!(check(tuple, r#"["a"]"#), Ok(()));
        assert!(check(tuple, r#"["a",1]"#).is_err());
    }
}
