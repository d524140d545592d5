//! The MCP server that declares the caller's tools. It only declares them: the CLI's hook leaves every call to the caller.
//!
//! In: a JSON-RPC message of the CLI's. Out: the answer, or the fact that the CLI runs a tool in spite of the hook.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use dfp_provider::declare::Declared;
use dfp_provider::declare::mcp::MAX_RESULT_CHARS;

/// The protocol version for a CLI that doesn't name one: the version that 2.1.197 and 2.1.330 name.
const PROTOCOL: &str = "2025-11-25";

/// The result of a message.
#[derive(Debug)]
pub enum Answered {
    /// An answer to send back.
    With(Box<RawValue>),
    /// An answer to send back, after which the CLI knows the tools.
    Tools(Box<RawValue>),
    /// The CLI wants the tool run: its hook did not hold the call.
    ToolCallRequest,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

#[derive(Serialize)]
struct Rpc<'a, T: Serialize> {
    jsonrpc: &'static str,
    id: &'a RawValue,
    #[serde(flatten)]
    outcome: Outcome<T>,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Outcome<T: Serialize> {
    Result(T),
    Error { code: i32, message: String },
}

#[derive(Serialize)]
struct Nothing {}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Initialized<'a> {
    protocol_version: Cow<'a, str>,
    capabilities: Capabilities,
    server_info: ServerInfo,
}

#[derive(Serialize)]
struct Capabilities {
    tools: Nothing,
}

#[derive(Serialize)]
struct ServerInfo {
    name: &'static str,
    version: &'static str,
}

#[derive(Serialize)]
struct Listed<'a> {
    tools: Vec<Tool<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Tool<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    input_schema: Option<&'a RawValue>,
    #[serde(rename = "_meta")]
    meta: Meta,
}

#[derive(Serialize)]
struct Meta {
    /// Deferred results are not limited by it; this keeps it so if the CLI changes.
    #[serde(rename = "anthropic/maxResultSizeChars")]
    max_result_size_chars: u32,
}

/// Answers `message` for a server that has `tools`.
pub fn answer(tools: &[Declared], message: &RawValue) -> Answered {
    let Ok(message) = serde_json::from_str::<Message>(message.get()) else {
        return with(
            None,
            Outcome::<Nothing>::Error {
                code: -32600,
                message: "not a JSON-RPC message".to_owned(),
            },
        );
    };
    let id = message.id;
    match message.method.as_deref() {
        // A notification, or an answer to something: the CLI wants an answer nevertheless (CLI-FACTS 1.7).
        None => with(id, Outcome::Result(Nothing {})),
        Some(_) if id.is_none() => with(None, Outcome::Result(Nothing {})),
        Some("initialize") => with(
            id,
            Outcome::Result(Initialized {
                protocol_version: protocol(message.params),
                capabilities: Capabilities { tools: Nothing {} },
                server_info: ServerInfo {
                    name: "deep-factor-providers",
                    version: env!("CARGO_PKG_VERSION"),
                },
            }),
        ),
        Some("ping") => with(id, Outcome::Result(Nothing {})),
        Some("tools/list") => {
            let tools = tools.iter().map(|tool| Tool {
                name: &tool.name,
                description: tool.description.as_deref(),
                input_schema: serde_json::from_str(&tool.schema).ok(),
                meta: Meta {
                    max_result_size_chars: MAX_RESULT_CHARS,
                },
            });
            Answered::Tools(rpc(id, Outcome::Result(Listed { tools: tools.collect() })))
        }
        Some("tools/call") => Answered::ToolCallRequest,
        Some(method) => with(
            id,
            Outcome::<Nothing>::Error {
                code: -32601,
                message: format!("this server has no method {method}"),
            },
        ),
    }
}

fn protocol(params: Option<&RawValue>) -> Cow<'_, str> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Params<'a> {
        #[serde(borrow)]
        protocol_version: Option<Cow<'a, str>>,
    }
    params
        .and_then(|params| serde_json::from_str::<Params>(params.get()).ok())
        .and_then(|params| params.protocol_version)
        .unwrap_or(Cow::Borrowed(PROTOCOL))
}

fn with<T: Serialize>(id: Option<&RawValue>, outcome: Outcome<T>) -> Answered {
    Answered::With(rpc(id, outcome))
}

fn rpc<T: Serialize>(id: Option<&RawValue>, outcome: Outcome<T>) -> Box<RawValue> {
    let none = RawValue::NULL;
    // The recordings answer notifications with id 0.
    let zero = serde_json::from_str::<&RawValue>("0").unwrap_or(none);
    let rpc = Rpc {
        jsonrpc: "2.0",
        id: id.unwrap_or(zero),
        outcome,
    };
    to_raw_value(&rpc).unwrap_or_else(|_| none.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn ask(message: &Value) -> Value {
        let tools = [Declared {
            name: "add".to_owned(),
            description: Some("Adds".to_owned()),
            schema: r#"{"type":"object","properties":{"z":{"const":1.0},"a":{}}}"#.to_owned(),
        }];
        match answer(&tools, &to_raw_value(message).unwrap()) {
            Answered::With(answer) | Answered::Tools(answer) => serde_json::from_str(answer.get()).unwrap(),
            Answered::ToolCallRequest => json!("called"),
        }
    }

    #[test]
    fn speaks_what_the_cli_asks() {
        assert_eq!(
            ask(
                &json!({"method": "initialize", "params": {"protocolVersion": "2024-01-01", "capabilities": {}}, "id": 0, "jsonrpc": "2.0"})
            ),
            json!({"jsonrpc": "2.0", "id": 0, "result": {"protocolVersion": "2024-01-01", "capabilities": {"tools": {}},
                   "serverInfo": {"name": "deep-factor-providers", "version": env!("CARGO_PKG_VERSION")}}})
        );
        assert_eq!(
            ask(&json!({"method": "tools/list", "id": "x"})),
            json!({"jsonrpc": "2.0", "id": "x", "result": {"tools": [{"name": "add", "description": "Adds",
                   "inputSchema": {"type": "object", "properties": {"z": {"const": 1.0}, "a": {}}},
                   "_meta": {"anthropic/maxResultSizeChars": 500_000}}]}})
        );
        let nothing = json!({"jsonrpc": "2.0", "id": 0, "result": {}});
        assert_eq!(ask(&json!({"method": "notifications/initialized"})), nothing);
        assert_eq!(ask(&json!({"result": {}, "id": 0})), nothing);
        assert_eq!(ask(&json!({"method": "ping", "id": 7}))["result"], json!({}));
        assert_eq!(
            ask(&json!({"method": "resources/list", "id": 7}))["error"]["code"],
            json!(-32601)
        );
        assert_eq!(ask(&json!("?"))["error"]["code"], json!(-32600));
        assert_eq!(
            ask(&json!({"method": "tools/call", "id": 2, "params": {}})),
            json!("called")
        );
    }
}
