//! Tells which turn an answer belongs to: the one that was asked for, or one that the CLI took by itself.
//!
//! In: user lines on their way to the CLI, and the lines that come back. Out: whether the turn that was asked for has begun; no
//! earlier line is its answer. A CLI that answers something else (a background task that has ended, a line twice) would otherwise
//! be one answer ahead for the rest of the session.
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

use serde::Deserialize;

use crate::live::process_turn::failed_turn;
use crate::random::uuid;
use dfp_model::event::{Event, Failure};

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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use dfp_text::decode::{Decoder, Wire};

    /// A user line of a new turn, and its id.
    fn begin(turns: &mut Turns) -> String {
        let line = turns.begin("{\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":\"hi\"}}\n");
        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(
            (&line["type"], &line["message"]),
            (&json!("user"), &json!({"role": "user", "content": "hi"}))
        );
        line["uuid"].as_str().unwrap().to_owned()
    }

    /// The indexes of the CLI's `lines` that belong to nobody.
    fn unasked(turns: &mut Turns, lines: &[serde_json::Value]) -> Vec<usize> {
        let mut decoder = Decoder::new(Wire::ClaudeStream);
        let mut found = Vec::new();
        for (at, line) in lines.iter().map(ToString::to_string).enumerate() {
            let mut events = Vec::new();
            decoder.push(format!("{line}\n").as_bytes(), &mut events);
            if turns.is_unasked(&line, &events) {
                found.push(at);
            }
        }
        found
    }

    fn lifecycle(id: &str, state: &str) -> serde_json::Value {
        json!({"type": "command_lifecycle", "command_uuid": id, "state": state})
    }

    fn init() -> serde_json::Value {
        json!({"type": "system", "subtype": "init", "session_id": "s", "model": "m"})
    }

    fn delta() -> serde_json::Value {
        json!({"type": "stream_event", "event": {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "O"}}})
    }

    fn result() -> serde_json::Value {
        json!({"type": "result", "subtype": "success", "is_error": false, "num_turns": 1, "result": "OK"})
    }

    #[test]
    fn an_answer_belongs_to_the_turn_that_has_begun() {
        let mut turns = Turns::default();
        begin(&mut turns);
        assert_eq!(unasked(&mut turns, &[init(), delta(), result()]), [0; 0]);
        turns.end();
        assert_eq!(unasked(&mut turns, &[init(), delta(), result()]), [1, 2]);
        begin(&mut turns);
        assert_eq!(unasked(&mut turns, &[delta(), result(), init(), result()]), [0, 1]);
    }

    #[test]
    fn where_the_cli_tells_of_its_lines_a_turn_of_its_own_is_nobodys() {
        let mut turns = Turns::default();
        let id = begin(&mut turns);
        let lines = [
            lifecycle(&id, "queued"),
            init(),
            delta(),
            result(),
            lifecycle("another", "started"),
            result(),
            lifecycle(&id, "started"),
            init(),
            delta(),
            result(),
        ];
        assert_eq!(unasked(&mut turns, &lines), [2, 3, 5]);
    }

    /// A turn of the CLI's own that ends, or begins, before the CLI has reported the line that it was sent.
    #[test]
    fn a_turn_before_the_line_is_queued_is_nobodys() {
        let mut turns = Turns::default();
        let id = begin(&mut turns);
        let queued = lifecycle(&id, "queued");
        let lines = [
            init(),
            queued.clone(),
            delta(),
            result(),
            lifecycle(&id, "started"),
            init(),
            result(),
        ];
        assert_eq!(unasked(&mut turns, &lines), [2, 3]);
        // A part of it was taken for the answer: that shows when the line is reported.
        let mut turns = Turns::default();
        begin(&mut turns);
        assert_eq!(unasked(&mut turns, &[init(), delta(), queued]), [2]);
        // From then on the CLI is known to report its lines.
        turns.end();
        let id = begin(&mut turns);
        let lines = [
            init(),
            delta(),
            result(),
            lifecycle(&id, "started"),
            init(),
            delta(),
            result(),
        ];
        assert_eq!(unasked(&mut turns, &lines), [1, 2]);
    }

    #[test]
    fn ids_are_random_uuids() {
        let ids: std::collections::HashSet<String> = (0..1_000).map(|_| uuid()).collect();
        assert_eq!(ids.len(), 1_000);
        for id in ids {
            let shape: String = id.chars().map(|c| if c == '-' { '-' } else { 'x' }).collect();
            assert_eq!(shape, "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx");
            assert!(id[14..15] == *"4" && "89ab".contains(&id[19..20]), "{id}");
        }
    }
}
