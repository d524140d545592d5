//! The caller's tools as an MCP server, and that server in a CLI's own configuration.
//!
//! In: the bound tools. Out: [`Declarations`]: names that every API and CLI accepts, schemas that every MCP client accepts, and the
//! way back to the caller's names.
//!
//! In: a JSON-RPC message of a client. Out: the answer of a server that has these tools and nothing else, or the fact that the client
//! calls a tool ([`Answered`]). There are two such servers: the bridge over HTTP (`bridge`), and the one over claude's control protocol
//! (`exchange::claude_live`).
//!
//! In: the URL and the token of a run's bridge ([`Callbacks`]). Out: the pieces of configuration that several CLIs share. The token goes
//! to private files and variables only: argv can be read by every user of the machine.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::{Declared, Tools};
use dfp_model::message::ToolSpec;

/// The name of the MCP server with the caller's tools in a CLI's configuration.
pub const SERVER: &str = "df";

/// The longest name that still fits behind a CLI's prefix, of which `mcp__df__` is the longest. The API takes
/// `[a-zA-Z0-9_-]{1,64}`. qwen (0.24.4) and gemini (0.61.0) shorten names of more than 63 characters, and a shortened name could
/// not be mapped back.
const MAX_NAME: usize = super::MAX_NAME - 1 - "mcp____".len() - SERVER.len();

/// The prefixes that CLIs put before these names: claude, codex and qwen; gemini; codex in its events.
const PREFIXES: [&str; 3] = ["mcp__df__", "mcp_df_", "df."];

/// The most characters of a result. Of a longer one claude would show the model a preview of 2 KB only (CLI-FACTS 1b §6).
pub const MAX_RESULT_CHARS: u32 = 500_000;

/// The names of properties that every JavaScript object has. A client that keeps a server's tools in an object takes a tool of such
/// a name for a duplicate, and drops all tools of the server (qwen 0.24.4).
const OF_EVERY_OBJECT: [&str; 12] = [
    "__defineGetter__",
    "__defineSetter__",
    "__lookupGetter__",
    "__lookupSetter__",
    "__proto__",
    "constructor",
    "hasOwnProperty",
    "isPrototypeOf",
    "propertyIsEnumerable",
    "toLocaleString",
    "toString",
    "valueOf",
];

/// The declarations of all of the caller's tools.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Declarations {
    tools: Tools,
}

impl Declarations {
    /// Declares `tools`, in their order.
    pub fn new(tools: &[ToolSpec]) -> Declarations {
        Declarations {
            tools: Tools::avoiding(tools, MAX_NAME, |name| OF_EVERY_OBJECT.contains(&name)),
        }
    }

    /// The declared tools, in the caller's order.
    pub fn tools(&self) -> &[Declared] {
        self.tools.declared()
    }

    /// The caller's name of the tool with the wire name `name`, without a prefix; `None` for a foreign tool.
    pub fn known(&self, name: &str) -> Option<&str> {
        self.tools.callers_name(name)
    }

    /// The caller's name of the tool that a CLI calls `name`, with or without its prefix; `None` for a tool of the CLI's own.
    pub fn ours(&self, name: &str) -> Option<&str> {
        let bare = PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix));
        self.known(bare.unwrap_or(name))
    }

    /// The caller's names of the tools that are not among those that a CLI says it offers its model.
    pub fn missing(&self, offered: &[String]) -> Vec<String> {
        let listed: Vec<_> = offered.iter().filter_map(|name| self.ours(name)).collect();
        let bound = self.tools().iter().map(|tool| self.callers_name(&tool.name));
        bound.filter(|name| !listed.contains(&name.as_str())).collect()
    }

    /// The wire name of the caller's tool `name`, without a prefix. A tool that was not declared (of an earlier call in the thread)
    /// gets the name that it might have had.
    pub fn wire_name(&self, name: &str) -> String {
        self.tools.wire_name(name, MAX_NAME)
    }

    /// The caller's name of the tool that the model called `name`. A name that was never declared is returned without its prefix.
    pub fn callers_name(&self, name: &str) -> String {
        let bare = name.strip_prefix(PREFIXES[0]).unwrap_or(name);
        self.known(bare).unwrap_or(bare).to_owned()
    }
}

/// The versions of the protocol that the CLIs were measured with, the latest last. Later ones have no sessions, by which repeated
/// requests are recognised.
pub const VERSIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
/// The latest of them; claude 2.1.197 and 2.1.330 name it.
pub const LATEST: &str = VERSIONS[VERSIONS.len() - 1];

/// JSON-RPC's code of a request that makes no sense here.
pub const INVALID_REQUEST: i32 = -32_600;
/// JSON-RPC's code of an unknown method.
const NO_METHOD: i32 = -32_601;
/// JSON-RPC's code of parameters that can't be read.
pub const INVALID_PARAMS: i32 = -32_602;
/// JSON-RPC's code of a failure of the server's own.
pub const INTERNAL: i32 = -32_603;

/// The result of a message.
#[derive(Debug)]
pub enum Answered {
    /// An answer to send back.
    With(Box<RawValue>),
    /// An answer to send back, after which the client knows the tools.
    Tools(Box<RawValue>),
    /// The message is a notification or an answer, to which MCP has no answer.
    Nothing,
    /// The client calls a tool.
    Call,
}

/// A JSON-RPC message, as far as it is read here.
#[derive(Debug, Default, Deserialize)]
pub struct Message<'a> {
    /// The id of a request.
    #[serde(borrow)]
    pub id: Option<&'a RawValue>,
    /// The method; `None` in an answer.
    #[serde(borrow)]
    pub method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub params: Option<&'a RawValue>,
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
    capabilities: McpServerCapabilities,
    server_info: ServerInfo,
}

#[derive(Serialize)]
struct McpServerCapabilities {
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
    #[serde(skip_serializing_if = "Option::is_none")]
    annotations: Option<Annotations>,
    #[serde(rename = "_meta")]
    meta: Meta,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Annotations {
    read_only_hint: bool,
}

#[derive(Serialize)]
struct Meta {
    #[serde(rename = "anthropic/maxResultSizeChars")]
    max_result_size_chars: u32,
}

/// Answers `message` for a server that has `tools`, which are declared as read-only if `read_only` is true.
pub fn answer(tools: &[Declared], read_only: bool, message: &Message) -> Answered {
    let Message {
        id: Some(id),
        method: Some(method),
        params,
    } = message
    else {
        return Answered::Nothing;
    };
    match method.as_ref() {
        "initialize" => Answered::With(result(
            id,
            Initialized {
                protocol_version: protocol(*params),
                capabilities: McpServerCapabilities { tools: Nothing {} },
                server_info: ServerInfo {
                    name: "deep-factor-providers",
                    version: env!("CARGO_PKG_VERSION"),
                },
            },
        )),
        "ping" => Answered::With(result(id, Nothing {})),
        "tools/list" => {
            let tools = tools.iter().map(|tool| Tool {
                name: &tool.name,
                description: tool.description.as_deref(),
                input_schema: serde_json::from_str(&tool.schema).ok(),
                annotations: read_only.then_some(Annotations { read_only_hint: true }),
                meta: Meta {
                    max_result_size_chars: MAX_RESULT_CHARS,
                },
            });
            Answered::Tools(result(id, Listed { tools: tools.collect() }))
        }
        "tools/call" => Answered::Call,
        method => Answered::With(error(id, NO_METHOD, format!("this server has no method {method}"))),
    }
}

/// The version that the client asks for, or the latest.
fn protocol(params: Option<&RawValue>) -> Cow<'_, str> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct InitializeParams<'a> {
        #[serde(borrow)]
        protocol_version: Option<Cow<'a, str>>,
    }
    params
        .and_then(|params| serde_json::from_str::<InitializeParams>(params.get()).ok())
        .and_then(|params| params.protocol_version)
        .filter(|version| VERSIONS.contains(&version.as_ref()))
        .unwrap_or(Cow::Borrowed(LATEST))
}

/// The answer that claude wants even to a message that needs none (CLI-FACTS 1.7); without an id its recordings have 0.
pub fn acknowledged(message: &Message) -> Box<RawValue> {
    let zero = serde_json::from_str::<&RawValue>("0").unwrap_or(RawValue::NULL);
    result(message.id.unwrap_or(zero), Nothing {})
}

/// The answer to the call in `message`, with this result.
pub fn called(message: &Message, outcome: &RawValue) -> Box<RawValue> {
    result(message.id.unwrap_or(RawValue::NULL), outcome)
}

/// The id of the call in `message` by which its client names it under `key` in the request's `_meta`.
pub fn call_id(message: &Message, key: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct CallParams<'a> {
        #[serde(borrow, rename = "_meta")]
        meta: Option<&'a RawValue>,
    }
    let params: CallParams = serde_json::from_str(message.params?.get()).ok()?;
    let meta: Value = serde_json::from_str(params.meta?.get()).ok()?;
    meta.get(key)?.as_str().map(str::to_owned)
}

/// The answer to the request `id` that has succeeded.
pub fn result<T: Serialize>(id: &RawValue, result: T) -> Box<RawValue> {
    rpc(id, Outcome::Result(result))
}

/// The answer to the request `id` that has failed.
pub fn error(id: &RawValue, code: i32, message: impl Into<String>) -> Box<RawValue> {
    let message = message.into();
    rpc(id, Outcome::<Nothing>::Error { code, message })
}

fn rpc<T: Serialize>(id: &RawValue, outcome: Outcome<T>) -> Box<RawValue> {
    let rpc = Rpc {
        jsonrpc: "2.0",
        id,
        outcome,
    };
    to_raw_value(&rpc).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// The variable that holds the token for CLIs that take the name of one.
pub const TOKEN_VARIABLE: &str = "DEEP_FACTOR_BRIDGE_TOKEN";

/// The limit of a call, ms, longer than any run, since the caller decides how long a call may take.
pub const CALL_LIMIT_MS: u64 = 24 * 60 * 60 * 1000;

/// The default system prompt of a run whose tools are called natively: the usual one forbids tools that the thread does not list.
pub const SYSTEM_PROMPT: &str = "You are the model behind an agent. Each request is a conversation: as <thread> XML with one \
<event> per message, tool call and tool result in order, or as labelled text. Do what its last message asks: call your tools \
where you need them, then reply with the assistant's next message, plain text, not XML and no label.";

/// The bridge of a run.
#[derive(Clone, PartialEq, Eq)]
pub struct Callbacks {
    /// The bridge's URL; it holds no secret, so it may stand in argv.
    pub url: String,
    pub token: String,
}

/// The peculiarities of a CLI's MCP client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct McpClient {
    /// The member of a request's `_meta` in which the client puts the model's own id of a call.
    pub call_id: Option<&'static str>,
    /// The beginning of the client's name, if it takes a first text of a result that can be read as JSON for `structuredContent`,
    /// and then refuses any text that is no object.
    pub parsing: Option<&'static str>,
}

impl McpClient {
    /// A client without peculiarities.
    pub const PLAIN: McpClient = McpClient {
        call_id: None,
        parsing: None,
    };
}

impl fmt::Debug for Callbacks {
    /// Prints the bridge without its token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Callbacks")
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

impl Callbacks {
    /// The headers every request needs, as JSON.
    pub fn headers(&self) -> Value {
        json!({"Authorization": format!("Bearer {}", self.token)})
    }
}

/// A configuration with the `bridge` in it, `{"mcpServers": {"df": …}}`, in which `server` writes the bridge as the CLI takes it;
/// empty without one.
pub(crate) fn servers(bridge: Option<&Callbacks>, server: impl Fn(&Callbacks) -> Value) -> Value {
    match bridge {
        Some(callbacks) => json!({(SERVER): server(callbacks)}),
        None => json!({}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{self, Arg, CommandLine, EnvText, Installed, Mode};
    use crate::options::Options;
    use crate::{ALL, find};

    fn declared(names: &[&str]) -> Declarations {
        let tools: Vec<ToolSpec> = names
            .iter()
            .map(|name| ToolSpec {
                name: (*name).to_owned(),
                description: None,
                schema: RawValue::from_string("{}".to_owned()).unwrap(),
            })
            .collect();
        Declarations::new(&tools)
    }

    #[test]
    fn names_come_back_as_the_caller_wrote_them() {
        let (fits, long) = ("n".repeat(54), "n".repeat(55));
        let names = [
            "add",
            "get.weather",
            "a__b",
            "日本",
            &fits,
            &long,
            "constructor",
            "__proto__",
        ];
        let declared = declared(&names);
        assert!(
            declared
                .tools()
                .iter()
                .all(|tool| !OF_EVERY_OBJECT.contains(&tool.name.as_str()))
        );
        for (tool, name) in declared.tools().iter().zip(names) {
            assert!(format!("mcp__{SERVER}__{}", tool.name).len() <= 63);
            assert_eq!(declared.callers_name(&format!("mcp__df__{}", tool.name)), name);
        }
        assert_eq!(declared.callers_name("mcp__df__unheard_of"), "unheard_of");
        assert_eq!(declared.callers_name("Bash"), "Bash");
    }

    #[test]
    fn every_clis_prefix_is_known_and_its_own_tools_are_not_ours() {
        let declared = declared(&["get.weather", "add"]);
        let wire = &declared.tools()[0].name;
        for prefix in PREFIXES.iter().chain(&[""]) {
            assert_eq!(declared.ours(&format!("{prefix}{wire}")), Some("get.weather"));
        }
        for foreign in ["Bash", "mcp__other__add", "df_rm", "get.weather", ""] {
            assert_eq!(declared.ours(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn the_same_tools_are_declared_alike() {
        assert_eq!(declared(&["a.b", "a b"]), declared(&["a.b", "a b"]));
        assert_ne!(declared(&["a.b"]), declared(&["a b"]));
    }

    fn ask(message: &Value, read_only: bool) -> Value {
        let tools = [Declared {
            name: "add".to_owned(),
            description: Some("Adds".to_owned()),
            schema: r#"{"type":"object","properties":{"z":{"const":1.0},"a":{}}}"#.to_owned(),
        }];
        let message = message.to_string();
        match answer(&tools, read_only, &serde_json::from_str(&message).unwrap()) {
            Answered::With(answer) | Answered::Tools(answer) => serde_json::from_str(answer.get()).unwrap(),
            Answered::Nothing => Value::Null,
            Answered::Call => json!("called"),
        }
    }

    #[test]
    fn every_request_has_its_answer() {
        let initialized = |version: &str| {
            let params = json!({"protocolVersion": version, "capabilities": {}});
            ask(
                &json!({"method": "initialize", "params": params, "id": 0, "jsonrpc": "2.0"}),
                false,
            )
        };
        assert_eq!(
            initialized("2025-06-18"),
            json!({"jsonrpc": "2.0", "id": 0, "result": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                   "serverInfo": {"name": "deep-factor-providers", "version": env!("CARGO_PKG_VERSION")}}})
        );
        assert_eq!(initialized("2099-01-01")["result"]["protocolVersion"], LATEST);
        let mut tool = json!({"name": "add", "description": "Adds",
            "inputSchema": {"type": "object", "properties": {"z": {"const": 1.0}, "a": {}}},
            "_meta": {"anthropic/maxResultSizeChars": 500_000}});
        let list = json!({"method": "tools/list", "id": "x"});
        assert_eq!(
            ask(&list, false),
            json!({"jsonrpc": "2.0", "id": "x", "result": {"tools": [tool]}})
        );
        tool["annotations"] = json!({"readOnlyHint": true});
        assert_eq!(ask(&list, true)["result"]["tools"], json!([tool]));
        let notification = json!({"method": "notifications/initialized"});
        assert_eq!(ask(&notification, false), Value::Null);
        assert_eq!(
            acknowledged(&Message::default()).get(),
            r#"{"jsonrpc":"2.0","id":0,"result":{}}"#
        );
        assert_eq!(ask(&json!({"result": {}, "id": 0}), false), Value::Null);
        assert_eq!(ask(&json!({"method": "ping", "id": 7}), false)["result"], json!({}));
        assert_eq!(
            ask(&json!({"method": "resources/list", "id": 7}), false),
            json!({"jsonrpc": "2.0", "id": 7,
                   "error": {"code": -32601, "message": "this server has no method resources/list"}})
        );
        assert_eq!(
            ask(&json!({"method": "tools/call", "id": 2, "params": {}}), false),
            json!("called")
        );
    }

    fn line(id: &str, options: &str) -> CommandLine {
        line_of(id, options, Installed::default())
    }

    fn line_of(id: &str, options: &str, installed: Installed) -> CommandLine {
        let provider = find(id).unwrap();
        let callbacks = Some(Callbacks {
            url: "http://127.0.0.1:4711/mcp".to_owned(),
            token: "SECRET".to_owned(),
        });
        let options = Options {
            callbacks,
            ..Options::parse(provider, options).unwrap()
        };
        command::build(provider, &options, Mode::Print("PROMPT"), false, &installed).unwrap()
    }

    fn argv(line: &CommandLine) -> String {
        let args = line.args.iter().map(|arg| match arg {
            Arg::Text(text) if text == SYSTEM_PROMPT => "SYSTEM".to_owned(),
            Arg::Text(text) => text.clone(),
            Arg::File(name) | Arg::FileSetting(_, name) => format!("<{name}>"),
            Arg::MediaFile(prefix, name) => format!("{prefix}<{name}>"),
        });
        args.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn who_takes_callbacks() {
        let takers = |options: &str| -> Vec<&str> {
            let taking = ALL.iter().filter(|provider| {
                let options = Options::parse(provider, options).unwrap();
                command::takes_callbacks(provider, &options)
            });
            taking.map(|provider| provider.id.as_ref()).collect()
        };
        assert_eq!(takers("{}"), ["claude", "codex", "gemini", "qwen"]);
        assert_eq!(takers(r#"{"cwd":"/"}"#), ["claude", "codex", "qwen"]);
    }

    /// The token is never in argv, since everybody on the machine can read that.
    #[test]
    fn the_token_is_in_a_file_or_a_variable_and_never_in_argv() {
        for id in ["claude", "codex", "gemini", "qwen"] {
            let line = line(id, "{}");
            assert!(!argv(&line).contains("SECRET"), "{id}");
            let has_token = |text: &str| text.contains("SECRET");
            let in_file = line.files.iter().any(|file| has_token(&file.content));
            let in_variable = line
                .set_env
                .iter()
                .any(|(_, text)| matches!(text, EnvText::Text(text) if has_token(text)));
            assert!(in_file || in_variable, "{id} does not get the token");
        }
    }

    #[test]
    fn command_lines_with_a_bridge() {
        assert_eq!(
            argv(&line("claude", "{}")),
            "-p --output-format stream-json --verbose --include-partial-messages --settings <settings.json> --mcp-config <mcp.json> \
             --allowedTools mcp__df --setting-sources user --tools  --strict-mcp-config --no-session-persistence \
             --disable-slash-commands --system-prompt SYSTEM"
        );
        let codex = argv(&line("codex", "{}"));
        assert!(
            codex.ends_with(
                "-c mcp_servers.df.url=\"http://127.0.0.1:4711/mcp\" -c \
                 mcp_servers.df.bearer_token_env_var=\"DEEP_FACTOR_BRIDGE_TOKEN\" -c \
                 mcp_servers.df.default_tools_approval_mode=\"approve\" -c mcp_servers.df.tool_timeout_sec=86400 -c \
                 mcp_servers.df.startup_timeout_sec=300 -"
            ),
            "{codex}"
        );
        assert_eq!(
            argv(&line("gemini", "{}")),
            "--skip-trust --policy <policy.toml> --extensions none --allowed-mcp-server-names df --output-format stream-json"
        );
        let qwen = argv(&line("qwen", "{}"));
        let begin = "--mcp-config <mcp.json> --allowed-mcp-server-names df --system-prompt SYSTEM";
        assert!(qwen.starts_with(begin) && !qwen.contains("--bare"), "{qwen}");
        let newer = Installed {
            version: Some([0, 24, 4]),
            ..Installed::default()
        };
        assert_eq!(
            argv(&line_of("qwen", "{}", newer)),
            "--mcp-config <mcp.json> --allowed-mcp-server-names df --bare --system-prompt SYSTEM --exclude-tools read_file edit \
             run_shell_command get_goal update_goal --output-format stream-json"
        );
    }
}
