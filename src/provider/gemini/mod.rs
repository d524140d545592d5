//! gemini (Gemini CLI), measured with 0.61.0 (CLI-FACTS 3).
//!
//! The tools, the CLI's own and those of MCP servers, are taken away by a policy that denies all of them: a denied tool is
//! not even declared. Settings of a run are those of the folder it runs in, which is private and marked as trusted: what the
//! user has chosen, above all the login, stays. (The machine-wide layer is no way: the CLI reads it only where every folder
//! above it is root's alone.) The system prompt comes from a file that a variable names.
//!
//! The CLI reads and sends an `@path` anywhere in a prompt if it leads into the folder it runs in; `/etc/passwd`, `..` and `~` do
//! not (0.61.0). So with the built-in tools off, a prompt has an `@` only before the names of the thread's own images and
//! documents, which are sent in just this way.
//!
//! How it fails, and what helps, stands at the end (`ERRORS`).

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::capability::{ByEngine, Capabilities, NATIVE, Needs, UNSUPPORTED};
use super::choices::Choices;
use super::errors::{Channel, Condition::*, Errors, ExitCodes, Rule, YARGS};
use super::installed;
use super::options::{self, EngineKind, OptionSpec, Options, OutputFormat};
use super::{
    About, AcpErrors, AcpUsage, Announced, Checks, Defaults, EndedLogin, EngineCheck, EnvValue, FileSpec, LoginDir,
    Provider, Reading, SYSTEM_PROMPT_FILE, SettingsFile, SettingsForm, SettingsPlace, Unbeaten, UserSettings, Versions,
    WarmForm, WarmThread, When, Word, flag, optional, pure, system_prompt, unbeaten, var, var_when,
};
use crate::declare::mcp::{self, CALL_LIMIT_MS, McpClient, SERVER};
use crate::models::{Models, size};
use crate::{MediaForm, MediaSupport};
use Word::Lit;
use dfp_model::error::Code;
use dfp_model::event::EngineUsed;
use dfp_model::message::content::{self, Accepts, ContentLimits, Takes};
use dfp_text::decode::Wire;

/// The settings of gemini's "workspace", in the folder that it runs in.
const SETTINGS_FILE: &str = "empty/.gemini/settings.json";
const POLICY_FILE: &str = "policy.toml";

/// The models of gemini-cli 0.61.0, by its aliases (`GEMINI_MODEL_ALIAS_…`) and its table (`tokenLimit`), with which the profiles
/// of `@langchain/google-genai` 2.3.2 agree.
const MODELS: Models = Models {
    vendor: Some("google_genai"),
    company: Some("gcp.gemini"),
    names: Some("^gemini-"),
    aliases: &["auto", "pro", "flash", "flash-lite"],
    sizes: &[
        size("gemini-2.5-flash", 1_048_576, Some(65_536)),
        size("gemini-2.5-flash-lite", 1_048_576, Some(65_536)),
        size("gemini-2.5-pro", 1_048_576, Some(65_536)),
        size("gemini-3-flash-preview", 1_048_576, Some(65_536)),
    ],
    takes_image_urls: false,
};

/// The gemini CLI.
pub static GEMINI: Provider = Provider {
    id: Cow::Borrowed("gemini"),
    command: Cow::Borrowed("gemini"),
    places: &[
        installed::LOCAL_BIN,
        installed::HOMEBREW,
        installed::NODE,
        installed::WINDOWS,
    ],
    about: About {
        name: "Gemini",
        versions: &["0.61.0"],
        sent: "the date, the platform; without `model`, one more request to choose one",
        not_isolated: "`~/.gemini/GEMINI.md` and [some settings](#the-users-settings); a transcript of every run stays in `~/.gemini/tmp`, \
                       beside entries in `history` and `projects.json`; a `.gemini/.env` above the temporary folder is read (`TMPDIR` names \
                       another); with `cwd`, that folder's GEMINI.md and the user's hooks",
        limits: "an answer stopped by safety or length is a success; SIGTERM may be ignored, so ending takes `killGrace`; output of more \
                 than 1 MB, the echo of the thread included, may be cut, which is an error; with `cwd`, its own 10 attempts can't be \
                 bounded",
    },
    defaults: Defaults {
        engine: EngineKind::Auto,
        ..Defaults::STANDARD
    },
    flags: &[
        // Without this, the exit code is 55 in a folder that the user has not trusted (recording gemini/no-skip-trust).
        optional(&[], &[Lit("--skip-trust")]),
        // Not optional: with tools, servers or extensions, the run would not be that of a model alone. No server is called "none".
        flag(&[When::ToolsOff], &[Lit("--policy"), Word::File(POLICY_FILE)]),
        flag(&[When::ToolsOff], &[Lit("--extensions"), Lit("none")]),
        flag(
            &[When::ToolsOff, When::NoCallbacks],
            &[Lit("--allowed-mcp-server-names"), Lit("none")],
        ),
        // The folder's settings name the server, and they are read only if the folder is ours.
        flag(
            &[When::PrivateCwd, When::Callbacks],
            &[Lit("--allowed-mcp-server-names"), Lit(SERVER)],
        ),
        flag(&[When::Model], &[Lit("-m"), Word::Model]),
        flag(&[When::Warm], &[Lit("--acp")]),
        flag(
            &[When::Print, When::Format(OutputFormat::Json)],
            &[Lit("--output-format"), Lit("json")],
        ),
        flag(
            &[When::Print, When::Format(OutputFormat::StreamJson)],
            &[Lit("--output-format"), Lit("stream-json")],
        ),
    ],
    env: &[
        // This makes one process instead of two, which dies of SIGTERM at once (CLI-FACTS 3).
        var("GEMINI_CLI_NO_RELAUNCH", EnvValue::Fixed("true")),
        // `--skip-trust` comes too late for the folder's settings.
        var_when(
            &[When::PrivateCwd],
            "GEMINI_CLI_TRUST_WORKSPACE",
            EnvValue::Fixed("true"),
        ),
        // An API error leaves a report there, with the prompt in it.
        var_when(&[When::ToolsOff], "TMPDIR", EnvValue::Folder("tmp")),
        var_when(
            &[When::SystemPrompt],
            "GEMINI_SYSTEM_MD",
            EnvValue::File(SYSTEM_PROMPT_FILE),
        ),
    ],
    files: &[
        FileSpec {
            when: &[When::PrivateCwd],
            name: SETTINGS_FILE,
            content: settings,
        },
        FileSpec {
            when: &[When::ToolsOff],
            name: POLICY_FILE,
            content: policy,
        },
        FileSpec {
            when: &[When::SystemPrompt],
            name: SYSTEM_PROMPT_FILE,
            content: system_prompt,
        },
    ],
    user_settings: Some(UserSettings {
        ours: None,
        files: &[
            SettingsFile {
                place: SettingsPlace::User("", ".gemini/settings.json"),
                form: SettingsForm::Jsonc,
                unbeaten: USERS,
                logins: &[],
            },
            SettingsFile {
                place: SettingsPlace::User("", ".gemini/GEMINI.md"),
                form: SettingsForm::Text,
                unbeaten: &[unbeaten(&[], "is read by the model with every call", pure)],
                logins: &[],
            },
            SettingsFile {
                place: SettingsPlace::Machine {
                    folders: [
                        "/etc/gemini-cli",
                        "/Library/Application Support/GeminiCli",
                        "C:\\ProgramData\\gemini-cli",
                    ],
                    file: "settings.json",
                    more: None,
                },
                form: SettingsForm::Jsonc,
                unbeaten: MACHINES,
                logins: &[],
            },
        ],
    }),
    wires: &[
        (OutputFormat::StreamJson, Wire::GeminiStream),
        (OutputFormat::Json, Wire::GeminiJson),
        (OutputFormat::Text, Wire::Text),
    ],
    own_options: OPTIONS,
    reads_references: true,
    warm: Some(WarmForm {
        usage: AcpUsage::Quota,
        errors: AcpErrors::HttpStatus,
        // A fresh process has 226 MB, 366 after 100 sessions, up to 600 after 250.
        max_sessions: 100,
        thread: WarmThread::Prompt,
        is_told_choices: false,
        has_own_tools: false,
        takes_schema: false,
    }),
    capabilities: ByEngine::print_only(CAPABILITIES),
    efforts: EFFORTS,
    media: MediaSupport {
        print: Accepts {
            users: FILES,
            results: FILES,
            others: FILES,
            limits: LIMITS,
        },
        form: Some(MediaForm::NamedFiles),
        live: Accepts::TEXT,
    },
    models: MODELS,
    mcp: McpClient {
        // 0.61.0, `McpComplianceTransport`.
        parsing: Some("gemini-cli"),
        ..McpClient::PLAIN
    },
    errors: ERRORS,
    checks: Checks {
        warm: Some(WARM),
        ended_login: Some(EndedLogin {
            unless: &[
                "GEMINI_API_KEY",
                "GOOGLE_API_KEY",
                "GOOGLE_GENAI_USE_VERTEXAI",
                "GOOGLE_CLOUD_PROJECT",
            ],
            message: "gemini's personal logins have ended: since 2026-06-18 Google serves API keys and companies' accounts only",
            hint: "set GEMINI_API_KEY, or log in to a company's account; one of these may be there already, which gemini does not tell",
        }),
        reading: Reading {
            flags: &[
                "--allowed-mcp-server-names",
                "--allowed-tools",
                "--extensions",
                "-e",
                "--policy",
                "--admin-policy",
                "--resume",
                "-r",
                "--session-file",
            ],
            ..Reading::NONE
        },
        ..Checks::VERSION_ONLY
    },
    login_dir: Some(LoginDir {
        variable: "GEMINI_CLI_HOME",
        holds: "a folder `.gemini`",
    }),
    ..Provider::BASE
};

/// The content that the Gemini API takes, among what the CLI recognises as images and documents.
const FILES: Takes = Takes {
    kinds: &[content::Kind::Image, content::Kind::Document],
    types: &["image/png", "image/jpeg", "image/webp", "application/pdf"],
    dialect: None,
    urls: &[],
    texts: false,
};

/// The limits of the CLI, not of the API. The CLI counts four bytes of base64 as a token, and gives up silently when its models'
/// million is used up: 2.7 MB are sent, 4.7 MB are not. A file of more than 20 MB it would leave out silently (0.61.0).
const LIMITS: ContentLimits = ContentLimits {
    image: None,
    document: None,
    all: Some(3 * 1024 * 1024),
};

/// Gemini's capabilities. The choices stand in the settings of the folder that it runs in.
const CAPABILITIES: Capabilities = Capabilities {
    pure: true,
    images: NATIVE.with(Needs::PrivateFolder).but(IN_SETTINGS),
    documents: NATIVE.with(Needs::PrivateFolder).but(IN_SETTINGS),
    result_images: NATIVE.with(Needs::PrivateFolder).but(IN_SETTINGS),
    reasoning_out: UNSUPPORTED.but("the CLI reports its tokens alone"),
    reasoning_effort: NATIVE
        .with(Needs::PrivateFolder)
        .but("`thinkingLevel`, of 2.5 `thinkingBudget`; not with `cwd`, nor with its own tools on"),
    reasoning_off: NATIVE
        .with(Needs::PrivateFolder)
        .but("`thinkingBudget: 0` of 2.5, which its pro has not; newer models get their lowest level"),
    login: NATIVE.but("`GEMINI_CLI_HOME`"),
    max_output_tokens: NATIVE
        .with(Needs::PrivateFolder)
        .but("not with `cwd`, nor with its own tools on; an answer that reaches it is a success"),
    stop: NATIVE.with(Needs::PrivateFolder).but(IN_SETTINGS),
    temperature: NATIVE.with(Needs::PrivateFolder).but(IN_SETTINGS),
    ..Capabilities::LEAST
};

const IN_SETTINGS: &str = "not with `cwd`, nor with its own tools on";

/// The policy that denies all tools but the bridge's. 999 is the highest priority that a rule may have.
fn policy(_: &Provider, options: &Options) -> String {
    let deny = "[[rule]]\ntoolName = \"*\"\ndecision = \"deny\"\npriority = 998\n";
    match options.callbacks {
        Some(_) => format!(
            "[[rule]]\ntoolName = \"*\"\nmcpName = \"{SERVER}\"\ndecision = \"allow\"\npriority = 999\n\n{deny}"
        ),
        None => deny.to_owned(),
    }
}

/// Members of the user's settings that ours don't win over: lists and objects of ours are added to theirs (0.61.0).
const USERS: &[Unbeaten] = &[
    INCLUDED,
    unbeaten(&["modelConfigs", "aliases"], OTHER_MODEL, pure),
    unbeaten(&["modelConfigs", "customAliases"], OTHER_MODEL, pure),
    unbeaten(&["modelConfigs", "overrides"], OTHER_CONFIG, in_users_folder),
    unbeaten(&["modelConfigs", "customOverrides"], OTHER_CONFIG, in_users_folder),
    ADMIN_POLICY,
];

/// Settings of the machine's file that reach calls, since they win over ours.
const MACHINES: &[Unbeaten] = &[
    INCLUDED,
    unbeaten(&["modelConfigs"], OTHER_MODEL, pure),
    ADMIN_POLICY,
    unbeaten(&["hooksConfig", "enabled"], "has hooks run with each call", pure),
    unbeaten(&["context", "fileName"], "names files that the model reads", pure),
    unbeaten(&["experimental"], "changes what the model reads", pure),
    unbeaten(&["tools", "sandbox"], "has the CLI run in a container", pure),
];

const INCLUDED: Unbeaten = unbeaten(
    &["context", "includeDirectories"],
    "has the model read the GEMINI.md of these folders",
    pure,
);
const ADMIN_POLICY: Unbeaten = unbeaten(
    &["adminPolicyPaths"],
    "may give the model tools, for its rules win over ours",
    pure,
);
const OTHER_MODEL: &str = "may have another model asked than `model` names, and in another way";
const OTHER_CONFIG: &str = "holds for what a call does not choose, with `cwd`";

/// Returns whether gemini runs in the user's folder with its own tools off, where we put no settings.
fn in_users_folder(options: &Options, _: EngineUsed) -> bool {
    !options.built_in_tools && options.cwd.is_some()
}

/// The settings of a call. `general.maxAttempts` counts the first try (1: one request, CLI-FACTS 3). An `.env` above the temp
/// folder may be anybody's. All that the user's settings could change has its value without settings (tried one by one with
/// 0.61.0): other names of files with instructions, additions to a model's requests, a smaller context or a second request, and a
/// container to run in.
fn settings(_: &Provider, options: &Options) -> String {
    const OFF: bool = false;
    // Our overrides stand behind the CLI's own, of which the others stay.
    let chosen = generate_content_config(&options.choices);
    let chosen = (!chosen.is_empty()).then(|| overriding(None, &Value::Object(chosen)));
    let overrides: Vec<Value> = chosen.into_iter().chain(reasoning(&options.choices)).collect();
    let mut settings = json!({
        "general": {"maxAttempts": options.max_retries + 1, "defaultApprovalMode": "default"},
        "context": {"includeDirectoryTree": OFF, "fileName": "GEMINI.md"},
        "model": {"maxSessionTurns": -1, "compressionThreshold": 0.5, "skipNextSpeakerCheck": true},
        "modelConfigs": {"customOverrides": overrides, "overrides": []},
        "tools": {"sandbox": OFF},
        "experimental": {
            "adk": {"agentSessionNoninteractiveEnabled": OFF},
            "autoMemory": OFF,
            "contextManagement": OFF,
            "directWebFetch": OFF,
            "dynamicModelConfiguration": OFF,
            "gemmaModelRouter": {"enabled": OFF},
            "generalistProfile": OFF,
            "modelSteering": OFF,
            "powerUserProfile": OFF,
            "stressTestProfile": OFF,
            "taskTracker": OFF,
            "topicUpdateNarration": OFF,
        },
        "hooksConfig": {"enabled": OFF},
        "skills": {"enabled": OFF},
        "advanced": {"ignoreLocalEnv": true},
    });
    if options.callbacks.is_some() {
        settings["mcpServers"] = mcp::servers(
            options.callbacks.as_ref(),
            |bridge| json!({"httpUrl": bridge.url, "headers": bridge.headers(), "timeout": CALL_LIMIT_MS, "trust": true}),
        );
    }
    settings.to_string()
}

/// The choices, by the API's names.
fn generate_content_config(choices: &Choices) -> Map<String, Value> {
    let mut config = Map::new();
    let mut set = |name: &str, value: Option<Value>| value.map(|value| config.insert(name.to_owned(), value));
    set("maxOutputTokens", choices.max_output_tokens.map(Value::from));
    set("stopSequences", choices.stop().map(Value::from));
    set("temperature", choices.temperature.clone().map(Value::Number));
    config
}

/// The override `config` of requests for a reply: of all, or of those to `model`, which is also the name of a family in the CLI's table.
fn overriding(model: Option<&str>, config: &Value) -> Value {
    let mut matching = json!({"overrideScope": "core"});
    if let Some(model) = model {
        matching["model"] = Value::from(model);
    }
    json!({"match": matching, "modelConfig": {"generateContentConfig": config}})
}

/// The words of `reasoning.effort`.
const EFFORTS: &[&str] = &["minimal", "low", "medium", "high"];
/// The families of the CLI's table whose models take a budget for their thoughts, and a level of them (0.61.0). The API refuses a request
/// with both, so each family gets its own override, behind the CLI's value of the same name.
const WITH_BUDGET: &str = "chat-base-2.5";
const WITH_LEVEL: &str = "chat-base-3";
/// Models with levels that have none below `LOW`, as far as the CLI chooses them by itself (0.61.0).
const ALWAYS_REASON: [&str; 3] = [
    "gemini-3-pro-preview",
    "gemini-3.1-pro-preview",
    "gemini-3.1-pro-preview-customtools",
];
const LOW: &str = "LOW";
const MINIMAL: &str = "MINIMAL";

/// The overrides of how much a model reasons. The values are those to which the vendor's own OpenAI-compatible API translates an effort
/// (<https://ai.google.dev/gemini-api/docs/openai>); models with levels can't be told not to reason at all.
fn reasoning(choices: &Choices) -> Vec<Value> {
    let (level, budget) = match (choices.reasoning_off, choices.effort.as_deref()) {
        (true, _) => (MINIMAL, 0),
        (false, Some("minimal")) => (MINIMAL, 1024),
        (false, Some("low")) => (LOW, 1024),
        (false, Some("medium")) => ("MEDIUM", 8192),
        (false, Some("high")) => ("HIGH", 24_576),
        (false, _) => return Vec::new(),
    };
    let with_budget = json!({"thinkingConfig": {"thinkingBudget": budget}});
    let with_level = |level: &str| json!({"thinkingConfig": {"thinkingLevel": level}});
    let mut overrides = vec![
        overriding(Some(WITH_BUDGET), &with_budget),
        overriding(Some(WITH_LEVEL), &with_level(level)),
    ];
    if level == MINIMAL {
        overrides.extend(ALWAYS_REASON.map(|model| overriding(Some(model), &with_level(LOW))));
    }
    // A model that the table does not have is of no family.
    if let Some(model) = choices.model.as_deref() {
        let config = match (model.starts_with("gemini-2"), level) {
            (true, _) => with_budget,
            (false, MINIMAL) if model.contains("-pro") => with_level(LOW),
            (false, level) => with_level(level),
        };
        overrides.push(overriding(Some(model), &config));
    }
    overrides
}

/// The check of the warm form. The vendor promises nothing for `--acp`: the form of its errors and figures was measured.
const WARM: EngineCheck = EngineCheck {
    package: "@google/gemini-cli",
    version_folders: &[],
    program: "gemini",
    versions: Versions::Measured(&[[0, 61, 0]]),
    print_flags: &[
        "--output-format",
        "-o",
        "--prompt",
        "-p",
        "--prompt-interactive",
        "-i",
        "--resume",
        "-r",
        "--acp",
        "--experimental-acp",
    ],
    print_env: &[],
    announces: Announced::Versions,
    measured_only: false,
};

const OPTIONS: &[OptionSpec] = &[
    options::KEEP_ALIVE,
    options::OUTPUT_FORMAT,
    options::SYSTEM_PROMPT,
    options::DISABLE_BUILT_IN_TOOLS,
    options::MAX_RETRIES,
];

/// The failures of Gemini (0.61.0; CLI-FACTS 3). Its fatal exit codes have names; the others are HTTP statuses modulo 256
/// ([`ExitCodes::HttpStatus`]). Error bodies are JSON, on standard error or in the result.
const ERRORS: Errors = Errors {
    rules: RULES,
    hints: HINTS,
    exit_codes: ExitCodes::HttpStatus,
    refused_flags: &[YARGS],
    channel: Channel {
        noise: &[
            r"ripgrep\ (?:is\ )?not\ available.*",
            r"attempt\ \d+\ failed.*",
            r"\[startup\].*",
            r"an\ unexpected\ critical\ error\ occurred:\[object\ object\]",
        ],
        // 0.61.0: the name of a file with the details.
        preamble: Some(r"^Error when talking to Gemini API\b.*?\.json\s+"),
        ..Channel::PLAIN
    },
    ..Errors::NONE
};

const HINTS: &[(Code, &str)] = &[
    (
        Code::NotLoggedIn,
        "set GEMINI_API_KEY, or log in to a company's account in `gemini`: logins of personal accounts ended on 2026-06-18",
    ),
    (
        Code::TokenExpired,
        "set GEMINI_API_KEY, or log in again to a company's account in `gemini`: logins of personal accounts ended on 2026-06-18",
    ),
    (
        Code::AuthenticationFailed,
        "correct GEMINI_API_KEY, or log in again to a company's account in `gemini`: logins of personal accounts ended on 2026-06-18",
    ),
    (Code::InvalidApiKey, "correct GEMINI_API_KEY"),
    (
        Code::CliNotFound,
        "install it with `npm install -g @google/gemini-cli`, or set `cliPath`",
    ),
    (
        Code::UntrustedWorkspace,
        "set GEMINI_CLI_TRUST_WORKSPACE=true, or trust the folder in `gemini`",
    ),
    (
        Code::CallbacksUnavailable,
        "leave out `cwd` and keep the built-in tools off: it reads of the tools in its own folder only",
    ),
];

#[rustfmt::skip] // One rule, one row.
const RULES: &[Rule] = &[
    Rule::new(&[Kind("terminal_quota_error")], Code::QuotaExceeded, "You have exhausted your daily quota on this model."),
    Rule::new(&[Kind("retryable_quota_error")], Code::RateLimited, "Resource exhausted"),
    // The API calls every 429 RESOURCE_EXHAUSTED; a limit that is over soon names its end.
    Rule::new(&[Kind("resource_exhausted"), Soon], Code::RateLimited, r#"{"status":"RESOURCE_EXHAUSTED","details":[{"retryDelay":"34s"}]}"#),
    // The error as the CLI reports it in stream-json: `[API Error: {…}]`, whose status is 429.
    Rule::new(&[Status(429), Soon], Code::RateLimited, "Quota exceeded for metric: generate_content_requests. Please retry in 34.07s."),
    Rule::new(&[Kind("model_not_found_error")], Code::ModelNotFound, "models/nope is not found for API version v1beta"),
    Rule::new(&[Kind("fatal_authentication_error")], Code::NotLoggedIn, "Please set an Auth method"),
    // The refusal of a session by a warm process (the protocol's code -32000).
    Rule::new(&[Kind("auth_required")], Code::NotLoggedIn, "Authentication required"),
    Rule::new(&[Kind("process_gone")], Code::Crashed, "the CLI's process ended in the middle of the call"),
    Rule::new(&[Exit(41), Text("<invalid auth method")], Code::InvalidConfig, "Invalid auth method selected.").hint("set security.auth.selectedType in ~/.gemini/settings.json"),
    Rule::new(&[Exit(41)], Code::NotLoggedIn, "Please set an Auth method in your settings.json"),
    Rule::new(&[Exit(42), Text("<no input provided>")], Code::EmptyPrompt, "No input provided via stdin."),
    Rule::new(&[Exit(42)], Code::InvalidRequest, "bad input"),
    Rule::new(&[Exit(44)], Code::InvalidConfig, "no sandbox").hint("correct the CLI's sandbox setting"),
    Rule::new(&[Exit(52)], Code::InvalidConfig, "Invalid configuration in settings.json").hint("correct ~/.gemini/settings.json"),
    Rule::new(&[Exit(53)], Code::MaxTurns, "Reached max session turns for this session."),
    Rule::new(&[Exit(54)], Code::ServerError, "a tool of the CLI failed"),
    Rule::new(&[Exit(55)], Code::UntrustedWorkspace, "Gemini CLI is not running in a trusted directory."),
    Rule::new(&[Exit(130)], Code::Crashed, "").say("interrupted from outside (exit code 130)"),
    Rule::new(&[Text("<exhausted your (?:\\w+ )?quota>|<terminal quota error>")], Code::QuotaExceeded, "TerminalQuotaError: You have exhausted your daily quota on this model."),
    Rule::new(&[Text("<retryable quota error>|<suggested retry after>")], Code::RateLimited, "RetryableQuotaError: Resource exhausted"),
    Rule::new(&[Text("<resource_(?:has been )?exhausted>"), Soon], Code::RateLimited, "Resource exhausted. Please retry in 2s."),
    Rule::new(&[Text("<models/\\S+ is not found>|<model not found error>")], Code::ModelNotFound, "ModelNotFoundError: models/nope is not found for API version v1beta"),
    Rule::new(&[Text("<the model returned an empty response>")], Code::EmptyResponse, "The model returned an empty response with no text or thoughts. This may be a transient API issue; please try again."),
    Rule::new(&[Text("<incomplete json segment>|<model stream ended without>")], Code::MalformedResponse, "[API Error: Incomplete JSON segment at the end]"),
    Rule::new(&[Text("^\\[?(?:api error: )?terminated>")], Code::ConnectionLost, "terminated"),
    Rule::new(&[Text("<fetch failed>")], Code::ConnectionFailed, "exception TypeError: fetch failed sending request"),
    Rule::new(&[Text("<not running in a trusted directory>")], Code::UntrustedWorkspace, "Gemini CLI is not running in a trusted directory. To proceed, either use `--skip-trust`"),
    Rule::new(&[Text("<set an auth method>")], Code::NotLoggedIn, "Please set an Auth method in your settings.json or specify one of the following environment variables"),
    Rule::new(&[Text("<no input provided via stdin>")], Code::EmptyPrompt, "No input provided via stdin. Input can be provided by piping data into gemini."),
];

#[cfg(test)]
mod tests {
    use super::super::STANDARD_SYSTEM_PROMPT;
    use super::super::tests::argv::line;
    use super::*;

    use crate::command::{Cwd, Mode};

    /// The settings of a call that chooses nothing.
    const SETTINGS: &str = concat!(
        r#"{"general":{"maxAttempts":1,"defaultApprovalMode":"default"},"context":{"includeDirectoryTree":false,"fileName":"GEMINI.md"},"#,
        r#""model":{"maxSessionTurns":-1,"compressionThreshold":0.5,"skipNextSpeakerCheck":true},"#,
        r#""modelConfigs":{"customOverrides":[],"overrides":[]},"tools":{"sandbox":false},"#,
        r#""experimental":{"adk":{"agentSessionNoninteractiveEnabled":false},"autoMemory":false,"contextManagement":false,"#,
        r#""directWebFetch":false,"dynamicModelConfiguration":false,"gemmaModelRouter":{"enabled":false},"generalistProfile":false,"#,
        r#""modelSteering":false,"powerUserProfile":false,"stressTestProfile":false,"taskTracker":false,"topicUpdateNarration":false},"#,
        r#""hooksConfig":{"enabled":false},"skills":{"enabled":false},"advanced":{"ignoreLocalEnv":true}}"#,
    );

    #[test]
    fn a_pipe_that_keeps_the_login_and_asks_once() {
        let line = line(&GEMINI, r#"{"model":"gemini-2.5-flash"}"#);
        assert_eq!(
            line.argv(),
            "--skip-trust --policy <policy.toml> --extensions none --allowed-mcp-server-names none -m gemini-2.5-flash \
             --output-format stream-json"
        );
        assert_eq!((line.0.stdin.as_str(), &line.0.cwd), ("PROMPT", &Cwd::Private));
        assert_eq!(
            line.files(),
            [
                (SETTINGS_FILE, SETTINGS),
                (
                    POLICY_FILE,
                    "[[rule]]\ntoolName = \"*\"\ndecision = \"deny\"\npriority = 998\n"
                ),
                (SYSTEM_PROMPT_FILE, STANDARD_SYSTEM_PROMPT)
            ]
        );
        assert_eq!(line.env("GEMINI_CLI_TRUST_WORKSPACE"), "true");
        assert_eq!(line.env("TMPDIR"), "<tmp/>");
        assert_eq!(line.env("GEMINI_SYSTEM_MD"), "<system-prompt.txt>");
        assert_eq!(line.env("GEMINI_CLI_NO_RELAUNCH"), "true");
    }

    /// The process is the same, but for the protocol.
    #[test]
    fn a_warm_process_has_the_flags_of_print() {
        let options = Options::parse(&GEMINI, r#"{"engine":"warm","model":"gemini-2.5-flash"}"#).unwrap();
        let line = crate::command::build(
            &GEMINI,
            &options,
            Mode::Warm,
            true,
            &crate::command::Installed::default(),
        )
        .unwrap();
        let args: Vec<String> = line.args.iter().map(|arg| format!("{arg:?}")).collect();
        assert_eq!(
            args.join(" "),
            r#"Text("--skip-trust") Text("--policy") File("policy.toml") Text("--extensions") Text("none") Text("--allowed-mcp-server-names") Text("none") Text("-m") Text("gemini-2.5-flash") Text("--acp")"#
        );
        assert_eq!((line.stdin.as_str(), &line.cwd), ("", &Cwd::Private));
        let names: Vec<&str> = line.files.iter().map(|file| file.name).collect();
        assert_eq!(names, [SETTINGS_FILE, POLICY_FILE, SYSTEM_PROMPT_FILE]);
    }

    #[test]
    fn formats_and_retries_are_the_users_and_so_are_its_tools() {
        assert_eq!(line(&GEMINI, r#"{"outputFormat":"json"}"#).0.wire, Wire::GeminiJson);
        assert!(
            !line(&GEMINI, r#"{"outputFormat":"text"}"#)
                .argv()
                .contains("--output-format")
        );
        assert!(
            line(&GEMINI, r#"{"maxRetries":2}"#).files()[0]
                .1
                .contains(r#""maxAttempts":3"#)
        );
        let on = line(&GEMINI, r#"{"disableBuiltInTools":false}"#);
        assert!(on.files().is_empty());
        assert_eq!(on.argv(), "--skip-trust --output-format stream-json");
        assert_eq!(
            (on.env("GEMINI_CLI_TRUST_WORKSPACE"), &on.0.cwd),
            (String::new(), &Cwd::Inherit)
        );
        let without = line(&GEMINI, "{}").without("--skip-trust").argv();
        assert!(without.starts_with("--policy"), "{without}");
    }

    /// The overrides of how much the model reasons: the model or family, and what its requests get.
    fn thinking(options: &str) -> Vec<(String, Value)> {
        let line = line(&GEMINI, options);
        let settings: Value = serde_json::from_str(line.files()[0].1).unwrap();
        let overrides = settings["modelConfigs"]["customOverrides"].as_array().unwrap().clone();
        let of = |one: Value| {
            assert_eq!(one["match"]["overrideScope"], "core");
            let config = one["modelConfig"]["generateContentConfig"]["thinkingConfig"].clone();
            (one["match"]["model"].as_str().unwrap().to_owned(), config)
        };
        overrides.into_iter().map(of).collect()
    }

    /// The API refuses a budget beside a level: every request gets one of them.
    #[test]
    fn an_effort_is_a_level_or_a_budget_by_the_family_of_the_model() {
        let budget = |tokens: u64| json!({"thinkingBudget": tokens});
        let level = |level: &str| json!({"thinkingLevel": level});
        let named = |all: Vec<(&str, Value)>| -> Vec<(String, Value)> {
            all.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
        };
        assert_eq!(
            thinking(r#"{"reasoning":{"effort":"medium"}}"#),
            named(vec![("chat-base-2.5", budget(8192)), ("chat-base-3", level("MEDIUM"))])
        );
        let pro = [
            ("gemini-3-pro-preview", level("LOW")),
            ("gemini-3.1-pro-preview", level("LOW")),
            ("gemini-3.1-pro-preview-customtools", level("LOW")),
        ];
        let lowest = |tokens, of: (&'static str, Value)| {
            let all = [("chat-base-2.5", budget(tokens)), ("chat-base-3", level("MINIMAL"))];
            named(all.into_iter().chain(pro.clone()).chain([of]).collect())
        };
        assert_eq!(
            thinking(r#"{"reasoning":"off","model":"gemini-2.5-flash"}"#),
            lowest(0, ("gemini-2.5-flash", budget(0)))
        );
        assert_eq!(
            thinking(r#"{"reasoning":{"effort":"minimal"},"model":"gemini-9-flash"}"#),
            lowest(1024, ("gemini-9-flash", level("MINIMAL")))
        );
        assert_eq!(
            thinking(r#"{"reasoning":"off","model":"gemini-9-pro"}"#),
            lowest(0, ("gemini-9-pro", level("LOW")))
        );
        let refused = Options::parse(&GEMINI, r#"{"reasoning":{"effort":"max"}}"#).unwrap_err();
        assert!(format!("{refused:?}").contains("minimal"), "{refused:?}");
    }

    /// A folder of the user's gets no settings of ours, and is not trusted with its own.
    #[test]
    fn a_given_folder_stays_as_it_is() {
        let line = line(&GEMINI, r#"{"cwd":"/"}"#);
        let names: Vec<&str> = line.files().iter().map(|(name, _)| *name).collect();
        assert_eq!(names, [POLICY_FILE, SYSTEM_PROMPT_FILE]);
        assert_eq!(line.env("GEMINI_CLI_TRUST_WORKSPACE"), "");
    }
}
