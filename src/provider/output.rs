//! Reads a CLI's standard output without running the CLI.
//!
//! In: the text of a standard output, its format and, if known, its provider. Out: [`Parsed`], with the same answer that a run
//! would have had, or the reason why there is none. Nothing here fails, whatever the text is (INV-CLI-PARSE-001).

use std::collections::HashSet;

use serde::Serialize;

use crate::Provider;
use crate::classify::{FailureFacts, classify};
use crate::judge::text_answer;
use crate::options::OutputFormat;
use dfp_model::error::{Category, Code};
use dfp_model::event::{AssistantMessage, Event, Failure, Outcome};
use dfp_model::message::{ToolCall, Usage};
use dfp_text::decode::{Decoder, Plain, Wire, plain};
use dfp_text::fold::{Fold, Folded};
use dfp_text::redact::{Channel, Redactor};
use dfp_text::toolcall::TextCalls;

/// The content of a standard output.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Parsed {
    /// The answer: the last message's text, without tool calls.
    pub content: String,
    /// All messages, in order.
    pub messages: Vec<AssistantMessage>,
    /// Calls of the caller's tools.
    pub tool_calls: Vec<ToolCall>,
    /// Token usage, if the output has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// The model, if the output names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The session, if the output names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// True if the output reports a failure.
    pub is_error: bool,
    /// The failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ParsedError>,
    /// The oddities of the output.
    pub diagnostics: Vec<String>,
    /// The lines that could not be read, with the reasons.
    pub parse_errors: Vec<LineError>,
}

/// The failure that an output reports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ParsedError {
    pub category: Category,
    /// The stable code.
    pub code: Code,
    /// The reason, in the provider's words.
    pub message: String,
    /// The remedy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// True if the same provider may be called again.
    pub should_retry: bool,
    /// True if another provider may succeed.
    pub should_fallback: bool,
    /// The time to wait before trying again, ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// When a limit ends, ms since the epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resets_at: Option<u64>,
    /// The HTTP status of the API's answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http_status: Option<u16>,
}

/// A line that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LineError {
    /// The line's number, from 1.
    pub line: u64,
    /// The problem with the line.
    pub message: String,
}

/// Reads `stdout`, printed by `provider` as `format`. `provider` is an id; an unknown one, or none, means the formats of
/// CLI-ADAPTER-PROTOCOL. Relative times count from `now_ms`, ms since the epoch.
pub fn parse(stdout: &str, format: OutputFormat, provider: Option<&str>, now_ms: u64) -> Parsed {
    let known = provider.and_then(crate::find);
    let wire = wire(known, format);
    let fatal_stdout = known.map_or(&[][..], |provider| provider.fatal_stdout);
    let mut decoder = Decoder::new(wire);
    let mut fold = Fold::new(HashSet::new(), TextCalls::Lenient);
    let (mut decoded, mut public) = (Vec::new(), Vec::new());
    decoder.push(stdout.as_bytes(), &mut decoded);
    decoder.finish(&mut decoded);
    if let Some(text) = decoder.plain_text() {
        match plain(wire, &text) {
            Plain::Text if text_answer(wire, fatal_stdout, &text).is_none() => {
                let message = text;
                decoded.push(Event::Failure(Failure {
                    message,
                    ..Failure::default()
                }));
            }
            Plain::Text => {
                let content = text.trim_end().to_owned();
                decoded.push(Event::Message { id: None, content });
            }
            Plain::Json(Some(failure)) => decoded.push(Event::Failure(*failure)),
            Plain::Json(None) => decoded.push(malformed("the output is JSON, and no answer")),
            Plain::Cut => decoded.push(malformed("the output ends before its result: it was cut short")),
        }
    }
    for event in decoded {
        fold.push(event, &mut public);
        public.clear();
    }
    let folded = fold.finish(&mut public);
    let error = failure(&folded, provider.unwrap_or_default(), now_ms);
    let Folded { reply, usage, .. } = folded;
    Parsed {
        content: reply.content,
        messages: reply.messages,
        tool_calls: reply.tool_calls,
        usage,
        model: reply.model,
        session_id: reply.session_id,
        is_error: error.is_some(),
        error,
        diagnostics: decoder.diagnostics().to_vec(),
        parse_errors: decoder
            .parse_errors()
            .iter()
            .map(|error| LineError {
                line: error.line,
                message: error.message.clone(),
            })
            .collect(),
    }
}

fn malformed(reason: &str) -> Event {
    Event::Failure(Failure {
        kind: Some("malformed_response".to_owned()),
        message: reason.to_owned(),
        ..Failure::default()
    })
}

/// The provider's own wire for `format`; a provider with only one JSON format uses that for both JSON names.
fn wire(provider: Option<&Provider>, format: OutputFormat) -> Wire {
    let wires = provider.map_or(&[][..], |provider| provider.wires);
    let own = wires.iter().find(|(of, _)| *of == format);
    let own = own.or_else(|| {
        wires
            .first()
            .filter(|_| wires.len() == 1 && format != OutputFormat::Text)
    });
    own.map_or(
        match format {
            OutputFormat::Text => Wire::Text,
            OutputFormat::Json => Wire::GenericJson,
            OutputFormat::StreamJson => Wire::GenericStream,
        },
        |(_, wire)| *wire,
    )
}

/// The failure that the output reports, classified; `None` if it reports none.
fn failure(folded: &Folded, provider: &str, now_ms: u64) -> Option<ParsedError> {
    let bad = |outcome: &Outcome| {
        outcome.is_error
            || outcome.num_turns == Some(0)
            || outcome.subtype.as_deref().is_some_and(|subtype| subtype != "success")
    };
    if folded.failure.is_none() && !folded.outcome.as_ref().is_some_and(bad) {
        return None;
    }
    let found = classify(&FailureFacts {
        provider,
        failure: folded.failure.as_ref(),
        outcome: folded.outcome.as_ref(),
        resets_at: folded.limit_resets_at,
        now_ms,
        ..FailureFacts::default()
    });
    Some(ParsedError {
        category: found.category,
        code: found.code,
        message: Redactor::default().redact(Channel::Error, &found.reason).into_owned(),
        hint: found.hint,
        should_retry: found.category.should_retry(),
        should_fallback: found.category.should_fallback(),
        retry_after_ms: found.retry_after_ms,
        resets_at: found.resets_at,
        http_status: found.http_status,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FORMATS: [OutputFormat; 3] = [OutputFormat::Text, OutputFormat::Json, OutputFormat::StreamJson];

    fn recording(name: &str) -> String {
        let path = format!(
            "{}/../../__tests__/fixtures/recordings/{name}.stdout",
            env!("CARGO_MANIFEST_DIR")
        );
        std::fs::read_to_string(path).unwrap()
    }

    fn stream(name: &str, provider: &str) -> Parsed {
        parse(&recording(name), OutputFormat::StreamJson, Some(provider), 0)
    }

    /// INV-CLI-PARSE-002, tested on real output of the CLIs.
    #[test]
    fn every_cli_s_answer_is_found() {
        for (name, provider, content) in [
            ("claude/success-stream-json", "claude", "Hello from the mock model."),
            ("codex/success-json-stdin", "codex", "Hello from the mock."),
            ("gemini/success-stream-json", "gemini", "Hello from the mock."),
            ("qwen/success-stream-json", "qwen", "Hello from the mock."),
            ("opencode/success-stdin", "opencode", "Hello from the mock model."),
        ] {
            let parsed = stream(name, provider);
            assert_eq!((parsed.content.as_str(), parsed.error), (content, None), "{name}");
            assert!(parsed.usage.is_some(), "{name}");
        }
        let codex = parse(
            &recording("codex/success-json-stdin"),
            OutputFormat::Json,
            Some("codex"),
            0,
        );
        assert_eq!(codex.content, "Hello from the mock.", "codex has one JSON format");
    }

    /// The document's own examples, read without a provider.
    #[test]
    fn the_documents_examples() {
        for (format, stdout, content) in [
            (
                OutputFormat::Text,
                "Hello! I'm an AI assistant.\n",
                "Hello! I'm an AI assistant.",
            ),
            (
                OutputFormat::Json,
                r#"{"content": "Hello! How can I help you?"}"#,
                "Hello! How can I help you?",
            ),
            (
                OutputFormat::StreamJson,
                "{\"type\":\"turn.started\",\"id\":\"turn_123\"}\n{\"type\":\"content\",\"content\":\"Hello! \"}\n\
                 {\"type\":\"content\",\"content\":\"How can I help?\"}\n",
                "Hello! How can I help?",
            ),
            (
                OutputFormat::StreamJson,
                "{\"role\":\"user\",\"content\":\"Hello\"}\n{\"role\":\"assistant\",\"content\":\"Hi there!\"}\n",
                "Hi there!",
            ),
        ] {
            assert_eq!(parse(stdout, format, None, 0).content.trim(), content);
        }
    }

    /// INV-CLI-PARSE-003.
    #[test]
    fn a_failure_is_an_error_and_never_content() {
        for (name, provider, code) in [
            ("codex/err-401-json", "codex", Code::InvalidApiKey),
            ("gemini/err-429-quota-stream-json", "gemini", Code::QuotaExceeded),
            ("qwen/err-401-stream-json", "qwen", Code::InvalidApiKey),
            ("opencode/err-401", "opencode", Code::InvalidApiKey),
            ("claude/err-529-stream-json", "claude", Code::Overloaded),
        ] {
            let parsed = stream(name, provider);
            let error = parsed.error.unwrap();
            assert!(
                parsed.is_error && parsed.content.is_empty(),
                "{name}: {}",
                parsed.content
            );
            assert_eq!(error.code, code, "{name}: {}", error.message);
        }
    }

    /// Pieces of real output in the wrong places, as a cut pipe or two CLIs in one log produce them.
    fn foreign() -> impl Strategy<Value = String> {
        let pieces = [
            recording("claude/success-stream-json"),
            recording("codex/err-401-json"),
            recording("gemini/success-stream-json"),
            recording("opencode/success-stdin"),
            "\x1b[31m{\"content\":\"x\"}\x1b[0m\n".to_owned(),
            "{\"role\":\"assistant\",\"content\":[{\"text\":1}]}\n".to_owned(),
        ];
        let cut = (0..pieces.len(), 0_usize..4000, 0_usize..4000).prop_map(move |(piece, from, length)| {
            pieces[piece].chars().skip(from % 500).take(length).collect::<String>()
        });
        prop_oneof![
            any::<String>(),
            prop::collection::vec(prop_oneof![cut, ".*"], 0..4).prop_map(|all| all.concat())
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(96))]

        /// INV-CLI-PARSE-001: any input gives a sensible result.
        #[test]
        fn never_fails(text in foreign(), format in 0_usize..3, who in 0_usize..8) {
            let id = crate::ALL.get(who).map(|provider| provider.id.to_string());
            let parsed = parse(&text, FORMATS[format], id.as_deref(), 0);
            prop_assert_eq!(parsed.is_error, parsed.error.is_some());
            prop_assert!(parsed.diagnostics.len() <= 51);
            prop_assert!(serde_json::to_string(&parsed).is_ok());
        }

        /// INV-CLI-PARSE-002: a text that is a JSON string's value is returned unchanged.
        #[test]
        fn json_gives_its_text_back(text in "[a-zA-Z0-9 .,äöü]{1,80}") {
            let json = serde_json::json!({"content": text}).to_string();
            let parsed = parse(&json, OutputFormat::Json, None, 0);
            prop_assert_eq!(parsed.content.trim(), text.trim());
        }

        /// INV-CLI-PARSE-003: an error event always gives a classified error, with a reason.
        #[test]
        fn every_failure_has_a_code_and_a_reason(reason in ".{0,200}") {
            let line = serde_json::json!({"type": "turn.failed", "error": {"message": reason}}).to_string();
            let error = parse(&line, OutputFormat::StreamJson, Some("codex"), 0).error;
            prop_assert!(error.is_some_and(|error| !error.message.is_empty() && error.hint.is_some()));
        }

        /// INV-CLI-PARSE-004: no escape sequence is left in an answer.
        #[test]
        fn no_escape_sequence_survives(parts in prop::collection::vec("[a-z]{1,8}", 1..6), colour in 30_u8..48) {
            let coloured: String = parts.iter().map(|part| format!("\x1b[{colour};1m{part}\x1b[0m ")).collect();
            let parsed = parse(&coloured, OutputFormat::Text, None, 0);
            prop_assert_eq!(parsed.content.trim(), parts.join(" "));
        }
    }
}
