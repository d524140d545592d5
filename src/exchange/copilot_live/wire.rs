//! The messages of `copilot --headless`, in both directions.
//!
//! The server is sent the parameters of requests, and the results of calls. It refuses an unknown field by its name. Source: copilot
//! 1.0.102, recordings `sdk-recipe-whole` and `sdk-sessionfs-history`; NEW-CLIS 1.2 and 1.6 tell what each field removes.
//!
//! Its own messages are notifications, which are events of a session ([`SessionEvent`]), and requests for a session's files. In: a
//! notification or a request of the server's. Out: its meaning for a session, or the answer of [`super::files`].

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::CopilotSetup;
use super::files::{Files, STATE};
use crate::rpc::message::{Request, Version};
use crate::rpc::{Asked, Framing, Protocol};
use dfp_model::event::Failure;
use dfp_model::message::Usage;
use dfp_provider::copilot::TOOL_SEARCH;
use dfp_text::decode::copilot::{failed_call, failed_session};
use dfp_text::redact::Secret;

/// The protocol that is understood here.
pub const PROTOCOL: u64 = 3;

/// The token limits that are declared for any model: for a model that it does not know, copilot would refuse a request of more
/// than 128,000 tokens, unsent.
const ANY: u64 = 10_000_000;

/// A model API of the user's own, as the environment of the server names it (`COPILOT_PROVIDER_*`).
#[derive(Debug, Clone, Default)]
pub struct Api {
    /// `BASE_URL`.
    pub base_url: String,
    /// `TYPE`.
    pub kind: Option<String>,
    /// `WIRE_API`.
    pub wire_api: Option<String>,
    /// `TRANSPORT`.
    pub transport: Option<String>,
    /// `AZURE_API_VERSION`.
    pub azure_version: Option<String>,
    /// `API_KEY`.
    pub key: Option<Secret>,
    /// `API_KEY_COMMAND`.
    pub key_command: Option<Secret>,
    /// `HEADERS`: one per line.
    pub headers: Option<Secret>,
    /// `BEARER_TOKEN`.
    pub bearer: Option<Secret>,
}

impl Api {
    fn fields(&self) -> Value {
        let mut fields = json!({
            "type": self.kind.as_deref().unwrap_or("openai"),
            "wireApi": self.wire_api.as_deref().unwrap_or("completions"),
            "baseUrl": self.base_url,
        });
        for (name, secret) in [
            ("apiKey", &self.key),
            ("apiKeyCommand", &self.key_command),
            ("bearerToken", &self.bearer),
        ] {
            if let Some(secret) = secret {
                fields[name] = json!(secret.reveal());
            }
        }
        if let Some(transport) = &self.transport {
            fields["transport"] = json!(transport);
        }
        if let Some(version) = &self.azure_version {
            fields["azure"] = json!({"apiVersion": version});
        }
        if let Some(headers) = &self.headers {
            let headers = headers.reveal().replace("\\n", "\n");
            let headers = headers.lines().filter_map(|line| line.split_once(':'));
            let headers = headers.map(|(name, value)| (name.trim().to_owned(), json!(value.trim())));
            fields["headers"] = Value::Object(headers.collect());
        }
        fields
    }
}

/// `sessionFs.setProvider`: sessions have their files here.
pub fn set_files(folder: &str) -> Value {
    json!({"initialCwd": folder, "sessionStatePath": STATE, "conventions": "posix"})
}

/// `session.resume`: nothing of copilot's own, and nothing of the user's but login and model.
pub fn resume(session: &str, setup: &CopilotSetup, model: Option<&str>, api: Option<&Api>, folder: &str) -> Value {
    let tools = setup.tools.declared().iter().map(|tool| {
        let schema: Value = serde_json::from_str(&tool.schema).unwrap_or_else(|_| json!({"type": "object"}));
        json!({
            "name": tool.name,
            "description": tool.description.as_deref().unwrap_or_default(),
            "parameters": schema,
            // A tool of copilot's own with this name is not meant.
            "overridesBuiltInTool": true,
            "skipPermission": true,
            "defer": if setup.choices.searches_tools { "auto" } else { "never" },
        })
    });
    let names: Vec<&str> = match setup.tools.declared() {
        // An empty list would mean all of copilot's own.
        [] => vec!["none"],
        tools => {
            let own = setup.choices.searches_tools.then_some(TOOL_SEARCH);
            tools.iter().map(|tool| tool.name.as_str()).chain(own).collect()
        }
    };
    let mut params = json!({
        "sessionId": session,
        "availableTools": names,
        "tools": tools.collect::<Vec<_>>(),
        "streaming": true,
        "workingDirectory": folder,
        "envValueMode": "direct",
        "requestPermission": false,
        "enableConfigDiscovery": false,
        "infiniteSessions": {"enabled": false},
        "largeOutput": {"enabled": false},
        "enableSessionTelemetry": false,
        "skipEmbeddingRetrieval": true,
        "embeddingCacheStorage": "in-memory",
        "mcpOAuthTokenStorage": "in-memory",
        "enableOnDemandInstructionDiscovery": false,
        "enableFileHooks": false,
        "enableHostGitOperations": false,
        "enableSessionStore": false,
        "enableSkills": false,
        "memory": {"enabled": false},
        "customAgentsLocalOnly": true,
        "includeSubAgentStreamingEvents": false,
        "isExperimentalMode": false,
    });
    if setup.choices.searches_tools {
        // However few there are: copilot itself begins with 30.
        params["toolSearch"] = json!({"enabled": true, "deferThreshold": 0});
    }
    if let Some(system) = &setup.system {
        let mode = if setup.own_instructions { "append" } else { "replace" };
        params["systemMessage"] = json!({"mode": mode, "content": system});
    }
    if let Some(model) = model {
        params["model"] = json!(model);
    }
    if let Some(effort) = &setup.choices.effort {
        params["reasoningEffort"] = json!(effort);
    }
    if let Some(api) = api {
        params["provider"] = api.fields();
        params["modelCapabilities"] = json!({
            // Images of a history go to any model. For a model that is declared to take images, copilot makes them smaller, and leaves out
            // all but 50.
            "supports": {"vision": false},
            "limits": {"max_prompt_tokens": ANY, "max_context_window_tokens": ANY},
        });
    }
    params
}

/// `session.options.update`: the things that only this request turns off.
pub fn options(session: &str) -> Value {
    json!({
        "sessionId": session,
        "skipCustomInstructions": true,
        "customAgentsLocalOnly": true,
        "coauthorEnabled": false,
        "manageScheduleEnabled": false,
        "installedPlugins": [],
        "includedBuiltinSkills": [],
    })
}

/// `session.sendMessages`: continues the session without a new message.
pub fn go_on(session: &str) -> Value {
    json!({"sessionId": session, "messages": []})
}

/// The parameters of `session.abort` and `session.destroy`.
pub fn of_session(session: &str) -> Value {
    json!({"sessionId": session})
}

/// `session.tools.handlePendingToolCall`: the result of a call.
pub fn result(session: &str, request: &str, text: &str, is_error: bool) -> Value {
    let kind = if is_error { "failure" } else { "success" };
    json!({
        "sessionId": session,
        "requestId": request,
        "result": {"textResultForLlm": text, "resultType": kind},
    })
}

/// The prefix of the requests for files.
const FILES: &str = "sessionFs.";
/// The notification that holds an event of a session.
const EVENT: &str = "session.event";

/// The protocol of `copilot --headless --stdio`.
#[derive(Debug, Default)]
pub struct CopilotProtocol {
    /// The files of all sessions.
    pub files: Files,
}

impl Protocol for CopilotProtocol {
    type Event = SessionEvent;

    const VERSION: Version = Some("2.0");
    const FRAMING: Framing = Framing::Length;
    const SESSION: &'static str = "sessionId";

    fn matters(method: &str) -> bool {
        method == EVENT
    }

    fn notification(&self, method: &str, params: &str) -> Option<(String, SessionEvent)> {
        if method != EVENT {
            return None;
        }
        let params: EventParams = serde_json::from_str(params).ok()?;
        let event = read(&params.event.kind, params.event.data.map_or("{}", RawValue::get))?;
        Some((params.session_id, event))
    }

    fn asked(&self, request: &Request<'_>) -> Asked<SessionEvent> {
        let of_files = request.method.strip_prefix(FILES);
        match of_files.and_then(|method| self.files.answer(method, request.params)) {
            Some(answer) => Asked::Answered(answer),
            None => Asked::Refused(None),
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EventParams<'a> {
    session_id: String,
    #[serde(borrow)]
    event: EventLine<'a>,
}

#[derive(Deserialize)]
struct EventLine<'a> {
    #[serde(rename = "type")]
    kind: String,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
}

/// An event of a session.
#[derive(Debug)]
pub enum SessionEvent {
    /// A request goes to the model.
    CallStarted {
        model: String,
    },
    /// A piece of the reasoning.
    ReasoningDelta {
        delta: String,
    },
    /// A piece of a message.
    TextDelta {
        message: String,
        delta: String,
    },
    /// A piece of a call's arguments.
    CallDelta {
        call: String,
        name: String,
        delta: String,
    },
    /// The usage of an answer, and the reason why it ended.
    Usage {
        /// The usage; `None` if the API tells none.
        usage: Option<Usage>,
        finish_reason: Option<String>,
        model: String,
    },
    /// The ids and arguments of an answer's calls, as the model wrote them.
    RawCalls(Vec<(String, String)>),
    /// A message of the model, whole.
    Message(Box<ModelReply>),
    /// The result of a request.
    CallEnded {
        is_success: bool,
    },
    /// The server asks for the result of a call.
    CallPending {
        request: String,
        call: String,
    },
    /// A call has a result, from the caller or from copilot itself.
    CallAnswered {
        call: String,
        is_success: bool,
        /// The result as the model gets it.
        content: String,
    },
    /// A request failed, and would be made again.
    CallFailed(Box<Failure>),
    /// The turn failed.
    Failed(Box<Failure>),
    /// A message that the user should know.
    Warning {
        code: String,
        message: String,
    },
    /// Something began that changes the history without the caller's knowledge.
    Compaction,
    /// Nothing is in progress any more.
    Idle,
    Closed,
}

/// A whole message of the model, as the server reports it.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ModelReply {
    pub message_id: String,
    pub content: String,
    pub reasoning_text: Option<String>,
    /// The reasoning that its API has sealed, as JSON.
    pub reasoning_blocks: Option<Box<RawValue>>,
    pub tool_requests: Vec<ToolRequest>,
}

/// A call in a [`ModelReply`].
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolRequest {
    pub tool_call_id: String,
    pub name: String,
    /// The arguments, read and written again by the server: numbers may have lost digits.
    pub arguments: Option<Box<RawValue>>,
}

/// The fields of all events that matter, except those of messages and failures.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Data {
    model: String,
    message_id: String,
    delta_content: String,
    tool_call_id: String,
    tool_name: String,
    input_delta: String,
    request_id: String,
    success: bool,
    finish_reason: Option<String>,
    warning_type: String,
    // A word in `model.call_final_result`, an object in other events.
    result: Option<Box<RawValue>>,
    message: Option<Box<RawValue>>,
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_read_tokens: Option<u64>,
    cache_write_tokens: Option<u64>,
    reasoning_tokens: Option<u64>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct CallResult {
    content: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ModelMessage {
    role: String,
    tool_calls: Option<Vec<ModelCall>>,
}

#[derive(Deserialize)]
struct ModelCall {
    id: String,
    function: Option<Function>,
}

#[derive(Deserialize)]
struct Function {
    arguments: String,
}

/// Reads the event `kind` with `data`; `None` for one that does not matter here.
fn read(kind: &str, data: &str) -> Option<SessionEvent> {
    match kind {
        "assistant.message" => return serde_json::from_str(data).ok().map(SessionEvent::Message),
        "model.call_failure" => return Some(SessionEvent::CallFailed(Box::new(failed_call(data)))),
        "session.error" => return Some(SessionEvent::Failed(Box::new(failed_session(data)))),
        "session.idle" => return Some(SessionEvent::Idle),
        "session.shutdown" => return Some(SessionEvent::Closed),
        "session.compaction_start" | "session.truncation" => return Some(SessionEvent::Compaction),
        "model.call_start"
        | "assistant.reasoning_delta"
        | "assistant.message_delta"
        | "assistant.tool_call_delta"
        | "assistant.usage"
        | "model.message"
        | "model.call_final_result"
        | "external_tool.requested"
        | "tool.execution_complete"
        | "session.warning" => {}
        _ => return None,
    }
    let data: Data = serde_json::from_str(data).ok()?;
    Some(match kind {
        "model.call_start" => SessionEvent::CallStarted { model: data.model },
        "assistant.reasoning_delta" => SessionEvent::ReasoningDelta {
            delta: data.delta_content,
        },
        "assistant.message_delta" => SessionEvent::TextDelta {
            message: data.message_id,
            delta: data.delta_content,
        },
        "assistant.tool_call_delta" => SessionEvent::CallDelta {
            call: data.tool_call_id,
            name: data.tool_name,
            delta: data.input_delta,
        },
        "assistant.usage" => SessionEvent::Usage {
            // The input includes cached tokens.
            usage: data.input_tokens.zip(data.output_tokens).map(|(input, output)| Usage {
                input_tokens: input,
                output_tokens: output,
                total_tokens: input.saturating_add(output),
                cache_read_tokens: data.cache_read_tokens,
                cache_write_tokens: data.cache_write_tokens,
                reasoning_tokens: data.reasoning_tokens,
                ..Usage::default()
            }),
            finish_reason: data.finish_reason,
            model: data.model,
        },
        "model.message" => {
            let message: ModelMessage = serde_json::from_str(data.message?.get()).ok()?;
            let calls = message.tool_calls.filter(|_| message.role == "assistant")?;
            let calls = calls
                .into_iter()
                .filter_map(|call| Some((call.id, call.function?.arguments)));
            SessionEvent::RawCalls(calls.collect())
        }
        "model.call_final_result" => SessionEvent::CallEnded {
            is_success: data.result.is_some_and(|result| result.get() == "\"success\""),
        },
        "external_tool.requested" => SessionEvent::CallPending {
            request: data.request_id,
            call: data.tool_call_id,
        },
        "tool.execution_complete" => SessionEvent::CallAnswered {
            call: data.tool_call_id,
            is_success: data.success,
            content: data
                .result
                .and_then(|result| serde_json::from_str::<CallResult>(result.get()).ok())
                .unwrap_or_default()
                .content,
        },
        _ => SessionEvent::Warning {
            code: data.warning_type.to_uppercase(),
            message: data
                .message
                .and_then(|message| serde_json::from_str(message.get()).ok())
                .unwrap_or_default(),
        },
    })
}
