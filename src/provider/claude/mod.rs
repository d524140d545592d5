//! claude (Claude Code), measured with 2.1.197 and 2.1.332.
//!
//! The default makes the CLI a model alone, with every kind of login (CLI-FACTS 1.4): no tools, hooks, CLAUDE.md, MCP servers,
//! attachments, slash commands, transcripts or retries of the CLI's own.

mod errors;
pub mod requests;

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use self::requests::{EXTRA_BODY, extra_body};
use super::capability::{ByEngine, Capabilities, EMULATED, NATIVE, SOME_ASKED, UNSUPPORTED};
use super::installed::{self, Place};
use super::options::{self, Auth, CacheTtl, EngineKind, OptionSpec, Options, OutputFormat};
use super::{
    APPENDED_PROMPT_FILE, About, Announced, Checks, Defaults, EngineCheck, EnvValue, FileSpec, GatewayVariable, Guard,
    LiveForm, LoginAnswer, LoginCheck, LoginDir, LoginKind, LoginSign, LoginWords, OwnSettings, Provider, Reading,
    SYSTEM_PROMPT_FILE, SchemaForm, SettingsFile, SettingsForm, SettingsPlace, Unbeaten, UserSettings, Versions, When,
    Word, appended_prompt, choice_var, flag, nobody, optional, pure, system_prompt, unbeaten, var, var_when,
};
use crate::declare::mcp::{self, CALL_LIMIT_MS, McpClient};
use crate::models::{Models, size};
use crate::{MediaForm, MediaSupport};
use Word::Lit;
use dfp_model::message::content::{Accepts, ContentLimits, Dialect, Kind, Takes};
use dfp_text::decode::{MAX_OUTPUT_TOKENS as AT_LIMIT, Wire};

const MCP_FILE: &str = "mcp.json";

/// The name of the private file with our settings.
const SETTINGS_FILE: &str = "settings.json";

/// The CLI's own tool for searching the web.
const WEB_SEARCH: &str = "WebSearch";

/// The CLI's own tool for finding further tools.
pub const TOOL_SEARCH: &str = "ToolSearch";

/// The variable with an effort that wins over all others.
pub const EFFORT_LEVEL: &str = "CLAUDE_CODE_EFFORT_LEVEL";

/// The variable with the most tokens of an answer.
pub const MAX_OUTPUT_TOKENS: &str = "CLAUDE_CODE_MAX_OUTPUT_TOKENS";

/// The configuration of the bridge, for `--mcp-config`. With `alwaysLoad`, its tools are in every request (CLI-FACTS 1.7).
fn mcp_config(_: &Provider, options: &Options) -> String {
    let servers = mcp::servers(
        options.callbacks.as_ref(),
        |bridge| json!({"type": "http", "url": bridge.url, "headers": bridge.headers(), "timeout": CALL_LIMIT_MS, "alwaysLoad": true}),
    );
    json!({"mcpServers": servers}).to_string()
}

/// The settings of a call, which win over the user's. Each is what the CLI does without the user's settings (tried one by one with
/// 2.1.332).
fn settings(provider: &Provider, options: &Options) -> Map<String, Value> {
    let mut settings = Map::new();
    if !options.built_in_tools {
        // They add up to 5 KB of instructions to what the model reads.
        settings.insert("outputStyle".to_owned(), json!("default"));
        settings.insert("language".to_owned(), json!(""));
        // "plan" and "auto" add 5.8 KB with the user's rules and folders; "bypassPermissions" refuses to start as root.
        settings.insert("permissions".to_owned(), json!({"defaultMode": "default"}));
        if options.callbacks.is_some() {
            settings.insert("disableAllHooks".to_owned(), json!(true));
        }
        if options.choices.effort.is_some() {
            settings.insert("alwaysThinkingEnabled".to_owned(), json!(true));
        }
    }
    // It is the user's consent as well, without which the CLI has no fast mode in this form ("sdk_opt_in_required", 2.1.332).
    if options.choices.is_fast() {
        settings.insert("fastMode".to_owned(), json!(true));
    }
    // A program of the user's that prints a key, which is sent beside any other.
    let names_key = |name: &str, value: &Option<String>| value.is_some() && provider.key_env.contains(&name);
    if options.auth == Auth::Subscription || options.env.iter().any(|(name, value)| names_key(name, value)) {
        settings.insert("apiKeyHelper".to_owned(), json!(""));
    }
    settings
}

/// The setting with which calls log in, beside variables: a program that prints a key.
const LOGINS: &[&str] = &["apiKeyHelper"];

/// The place of the user's settings.
const USERS: SettingsPlace = SettingsPlace::User(".claude", "settings.json");

/// The place of an organization's settings, which win over all others (2.1.332).
const MACHINES: SettingsPlace = SettingsPlace::Machine {
    folders: [
        "/etc/claude-code",
        "/Library/Application Support/ClaudeCode",
        "C:\\Program Files\\ClaudeCode",
    ],
    file: "managed-settings.json",
    more: Some("managed-settings.d"),
};

/// Settings that count in a user's and in an organization's file, each tried with 2.1.332. Our lists are added to theirs, and of
/// limits the lower one counts.
const DENY: Unbeaten = Unbeaten {
    begins: &["mcp__", "*"],
    ..unbeaten(
        &["permissions", "deny"],
        "takes bound tools away: calls with those fail",
        nobody,
    )
};
const DIRECTORIES: Unbeaten = unbeaten(
    &["permissions", "additionalDirectories"],
    "is told to the model, folder by folder",
    pure,
);
const MOST_EFFORT: Unbeaten = unbeaten(
    &["maxEffortLevel"],
    "limits how much the model thinks, whatever `reasoning` says",
    |options, _| options.choices.effort.is_some(),
);
const MODELS_ALLOWED: Unbeaten = unbeaten(
    &["availableModels"],
    "lets another model answer in place of one that is not in it",
    nobody,
);
const OTHER_MODELS: Unbeaten = unbeaten(&["modelOverrides"], "has other models asked than `model` names", nobody);

/// Settings that count only in an organization's file, since ours win over the user's.
const OUTPUT_STYLE: Unbeaten = unbeaten(
    &["outputStyle"],
    "adds up to 5 KB of instructions to what the model reads",
    pure,
);
const LANGUAGE: Unbeaten = unbeaten(&["language"], "tells the model in which language to answer", pure);
const MODE: Unbeaten = unbeaten(
    &["permissions", "defaultMode"],
    "adds its rules to what the model reads, but for \"default\"",
    pure,
);
const HOOKS: Unbeaten = unbeaten(
    &["hooks"],
    "runs programs with each call, and the model reads what they print",
    pure,
);

/// The models of claude. The aliases are those that 2.1.197 and 2.1.332 both list, without those for plan mode or another context.
/// The sizes are `modelUsage.*.contextWindow` and `.maxOutputTokens` of a result of claude 2.1.330
/// (`__tests__/langchain/sizes.test.ts`).
const MODELS: Models = Models {
    vendor: Some("anthropic"),
    company: Some("anthropic"),
    names: Some("^claude-"),
    aliases: &["sonnet", "opus", "haiku", "fable", "best"],
    sizes: &[
        size("claude-haiku-4-5", 200_000, Some(32_000)),
        size("claude-opus-4-5", 200_000, Some(32_000)),
        size("claude-sonnet-4-5", 200_000, Some(32_000)),
        size("claude-sonnet-4-6", 200_000, Some(32_000)),
        size("claude-opus-4-8", 1_000_000, Some(64_000)),
        size("claude-fable-5", 1_000_000, Some(64_000)),
        size("claude-opus-5", 1_000_000, Some(64_000)),
        size("claude-sonnet-5", 1_000_000, Some(64_000)),
        size("claude-haiku-5-5", 1_000_000, Some(128_000)),
        size("claude-opus-5-5", 1_000_000, Some(128_000)),
        size("claude-sonnet-5-5", 1_000_000, Some(128_000)),
    ],
    takes_image_urls: true,
};

/// The claude CLI.
pub static CLAUDE: Provider = Provider {
    id: Cow::Borrowed("claude"),
    command: Cow::Borrowed("claude"),
    places: &[
        &[
            Place::home(".local/bin", "native installer: code.claude.com, Advanced setup"),
            Place::home(
                ".claude/local",
                "`claude migrate-installer`: a launcher over a package of its own",
            ),
            Place::home(".claude/local/node_modules/.bin", "`claude migrate-installer`"),
        ],
        installed::HOMEBREW,
        installed::NODE,
        installed::WINDOWS,
    ],
    about: About {
        name: "Claude",
        versions: &["2.1.197", "2.1.332"],
        sent: "notes on its environment (2.1.197: the date)",
        not_isolated: "the CLI keeps its `~/.claude.json` and backups of it; [some settings](cli/claude.md#the-users-settings) of the user \
                       and the organization",
        limits: "a prompt of 10 MB",
    },
    defaults: Defaults {
        engine: EngineKind::Auto,
        ..Defaults::STANDARD
    },
    flags: &[
        flag(&[], &[Lit("-p")]),
        // Right behind `-p`: `--tools` and `--allowedTools` are variadic and would swallow it (CLI-FACTS).
        flag(&[When::PromptArg], &[Word::Prompt]),
        // The flag exists in no released claude (CLI-FACTS 1.2); it is part of SPEC-01's form, and dropped if it is refused.
        optional(&[When::NoInput], &[Lit("--no-input")]),
        flag(&[When::Live], &[Lit("--input-format"), Lit("stream-json")]),
        flag(
            &[When::Print, When::Media],
            &[Lit("--input-format"), Lit("stream-json")],
        ),
        flag(
            &[When::Format(OutputFormat::Json)],
            &[Lit("--output-format"), Lit("json")],
        ),
        // `--print` with stream-json requires `--verbose` (recording claude/success-stream-json-noverbose).
        flag(
            &[When::Format(OutputFormat::StreamJson)],
            &[Lit("--output-format"), Lit("stream-json"), Lit("--verbose")],
        ),
        optional(&[When::Verbose], &[Lit("--verbose")]),
        // Only the stream says at once that an answer has reached its limit of tokens.
        optional(
            &[When::Pieces, When::Format(OutputFormat::StreamJson)],
            &[Lit("--include-partial-messages")],
        ),
        flag(&[When::Model], &[Lit("--model"), Word::Model]),
        // Not optional: an older CLI would reason as much as it likes.
        flag(&[When::Effort], &[Lit("--effort"), Word::Effort]),
        // Without it 2.1.330 does not ask its API for the text of its reasoning (CLI-FACTS 1b §4). A caller who chooses the reasoning wants
        // to read it.
        optional(&[When::Effort], &[Lit("--thinking-display"), Lit("summarized")]),
        // Hooks, CLAUDE.md and plugins off, logins of every kind kept (CLI-FACTS 1.4, "Login survival"). With it, the CLI silently drops
        // the servers of `--mcp-config`: hooks are switched off by a setting then, and CLAUDE.md by a variable.
        optional(
            &[When::Isolated, When::ToolsOff, When::NoCallbacks],
            &[Lit("--safe-mode")],
        ),
        // The settings here win over `~/.claude/settings.json`, whose `env` beats the process's environment.
        flag(&[When::Settings], &[Lit("--settings"), Word::File(SETTINGS_FILE)]),
        flag(
            &[When::Callbacks],
            &[
                Lit("--mcp-config"),
                Word::File(MCP_FILE),
                Lit("--allowedTools"),
                Lit("mcp__df"),
            ],
        ),
        optional(
            &[When::Isolated, When::ToolsOff],
            &[Lit("--setting-sources"), Lit("user")],
        ),
        // Not optional: with tools, the run would not be that of a model alone.
        flag(
            &[When::Isolated, When::ToolsOff, When::NoWebSearch, When::NoToolSearch],
            &[Lit("--tools"), Lit("")],
        ),
        // The one tool of its own that a caller may want: it has no other way out, and finds no file (CLI-FACTS, CLAUDE-SESSIONS 4).
        flag(
            &[When::WebSearch, When::ToolsOff, When::NoToolSearch],
            &[Lit("--tools"), Lit(WEB_SEARCH)],
        ),
        flag(
            &[When::ToolSearch, When::ToolsOff, When::NoWebSearch],
            &[Lit("--tools"), Lit(TOOL_SEARCH)],
        ),
        flag(
            &[When::ToolSearch, When::ToolsOff, When::WebSearch],
            &[Lit("--tools"), Lit("WebSearch,ToolSearch")],
        ),
        flag(&[When::WebSearch], &[Lit("--allowedTools"), Lit(WEB_SEARCH)]),
        optional(&[When::Isolated, When::ToolsOff], &[Lit("--strict-mcp-config")]),
        optional(&[When::Isolated], &[Lit("--no-session-persistence")]),
        // A live session gets its system prompt with the handshake. What begins with "/" is guarded there as well.
        // In a workspace it would take the project's skills away.
        optional(
            &[When::Print, When::Isolated, When::NoWorkspace],
            &[Lit("--disable-slash-commands")],
        ),
        flag(
            &[When::Print, When::Isolated, When::DefaultSystemPrompt],
            &[Lit("--system-prompt"), Word::SystemPrompt],
        ),
        flag(
            &[When::Print, When::CustomSystemPrompt],
            &[Lit("--system-prompt-file"), Word::File(SYSTEM_PROMPT_FILE)],
        ),
        flag(
            &[When::PermissionMode],
            &[Lit("--permission-mode"), Word::PermissionMode],
        ),
        // The CLI offers one tool, `StructuredOutput`, and checks its arguments against the schema (CLI-FACTS 1.8).
        optional(
            &[When::Print, When::OutputSchema],
            &[Lit("--json-schema"), Word::OutputSchema],
        ),
        flag(&[When::Agent], &[Lit("--agent"), Word::Agent]),
        flag(
            &[When::AppendedSystemPrompt],
            &[Lit("--append-system-prompt-file"), Word::File(APPENDED_PROMPT_FILE)],
        ),
        // Variadic: nothing may follow but flags. A prompt over standard input is out of its reach.
        flag(&[When::AllowedTools], &[Lit("--allowedTools"), Word::AllowedTools]),
    ],
    env: &[
        var("CLAUDE_CODE_MAX_RETRIES", EnvValue::MaxRetries),
        // `@file` in a prompt would be read and sent, even with the tools off (CLI-FACTS 1.2).
        var_when(
            &[When::ToolsOff],
            "CLAUDE_CODE_DISABLE_ATTACHMENTS",
            EnvValue::Fixed("1"),
        ),
        var("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", EnvValue::Fixed("1")),
        // A cut stream would silently cost a second request and double the text after partial messages (CLI-FACTS 1.3).
        var("CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK", EnvValue::Fixed("1")),
        var("CLAUDE_CODE_DISABLE_REFUSAL_RETRY", EnvValue::Fixed("1")),
        // With that variable alone, the CLI has its vendor's API name another model that may answer (CLAUDE-SESSIONS 6).
        var("CLAUDE_CODE_DISABLE_REFUSAL_FALLBACK", EnvValue::Fixed("1")),
        // A session that is full would be made a summary, by two requests of its own; without the limit of its own beside it, the CLI
        // would refuse a thread that the API takes (CLAUDE-SESSIONS 1.6).
        var_when(&[When::NoWorkspace], "DISABLE_AUTO_COMPACT", EnvValue::Fixed("1")),
        var_when(
            &[When::NoWorkspace],
            "CLAUDE_CODE_BLOCKING_LIMIT_OVERRIDE",
            EnvValue::Fixed("100000000"),
        ),
        // The variable would win over `--effort`.
        choice_var(&[When::Effort], EFFORT_LEVEL, EnvValue::Fixed("")),
        // A live session is told it by a request, which can be taken back.
        choice_var(
            &[When::Print, When::ReasoningOff],
            "MAX_THINKING_TOKENS",
            EnvValue::Fixed("0"),
        ),
        // Set in the user's settings, it would make the CLI run the tools itself; in the environment it means print (`print_env`).
        var_when(&[When::Live, When::ToolsOff], "CLAUDE_CODE_SIMPLE", EnvValue::Fixed("")),
        // The number of times that the CLI lets its model try an answer by a schema: once more, as everywhere. The CLI's own limit is 5.
        var_when(
            &[When::NoWorkspace],
            "MAX_STRUCTURED_OUTPUT_RETRIES",
            EnvValue::Fixed("2"),
        ),
        var("DISABLE_TELEMETRY", EnvValue::Fixed("1")),
        var("DISABLE_AUTOUPDATER", EnvValue::Fixed("1")),
        var("DISABLE_ERROR_REPORTING", EnvValue::Fixed("1")),
        // With it on, tools silently vanish from the request (CLI-FACTS 1.7) but for their names, and those with the attachments.
        var_when(
            &[When::NoWorkspace, When::NoToolSearch],
            "ENABLE_TOOL_SEARCH",
            EnvValue::Fixed("false"),
        ),
        choice_var(&[When::ToolSearch], "ENABLE_TOOL_SEARCH", EnvValue::Fixed("true")),
        // There is no flag for it; 2.1.197 and 2.1.330 send it as `max_tokens`.
        choice_var(&[When::MaxOutputTokens], MAX_OUTPUT_TOKENS, EnvValue::MaxOutputTokens),
        // The first variable wins (2.1.332), and 2.1.197 knows only the others (CLAUDE-SESSIONS 3).
        choice_var(
            &[KEEP_5M],
            "CLAUDE_CODE_PROMPT_CACHE_TTL",
            EnvValue::Fixed(CacheTtl::FIVE_MINUTES),
        ),
        choice_var(&[KEEP_5M], "FORCE_PROMPT_CACHING_5M", EnvValue::Fixed("1")),
        choice_var(&[KEEP_5M], "ENABLE_PROMPT_CACHING_1H", EnvValue::Fixed("")),
        choice_var(
            &[KEEP_1H],
            "CLAUDE_CODE_PROMPT_CACHE_TTL",
            EnvValue::Fixed(CacheTtl::ONE_HOUR),
        ),
        choice_var(&[KEEP_1H], "ENABLE_PROMPT_CACHING_1H", EnvValue::Fixed("1")),
        choice_var(&[KEEP_1H], "FORCE_PROMPT_CACHING_5M", EnvValue::Fixed("")),
        // Merged into every request (CLI-FACTS 1b §4): there is no option for it.
        choice_var(&[When::Stop], EXTRA_BODY, EnvValue::Composed(extra_body)),
        var_when(
            &[When::ToolsOff, When::Callbacks],
            "CLAUDE_CODE_DISABLE_CLAUDE_MDS",
            EnvValue::Fixed("1"),
        ),
        var_when(
            &[When::ToolsOff, When::Callbacks],
            "ENABLE_CLAUDEAI_MCP_SERVERS",
            EnvValue::Fixed("false"),
        ),
    ],
    drop_env: &["CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT"],
    key_env: &[
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "ANTHROPIC_FOUNDRY_API_KEY",
        "AWS_BEARER_TOKEN_BEDROCK",
        "CLAUDE_CODE_USE_BEDROCK",
        "CLAUDE_CODE_USE_FOUNDRY",
        "CLAUDE_CODE_USE_VERTEX",
    ],
    files: &[
        FileSpec {
            when: &[When::Print, When::CustomSystemPrompt],
            name: SYSTEM_PROMPT_FILE,
            content: system_prompt,
        },
        FileSpec {
            when: &[When::Callbacks],
            name: MCP_FILE,
            content: mcp_config,
        },
        FileSpec {
            when: &[When::AppendedSystemPrompt],
            name: APPENDED_PROMPT_FILE,
            content: appended_prompt,
        },
    ],
    user_settings: Some(UserSettings {
        ours: Some(OwnSettings {
            file: SETTINGS_FILE,
            flag: "--settings",
            content: settings,
        }),
        files: &[
            SettingsFile {
                place: USERS,
                form: SettingsForm::Json,
                unbeaten: &[DENY, DIRECTORIES, MOST_EFFORT, MODELS_ALLOWED, OTHER_MODELS],
                logins: LOGINS,
            },
            SettingsFile {
                place: MACHINES,
                form: SettingsForm::Json,
                unbeaten: &[
                    DENY,
                    DIRECTORIES,
                    MOST_EFFORT,
                    MODELS_ALLOWED,
                    OTHER_MODELS,
                    OUTPUT_STYLE,
                    LANGUAGE,
                    MODE,
                    HOOKS,
                ],
                logins: LOGINS,
            },
        ],
    }),
    wires: &[
        (OutputFormat::StreamJson, Wire::ClaudeStream),
        (OutputFormat::Json, Wire::ClaudeJson),
        (OutputFormat::Text, Wire::Text),
    ],
    own_options: OPTIONS,
    guard: Some(Guard {
        first: '/',
        prefix: "\n",
    }),
    live: Some(LiveForm {
        folder: "claude_live",
        takes_schema: true,
        may_have_tools: true,
        has_turns_in_print: true,
        always_gets: None,
    }),
    media: MediaSupport {
        print: ACCEPTS,
        form: Some(MediaForm::UserLine),
        live: ACCEPTS,
    },
    capabilities: ByEngine {
        print: Capabilities {
            tool_search: EMULATED.but("in print form all tools are told in words"),
            ..CAPABILITIES
        },
        live: Some(Capabilities {
            tool_choice: NATIVE.but(
                "`tool_choice` of the request; in words beside tools of the CLI's own, and where the API refuses it",
            ),
            ..CAPABILITIES
        }),
    },
    web_search: Some(WEB_SEARCH),
    tool_search: Some(TOOL_SEARCH),
    efforts: &["low", "medium", "high", "xhigh", "max"],
    drops_choices: true,
    models: MODELS,
    mcp: McpClient {
        // CLI-FACTS 1.7.
        call_id: Some("claudecode/toolUseId"),
        ..McpClient::PLAIN
    },
    schema: SchemaForm::Tool {
        name: "StructuredOutput",
        asks_again: true,
    },
    // The CLI would ask its API for the rest up to three times, and fail then (2.1.197 to 2.1.332).
    stop_on: &[AT_LIMIT],
    // The whole output of an interrupted run in text form, with exit code 0 (recordings signal-SIGINT-text of 2.1.197 and 2.1.330).
    fatal_stdout: &["Execution error"],
    errors: errors::ERRORS,
    checks: Checks {
        // JSON by default, exit code 0 or 1, no network (CLI-FACTS 1.10). `claude doctor` waits for a terminal for ever.
        login: Some(LoginCheck {
            args: &["auth", "status"],
            answer: LoginAnswer::JsonFlag("loggedIn"),
            // Recordings auth-status-* of 2.1.197 and 2.1.330.
            kinds: &[
                LoginSign::new(LoginKind::Gateway, LoginWords::Member(AUTH_METHOD, "third_party")),
                // 2.1.197 reports the login of a plan even where it uses the key; 2.1.332 reports the key.
                LoginSign {
                    beside: Some(("apiKeySource", "ANTHROPIC_API_KEY")),
                    ..LoginSign::new(LoginKind::Key, LoginWords::Member(AUTH_METHOD, "claude.ai"))
                },
                LoginSign::new(LoginKind::Plan, LoginWords::Member(AUTH_METHOD, "claude.ai")),
                LoginSign::new(LoginKind::Key, LoginWords::Member(AUTH_METHOD, "api_key")),
                LoginSign::new(LoginKind::Key, LoginWords::Member(AUTH_METHOD, "api_key_helper")),
                // A gateway's token and that of `claude setup-token` have the same name.
                LoginSign {
                    variable: Some("ANTHROPIC_AUTH_TOKEN"),
                    ..LoginSign::new(LoginKind::Gateway, LoginWords::Member(AUTH_METHOD, "oauth_token"))
                },
                LoginSign::new(LoginKind::Plan, LoginWords::Member(AUTH_METHOD, "oauth_token")),
            ],
            details: &["subscriptionType", "apiProvider", "apiKeySource"],
            gateways: &[GatewayVariable {
                name: "ANTHROPIC_BASE_URL",
                own_host: "api.anthropic.com",
            }],
        }),
        live: Some(LIVE),
        reading: Reading {
            flags: &[
                "--tools",
                "--allowedTools",
                "--allowed-tools",
                "--mcp-config",
                "--plugin-dir",
                "--continue",
                "-c",
                "--resume",
                "-r",
            ],
            ..Reading::NONE
        },
        ..Checks::VERSION_ONLY
    },
    login_dir: Some(LoginDir {
        variable: "CLAUDE_CONFIG_DIR",
        holds: "what is in `~/.claude`, and `.claude.json`",
    }),
    ..Provider::BASE
};

/// The member of `auth status` that says how claude is logged in.
const AUTH_METHOD: &str = "authMethod";

/// The check of the live form. It recognises npm's package (its program stands beside package.json or below it, and so does that of
/// its platform packages), the native installer's `~/.local/share/claude/versions/2.1.330`, and Homebrew's
/// `Caskroom/claude-code/2.1.330/claude`.
const LIVE: EngineCheck = EngineCheck {
    package: "@anthropic-ai/claude-code",
    version_folders: &[
        &["claude", "versions"],
        &["Caskroom", "claude-code"],
        &["Caskroom", "claude-code@latest"],
    ],
    program: "claude",
    versions: Versions::Since([2, 1, 197]),
    print_flags: &[
        // Hooks are off with it, so the CLI runs the tools itself (CLI-FACTS 1b §7).
        "--bare",
        // These change the protocol, or end the process after the first answer.
        "--input-format",
        "--output-format",
        "--json-schema",
        "--max-turns",
        "--max-budget-usd",
        // With these, every call would continue a session of the user's, and none of ours.
        "--continue",
        "-c",
        "--resume",
        "-r",
        "--session-id",
        "--fork-session",
        // The handshake's system prompt would win over them.
        "--system-prompt",
        "--system-prompt-file",
        "--append-system-prompt",
        "--append-system-prompt-file",
    ],
    // This is the same as `--bare`.
    print_env: &["CLAUDE_CODE_SIMPLE"],
    announces: Announced::Versions,
    measured_only: false,
};

/// The capabilities of both forms.
const CAPABILITIES: Capabilities = Capabilities {
    pure: true,
    structured_output: NATIVE.but(SOME_ASKED),
    images: NATIVE,
    documents: NATIVE,
    result_images: NATIVE,
    reasoning_out: NATIVE.but("from 2.1.330 on, the text only with `reasoning`"),
    reasoning_effort: NATIVE.but("`--effort`"),
    reasoning_off: NATIVE.but("`MAX_THINKING_TOKENS=0`; a `warning` where the model always thinks"),
    max_output_tokens: NATIVE
        .but("`CLAUDE_CODE_MAX_OUTPUT_TOKENS`; in the formats `json` and `text` the CLI asks three times for more"),
    stop: NATIVE.but("`CLAUDE_CODE_EXTRA_BODY`"),
    temperature: UNSUPPORTED.but("the CLI has no such option, and models that think refuse it"),
    speed: NATIVE.but("of the models that have one; a `warning` where the CLI leaves it out"),
    tool_search: NATIVE.but("the CLI's `ToolSearch`"),
    web_search: NATIVE.but("the CLI's `WebSearch`"),
    login: NATIVE.but("`CLAUDE_CONFIG_DIR`"),
    ..Capabilities::LEAST
};

/// The content that both forms take. The API takes 10 MB of base64 of one image and 32 MB in a request (its pages "Vision" and "PDF
/// support"; the text of a 413, CLI-FACTS 1.3). The CLI makes images of more than half a megabyte, or 2000 pixels a side, smaller
/// before it sends them, and if it can't read one of those, it sends a note in its place (measured with 2.1.197 and 2.1.330).
const ACCEPTS: Accepts = Accepts {
    users: BLOCKS,
    results: BLOCKS,
    others: BLOCKS,
    limits: ContentLimits {
        image: Some(10 * 1024 * 1024),
        document: None,
        all: Some(32 * 1024 * 1024),
    },
};

/// The content that the Messages API takes in a user's turn and in a tool's result; claude hands it over unchanged.
const BLOCKS: Takes = Takes {
    kinds: &[Kind::Image, Kind::Document],
    types: &["image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf"],
    dialect: Some(Dialect::Anthropic),
    urls: &[Kind::Image, Kind::Document],
    texts: true,
};

const KEEP_5M: When = When::CacheTtl(CacheTtl::FiveMinutes);
const KEEP_1H: When = When::CacheTtl(CacheTtl::OneHour);

const OPTIONS: &[OptionSpec] = &[
    options::PROMPT_STYLE,
    options::OUTPUT_FORMAT,
    options::NO_INPUT,
    options::AUTH,
    options::SYSTEM_PROMPT,
    options::PERMISSION_MODE,
    options::DISABLE_BUILT_IN_TOOLS,
    options::VERBOSE,
    options::INCLUDE_PARTIAL_MESSAGES,
    options::MAX_RETRIES,
    options::KEEP_ALIVE,
    options::MAX_PROCESSES,
    options::SPARES,
    options::PROMPT_CACHE,
    options::SESSIONS,
];
