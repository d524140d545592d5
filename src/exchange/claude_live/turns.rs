//! A turn of a claude session: the user lines that begin it, whether an answer is its own, and how much of its input was in the cache.
//!
//! In: a [`SessionThread`]. Out: the user line with the whole thread, or only with the part that is new to a session which
//! [knows](KnownThread) its beginning.
//!
//! [`Turns`] tells which turn an answer belongs to: the one that was asked for, or one that the CLI took by itself. In: user lines on their
//! way to the CLI, and the lines that come back. Out: whether the turn that was asked for has begun; no earlier line is its answer. A CLI
//! that answers something else (a background task that has ended, a line twice) would otherwise be one answer ahead for the rest of the
//! session.
//!
//! | the CLI says, in this order | 2.1.197 | 2.1.330 |
//! | --- | --- | --- |
//! | `command_lifecycle` `queued`, with the user line's `uuid` | no | yes |
//! | `command_lifecycle` `started`, with it: the turn begins | no | yes |
//! | `system/init`: a turn begins; nobody knows whose | yes | yes |
//! | `result` | yes | yes |
//!
//! So in a CLI that has reported any user line, only `started` counts. A CLI that reports none may take a turn of its own before
//! ours, and both have their `init`: then nobody can know which is which.
//!
//! The echo of `--replay-user-messages` would tell no more: neither version echoes a line of tool results, and 2.1.197 echoes
//! after the answer's beginning.
//!
//! [`CacheWatch`] finds an answer that found much less in the prompt cache than the answer before it had left there. Then the CLI is asked
//! for the reason, and [`cause_of_miss`] reads it. The answer waits for it, but not for long: a CLI that hangs holds back no reply. The
//! cause is shown, and nothing depends on it. `get_session_cost` takes 1 to 4 ms and asks no API (2.1.332). 2.1.197 answers with costs
//! alone: then there is no cause.

#[cfg(test)]
mod tests;

use std::time::Duration;

use serde::Deserialize;
use tokio::time::Instant;

use super::dialogue::NotNative;
use super::transcript::Transcript;
use crate::live::session::failed_turn;
use crate::live::thread::{KnownThread, SessionThread};
use crate::random::uuid;
use crate::stream_json as line;
use crate::stream_json::Block;
use dfp_model::event::{Event, Failure};
use dfp_provider::Guard;
use dfp_text::prompt::{self, Encoding, Style};
use dfp_text::redact::one_line;

/// The kind of failure, in the error rules, of output that is not what the protocol requires.
const MALFORMED: &str = "malformed_response";

/// The turn in progress, if any.
#[derive(Debug, Default)]
pub struct Turns {
    current: Option<ClaudeTurn>,
    /// True if the CLI reports user lines: then it will report the beginning of a turn.
    tells_of_lines: bool,
}

#[derive(Debug)]
struct ClaudeTurn {
    /// The id of its user line.
    id: String,
    beginning: TurnBeginning,
    /// True if a part of an answer was taken for its own.
    is_answered: bool,
}

/// The knowledge of a turn's beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TurnBeginning {
    Unseen,
    /// A turn has begun; nobody knows whose.
    Init,
    /// The CLI has reported that it begins with this turn's line.
    Started,
}

impl Turns {
    /// Adds an id to `user`, the line of a new turn, so that the CLI can report the line.
    pub fn begin(&mut self, user: &str) -> String {
        // A line whose id the CLI has seen before counts as the same line, and is not answered (2.1.197, 2.1.330).
        let id = uuid();
        let line = match user.strip_prefix('{') {
            Some(rest) => format!("{{\"uuid\":\"{id}\",{rest}"),
            None => user.to_owned(),
        };
        self.current = Some(ClaudeTurn {
            id,
            beginning: TurnBeginning::Unseen,
            is_answered: false,
        });
        line
    }

    /// Returns whether the CLI reports user lines.
    pub fn tells_of_lines(&self) -> bool {
        self.tells_of_lines
    }

    /// Notes that the turn has its result.
    pub fn end(&mut self) {
        self.current = None;
    }

    /// Returns whether `events`, the meaning of the CLI's `line`, belong to nobody: an answer to something that was not asked.
    pub fn is_unasked(&mut self, line: &str, events: &[Event]) -> bool {
        let told = lifecycle(line);
        self.tells_of_lines |= told.is_some();
        let is_answer = events.iter().any(is_answer);
        let Some(turn) = &mut self.current else {
            return is_answer;
        };
        if self.tells_of_lines && turn.beginning == TurnBeginning::Init {
            // That turn was another's, and so was its answer.
            turn.beginning = TurnBeginning::Unseen;
            if turn.is_answered {
                return true;
            }
        }
        if told.is_some_and(|told| told.command_uuid == turn.id && told.state == "started") {
            turn.beginning = TurnBeginning::Started;
        }
        let is_init = events.iter().any(|event| matches!(event, Event::Session { .. }));
        if is_init && !self.tells_of_lines && turn.beginning == TurnBeginning::Unseen {
            turn.beginning = TurnBeginning::Init;
        }
        turn.is_answered |= is_answer;
        turn.beginning == TurnBeginning::Unseen && is_answer
    }
}

/// The CLI's report on a user line.
#[derive(Deserialize)]
struct Lifecycle {
    r#type: String,
    #[serde(default)]
    command_uuid: String,
    #[serde(default)]
    state: String,
}

fn lifecycle(line: &str) -> Option<Lifecycle> {
    // Most lines are pieces of an answer: they are spared the parsing.
    if !line.contains("\"command_lifecycle\"") {
        return None;
    }
    let told: Lifecycle = serde_json::from_str(line).ok()?;
    (told.r#type == "command_lifecycle").then_some(told)
}

/// Returns whether `event` is a part of a turn's answer.
fn is_answer(event: &Event) -> bool {
    matches!(
        event,
        Event::TextDelta { .. }
            | Event::ThinkingDelta { .. }
            | Event::Message { .. }
            | Event::Reasoning { .. }
            | Event::ToolCallDelta { .. }
            | Event::ToolCall { .. }
            | Event::InvalidToolCall { .. }
            | Event::Answer { .. }
            | Event::Abandoned
            | Event::Usage { .. }
            | Event::Failure(_)
            | Event::Outcome(_)
    )
}

/// The events of a turn that fails because the output is not its answer. Nobody knows any more whose answers the session gives:
/// it ends with the turn.
pub fn unasked() -> [Event; 2] {
    failed_turn(Failure::named(
        MALFORMED,
        "the CLI has answered something else than this call",
    ))
}

/// The text before a thread that is sent whole.
const WHOLE_XML: &str = "This is the conversation so far as <thread> XML, with one <event> per message, tool call and tool \
result, in order. Reply with the assistant's next message only; write no XML.\n\n";
const WHOLE_TEXT: &str = "This is the conversation so far as labelled text. Reply with the assistant's next message only; \
write no label.\n\n";

impl SessionThread {
    /// The user line that sends the whole thread to a session that knows nothing, with `note` after it, which is no part of the
    /// thread.
    pub fn whole(&self, encoding: Encoding, guard: Option<Guard>, note: Option<&str>) -> String {
        if let Some(mut blocks) = line::of_humans(self.messages().iter(), guard) {
            blocks.extend(note.map(Block::text));
            return line::user(&blocks);
        }
        let before = match encoding {
            Encoding::Xml => WHOLE_XML,
            Encoding::Text => WHOLE_TEXT,
        };
        let style = Style {
            encoding,
            ..Style::default()
        };
        let rendered = prompt::render(self.messages(), &[], style);
        let blocks = line::of_rendered(before, &rendered);
        line::user(&blocks.into_iter().chain(note.map(Block::text)).collect::<Vec<_>>())
    }

    /// The user line that sends the new part to a session which knows `known`: the results of all pending calls, in the order of
    /// the calls, and then the user's messages. `None` if this is not that session's thread, or can't continue there: a call
    /// without its result, a message that is neither a result nor the user's. `note` comes last, as in [`SessionThread::whole`].
    pub fn addition(&self, known: &KnownThread, guard: Option<Guard>, note: Option<&str>) -> Option<ClaudeInput> {
        let new = self.continuation(known)?;
        let results = new.results.iter().map(|(call, result)| line::result(&call.api, result));
        let mut blocks: Vec<Block> = results.collect();
        if !new.rest.is_empty() {
            blocks.extend(line::of_humans(new.rest.iter(), guard)?);
        }
        if blocks.is_empty() {
            return None;
        }
        blocks.extend(note.map(Block::text));
        Some(ClaudeInput {
            goes_on: blocks.len() == new.results.len(),
            ..ClaudeInput::line(line::user(&blocks))
        })
    }
}

/// A user line, and the transcript that the process has to know before it, if there is one.
#[derive(Debug)]
pub struct ClaudeInput {
    /// The user line.
    pub line: String,
    /// The lines of the transcript, and the call in which it ends.
    pub transcript: Option<Transcript>,
    /// The reason for which the thread is told in words, if it could have been told natively otherwise.
    pub not_native: Option<NotNative>,
    /// True for results alone, for a process that waits for them: its turn goes on.
    pub goes_on: bool,
}

impl ClaudeInput {
    /// A user line for a process that knows what comes before it, or to which it tells everything.
    pub fn line(line: String) -> ClaudeInput {
        ClaudeInput {
            line,
            transcript: None,
            not_native: None,
            goes_on: false,
        }
    }
}

/// The time for which an answer waits for the cause.
const LIMIT: Duration = Duration::from_millis(500);

/// The least tokens in the cache whose loss counts: the vendor's API caches no shorter beginnings for most models.
const LEAST: u64 = 1024;

/// The beginning of the line about the prompt cache (2.1.330, 2.1.332).
const LINE: &str = "Prompt cache";

/// The prompt cache of a session, as far as its answers tell of it.
#[derive(Debug, Default)]
pub struct CacheWatch {
    /// The tokens that the last answer has left in the cache.
    cached: u64,
    held: Option<Held>,
}

/// The last events of a turn, which wait for the cause.
#[derive(Debug)]
struct Held {
    events: Vec<Event>,
    until: Instant,
}

impl CacheWatch {
    /// Takes note of the last `events` of a turn of so many `requests`; returns whether the CLI is to be asked: less than half of what was
    /// cached was found. The usage of several requests is a sum, which doesn't tell how much is cached.
    pub fn asks(&mut self, events: &[Event], requests: usize) -> bool {
        let usage = events.iter().find_map(|event| match event {
            Event::Outcome(outcome) if !outcome.is_error => outcome.usage.as_ref(),
            _ => None,
        });
        let Some(usage) = usage else { return false };
        if requests > 1 {
            self.cached = 0;
            return false;
        }
        let (read, written) = (
            usage.cache_read_tokens.unwrap_or_default(),
            usage.cache_write_tokens.unwrap_or_default(),
        );
        let before = std::mem::replace(&mut self.cached, read.saturating_add(written));
        before >= LEAST && read < before / 2
    }

    /// Holds the last events of a turn back until the CLI has answered.
    pub fn hold(&mut self, events: Vec<Event>) {
        let until = Instant::now() + LIMIT;
        self.held = Some(Held { events, until });
    }

    /// The time by which the events go out in any case; `None` if none are held.
    pub fn until(&self) -> Option<Instant> {
        self.held.as_ref().map(|held| held.until)
    }

    /// Moves the events that were held to `events`, with the `cause`; returns whether there were any.
    pub fn release(&mut self, cause: Option<String>, events: &mut Vec<Event>) -> bool {
        let Some(mut held) = self.held.take() else { return false };
        for event in &mut held.events {
            if let Event::Outcome(outcome) = event {
                outcome.cache_miss.clone_from(&cause);
            }
        }
        events.append(&mut held.events);
        true
    }
}

/// The line about the prompt cache in `answer`, the JSON with which the CLI has answered, fit to be shown.
pub fn cause_of_miss(answer: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct SessionCost {
        text: String,
    }
    let cost: SessionCost = serde_json::from_str(answer).ok()?;
    let lines = cost.text.lines().map(str::trim).filter(|line| line.starts_with(LINE));
    let line = one_line(&lines.collect::<Vec<_>>().join(" "));
    (!line.is_empty()).then_some(line)
}
