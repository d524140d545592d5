//! The caller's tools as codex's dynamic tools.
//!
//! In: the declared tools. Out: [`DynamicTool`]s. codex rewrites schemas and drops much of them (CODEX-LIVE §2.3), so dropped
//! parts go into the description, and parts that it would refuse or change are written another way. The caller still has to
//! validate the arguments.

use serde_json::{Map, Value, json};

use super::wire::DynamicTool;
use dfp_model::message::ToolSpec;
use dfp_provider::declare::{Declared, MAX_NAME, Tools};
use dfp_provider::options::OUR_NAMESPACE;

/// The keywords of a schema that codex drops and a model should know. (It drops `title`, `$schema`, `$id` and comments as well.)
const DROPPED: [&str; 18] = [
    "format",
    "pattern",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
    "default",
    "examples",
    "not",
    "prefixItems",
    "patternProperties",
];

/// The depth beyond which a schema is not rewritten: a schema may be built to be endless.
const DEEPEST: usize = 64;

/// Returns whether codex takes a name for itself: it leaves out tools of these names without a word, and refuses those of MCP
/// servers (0.169.0). Such tools of ours get another name.
fn is_reserved(name: &str) -> bool {
    matches!(name, "exec_command" | "shell_command") || name.starts_with("mcp__")
}

/// Declares `tools` under names that codex takes.
pub fn declare(tools: &[ToolSpec]) -> Tools {
    Tools::avoiding(tools, MAX_NAME, is_reserved)
}

/// The form in which tools are offered to the model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum CodexForm {
    /// Each tool is a function.
    #[default]
    Functions,
    /// All tools are under one name, which codex never hides behind its code mode.
    Namespace,
}

/// The declaration of `tools` for `thread/start`.
pub fn dynamic(tools: &Tools, form: CodexForm) -> Vec<DynamicTool> {
    let functions: Vec<DynamicTool> = tools.declared().iter().map(function).collect();
    match form {
        CodexForm::Namespace if !functions.is_empty() => vec![DynamicTool::Namespace {
            name: OUR_NAMESPACE,
            description: "The tools of this conversation.",
            tools: functions,
        }],
        _ => functions,
    }
}

fn function(tool: &Declared) -> DynamicTool {
    let mut schema = serde_json::from_str(&tool.schema).unwrap_or_else(|_| json!({"type": "object"}));
    let mut notes = Vec::new();
    rewrite(&mut schema, "", &mut notes, 0);
    let mut description = tool.description.clone().unwrap_or_default();
    if !notes.is_empty() {
        if !description.is_empty() {
            description.push_str("\n\n");
        }
        description.push_str("Constraints of the arguments:\n");
        description.push_str(&notes.join("\n"));
    }
    DynamicTool::Function {
        name: tool.name.clone(),
        description,
        input_schema: schema,
    }
}

/// Rewrites `schema`, which is at `path`, into a form that codex keeps. Dropped parts go to `notes`.
fn rewrite(schema: &mut Value, path: &str, notes: &mut Vec<String>, depth: usize) {
    if depth > DEEPEST {
        return;
    }
    // A schema for any value, which codex would make a string of.
    if schema.as_bool() == Some(true) {
        *schema = json!({});
    }
    let Value::Object(map) = schema else { return };
    note_dropped(map, path, notes);
    rewrite_tuple(map);
    rewrite_values(map);
    let at = |name: &str| match path {
        "" => name.to_owned(),
        path => format!("{path}.{name}"),
    };
    for (key, inner) in map.iter_mut() {
        match (key.as_str(), inner) {
            ("properties" | "$defs" | "definitions", Value::Object(named)) => {
                for (name, inner) in named {
                    let place = if key == "properties" {
                        at(name)
                    } else {
                        format!("#/{key}/{name}")
                    };
                    rewrite(inner, &place, notes, depth + 1);
                }
            }
            ("items", inner) => rewrite(inner, &format!("{path}[]"), notes, depth + 1),
            ("additionalProperties", inner @ Value::Object(_)) => rewrite(inner, &at("*"), notes, depth + 1),
            ("anyOf" | "oneOf" | "allOf", Value::Array(forms)) => {
                for inner in forms {
                    rewrite(inner, path, notes, depth + 1);
                }
            }
            _ => {}
        }
    }
}

fn note_dropped(map: &Map<String, Value>, path: &str, notes: &mut Vec<String>) {
    let dropped = map.iter().filter(|(key, _)| DROPPED.contains(&key.as_str()));
    let mut constraints: Vec<String> = dropped.map(|(key, value)| format!("{key} {value}")).collect();
    if map.get("nullable") == Some(&Value::Bool(true)) {
        constraints.push("may be null".to_owned());
    }
    if let Some(Value::Array(places)) = map.get("items") {
        constraints.push(format!("items in this order {}", Value::from(places.clone())));
    }
    if !constraints.is_empty() {
        let place = if path.is_empty() { "all" } else { path };
        notes.push(format!("- {place}: {}", constraints.join(", ")));
    }
}

/// Rewrites a tuple, which codex refuses whole ("input schema is not supported"): an array of any of its items comes closest.
fn rewrite_tuple(map: &mut Map<String, Value>) {
    if let Some(Value::Array(places)) = map.get("items") {
        let any = json!({"anyOf": places});
        map.insert("items".to_owned(), any);
    }
}

/// Rewrites a constant, or values without a type, which would become a string.
fn rewrite_values(map: &mut Map<String, Value>) {
    if let Some(value) = map.remove("const") {
        map.insert("enum".to_owned(), Value::Array(vec![value]));
    }
    if map.contains_key("type") {
        return;
    }
    let Some(Value::Array(values)) = map.get("enum") else {
        return;
    };
    let mut types: Vec<&str> = values.iter().map(type_of).collect();
    types.dedup();
    let of_type = match types[..] {
        [] => return,
        [only] => json!(only),
        _ => json!(types),
    };
    map.insert("type".to_owned(), of_type);
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;

    fn tool(name: &str, schema: &Value) -> ToolSpec {
        ToolSpec {
            name: name.to_owned(),
            description: Some("Does it.".to_owned()),
            schema: RawValue::from_string(schema.to_string()).unwrap(),
        }
    }

    fn declared(schema: &Value) -> (String, Value) {
        match dynamic(&declare(&[tool("t", schema)]), CodexForm::Functions).remove(0) {
            DynamicTool::Function {
                description,
                input_schema,
                ..
            } => (description, input_schema),
            DynamicTool::Namespace { .. } => panic!("a namespace"),
        }
    }

    #[test]
    fn what_codex_would_drop_is_said_in_the_description() {
        let (description, schema) = declared(&json!({
            "$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "title": "T",
            "properties": {
                "n": {"type": "integer", "minimum": 1, "maximum": 10},
                "when": {"type": "object", "properties": {"day": {"type": "string", "format": "date"}}},
                "tags": {"type": "array", "items": {"type": "string", "pattern": "^a"}, "uniqueItems": true},
                "plain": {"type": "string", "description": "d"},
            },
            "required": ["n"],
        }));
        assert_eq!(
            description,
            "Does it.\n\nConstraints of the arguments:\n- n: minimum 1, maximum 10\n- when.day: format \"date\"\n- tags: \
             uniqueItems true\n- tags[]: pattern \"^a\""
        );
        assert_eq!(schema["required"], json!(["n"]));
    }

    #[test]
    fn a_schema_that_codex_keeps_stays_as_it_is() {
        let kept = json!({"type": "object", "properties": {"a": {"type": "string", "enum": ["x", "y"]}}, "additionalProperties": false});
        assert_eq!(declared(&kept), ("Does it.".to_owned(), kept));
    }

    #[test]
    fn tuples_constants_and_free_values_are_written_as_codex_takes_them() {
        let (description, schema) = declared(&json!({"type": "object", "properties": {
            "pair": {"type": "array", "items": [{"type": "string"}, {"type": "number"}]},
            "five": {"const": 5},
            "mixed": {"enum": ["a", 1]},
            "free": true,
        }}));
        assert_eq!(
            schema["properties"],
            json!({
                "pair": {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "number"}]}},
                "five": {"enum": [5], "type": "integer"},
                "mixed": {"enum": ["a", 1], "type": ["string", "integer"]},
                "free": {},
            })
        );
        assert!(description.contains("- pair: items in this order [{\"type\":\"string\"},{\"type\":\"number\"}]"));
    }

    /// OpenAI refuses every request of a thread with a tool that has such a schema.
    #[test]
    fn a_union_at_the_top_is_one_object_and_told_in_the_description() {
        let branch = |kind: &str| json!({"type": "object", "properties": {"kind": {"const": kind}, kind: {"type": "string"}}, "required": ["kind", kind]});
        let union = json!([branch("a"), branch("b")]);
        let (description, schema) = declared(&json!({"oneOf": union}));
        assert_eq!(
            schema,
            json!({"type": "object",
                   "properties": {"kind": {"enum": ["a", "b"], "type": "string"}, "a": {"type": "string"}, "b": {"type": "string"}},
                   "required": ["kind"]})
        );
        assert_eq!(description, format!("Does it.\n\nThe arguments are any one of {union}"));
    }

    #[test]
    fn names_that_codex_keeps_to_itself_are_written_otherwise_and_lead_back() {
        let names = [
            "exec_command",
            "shell_command",
            "mcp__x__y",
            "apply_patch",
            "get.weather",
        ];
        let tools = declare(&names.map(|name| tool(name, &json!({"type": "object"}))));
        for (declared, name) in tools.declared().iter().zip(names) {
            assert!(!is_reserved(&declared.name), "{name}");
            assert_eq!(tools.callers_name(&declared.name), Some(name));
        }
        assert_eq!(tools.declared()[3].name, "apply_patch");
    }

    #[test]
    fn a_namespace_holds_them_all() {
        let tools = declare(&[tool("a", &json!({})), tool("b", &json!({}))]);
        let [DynamicTool::Namespace { name, tools, .. }] = &dynamic(&tools, CodexForm::Namespace)[..] else {
            panic!("no namespace");
        };
        assert_eq!((*name, tools.len()), ("df", 2));
        assert_eq!(dynamic(&declare(&[]), CodexForm::Namespace), []);
    }
}
