//! The input of a qwen session: the lines that it is sent, and the chat file from which a new one reads its thread.
//!
//! In: a [`SessionThread`], and the part of it that a session knows. Out: an [`QwenInput`] for a session that continues, or a
//! [`FirstInput`] for a new one.
//!
//! Requests and answers of the session's own have the form of claude's control lines ([`crate::stream_json`]). Every line is written by
//! serde: a line that is not an object kills the CLI (recording `session-malformed-line`).
//!
//! A [`Chat`] is a thread as qwen keeps it: the file that `--resume` reads (0.24.4; its vendor does not promise the format). In: messages,
//! and the names by which the CLI knows the tools. Out: JSON lines, and the place where the CLI looks for them.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::calls::is_reused;
use crate::form::WhyAnew;
use crate::live::history::failed;
use crate::live::thread::{KnownThread, SessionThread};
use dfp_model::message::content::{self, Part};
use dfp_model::message::{Content, Message, Role, ToolResult};
use dfp_provider::declare::mcp::{CALL_LIMIT_MS, Callbacks, Declarations, SERVER};
use dfp_text::prompt::{self, Encoding, Style};

/// The longest result for a running process, in characters: of a longer one, the CLI shows its model a preview of 2.4 KB
/// (0.24.4).
const LONGEST_RESULT: usize = 25_000;

/// The sign of a reference: in a user's text to a running process, the CLI replaces `@name` by a file, a session or a server, and
/// puts a space before a name that it does not find: `a@b.c` becomes `a @b.c` (0.24.4).
const REFERENCE: char = '@';
/// The sign at the beginning of a text that the CLI carries out as a command.
const COMMAND: char = '/';

/// The input with which a turn begins.
#[derive(Debug, Clone)]
pub enum QwenInput {
    /// The user's text, without anything that the CLI would not send as it is.
    User(String),
    /// The results of all calls that the session waits for, by the API's ids of the calls.
    Results(Vec<(String, ToolResult)>),
    /// The thread that the process has read must be answered: it ends with results, or with the user's text.
    GoOn,
}

/// The input with which a new process begins.
#[derive(Debug, Clone)]
pub struct FirstInput {
    /// The thread that it reads first.
    pub chat: Option<Chat>,
    /// The input after that thread.
    pub input: QwenInput,
}

/// The new part of `thread` for a session that knows `known`, with `note` after it.
///
/// # Errors
/// [`WhyAnew`]: a new process is needed.
pub fn addition(thread: &SessionThread, known: &KnownThread, note: Option<&str>) -> Result<QwenInput, WhyAnew> {
    let new = thread.continuation(known).ok_or(WhyAnew::OtherThread)?;
    if new.results.is_empty() {
        return match new.rest {
            [message] if message.role == Role::Human => match of_user(message, note) {
                text if is_sent_as_it_is(&text) => Ok(QwenInput::User(text)),
                _ => Err(WhyAnew::OtherThread),
            },
            _ => Err(WhyAnew::OtherThread),
        };
    }
    // A user's text beside results would be sent only after the model's answer to them.
    if !new.rest.is_empty() || note.is_some() {
        return Err(WhyAnew::OtherThread);
    }
    let lengths = || new.results.iter().map(|(_, result)| length_of(result));
    let too_long = lengths().find(|length| *length > LONGEST_RESULT);
    if let Some(length) = too_long.or(Some(lengths().sum()).filter(|all| *all > LONGEST_RESULTS)) {
        return Err(WhyAnew::LongResults {
            length,
            longest: LONGEST_RESULT,
        });
    }
    let results = new.results.iter().map(|(call, result)| {
        let of = ToolResult {
            content: result.content.clone(),
            is_error: result.is_error,
        };
        (call.api.clone(), of)
    });
    Ok(QwenInput::Results(results.collect()))
}

/// The input with which a process that knows nothing begins: the whole `thread`. `id`: 128 random bits.
pub fn opening(
    thread: &SessionThread,
    tools: &Declarations,
    encoding: Encoding,
    note: Option<&str>,
    id: u128,
) -> FirstInput {
    let chat = |messages: Vec<Message>| (!messages.is_empty()).then(|| Chat::new(id, messages, tools.clone()));
    // The CLI sends a text in a chat as it is.
    let said = |before: &[Message], text: String| match is_sent_as_it_is(&text) {
        true => FirstInput {
            chat: chat(before.to_vec()),
            input: QwenInput::User(text),
        },
        false => FirstInput {
            chat: chat([before, &[Message::new(Role::Human, text)]].concat()),
            input: QwenInput::GoOn,
        },
    };
    let (last, before) = match thread.messages() {
        [before @ .., last] => (last, before),
        [] => return said(&[], note.unwrap_or_default().to_owned()),
    };
    match (&last.role, note) {
        (Role::Human, note) => said(before, of_user(last, note)),
        (_, Some(note)) => said(thread.messages(), note.to_owned()),
        (Role::Tool, None) => FirstInput {
            chat: chat(thread.messages().to_vec()),
            input: QwenInput::GoOn,
        },
        // The CLI asks no model about a thread that the model ended: it gets the thread as text.
        _ => {
            let style = Style {
                encoding,
                ..Style::default()
            };
            said(&[], prompt::render(thread.messages(), &[], style).text)
        }
    }
}

/// The user's text in `message`, with `note` after it.
fn of_user(message: &Message, note: Option<&str>) -> String {
    let text = text_of(message);
    match note {
        Some(note) => format!("{text}\n\n{note}"),
        None => text,
    }
}

/// Returns whether a running process sends `text` byte for byte.
fn is_sent_as_it_is(text: &str) -> bool {
    !text.starts_with(COMMAND) && !text.contains(REFERENCE)
}

fn line(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_else(|_| "{}".to_owned()) + "\n"
}

fn request(request_id: &str, request: &Value) -> String {
    line(&json!({"type": "control_request", "request_id": request_id, "request": request}))
}

/// The first line of a session: it tells where the tools are.
pub fn initialize(request_id: &str, tools: Option<&Callbacks>) -> String {
    let mut servers = Map::new();
    if let Some(bridge) = tools {
        // A trusted server's tools run without permission: the caller decides which calls run.
        let server =
            json!({"httpUrl": bridge.url, "headers": bridge.headers(), "timeout": CALL_LIMIT_MS, "trust": true});
        servers.insert(SERVER.to_owned(), server);
    }
    request(request_id, &json!({"subtype": "initialize", "mcpServers": servers}))
}

/// The request to stop the turn.
pub fn interrupt(request_id: &str) -> String {
    request(request_id, &json!({"subtype": "interrupt"}))
}

/// The request to let the model continue after a thread that ends with the results of its calls.
pub fn go_on(request_id: &str) -> String {
    request(request_id, &json!({"subtype": "continue_last_turn"}))
}

/// The line with a text of the user's.
pub fn user(text: &str) -> String {
    line(
        &json!({"type": "user", "message": {"role": "user", "content": text}, "session_id": "", "parent_tool_use_id": null}),
    )
}

/// The longest sum of results, in characters, with which the CLI lets the model continue in full: of more, it sends only 200,000
/// characters (0.24.4). Some are left for the words of an error.
const LONGEST_RESULTS: usize = 199_000;

/// A thread for a process to begin with.
#[derive(Debug, Clone)]
pub struct Chat {
    /// The session's id, a UUID.
    pub id: String,
    messages: Vec<Message>,
    tools: Declarations,
    /// True if its calls get ids of ours: the CLI knows calls and results by their ids, so of two with one id it would lose one.
    renames: bool,
    /// The index of the first message whose results are put where the CLI does not count their characters.
    whole_from: usize,
}

impl Chat {
    /// Makes the file of `messages`, whose calls are of `tools`; `id` is 128 random bits.
    pub fn new(id: u128, messages: Vec<Message>, tools: Declarations) -> Chat {
        // Version 4, variant 1: the CLI takes no other names.
        let bits = id & !(0xf << 76) & !(0x3 << 62) | (0x4 << 76) | (0x2 << 62);
        let hex = format!("{bits:032x}");
        let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
        Chat {
            id: parts.join("-"),
            renames: reuses_ids(&messages),
            whole_from: whole_from(&messages),
            messages,
            tools,
        }
    }

    /// The place where the CLI looks for the file when it runs in `cwd`, a real path; relative to the folder in which it keeps
    /// its data.
    pub fn place(&self, cwd: &Path) -> PathBuf {
        let cwd = cwd.to_string_lossy();
        let cwd = if cfg!(windows) {
            cwd.to_lowercase()
        } else {
            cwd.into_owned()
        };
        let replaced = |char: char| if char.is_ascii_alphanumeric() { char } else { '-' };
        // JavaScript counts a character beyond the first plane as two.
        let name: String = cwd
            .chars()
            .flat_map(|char| std::iter::repeat_n(replaced(char), char.len_utf16()))
            .collect();
        let file = format!("{}.jsonl", self.id);
        ["projects", &name, "chats", &file].iter().collect()
    }

    /// The lines of the file, for a CLI that runs in `cwd`.
    pub fn lines(&self, cwd: &Path) -> String {
        let mut lines = String::new();
        let mut before = Value::Null;
        for (at, message) in self.messages.iter().enumerate() {
            let (kind, role, parts) = match message.role {
                Role::Ai => ("assistant", "model", self.said(at, message)),
                Role::Tool => ("tool_result", "user", vec![self.result(at, message)]),
                _ => ("user", "user", vec![json!({"text": text_of(message)})]),
            };
            if parts.is_empty() {
                continue;
            }
            let id = format!("00000000-0000-4000-8000-{at:012x}");
            let line = json!({
                "uuid": id, "parentUuid": before, "sessionId": self.id, "timestamp": "2026-01-01T00:00:00.000Z",
                "cwd": cwd.to_string_lossy(), "version": "0.24.4", "type": kind, "message": {"role": role, "parts": parts},
            });
            lines.push_str(&line.to_string());
            lines.push('\n');
            before = Value::from(id);
        }
        lines
    }

    fn said(&self, at: usize, message: &Message) -> Vec<Value> {
        let text = text_of(message);
        let text = (!text.is_empty()).then(|| json!({"text": text}));
        let calls = message.tool_calls.iter().map(|call| {
            let args: Value = serde_json::from_str(call.args.get()).unwrap_or_default();
            json!({"functionCall": {"id": self.call_id(at, &call.id), "name": self.name(&call.name), "args": args}})
        });
        text.into_iter().chain(calls).collect()
    }

    /// The result at the index `at`, for the last call before it that has its id.
    fn result(&self, at: usize, message: &Message) -> Value {
        let before = self.messages[..at].iter().enumerate().rev();
        let mut calls = before.flat_map(|(at, message)| message.tool_calls.iter().map(move |call| (at, call)));
        let call = calls.find(|(_, call)| call.id == message.tool_call_id);
        let name = call.map_or_else(|| "unknown".to_owned(), |(_, call)| self.name(&call.name));
        let id = call.map_or_else(|| message.tool_call_id.clone(), |(at, call)| self.call_id(at, &call.id));
        let text = match message.is_error {
            true => failed(text_of(message)),
            false => text_of(message),
        };
        // The model sees only the text, wherever it is.
        match at >= self.whole_from {
            true => {
                json!({"functionResponse": {"id": id, "name": name, "response": {"output": ""}, "parts": [{"text": text}]}})
            }
            false => {
                let key = if message.is_error { "error" } else { "output" };
                json!({"functionResponse": {"id": id, "name": name, "response": {key: text}}})
            }
        }
    }

    /// The id of the call `id` of the message at the index `at`.
    fn call_id(&self, at: usize, id: &str) -> String {
        match self.renames {
            true => format!("{id}__df_{at}"),
            false => id.to_owned(),
        }
    }

    /// The name by which the CLI knows the caller's tool `name`.
    fn name(&self, name: &str) -> String {
        let declared = self.tools.tools().iter();
        let mut own = declared.filter(|tool| self.tools.known(&tool.name) == Some(name));
        own.next()
            .map_or_else(|| name.to_owned(), |tool| format!("mcp__{SERVER}__{}", tool.name))
    }
}

/// Returns whether the calls' ids come from an API that numbers them anew in each answer. The next id may then be one of these
/// again.
fn reuses_ids(messages: &[Message]) -> bool {
    let mut ids = HashSet::new();
    let mut calls = messages.iter().flat_map(|message| &message.tool_calls);
    calls.any(|call| is_reused(&call.id) || !ids.insert(call.id.as_str()))
}

/// The length of a message's text, in UTF-16 units, as JavaScript counts.
fn length_of(message: &Message) -> usize {
    text_of(message).encode_utf16().count()
}

/// The index from which results of `messages` are put where the CLI does not count their characters: the results with which the
/// model continues.
fn whole_from(messages: &[Message]) -> usize {
    let last = messages.iter().rev().take_while(|message| message.role == Role::Tool);
    let (count, chars) = last.fold((0, 0), |(count, chars), message| {
        (count + 1, chars + length_of(message))
    });
    match chars > LONGEST_RESULTS {
        true => messages.len() - count,
        false => messages.len(),
    }
}

/// A message's text.
fn text_of(message: &Message) -> String {
    match &message.content {
        Content::Text(text) => text.clone(),
        Content::Blocks(raw) => {
            let parts = content::parts(raw, &message.role).into_iter();
            let texts = parts.filter_map(|part| match part {
                Part::Text(text) => Some(text.to_string()),
                _ => None,
            });
            texts.collect::<Vec<_>>().join("\n")
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::value::RawValue;

    use super::*;
    use dfp_model::message::{MessageFields, ToolCall};

    /// 0.24.4 carries `/clear` out, and reads the file that an `@` names.
    #[test]
    fn what_means_something_to_the_cli_stands_in_the_chat() {
        let opening = |text: &str, note| {
            let thread = SessionThread::new(vec![Message::new(Role::Human, text)]);
            opening(&thread, &Declarations::default(), Encoding::Xml, note, 0)
        };
        for (text, note) in [("/clear", None), ("see @/etc/hostname", None), ("hi", Some("as @type"))] {
            let FirstInput { chat, input } = opening(text, note);
            let lines = chat.unwrap().lines(std::path::Path::new("/"));
            let line: serde_json::Value = serde_json::from_str(&lines).unwrap();
            let said = [Some(text), note]
                .into_iter()
                .flatten()
                .collect::<Vec<_>>()
                .join("\n\n");
            assert_eq!(line["message"]["parts"], serde_json::json!([{"text": said}]));
            assert!(matches!(input, QwenInput::GoOn));
        }
        for text in [" /help", "1/2", "!ls"] {
            let FirstInput { chat, input } = opening(text, None);
            assert!(chat.is_none() && matches!(input, QwenInput::User(sent) if sent == text));
        }
    }

    /// The recording's lines, except for its ids.
    #[test]
    fn lines_are_those_of_the_recordings() {
        let recordings = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../__tests__/fixtures/recordings/qwen-0.24.4");
        let recorded = std::fs::read_to_string(recordings.join("session-interrupt-stream.stdin")).unwrap();
        let mut recorded: Vec<Value> = recorded
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        for line in recorded.iter_mut().filter(|line| line["type"] == "user") {
            line["session_id"] = json!("");
        }
        let tools = Callbacks {
            url: "http://127.0.0.1:PORT/mcp".to_owned(),
            token: "tok".to_owned(),
        };
        let ours = [
            initialize("r1", Some(&tools)),
            user("long"),
            interrupt("r2"),
            user("go on"),
        ];
        for (line, recorded) in ours.iter().zip(recorded) {
            assert!(line.ends_with('\n') && line.matches('\n').count() == 1, "{line}");
            assert_eq!(serde_json::from_str::<Value>(line).unwrap(), recorded);
        }
        assert_eq!(user("a\nb\u{2028}").matches('\n').count(), 1);
    }

    fn calling(id: &str) -> Message {
        let call = ToolCall {
            id: id.to_owned(),
            name: "add.it".to_owned(),
            args: RawValue::from_string(r#"{"a":1}"#.to_owned()).unwrap(),
        };
        Message::from(MessageFields {
            tool_calls: vec![call],
            ..MessageFields::new(Role::Ai, "")
        })
    }

    fn result(id: &str, text: &str) -> Message {
        Message::from(MessageFields {
            tool_call_id: id.to_owned(),
            ..MessageFields::new(Role::Tool, text)
        })
    }

    /// The parts of a thread of calls and results.
    fn parts(messages: Vec<Message>) -> Vec<Value> {
        let chat = Chat::new(1, messages, Declarations::default());
        let lines = chat.lines(Path::new("/"));
        let parts = lines.lines().map(|line| {
            let line: Value = serde_json::from_str(line).unwrap();
            line["message"]["parts"][0].clone()
        });
        parts.collect()
    }

    #[test]
    fn calls_with_one_id_and_their_results_are_told_apart() {
        let thread = vec![calling("c"), result("c", "one"), calling("c"), result("c", "two")];
        let ids: Vec<(Value, Value)> = parts(thread)
            .iter()
            .map(|part| match &part["functionCall"] {
                Value::Null => (
                    part["functionResponse"]["id"].clone(),
                    part["functionResponse"]["response"]["output"].clone(),
                ),
                call => (call["id"].clone(), Value::Null),
            })
            .collect();
        assert_eq!(
            json!(ids),
            json!([
                ["c__df_0", null],
                ["c__df_0", "one"],
                ["c__df_2", null],
                ["c__df_2", "two"]
            ])
        );
    }

    #[test]
    fn results_that_the_cli_would_shorten_stand_where_it_does_not_count() {
        let long = "x".repeat(LONGEST_RESULTS + 1);
        let thread = || vec![calling("c"), result("c", &long)];
        assert_eq!(
            parts(thread())[1]["functionResponse"],
            json!({"id": "c", "name": "add.it", "response": {"output": ""}, "parts": [{"text": long}]})
        );
        // After it, the model continues with something else.
        let before = parts([thread(), vec![Message::new(Role::Ai, "ok")]].concat());
        assert_eq!(before[1]["functionResponse"]["response"], json!({"output": long}));
    }

    #[test]
    fn a_thread_is_kept_as_the_cli_keeps_it() {
        let tools = serde_json::from_str::<Vec<_>>(r#"[{"name":"add.it","schema":{"type":"object"}}]"#).unwrap();
        let declarations = Declarations::new(&tools);
        let wire_name = format!("mcp__df__{}", declarations.tools()[0].name);
        let failed = Message::from(MessageFields {
            is_error: true,
            ..MessageFields::clone(&result("c1", "no"))
        });
        let messages = vec![
            Message::new(Role::Human, "hi"),
            calling("c1"),
            failed,
            Message::new(Role::Ai, "sorry"),
        ];
        let chat = Chat::new(u128::MAX, messages, declarations);
        assert_eq!(chat.id, "ffffffff-ffff-4fff-bfff-ffffffffffff");
        let folder = Path::new("/tmp/a.b/🦀");
        assert_eq!(
            chat.place(folder),
            Path::new("projects/-tmp-a-b---/chats/ffffffff-ffff-4fff-bfff-ffffffffffff.jsonl")
        );
        let lines: Vec<Value> = chat
            .lines(folder)
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let said: Vec<(&Value, &Value)> = lines.iter().map(|line| (&line["type"], &line["message"])).collect();
        assert_eq!(
            json!(said),
            json!([
                ["user", {"role": "user", "parts": [{"text": "hi"}]}],
                ["assistant", {"role": "model", "parts": [{"functionCall": {"id": "c1", "name": wire_name, "args": {"a": 1}}}]}],
                ["tool_result", {"role": "user", "parts": [
                    {"functionResponse": {"id": "c1", "name": wire_name, "response": {"error": "Error: no"}}}]}],
                ["assistant", {"role": "model", "parts": [{"text": "sorry"}]}],
            ])
        );
        assert_eq!(lines[0]["parentUuid"], Value::Null);
        assert_eq!(lines[3]["parentUuid"], lines[2]["uuid"]);
    }
}
