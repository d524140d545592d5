//! Decodes the formats of CLI-ADAPTER-PROTOCOL that belong to no CLI measured here: `json`, and the events of its
//! `stream-json`.
//!
//! In: one JSON object. Out: its content as a message. Lines with a `role` are messages of a thread (ax-glm, ax-grok), of
//! which only the assistant's are content; pieces of `type: "content"` (claude's old stream) are one message;
//! `thread.*`, `turn.*` and `item.*` are codex's. For an object that is an answer by itself, the document's order decides:
//! `content`, `text`, then `response`, `message`, `output`, `result` as strings, `content[].text`,
//! `choices[0].message.content`, `message.content`, `message.text`.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::assembler::MessageAssembler;
use super::claude::wire::Content;
use super::codex::Codex;
use super::format::{Format, Out, Verdict, failure_of, invalid_call, read_usage, tool_call};
use super::json::{Fields, Text, is_array, is_object, is_string, is_true, word};
use super::lines::strip_owned;
use dfp_model::event::{Event, Failure, Outcome};

/// The kinds of objects that are accepted as an answer by themselves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Answers {
    /// None: such objects belong to some text.
    #[default]
    None,
    /// Objects without a `type`.
    Untyped,
    /// All objects in which an answer is found.
    Any,
}

/// The decoder's state between lines.
#[derive(Debug, Default)]
pub(super) struct Generic {
    answers: Answers,
    assembler: MessageAssembler,
    codex: Codex,
    spoke: bool,
}

#[derive(Debug, Deserialize)]
struct GenericObject<'a> {
    #[serde(borrow)]
    role: Option<&'a RawValue>,
    id: Option<&'a RawValue>,
    content: Option<&'a RawValue>,
    text: Option<&'a RawValue>,
    response: Option<&'a RawValue>,
    message: Option<&'a RawValue>,
    output: Option<&'a RawValue>,
    result: Option<&'a RawValue>,
    choices: Option<&'a RawValue>,
    messages: Option<&'a RawValue>,
    delta: Option<&'a RawValue>,
    tool_calls: Option<&'a RawValue>,
    tool_call_id: Option<&'a RawValue>,
    finish_reason: Option<&'a RawValue>,
    stop_reason: Option<&'a RawValue>,
    usage: Option<&'a RawValue>,
    model: Option<&'a RawValue>,
    session_id: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
    is_error: Option<&'a RawValue>,
}

/// A call as OpenAI's API writes it.
#[derive(Debug, Deserialize)]
struct Call<'a> {
    #[serde(borrow)]
    id: Option<Text<'a>>,
    function: Option<Function<'a>>,
}

#[derive(Debug, Deserialize)]
struct Function<'a> {
    #[serde(borrow)]
    name: Option<Text<'a>>,
    /// The arguments, as JSON in a string.
    arguments: Option<Text<'a>>,
}

impl Generic {
    pub fn new(answers: Answers) -> Self {
        Generic {
            answers,
            ..Generic::default()
        }
    }

    /// Decodes an object whose `type`, if it has one, belongs to no other format.
    pub fn object(&mut self, kind: Option<&str>, json: &str, out: &mut Out) -> Verdict {
        if let Some("thread.started" | "turn.started" | "turn.completed" | "turn.failed" | "error") = kind {
            self.close(out);
            return self.codex.object(json, out);
        }
        if kind.is_some_and(|kind| kind.starts_with("item.")) {
            self.spoke = true;
            return self.codex.object(json, out);
        }
        let Ok(object) = serde_json::from_str::<GenericObject>(json) else {
            return Verdict::NotJson;
        };
        let mut fields = Fields::default();
        let read = match (kind, object.role, object.messages) {
            (Some("content"), ..) => {
                let Text(piece) = fields.read("content", object.content).unwrap_or_default();
                self.spoke |= !piece.is_empty();
                self.assembler.piece(&piece, out);
                true
            }
            (None | Some("message"), Some(_), _) => {
                self.role(&object, &mut fields, out);
                true
            }
            (None, None, Some(messages)) if is_array(messages) => {
                let messages: Vec<GenericObject> = fields.read("messages", Some(messages)).unwrap_or_default();
                messages.iter().for_each(|message| self.role(message, &mut fields, out));
                self.end(&object, None, None, &mut fields, out);
                true
            }
            _ if self.answers == Answers::Any || (self.answers == Answers::Untyped && kind.is_none()) => {
                self.answer(&object, &mut fields, out)
            }
            _ => false,
        };
        if let Some(complaint) = fields.complaint() {
            out.note(&format!("{}: {complaint}", kind.unwrap_or("json")));
        }
        match (read, kind) {
            (true, _) => Verdict::Event,
            (false, Some(kind)) => {
                out.other(kind, json);
                Verdict::Event
            }
            (false, None) => Verdict::Foreign,
        }
    }

    /// Completes the open message.
    pub fn close(&mut self, out: &mut Out) {
        self.assembler.end_turn(out);
    }

    /// Returns whether there was any text since the last call of this function.
    pub fn take_spoke(&mut self) -> bool {
        std::mem::take(&mut self.spoke)
    }

    pub fn finish(&mut self, out: &mut Out) {
        self.close(out);
        self.codex.finish(out);
    }

    /// Decodes a message of a thread.
    fn role(&mut self, message: &GenericObject, fields: &mut Fields, out: &mut Out) {
        match word(message.role).as_deref() {
            Some("assistant") if is_true(message.delta) => {
                let Text(piece) = fields.read("content", message.content).unwrap_or_default();
                self.spoke |= !piece.is_empty();
                self.assembler.piece(&piece, out);
            }
            Some("assistant") => {
                let text = text_of(message.content).unwrap_or_default();
                self.spoke |= !text.is_empty();
                self.assembler.message(word(message.id).as_deref(), &text, out);
                calls(message, fields, out);
                if let Some(usage) = read_usage(fields, message.usage) {
                    out.event(Event::Usage {
                        usage,
                        raw_stop_reason: fields.string("stop_reason", message.stop_reason),
                    });
                }
            }
            Some("tool") => out.event(Event::ToolResult {
                tool_call_id: fields.string("tool_call_id", message.tool_call_id).unwrap_or_default(),
                content: strip_owned(text_of(message.content).unwrap_or_default()).into_owned(),
                is_error: false,
            }),
            // This is an echo of the prompt.
            _ => {}
        }
    }

    /// Decodes an object that is the answer; `false` if none is found in it.
    fn answer(&mut self, object: &GenericObject, fields: &mut Fields, out: &mut Out) -> bool {
        let choices: Vec<&RawValue> = object
            .choices
            .and_then(|raw| serde_json::from_str(raw.get()).ok())
            .unwrap_or_default();
        let choice: Option<GenericObject> = choices.first().and_then(|raw| serde_json::from_str(raw.get()).ok());
        let message = choice.as_ref().and_then(|choice| choice.message).or(object.message);
        let message: Option<GenericObject> = message
            .filter(|raw| is_object(raw))
            .and_then(|raw| serde_json::from_str(raw.get()).ok());
        let direct = [
            object.content,
            object.text,
            object.response,
            object.message,
            object.output,
            object.result,
        ];
        let text = direct
            .into_iter()
            .find_map(word)
            .or_else(|| text_of(object.content))
            .or_else(|| {
                message
                    .as_ref()
                    .and_then(|message| text_of(message.content).or_else(|| word(message.text)))
            });
        let failed =
            object.error.is_some_and(|error| error.get() != "false") && text.is_none() || is_true(object.is_error);
        let called = message.as_ref().is_some_and(|message| message.tool_calls.is_some());
        if text.is_none() && !failed && !called {
            return false;
        }
        let text = strip_owned(text.unwrap_or_default());
        if failed {
            let failure = match object.error {
                Some(error) if is_object(error) => failure_of(error.get()),
                error => failure_of(&word(error).unwrap_or(Cow::Borrowed(&text))),
            };
            self.end(object, None, Some(failure), fields, out);
            return true;
        }
        self.spoke = true;
        self.assembler.message(word(object.id).as_deref(), &text, out);
        if let Some(message) = &message {
            calls(message, fields, out);
        }
        let stop_reason = object.stop_reason.or(choice.and_then(|choice| choice.finish_reason));
        let outcome = Outcome {
            text: Some(text.into_owned()),
            stop_reason: fields.string("stop_reason", stop_reason),
            ..Outcome::default()
        };
        self.end(object, Some(outcome), None, fields, out);
        true
    }

    /// Reports an object's facts about the run besides its answer.
    fn end(
        &mut self,
        object: &GenericObject,
        outcome: Option<Outcome>,
        failure: Option<Failure>,
        fields: &mut Fields,
        out: &mut Out,
    ) {
        self.close(out);
        let outcome = Outcome {
            is_error: failure.is_some(),
            usage: read_usage(fields, object.usage),
            session_id: fields.string("session_id", object.session_id),
            model: fields.string("model", object.model),
            ..outcome.unwrap_or_default()
        };
        if let Some(usage) = outcome.usage.clone() {
            out.event(Event::Usage {
                usage,
                raw_stop_reason: outcome.stop_reason.clone(),
            });
        }
        if let Some(failure) = failure {
            out.event(Event::Failure(failure));
        }
        out.event(Event::Outcome(Box::new(outcome)));
    }
}

/// Reports the calls of a message, as OpenAI's API writes them.
fn calls(message: &GenericObject, fields: &mut Fields, out: &mut Out) {
    let calls: Vec<Call> = fields.read("tool_calls", message.tool_calls).unwrap_or_default();
    for Call { id, function } in calls {
        let Some(function) = function else { continue };
        let args = function.arguments.unwrap_or_default().0;
        let args = Some(args.trim()).filter(|args| !args.is_empty());
        let args = args.map(|args| serde_json::from_str::<&RawValue>(args).map_err(|_| args));
        let (id, name) = (
            id.unwrap_or_default().into_string(),
            function.name.unwrap_or_default().into_string(),
        );
        out.event(match args {
            None => tool_call(id, name, None),
            Some(Ok(args)) => tool_call(id, name, Some(args)),
            Some(Err(args)) => invalid_call(id, name, args, "arguments are not JSON"),
        });
    }
}

/// Content as text: a string, or the texts of an array of blocks.
fn text_of(content: Option<&RawValue>) -> Option<Cow<'_, str>> {
    match content {
        Some(content) if is_string(content) => word(Some(content)),
        Some(content) if is_array(content) => match serde_json::from_str(content.get()).ok()? {
            Content::Text(text) => Some(text),
            Content::Blocks(blocks) => {
                let texts: Vec<Cow<str>> = blocks.into_iter().filter_map(|block| Some(block.text?.0)).collect();
                (!texts.is_empty()).then(|| Cow::Owned(texts.concat()))
            }
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::decode::Wire;
    use crate::decode::tests::decode;

    /// The examples of CLI-ADAPTER-PROTOCOL decode on the wires that must understand them.
    #[test]
    fn the_documents_stream_examples() {
        for (lines, wires, want) in [
            (
                r#"{"type":"turn.started","id":"turn_123"}
                   {"type":"content","content":"Hello! "}
                   {"type":"content","content":"How can I help?"}
                   {"type":"turn.completed","usage":{"input_tokens":10,"output_tokens":8}}"#,
                &[Wire::GenericStream, Wire::ClaudeStream][..],
                &[
                    "text Hello! ",
                    "text How can I help?",
                    "message - Hello! How can I help?",
                    "usage 10 8",
                    "outcome -",
                ][..],
            ),
            (
                r#"{"type":"thread.started","thread_id":"thread_abc"}
                   {"type":"item.completed","item":{"type":"agent_message","text":"Here's my response."}}
                   {"type":"turn.completed"}"#,
                &[Wire::GenericStream, Wire::ClaudeStream, Wire::CodexJson],
                &[
                    "session thread_abc",
                    "text Here's my response.",
                    "message - Here's my response.",
                    "outcome Here's my response.",
                ],
            ),
            (
                r#"{"role":"user","content":"Hello"}
                   {"role":"assistant","content":"Hi there! How can I help?"}"#,
                &[Wire::GenericStream, Wire::ClaudeStream],
                &["text Hi there! How can I help?", "message - Hi there! How can I help?"],
            ),
        ] {
            for wire in wires {
                assert_eq!(decode(*wire, &[lines.as_bytes()]).0, want, "{wire:?}");
            }
        }
    }

    #[test]
    fn the_documents_order_of_content_fields() {
        for (json, want) in [
            (r#"{"text":"b","content":"a"}"#, "a"),
            (r#"{"response":"c","text":"b"}"#, "b"),
            (r#"{"result":"f","response":"c"}"#, "c"),
            (r#"{"output":"e","message":"d"}"#, "d"),
            (r#"{"output":"e","result":"f"}"#, "e"),
            (r#"{"type":"whatever","result":"f"}"#, "f"),
            (
                r#"{"content":[{"type":"text","text":"g"},{"type":"tool_use"},{"type":"text","text":"h"}]}"#,
                "gh",
            ),
            (r#"{"choices":[{"message":{"role":"assistant","content":"i"}}]}"#, "i"),
            (r#"{"message":{"content":"j","text":"k"}}"#, "j"),
            (r#"{"message":{"text":"k"}}"#, "k"),
            (r#"{"content":"\u001b[32ml\u001b[0m\ud800"}"#, "l\u{FFFD}"),
            (
                r#"{"messages":[{"role":"user","content":"x"},{"role":"assistant","content":"m"}]}"#,
                "m",
            ),
        ] {
            for text in [json.to_owned(), format!("starting\n{}\n", json.replace(':', ":\n  "))] {
                let (events, decoder) = decode(Wire::GenericJson, &[text.as_bytes()]);
                assert_eq!(
                    events[..2],
                    [format!("text {want}"), format!("message - {want}")],
                    "{text}"
                );
                assert!(decoder.saw_json() && decoder.plain_text().is_none());
            }
        }
    }

    #[test]
    fn untyped_answers_pretty_printed_where_lines_were_expected() {
        let (events, decoder) = decode(Wire::GenericStream, &[b"{\n  \"content\": \"hi\"\n}\n"]);
        assert_eq!(events, ["text hi", "message - hi", "outcome hi"]);
        assert_eq!(decoder.diagnostics(), [""; 0]);
    }

    #[test]
    fn objects_without_an_answer_are_no_answer() {
        for json in [
            r#"{"tool_calls":[{"name":"t","args":{}}]}"#,
            "{}",
            r#"{"content":7}"#,
            "[1, {\"a\": 2}]",
        ] {
            for wire in [
                Wire::GenericJson,
                Wire::GenericStream,
                Wire::ClaudeStream,
                Wire::ClaudeJson,
            ] {
                let (events, decoder) = decode(wire, &[json.as_bytes()]);
                assert_eq!(
                    (events, decoder.plain_text().as_deref()),
                    (vec![], Some(json)),
                    "{wire:?}"
                );
            }
        }
    }

    #[test]
    fn calls_results_and_figures_of_openai_shaped_messages() {
        let lines = r#"
            {"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"t","arguments":"{\"b\":1.0,\"a\":2}"}},
              {"id":"2","function":{"name":"u","arguments":"{oops"}},{"id":"3","function":{"name":"v"}}],"usage":{"prompt_tokens":3,"completion_tokens":4}}
            {"role":"tool","tool_call_id":"1","content":"ok"}"#;
        assert_eq!(
            decode(Wire::GenericStream, &[lines.replace("}},\n", "}},").as_bytes()]).0,
            [
                r#"call 1 t {"b":1.0,"a":2}"#,
                "invalid call {oops arguments are not JSON",
                "call 3 v {}",
                "usage 3 4",
                "result false ok"
            ]
        );
    }

    #[test]
    fn errors_are_failures() {
        for (json, want) in [
            (
                r#"{"error":{"message":"no","code":"insufficient_quota"}}"#,
                "failure insufficient_quota no",
            ),
            (r#"{"error":"no"}"#, "failure - no"),
            (r#"{"is_error":true,"result":"no"}"#, "failure - no"),
            (
                r#"{"type":"error","error":{"type":"overloaded_error","message":"no"}}"#,
                "failure overloaded_error no",
            ),
        ] {
            let (events, _) = decode(Wire::GenericJson, &[json.as_bytes()]);
            assert_eq!(
                events
                    .iter()
                    .filter(|event| event.starts_with("failure"))
                    .collect::<Vec<_>>(),
                [want],
                "{json}"
            );
            assert!(!events.iter().any(|event| event.starts_with("message")), "{json}");
        }
    }
}
