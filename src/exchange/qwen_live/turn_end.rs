//! The end of a turn of a qwen session: its events, and its usage.
//!
//! In: the known facts of the model's message. Out: the events with which a turn ends whose model has made calls. The CLI does not report
//! that end, since it waits for the results.
//!
//! In: the figures of each message of the model's, and the CLI's sum over all turns. Out: the figures of one turn.

use serde::Deserialize;
use serde_json::value::RawValue;

use dfp_model::event::{Event, Outcome};
use dfp_model::message::Usage;
use dfp_text::decode::facts::read_usage;
use dfp_text::decode::json::Fields;

/// The tokens that the model has read and written.
#[derive(Debug, Default)]
pub(super) struct QwenTokens {
    /// The usage reported for all turns so far: the CLI tells the sum.
    reported: Usage,
    /// The usage of the message that is being received.
    message: Option<Usage>,
}

impl QwenTokens {
    /// Reads the usage in the line `line` of the CLI's output, if it is about one of the model's messages.
    pub fn note(&mut self, line: &str) {
        #[derive(Deserialize)]
        struct QwenLine<'a> {
            #[serde(borrow)]
            message: Option<QwenMessage<'a>>,
        }
        #[derive(Deserialize)]
        struct QwenMessage<'a> {
            #[serde(borrow)]
            usage: Option<&'a RawValue>,
        }
        if !line.starts_with("{\"type\":\"assistant\"") {
            return;
        }
        let message = serde_json::from_str::<QwenLine>(line)
            .ok()
            .and_then(|line| line.message);
        let usage = message.and_then(|message| read_usage(&mut Fields::default(), message.usage));
        // A message may come in several lines, of which one has the figures.
        if let Some(usage) = usage.filter(|usage| usage.total_tokens > 0) {
            self.message = Some(usage);
        }
    }

    /// The usage of a turn that ends with a message with calls.
    pub fn of_message(&mut self) -> Option<Usage> {
        let usage = self.message.take()?;
        self.reported.add(&usage);
        Some(usage)
    }

    /// The usage of a turn at whose end the CLI reports `total`.
    pub fn of_turn(&mut self, total: &Usage) -> Usage {
        let turn = self.left(total);
        self.reported = total.clone();
        self.message = None;
        turn
    }

    /// The turn's own part of `total`, without counting it as reported.
    pub fn left(&self, total: &Usage) -> Usage {
        let before = &self.reported;
        let less = |all: u64, before: u64| all.saturating_sub(before);
        let less_of = |all: Option<u64>, before: Option<u64>| all.map(|all| less(all, before.unwrap_or_default()));
        Usage {
            input_tokens: less(total.input_tokens, before.input_tokens),
            output_tokens: less(total.output_tokens, before.output_tokens),
            total_tokens: less(total.total_tokens, before.total_tokens),
            cache_read_tokens: less_of(total.cache_read_tokens, before.cache_read_tokens),
            cache_write_tokens: less_of(total.cache_write_tokens, before.cache_write_tokens),
            reasoning_tokens: less_of(total.reasoning_tokens, before.reasoning_tokens),
            estimated: total.estimated,
            ..Usage::default()
        }
    }
}

/// The session and the model, as the CLI has named them.
#[derive(Debug, Default)]
pub(super) struct Names {
    pub session_id: Option<String>,
    pub model: Option<String>,
    pub permission_mode: Option<String>,
    pub version: Option<String>,
}

impl Names {
    /// The `session` event with which each turn of this session begins.
    pub fn session_event(&self) -> Event {
        Event::Session {
            session_id: self.session_id.clone(),
            model: self.model.clone(),
            permission_mode: self.permission_mode.clone(),
            version: self.version.clone(),
        }
    }
}

/// The events at the end of the turn, in the CLI's place.
pub(super) fn end_events(usage: Option<Usage>, names: &Names) -> impl Iterator<Item = Event> {
    let stop_reason = Some("tool_use".to_owned());
    let tokens = usage.clone().map(|usage| Event::Usage {
        usage,
        raw_stop_reason: stop_reason.clone(),
    });
    let outcome = Event::Outcome(Box::new(Outcome {
        subtype: Some("success".to_owned()),
        is_error: false,
        stop_reason,
        num_turns: Some(1),
        usage,
        session_id: names.session_id.clone(),
        model: names.model.clone(),
        ..Outcome::default()
    }));
    tokens.into_iter().chain([outcome])
}

/// The warning that the model has also called the tool `name`, which does not exist.
pub(super) fn unknown_tool(name: &str) -> Event {
    Event::Warning {
        code: "UNKNOWN_TOOL".to_owned(),
        message: format!(
            "the model also called {name:?}, which is no tool: the CLI tells it so with the results of the others"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(input: u64, output: u64) -> Usage {
        Usage {
            input_tokens: input,
            output_tokens: output,
            total_tokens: input + output,
            ..Usage::default()
        }
    }

    #[test]
    fn a_turn_takes_what_the_sum_has_grown_by() {
        let mut tokens = QwenTokens::default();
        tokens.note(
            r#"{"type":"assistant","message":{"usage":{"input_tokens":20,"output_tokens":7,"total_tokens":27}}}"#,
        );
        tokens.note(r#"{"type":"assistant","message":{"usage":{"input_tokens":0,"output_tokens":0}}}"#);
        assert_eq!(tokens.of_message(), Some(usage(20, 7)));
        assert_eq!(tokens.of_message(), None);
        assert_eq!(tokens.left(&usage(50, 16)), usage(30, 9));
        assert_eq!(tokens.of_turn(&usage(50, 16)), usage(30, 9));
        assert_eq!(tokens.of_turn(&usage(60, 17)), usage(10, 1));
    }
}
