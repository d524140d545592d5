//! opencode, measured with 1.18.34 (CLI-FACTS 5, whose traps are numbered there).
//!
//! The default follows CLI-FACTS 5: an agent of our own without tools, configured by a variable, in an empty folder, with an empty
//! configuration folder. Logins survive that. If opencode can't recognise the end of an answer, it asks again for ever (trap 1), so
//! the process is ended at the first such step. Its output may be cut at exit (trap 2), so a run without a last `step_finish` is no
//! success. In place of a missing agent, one with all tools answers (trap 4), which is a failure. Retries are silent and can't be
//! bounded (trap 7), so there is always a time limit.
//!
//! A login together with `OPENCODE_DB=:memory:` was not measured; that setting keeps first runs from colliding (trap 6) and leaves
//! no sessions behind.
//!
//! How it fails, and what helps, stands at the end (`ERRORS`).

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::capability::{ByEngine, Capabilities, NATIVE, SOME_ASKED, UNSUPPORTED};
use super::errors::{Channel, Condition::*, Errors, Rule};
use super::installed::{self, Place, Root};
use super::options::{self, EngineKind, OptionSpec, Options, OutputFormat, SystemPrompt};
use super::{
    About, Announced, Checks, Defaults, EngineCheck, EnvValue, LiveForm, LoginDir, Provider, Reading, SchemaForm,
    SettingsFile, SettingsForm, SettingsPlace, Unbeaten, UserSettings, Versions, When, Word, choice_var, flag,
    optional, pure, system_prompt, unbeaten, var, var_when,
};
use crate::MediaSupport;
use Word::Lit;
use dfp_model::error::Code;
use dfp_model::message::content::Accepts;
use dfp_text::decode::Wire;

/// The name of our agent.
const AGENT: &str = "pipe";
/// The CLI's own tool for answers by a schema.
const ANSWER_TOOL: &str = "StructuredOutput";

/// The opencode CLI.
pub static OPENCODE: Provider = Provider {
    id: Cow::Borrowed("opencode"),
    command: Cow::Borrowed("opencode"),
    places: &[
        &[
            Place::new(
                Root::Variable("OPENCODE_INSTALL_DIR", None),
                "",
                "opencode.ai/install (README, Installation directory)",
            ),
            Place::new(
                Root::Variable("XDG_BIN_DIR", None),
                "",
                "opencode.ai/install (README, Installation directory)",
            ),
            Place::home("bin", "opencode.ai/install (README, Installation directory)"),
            Place::home(".opencode/bin", "opencode.ai/install (README, Installation directory)"),
        ],
        installed::LOCAL_BIN,
        installed::HOMEBREW,
        installed::NODE,
        installed::WINDOWS,
    ],
    about: About {
        name: "OpenCode",
        versions: &["1.18.34"],
        sent: "the model's name, platform and date",
        not_isolated: "its log and locks in `~/.local`; a machine's `/etc/opencode`, which `health()` names; with `ignoreUserConfig: \
                       false`, the user's opencode.json with its MCP servers",
        limits: "it retries in silence (73 s on a 500), so there is always a `timeout`; answers of more than 1 MB (off Linux, of 450 KB) \
                 may be cut, which is an error; whole messages, no text deltas; an answer stopped by length is a success whose `stopReason` \
                 is `length`; the user's providers have to be set in `config`",
    },
    defaults: Defaults {
        ignore_user_config: true,
        engine: EngineKind::Auto,
        ..Defaults::STANDARD
    },
    flags: &[
        // Our own title: without one, the CLI makes another request to find one.
        flag(
            &[When::Print],
            &[Lit("run"), Lit("--format"), Lit("json"), Lit("--title"), Lit("x")],
        ),
        // Without this flag, no reasoning is printed.
        optional(&[When::Print], &[Lit("--thinking")]),
        flag(&[When::Print, When::ToolsOff], &[Lit("--agent"), Lit(AGENT)]),
        flag(&[When::Print, When::Model], &[Lit("-m"), Word::Model]),
        // A variant that the model has not is ignored in silence (1.18.34).
        flag(&[When::Print, When::Effort], &[Lit("--variant"), Word::Effort]),
        // The CLI takes a free port, and prints it.
        flag(
            &[When::Live],
            &[
                Lit("serve"),
                Lit("--port"),
                Lit("0"),
                Lit("--hostname"),
                Lit("127.0.0.1"),
            ],
        ),
    ],
    env: &[
        var_when(&[When::Print], "OPENCODE_CONFIG_CONTENT", EnvValue::Composed(config)),
        var_when(
            &[When::Live],
            "OPENCODE_CONFIG_CONTENT",
            EnvValue::Composed(live_config),
        ),
        choice_var(
            &[When::MaxOutputTokens],
            "OPENCODE_EXPERIMENTAL_OUTPUT_TOKEN_MAX",
            EnvValue::MaxOutputTokens,
        ),
        // The flag beats the folder that the process is started in (trap 5).
        var("PWD", EnvValue::Cwd),
        var_when(
            &[When::ToolsOff, When::IgnoreUserConfig],
            "XDG_CONFIG_HOME",
            EnvValue::Folder("config"),
        ),
        // These would add the user's file, folder and rules, beside those of `~/.config`.
        var_when(
            &[When::ToolsOff, When::IgnoreUserConfig],
            "OPENCODE_CONFIG",
            EnvValue::Unset,
        ),
        var_when(
            &[When::ToolsOff, When::IgnoreUserConfig],
            "OPENCODE_CONFIG_DIR",
            EnvValue::Unset,
        ),
        var_when(
            &[When::ToolsOff, When::IgnoreUserConfig],
            "OPENCODE_PERMISSION",
            EnvValue::Unset,
        ),
        // The folder in which it looks for `.opencode`, whatever else is switched off (1.18.34). The login lies in `~/.local/share` all the
        // same.
        var_when(
            &[When::ToolsOff, When::IgnoreUserConfig],
            "OPENCODE_TEST_HOME",
            EnvValue::Folder("home"),
        ),
        var_when(
            &[When::ToolsOff],
            "OPENCODE_DISABLE_PROJECT_CONFIG",
            EnvValue::Fixed("1"),
        ),
        var_when(&[When::ToolsOff], "OPENCODE_DISABLE_CLAUDE_CODE", EnvValue::Fixed("1")),
        var_when(&[When::ToolsOff], "OPENCODE_PURE", EnvValue::Fixed("1")),
        var_when(&[When::ToolsOff], "OPENCODE_DISABLE_MODELS_FETCH", EnvValue::Fixed("1")),
        var("OPENCODE_DISABLE_AUTOUPDATE", EnvValue::Fixed("1")),
        var_when(&[When::ToolsOff], "OPENCODE_DISABLE_LSP_DOWNLOAD", EnvValue::Fixed("1")),
        var_when(&[When::ToolsOff], "OPENCODE_DB", EnvValue::Fixed(":memory:")),
        // Every run unpacks a library there and leaves it behind.
        var_when(&[When::ToolsOff], "TMPDIR", EnvValue::Folder("tmp")),
        // The CLI would install a plugin's types into every configuration folder; a closed registry is harmless.
        var_when(
            &[When::ToolsOff],
            "npm_config_registry",
            EnvValue::Fixed("http://127.0.0.1:9"),
        ),
    ],
    user_settings: Some(UserSettings {
        ours: None,
        files: &[
            SettingsFile {
                place: SettingsPlace::Machine {
                    folders: MANAGED,
                    file: "opencode.json",
                    more: None,
                },
                form: SettingsForm::Jsonc,
                unbeaten: MACHINES,
                logins: &[],
            },
            SettingsFile {
                place: SettingsPlace::Machine {
                    folders: MANAGED,
                    file: "opencode.jsonc",
                    more: None,
                },
                form: SettingsForm::Jsonc,
                unbeaten: MACHINES,
                logins: &[],
            },
        ],
    }),
    wires: &[(OutputFormat::StreamJson, Wire::OpencodeJson)],
    own_options: OPTIONS,
    live: Some(LiveForm {
        folder: "opencode_live",
        takes_schema: true,
        may_have_tools: false,
        has_turns_in_print: false,
        always_gets: None,
    }),
    drops_choices: true,
    off_effort: Some("none"),
    capabilities: ByEngine {
        print: CAPABILITIES,
        live: Some(Capabilities {
            structured_output: NATIVE.but(SOME_ASKED),
            images: NATIVE.but(SIGHT),
            result_images: NATIVE.but(SIGHT),
            reasoning_effort: NATIVE.but("the model's `variant`; a `warning` where it has none of that name"),
            reasoning_off: NATIVE.but("the variant `none`; a `warning` where the model has none of that name"),
            ..CAPABILITIES
        }),
    },
    media: MediaSupport {
        live: IMAGES,
        ..MediaSupport::NONE
    },
    schema: SchemaForm::Tool {
        name: ANSWER_TOOL,
        asks_again: false,
    },
    stop_on: &["unknown"],
    fatal_stderr: &["not found. Falling back to default agent"],
    errors: ERRORS,
    checks: Checks {
        live: Some(EngineCheck {
            package: "opencode",
            version_folders: &[],
            program: "opencode",
            versions: Versions::Probed(&[[1, 18, 34]]),
            print_flags: RUN_FLAGS,
            print_env: &[],
            announces: Announced::All,
            measured_only: false,
        }),
        reading: Reading {
            flags: &[
                "--continue",
                "-c",
                "--session",
                "-s",
                "--file",
                "-f",
                "--agent",
                "--command",
                "--attach",
            ],
            config: &["mcp", "plugin", "instructions", "agent", "tools", "permission"],
            ..Reading::NONE
        },
        ..Checks::VERSION_ONLY
    },
    login_dir: Some(LoginDir {
        variable: "XDG_DATA_HOME",
        holds: "a folder `opencode`, as in `~/.local/share`",
    }),
    ..Provider::BASE
};

/// The folders of a machine's configuration, which wins over ours (1.18.34).
const MANAGED: [&str; 3] = [
    "/etc/opencode",
    "/Library/Application Support/opencode",
    "C:\\ProgramData\\opencode",
];

/// The members of that configuration that reach a call of a model alone.
const MACHINES: &[Unbeaten] = &[
    unbeaten(&["agent", AGENT], "replaces the system prompt, or more, of calls", pure),
    unbeaten(&["instructions"], "is read by the model with every call", pure),
    unbeaten(&["mcp"], "starts servers with each process", pure),
];

/// The remark that an image needs a model which is configured to see.
const SIGHT: &str = "of models that their [configuration](cli/opencode.md#live) or opencode's catalog says it of";

/// The images that opencode takes: as data only, since it would fetch an address itself.
const IMAGES: Accepts = Accepts::images(32 << 20);

/// The flags of `run` that `serve` does not have.
const RUN_FLAGS: &[&str] = &[
    "--command",
    "-c",
    "--continue",
    "-s",
    "--session",
    "--fork",
    "--share",
    "-m",
    "--model",
    "--agent",
    "--format",
    "-f",
    "--file",
    "--title",
    "--attach",
    "-p",
    "--password",
    "-u",
    "--username",
    "--dir",
    "--variant",
    "--thinking",
    "-i",
    "--interactive",
    "--auto",
];

/// The capabilities of both forms.
const CAPABILITIES: Capabilities = Capabilities {
    pure: true,
    reasoning_out: NATIVE,
    reasoning_effort: NATIVE.but("`--variant`; one that the model has not is ignored"),
    reasoning_off: NATIVE.but("the variant `none`; a model that has none of that name ignores it"),
    login: NATIVE.but("`XDG_DATA_HOME`"),
    max_output_tokens: NATIVE.but("`OPENCODE_EXPERIMENTAL_OUTPUT_TOKEN_MAX`; an answer that reaches it is a success"),
    temperature: UNSUPPORTED.but("it leaves it out silently for models that its catalog does not name for it"),
    ..Capabilities::LEAST
};

/// The configuration of a print run: ours, then the user's `config` over it, then our agent.
fn config(provider: &Provider, options: &Options) -> String {
    let mut config = common(options);
    if !options.built_in_tools {
        let mut agent = json!({"mode": "primary", "permission": {"*": "deny"}, "tools": {"*": false}});
        // An empty prompt means opencode's own, too (CLI-FACTS 5).
        if options.system_prompt != SystemPrompt::Cli {
            agent["prompt"] = Value::String(system_prompt(provider, options));
        }
        config.insert("agent".to_owned(), json!({AGENT: agent}));
    }
    Value::Object(config).to_string()
}

/// The configuration of a server: its agent asks before it calls a tool of the caller's, which is how calls come back unexecuted
/// (OTHER-LIVE 1.3). The system prompt is sent with every message. Nothing is summed up behind the caller's back, and no copy of
/// the folder is made. The limits are the caller's: opencode's own of five minutes for a whole request would cut a long answer.
fn live_config(_: &Provider, options: &Options) -> String {
    let mut config = common(options);
    config.insert("compaction".to_owned(), json!({"auto": false, "prune": false}));
    config.insert("snapshot".to_owned(), json!(false));
    let permission = json!({
        "*": "deny", "df_*": "ask", "doom_loop": "allow", "invalid": "allow",
        // The tool for an answer by a schema, which is there for such answers alone; denied, each of them would be an error (1.18.34).
        ANSWER_TOOL: "allow",
    });
    let mut agent = json!({"mode": "primary", "permission": permission});
    if options.system_prompt != SystemPrompt::Cli {
        // An empty prompt would mean opencode's own.
        agent["prompt"] = json!(" ");
    }
    config.insert("agent".to_owned(), json!({AGENT: agent}));
    if let Some((of, _)) = options.choices.model.as_deref().and_then(|model| model.split_once('/')) {
        no_request_limit(&mut config, of);
    }
    Value::Object(config).to_string()
}

/// Sets `provider.<of>.options.timeout` to no limit, unless the user has set it.
fn no_request_limit(config: &mut Map<String, Value>, of: &str) {
    let mut at = config;
    for name in ["provider", of, "options"] {
        let next = at.entry(name).or_insert_with(|| json!({}));
        let Some(object) = next.as_object_mut() else { return };
        at = object;
    }
    at.entry("timeout").or_insert(json!(false));
}

/// The common part of the configurations: ours, and the user's `config` over it.
fn common(options: &Options) -> Map<String, Value> {
    let mut config = Map::new();
    config.insert("autoupdate".to_owned(), json!(false));
    config.insert("share".to_owned(), json!("disabled"));
    // With nothing configured the thread would go to a free hosted model (trap 3).
    match options.choices.model.as_deref().and_then(|model| model.split_once('/')) {
        Some((of, _)) => config.insert("enabled_providers".to_owned(), json!([of])),
        None => config.insert("disabled_providers".to_owned(), json!(["opencode"])),
    };
    config.extend(options.config.clone());
    config
}

const OPTIONS: &[OptionSpec] = &[
    options::PROVIDER_MODEL,
    options::TIMEOUT_ALWAYS,
    options::SYSTEM_PROMPT,
    options::DISABLE_BUILT_IN_TOOLS,
    options::IGNORE_USER_CONFIG,
    options::CONFIG,
    options::KEEP_ALIVE,
];

/// The failures of OpenCode (1.18.34; CLI-FACTS 5): one `error` line with a name and, for API errors, a status; set-up errors are
/// text on standard error.
const ERRORS: Errors = Errors {
    rules: RULES,
    hints: HINTS,
    channel: Channel {
        // The CLI's banner.
        noise: &[r">\s\S+\s·\s.*"],
        ..Channel::PLAIN
    },
    ..Errors::NONE
};

const HINTS: &[(Code, &str)] = &[
    (Code::NotLoggedIn, "run `opencode auth login`"),
    (Code::AuthenticationFailed, "run `opencode auth login`"),
    (Code::InvalidApiKey, "run `opencode auth login` and give a valid key"),
    (Code::ModelNotFound, "name a model that `opencode models` lists"),
    (Code::InvalidConfig, "correct opencode.json"),
    (
        Code::CliNotFound,
        "install it with `npm install -g opencode-ai`, or set `cliPath`",
    ),
];

#[rustfmt::skip] // One rule, one row.
const RULES: &[Rule] = &[
    // npm's package without its program, by `--ignore-scripts` or `--omit=optional` (opencode-ai 1.18.33).
    Rule::new(&[Text("<opencode-ai's postinstall script was not run")], Code::CliNotExecutable, "Error: opencode-ai's postinstall script was not run.").hint("run `npm install -g --include=optional --ignore-scripts=false opencode-ai`"),
    Rule::new(&[Kind("context_overflow_error")], Code::ContextLength, "This model's maximum context length is 8192 tokens."),
    Rule::new(&[Kind("provider_auth_error")], Code::NotLoggedIn, "OpenAI API key is missing."),
    Rule::new(&[Kind("content_filter_error")], Code::Refusal, "The response was filtered"),
    Rule::new(&[Kind("structured_output_error")], Code::OutputInvalid, "Model did not produce structured output"),
    Rule::new(&[Kind("message_output_length_error")], Code::MaxTokens, "output length"),
    Rule::new(&[Kind("message_aborted_error")], Code::Crashed, "Aborted").say("interrupted in the middle of the answer"),
    Rule::new(&[Kind("provider_model_not_found_error")], Code::ModelNotFound, "Model not found: mock/nope"),
    Rule::new(&[Kind("provider_init_error")], Code::InvalidConfig, "Failed to initialise the provider"),
    // The decoder reports this, since opencode would ask again for ever (recording opencode/loop-html-200-10s).
    Rule::new(&[Kind("unknown")], Code::MalformedResponse, "the answer ended without a reason that opencode knows; it would ask again for ever").hint("try again; if it persists, check the API: it sends no finish reason that opencode knows"),
    Rule::new(&[Kind("unknown_error"), Text("<timed out>")], Code::RequestTimeout, "The operation timed out."),
    Rule::new(&[Text("<cannot connect to api>|<unable to connect>")], Code::ConnectionFailed, "Cannot connect to API: Unable to connect. Is the computer able to access the url?"),
    Rule::new(&[Text("<agent \\S+ not found\\. falling back>")], Code::InvalidConfig, "! agent \"nope\" not found. Falling back to default agent").hint("the agent that the package configures was lost: do not override OPENCODE_CONFIG_CONTENT"),
    Rule::new(&[Text("<config file at .* is not valid|<config_invalid_error>|<config_json_error>")], Code::InvalidConfig, "Config file at OPENCODE_CONFIG_CONTENT is not valid JSON(C):"),
    Rule::new(&[Text("<must provide a message or a command>")], Code::EmptyPrompt, "You must provide a message or a command"),
    Rule::new(&[Text("<database is locked>|<failed query: create table")], Code::ServerError, "database is locked").hint("first runs on a fresh home folder collide: run once alone, or lower `maxConcurrency`"),
    Rule::new(&[Text("<session not found>")], Code::NotFound, "Session not found"),
    // An unknown flag is answered with the help text and nothing else.
    Rule::new(&[Text("^opencode run \\[message\\.\\.\\]")], Code::UnsupportedFlag, "opencode run [message..]").say("opencode answered with its help text: it does not know one of the flags"),
    // The failures that the live engine has a word for (`exchange::opencode_live`).
    Rule::new(&[Kind("no_finish")], Code::MalformedResponse, "opencode ended the turn without saying how"),
    Rule::new(&[Kind("tool_ran")], Code::LiveUnsupported, "opencode ran a call of the tool \"add\" that nobody permitted"),
    Rule::new(&[Kind("server_gone")], Code::Crashed, "opencode serve ended in the middle of a turn"),
    Rule::new(&[Kind("session_gone")], Code::Crashed, "opencode took the session away in the middle of its turn"),
    Rule::new(&[Kind("answer_too_long")], Code::OutputLimit, "the answer has more than 1000 bytes, the limit of the option `maxBuffer`"),
    Rule::new(&[Kind("refused_message")], Code::ModelNotFound, "opencode refused the message with status 500").hint("opencode names no cause; mostly the model or its provider is not configured: compare with `opencode models`, see its log file"),
    // The CLI reports that it would try again and why, without a status.
    Rule::new(&[Kind("retried_request")], Code::ServerError, "boom").weak(),
    Rule::new(&[Kind("no_session")], Code::ServerError, "the tools can't be declared").weak(),
    // Only the CLI's log names the cause. In each measured case, the model or its provider was not found.
    Rule::new(&[Text("<unexpected server error\\. check server logs")], Code::ModelNotFound, "Unexpected server error. Check server logs for details.").hint("opencode names no cause; mostly the model or its provider is not configured: compare with `opencode models`, see its log file"),
];

#[cfg(test)]
mod tests {
    use super::super::STANDARD_SYSTEM_PROMPT;
    use super::super::tests::argv::line;
    use super::*;
    use crate::command::Cwd;

    fn config_of(options: &str) -> Value {
        serde_json::from_str(&line(&OPENCODE, options).env("OPENCODE_CONFIG_CONTENT")).unwrap()
    }

    #[test]
    fn the_recommended_pipe() {
        let line = line(&OPENCODE, r#"{"model":"openai/gpt-5.5"}"#);
        assert_eq!(
            line.argv(),
            "run --format json --title x --thinking --agent pipe -m openai/gpt-5.5"
        );
        assert_eq!((line.0.stdin.as_str(), &line.0.cwd), ("PROMPT", &Cwd::Private));
        assert_eq!(
            (line.env("PWD"), line.env("XDG_CONFIG_HOME")),
            ("<cwd>".into(), "<config/>".into())
        );
        assert_eq!(line.env("OPENCODE_DB"), ":memory:");
        assert_eq!(
            config_of(r#"{"model":"openai/gpt-5.5"}"#),
            json!({
                "autoupdate": false,
                "share": "disabled",
                "enabled_providers": ["openai"],
                "agent": {"pipe": {
                    "mode": "primary",
                    "permission": {"*": "deny"},
                    "tools": {"*": false},
                    "prompt": STANDARD_SYSTEM_PROMPT,
                }},
            })
        );
    }

    #[test]
    fn without_a_model_nothing_goes_to_the_free_hosted_one() {
        assert_eq!(config_of("{}")["disabled_providers"], json!(["opencode"]));
    }

    #[test]
    fn the_users_configuration_is_merged_but_the_agent_stays_ours() {
        let config = config_of(
            r#"{"model":"mine/m","systemPrompt":"Be brief.","config":{"provider":{"mine":{}},"share":"auto","agent":{"pipe":{}}}}"#,
        );
        assert_eq!(
            (&config["provider"], &config["share"]),
            (&json!({"mine": {}}), &json!("auto"))
        );
        assert_eq!(config["agent"]["pipe"]["permission"], json!({"*": "deny"}));
        assert_eq!(config["agent"]["pipe"]["prompt"], json!("Be brief."));
        assert_eq!(
            config_of(r#"{"systemPrompt":null}"#)["agent"]["pipe"].get("prompt"),
            None
        );
    }

    #[test]
    fn with_its_tools_on_it_is_left_as_it_is() {
        let line = line(&OPENCODE, r#"{"disableBuiltInTools":false}"#);
        assert_eq!(line.argv(), "run --format json --title x --thinking");
        assert_eq!(
            (&line.0.cwd, line.env("XDG_CONFIG_HOME")),
            (&Cwd::Inherit, String::new())
        );
        assert_eq!(line.env("PWD"), "<cwd>");
        let kept = super::super::tests::argv::line(&OPENCODE, r#"{"ignoreUserConfig":false}"#);
        assert_eq!(kept.env("XDG_CONFIG_HOME"), "");
    }

    #[test]
    fn no_run_without_end_and_no_model_without_its_provider() {
        for (options, expected) in [
            (
                r#"{"timeout":0}"#,
                r#"option "timeout" must be a whole number of ms from 1 to 2147483647; given: 0"#,
            ),
            (
                r#"{"model":"gpt"}"#,
                r#"option "model" must be a string like "provider/model"; given: "gpt""#,
            ),
        ] {
            assert_eq!(Options::parse(&OPENCODE, options).unwrap_err().message, expected);
        }
    }

    #[test]
    fn a_system_prompt_that_no_variable_holds_is_refused() {
        let options = format!(r#"{{"systemPrompt":"{}"}}"#, "x".repeat(131_072));
        let options = Options::parse(&OPENCODE, &options).unwrap();
        let error = crate::command::build(
            &OPENCODE,
            &options,
            crate::command::Mode::Print("x"),
            false,
            &Default::default(),
        )
        .unwrap_err();
        assert_eq!(error.code, Code::PromptTooLong);
        assert!(
            error.message.starts_with("the variable OPENCODE_CONFIG_CONTENT"),
            "{}",
            error.message
        );
    }
}
