//! The requests and answers to a claude session beside its turns, in its control protocol ([`crate::control`]).
//!
//! In: a setup, an answer. Out: a whole line. Every line is written by serde, since a malformed one kills the CLI (CLI-FACTS
//! 1.6). Source: claude 2.1.197 and 2.1.330, recordings `control-*` and `defer-*`.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::control::{self, success};
use crate::live::setup::Setup;
use dfp_provider::claude::TOOL_SEARCH;
use dfp_provider::declare::mcp::SERVER;

/// The id of the only hook.
const HOOK: &str = "h1";

#[derive(Serialize)]
#[serde(tag = "subtype", rename_all = "snake_case")]
enum Ours<'a> {
    #[serde(rename_all = "camelCase")]
    Initialize {
        #[serde(skip_serializing_if = "Option::is_none")]
        system_prompt: Option<Cow<'a, str>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        append_system_prompt: Option<Cow<'a, str>>,
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
    GetSessionCost,
    ApplyFlagSettings {
        settings: &'a Value,
    },
    /// Sets how much the model thinks, and whether its thoughts are shown. Only the fields that are there change; null is the CLI's own.
    SetMaxThinkingTokens {
        #[serde(skip_serializing_if = "Option::is_none")]
        max_thinking_tokens: Option<Option<u64>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        thinking_display: Option<Option<&'a str>>,
    },
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

/// The first line of a session: its system prompt, its tools, and the hook that keeps the CLI from running them.
pub fn initialize(request_id: &str, setup: &Setup) -> String {
    let tools = !setup.tools().is_empty();
    let with_names = |text| match setup.searches_tools() {
        true => Cow::Owned(format!("{text}\n\n{}", names_of_tools(setup))),
        false => Cow::Borrowed(text),
    };
    let own = setup.system_prompt();
    control::request(
        request_id,
        Ours::Initialize {
            system_prompt: own.map(with_names),
            append_system_prompt: match (own, setup.append_system_prompt()) {
                (None, None) if setup.searches_tools() => Some(Cow::Owned(names_of_tools(setup))),
                (None, Some(text)) => Some(with_names(text)),
                (Some(_), text) => text.map(Cow::Borrowed),
                (None, None) => None,
            },
            json_schema: setup.output().and_then(|schema| serde_json::from_str(schema).ok()),
            sdk_mcp_servers: if tools { &[SERVER] } else { &[] },
            hooks: tools.then_some(Hooks {
                pre_tool_use: [Matcher {
                    matcher: "mcp__df__.*",
                    hook_callback_ids: [HOOK],
                }],
            }),
        },
    )
}

/// The names of the tools, for a model that has to search for the rest. The CLI would tell them in an attachment, which is longer, and
/// brings others with it (files that a text names with `@`). 2.1.197 selects by the whole name alone, so it is written as one.
fn names_of_tools(setup: &Setup) -> String {
    let names: Vec<&str> = setup.tools().iter().map(|tool| tool.name.as_str()).collect();
    format!(
        "Your tools are deferred: fetch a tool with {TOOL_SEARCH} before you call it, by its whole name (`select:mcp__{SERVER}__NAME`, several \
         with commas) or by words. These are the values of NAME:\n{}",
        names.join(" ")
    )
}

/// The request for the CLI's version. It tells the CLI nothing, and is answered as soon as the CLI has started.
pub fn binary_version(request_id: &str) -> String {
    control::request(request_id, Ours::GetBinaryVersion)
}

/// The request for what the session has cost. It asks no API (2.1.332).
pub fn session_cost(request_id: &str) -> String {
    control::request(request_id, Ours::GetSessionCost)
}

/// The request to put `settings` into force, over those of the command line.
pub fn flag_settings(request_id: &str, settings: &Value) -> String {
    control::request(request_id, Ours::ApplyFlagSettings { settings })
}

/// The request for the form in which the model's thinking is shown; `None` for the CLI's own.
pub fn thinking_display(request_id: &str, display: Option<&str>) -> String {
    control::request(
        request_id,
        Ours::SetMaxThinkingTokens {
            max_thinking_tokens: None,
            thinking_display: Some(display),
        },
    )
}

/// The request for a budget of tokens for thinking: 0 ends it, and `None` leaves it to the CLI. A model that always thinks takes no
/// notice (2.1.332).
pub fn thinking_budget(request_id: &str, tokens: Option<u64>) -> String {
    control::request(
        request_id,
        Ours::SetMaxThinkingTokens {
            max_thinking_tokens: Some(tokens),
            thinking_display: None,
        },
    )
}

/// The request to stop the turn.
pub fn interrupt(request_id: &str) -> String {
    control::request(request_id, Ours::Interrupt)
}

/// The answer to the hook: the call is left to the caller, and the turn ends (CLI-FACTS 1b §7).
pub fn deferred(request_id: &str) -> String {
    decided(request_id, "defer")
}

/// The answer to the hook for a call of a resumed thread, whose result is known: the CLI asks its tools' server for it.
pub fn allowed(request_id: &str) -> String {
    decided(request_id, "allow")
}

fn decided(request_id: &str, permission_decision: &'static str) -> String {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct ClaudeOutput {
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
        permission_decision,
    };
    success(
        request_id,
        ClaudeOutput {
            hook_specific_output: decision,
        },
    )
}

/// The answer to a JSON-RPC message: that of the server.
pub fn mcp_answer(request_id: &str, answer: &RawValue) -> String {
    #[derive(Serialize)]
    struct ClaudeAnswer<'a> {
        mcp_response: &'a RawValue,
    }
    success(request_id, ClaudeAnswer { mcp_response: answer })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::*;
    use dfp_model::message::ToolSpec;

    fn json(line: &str) -> Value {
        assert!(line.ends_with('\n') && line.trim_end().lines().count() == 1, "{line:?}");
        serde_json::from_str(line).unwrap()
    }

    fn recorded(name: &str) -> String {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../__tests__/fixtures/recordings");
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
            json(&control::refused("r2", "what?")),
            json!({"type": "control_response", "response": {"subtype": "error", "request_id": "r2", "error": "what?"}})
        );
        assert_eq!(
            json(&control::denied("r3"))["response"]["response"]["behavior"],
            json!("deny")
        );
        assert_eq!(
            json(&interrupt("r4")),
            json!({"type": "control_request", "request_id": "r4", "request": {"subtype": "interrupt"}})
        );
        assert_eq!(
            json(&binary_version("r4")),
            json!({"type": "control_request", "request_id": "r4", "request": {"subtype": "get_binary_version"}})
        );
        assert_eq!(
            json(&session_cost("r4"))["request"],
            json!({"subtype": "get_session_cost"})
        );
        let rpc = RawValue::from_string(r#"{"jsonrpc":"2.0","id":0,"result":{}}"#.to_owned()).unwrap();
        assert_eq!(
            json(&mcp_answer("r5", &rpc))["response"]["response"],
            json!({"mcp_response": {"jsonrpc": "2.0", "id": 0, "result": {}}})
        );
    }
}
