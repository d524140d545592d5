//! claude's control protocol: the lines that are no events.
//!
//! In: one line of the CLI's standard output. Out: what it asks or tells ([`Inbound`]). The other way round: answers and
//! requests of ours as whole lines. Every line is written by serde, for a malformed one kills the CLI (CLI-FACTS 1.6).
//! Source: claude 2.1.197 and 2.1.330, recordings `control-*` and `defer-*`.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::declare::mcp::SERVER;
use crate::exchange::live::setup::Setup;

/// The id of the one hook there is.
const HOOK: &str = "h1";

/// A control line of the CLI.
#[derive(Debug)]
pub enum Inbound {
    /// A tool is about to be called: the hook is asked.
    Hook {
        /// To be repeated in the answer.
        request_id: String,
    },
    /// A JSON-RPC message to the MCP server of the caller's tools.
    Mcp {
        /// To be repeated in the answer.
        request_id: String,
        /// The JSON-RPC message.
        message: Box<RawValue>,
    },
    /// May this tool be used? Asked only of built-in tools, and only where the user's `extraArgs` want that.
    Permission {
        /// To be repeated in the answer.
        request_id: String,
    },
    /// A request of a kind that is not known here.
    Unknown {
        /// To be repeated in the answer.
        request_id: String,
        /// Its kind.
        subtype: String,
    },
    /// The answer to a request of ours.
    Answer {
        /// Which request.
        request_id: String,
        /// The reason, if it was refused.
        refused: Option<String>,
        /// The version in the answer, if there is one: that of the CLI.
        version: Option<String>,
    },
    /// Needs no answer: a request of the CLI's is taken back.
    Nothing,
}

#[derive(Deserialize)]
struct Line<'a> {
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
struct Request<'a> {
    #[serde(borrow, default)]
    subtype: Cow<'a, str>,
    #[serde(borrow)]
    server_name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Response<'a> {
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
    // Most lines are pieces of an answer: spare them the parsing.
    if !line.contains("\"control_") {
        return None;
    }
    let line: Line = serde_json::from_str(line).ok()?;
    match line.kind.as_ref() {
        "control_request" => {
            let request_id = line.request_id?.into_owned();
            let request: Request = serde_json::from_str(line.request?.get()).ok()?;
            Some(match (request.subtype.as_ref(), request.message) {
                ("hook_callback", _) => Inbound::Hook { request_id },
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
            let response: Response = serde_json::from_str(line.response?.get()).ok()?;
            Some(Inbound::Answer {
                request_id: response.request_id.into_owned(),
                refused: (response.subtype != "success")
                    .then(|| response.error.map_or_else(String::new, Cow::into_owned)),
                version: response
                    .response
                    .and_then(|answer| serde_json::from_str::<BinaryVersion>(answer.get()).ok())
                    .and_then(|answer| answer.version),
            })
        }
        "control_cancel_request" => Some(Inbound::Nothing),
        _ => None,
    }
}

/// A control line of ours: `request` or `response` behind its type.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Outbound<'a, T: Serialize> {
    ControlRequest { request_id: &'a str, request: T },
    ControlResponse { response: Reply<'a, T> },
}

#[derive(Serialize)]
#[serde(tag = "subtype", rename_all = "snake_case")]
enum Reply<'a, T: Serialize> {
    Success { request_id: &'a str, response: T },
    Error { request_id: &'a str, error: &'a str },
}

#[derive(Serialize)]
#[serde(tag = "subtype", rename_all = "snake_case")]
enum Ours<'a> {
    #[serde(rename_all = "camelCase")]
    Initialize {
        #[serde(skip_serializing_if = "Option::is_none")]
        system_prompt: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        append_system_prompt: Option<&'a str>,
        #[serde(skip_serializing_if = "<[_]>::is_empty")]
        sdk_mcp_servers: &'a [&'a str],
        /// Adds the CLI's tool for answers by a schema to every turn of the session (2.1.197, 2.1.330).
        #[serde(skip_serializing_if = "Option::is_none")]
        json_schema: Option<&'a RawValue>,
        #[serde(skip_serializing_if = "Option::is_none")]
        hooks: Option<Hooks>,
    },
    Interrupt,
    GetBinaryVersion,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Hooks {
    pre_tool_use: [Matcher; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Matcher {
    matcher: &'static str,
    hook_callback_ids: [&'static str; 1],
}

fn line<T: Serialize>(outbound: &Outbound<T>) -> String {
    // Strings, raw JSON that was parsed, and no maps: there is nothing serde_json can't write.
    let mut line = serde_json::to_string(outbound).unwrap_or_default();
    line.push('\n');
    line
}

fn success<T: Serialize>(request_id: &str, response: T) -> String {
    line(&Outbound::ControlResponse {
        response: Reply::Success { request_id, response },
    })
}

/// The first line of a session: its system prompt, its tools, and the hook that keeps the CLI from running them.
pub fn initialize(request_id: &str, setup: &Setup) -> String {
    let tools = !setup.tools().is_empty();
    line(&Outbound::ControlRequest {
        request_id,
        request: Ours::Initialize {
            system_prompt: setup.system_prompt(),
            append_system_prompt: setup.append_system_prompt(),
            json_schema: setup.output().and_then(|schema| serde_json::from_str(schema).ok()),
            sdk_mcp_servers: if tools { &[SERVER] } else { &[] },
            hooks: tools.then_some(Hooks {
                pre_tool_use: [Matcher {
                    matcher: "mcp__df__.*",
                    hook_callback_ids: [HOOK],
                }],
            }),
        },
    })
}

/// Asks for the CLI's version. That tells it nothing, and answers when it has started.
pub fn binary_version(request_id: &str) -> String {
    line(&Outbound::ControlRequest {
        request_id,
        request: Ours::GetBinaryVersion,
    })
}

/// Stops the turn.
pub fn interrupt(request_id: &str) -> String {
    line(&Outbound::ControlRequest {
        request_id,
        request: Ours::Interrupt,
    })
}

/// To the hook: the call is left to the caller, and the turn ends (CLI-FACTS 1b §7).
pub fn deferred(request_id: &str) -> String {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Output {
        hook_specific_output: Decision,
    }
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Decision {
        hook_event_name: &'static str,
        permission_decision: &'static str,
    }
    let decision = Decision {
        hook_event_name: "PreToolUse",
        permission_decision: "defer",
    };
    success(
        request_id,
        Output {
            hook_specific_output: decision,
        },
    )
}

/// To a question of permission: no. Nobody is there to be asked.
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

/// To a JSON-RPC message: the server's answer.
pub fn mcp_answer(request_id: &str, answer: &RawValue) -> String {
    #[derive(Serialize)]
    struct Answer<'a> {
        mcp_response: &'a RawValue,
    }
    success(request_id, Answer { mcp_response: answer })
}

/// To a request that is not understood.
pub fn refused(request_id: &str, error: &str) -> String {
    let refusal: Outbound<()> = Outbound::ControlResponse {
        response: Reply::Error { request_id, error },
    };
    line(&refusal)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::{Value, json};

    use super::*;
    use crate::message::ToolSpec;

    fn json(line: &str) -> Value {
        assert!(line.ends_with('\n') && line.trim_end().lines().count() == 1, "{line:?}");
        serde_json::from_str(line).unwrap()
    }

    fn recorded(name: &str) -> String {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("__tests__/fixtures/recordings");
        std::fs::read_to_string(folder.join(name)).unwrap()
    }

    #[test]
    fn initialize_says_what_the_recordings_say() {
        let tools: Vec<ToolSpec> =
            serde_json::from_str(r#"[{"name":"calculator","schema":{"type":"object"}}]"#).unwrap();
        let setup = Setup::new(Some("S\n\"q\"".to_owned()), None, &tools);
        assert_eq!(
            json(&initialize("r1", &setup)),
            json!({"type": "control_request", "request_id": "r1", "request": {
                "subtype": "initialize", "systemPrompt": "S\n\"q\"", "sdkMcpServers": ["df"],
                "hooks": {"PreToolUse": [{"matcher": "mcp__df__.*", "hookCallbackIds": ["h1"]}]},
            }})
        );
        assert_eq!(
            json(&initialize("r1", &Setup::new(None, Some("more".to_owned()), &[]))),
            json!({"type": "control_request", "request_id": "r1",
                   "request": {"subtype": "initialize", "appendSystemPrompt": "more"}})
        );
    }

    #[test]
    fn answers_have_the_recorded_shape() {
        let recording = recorded("claude-2.1.330/defer-live-3-toolresult.stdin");
        let hook: Value = recording
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap())
            .find(|line| !line["response"]["response"]["hookSpecificOutput"].is_null())
            .unwrap();
        let id = hook["response"]["request_id"].as_str().unwrap();
        assert_eq!(json(&deferred(id)), hook);
        assert_eq!(
            json(&refused("r2", "what?")),
            json!({"type": "control_response", "response": {"subtype": "error", "request_id": "r2", "error": "what?"}})
        );
        assert_eq!(json(&denied("r3"))["response"]["response"]["behavior"], json!("deny"));
        assert_eq!(
            json(&interrupt("r4")),
            json!({"type": "control_request", "request_id": "r4", "request": {"subtype": "interrupt"}})
        );
        assert_eq!(
            json(&binary_version("r4")),
            json!({"type": "control_request", "request_id": "r4", "request": {"subtype": "get_binary_version"}})
        );
        let rpc = RawValue::from_string(r#"{"jsonrpc":"2.0","id":0,"result":{}}"#.to_owned()).unwrap();
        assert_eq!(
            json(&mcp_answer("r5", &rpc))["response"]["response"],
            json!({"mcp_response": {"jsonrpc": "2.0", "id": 0, "result": {}}})
        );
    }

    #[test]
    fn reads_the_recorded_lines() {
        let recording = recorded("claude-2.1.330/defer-live-3-toolresult.stdout");
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
