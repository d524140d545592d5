//! What the wire formats share: their names, the trait that each format's decoder implements, and what it writes to: [`Out`] takes
//! events for the caller, and oddities for the diagnostics ([`Notes`]).
//!
//! At the end of the file are the facts that most formats state, read in one way for all of them: token figures, an API's error, and a
//! tool call. The APIs behind the CLIs spell these things differently, and the CLIs pass some of that on. So each reader here knows all
//! the spellings, and no format's decoder has a reader of its own.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::json::{Count, Fields, is_object, is_string, word};
use super::lines::strip_ansi;
use dfp_model::error::clip;
use dfp_model::event::{Event, Failure};
use dfp_model::message::reasoning::ReasoningDetail;
use dfp_model::message::{InvalidToolCall, ToolCall, Usage};

/// The format in which a CLI writes its output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Wire {
    /// JSON lines of `claude --output-format stream-json` (2.1.197, 2.1.330).
    ClaudeStream,
    /// JSON lines of `qwen --output-format stream-json` (0.15.10, 0.24.4): claude's format, with differences in message ids and
    /// ends.
    QwenStream,
    /// `claude --output-format json`: one `result` object, or with `--verbose`, as with qwen, an array of all events.
    ClaudeJson,
    /// Plain text: all of standard output is the answer.
    Text,
    /// JSON lines of `codex exec --json` (0.169.0).
    CodexJson,
    /// JSON lines of `gemini --output-format stream-json` (0.61.0).
    GeminiStream,
    /// `gemini --output-format json`: one object.
    GeminiJson,
    /// JSON lines of `grok --output-format streaming-json` (1.0.41).
    GrokStream,
    /// JSON lines of `opencode run --format json` (1.18.34).
    OpencodeJson,
    /// JSON lines of `copilot --output-format json` (1.0.102).
    CopilotJson,
    /// The `stream-json` of CLI-ADAPTER-PROTOCOL, claude's included: for CLIs described by their user.
    GenericStream,
    /// The `json` of CLI-ADAPTER-PROTOCOL.
    GenericJson,
}

impl Wire {
    /// Returns whether a successful run always has an [`Event::Outcome`]. A sequence of message
    /// lines (`{"role": …}`) has no definite last one.
    pub fn tells_its_end(self) -> bool {
        !matches!(self, Wire::Text | Wire::GenericStream)
    }

    /// Returns whether an [`Event::Outcome`] is the last event of a run in this format: `result` of claude, qwen, gemini and copilot,
    /// `turn.completed` and `turn.failed` of codex, `step_finish` of opencode with a reason that ends a run, the one document of the
    /// `json` formats. With the others only the exit shows that no more comes.
    pub(super) fn has_last_event(self) -> bool {
        match self {
            Wire::ClaudeStream
            | Wire::QwenStream
            | Wire::ClaudeJson
            | Wire::CodexJson
            | Wire::GeminiStream
            | Wire::GeminiJson
            | Wire::GrokStream
            | Wire::OpencodeJson
            | Wire::CopilotJson => true,
            Wire::Text | Wire::GenericStream | Wire::GenericJson => false,
        }
    }

    /// Returns whether a run ends with an object that repeats the answer: as text, or as a value in its place.
    pub fn repeats_the_answer(self) -> bool {
        matches!(self, Wire::ClaudeStream | Wire::ClaudeJson)
    }

    /// Returns whether an answer by a schema is the answer's text, since the format has no other place for it.
    pub fn structures_in_text(self) -> bool {
        matches!(self, Wire::Text | Wire::CodexJson)
    }
}

/// The kind of one piece of output, as a format judged it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The piece is a line of the protocol.
    Event,
    /// The piece is a JSON object, but no line of the protocol.
    Foreign,
    /// The piece is not a JSON object.
    NotJson,
}

/// Shows the name alone: the addon need not hold the code that shows every implementor.
impl std::fmt::Debug for dyn Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Format")
    }
}

/// A wire format's decoder: a small state, and a pure function from one JSON object to events.
pub(super) trait Format: Send {
    /// Decodes the text of one JSON object (or of something that begins like one).
    fn object(&mut self, json: &str, out: &mut Out) -> Verdict;
    /// Ends the output and reports what is still open.
    fn finish(&mut self, out: &mut Out);
    /// From now on also reports the arguments of native calls piece by piece, if the format has them.
    fn tell_call_deltas(&mut self) {}
    /// From now on ends the turn with a response that has reached its limit of tokens, if the format shows that.
    fn end_at_limit(&mut self) {}
    /// The tools that the CLI offers its model, by its names, where it has said so since this was asked last.
    fn take_offered(&mut self) -> Option<Vec<String>> {
        None
    }
}

/// Decodes a line that names its kind in a field of its own: `read` gets that word, and fields that can't be read are noted.
pub(super) fn typed_line<'a, L: Deserialize<'a>>(
    json: &'a str,
    out: &mut Out,
    kind: impl FnOnce(&L) -> Option<&'a RawValue>,
    read: impl FnOnce(&str, &L, &mut Fields, &mut Out),
) -> Verdict {
    let Ok(line) = serde_json::from_str::<L>(json) else {
        return Verdict::NotJson;
    };
    let Some(kind) = word(kind(&line)) else {
        return Verdict::Foreign;
    };
    let mut fields = Fields::default();
    read(&kind, &line, &mut fields, out);
    if let Some(complaint) = fields.complaint() {
        out.note(&format!("{kind}: {complaint}"));
    }
    Verdict::Event
}

/// The number of diagnostics that are kept. Further ones are only counted.
pub const MAX_NOTES: usize = 50;

/// The number of characters of a line that a diagnostic shows.
const MAX_NOTE: usize = 300;

/// A line that could not be read, or not completely.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseError {
    /// The line's number, from 1.
    pub line: u64,
    /// The problem with the line.
    pub message: String,
}

/// The diagnostics of one output, limited in number and length.
#[derive(Debug, Default)]
pub struct Notes {
    texts: Vec<String>,
    parse_errors: Vec<ParseError>,
    /// The number of diagnostics beyond the kept ones.
    more: u64,
}

impl Notes {
    /// Adds a diagnostic: `what` is odd about the line, and the text it concerns.
    pub fn add(&mut self, line: Option<u64>, what: &str, text: &str) {
        if self.texts.len() >= MAX_NOTES {
            self.more += 1;
            self.texts.truncate(MAX_NOTES);
            self.texts.push(format!("and {} more", self.more));
            return;
        }
        let text = clip(text, MAX_NOTE);
        let message = match text.as_str() {
            "" => what.to_owned(),
            text => format!("{what}: {}", strip_ansi(text)),
        };
        self.texts.push(match line {
            Some(line) => format!("line {line}: {message}"),
            None => message.clone(),
        });
        if let Some(line) = line {
            self.parse_errors.push(ParseError { line, message });
        }
    }

    pub fn texts(&self) -> &[String] {
        &self.texts
    }

    pub fn parse_errors(&self) -> &[ParseError] {
        &self.parse_errors
    }
}

/// The receiver of a format's results while it decodes one line.
#[derive(Debug)]
pub struct Out<'a> {
    events: &'a mut Vec<Event>,
    notes: &'a mut Notes,
    line: Option<u64>,
}

impl<'a> Out<'a> {
    pub fn new(events: &'a mut Vec<Event>, notes: &'a mut Notes, line: Option<u64>) -> Self {
        Out { events, notes, line }
    }

    pub fn event(&mut self, event: Event) {
        self.events.push(event);
    }

    /// Reports a piece of reasoning, unless it is empty.
    pub fn thinking(&mut self, message_id: &Option<String>, text: Cow<'_, str>) {
        if !text.is_empty() {
            self.event(Event::ThinkingDelta {
                message_id: message_id.clone(),
                text: text.into_owned(),
            });
        }
    }

    /// Reports a whole block of reasoning of which no piece has come.
    pub fn thought(&mut self, message_id: &Option<String>, text: Cow<'_, str>) {
        let details = ReasoningDetail::text(&text, None);
        self.thinking(message_id, text);
        self.reasoning(details);
    }

    /// Reports that a block of reasoning is complete, unless it is empty.
    pub fn reasoning(&mut self, details: impl IntoIterator<Item = ReasoningDetail>) {
        let details: Vec<_> = details.into_iter().collect();
        if !details.is_empty() {
            self.event(Event::Reasoning { details });
        }
    }

    /// Reports a line of an unknown kind, unchanged.
    pub fn other(&mut self, kind: impl Into<String>, json: &str) {
        if let Ok(raw) = serde_json::from_str::<&RawValue>(json) {
            self.event(Event::Other {
                kind: kind.into(),
                raw: raw.to_owned(),
            });
        }
    }

    pub fn warning(&mut self, code: impl Into<String>, message: impl Into<String>) {
        self.event(Event::Warning {
            code: code.into(),
            message: message.into(),
        });
    }

    /// Adds a diagnostic about the current line.
    pub fn note(&mut self, what: &str) {
        self.notes.add(self.line, what, "");
    }
}

// Token figures.

#[derive(Debug, Default, Deserialize)]
struct UsageFigures {
    input_tokens: Option<Count>,
    prompt_tokens: Option<Count>,
    output_tokens: Option<Count>,
    completion_tokens: Option<Count>,
    total_tokens: Option<Count>,
    cache_read_input_tokens: Option<Count>,
    cache_creation_input_tokens: Option<Count>,
    cache_creation: Option<CacheCreation>,
    cached_input_tokens: Option<Count>,
    cache_write_input_tokens: Option<Count>,
    reasoning_output_tokens: Option<Count>,
    input_tokens_details: Option<Details>,
    prompt_tokens_details: Option<Details>,
    output_tokens_details: Option<Details>,
    completion_tokens_details: Option<Details>,
}

#[derive(Debug, Default, Clone, Copy, Deserialize)]
struct Details {
    cached_tokens: Option<Count>,
    thinking_tokens: Option<Count>,
    reasoning_tokens: Option<Count>,
}

/// Anthropic's figures of what was written into the cache, by how long it is kept (claude 2.1.197 and 2.1.332, as their API tells it).
#[derive(Debug, Default, Clone, Copy, Deserialize)]
struct CacheCreation {
    ephemeral_5m_input_tokens: Option<Count>,
    ephemeral_1h_input_tokens: Option<Count>,
}

/// Reads the figures in `raw`, if there are any.
pub fn read_usage(fields: &mut Fields, raw: Option<&RawValue>) -> Option<Usage> {
    let figures: UsageFigures = fields.read("usage", raw)?;
    let input_details = figures
        .input_tokens_details
        .or(figures.prompt_tokens_details)
        .unwrap_or_default();
    let output_details = figures
        .output_tokens_details
        .or(figures.completion_tokens_details)
        .unwrap_or_default();
    let written = figures.cache_creation.unwrap_or_default();
    // The CLI names both parts in each reply, mostly as 0.
    let some = |count: Option<Count>| count.map(|count| count.0).filter(|count| *count > 0);
    let input = figures.input_tokens.or(figures.prompt_tokens);
    let output = figures.output_tokens.or(figures.completion_tokens);
    if input.is_none() && output.is_none() {
        return None;
    }
    let count = |count: Option<Count>| count.unwrap_or_default().0;
    let (input, output) = (count(input), count(output));
    // Only a CLI that counts the cache as part of the input can give this sum.
    let cache_inside = figures.total_tokens == Some(Count(input.saturating_add(output)));
    let beside = count(figures.cache_read_input_tokens).saturating_add(count(figures.cache_creation_input_tokens));
    let input = if cache_inside {
        input
    } else {
        input.saturating_add(beside)
    };
    Some(Usage {
        input_tokens: input,
        output_tokens: output,
        total_tokens: input.saturating_add(output),
        cache_read_tokens: figures
            .cache_read_input_tokens
            .or(figures.cached_input_tokens)
            .or(input_details.cached_tokens)
            .map(|count| count.0),
        cache_write_tokens: figures
            .cache_creation_input_tokens
            .or(figures.cache_write_input_tokens)
            .map(|count| count.0),
        cache_write_5m_tokens: some(written.ephemeral_5m_input_tokens),
        cache_write_1h_tokens: some(written.ephemeral_1h_input_tokens),
        // Newer CLIs report 0 where older ones report nothing: both are read the same way.
        reasoning_tokens: some(
            figures
                .reasoning_output_tokens
                .or(output_details.thinking_tokens)
                .or(output_details.reasoning_tokens),
        ),
        estimated: false,
    })
}

// Failures: unwraps an API's error from what CLIs put around it: the API's own message, code and status.
//
// Only structured errors are read here (a JSON body, the bracket that gemini and qwen put around it). Prose is left to
// `classify`.

/// The text with which gemini 0.61.0 and qwen 0.15.10 begin an API's error.
pub(super) const API_ERROR: &str = "[API Error: ";

/// An error as the APIs spell it: Google's `status` and numeric `code`, OpenAI's `type` and `code`.
#[derive(Debug, Deserialize)]
struct ErrorBody<'a> {
    #[serde(borrow)]
    error: Option<&'a RawValue>,
    message: Option<&'a RawValue>,
    status: Option<&'a RawValue>,
    code: Option<&'a RawValue>,
    #[serde(rename = "type")]
    kind: Option<&'a RawValue>,
    details: Option<&'a RawValue>,
}

/// One of Google's `details`, whose reason is more precise than the status (`API_KEY_INVALID`).
#[derive(Debug, Deserialize)]
struct Detail<'a> {
    #[serde(borrow)]
    reason: Option<&'a RawValue>,
}

/// The failure that `text` describes: a JSON body, possibly in a bracket, or prose.
pub fn failure_of(text: &str) -> Failure {
    let text = strip_ansi(text);
    let (reason, rest) = unwrap_bracket(text.trim());
    let mut failure = read_body(reason).unwrap_or_else(|| Failure {
        message: reason.to_owned(),
        http_status: status(reason.split(' ').next().and_then(|first| first.parse().ok())),
        ..Failure::default()
    });
    if !rest.is_empty() {
        failure.message = format!("{}\n{rest}", failure.message);
    }
    failure
}

/// Splits `[API Error: reason]` from the text that follows on further lines.
fn unwrap_bracket(text: &str) -> (&str, &str) {
    let Some(inner) = text.strip_prefix(API_ERROR) else {
        return (text, "");
    };
    match inner.strip_suffix(']') {
        Some(reason) => (reason, ""),
        None => inner.split_once("]\n").unwrap_or((inner, "")),
    }
}

/// Reads an API's error body; `None` if `text` is not one.
fn read_body(text: &str) -> Option<Failure> {
    let body: ErrorBody = serde_json::from_str(text).ok()?;
    let body = match body.error {
        Some(error) if is_string(error) => {
            return Some(Failure {
                message: word(Some(error))?.into_owned(),
                ..Failure::default()
            });
        }
        Some(error) => serde_json::from_str(error.get()).ok()?,
        None => body,
    };
    let mut fields = Fields::default();
    let details: Vec<&RawValue> = fields.read("details", body.details).unwrap_or_default();
    let details = details
        .into_iter()
        .filter_map(|raw| serde_json::from_str::<Detail>(raw.get()).ok());
    let reasons: Vec<&RawValue> = details.filter_map(|detail| detail.reason).collect();
    let named = [body.code, body.status, body.kind];
    let named = named.into_iter().flatten().chain(reasons);
    let mut named = named.filter_map(|raw| word(Some(raw))).map(|kind| kind.into_owned());
    let numbers = [body.code, body.status].map(|field| fields.read::<Count>("status", field));
    Some(Failure {
        kind: named.next(),
        more_kinds: named.collect(),
        message: word(body.message)?.into_owned(),
        http_status: numbers
            .into_iter()
            .flatten()
            .find_map(|Count(number)| status(u16::try_from(number).ok())),
        ..Failure::default()
    })
}

/// Returns `number` if it is an HTTP status that means an error.
pub fn status(number: Option<u16>) -> Option<u16> {
    number.filter(|number| (400..600).contains(number))
}

/// The event for one tool call. Absent arguments count as an empty object; arguments that are not an object make the call an
/// invalid one.
pub fn tool_call(id: String, name: String, args: Option<&RawValue>) -> Event {
    let args = args.map_or("{}", RawValue::get);
    match RawValue::from_string(args.to_owned()) {
        Ok(args) if is_object(&args) => Event::ToolCall {
            tool_call: ToolCall { id, name, args },
        },
        _ => invalid_call(id, name, args, "arguments are not a JSON object"),
    }
}

/// The event for a call whose arguments can't be used.
pub fn invalid_call(id: String, name: String, args: &str, error: &str) -> Event {
    Event::InvalidToolCall {
        invalid_tool_call: InvalidToolCall {
            id: Some(id),
            name: Some(name),
            args: args.to_owned(),
            error: error.to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limited_in_number_and_length() {
        let mut notes = Notes::default();
        for line in 1..=60 {
            notes.add(Some(line), "odd", &"é".repeat(1000));
        }
        assert_eq!(notes.texts().len(), MAX_NOTES + 1);
        assert_eq!(notes.texts()[MAX_NOTES], "and 10 more");
        assert_eq!(notes.parse_errors().len(), MAX_NOTES);
        assert_eq!(notes.parse_errors()[49].line, 50);
        assert_eq!(notes.texts()[0], format!("line 1: odd: {}…", "é".repeat(MAX_NOTE - 1)));
    }

    fn usage(json: &str) -> Option<Usage> {
        let raw: &RawValue = serde_json::from_str(json).unwrap();
        read_usage(&mut Fields::default(), Some(raw))
    }

    fn expected(input: u64, output: u64, read: Option<u64>, write: Option<u64>, reasoning: Option<u64>) -> Usage {
        Usage {
            input_tokens: input,
            output_tokens: output,
            total_tokens: input + output,
            cache_read_tokens: read,
            cache_write_tokens: write,
            reasoning_tokens: reasoning,
            ..Usage::default()
        }
    }

    #[test]
    fn every_spelling() {
        for (json, want) in [
            (
                r#"{"input_tokens":11,"cache_creation_input_tokens":3,"cache_read_input_tokens":5,"output_tokens":7,
                    "output_tokens_details":{"thinking_tokens":2},"service_tier":"standard","iterations":[]}"#,
                expected(19, 7, Some(5), Some(3), Some(2)),
            ),
            (
                r#"{"input_tokens":41,"output_tokens":9,"cache_read_input_tokens":13,"total_tokens":50}"#,
                expected(41, 9, Some(13), None, None),
            ),
            (
                r#"{"input_tokens":21,"cached_input_tokens":6,"cache_write_input_tokens":0,"output_tokens":9,"reasoning_output_tokens":4}"#,
                expected(21, 9, Some(6), Some(0), Some(4)),
            ),
            (
                r#"{"prompt_tokens":10,"completion_tokens":4,"total_tokens":14,"prompt_tokens_details":{"cached_tokens":2},
                    "completion_tokens_details":{"reasoning_tokens":1}}"#,
                expected(10, 4, Some(2), None, Some(1)),
            ),
            (
                r#"{"input_tokens":10,"output_tokens":8}"#,
                expected(10, 8, None, None, None),
            ),
        ] {
            assert_eq!(usage(json), Some(want), "{json}");
        }
        let kept = r#"{"input_tokens":1,"output_tokens":2,"cache_creation_input_tokens":7,
            "cache_creation":{"ephemeral_5m_input_tokens":3,"ephemeral_1h_input_tokens":4}}"#;
        let split = Usage {
            cache_write_5m_tokens: Some(3),
            cache_write_1h_tokens: Some(4),
            ..expected(8, 2, None, Some(7), None)
        };
        assert_eq!(usage(kept), Some(split));
        let none = kept.replace(":3", ":0").replace(":4", ":0");
        assert_eq!(usage(&none), Some(expected(8, 2, None, Some(7), None)));
        assert_eq!(usage("{}"), None);
        assert_eq!(usage(r#"{"input_tokens":"many"}"#), None);
    }

    #[test]
    fn bodies_brackets_and_prose() {
        let failure = |kinds: &[&str], message: &str, http_status| Failure {
            kind: kinds.first().map(|kind| (*kind).to_owned()),
            more_kinds: kinds.iter().skip(1).map(|kind| (*kind).to_owned()).collect(),
            message: message.to_owned(),
            http_status,
            ..Failure::default()
        };
        for (text, want) in [
            (
                r#"[API Error: {"error":{"code":400,"message":"API key not valid.","status":"INVALID_ARGUMENT","details":[]}}]"#,
                failure(&["INVALID_ARGUMENT"], "API key not valid.", Some(400)),
            ),
            (
                r#"{"error": {"message": "Bad param", "type": "invalid_request_error", "code": "bad", "param": null}}"#,
                failure(&["bad", "invalid_request_error"], "Bad param", None),
            ),
            (
                r#"{"error":{"code":400,"message":"No.","status":"INVALID_ARGUMENT","details":[7,{"x":1},{"reason":"API_KEY_INVALID"}]}}"#,
                failure(&["INVALID_ARGUMENT", "API_KEY_INVALID"], "No.", Some(400)),
            ),
            (r#"{"error":"nope"}"#, failure(&[], "nope", None)),
            (
                "[API Error: 401 Incorrect API key]",
                failure(&[], "401 Incorrect API key", Some(401)),
            ),
            (
                "[API Error: daily quota]\nTry later",
                failure(&[], "daily quota\nTry later", None),
            ),
            ("line 500 is wrong", failure(&[], "line 500 is wrong", None)),
            ("{\"error\":{}}", failure(&[], "{\"error\":{}}", None)),
        ] {
            assert_eq!(failure_of(text), want, "{text}");
        }
    }
}
