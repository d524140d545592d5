//! The lines that a qwen session is sent. Its own requests and answers have the form of claude's control lines
//! ([`crate::control`]).
//!
//! Every line is written by serde: a line that is not an object kills the CLI (recording `session-malformed-line`).

use serde::Serialize;
use serde_json::{Map, Value, json};

use dfp_provider::callbacks::{CALL_LIMIT_MS, Callbacks};
use dfp_provider::declare::mcp::SERVER;

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
