//! grok (Grok Build, xAI's own CLI), measured with 1.0.41 (NEW-CLIS 2); ax-grok is its dialect (`glm`).
//!
//! Grok does not take a prompt as mere text: an `@` before an absolute path puts that file into the request, and `/compact` at the
//! beginning is run. The history of a session is sent unchanged. So the thread is the one message of a session that is written into
//! a home of ours and resumed, and the prompt is a sentence of ours. The home also keeps away the user's AGENTS.md, hooks and
//! servers; a variable names the login, since grok renews it by replacing the file. For a session that has a title, grok does not
//! ask the model for one.
//!
//! No list of tools means all of them, so our agent has a list of one tool, which is then taken away.
//!
//! A login, a plan and xAI's API were not measured.
//!
//! How it fails, and what helps, stands at the end (`ERRORS`).

use std::borrow::Cow;

use serde_json::{Value, json};

use super::capability::{ByEngine, Capabilities, NATIVE, SOME_ASKED};
use super::errors::{CLAP, Condition::*, Errors, Rule};
use super::installed::{self, Place};
use super::models::Models;
use super::options::{self, EngineKind, OptionSpec, Options, OutputFormat, PromptStyle, SystemPrompt};
use super::{
    About, AcpErrors, AcpUsage, Announced, Checks, Defaults, EngineCheck, EnvValue, FileSpec, LoginDir, PrivateHome,
    Provider, Reading, SchemaForm, SessionParts, SessionSpec, Var, Versions, WarmForm, WarmThread, When, Word,
    choice_var, flag, optional, system_prompt, var,
};
use super::{MediaForm, MediaSupport};
use Word::Lit;
use dfp_model::error::Code;
use dfp_model::message::content::{Accepts, ContentLimits, Takes};
use dfp_text::decode::Wire;
use dfp_text::prompt::{Piece, pieces};

const HOME: &str = "grok-home";
const CONFIG_FILE: &str = "grok-home/config.toml";
const AGENT_FILE: &str = "agent.md";
/// The name of a file without a login.
const NO_LOGIN_FILE: &str = "no-login.json";
/// The id of the one session in the home of a process for one call.
const SESSION: &str = "00000000-0000-4000-8000-000000000001";
/// The sentence that is prompted behind the thread.
const SENTENCE: &str = "Reply with the assistant's next message.";
/// The variable that names the file of a login.
const AUTH_PATH: &str = "GROK_AUTH_PATH";

/// The grok CLI.
pub static GROK: Provider = Provider {
    id: Cow::Borrowed("grok"),
    command: Cow::Borrowed("grok"),
    places: &[
        &[Place::home(".grok/bin", "postinstall of @xai-official/grok 1.0.41")],
        installed::LOCAL_BIN,
        installed::HOMEBREW,
        installed::NODE,
        installed::WINDOWS,
    ],
    about: About {
        name: "Grok",
        versions: &["1.0.41"],
        sent: "behind the thread, a sentence that asks for the answer",
        not_isolated: "the login in `~/.grok/auth.json` (or in `GROK_HOME`; `XAI_API_KEY` where there is none), which grok renews there; \
                       `GROK_MODELS_BASE_URL` and its like; what a machine's `/etc/grok` says; it leaves `~/.local/share/grove`",
        limits: "in print form, an answer that breaks off without a finish reason is a success; warm, one without usage counts as broken \
                 off; a tool that the model makes up is refused by grok itself, which asks again; with `dialect: \"ax\"` a prompt of 128 KiB \
                 on Linux, in `ps`",
    },
    defaults: Defaults {
        engine: EngineKind::Auto,
        prompt_style: PromptStyle::Session,
        ..Defaults::STANDARD
    },
    flags: &[
        flag(&[When::Print], &[Lit("--output-format"), Lit("streaming-json")]),
        // The flags of `grok agent` differ from those of print, and an agent with a leader would be shared with others.
        flag(
            &[When::Warm],
            &[
                Lit("agent"),
                Lit("--no-leader"),
                Lit("--agent-profile"),
                Word::File(AGENT_FILE),
            ],
        ),
        flag(&[When::Print], &[Lit("--agent"), Word::File(AGENT_FILE)]),
        // A warm process serves sessions of any model.
        flag(&[When::Print, When::Model], &[Lit("-m"), Word::Model]),
        flag(&[When::Print, When::Effort], &[Lit("--reasoning-effort"), Word::Effort]),
        // Sent on in the API's strict mode. An answer that does not fit comes back as a success (1.0.41).
        optional(
            &[When::Print, When::OutputSchema],
            &[Lit("--json-schema"), Word::OutputSchema],
        ),
        flag(&[When::Warm], &[Lit("stdio")]),
        flag(&[When::Print], &[Lit("-r"), Lit(SESSION)]),
        // The sentence is sent without anything around it.
        flag(&[When::Print], &[Lit("--verbatim"), Lit("-p"), Lit(SENTENCE)]),
    ],
    env: ENV,
    // Its settings would win over those of our home.
    drop_env: &["GROK_CONFIG"],
    key_env: &["XAI_API_KEY"],
    files: &[
        FileSpec {
            when: &[],
            name: CONFIG_FILE,
            content: config,
        },
        FileSpec {
            when: &[],
            name: AGENT_FILE,
            content: agent,
        },
        FileSpec {
            when: &[When::OwnApi],
            name: NO_LOGIN_FILE,
            content: |_, _| "{}".to_owned(),
        },
    ],
    home: Some(PrivateHome {
        when: &[&[]],
        variable: "GROK_HOME",
        folder: HOME,
        users: ".grok",
        by_system: false,
        login: &[],
        rest: &[],
        named: Some((AUTH_PATH, "auth.json")),
        hides_folder: false,
    }),
    session: Some(SessionSpec {
        folder: "grok-home/sessions",
        id: SESSION,
        files: &[("summary.json", summary), ("chat_history.jsonl", history)],
    }),
    wires: &[(OutputFormat::StreamJson, Wire::GrokStream)],
    own_options: OPTIONS,
    warm: Some(WarmForm {
        usage: AcpUsage::Meta,
        errors: AcpErrors::Data,
        // A process has 101 MB after one session, and after 600: a closed session leaves nothing, but none is closed while others run.
        max_sessions: 100,
        thread: WarmThread::History { prompt: SENTENCE },
        is_told_choices: false,
        has_own_tools: false,
        takes_schema: true,
    }),
    media: MediaSupport {
        print: ACCEPTS,
        form: Some(MediaForm::Session { side: 8, pixels: 512 }),
        live: Accepts::TEXT,
    },
    capabilities: ByEngine::print_only(CAPABILITIES),
    off_effort: Some("none"),
    models: Models {
        vendor: Some("xai"),
        company: Some("x_ai"),
        names: Some("^grok-"),
        ..Models::ANY
    },
    schema: SchemaForm::Strict,
    // Grok's MCP client hides every tool of a server behind a search.
    errors: ERRORS,
    checks: Checks {
        warm: Some(WARM),
        reading: Reading {
            flags: &[
                "-c",
                "--continue",
                "-r",
                "--resume",
                "--agent",
                "--agents",
                "--allow",
                "--cwd",
                "--rules",
            ],
            ..Reading::NONE
        },
        ..Checks::VERSION_ONLY
    },
    login_dir: Some(LoginDir {
        variable: "GROK_HOME",
        holds: "`auth.json`",
    }),
    ..Provider::BASE
};

/// The images that it sends. In the place of others it puts "[image removed …]", and tells nobody but the model (1.0.41): of GIFs, of
/// images of more than 20 MiB, and of the earlier ones where a request is too large (42 MB are sent, of 84 the last image alone).
const IMAGES: Takes = Takes {
    types: &["image/png", "image/jpeg", "image/webp"],
    ..Takes::IMAGES
};

const ACCEPTS: Accepts = Accepts {
    users: IMAGES,
    results: IMAGES,
    others: IMAGES,
    limits: ContentLimits {
        image: Some((20 << 20) / 3 * 4),
        all: Some(40_000_000),
        ..ContentLimits::NONE
    },
};

/// Grok's capabilities.
const CAPABILITIES: Capabilities = Capabilities {
    pure: true,
    structured_output: NATIVE.but(SOME_ASKED),
    images: NATIVE,
    result_images: NATIVE,
    reasoning_out: NATIVE,
    reasoning_effort: NATIVE.but("`--reasoning-effort`; in print form, a model that has no efforts ignores it"),
    reasoning_off: NATIVE.but("the effort `none`, which not every model has"),
    login: NATIVE.but("`GROK_HOME`"),
    ..Capabilities::LEAST
};

/// The check of the warm form. The vendor does not promise how its protocol carries a thread, errors and figures: that was
/// measured.
const WARM: EngineCheck = EngineCheck {
    package: "@xai-official/grok",
    version_folders: &[&[".grok", "bin"]],
    program: "grok",
    versions: Versions::Measured(&[[1, 0, 41]]),
    print_flags: PRINT_FLAGS,
    print_env: &[],
    announces: Announced::Versions,
    measured_only: false,
};

/// The flags that only the print form has: `grok agent stdio` takes all others as well.
const PRINT_FLAGS: &[&str] = &[
    "--agent",
    "--agents",
    "--allow",
    "--allowedTools",
    "--always-approve",
    "-c",
    "--continue",
    "--cwd",
    "--deny",
    "--disable-web-search",
    "--disallowed-tools",
    "--disallowedTools",
    "--effort",
    "--fork-session",
    "--include-partial-messages",
    "--json-schema",
    "-m",
    "--model",
    "--max-turns",
    "--no-plan",
    "--no-subagents",
    "--output-format",
    "-p",
    "--single",
    "--permission-mode",
    "--prompt-file",
    "--prompt-json",
    "-r",
    "--resume",
    "--reasoning-effort",
    "--restore-code",
    "--rules",
    "-s",
    "--session-id",
    "--sandbox",
    "--system-prompt",
    "--system-prompt-override",
    "--tools",
    "--verbatim",
    "-w",
    "--worktree",
    "--worktree-ref",
    "--ref",
];

const OPTIONS: &[OptionSpec] = &[
    options::KEEP_ALIVE,
    options::DIALECT,
    // An option of the other dialect; this one refuses it.
    options::ARGV_PROMPT_STYLE,
    options::SYSTEM_PROMPT,
    options::OWN_MODEL,
];

const OFF: EnvValue = EnvValue::Fixed("0");

/// The variables that switch off second requests, reports to others, and the files of other vendors' CLIs, which grok reads by
/// default.
const ENV: &[Var] = &[
    // Grok would silently repeat a request after a 500 for minutes.
    var("GROK_TURN_TRANSIENT_RETRY", OFF),
    var("GROK_DISABLE_AUTOUPDATER", EnvValue::Fixed("1")),
    var("GROK_TELEMETRY_ENABLED", OFF),
    var("GROK_TELEMETRY_TRACE_UPLOAD", OFF),
    var("GROK_TELEMETRY_MIXPANEL_ENABLED", OFF),
    var("GROK_SESSION_RECAP", OFF),
    var("GROK_TURN_SUMMARY", OFF),
    var("GROK_TITLE_REFRESH", OFF),
    var("GROK_SUBAGENTS", OFF),
    var("GROK_MEMORY", OFF),
    var("GROK_CAMPAIGNS", OFF),
    var("GROK_FEEDBACK_ENABLED", OFF),
    var("GROK_WORKFLOWS", OFF),
    var("GROK_PROMPT_SUGGESTIONS", OFF),
    var("GROK_WRITE_FILE", OFF),
    var("GROK_ASK_USER_QUESTION", OFF),
    var("GROK_WEB_FETCH", OFF),
    var("GROK_MANAGED_MCPS_ENABLED", OFF),
    var("GROK_CLAUDE_SKILLS_ENABLED", OFF),
    var("GROK_CLAUDE_RULES_ENABLED", OFF),
    var("GROK_CLAUDE_AGENTS_ENABLED", OFF),
    var("GROK_CLAUDE_MCPS_ENABLED", OFF),
    var("GROK_CLAUDE_HOOKS_ENABLED", OFF),
    var("GROK_CLAUDE_SESSIONS_ENABLED", OFF),
    var("GROK_CURSOR_SKILLS_ENABLED", OFF),
    var("GROK_CURSOR_RULES_ENABLED", OFF),
    var("GROK_CURSOR_AGENTS_ENABLED", OFF),
    var("GROK_CURSOR_MCPS_ENABLED", OFF),
    var("GROK_CURSOR_HOOKS_ENABLED", OFF),
    var("GROK_CURSOR_SESSIONS_ENABLED", OFF),
    var("GROK_CODEX_SKILLS_ENABLED", OFF),
    var("GROK_CODEX_RULES_ENABLED", OFF),
    var("GROK_CODEX_AGENTS_ENABLED", OFF),
    var("GROK_CODEX_MCPS_ENABLED", OFF),
    var("GROK_CODEX_HOOKS_ENABLED", OFF),
    var("GROK_CODEX_SESSIONS_ENABLED", OFF),
    // An API of the user's own is sent its own key and no login.
    choice_var(&[When::OwnApi], "XAI_API_KEY", EnvValue::Composed(api_key)),
    choice_var(&[When::OwnApi], AUTH_PATH, EnvValue::File(NO_LOGIN_FILE)),
];

/// The key of the user's own API. Without any key, grok says that nobody is signed in, so `none` stands in its place.
fn api_key(_: &Provider, options: &Options) -> String {
    let key = options.own_api.as_ref().and_then(|own| own.api_key.as_ref());
    key.map_or_else(|| "none".to_owned(), |key| key.reveal().to_owned())
}

/// Grok's settings, with the user's own API as a model.
fn config(_: &Provider, options: &Options) -> String {
    let own = options.own_api.as_ref().map(|own| {
        let model = toml(options.choices.model.as_deref().unwrap_or_default());
        let backend = match (own.kind.as_str(), own.wire_api.as_str()) {
            ("anthropic", _) => "messages",
            (_, "responses") => "responses",
            _ => "chat_completions",
        };
        let url = toml(&own.base_url);
        let lines = [
            String::new(),
            format!("[model.{model}]"),
            format!("model = {model}"),
            format!("base_url = {url}"),
            "env_key = \"XAI_API_KEY\"".to_owned(),
            format!("api_backend = \"{backend}\""),
            "context_window = 10000000".to_owned(),
            "max_retries = 0".to_owned(),
            String::new(),
        ];
        lines.join("\n") + &efforts(options)
    });
    format!("{SETTINGS}{}", own.unwrap_or_default())
}

/// The list of efforts of the user's own model: the one that is chosen. Without a list, grok ignores the choice; from a list it always
/// sends one, the default (1.0.41).
fn efforts(options: &Options) -> String {
    let Some(effort) = &options.choices.effort else {
        return String::new();
    };
    let effort = toml(effort);
    format!(
        "reasoning_efforts = [{{id = {effort}, value = {effort}, label = {effort}, description = {effort}, default = true}}]\n"
    )
}

/// Writes a text in TOML: as in JSON, which escapes all that TOML wants escaped but for one character.
fn toml(text: &str) -> String {
    Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

const SETTINGS: &str = "[models]
max_retries = 0

[features]
telemetry = \"off\"
turn_summary = false
title_refresh = false
remote_fetch = false
image_gen = false
video_gen = false
managed_config = false

[cli]
auto_update = false
";

/// The file of our agent, with nothing of the user's, and without tools. No list of tools means all of them, so there is a list,
/// and the tools that it leaves are taken away, as are those that no list affects. Its system prompt is the session's.
fn agent(_: &Provider, _: &Options) -> String {
    "---\nname: pipe\ndescription: Answers.\npromptMode: full\ninjectDefaultTools: false\ntools: [todo_write]\n\
     disallowedTools: [todo_write, search_tool, use_tool, run_terminal_cmd]\ndiscoverSkills: false\ninheritSkills: false\nmcpInheritance: none\nuserMessageTemplate: {custom: \"\"}\n---\n"
        .to_owned()
}

/// The file that grok keeps of a session beside its messages. With a title in it, grok does not ask the model for one; the times
/// are arbitrary.
fn summary(_: &Provider, options: &Options, parts: SessionParts<'_>) -> String {
    const TIME: &str = "2026-01-01T00:00:00Z";
    // Without a model, grok can't read the file; a name of no model stands for the default.
    let model = options.choices.model.as_deref().unwrap_or_default();
    let summary = json!({
        "info": {"id": parts.id, "cwd": "/"},
        "session_summary": "x",
        "generated_title": "x",
        "created_at": TIME,
        "updated_at": TIME,
        "last_active_at": TIME,
        "num_messages": 2,
        "num_chat_messages": 2,
        "next_trace_turn": 1,
        "chat_format_version": 1,
        "session_kind": "headless",
        "agent_name": "pipe",
        "sandbox_profile": "off",
        "current_model_id": model,
    });
    summary.to_string()
}

/// The messages of a session, line by line: the system prompt and the thread.
fn history(provider: &Provider, options: &Options, parts: SessionParts<'_>) -> String {
    let system = match options.system_prompt {
        SystemPrompt::Cli => None,
        _ => Some(json!({"type": "system", "content": system_prompt(provider, options)})),
    };
    // With any other member for its data, grok leaves out the whole message, and says nothing (1.0.41).
    let content: Vec<Value> = pieces(parts.prompt, parts.media)
        .into_iter()
        .map(|piece| match piece {
            Piece::Text(text) => json!({"type": "text", "text": text}),
            Piece::Media(media) => json!({"type": "image", "url": media.data_url()}),
        })
        .collect();
    let user = json!({"type": "user", "content": content, "prompt_index": 0});
    let lines = system.into_iter().chain([user]);
    lines.map(|line| format!("{line}\n")).collect()
}

/// The failures of Grok (1.0.41). An API's error is a line `error` whose text holds grok's words around the API's, with exit code
/// 1; the decoder takes kind, status and message out of it (`decode::grok`).
const ERRORS: Errors = Errors {
    rules: RULES,
    hints: HINTS,
    refused_flags: &[CLAP],
    ..Errors::NONE
};

const HINTS: &[(Code, &str)] = &[
    (Code::NotLoggedIn, "run `grok login`, or set XAI_API_KEY"),
    (Code::TokenExpired, "run `grok login` again, or set XAI_API_KEY"),
    (
        Code::AuthenticationFailed,
        "run `grok login` again, or correct XAI_API_KEY",
    ),
    (Code::InvalidApiKey, "correct XAI_API_KEY"),
    (
        Code::ModelNotFound,
        "name a model that `grok models` lists, or describe yours in the option `provider`",
    ),
    (
        Code::CliNotFound,
        "install it with `npm install -g @xai-official/grok`, or set `cliPath`; ax-grok is `dialect: \"ax\"`",
    ),
];

#[rustfmt::skip] // One rule, one row.
const RULES: &[Rule] = &[
    Rule::new(&[Kind("max_tokens_truncation")], Code::MaxTokens, "response truncated by max_tokens"),
    Rule::new(&[Kind("no_usage")], Code::ConnectionLost, "the agent ended its answer without saying what it cost: the answer has broken off").hint("try again; with a model API that tells no usage, set `engine: \"print\"`"),
    Rule::new(&[Kind("no_visible_content")], Code::EmptyResponse, "empty response from model (no_visible_content)"),
    Rule::new(&[Kind("reasoning_only")], Code::EmptyResponse, "empty response from model (reasoning_only)"),
    Rule::new(&[Kind("insufficient_quota")], Code::QuotaExceeded, "You exceeded your current quota, please check your plan and billing details."),
    Rule::new(&[Text("^not signed in>")], Code::NotLoggedIn, "Not signed in. To authenticate without a browser, run:"),
    Rule::new(&[Text("<prompt is empty>")], Code::EmptyPrompt, "'/home/user/prompt.txt': prompt is empty"),
    Rule::new(&[Text("<unknown model id>")], Code::ModelNotFound, "Couldn't set model 'x': Invalid params: \"unknown model id\". Run 'grok models' to see available models."),
    Rule::new(&[Text("^serialization error>")], Code::MalformedResponse, "serialization error: missing field `created_at`"),
    Rule::new(&[Text("<transport error>|<error decoding response body>")], Code::ConnectionLost, "reqwest error stream: Transport error: error decoding response body"),
    Rule::new(&[Text("<error sending request for url>")], Code::ConnectionFailed, "reqwest error stream: error sending request for url (https://api.x.ai/v1/responses)"),
    // Grok does not find our session in the place where we have put it.
    Rule::new(&[Text("<not found locally>|<failed to authenticate for session restore>")], Code::UnsupportedFlag, "Session \"00000000-0000-4000-8000-000000000001\" not found locally, restoring conversation from remote...").say("grok did not find the session that holds the thread: it looks for sessions in another place than the version that was measured"),
];

#[cfg(test)]
mod tests {
    use super::super::STANDARD_SYSTEM_PROMPT;
    use super::super::tests::argv::line;
    use super::*;
    use crate::command::{self, Cwd, Installed, Mode};
    use dfp_model::message::Role;
    use dfp_model::message::content::{Part, parts};
    use dfp_text::prompt::Placed;
    use std::path::Path;

    #[test]
    fn the_thread_is_a_session_and_the_prompt_a_sentence_of_ours() {
        let line = line(&GROK, r#"{"model":"grok-4.6"}"#);
        assert_eq!(
            line.argv(),
            "--output-format streaming-json --agent <agent.md> -m grok-4.6 -r 00000000-0000-4000-8000-000000000001 --verbatim -p Reply with the assistant's next message."
        );
        assert_eq!((line.0.stdin.as_str(), &line.0.cwd), ("", &Cwd::Private));
        let session = line.0.session.as_ref().unwrap();
        let history = &session.files[1];
        assert_eq!(history.name, "chat_history.jsonl");
        let lines: Vec<Value> = history
            .content
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(lines[0], json!({"type": "system", "content": STANDARD_SYSTEM_PROMPT}));
        assert_eq!(lines[1]["content"][0]["text"], "PROMPT");
        assert_eq!(lines.len(), 2);
        // The name that grok 1.0.41 gives the folder.
        assert_eq!(
            session.place(Path::new("/tmp/a b(c)!~'é*")),
            Path::new("%2Ftmp%2Fa%20b%28c%29%21~%27%C3%A9%2A").join(SESSION)
        );
        assert_eq!(line.env("GROK_TURN_TRANSIENT_RETRY"), "0");
        assert_eq!(line.env(AUTH_PATH), "");
    }

    /// The thread, the system prompt and the model are part of a session, so one process serves all of them.
    #[test]
    fn a_warm_process_is_one_for_any_thread_and_model() {
        let warm = |json: &str| {
            let options = Options::parse(&GROK, json).unwrap();
            command::build(&GROK, &options, Mode::Warm, true, &Installed::default()).unwrap()
        };
        let line = warm(r#"{"engine":"warm","model":"grok-4.6"}"#);
        let args: Vec<String> = line.args.iter().map(|arg| format!("{arg:?}")).collect();
        assert_eq!(
            args.join(" "),
            r#"Text("agent") Text("--no-leader") Text("--agent-profile") File("agent.md") Text("stdio")"#
        );
        assert_eq!((line.stdin.as_str(), &line.session), ("", &None));
        assert_eq!(line, warm(r#"{"engine":"warm","model":"grok-4.5"}"#));
        let options = Options::parse(&GROK, r#"{"model":"grok-4.6"}"#).unwrap();
        let parts = SessionParts {
            id: "s1",
            prompt: "@/etc/passwd",
            media: &[],
        };
        let session = command::session(&GROK, &options, parts).unwrap();
        assert_eq!(
            (session.id.as_str(), session.model.as_deref()),
            ("s1", Some("grok-4.6"))
        );
        let summary: Value = serde_json::from_str(&session.files[0].content).unwrap();
        assert_eq!(
            (&summary["info"]["id"], &summary["current_model_id"]),
            (&json!("s1"), &json!("grok-4.6"))
        );
        assert!(session.files[1].content.contains("@/etc/passwd"));
    }

    #[test]
    fn an_api_of_ones_own_is_a_model_of_the_settings_and_gets_no_login() {
        let line = line(
            &GROK,
            r#"{"provider":{"type":"anthropic","baseUrl":"http://127.0.0.1:1/v1\"]","model":"m"}}"#,
        );
        let files = line.files();
        let config = files.iter().find(|(name, _)| *name == CONFIG_FILE).unwrap().1;
        assert_eq!(
            config.strip_prefix(SETTINGS).unwrap(),
            "\n[model.\"m\"]\nmodel = \"m\"\nbase_url = \"http://127.0.0.1:1/v1\\\"]\"\nenv_key = \"XAI_API_KEY\"\n\
             api_backend = \"messages\"\ncontext_window = 10000000\nmax_retries = 0\n"
        );
        assert_eq!(
            (line.env("XAI_API_KEY"), line.env(AUTH_PATH)),
            ("none".to_owned(), "<no-login.json>".to_owned())
        );
    }

    #[test]
    fn an_effort_is_a_flag_and_the_only_one_of_the_users_own_model() {
        let line = line(
            &GROK,
            r#"{"provider":{"baseUrl":"http://127.0.0.1:1/v1","model":"m"},"reasoning":{"effort":"high"}}"#,
        );
        assert!(
            line.argv().contains(" -m m --reasoning-effort high -r "),
            "{}",
            line.argv()
        );
        let files = line.files();
        let config = files.iter().find(|(name, _)| *name == CONFIG_FILE).unwrap().1;
        assert!(
            config.ends_with(
                "max_retries = 0\nreasoning_efforts = [{id = \"high\", value = \"high\", label = \"high\", description = \"high\", default = true}]\n"
            ),
            "{config}"
        );
    }

    #[test]
    fn images_stand_in_the_message_where_they_stood_in_the_thread() {
        let block = json!([{"type": "image", "mimeType": "image/png", "data": "AAAA"}]);
        let raw = serde_json::value::to_raw_value(&block).unwrap();
        let Some(Part::Media(media)) = parts(&raw, &Role::Human).pop() else {
            panic!("{block} is an image");
        };
        let placed = [Placed { at: 3, media: *media }];
        let parts = SessionParts {
            id: "s1",
            prompt: "see it",
            media: &placed,
        };
        let options = Options::parse(&GROK, r#"{"systemPrompt":null}"#).unwrap();
        let line: Value = serde_json::from_str(&history(&GROK, &options, parts)).unwrap();
        assert_eq!(
            line["content"],
            json!([
                {"type": "text", "text": "see"},
                {"type": "image", "url": "data:image/png;base64,AAAA"},
                {"type": "text", "text": " it"}
            ])
        );
    }

    #[test]
    fn a_thread_of_any_length_is_taken() {
        let line = line(&GROK, "{}");
        let long = "x".repeat(3_000_000);
        let line = line.with_prompt(&long).unwrap();
        assert!(line.session.unwrap().files[1].content.contains(&long));
    }
}
