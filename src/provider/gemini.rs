//! gemini (Gemini CLI), measured with 0.61.0 (CLI-FACTS 3).
//!
//! Settings of a run go through the machine-wide layer, a private file named by a variable: what the user has chosen,
//! above all the login, stays. Not measured, but documented by the CLI: `GEMINI_CLI_SYSTEM_SETTINGS_PATH`, `tools.core`
//! (which built-in tools there are) and `GEMINI_SYSTEM_MD` (the system prompt from a file).
//!
//! An `@path` anywhere in a prompt is read and sent by the CLI. With the built-in tools off it runs in an empty folder, so
//! there is nothing to find by a relative path.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::callbacks::{self, CALL_LIMIT_MS};
use super::options::{self, OptionSpec, Options, OutputFormat};
use super::{
    About, Checks, Defaults, EnvValue, FileSpec, Provider, STANDARD_SYSTEM_PROMPT, SYSTEM_PROMPT_FILE, When, Word,
    flag, optional, system_prompt, var, var_when,
};
use crate::declared::SERVER;
use crate::decode::Wire;
use Word::Lit;

const SETTINGS_FILE: &str = "settings.json";

/// The gemini CLI.
pub static GEMINI: Provider = Provider {
    id: Cow::Borrowed("gemini"),
    command: Cow::Borrowed("gemini"),
    about: About {
        versions: &["0.61.0"],
        sent: "our short system prompt and no tools, by documented settings that were not measured; without `model`, one more \
               request to choose one",
        not_isolated: "`~/.gemini` with its settings, extensions and MCP servers; a machine-wide settings file is replaced for \
                       the run; an API error leaves a report with the prompt in the temp folder; an `@path` in a prompt is read",
        limits: "an answer stopped by safety or length is told as a success; SIGTERM may be ignored, so ending takes `killGrace`",
    },
    defaults: Defaults::STANDARD,
    flags: &[
        // Without it: exit code 55 in a folder the user has not trusted (recording gemini/no-skip-trust).
        optional(&[], &[Lit("--skip-trust")]),
        flag(&[When::Model], &[Lit("-m"), Word::Model]),
        flag(
            &[When::Format(OutputFormat::Json)],
            &[Lit("--output-format"), Lit("json")],
        ),
        flag(
            &[When::Format(OutputFormat::StreamJson)],
            &[Lit("--output-format"), Lit("stream-json")],
        ),
    ],
    env: &[
        // One process instead of two: it dies of SIGTERM at once (CLI-FACTS 3).
        var("GEMINI_CLI_NO_RELAUNCH", EnvValue::Fixed("true")),
        var_when(
            &[When::ToolsOff],
            "GEMINI_CLI_SYSTEM_SETTINGS_PATH",
            EnvValue::File(SETTINGS_FILE),
        ),
        var_when(
            &[When::ToolsOn, When::Callbacks],
            "GEMINI_CLI_SYSTEM_SETTINGS_PATH",
            EnvValue::File(SETTINGS_FILE),
        ),
        var_when(
            &[When::SystemPrompt],
            "GEMINI_SYSTEM_MD",
            EnvValue::File(SYSTEM_PROMPT_FILE),
        ),
    ],
    drop_env: &["NODE_OPTIONS", "VSCODE_INSPECTOR_OPTIONS"],
    key_env: &[],
    files: &[
        FileSpec {
            when: &[When::ToolsOff],
            name: SETTINGS_FILE,
            content: settings,
        },
        FileSpec {
            when: &[When::ToolsOn, When::Callbacks],
            name: SETTINGS_FILE,
            content: settings,
        },
        FileSpec {
            when: &[When::SystemPrompt],
            name: SYSTEM_PROMPT_FILE,
            content: system_prompt,
        },
    ],
    wires: &[
        (OutputFormat::StreamJson, Wire::GeminiStream),
        (OutputFormat::Json, Wire::GeminiJson),
        (OutputFormat::Text, Wire::Text),
    ],
    options: OPTIONS,
    system_prompt: STANDARD_SYSTEM_PROMPT,
    guard: None,
    prompt_limit: None,
    stop_on: &[],
    fatal_stderr: &[],
    checks: Checks::VERSION_ONLY,
    described: None,
};

/// `general.maxAttempts` counts the first try (1: one request, CLI-FACTS 3). A trusted server's tools run unasked.
fn settings(_: &Provider, options: &Options) -> String {
    let mut settings = Map::new();
    if !options.built_in_tools {
        settings.insert("general".to_owned(), json!({"maxAttempts": options.max_retries + 1}));
        settings.insert("tools".to_owned(), json!({"core": []}));
    }
    if options.callbacks.is_some() {
        let servers = callbacks::servers(
            options,
            |bridge| json!({"httpUrl": bridge.url, "headers": bridge.headers(), "timeout": CALL_LIMIT_MS, "trust": true}),
        );
        settings.insert("mcpServers".to_owned(), servers);
        if !options.built_in_tools {
            settings.insert("mcp".to_owned(), json!({"allowed": [SERVER]}));
        }
    }
    Value::Object(settings).to_string()
}

const OPTIONS: &[OptionSpec] = &[
    options::MODEL,
    options::CLI_PATH,
    options::TIMEOUT,
    options::MAX_BUFFER,
    options::INPUT_ENCODING,
    options::OUTPUT_FORMAT,
    options::CWD,
    options::ENV,
    options::EXTRA_ARGS,
    options::SYSTEM_PROMPT,
    options::DISABLE_BUILT_IN_TOOLS,
    options::IDLE_TIMEOUT,
    options::KILL_GRACE,
    options::MAX_CONCURRENCY,
    options::RETRY,
    options::MAX_RETRIES,
];

#[cfg(test)]
mod tests {
    use super::super::tests::argv::line;
    use super::*;
    use crate::command::Cwd;

    #[test]
    fn a_pipe_that_keeps_the_login_and_asks_once() {
        let line = line(&GEMINI, r#"{"model":"gemini-2.5-flash"}"#);
        assert_eq!(
            line.argv(),
            "--skip-trust -m gemini-2.5-flash --output-format stream-json"
        );
        assert_eq!((line.0.stdin.as_str(), &line.0.cwd), ("PROMPT", &Cwd::Private));
        assert_eq!(
            line.files(),
            [
                (SETTINGS_FILE, r#"{"general":{"maxAttempts":1},"tools":{"core":[]}}"#),
                (SYSTEM_PROMPT_FILE, STANDARD_SYSTEM_PROMPT)
            ]
        );
        assert_eq!(line.env("GEMINI_CLI_SYSTEM_SETTINGS_PATH"), "<settings.json>");
        assert_eq!(line.env("GEMINI_SYSTEM_MD"), "<system-prompt.txt>");
        assert_eq!(line.env("GEMINI_CLI_NO_RELAUNCH"), "true");
    }

    #[test]
    fn formats_and_retries_are_the_users_and_so_are_its_tools() {
        assert_eq!(line(&GEMINI, r#"{"outputFormat":"json"}"#).0.wire, Wire::GeminiJson);
        assert_eq!(line(&GEMINI, r#"{"outputFormat":"text"}"#).argv(), "--skip-trust");
        assert!(
            line(&GEMINI, r#"{"maxRetries":2}"#).files()[0]
                .1
                .contains(r#""maxAttempts":3"#)
        );
        let on = line(&GEMINI, r#"{"disableBuiltInTools":false}"#);
        assert!(on.files().is_empty());
        assert_eq!(
            (on.env("GEMINI_CLI_SYSTEM_SETTINGS_PATH"), &on.0.cwd),
            (String::new(), &Cwd::Inherit)
        );
        assert_eq!(
            line(&GEMINI, "{}").without("--skip-trust").argv(),
            "--output-format stream-json"
        );
    }
}
