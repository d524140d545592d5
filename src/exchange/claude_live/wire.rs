//! The requests and answers to a claude session beside its turns, in its control protocol ([`crate::stream_json`]).
//!
//! In: a setup, an answer. Out: a whole line. Every line is written by serde, since a malformed one kills the CLI (CLI-FACTS
//! 1.6). Source: claude 2.1.197 and 2.1.330, recordings `control-*` and `defer-*`.
//!
//! [`Changes`] are the choices that a running claude takes on between its turns: effort, no reasoning, fast mode, output limit, texts that
//! end an answer, the schema of an answer. In: the choices of the next turn. Out: control lines that change the process, if it has others,
//! and whether its user line must wait for their answers. They take 2 to 14 ms, leave the beginning of the conversation as it is for the
//! API's cache, and no trace in its text (2.1.197 to 2.1.332). A model is not among them: the CLI would write the change into the
//! conversation.
//!
//! A variable that is set so stays until it is null, and is then missing even if the user's settings have it; named no more, it is what
//! they say. So all of them are null first, and then those that are wanted are set.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::value_of;
use crate::live::setup::{Changeable, Setup};
use crate::print;
use crate::stream_json::{self, success};
use dfp_process::Vars;
use dfp_provider::claude::requests::{EXTRA_BODY, with_fields};
use dfp_provider::claude::{EFFORT_LEVEL, MAX_OUTPUT_TOKENS, TOOL_SEARCH};
use dfp_provider::command::CommandLine;
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
    stream_json::request(
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
    stream_json::request(request_id, Ours::GetBinaryVersion)
}

/// The request for what the session has cost. It asks no API (2.1.332).
pub fn session_cost(request_id: &str) -> String {
    stream_json::request(request_id, Ours::GetSessionCost)
}

/// The request to put `settings` into force, over those of the command line.
fn flag_settings(request_id: &str, settings: &Value) -> String {
    stream_json::request(request_id, Ours::ApplyFlagSettings { settings })
}

/// The request for the form in which the model's thinking is shown; `None` for the CLI's own.
fn thinking_display(request_id: &str, display: Option<&str>) -> String {
    stream_json::request(
        request_id,
        Ours::SetMaxThinkingTokens {
            max_thinking_tokens: None,
            thinking_display: Some(display),
        },
    )
}

/// The request for a budget of tokens for thinking: 0 ends it, and `None` leaves it to the CLI. A model that always thinks takes no
/// notice (2.1.332).
fn thinking_budget(request_id: &str, tokens: Option<u64>) -> String {
    stream_json::request(
        request_id,
        Ours::SetMaxThinkingTokens {
            max_thinking_tokens: Some(tokens),
            thinking_display: None,
        },
    )
}

/// The request to stop the turn.
pub fn interrupt(request_id: &str) -> String {
    stream_json::request(request_id, Ours::Interrupt)
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

/// The variable of the budget for thinking, tokens.
const THINKING_TOKENS: &str = "MAX_THINKING_TOKENS";
/// The beginning of the ids of our requests.
const ID: &str = "df-change-";

/// The choices of a process: its effort, whether its model is not to think, and its variables for the others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct InForce {
    effort: Option<String>,
    /// Never so at the start: `--settings` could not be taken back.
    thinks_not: bool,
    /// `None` is as the process was started.
    fast: Option<bool>,
    variables: BTreeMap<&'static str, String>,
}

/// The choices that are in force in a process.
#[derive(Debug)]
pub struct Changes {
    /// The budget of the user's own variable: 2.1.197 forgets it once it had another one.
    own_budget: Option<u64>,
    started: InForce,
    now: InForce,
    /// The number of requests that are not answered.
    unanswered: usize,
    sent: usize,
    /// The user line that waits for the answers.
    line: Option<String>,
}

impl From<InForce> for Changes {
    fn from(started: InForce) -> Changes {
        Changes {
            own_budget: None,
            now: started.clone(),
            started,
            unanswered: 0,
            sent: 0,
            line: None,
        }
    }
}

impl Changes {
    /// Those of a process that is started with `line` in the environment `env`.
    pub fn of(line: &CommandLine, env: &Arc<Vars>) -> Changes {
        let variable = |name: &'static str| {
            let value = print::variable(line, env, name)?;
            Some((name, value.to_string_lossy().into_owned()))
        };
        let started = InForce {
            effort: value_of(line, "--effort"),
            thinks_not: false,
            fast: None,
            variables: [EFFORT_LEVEL, MAX_OUTPUT_TOKENS, EXTRA_BODY]
                .into_iter()
                .filter_map(variable)
                .collect(),
        };
        Changes {
            own_budget: variable(THINKING_TOKENS).and_then(|(_, tokens)| tokens.parse().ok()),
            ..Changes::from(started)
        }
    }

    /// The effort that is in force.
    pub fn effort(&self) -> Option<&str> {
        self.now.effort.as_deref()
    }

    /// The lines that put `wanted` into force; "" if it is.
    pub fn lines(&mut self, wanted: &Changeable) -> String {
        let mut then = self.started.clone();
        if let Some(effort) = &wanted.effort {
            then.effort = Some(effort.clone());
            // It would win over the effort.
            then.variables.insert(EFFORT_LEVEL, String::new());
        }
        then.thinks_not = wanted.reasoning_off;
        then.fast = wanted.fast;
        if let Some(limit) = wanted.max_output_tokens {
            then.variables.insert(MAX_OUTPUT_TOKENS, limit.to_string());
        }
        if !wanted.fields.is_empty() {
            let before = then.variables.get(EXTRA_BODY).map(String::as_str);
            let body = with_fields(before, &wanted.fields);
            then.variables.insert(EXTRA_BODY, body);
        }
        if then == self.now {
            return String::new();
        }
        let none: Map<String, Value> = [EFFORT_LEVEL, MAX_OUTPUT_TOKENS, EXTRA_BODY]
            .map(|name| (name.to_owned(), Value::Null))
            .into_iter()
            .collect();
        let settings = |env: Value| {
            let thinks = (then.effort.is_some() && !then.thinks_not).then_some(true);
            json!({"effortLevel": then.effort, "alwaysThinkingEnabled": thinks, "fastMode": then.fast, "env": env})
        };
        let mut lines = String::new();
        for env in [Value::Object(none), json!(then.variables)] {
            lines.push_str(&flag_settings(&self.next_id(), &settings(env)));
        }
        // As `--thinking-display` with `--effort`: whoever chooses the reasoning wants to read it.
        if then.effort.is_some() != self.now.effort.is_some() {
            let display = then.effort.is_some().then_some("summarized");
            lines.push_str(&thinking_display(&self.next_id(), display));
        }
        if then.thinks_not != self.now.thinks_not {
            let budget = if then.thinks_not { Some(0) } else { self.own_budget };
            lines.push_str(&thinking_budget(&self.next_id(), budget));
        }
        self.now = then;
        lines
    }

    fn next_id(&mut self) -> String {
        self.sent += 1;
        self.unanswered += 1;
        format!("{ID}{}", self.sent)
    }

    /// Returns whether a user line must wait.
    pub fn waits(&self) -> bool {
        self.unanswered > 0
    }

    /// Keeps the user line until all requests are answered.
    pub fn hold(&mut self, line: String) {
        self.line = Some(line);
    }

    /// The user line, once it may be sent.
    pub fn line(&mut self) -> Option<String> {
        let is_free = !self.waits();
        self.line.take_if(|_| is_free)
    }

    /// Forgets the user line, which nobody waits for any more.
    pub fn give_up(&mut self) {
        self.line = None;
    }

    /// Notes an answer; returns whether it is one to our requests.
    pub fn answered(&mut self, request_id: &str) -> bool {
        let is_ours = request_id.starts_with(ID);
        self.unanswered -= usize::from(is_ours && self.unanswered > 0);
        is_ours
    }
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
            json(&stream_json::refused("r2", "what?")),
            json!({"type": "control_response", "response": {"subtype": "error", "request_id": "r2", "error": "what?"}})
        );
        assert_eq!(
            json(&stream_json::denied("r3"))["response"]["response"]["behavior"],
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

    fn changes(effort: Option<&str>) -> Changes {
        Changes::from(InForce {
            effort: effort.map(str::to_owned),
            thinks_not: false,
            fast: None,
            variables: BTreeMap::from([(MAX_OUTPUT_TOKENS, "5000".to_owned())]),
        })
    }

    fn wanted(effort: &str, limit: u64) -> Changeable {
        Changeable {
            effort: Some(effort.to_owned()),
            max_output_tokens: Some(limit),
            ..Changeable::default()
        }
    }

    fn requests(lines: &str) -> Vec<Value> {
        let request = |line| serde_json::from_str::<Value>(line).unwrap()["request"].clone();
        lines.lines().map(request).collect()
    }

    #[test]
    fn a_process_is_changed_and_changed_back() {
        let mut changes = changes(None);
        assert_eq!(changes.lines(&Changeable::default()), "");
        let there = requests(&changes.lines(&wanted("low", 700)));
        assert_eq!(
            there[1]["settings"],
            json!({"effortLevel": "low", "alwaysThinkingEnabled": true, "fastMode": null,
                   "env": {"CLAUDE_CODE_EFFORT_LEVEL": "", "CLAUDE_CODE_MAX_OUTPUT_TOKENS": "700"}})
        );
        assert_eq!(
            there[2],
            json!({"subtype": "set_max_thinking_tokens", "thinking_display": "summarized"})
        );
        assert_eq!(changes.lines(&wanted("low", 700)), "");
        let back = requests(&changes.lines(&Changeable::default()));
        assert_eq!(back[0]["settings"]["env"]["CLAUDE_CODE_EFFORT_LEVEL"], Value::Null);
        assert_eq!(
            back[1]["settings"],
            json!({"effortLevel": null, "alwaysThinkingEnabled": null, "fastMode": null, "env": {"CLAUDE_CODE_MAX_OUTPUT_TOKENS": "5000"}})
        );
        assert_eq!(back[2]["thinking_display"], Value::Null);
    }

    #[test]
    fn a_model_that_is_not_to_think_is_told_so_and_no_longer() {
        let mut changes = changes(None);
        let off = Changeable {
            reasoning_off: true,
            ..Changeable::default()
        };
        let last = |lines: &str| requests(lines).pop().unwrap();
        let told = |tokens: Value| json!({"subtype": "set_max_thinking_tokens", "max_thinking_tokens": tokens});
        assert_eq!(last(&changes.lines(&off)), told(json!(0)));
        assert_eq!(changes.lines(&off), "");
        assert_eq!(last(&changes.lines(&Changeable::default())), told(Value::Null));
    }

    #[test]
    fn the_user_line_waits_for_all_answers() {
        let mut changes = changes(Some("high"));
        // The thinking is shown already.
        assert_eq!(requests(&changes.lines(&wanted("low", 5000))).len(), 2);
        changes.hold("line".to_owned());
        assert!(changes.answered("df-change-1") && !changes.answered("df-initialize"));
        assert_eq!(changes.line(), None);
        assert!(changes.answered("df-change-2"));
        assert_eq!(changes.line().as_deref(), Some("line"));
        assert_eq!((changes.line(), changes.waits()), (None, false));
    }

    #[test]
    fn a_turn_that_was_given_up_is_not_asked_late() {
        let mut changes = changes(Some("high"));
        changes.lines(&wanted("low", 5000));
        changes.hold("line".to_owned());
        changes.give_up();
        assert!(changes.answered("df-change-1") && changes.answered("df-change-2"));
        assert_eq!((changes.line(), changes.waits()), (None, false));
    }
}
