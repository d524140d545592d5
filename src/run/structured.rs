//! Answers that fit a schema: the call option `outputSchema`.
//!
//! In: the schema as the call has it. Out: a check of the reply, which leaves the value in it, and the way in which the model
//! learns the schema: natively if the provider's exchange has a way for it, in the prompt otherwise.

use std::sync::Arc;

use serde_json::Value;
use serde_json::value::RawValue;

use super::reply_check::{RejectedReply, ReplyCheck, correction};
use super::schemas;
use dfp_model::error::{Code, ProviderError};
use dfp_model::event::{Event, Reply};
use dfp_model::message::Message;
use dfp_provider::classify;
use dfp_text::schema::{self, Schema};

/// The schema of a call's option, compiled.
///
/// # Errors
/// The reason for which it is no usable schema.
pub async fn read(given: &RawValue) -> Result<Arc<Schema>, String> {
    look(given)?;
    schemas::compiled(given.get()).await.map_err(unusable)
}

fn unusable(reason: String) -> String {
    format!("the call's option \"outputSchema\" can't be used: {reason}")
}

/// Checks of a schema all that can be seen without compiling it.
///
/// # Errors
/// The reason for which it is no usable schema.
pub fn look(given: &RawValue) -> Result<(), String> {
    let schema = Schema::look(given.get()).map_err(unusable)?;
    match schema.get("type") {
        Some(Value::String(kind)) if kind == "object" => Ok(()),
        kind => {
            let given = kind.map_or("none".to_owned(), Value::to_string);
            Err(format!(
                "the call's option \"outputSchema\" must be the schema of an object, with type \"object\" at its top, given: type \
                 {given}. Put it into a field of an object"
            ))
        }
    }
}

/// The flag in `args` with which a user asks for an answer by a schema.
pub(super) fn own_flag(args: &[String]) -> Option<&str> {
    let name = |arg: &'_ String| dfp_provider::schema_flags().find(|flag| arg.split('=').next() == Some(flag));
    args.iter().find_map(name)
}

/// The event that the schema is asked for in the prompt, although the provider has another way.
pub(super) fn emulated(provider: &str, why: &str) -> Event {
    Event::Warning {
        code: "OUTPUT_SCHEMA_EMULATED".to_owned(),
        message: format!("{provider} is asked in the prompt for an answer that fits `outputSchema`: {why}"),
    }
}

/// The check that the reply fits a schema, unless it calls tools.
#[derive(Debug)]
pub(super) struct FitsSchema {
    pub schema: Arc<Schema>,
    pub provider: String,
    /// True if the CLI itself lets its model try again before it fails.
    pub cli_asks_again: bool,
}

impl ReplyCheck for FitsSchema {
    fn check(&self, mut reply: Reply) -> Result<Reply, Box<RejectedReply>> {
        let given = reply.structured.take();
        // The value comes in a later turn, when the calls have their results.
        if !reply.tool_calls.is_empty() || !reply.invalid_tool_calls.is_empty() {
            return Ok(reply);
        }
        let by_tool = given.is_some();
        let fits = |value: Value| schemas::aside(|| self.schema.check(&value)).map(|()| value);
        let found = match given {
            Some(value) => fits(value),
            None => schema::value_of(&reply.content).and_then(fits),
        };
        match found {
            Ok(value) => {
                if by_tool {
                    // In the thread's next call, the message has to be the value, without the text beside it.
                    reply.content = value.to_string();
                }
                reply.structured = Some(value);
                Ok(reply)
            }
            Err(reasons) => Err(Box::new(RejectedReply {
                messages: correction(&reply, self.reasons(&reasons)),
                error: self.rejected(&reasons),
                reply,
            })),
        }
    }

    fn mend(&self, error: &ProviderError) -> Option<Vec<Message>> {
        if error.code != Code::OutputInvalid || self.cli_asks_again {
            return None;
        }
        let said = error.partial.as_ref().map_or("", |partial| partial.text.as_str());
        let reasons = match schema::value_of(said).and_then(|value| schemas::aside(|| self.schema.check(&value))) {
            Err(reasons) => reasons,
            Ok(()) => "it did not come as it was asked for".to_owned(),
        };
        let reply = Reply {
            content: said.to_owned(),
            ..Reply::default()
        };
        Some(correction(&reply, self.reasons(&reasons)))
    }
}

impl FitsSchema {
    /// The user message about an answer that does not fit.
    fn reasons(&self, reasons: &str) -> String {
        format!(
            "Your answer does not fit the JSON Schema that it has to fit: {reasons}. Answer again, with one JSON value that fits this \
             schema and nothing else:\n\n{}",
            self.schema.text()
        )
    }

    fn rejected(&self, reasons: &str) -> Box<ProviderError> {
        let reason = format!("the reply does not fit `outputSchema`: {reasons}");
        let hint = classify::hint(&self.provider, Code::OutputInvalid);
        Box::new(ProviderError::new(&self.provider, Code::OutputInvalid, reason).with_hint(hint))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use dfp_model::message::{InvalidToolCall, ToolCall};

    fn check() -> FitsSchema {
        let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
        FitsSchema {
            schema: Arc::new(Schema::new(&schema.to_string()).unwrap()),
            provider: "test".to_owned(),
            cli_asks_again: false,
        }
    }

    fn raw(value: &Value) -> Box<RawValue> {
        RawValue::from_string(value.to_string()).unwrap()
    }

    fn says(content: &str, structured: Option<Value>) -> Reply {
        Reply {
            content: content.to_owned(),
            structured,
            ..Reply::default()
        }
    }

    #[test]
    fn a_value_is_the_text_or_stands_beside_it() {
        for (content, structured, expected) in [
            ("{\"n\":1}", None, "{\"n\":1}"),
            ("```json\n{\"n\":1}\n```", None, "```json\n{\"n\":1}\n```"),
            ("Here you are.", Some(json!({"n": 1})), "{\"n\":1}"),
        ] {
            let reply = check().check(says(content, structured)).unwrap();
            assert_eq!(
                (reply.structured, reply.content.as_str()),
                (Some(json!({"n": 1})), expected)
            );
        }
    }

    #[test]
    fn what_does_not_fit_is_told_with_the_schema() {
        for (content, structured, reason) in [
            ("one", None, "the reply is not JSON: expected value at line 1 column 1"),
            (
                "{\"n\":1}",
                Some(json!({"n": "1"})),
                "/n: the value is not of type \"integer\"",
            ),
        ] {
            let RejectedReply { reply, messages, error } = *check().check(says(content, structured)).unwrap_err();
            assert_eq!(
                (error.code, error.should_retry, error.should_fallback),
                (Code::OutputInvalid, false, true)
            );
            let begin = format!("the reply does not fit `outputSchema`: {reason}. ");
            assert!(error.message.starts_with(&begin), "{}", error.message);
            assert_eq!(messages[0].content.as_text(), content);
            let asked = messages[1].content.as_text();
            assert!(
                asked.contains(reason) && asked.ends_with(check().schema.text()),
                "{asked}"
            );
            assert_eq!(reply.structured, None);
        }
    }

    #[test]
    fn calls_come_first() {
        let call = ToolCall {
            name: "t".to_owned(),
            args: raw(&json!({})),
            id: "1".to_owned(),
        };
        let mut reply = says("Let me see.", Some(json!({"n": 1})));
        reply.tool_calls.push(call);
        let reply = check().check(reply).unwrap();
        assert_eq!((reply.structured, reply.content.as_str()), (None, "Let me see."));
        let mut reply = says("{", None);
        reply.invalid_tool_calls.push(InvalidToolCall {
            name: None,
            args: "{".to_owned(),
            id: None,
            error: "cut".to_owned(),
        });
        assert!(check().check(reply).is_ok());
    }

    #[test]
    fn a_schema_is_that_of_an_object() {
        for schema in [
            json!({"type": "array"}),
            json!({"anyOf": []}),
            json!(true),
            json!({"type": ["object", "null"]}),
            json!({"$ref": "http://a/"}),
        ] {
            let reason = look(&raw(&schema)).unwrap_err();
            assert!(reason.starts_with("the call's option \"outputSchema\" "), "{reason}");
        }
    }

    #[test]
    fn flags_of_the_user_s_own_are_found() {
        let args = |args: &[&str]| args.iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>();
        assert_eq!(own_flag(&args(&["--a", "--json-schema={}"])), Some("--json-schema"));
        assert_eq!(own_flag(&args(&["--output-schema", "f"])), Some("--output-schema"));
        assert_eq!(own_flag(&args(&["--json-schemas"])), None);
    }
}
