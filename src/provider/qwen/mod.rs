//! qwen (Qwen Code), measured with 0.15.10 (CLI-FACTS 4) and 0.24.4 (OTHER-LIVE 2).
//!
//! `--bare` with five tools excluded is the smallest request that was measured: 1.1 KB, no tools. The transcript and the log that
//! it would keep of a run go to a private folder. An API's error is for 0.15.10 exit code 0 and a "success" whose text says `[API
//! Error: …]`, and for 0.24.4 a message that says so before a result that is an error: the decoder makes a failure of both. Its
//! retries can't be bounded (`maxRetries: 0` in its settings still means 7 attempts, 96 s; 28 for 0.24.4), but 0.24.4 is ended at a
//! pause of a minute.
//!
//! How it fails, and what helps, stands at the end (`ERRORS`).

use std::borrow::Cow;

use serde_json::json;

use super::capability::{ByEngine, Capabilities, EMULATED, NATIVE, SOME_ASKED};
use super::errors::{Condition::*, Errors, JSON_SCHEMA, Rule, YARGS};
use super::installed::{self, Place};
use super::options::{self, EngineKind, OptionSpec, Options, OutputFormat};
use super::{
    About, AcpErrors, AcpUsage, Announced, Checks, Defaults, EngineCheck, EnvValue, FileSpec, Guard, LiveForm,
    PromptLimit, Provider, Reading, SYSTEM_PROMPT_FILE, SchemaForm, SettingsFile, SettingsForm, SettingsPlace,
    Unbeaten, UserSettings, Versions, WarmForm, WarmThread, When, Word, choice_var, flag, nobody, optional, pure,
    system_prompt, unbeaten, var_when,
};
use crate::declare::mcp::{self, CALL_LIMIT_MS, SERVER};
use crate::models::{Models, size};
use Word::Lit;
use dfp_model::error::Code;
use dfp_model::event::EngineUsed;
use dfp_text::decode::Wire;

const MCP_FILE: &str = "mcp.json";
const SETTINGS_FILE: &str = "settings.json";

/// The first version that was measured to take a server of tools, and to answer by a schema, with `--bare`.
const BARE_TAKES_ALL: [u64; 3] = [0, 24, 4];

/// The tools that 0.15.10 and 0.24.4 have without `--bare`, but for the one for answers by a schema.
const EVERY_TOOL: &str = "edit,write_file,read_file,grep_search,glob,run_shell_command,todo_write,save_memory,agent,skill,\
exit_plan_mode,web_fetch,list_directory,lsp,ask_user_question,cron_create,cron_list,cron_delete,task_stop,send_message,\
monitor,tool_search,enter_worktree,exit_worktree,get_goal,list_agents,loop_wakeup,read_mcp_resource,record_artifact,\
report_findings,update_goal";

/// The flags without `--bare` that leave none of its own tools.
const NO_TOOLS: &[Word] = &[
    Lit("--exclude-tools"),
    Lit(EVERY_TOOL),
    Lit("--extensions"),
    Lit("none"),
];

/// The flags with `--bare` that leave none of its own tools. 0.24.4 has the two for goals even then; 0.15.10 accepts their names.
const NO_BARE_TOOLS: &[Word] = &[
    Lit("--exclude-tools"),
    Lit("read_file"),
    Lit("edit"),
    Lit("run_shell_command"),
    Lit("get_goal"),
    Lit("update_goal"),
];

/// The settings of the machine-wide layer against the things that `--bare` would leave out: a second request with the whole thread,
/// hooks, and files with instructions (`~/.qwen/QWEN.md`, `AGENTS.md`), in whose place there is a name that no file has.
fn settings(_: &Provider, _: &Options) -> String {
    let none = json!({"fileName": "deep-factor-providers.none"});
    json!({"memory": {"enableManagedAutoMemory": false}, "disableAllHooks": true, "context": none}).to_string()
}

/// The configuration of the bridge, for `--mcp-config`. A trusted server's tools run without a question.
fn mcp_config(_: &Provider, options: &Options) -> String {
    let servers = mcp::servers(
        options.callbacks.as_ref(),
        |bridge| json!({"httpUrl": bridge.url, "headers": bridge.headers(), "timeout": CALL_LIMIT_MS, "trust": true}),
    );
    json!({"mcpServers": servers}).to_string()
}

/// The settings of the user that are read in spite of `--bare` (0.15.10, 0.24.4).
const USERS: &[Unbeaten] = &[
    unbeaten(&["env", MOST_TOKENS], LIMITS_ANSWERS, chooses_no_limit),
    unbeaten(
        &["context", "includeDirectories"],
        "is told to the model, folder by folder, where an answer has to fit a schema",
        nobody,
    ),
    unbeaten(
        &["model", "generationConfig"],
        "is sent with warm calls (0.15.10), and where an answer has to fit a schema",
        |options, used| pure(options, used) && used == EngineUsed::Warm,
    ),
];

/// The variables in the user's settings that are read likewise, if the process does not have them.
const VARIABLES: &[Unbeaten] = &[unbeaten(&[MOST_TOKENS], LIMITS_ANSWERS, chooses_no_limit)];

const MOST_TOKENS: &str = "QWEN_CODE_MAX_OUTPUT_TOKENS";
const LIMITS_ANSWERS: &str = "limits the answers of calls that choose no `maxOutputTokens`";

fn chooses_no_limit(options: &Options, used: EngineUsed) -> bool {
    pure(options, used) && options.choices.max_output_tokens.is_none()
}

/// The capabilities of the print form.
const PRINT: Capabilities = Capabilities {
    pure: true,
    structured_output: NATIVE.but(SOME_ASKED),
    reasoning_out: NATIVE,
    max_output_tokens: NATIVE.but("`QWEN_CODE_MAX_OUTPUT_TOKENS`; an answer that reaches it is a success"),
    ..Capabilities::LEAST
};

/// The check of the live form, by the npm package.
const LIVE_CHECK: EngineCheck = EngineCheck {
    package: "@qwen-code/qwen-code",
    version_folders: &[],
    program: "qwen",
    versions: Versions::Measured(&[[0, 24, 4]]),
    print_flags: PRINT_FLAGS,
    print_env: &[],
    announces: Announced::Versions,
    measured_only: true,
};

/// The check of the warm form. It excludes 0.24.4, which has a live form: an answer that the CLI asks for twice comes as one text
/// over `--acp`, where its print form separates the two. The two forms of 0.15.10 behave alike.
const WARM_CHECK: EngineCheck = EngineCheck {
    versions: Versions::Measured(&[[0, 15, 10]]),
    ..LIVE_CHECK
};

/// The flags for the request or its form. A user may not add them to a process that serves many calls, where they are ours.
const PRINT_FLAGS: &[&str] = &[
    "-p",
    "--prompt",
    "-i",
    "--prompt-interactive",
    "-o",
    "--output-format",
    "--input-format",
    "-c",
    "--continue",
    "-r",
    "--resume",
    "--session-id",
    "--acp",
];

/// The models of qwen, by the tables of qwen-code 0.15.10 and 0.24.4 (`tokenLimits`), for the names that stand in both.
const MODELS: Models = Models {
    vendor: Some("qwen"),
    company: None,
    names: Some("^qwen"),
    aliases: &[],
    sizes: &[
        size("qwen3-coder-flash", 1_000_000, Some(32_768)),
        size("qwen3-coder-next", 262_144, Some(32_768)),
        size("qwen3-coder-plus", 1_000_000, Some(32_768)),
    ],
    takes_image_urls: false,
};

/// The qwen CLI.
pub static QWEN: Provider = Provider {
    id: Cow::Borrowed("qwen"),
    command: Cow::Borrowed("qwen"),
    places: &[
        &[Place::home(
            ".local/bin",
            "install-qwen-standalone.sh of QwenLM/qwen-code",
        )],
        installed::HOMEBREW,
        installed::NODE,
        installed::WINDOWS,
    ],
    about: About {
        name: "Qwen",
        versions: &["0.15.10", "0.24.4"],
        sent: "the date, the platform and the folder",
        not_isolated: "the login in `~/.qwen`, where it leaves an `installation_id`; [some settings](#the-users-settings)",
        limits: "its own retries can't be switched off (111 s on a 500): `timeout` bounds them; 0.24.4 is ended where it pauses for a \
                 minute after a 429 or a 503; `outputFormat: \"text\"` is refused from 1 MiB of text on, whose end it loses; 0.15.10 asks \
                 twice for an answer of more than 8,000 tokens (unless `maxOutputTokens: 64000`), or one without an end, and reports both as \
                 one text; an answer stopped by that is a success; a prompt of 8 MiB; `systemPrompt` is `null` or ours, since it is an \
                 argument, which others can see",
    },
    defaults: Defaults {
        engine: EngineKind::Auto,
        ..Defaults::STANDARD
    },
    flags: &[
        flag(&[When::AuthType], &[Lit("--auth-type"), Word::AuthType]),
        // 0.15.10 takes no server of tools with `--bare`, so settings leave out the same things then.
        flag(&[When::Callbacks], &[Lit("--mcp-config"), Word::File(MCP_FILE)]),
        flag(&[When::Callbacks], &[Lit("--allowed-mcp-server-names"), Lit(SERVER)]),
        // Not optional: without it a second request with the whole thread is made, and files are written (CLI-FACTS 4).
        // With a schema, 0.15.10 leaves out its own tool for the answer there.
        flag(
            &[When::ToolsOff, When::NoCallbacks, When::NoOutputSchema],
            &[Lit("--bare")],
        ),
        flag(
            &[When::ToolsOff, When::Callbacks, When::Since(BARE_TAKES_ALL)],
            &[Lit("--bare")],
        ),
        flag(
            &[When::DefaultSystemPrompt],
            &[Lit("--system-prompt"), Word::SystemPrompt],
        ),
        flag(
            &[When::ToolsOff, When::NoCallbacks, When::NoOutputSchema],
            NO_BARE_TOOLS,
        ),
        flag(
            &[When::ToolsOff, When::Callbacks, When::Since(BARE_TAKES_ALL)],
            NO_BARE_TOOLS,
        ),
        flag(
            &[When::ToolsOff, When::Callbacks, When::Before(BARE_TAKES_ALL)],
            NO_TOOLS,
        ),
        flag(&[When::ToolsOff, When::NoCallbacks, When::OutputSchema], NO_TOOLS),
        // The CLI offers one tool, `structured_output`, and checks its arguments against the schema (CLI-FACTS 4).
        optional(&[When::OutputSchema], &[Lit("--json-schema"), Word::OutputSchema]),
        flag(&[When::Model], &[Lit("--model"), Word::Model]),
        flag(&[When::Warm], &[Lit("--acp")]),
        flag(
            &[When::Print, When::Format(OutputFormat::Json)],
            &[Lit("--output-format"), Lit("json")],
        ),
        flag(
            &[When::Print, When::Format(OutputFormat::StreamJson)],
            &[Lit("--output-format"), Lit("stream-json")],
        ),
        optional(
            &[When::Print, When::Partial, When::Format(OutputFormat::StreamJson)],
            &[Lit("--include-partial-messages")],
        ),
        flag(
            &[When::Live],
            &[
                Lit("--output-format"),
                Lit("stream-json"),
                Lit("--input-format"),
                Lit("stream-json"),
            ],
        ),
        optional(&[When::Live, When::Partial], &[Lit("--include-partial-messages")]),
    ],
    env: &[
        // Without it the thread stays in `~/.qwen/projects` and `~/.qwen/debug`, even with `--bare`.
        var_when(&[When::ToolsOff], "QWEN_RUNTIME_DIR", EnvValue::Folder("runtime")),
        // The file has the thread's system prompt, since others could read an argument.
        var_when(
            &[When::Live, When::CustomSystemPrompt],
            "QWEN_SYSTEM_MD",
            EnvValue::File(SYSTEM_PROMPT_FILE),
        ),
        // This saves one process (0.24.4).
        var_when(&[When::Live], "QWEN_CODE_NO_RELAUNCH", EnvValue::Fixed("true")),
        var_when(&[When::Warm], "QWEN_CODE_NO_RELAUNCH", EnvValue::Fixed("true")),
        // The limit of a tool's call, which waits for its caller; the default is 300 s (0.24.4).
        var_when(
            &[When::Live],
            "QWEN_CODE_MCP_TOOL_IDLE_TIMEOUT_MS",
            EnvValue::Fixed("86400000"),
        ),
        choice_var(&[When::MaxOutputTokens], MOST_TOKENS, EnvValue::MaxOutputTokens),
        var_when(
            &[When::ToolsOff, When::Callbacks, When::Before(BARE_TAKES_ALL)],
            "QWEN_CODE_SYSTEM_SETTINGS_PATH",
            EnvValue::File(SETTINGS_FILE),
        ),
        var_when(
            &[When::ToolsOff, When::NoCallbacks, When::OutputSchema],
            "QWEN_CODE_SYSTEM_SETTINGS_PATH",
            EnvValue::File(SETTINGS_FILE),
        ),
    ],
    drop_env: &["QWEN_SYSTEM_MD", "QWEN_WRITE_SYSTEM_MD"],
    files: &[
        FileSpec {
            when: &[When::Live, When::CustomSystemPrompt],
            name: SYSTEM_PROMPT_FILE,
            content: system_prompt,
        },
        FileSpec {
            when: &[When::Callbacks],
            name: MCP_FILE,
            content: mcp_config,
        },
        FileSpec {
            when: &[When::ToolsOff, When::Callbacks, When::Before(BARE_TAKES_ALL)],
            name: SETTINGS_FILE,
            content: settings,
        },
        FileSpec {
            when: &[When::ToolsOff, When::NoCallbacks, When::OutputSchema],
            name: SETTINGS_FILE,
            content: settings,
        },
    ],
    user_settings: Some(UserSettings {
        ours: None,
        files: &[
            SettingsFile {
                place: SettingsPlace::User("", ".qwen/settings.json"),
                form: SettingsForm::Jsonc,
                unbeaten: USERS,
                logins: &[],
            },
            SettingsFile {
                place: SettingsPlace::User("", ".qwen/.env"),
                form: SettingsForm::Variables,
                unbeaten: VARIABLES,
                logins: &[],
            },
            SettingsFile {
                place: SettingsPlace::User("", ".env"),
                form: SettingsForm::Variables,
                unbeaten: VARIABLES,
                logins: &[],
            },
        ],
    }),
    wires: &[
        (OutputFormat::StreamJson, Wire::QwenStream),
        (OutputFormat::Json, Wire::ClaudeJson),
        (OutputFormat::Text, Wire::Text),
    ],
    own_options: OPTIONS,
    // The CLI runs a prompt that begins with this: `/clear`, `/init`, `/export` (0.15.10, 0.24.4). Behind a line's end it is text (both).
    guard: Some(Guard {
        first: '/',
        prefix: "\n",
    }),
    reads_references: true,
    live: Some(LiveForm {
        folder: "qwen_live",
        // The CLI's flag for a schema adds a tool of its own, whose call ends the process.
        takes_schema: false,
        may_have_tools: false,
        has_turns_in_print: false,
        always_gets: None,
    }),
    warm: Some(WarmForm {
        usage: AcpUsage::Update,
        errors: AcpErrors::Details,
        // A fresh process has 232 MB, 285 after 200 sessions, 310 after 400; each session leaves its thread in the private folder.
        max_sessions: 200,
        thread: WarmThread::Prompt,
        is_told_choices: false,
        has_own_tools: false,
        takes_schema: false,
    }),
    capabilities: ByEngine {
        print: PRINT,
        live: Some(Capabilities {
            structured_output: EMULATED,
            ..PRINT
        }),
    },
    models: MODELS,
    schema: SchemaForm::Tool {
        name: "structured_output",
        asks_again: false,
    },
    // A longer prompt is cut, with a warning (recording qwen/stdin-12MiB).
    prompt_limit: Some(PromptLimit::Bytes(8 * 1024 * 1024)),
    errors: ERRORS,
    checks: Checks {
        live: Some(LIVE_CHECK),
        warm: Some(WARM_CHECK),
        reading: Reading {
            flags: &[
                "--mcp-config",
                "--allowed-mcp-server-names",
                "--allowed-tools",
                "--core-tools",
                "--extensions",
                "-e",
                "--continue",
                "-c",
                "--resume",
                "-r",
                "--session-id",
            ],
            ..Reading::NONE
        },
        ..Checks::VERSION_ONLY
    },
    // `QWEN_HOME` moves the folder, but with the flags of a call the CLI reads no key and no setting there (0.15.10).
    ..Provider::BASE
};

const OPTIONS: &[OptionSpec] = &[
    options::KEEP_ALIVE,
    options::MAX_PROCESSES,
    options::SPARES,
    options::OUTPUT_FORMAT,
    options::AUTH_TYPE,
    options::CLI_SYSTEM_PROMPT,
    options::DISABLE_BUILT_IN_TOOLS,
    options::INCLUDE_PARTIAL_MESSAGES,
];

/// The failures of Qwen (0.15.10 and 0.24.4; CLI-FACTS 4, OTHER-LIVE 2). In json and stream-json an API error is exit 0 (0.15.10),
/// `success` and a result that reads `[API Error: 401 …]`: the decoder makes a failure of it, and the common rules read the status.
const ERRORS: Errors = Errors {
    rules: RULES,
    hints: HINTS,
    refused_flags: &[YARGS],
    refused_schema: Some(JSON_SCHEMA),
    // `Retrying in 60s (attempt 1/10): [API Error: 429 slow down]`: ten minutes at least (0.24.4).
    long_pauses: &["Retrying in "],
    // The pipe that a run gets holds so much on Linux (0.24.4: beyond that the end is lost; 0.15.10 loses nothing).
    whole_text: Some(if cfg!(target_os = "linux") {
        1024 * 1024
    } else {
        64 * 1024
    }),
    ..Errors::NONE
};

const HINTS: &[(Code, &str)] = &[
    (
        Code::NotLoggedIn,
        "name the login: the `authType` option (\"openai\", \"qwen-oauth\"), or OPENAI_API_KEY, OPENAI_BASE_URL and OPENAI_MODEL in the \
         environment; with its own tools off, qwen does not read which one its settings choose",
    ),
    (
        Code::AuthenticationFailed,
        "run `qwen` and log in again with /auth, or correct OPENAI_API_KEY",
    ),
    (Code::InvalidApiKey, "correct OPENAI_API_KEY"),
    (
        Code::CliNotFound,
        "install it with `npm install -g @qwen-code/qwen-code`, or set `cliPath`",
    ),
];

#[rustfmt::skip] // One rule, one row.
const RULES: &[Rule] = &[
    Rule::new(&[NoTurns, Text("<command .* is not supported in this mode>")], Code::PromptIntercepted, "The command \"/help\" is not supported in this mode."),
    Rule::new(&[NoTurns, Subtype("success")], Code::PromptIntercepted, "").say("the CLI took the prompt for a command of its own and asked no model"),
    Rule::new(&[Kind("tools_not_offered")], Code::InvalidConfig, "the CLI does not offer its model what is bound: add").hint("look into `permissions.deny` and `tools` of `~/.qwen/settings.json`"),
    Rule::new(&[Subtype("error_max_turns")], Code::MaxTurns, "Reached max session turns"),
    Rule::new(&[Exit(41)], Code::NotLoggedIn, "No auth type is selected."),
    Rule::new(&[Exit(42), Text("<no input provided>")], Code::EmptyPrompt, "No input provided via stdin."),
    Rule::new(&[Exit(52), Text("<json_schema is not|<json_schema root must>")], Code::InvalidOption, "--json-schema is not a valid JSON Schema: strict mode: unknown keyword: \"x-a\"").hint("give a schema that the CLI takes, or give it as the call's option `outputSchema`"),
    Rule::new(&[Exit(52)], Code::InvalidConfig, "Invalid configuration in settings.json").hint("correct ~/.qwen/settings.json"),
    Rule::new(&[Exit(55)], Code::Timeout, "Run aborted: wall-clock budget of 4s exceeded (--max-wall-time)."),
    Rule::new(&[Exit(53)], Code::MaxTurns, "Reached max session turns for this session."),
    Rule::new(&[Text("<is not supported in this mode>")], Code::PromptIntercepted, "The command \"/help\" is not supported in this mode."),
    Rule::new(&[Text("<no input provided via stdin>")], Code::EmptyPrompt, "No input provided via stdin. Input can be provided by piping data into gemini or using the --prompt option."),
    Rule::new(&[Text("<structured_output tool as required>|<instead of calling the structured_output>")], Code::OutputInvalid, "Model produced plain text instead of calling the structured_output tool as required by --json-schema after 1 turn(s)."),
    Rule::new(&[Text("<no auth type is selected>|<set an auth method>|<missing api key>")], Code::NotLoggedIn, "No auth type is selected. Please configure an auth type (e.g. via settings or `--auth-type`)"),
    Rule::new(&[Text("^\\[?api error: connection error")], Code::ConnectionFailed, "[API Error: Connection error. (cause: fetch failed)]"),
    Rule::new(&[Text("<context is too large to send>")], Code::ContextLength, "Context is too large to send safely after automatic compression. Estimated prompt tokens: 2097351; hard limit: 177000; compression status: NOOP."),
    Rule::new(&[Text("<model stream ended with empty>")], Code::EmptyResponse, "[API Error: Model stream ended with empty response text.]"),
    Rule::new(&[Text("<response contained a malformed tool call>")], Code::MalformedResponse, "[API Error: Model response contained a malformed tool call.]"),
    Rule::new(&[Text("<model stream ended without>")], Code::MalformedResponse, "[API Error: Model stream ended without a finish reason.]"),
    Rule::new(&[Text("^\\[?(?:api error: )?terminated>")], Code::ConnectionLost, "[API Error: terminated (cause: other side closed)]"),
    Rule::new(&[Subtype("error_during_execution")], Code::ServerError, "something broke").weak(),
];

#[cfg(test)]
mod tests {
    use super::super::STANDARD_SYSTEM_PROMPT;
    use super::super::tests::argv::line;
    use super::*;
    use crate::command::Cwd;

    #[test]
    fn the_smallest_request_that_was_measured() {
        let line = line(&QWEN, r#"{"model":"qwen3-coder"}"#);
        assert_eq!(
            line.argv(),
            "--bare --system-prompt SYSTEM --exclude-tools read_file edit run_shell_command get_goal update_goal --model \
             qwen3-coder --output-format stream-json"
        );
        assert_eq!((line.0.stdin.as_str(), &line.0.cwd), ("PROMPT", &Cwd::Private));
        assert_eq!(line.0.wire, Wire::QwenStream);
        assert_eq!(line.env("QWEN_RUNTIME_DIR"), "<runtime/>");
    }

    #[test]
    fn its_login_is_chosen_only_where_the_user_says_so() {
        assert_eq!(
            line(
                &QWEN,
                r#"{"authType":"openai","systemPrompt":null,"outputFormat":"json"}"#
            )
            .argv(),
            "--auth-type openai --bare --exclude-tools read_file edit run_shell_command get_goal update_goal --output-format json"
        );
        assert_eq!(
            line(&QWEN, r#"{"disableBuiltInTools":false,"includePartialMessages":true}"#).argv(),
            "--output-format stream-json --include-partial-messages"
        );
    }

    /// The process is the same, but for the protocol.
    #[test]
    fn a_warm_process_has_the_flags_of_print() {
        let options = options::Options::parse(&QWEN, r#"{"engine":"warm","model":"qwen3-coder"}"#).unwrap();
        let installed = crate::command::Installed::default();
        let line = crate::command::build(&QWEN, &options, crate::command::Mode::Warm, true, &installed).unwrap();
        let args: Vec<String> = line.args.iter().map(|arg| format!("{arg:?}")).collect();
        let expected = r#"Text("--bare") Text("--system-prompt") Text("SYSTEM") Text("--exclude-tools") Text("read_file") Text("edit") Text("run_shell_command") Text("get_goal") Text("update_goal") Text("--model") Text("qwen3-coder") Text("--acp")"#;
        let expected = expected.replace("SYSTEM", STANDARD_SYSTEM_PROMPT);
        assert_eq!(args.join(" "), expected);
        assert_eq!((line.stdin.as_str(), &line.cwd), ("", &Cwd::Private));
        assert!(line.files.is_empty());
    }

    #[test]
    fn a_system_prompt_never_goes_to_argv() {
        let error = options::Options::parse(&QWEN, r#"{"systemPrompt":"secret"}"#).unwrap_err();
        assert!(
            error
                .message
                .starts_with("option \"systemPrompt\" must be null, for the CLI's own"),
            "{}",
            error.message
        );
    }
}
