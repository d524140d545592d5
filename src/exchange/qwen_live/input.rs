//! What a turn of a qwen session begins with.
//!
//! In: a [`SessionThread`], and what a session knows of it. Out: an [`Input`] for the session that goes on, or a [`FirstInput`] for a new one.

use super::chat::{Chat, LONGEST_RESULTS, length_of, text_of};
use crate::declare::mcp::Declarations;
use crate::exchange::form::WhyAnew;
use crate::exchange::live::thread::{KnownThread, SessionThread};
use crate::message::{Message, Role, ToolResult};
use crate::prompt::{self, Encoding, Style};
use crate::provider::Guard;

/// Of a longer result that is given to a running process, the CLI shows its model a preview of 2.4 KB (0.24.4), characters.
pub const LONGEST_RESULT: usize = 25_000;

/// What a turn begins with.
#[derive(Debug, Clone)]
pub enum Input {
    /// The user says this.
    User(String),
    /// The results of all calls that the session waits for, by the API's ids of the calls.
    Results(Vec<(String, ToolResult)>),
    /// The thread that the process has read ends with results: the model goes on.
    GoOn,
}

/// How a new process begins.
#[derive(Debug, Clone)]
pub struct FirstInput {
    /// The thread it reads first.
    pub chat: Option<Chat>,
    /// What comes behind it.
    pub input: Input,
}

/// What is new in `thread` to a session that knows `known`. `note` is said behind it; `guard` keeps the user's text from being a command
/// of the CLI's.
///
/// # Errors
/// [`WhyAnew`]: a new process is needed.
pub fn addition(
    thread: &SessionThread,
    known: &KnownThread,
    guard: Option<Guard>,
    note: Option<&str>,
) -> Result<Input, WhyAnew> {
    let new = thread.continuation(known).ok_or(WhyAnew::OtherThread)?;
    if new.results.is_empty() {
        return match new.rest {
            [message] if message.role == Role::Human => Ok(Input::User(of_user(message, guard, note))),
            _ => Err(WhyAnew::OtherThread),
        };
    }
    // What the user says beside results would be sent behind the model's answer to them.
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
    Ok(Input::Results(results.collect()))
}

/// How a process that knows nothing begins with all of `thread`. `id`: 128 random bits.
pub fn opening(
    thread: &SessionThread,
    tools: &Declarations,
    encoding: Encoding,
    guard: Option<Guard>,
    note: Option<&str>,
    id: u128,
) -> FirstInput {
    let chat = |messages: &[Message]| (!messages.is_empty()).then(|| Chat::new(id, messages.to_vec(), tools.clone()));
    let (last, before) = match thread.messages() {
        [before @ .., last] => (last, before),
        [] => {
            return FirstInput {
                chat: None,
                input: Input::User(note.unwrap_or_default().to_owned()),
            };
        }
    };
    match (&last.role, note) {
        (Role::Human, note) => FirstInput {
            chat: chat(before),
            input: Input::User(of_user(last, guard, note)),
        },
        (_, Some(note)) => FirstInput {
            chat: chat(thread.messages()),
            input: Input::User(note.to_owned()),
        },
        (Role::Tool, None) => FirstInput {
            chat: chat(thread.messages()),
            input: Input::GoOn,
        },
        // The CLI asks no model about a thread that the model ended: it reads the thread as text.
        _ => FirstInput {
            chat: None,
            input: Input::User(
                prompt::render(
                    thread.messages(),
                    &[],
                    Style {
                        encoding,
                        ..Style::default()
                    },
                )
                .text,
            ),
        },
    }
}

/// What the user says in `message`, and `note` behind it.
fn of_user(message: &Message, guard: Option<Guard>, note: Option<&str>) -> String {
    let text = text_of(message);
    let text = match guard {
        Some(guard) if text.starts_with(guard.first) => format!("{}{text}", guard.prefix),
        _ => text,
    };
    match note {
        Some(note) => format!("{text}\n\n{note}"),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::qwen::QWEN;

    /// 0.24.4 carries `/clear` out, and writes a file for `/export html`; behind a line's end it sends both.
    #[test]
    fn what_the_user_says_is_no_command() {
        let said = |text: &str| Message::new(Role::Human, text);
        let of = |text: &str, note| of_user(&said(text), QWEN.guard, note);
        assert_eq!(of("/clear", None), "\n/clear");
        assert_eq!(of("/export html", Some("in JSON")), "\n/export html\n\nin JSON");
        assert_eq!(of(" /help", None), " /help");
        assert_eq!(of("1/2", None), "1/2");
    }
}
