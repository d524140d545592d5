//! claude's control protocol, which other CLIs speak as well: control lines are the lines that are not events.
//!
//! In: one line of the CLI's standard output. Out: the request or answer in it ([`Inbound`]). In the other direction: our answers
//! and requests as whole lines. Source: claude 2.1.197 and 2.1.330, recordings `control-*` and `defer-*`; qwen 0.24.4.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use dfp_provider::declare::mcp::SERVER;

/// A control line that the CLI has sent.
#[derive(Debug)]
pub enum Inbound {
    /// The CLI is about to call a tool, and asks the hook first.
    Hook {
        /// The id to be repeated in the answer.
        request_id: String,
        /// The API's id of the call.
        call: Option<String>,
    },
    /// A JSON-RPC message to the MCP server of the caller's tools.
    Mcp {
        /// The id to be repeated in the answer.
        request_id: String,
        /// The JSON-RPC message.
        message: Box<RawValue>,
    },
    /// The CLI asks whether a tool may be used. It asks only for built-in tools, and only if the user's `extraArgs` want that.
    Permission {
        /// The id to be repeated in the answer.
        request_id: String,
    },
    /// A request of a kind that this module does not know.
    Unknown {
        /// The id to be repeated in the answer.
        request_id: String,
        subtype: String,
    },
    /// The answer to a request of ours.
    Answer {
        request_id: String,
        /// The reason, if the request was refused.
        refused: Option<String>,
        /// The CLI's version, if the answer has one.
        version: Option<String>,
        /// The answer itself, as JSON.
        answer: Option<Box<RawValue>>,
    },
    /// A line that needs no answer: the CLI takes back one of its requests.
    Nothing,
}

#[derive(Deserialize)]
struct ControlLine<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    request_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    request: Option<&'a RawValue>,
    #[serde(borrow)]
    response: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ControlRequest<'a> {
    #[serde(borrow, default)]
    subtype: Cow<'a, str>,
    #[serde(borrow)]
    server_name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    tool_use_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ControlResponse<'a> {
    #[serde(borrow, default)]
    subtype: Cow<'a, str>,
    #[serde(borrow, default)]
    request_id: Cow<'a, str>,
    #[serde(borrow)]
    error: Option<Cow<'a, str>>,
    #[serde(borrow)]
    response: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct BinaryVersion {
    version: Option<String>,
}

/// Reads a control line; `None` if it is any other line.
pub fn read(line: &str) -> Option<Inbound> {
    // Most lines are pieces of an answer: they are spared the parsing.
    if !line.contains("\"control_") {
        return None;
    }
    let line: ControlLine = serde_json::from_str(line).ok()?;
    match line.kind.as_ref() {
        "control_request" => {
            let request_id = line.request_id?.into_owned();
            let request: ControlRequest = serde_json::from_str(line.request?.get()).ok()?;
            Some(match (request.subtype.as_ref(), request.message) {
                ("hook_callback", _) => Inbound::Hook {
                    request_id,
                    call: request.tool_use_id.map(Cow::into_owned),
                },
                ("mcp_message", Some(message)) if request.server_name.as_deref() == Some(SERVER) => Inbound::Mcp {
                    request_id,
                    message: message.to_owned(),
                },
                ("can_use_tool", _) => Inbound::Permission { request_id },
                (subtype, _) => Inbound::Unknown {
                    request_id,
                    subtype: subtype.to_owned(),
                },
            })
        }
        "control_response" => {
            let response: ControlResponse = serde_json::from_str(line.response?.get()).ok()?;
            Some(Inbound::Answer {
                request_id: response.request_id.into_owned(),
                refused: (response.subtype != "success")
                    .then(|| response.error.map_or_else(String::new, Cow::into_owned)),
                version: response
                    .response
                    .and_then(|answer| serde_json::from_str::<BinaryVersion>(answer.get()).ok())
                    .and_then(|answer| answer.version),
                answer: response.response.map(RawValue::to_owned),
            })
        }
        "control_cancel_request" => Some(Inbound::Nothing),
        _ => None,
    }
}

/// A control line of ours: the type, then `request` or `response`.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Outbound<'a, T: Serialize> {
    ControlRequest { request_id: &'a str, request: T },
    ControlResponse { response: ControlReply<'a, T> },
}

#[derive(Serialize)]
#[serde(tag = "subtype", rename_all = "snake_case")]
enum ControlReply<'a, T: Serialize> {
    Success { request_id: &'a str, response: T },
    Error { request_id: &'a str, error: &'a str },
}

fn line<T: Serialize>(outbound: &Outbound<T>) -> String {
    // Strings, raw JSON that was parsed, and no maps: there is nothing serde_json can't write.
    let mut line = serde_json::to_string(outbound).unwrap_or_default();
    line.push('\n');
    line
}

/// The answer to the CLI's request `request_id`.
pub fn success<T: Serialize>(request_id: &str, response: T) -> String {
    line(&Outbound::ControlResponse {
        response: ControlReply::Success { request_id, response },
    })
}

/// The request `request` of ours.
pub fn request<T: Serialize>(request_id: &str, request: T) -> String {
    line(&Outbound::ControlRequest { request_id, request })
}

/// The answer to a question of permission: denied, since nobody is there to be asked.
pub fn denied(request_id: &str) -> String {
    #[derive(Serialize)]
    struct Denied {
        behavior: &'static str,
        message: &'static str,
    }
    let denied = Denied {
        behavior: "deny",
        message: "This tool is not permitted here.",
    };
    success(request_id, denied)
}

/// The answer to a request of the kind `subtype`, which nobody knows here.
pub fn unknown(request_id: &str, subtype: &str) -> String {
    refused(request_id, &format!("deep-factor-providers knows no request {subtype}"))
}

/// The answer to a request that is not understood: `error` is the reason.
pub fn refused(request_id: &str, error: &str) -> String {
    let refusal: Outbound<()> = Outbound::ControlResponse {
        response: ControlReply::Error { request_id, error },
    };
    line(&refusal)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn reads_the_recorded_lines() {
        let recording = {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../__tests__/fixtures/recordings");
            std::fs::read_to_string(folder.join("claude-2.1.330/defer-live-3-toolresult.stdout")).unwrap()
        };
        let kinds: Vec<&str> = recording
            .lines()
            .filter_map(read)
            .map(|inbound| match inbound {
                Inbound::Hook { .. } => "hook",
                Inbound::Mcp { .. } => "mcp",
                Inbound::Answer { refused: None, .. } => "answer",
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(kinds, ["mcp", "answer", "mcp", "mcp", "hook", "hook", "hook"]);
    }

    #[test]
    fn other_lines_are_not_ours() {
        for line in [
            r#"{"type":"assistant","message":{"content":"\"control_request\""}}"#,
            r#"{"type":"control_request"}"#,
            r#"{"type":"control_request","request_id":"r","request":"no object"}"#,
            "\"control_",
        ] {
            assert!(read(line).is_none(), "{line}");
        }
        let unknown = r#"{"request":{"subtype":"dance","x":"\ud800"},"type":"control_request","request_id":"r"}"#;
        assert!(matches!(read(unknown), Some(Inbound::Unknown { subtype, .. }) if subtype == "dance"));
        let elsewhere = r#"{"type":"control_request","request_id":"r","request":{"subtype":"mcp_message","server_name":"x","message":{}}}"#;
        assert!(matches!(read(elsewhere), Some(Inbound::Unknown { .. })));
    }
}
