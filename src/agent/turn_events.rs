//! Translates the events of a provider's run into those of the agent's run.
//!
//! In: an event of a provider's run. Out: the events of the agent's run, if any. Calls, usage and the end are left out, because the agent's run
//! reports them itself, in an order that is the same for every provider.

use std::collections::HashMap;

use super::event::Kind;
use dfp_model::event::Event;
use dfp_model::message::{Content, InvalidToolCall, ToolCall};
use dfp_text::prompt::is_js_space;

/// The most characters of an unreadable call that are shown to the model.
const SHOWN: usize = 2000;

/// Calls that a provider answers itself: of its own tools, and of tools that don't exist. They are reported once they have their result, like
/// any other call. The executor has no part in them.
#[derive(Debug, Default)]
pub(super) struct OwnCalls {
    open: HashMap<String, ToolCall>,
}

impl OwnCalls {
    /// The events that the caller gets for `event`.
    pub fn kinds(&mut self, event: Event) -> Vec<Kind> {
        match event {
            Event::ToolCall { tool_call } => {
                self.open.insert(tool_call.id.clone(), tool_call);
                Vec::new()
            }
            Event::ToolResult {
                tool_call_id,
                content,
                is_error,
            } => {
                let Some(tool_call) = self.open.remove(&tool_call_id) else {
                    return Vec::new();
                };
                let name = tool_call.name.clone();
                let content = Content::Text(content);
                vec![
                    Kind::Event(Event::ToolCall { tool_call }),
                    Kind::ToolResult {
                        tool_call_id,
                        name,
                        content,
                        is_error,
                    },
                ]
            }
            other => passed_on(other).map(Kind::Event).into_iter().collect(),
        }
    }
}

/// The event as the run's caller gets it: without the id of the message in the model's API, which is the provider's own affair.
fn passed_on(event: Event) -> Option<Event> {
    match event {
        Event::TextDelta { text, .. } => Some(Event::TextDelta { message_id: None, text }),
        Event::Message { content, .. } => {
            let content = content.trim_matches(is_js_space);
            (!content.is_empty()).then(|| Event::Message {
                id: None,
                content: content.to_owned(),
            })
        }
        Event::RateLimit { .. } | Event::Retry { .. } | Event::Waiting { .. } | Event::Warning { .. } => Some(event),
        _ => None,
    }
}

/// The text that tells the model of a call that can't be read.
pub(super) fn unreadable(call: &InvalidToolCall) -> String {
    let of = call
        .name
        .as_ref()
        .map_or(String::new(), |name| format!(" of \"{name}\""));
    let shown = dfp_model::error::clip(&call.args, SHOWN);
    format!(
        "Your tool call{of} could not be read: {}. Nothing was run. You wrote:\n\n{shown}\n\nWrite the call again, as one \
         valid JSON object.",
        call.error
    )
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;
    use crate::event::AgentEvent;
    use dfp_model::event::EventKind;
    use dfp_model::message::Usage;

    fn call() -> ToolCall {
        ToolCall {
            name: "add".to_owned(),
            args: RawValue::from_string(r#"{"b": 1.50, "a":2}"#.to_owned()).unwrap(),
            id: "c1".to_owned(),
        }
    }

    /// The types of the events that the caller gets for `events`, and their names in logs.
    fn types_and_kinds(events: Vec<Event>) -> Vec<(String, Option<EventKind>)> {
        let mut own = OwnCalls::default();
        let kinds = events.into_iter().flat_map(|event| own.kinds(event));
        let written = kinds.map(|kind| {
            let named = kind.event_kind();
            let event = AgentEvent {
                kind,
                run_id: "r".to_owned(),
                agent: Some("a".to_owned()),
                parent_run_id: None,
            };
            (serde_json::to_string(&event).unwrap(), named)
        });
        written.collect()
    }

    /// The events as JSON, byte for byte as JavaScript and a run log get them.
    #[test]
    fn a_provider_s_events_become_an_agent_s() {
        let text = |message_id: Option<&str>, text: &str| Event::TextDelta {
            message_id: message_id.map(str::to_owned),
            text: text.to_owned(),
        };
        let message = |content: &str| Event::Message {
            id: Some("m1".to_owned()),
            content: content.to_owned(),
        };
        let whole_limit = Event::RateLimit {
            status: "allowed".to_owned(),
            resets_at: Some(7),
            limit_type: Some("five_hour".to_owned()),
            utilization: Some(0.5),
        };
        let bare_limit = Event::RateLimit {
            status: "rejected".to_owned(),
            resets_at: None,
            limit_type: None,
            utilization: None,
        };
        let retry = |max_attempts, http_status| Event::Retry {
            by: "cli",
            attempt: 1,
            max_attempts,
            delay_ms: 5,
            reason: "busy".to_owned(),
            http_status,
        };
        let waiting = Event::Waiting {
            until: 9,
            reason: "used up".to_owned(),
        };
        let warning = Event::Warning {
            code: "X".to_owned(),
            message: "\"x\"".to_owned(),
        };
        for (event, kind, expected) in [
            (
                text(Some("m1"), " hi\n"),
                EventKind::TextDelta,
                r#"{"type":"text_delta","text":" hi\n""#,
            ),
            (
                text(None, ""),
                EventKind::TextDelta,
                r#"{"type":"text_delta","text":"""#,
            ),
            (
                message("\u{feff} hi \n"),
                EventKind::Message,
                r#"{"type":"message","content":"hi""#,
            ),
            (
                whole_limit,
                EventKind::RateLimit,
                r#"{"type":"rate_limit","status":"allowed","resetsAt":7,"limitType":"five_hour","utilization":0.5"#,
            ),
            (
                bare_limit,
                EventKind::RateLimit,
                r#"{"type":"rate_limit","status":"rejected""#,
            ),
            (
                retry(Some(3), Some(529)),
                EventKind::Retry,
                r#"{"type":"retry","by":"cli","attempt":1,"maxAttempts":3,"delayMs":5,"reason":"busy","httpStatus":529"#,
            ),
            (
                retry(None, None),
                EventKind::Retry,
                r#"{"type":"retry","by":"cli","attempt":1,"delayMs":5,"reason":"busy""#,
            ),
            (
                waiting,
                EventKind::Waiting,
                r#"{"type":"waiting","until":9,"reason":"used up""#,
            ),
            (
                warning,
                EventKind::Warning,
                r#"{"type":"warning","code":"X","message":"\"x\"""#,
            ),
        ] {
            let expected = (format!(r#"{expected},"runId":"r","agent":"a"}}"#), Some(kind));
            assert_eq!(types_and_kinds(vec![event]), [expected]);
        }
    }

    #[test]
    fn a_call_that_the_provider_answers_is_told_of_with_its_result() {
        let result = || Event::ToolResult {
            tool_call_id: "c1".to_owned(),
            content: "[1]".to_owned(),
            is_error: false,
        };
        let expected = [
            (
                r#"{"type":"tool_call","toolCall":{"id":"c1","name":"add","args":{"b": 1.50, "a":2}},"runId":"r","agent":"a"}"#,
                EventKind::ToolCall,
            ),
            (
                r#"{"type":"tool_result","toolCallId":"c1","name":"add","content":"[1]","isError":false,"runId":"r","agent":"a"}"#,
                EventKind::ToolResult,
            ),
        ];
        let expected = expected.map(|(json, kind)| (json.to_owned(), Some(kind)));
        assert_eq!(
            types_and_kinds(vec![Event::ToolCall { tool_call: call() }, result()]),
            expected
        );
        // The result of an unknown call is dropped.
        assert_eq!(types_and_kinds(vec![result()]), []);
    }

    #[test]
    fn what_the_run_tells_itself_it_is_not_told_by_its_provider() {
        let usage = Event::Usage {
            usage: Usage::default(),
            raw_stop_reason: None,
        };
        let silent = Event::Message {
            id: None,
            content: " \n".to_owned(),
        };
        let thinking = Event::ThinkingDelta {
            message_id: None,
            text: "hm".to_owned(),
        };
        assert_eq!(types_and_kinds(vec![usage, silent, thinking, Event::Abandoned]), []);
    }
}
