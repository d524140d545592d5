//! Makes events of tool calls.

use serde_json::value::RawValue;

use super::json::is_object;
use dfp_model::event::Event;
use dfp_model::message::{InvalidToolCall, ToolCall};

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
