//! The fields that a call puts into its requests: the CLI merges what a variable says into each of them.
//!
//! In: a call's options, its schema, its choice of tools. Out: fields of a request to the Messages API, and the value of the variable.
//! Measured with 2.1.197 and 2.1.332.

use serde_json::{Map, Value, json};

use crate::Provider;
use crate::choices::{Choices, ToolChoice};
use crate::command::MAX_ARG_BYTES;
use crate::declare::mcp::{Declarations, SERVER};
use crate::errors::RequestField;
use crate::options::Options;
use dfp_text::schema::{Schema, enforced};

/// The variable with JSON of fields that go into every request.
pub const EXTRA_BODY: &str = "CLAUDE_CODE_EXTRA_BODY";

/// The length of the longest form of an answer that is put into a variable, bytes.
const MAX_FORMAT_BYTES: usize = MAX_ARG_BYTES / 2;

/// The form of an answer, in the field that holds the effort as well, which the CLI sets. The words of refusals are those of the
/// API's own (platform.claude.com/docs/en/build-with-claude/structured-outputs) and of gateways that know no such field.
pub static ANSWER_FORMAT: RequestField = RequestField {
    name: "output_config",
    named_by: &[
        "output_config",
        "output_format",
        "output format",
        "structured output",
        "compiled grammar",
        "grammar compilation",
        "schema is too complex",
    ],
    not_by: &["output_config.effort"],
    of_value_by: &["format.schema", "invalid schema", "grammar", "too complex"],
    is_in_words_otherwise: false,
    otherwise: "by the CLI's own tool for an answer that fits `outputSchema`",
    warning: "OUTPUT_SCHEMA_EMULATED",
};

/// The choice of tools. The API refuses a demanded call beside thinking ("Thinking may not be enabled when tool_choice forces tool
/// use"), and of some models always (vercel/ai#7220, anomalyco/opencode#46735).
pub static TOOL_CHOICE: RequestField = RequestField {
    name: "tool_choice",
    named_by: &["tool_choice", "tool choice"],
    not_by: &[],
    of_value_by: &["forces tool use"],
    is_in_words_otherwise: true,
    otherwise: "in words for what `toolChoice` says",
    warning: "UNSUPPORTED_OPTION",
};

/// The field of a request for `choice`; `tools` are the declared ones. `None` if there is nothing to choose.
pub fn tool_choice(choice: &ToolChoice, tools: &Declarations) -> Option<(String, Value)> {
    let value = match choice {
        _ if tools.tools().is_empty() => return None,
        ToolChoice::Auto => return None,
        ToolChoice::None => json!({"type": "none"}),
        ToolChoice::Any => json!({"type": "any"}),
        ToolChoice::Tool(name) => json!({"type": "tool", "name": format!("mcp__{SERVER}__{}", tools.wire_name(name))}),
    };
    Some((TOOL_CHOICE.name.to_owned(), value))
}

/// The value of the variable for additional fields of a request: the fields of the user's `env`, and the texts that end an answer.
pub fn extra_body(_: &Provider, options: &Options) -> String {
    let users = options.env.iter().rfind(|(name, _)| name == EXTRA_BODY);
    let users = users.and_then(|(_, value)| value.as_deref());
    with_fields(users, &Map::from_iter([stop_sequences(&options.choices)]))
}

/// The field of a request with the texts that end an answer.
pub fn stop_sequences(choices: &Choices) -> (String, Value) {
    let texts = choices.stop().unwrap_or_default();
    ("stop_sequences".to_owned(), json!(texts))
}

/// The field of a request for an answer that fits `schema`; `None` if the API can't enforce it, or it is too long for a variable.
pub fn answer_format(schema: &Schema) -> Option<(String, Value)> {
    let enforced = enforced::enforceable(schema.value())?;
    let format = json!({"format": {"type": "json_schema", "schema": enforced}});
    // The processes that the CLI starts could not inherit a longer one.
    (format.to_string().len() <= MAX_FORMAT_BYTES).then(|| (ANSWER_FORMAT.name.to_owned(), format))
}

/// The value of the variable for additional fields of a request: `fields` over those of its value `before`. Of `output_config` only
/// the members that are given are replaced, as the CLI does with its own (2.1.197 and 2.1.332).
pub fn with_fields(before: Option<&str>, fields: &Map<String, Value>) -> String {
    let before = before.and_then(|before| serde_json::from_str::<Map<String, Value>>(before).ok());
    let mut body = before.unwrap_or_default();
    for (name, value) in fields {
        match (body.get_mut(name), value) {
            (Some(Value::Object(own)), Value::Object(members)) if name == ANSWER_FORMAT.name => {
                own.extend(members.clone())
            }
            _ => {
                body.insert(name.clone(), value.clone());
            }
        }
    }
    Value::Object(body).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::errors::Refused;

    #[test]
    fn a_refusal_is_about_the_field_that_it_names() {
        let of_field = "output_config.format: Extra inputs are not permitted";
        for (field, message, expected) in [
            (&ANSWER_FORMAT, of_field, Some(Refused::Field)),
            (
                &ANSWER_FORMAT,
                "output_config.format: json_schema is not supported",
                Some(Refused::Field),
            ),
            (
                &ANSWER_FORMAT,
                "This model does not support structured outputs.",
                Some(Refused::Field),
            ),
            (
                &ANSWER_FORMAT,
                "output_config.format.schema: For 'object' type, …",
                Some(Refused::Value),
            ),
            (
                &ANSWER_FORMAT,
                "The compiled grammar is too large",
                Some(Refused::Value),
            ),
            // Quoted in genkit-ai/genkit#5230.
            (
                &ANSWER_FORMAT,
                "Schema is too complex for compilation. Try reducing the number of tools or simplifying tool schemas.",
                Some(Refused::Value),
            ),
            (&ANSWER_FORMAT, "output_config.effort: \"max\" is not supported", None),
            (
                &ANSWER_FORMAT,
                "tools.0.custom.input_schema: JSON schema is invalid",
                None,
            ),
            (
                &ANSWER_FORMAT,
                "prompt is too long: 210000 tokens > 200000 maximum",
                None,
            ),
            (
                &TOOL_CHOICE,
                "Thinking may not be enabled when tool_choice forces tool use.",
                Some(Refused::Value),
            ),
            (
                &TOOL_CHOICE,
                "tool_choice: Extra inputs are not permitted",
                Some(Refused::Field),
            ),
            (
                &TOOL_CHOICE,
                "messages.1: tool_use ids were found without tool_result blocks",
                None,
            ),
        ] {
            assert_eq!(field.refused(message), expected, "{message}");
        }
    }

    #[test]
    fn fields_go_over_the_users_and_leave_the_effort_where_it_is() {
        let fields = Map::from_iter([
            ("output_config".to_owned(), json!({"format": 1})),
            ("tool_choice".to_owned(), json!({"type": "any"})),
        ]);
        let users =
            r#"{"top_k":3,"output_config":{"effort":"low","format":0},"tool_choice":{"type":"tool","name":"a"}}"#;
        assert_eq!(
            with_fields(Some(users), &fields),
            r#"{"top_k":3,"output_config":{"effort":"low","format":1},"tool_choice":{"type":"any"}}"#
        );
        let alone = r#"{"output_config":{"format":1},"tool_choice":{"type":"any"}}"#;
        assert_eq!(
            [with_fields(None, &fields), with_fields(Some("no JSON"), &fields)],
            [alone, alone]
        );
    }
}
