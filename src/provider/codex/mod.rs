//! codex (OpenAI Codex CLI), measured with 0.169.0 (CLI-FACTS 2).
//!
//! The default is the smallest request that was measured (3.4 KB), with every kind of login and the user's own model provider.
//! codex's own retries stay (429: 6 requests in 10.6 s, 500: 30 requests in 25 s): they are settings of a model provider, and a
//! user can't override those of the built-in one, which a login uses. Without a network codex waits for ever, so there is always a
//! time limit.
//!
//! Its live form is `codex app-server` (`exchange::codex_live`; CODEX-LIVE, measured with 0.150.0 and 0.169.0), where the settings of
//! each thread are made.
//!
//! How it fails, and what helps, stands at the end (`ERRORS`).

use std::borrow::Cow;

use super::capability::{ByEngine, Capabilities, NATIVE, SOME_ASKED};
use super::errors::{CLAP, Channel, Condition::*, Errors, RefusedFlag, Rule};
use super::installed::{self, Place, Root};
use super::options::{self, EngineKind, OptionSpec, OutputFormat};
use super::{
    About, Announced, Checks, Defaults, EngineCheck, EnvValue, FileSpec, LiveForm, LoginAnswer, LoginCheck, LoginDir,
    LoginKind, LoginSign, LoginWords, OUTPUT_SCHEMA_FILE, PromptLimit, Provider, Reading, SYSTEM_PROMPT_FILE,
    SchemaForm, SettingsFile, SettingsForm, SettingsPlace, Unbeaten, UserSettings, Versions, When, Word, flag,
    optional, output_schema, pure, system_prompt, unbeaten, var_when,
};
use crate::declare::mcp::{McpClient, TOKEN_VARIABLE};
use crate::models::{Models, size};
use crate::{MediaForm, MediaSupport};
use Word::Lit;
use dfp_model::error::Code;
use dfp_model::event::EngineUsed;
use dfp_model::message::content::Accepts;
use dfp_text::decode::Wire;

/// The models of codex 0.169.0, with the sizes that `modelContextWindow` of a turn reports (`__tests__/langchain/sizes.test.ts`);
/// it names no limit of an answer.
const MODELS: Models = Models {
    vendor: Some("openai"),
    company: Some("openai"),
    names: Some("^(gpt-|o[0-9])"),
    aliases: &[],
    sizes: &[
        size("gpt-5.5", 258_400, None),
        size("gpt-6-luna", 258_400, None),
        size("gpt-6.1-sol", 258_400, None),
    ],
    takes_image_urls: false,
};

/// The tool of its API's own for searching the web, as events name it.
pub const WEB_SEARCH: &str = "web_search";

/// The codex CLI.
pub static CODEX: Provider = Provider {
    id: Cow::Borrowed("codex"),
    command: Cow::Borrowed("codex"),
    places: &[
        &[Place::new(
            Root::Variable("CODEX_INSTALL_DIR", Some(".local/bin")),
            "",
            "install.sh of openai/codex: `CODEX_INSTALL_DIR`",
        )],
        installed::HOMEBREW,
        installed::NODE,
        installed::WINDOWS,
    ],
    about: About {
        name: "Codex",
        versions: &["0.169.0"],
        sent: "in print form two harmless tools (`request_user_input`, `view_image`)",
        not_isolated: "in print form, `~/.codex/config.toml` with its MCP servers, unless `ignoreUserConfig: true`; `~/.codex/AGENTS.md` is \
                       sent; codex writes its sqlite files, `skills/.system`, `.tmp` and `installation_id` to `~/.codex`",
        limits: "without a network it waits for ever, so there is always a `timeout`; in print form, its own retries can't be switched off \
                 (up to 25 s on a 500), a prompt may have 1048576 characters, and there are whole messages, no text deltas",
    },
    defaults: Defaults {
        engine: EngineKind::Auto,
        ..Defaults::STANDARD
    },
    flags: &[
        flag(
            &[When::Print],
            &[Lit("exec"), Lit("--json"), Lit("--skip-git-repo-check")],
        ),
        flag(&[When::Print], &[Lit("--sandbox"), Word::Sandbox]),
        optional(&[When::Print], &[Lit("--ephemeral")]),
        flag(&[When::Print, When::IgnoreUserConfig], &[Lit("--ignore-user-config")]),
        // With "=", since the flag is variadic and would swallow what follows.
        flag(&[When::Print, When::Media], &[Word::MediaFiles("--image=")]),
        flag(&[When::Print, When::Model], &[Lit("--model"), Word::Model]),
        flag(
            &[When::Print, When::Effort],
            &[Lit("-c"), Word::EffortSetting("model_reasoning_effort")],
        ),
        flag(
            &[When::Print, When::ServiceTier],
            &[Lit("-c"), Word::ServiceTierSetting("service_tier")],
        ),
        flag(
            &[When::Print, When::SystemPrompt],
            &[
                Lit("-c"),
                Word::FileSetting("model_instructions_file", SYSTEM_PROMPT_FILE),
            ],
        ),
        // An override that codex does not know is no error; a feature that it does not know is (CLI-FACTS 2).
        flag(
            &[When::Print, When::ToolsOff, When::NoWebSearch],
            &[Lit("-c"), Lit("web_search=\"disabled\"")],
        ),
        flag(
            &[When::Print, When::WebSearch],
            &[Lit("-c"), Lit("web_search=\"live\"")],
        ),
        flag(
            &[When::Print, When::ToolsOff],
            &[Lit("-c"), Lit("project_doc_max_bytes=0")],
        ),
        flag(
            &[When::Print, When::ToolsOff],
            &[Lit("-c"), Lit("include_environment_context=false")],
        ),
        flag(
            &[When::Print, When::ToolsOff],
            &[Lit("-c"), Lit("include_permissions_instructions=false")],
        ),
        flag(
            &[When::Print, When::ToolsOff],
            &[Lit("-c"), Lit("skills.include_instructions=false")],
        ),
        // The user's own, of `config.toml`: instructions, a program that is run after each answer, and what is off by default, each of it a
        // tool or a text more (0.169.0).
        flag(&[When::Print, When::ToolsOff], USERS_OWN),
        // Not optional: with a shell, the run would not be that of a model alone.
        flag(&[When::Print, When::ToolsOff], &[Lit("--disable"), Lit("shell_tool")]),
        optional(&[When::Print, When::ToolsOff], &[Lit("--disable"), Lit("multi_agent")]),
        optional(&[When::Print, When::ToolsOff], &[Lit("--disable"), Lit("goals")]),
        flag(
            &[When::Print, When::Callbacks],
            &[Lit("-c"), Word::BridgeUrlSetting("mcp_servers.df.url")],
        ),
        flag(
            &[When::Print, When::Callbacks],
            &[
                Lit("-c"),
                Lit("mcp_servers.df.bearer_token_env_var=\"DEEP_FACTOR_BRIDGE_TOKEN\""),
            ],
        ),
        // The caller decides which tools may be called; there is nobody here to ask.
        flag(
            &[When::Print, When::Callbacks],
            &[Lit("-c"), Lit("mcp_servers.df.default_tools_approval_mode=\"approve\"")],
        ),
        // The CLI's own limit is 60 s.
        flag(
            &[When::Print, When::Callbacks],
            &[Lit("-c"), Lit("mcp_servers.df.tool_timeout_sec=86400")],
        ),
        // A server that is not ready within its own limit (10 s) is left out, and the run goes on without the tools.
        flag(
            &[When::Print, When::Callbacks],
            &[Lit("-c"), Lit("mcp_servers.df.startup_timeout_sec=300")],
        ),
        optional(
            &[When::Print, When::OutputSchema],
            &[Lit("--output-schema"), Word::File(OUTPUT_SCHEMA_FILE)],
        ),
        // This says that the prompt comes over standard input.
        flag(&[When::Print], &[Lit("-")]),
        // What acts at a process's start and in no thread (CODEX-LIVE §3.1): no plugins, whose lists it would fetch from the
        // network at every start, nothing sent to the vendor but requests, an error where there is no network, no skills of its own
        // written to disk, threads forgotten when nobody has them, a tool left out that no thread can leave out.
        flag(&[When::Live], &[Lit("app-server")]),
        flag(&[When::Live], &[Lit("-c"), Lit("features.plugins=false")]),
        flag(&[When::Live], &[Lit("-c"), Lit("features.apps=false")]),
        flag(&[When::Live], &[Lit("-c"), Lit("features.remote_plugin=false")]),
        flag(
            &[When::Live],
            &[Lit("-c"), Lit("features.unbounded_connection_retries=false")],
        ),
        flag(&[When::Live], &[Lit("-c"), Lit("analytics.enabled=false")]),
        flag(&[When::Live], &[Lit("-c"), Lit("check_for_update_on_startup=false")]),
        flag(&[When::Live], &[Lit("-c"), Lit("skills.bundled.enabled=false")]),
        flag(
            &[When::Live],
            &[Lit("-c"), Lit("suppress_unstable_features_warning=true")],
        ),
        flag(&[When::Live], &[Lit("-c"), Lit("thread_unload_delay_secs=0")]),
        flag(&[When::Live], &[Lit("-c"), Lit("features.multi_env_copy_file=false")]),
    ],
    env: &[var_when(&[When::Callbacks], TOKEN_VARIABLE, EnvValue::BridgeToken)],
    files: &[
        FileSpec {
            when: &[When::Print, When::SystemPrompt],
            name: SYSTEM_PROMPT_FILE,
            content: system_prompt,
        },
        FileSpec {
            when: &[When::Print, When::OutputSchema],
            name: OUTPUT_SCHEMA_FILE,
            content: output_schema,
        },
    ],
    user_settings: Some(UserSettings {
        ours: None,
        files: &[
            SettingsFile {
                place: SettingsPlace::User(".codex", "config.toml"),
                form: SettingsForm::Toml,
                unbeaten: &[SERVERS],
                logins: &[],
            },
            SettingsFile {
                place: SettingsPlace::User(".codex", "AGENTS.md"),
                form: SettingsForm::Text,
                unbeaten: INSTRUCTIONS,
                logins: &[],
            },
            SettingsFile {
                place: SettingsPlace::User(".codex", "AGENTS.override.md"),
                form: SettingsForm::Text,
                unbeaten: INSTRUCTIONS,
                logins: &[],
            },
        ],
    }),
    wires: &[(OutputFormat::StreamJson, Wire::CodexJson)],
    own_options: OPTIONS,
    live: Some(LiveForm {
        folder: "codex_live",
        takes_schema: true,
        may_have_tools: false,
        has_turns_in_print: false,
        always_gets: Some("the file of its catalog of models"),
    }),
    media: MediaSupport {
        print: ACCEPTS,
        form: Some(MediaForm::Files),
        live: ACCEPTS,
    },
    capabilities: ByEngine {
        print: CAPABILITIES,
        live: Some(Capabilities { ..CAPABILITIES }),
    },
    off_effort: Some("none"),
    models: MODELS,
    web_search: Some(WEB_SEARCH),
    mcp: McpClient {
        call_id: Some("callId"),
        ..McpClient::PLAIN
    },
    schema: SchemaForm::Strict,
    prompt_limit: Some(PromptLimit::Chars(1_048_576)),
    errors: ERRORS,
    checks: Checks {
        // Exit code 1 and "Not logged in" on standard error (CLI-FACTS 2).
        login: Some(LoginCheck {
            args: &["login", "status"],
            answer: LoginAnswer::ExitCode("Not logged in"),
            // On standard error. The key and ChatGPT are what 0.169.0 says (health.test.ts asks it), the others stand in its program.
            kinds: &[
                LoginSign::new(LoginKind::Gateway, LoginWords::Line("Logged in using Amazon Bedrock")),
                LoginSign::new(LoginKind::Key, LoginWords::Line("API key configured")),
                LoginSign::new(LoginKind::Key, LoginWords::Line("Logged in using an API key")),
                LoginSign::new(LoginKind::Plan, LoginWords::Line("Logged in using ChatGPT")),
                // The login of a workspace's members and machines.
                LoginSign::new(LoginKind::Plan, LoginWords::Line("Logged in using access token")),
                LoginSign::new(
                    LoginKind::Plan,
                    LoginWords::Line("Logged in using personal access token"),
                ),
                LoginSign::new(LoginKind::Plan, LoginWords::Line("Logged in using workload identity")),
            ],
            details: &[],
            gateways: &[],
        }),
        live: Some(EngineCheck {
            package: "@openai/codex",
            version_folders: &[],
            program: "codex",
            versions: Versions::Measured(&[[0, 150, 0], [0, 169, 0]]),
            print_flags: EXEC_FLAGS,
            print_env: &[],
            announces: Announced::All,
            measured_only: false,
        }),
        reading: Reading {
            flags: &["--enable", "--profile", "-p", "resume"],
            settings: &["mcp_servers", "features.", "profile=", "tools.", "web_search"],
            config: &[],
        },
        ..Checks::VERSION_ONLY
    },
    login_dir: Some(LoginDir {
        variable: "CODEX_HOME",
        holds: "what is in `~/.codex`",
    }),
    ..Provider::BASE
};

/// The user's servers: no setting switches off all of them, whatever their names (0.169.0). A live process has a home of its own.
const SERVERS: Unbeaten = unbeaten(
    &["mcp_servers"],
    "starts servers in print form, whose tools the model may call; `ignoreUserConfig: true` leaves them out",
    |options, used| pure(options, used) && used == EngineUsed::Print && !options.ignore_user_config,
);

/// The user's instructions: no setting leaves them out (0.169.0).
const INSTRUCTIONS: &[Unbeaten] = &[unbeaten(
    &[],
    "is read by the model in print form; a live call leaves it out",
    |options, used| pure(options, used) && used == EngineUsed::Print,
)];

/// The flags against those settings of the user's `config.toml` that would reach the model in print form, or run a program.
const USERS_OWN: &[Word] = &[
    Lit("-c"),
    Lit("model_auto_compact_token_limit=9007199254740991"),
    Lit("-c"),
    Lit("developer_instructions=\"\""),
    Lit("-c"),
    Lit("notify=[]"),
    Lit("-c"),
    Lit("features.code_mode=false"),
    Lit("-c"),
    Lit("features.code_mode_only=false"),
    Lit("-c"),
    Lit("features.current_time_reminder=false"),
    Lit("-c"),
    Lit("features.deferred_executor=false"),
    Lit("-c"),
    Lit("features.executor_capability_discovery_v2=false"),
    Lit("-c"),
    Lit("features.multi_agent_v2=false"),
    Lit("-c"),
    Lit("features.multi_env_copy_file=false"),
    Lit("-c"),
    Lit("features.request_permissions_tool=false"),
    Lit("-c"),
    Lit("features.rollout_budget=false"),
    Lit("-c"),
    Lit("features.send_message_to_user_async=false"),
    Lit("-c"),
    Lit("features.token_budget=false"),
];

/// The flags of `exec` that `app-server` does not have.
const EXEC_FLAGS: &[&str] = &[
    "-i",
    "--image",
    "-m",
    "--model",
    "--oss",
    "--local-provider",
    "-p",
    "--profile",
    "-s",
    "--sandbox",
    "--approve-for-me",
    "--dangerously-bypass-approvals-and-sandbox",
    "--dangerously-bypass-hook-trust",
    "-C",
    "--cd",
    "--worktree",
    "--add-dir",
    "--thread-source",
    "--cyber-access-program",
    "--skip-git-repo-check",
    "--trust",
    "--ephemeral",
    "--ignore-user-config",
    "--ignore-rules",
    "--output-schema",
    "--color",
    "--json",
    "-o",
    "--output-last-message",
];

/// The capabilities of both forms.
const CAPABILITIES: Capabilities = Capabilities {
    pure: true,
    structured_output: NATIVE.but(SOME_ASKED),
    images: NATIVE,
    result_images: NATIVE,
    reasoning_out: NATIVE,
    reasoning_effort: NATIVE.but("`model_reasoning_effort`"),
    reasoning_off: NATIVE.but("the effort `none`, which not every model has"),
    service_tier: NATIVE.but("`flex`, or one that the model has; a `warning` tells where it has not"),
    web_search: NATIVE.but("`web_search` of its API"),
    login: NATIVE.but("`CODEX_HOME`"),
    ..Capabilities::LEAST
};

/// The content that both forms take. OpenAI's API takes 512 MB in a request (its page "Images and vision"). "remote image URLs are
/// not supported" (CODEX-LIVE §2.3), and files of users are refused.
const ACCEPTS: Accepts = Accepts::images(512 << 20);

const OPTIONS: &[OptionSpec] = &[
    options::TIMEOUT_ALWAYS,
    options::SYSTEM_PROMPT,
    options::DISABLE_BUILT_IN_TOOLS,
    options::SANDBOX,
    options::IGNORE_USER_CONFIG,
    options::KEEP_ALIVE,
    options::TOOL_FORM,
    options::SESSIONS,
    // What agents pass that start codex themselves (deep-factor-agent's terminal: "text" where it shows no updates). They change
    // nothing: output is always read as JSON lines, and the private folder that codex runs in is no repository.
    OptionSpec {
        name: "outputFormat",
        kind: options::Kind::OneOf(&["jsonl", "text"]),
    },
    OptionSpec {
        name: "skipGitRepoCheck",
        kind: options::Kind::Flag,
    },
];

/// The failures of Codex (codex-cli 0.169.0; CLI-FACTS 2). They are prose without a field; the common rules read the status of
/// `unexpected status 401 …`.
const ERRORS: Errors = Errors {
    rules: RULES,
    hints: HINTS,
    refused_flags: &[CLAP, FEATURE],
    channel: Channel {
        noise: &[r"reading\ additional\ input\ from\ stdin.*"],
        // Banner and echo of the prompt (0.169.0).
        transcript: Some("OpenAI Codex v"),
        ..Channel::PLAIN
    },
    ..Errors::NONE
};

/// The refusal of a feature that it does not know; that is fatal (CLI-FACTS 2). The wording was not measured.
const FEATURE: RefusedFlag = RefusedFlag {
    sentence: r"unknown feature flag: (\w[\w-]*)",
    prefix: "--disable ",
};

const HINTS: &[(Code, &str)] = &[
    (Code::NotLoggedIn, "run `codex login`"),
    (Code::TokenExpired, "run `codex logout`, then `codex login`"),
    (Code::AuthenticationFailed, "run `codex login`"),
    (Code::InvalidApiKey, "run `codex login`, or correct OPENAI_API_KEY"),
    (
        Code::CliNotFound,
        "install it with `npm install -g @openai/codex`, or set `cliPath`",
    ),
];

#[rustfmt::skip] // One rule, one row.
const RULES: &[Rule] = &[
    // The failures that a live turn (`codexErrorInfo`; CODEX-LIVE §5) or the live engine has a word for.
    Rule::new(&[Kind("usage_limit_exceeded"), Text("<quota exceeded>")], Code::QuotaExceeded, "Quota exceeded. Check your plan and billing details."),
    Rule::new(&[Kind("usage_limit_exceeded")], Code::UsageLimit, "To use Codex with your ChatGPT plan, upgrade to Plus."),
    Rule::new(&[Kind("context_window_exceeded")], Code::ContextLength, "Codex ran out of room in the model's context window."),
    Rule::new(&[Kind("model_not_found")], Code::ModelNotFound, "The requested model 'm' does not exist."),
    Rule::new(&[Kind("server_overloaded")], Code::Overloaded, "Selected model is at capacity. Please try a different model."),
    Rule::new(&[Kind("internal_server_error")], Code::ServerError, "We’re currently experiencing high demand"),
    Rule::new(&[Kind("response_too_many_failed_attempts"), Status(429)], Code::RateLimited, "exceeded retry limit, last status: 429 Too Many Requests"),
    Rule::new(&[Kind("rate_limit_exceeded")], Code::RateLimited, "rate limit exceeded: try again in 11.054s"),
    Rule::new(&[Kind("cyber_policy")], Code::Refusal, "This request was refused by policy."),
    Rule::new(&[Kind("refused_answer")], Code::Refusal, "the model began an answer and gave none: it refused"),
    Rule::new(&[Kind("silent_stream")], Code::ConnectionLost, "stream disconnected before completion: nothing came behind a tool call"),
    Rule::new(&[Kind("context_compaction")], Code::ContextLength, "codex replaces the history by a summary of its own").hint("shorten the thread: its model takes no more"),
    Rule::new(&[Kind("server_gone")], Code::Crashed, "codex app-server ended in the middle of a turn"),
    Rule::new(&[Kind("unknown_server_request")], Code::MalformedResponse, "codex asks for item/tool/requestUserInput, which is not understood here"),
    Rule::new(&[Kind("http_connection_failed"), Text("<error sending request>")], Code::ConnectionFailed, "Connection failed: error sending request"),
    Rule::new(&[Text("<incomplete response returned, reason: max_output_tokens>")], Code::MaxTokens, "Incomplete response returned, reason: max_output_tokens"),
    Rule::new(&[Text("<incomplete response returned, reason: content_filter>")], Code::Refusal, "stream disconnected before completion: Incomplete response returned, reason: content_filter"),
    Rule::new(&[Text("<thread not found>")], Code::ConnectionLost, "thread not found: 01a2"),
    Rule::new(&[Text("<failed to load configuration>")], Code::InvalidConfig, "failed to load configuration: No such file or directory (os error 2)").hint("correct ~/.codex/config.toml"),
    // bin/codex.js of 0.169.0 without its package for the platform.
    Rule::new(&[Text("<missing optional dependency @openai/codex")], Code::CliNotExecutable, "Missing optional dependency @openai/codex-linux-x64. Reinstall Codex: npm install -g @openai/codex@latest").hint("run `npm install -g --include=optional @openai/codex@latest`"),
    Rule::new(&[Text("<you've hit your usage limit|<hit your usage limit")], Code::UsageLimit, "You’ve hit your usage limit. Upgrade to Pro or try again at 10:50 PM."),
    Rule::new(&[Text("<quota exceeded\\. check your plan")], Code::QuotaExceeded, "Quota exceeded. Check your plan and billing details."),
    Rule::new(&[Text("<selected model is at capacity>")], Code::Overloaded, "Selected model is at capacity. Please try a different model."),
    Rule::new(&[Text("<experiencing high demand>")], Code::ServerError, "We’re currently experiencing high demand, which may cause temporary errors."),
    Rule::new(&[Text("<ran out of room in the model's context")], Code::ContextLength, "Codex ran out of room in the model's context window. Start a new thread or clear earlier history before retrying."),
    Rule::new(&[Text("<input exceeds the maximum length>|<input_too_large>")], Code::PromptTooLong, "Error: turn/start: turn/start failed: Input exceeds the maximum length of 1048576 characters.").hint("shorten the thread: codex takes at most 1048576 characters"),
    Rule::new(&[Text("<missing environment variable>")], Code::NotLoggedIn, "Missing environment variable: `OPENAI_API_KEY`.").hint("set the environment variable that it names"),
    Rule::new(&[Text("<not logged in>")], Code::NotLoggedIn, "Not logged in"),
    Rule::new(&[Text("<(?:access|refresh) token (?:could not be refreshed|was already used|has expired)|<sign in again>")], Code::TokenExpired, "Your access token could not be refreshed. Please log out and sign in again."),
    Rule::new(&[Text("<is not supported when using codex with a chat_gpt account>")], Code::ModelNotFound, "The 'gpt-4' model is not supported when using Codex with a ChatGPT account."),
    Rule::new(&[Text("<waiting for network>|<failed to lookup address>")], Code::ConnectionFailed, "Reconnecting... waiting for network (Connection failed: error sending request)"),
    Rule::new(&[Text("<stream disconnected before completion>")], Code::ConnectionLost, "stream disconnected before completion: stream closed before response.completed"),
    Rule::new(&[Text("<no prompt provided>")], Code::EmptyPrompt, "No prompt provided via stdin."),
    Rule::new(&[Text("<not inside a trusted directory>")], Code::UntrustedWorkspace, "Not inside a trusted directory and --skip-git-repo-check was not specified.").hint("set `cwd` to a git repository, or pass --skip-git-repo-check"),
    Rule::new(&[Text("<unknown feature (?:flag|name)")], Code::UnsupportedFlag, "Unknown feature flag: goals"),
    Rule::new(&[Text("<error loading config(?:uration|\\.toml)?")], Code::InvalidConfig, "Error loading configuration: config.toml:1:1: invalid TOML").hint("correct ~/.codex/config.toml"),
    // A setting of the wrong type ends the process at its start (0.150.0 and 0.169.0, CODEX-LIVE pitfall 15).
    Rule::new(&[Text("<invalid type: [^\n]+, expected [^\n]+\n?in `")], Code::InvalidConfig, "Error: invalid type: string \"perhaps\", expected a boolean\nin `analytics.enabled`").hint("correct the setting it names, in `extraArgs` or ~/.codex/config.toml"),
    // Of all that was measured, only an interrupt ends a turn this way (recording codex/signal-SIGINT).
    Rule::new(&[Exit(1), Silent], Code::Crashed, "").say("ended in the middle of a turn without a word, as an interrupt makes it"),
    // The refusal of a wrong command line by clap.
    Rule::new(&[Exit(2)], Code::InvalidOption, "error: something about arguments").weak(),
];

#[cfg(test)]
mod tests {
    use super::super::STANDARD_SYSTEM_PROMPT;
    use super::super::tests::argv::line;
    use super::*;
    use crate::command::Cwd;

    #[test]
    fn the_smallest_request_that_was_measured() {
        let line = line(&CODEX, r#"{"model":"gpt-5.5"}"#);
        assert_eq!(
            line.argv(),
            "exec --json --skip-git-repo-check --sandbox read-only --ephemeral --model gpt-5.5 -c \
             model_instructions_file=\"<system-prompt.txt>\" -c web_search=\"disabled\" -c project_doc_max_bytes=0 -c \
             include_environment_context=false -c include_permissions_instructions=false -c \
             skills.include_instructions=false -c model_auto_compact_token_limit=9007199254740991 -c developer_instructions=\"\" -c notify=[] -c features.code_mode=false -c \
             features.code_mode_only=false -c features.current_time_reminder=false -c features.deferred_executor=false -c \
             features.executor_capability_discovery_v2=false -c features.multi_agent_v2=false -c features.multi_env_copy_file=false -c \
             features.request_permissions_tool=false -c features.rollout_budget=false -c features.send_message_to_user_async=false \
             -c features.token_budget=false --disable shell_tool --disable multi_agent --disable goals -"
        );
        assert_eq!((line.0.stdin.as_str(), &line.0.cwd), ("PROMPT", &Cwd::Private));
        assert_eq!(line.files(), [("system-prompt.txt", STANDARD_SYSTEM_PROMPT)]);
        assert_eq!(line.0.wire, Wire::CodexJson);
    }

    #[test]
    fn what_is_always_so_may_be_said() {
        let by_default = line(&CODEX, r#"{"outputFormat":"jsonl","skipGitRepoCheck":true,"model":""}"#);
        assert_eq!(by_default.argv(), line(&CODEX, "{}").argv());
        assert_eq!(line(&CODEX, r#"{"skipGitRepoCheck":false}"#).argv(), by_default.argv());
        let as_text = line(&CODEX, r#"{"outputFormat":"text"}"#);
        assert_eq!((as_text.argv(), as_text.0.wire), (by_default.argv(), Wire::CodexJson));
        let error = crate::options::Options::parse(&CODEX, r#"{"outputFormat":"json"}"#).unwrap_err();
        assert_eq!(
            (error.code, error.message.as_str()),
            (
                Code::InvalidOption,
                "option \"outputFormat\" must be one of \"jsonl\", \"text\"; given: \"json\""
            )
        );
    }

    #[test]
    fn with_its_tools_on_codex_is_left_as_it_is_but_for_the_sandbox() {
        let on = |more: &str| line(&CODEX, &format!(r#"{{"disableBuiltInTools":false{more}}}"#));
        assert_eq!(
            on("").argv(),
            "exec --json --skip-git-repo-check --sandbox read-only --ephemeral -"
        );
        assert_eq!(
            on(r#","sandbox":"workspace-write","ignoreUserConfig":true,"systemPrompt":"Be brief.""#).argv(),
            "exec --json --skip-git-repo-check --sandbox workspace-write --ephemeral --ignore-user-config -c \
             model_instructions_file=\"<system-prompt.txt>\" -"
        );
        assert_eq!(on("").0.cwd, Cwd::Inherit);
    }

    #[test]
    fn without_tools_the_sandbox_stays_read_only() {
        assert!(
            line(&CODEX, r#"{"sandbox":"danger-full-access"}"#)
                .argv()
                .contains("--sandbox read-only")
        );
    }

    #[test]
    fn refused_flags_go_one_by_one_or_all_of_a_name() {
        let without = |refused: &str| line(&CODEX, "{}").without(refused);
        assert!(!without("--disable goals").argv().contains("goals"));
        assert!(without("--disable goals").argv().contains("multi_agent"));
        assert!(!without("--ephemeral").argv().contains("--ephemeral"));
        let bare = without("--disable").argv();
        assert!(
            bare.contains("shell_tool") && !bare.contains("--disable multi_agent"),
            "needed flags stay: {bare}"
        );
    }

    #[test]
    fn a_prompt_beyond_the_cap_is_refused_in_characters() {
        let cap = 1_048_576;
        assert!(line(&CODEX, "{}").with_prompt(&"é".repeat(cap)).is_ok());
        let error = line(&CODEX, "{}").with_prompt(&"é".repeat(cap + 1)).unwrap_err();
        assert_eq!(
            (error.code, error.message.as_str()),
            (
                Code::PromptTooLong,
                "the prompt has 1048577 characters and codex takes 1048576. Shorten the thread"
            )
        );
    }
}
