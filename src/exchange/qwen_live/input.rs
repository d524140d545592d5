//! The lines that a qwen session is sent, and the input with which a turn begins.
//!
//! In: a [`SessionThread`], and the part of it that a session knows. Out: an [`QwenInput`] for a session that continues, or a
//! [`FirstInput`] for a new one.
//!
//! Requests and answers of the session's own have the form of claude's control lines ([`crate::control`]). Every line is written by serde:
//! a line that is not an object kills the CLI (recording `session-malformed-line`).

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::chat::{Chat, LONGEST_RESULTS, length_of, text_of};
use crate::form::WhyAnew;
use crate::live::thread::{KnownThread, SessionThread};
use dfp_model::message::{Message, Role, ToolResult};
use dfp_provider::callbacks::{CALL_LIMIT_MS, Callbacks};
use dfp_provider::declare::mcp::{Declarations, SERVER};
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

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
}
