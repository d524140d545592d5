//! The requests of claude: the fields that a call puts into them, and what claude says of its surroundings by itself.
//!
//! In: a call's options, its schema, its choice of tools. Out: fields of a request to the Messages API, and the value of the variable
//! that has them: the CLI merges what it says into each request. Measured with 2.1.197 and 2.1.332.
//!
//! Beside them stand facts of the transcripts that claude resumes: which versions take one, and what each tells of the folder, the date
//! and the model. Measured offline with 2.1.197, 2.1.330 and 2.1.332 (CLAUDE-SESSIONS 1).

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

/// A version of the CLI.
pub type Version = [u64; 3];

/// The oldest version that takes `--resume FILE.jsonl` beside `--no-session-persistence`, of those that serve live sessions.
pub const OLDEST: Version = [2, 1, 197];

/// The oldest known version that tells its folder, its model and the date in a message of their own, of which the transcript has
/// lines. 2.1.197 puts the date before the first text, and takes it from its own clock.
pub const TELLS_SURROUNDINGS: Version = [2, 1, 330];

/// The most characters of a result that claude takes from its tools' server as it is.
pub const MOST_RESULT_CHARS: usize = 500_000;

/// A model, as the CLI introduces it to itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelFacts {
    pub id: &'static str,
    /// Its name in words.
    pub name: &'static str,
    /// The end of its knowledge.
    pub cutoff: &'static str,
    /// The effort of a turn for which none was chosen, if the CLI reports each turn's effort to the API (2.1.332). Such a turn keeps its
    /// effort while it takes the results of its calls (2.1.330, 2.1.332).
    pub effort: Option<&'static str>,
}

const fn model(id: &'static str, name: &'static str, cutoff: &'static str) -> ModelFacts {
    ModelFacts {
        id,
        name,
        cutoff,
        effort: None,
    }
}

const fn by_turn(id: &'static str, name: &'static str, cutoff: &'static str) -> ModelFacts {
    ModelFacts {
        effort: Some("medium"),
        ..model(id, name, cutoff)
    }
}

/// The models that 2.1.332 knows by name.
pub const MODELS: &[ModelFacts] = &[
    by_turn("claude-opus-5-5", "Opus 5.5", "June 2026"),
    by_turn("claude-haiku-5-5", "Haiku 5.5", "June 2026"),
    by_turn("claude-sonnet-5-5", "Sonnet 5.5", "June 2026"),
    by_turn("claude-fable-5-2", "Fable 5.2", "June 2026"),
    model("claude-opus-5", "Opus 5", "May 2026"),
    model("claude-sonnet-5", "Sonnet 5", "January 2026"),
    model("claude-opus-4-8", "Opus 4.8", "January 2026"),
    model("claude-fable-5", "Fable 5", "January 2026"),
    model("claude-sonnet-4-6", "Sonnet 4.6", "August 2025"),
    model("claude-opus-4-5", "Opus 4.5", "May 2025"),
    model("claude-haiku-4-5", "Haiku 4.5", "February 2025"),
    model("claude-sonnet-4-5", "Sonnet 4.5", "January 2025"),
];

/// The models of which the CLI asks a fixed budget of thinking (2.1.197, 2.1.332), by the beginnings of their ids. With a budget, the
/// Messages API refuses results of a call that does not begin with thinking.
const THINK_BY_BUDGET: [&str; 7] = [
    "claude-haiku-4",
    "claude-sonnet-4-5",
    "claude-sonnet-4-2",
    "claude-opus-4-5",
    "claude-opus-4-1",
    "claude-opus-4-2",
    "claude-3",
];

/// Returns whether the API wants thinking before calls of the model that is asked for as `name`. `haiku` is Haiku 4.5 to 2.1.197.
pub fn needs_thinking(name: &str, version: Option<Version>) -> bool {
    let is_old_haiku = name == "haiku" && version.is_none_or(|version| version < TELLS_SURROUNDINGS);
    is_old_haiku || THINK_BY_BUDGET.iter().any(|id| name.starts_with(id))
}

/// The facts of the model `id`.
pub fn facts_of(id: &str) -> Option<&'static ModelFacts> {
    MODELS.iter().find(|facts| facts.id == id)
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
