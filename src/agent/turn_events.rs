//! What a provider reports of its turn, as an agent's run reports it.
//!
//! In: an event of a provider's run. Out: the event of the agent's run, if it is one: calls, usage and the end are reported by
//! the run itself, in an order that is the same for every provider.

use std::collections::HashMap;

use super::event::Kind;
use crate::event::Event;
use crate::message::{Content, InvalidToolCall, ToolCall};
use crate::prompt::is_js_space;

/// How much of a call that can't be read the model is shown, characters.
const SHOWN: usize = 2000;

/// Calls that a provider answers itself: of tools it has of its own, and of tools that there are not. They are
/// reported once they have their result, like any other; the executor has no part in them.
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
                    Kind::ToolCall { tool_call },
                    Kind::ToolResult {
                        tool_call_id,
                        name,
                        content,
                        is_error,
                    },
                ]
            }
            other => kind(other).into_iter().collect(),
        }
    }
}

fn kind(event: Event) -> Option<Kind> {
    match event {
        Event::TextDelta { text, .. } => Some(Kind::TextDelta { text }),
        Event::Message { content, .. } => {
            let content = content.trim_matches(is_js_space);
            (!content.is_empty()).then(|| Kind::Message {
                content: content.to_owned(),
            })
        }
        Event::RateLimit {
            status,
            resets_at,
            limit_type,
            utilization,
        } => Some(Kind::RateLimit {
            status,
            resets_at,
            limit_type,
            utilization,
        }),
        Event::Retry {
            by,
            attempt,
            max_attempts,
            delay_ms,
            reason,
            http_status,
        } => Some(Kind::Retry {
            by,
            attempt,
            max_attempts,
            delay_ms,
            reason,
            http_status,
        }),
        Event::Waiting { until, reason } => Some(Kind::Waiting { until, reason }),
        Event::Warning { code, message } => Some(Kind::Warning { code, message }),
        _ => None,
    }
}

/// What the model gets to read about something that was meant as a call.
pub(super) fn unreadable(call: &InvalidToolCall) -> String {
    let of = call
        .name
        .as_ref()
        .map_or(String::new(), |name| format!(" of \"{name}\""));
    let shown = crate::error::clip(&call.args, SHOWN);
    format!(
        "Your tool call{of} could not be read: {}. Nothing was run. You wrote:\n\n{shown}\n\nWrite the call again, as one \
         valid JSON object.",
        call.error
    )
}
