//! The bridge that serves a run's tools, as a CLI's own configuration describes it.
//!
//! In: a run's URL and token. Out: the pieces of configuration that several CLIs share. The token goes to private files and
//! variables only: argv can be read by every user of the machine.

use std::fmt;

use serde_json::{Value, json};

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
pub(super) fn servers(bridge: Option<&Callbacks>, server: impl Fn(&Callbacks) -> Value) -> Value {
    match bridge {
        Some(callbacks) => json!({(crate::declare::mcp::SERVER): server(callbacks)}),
        None => json!({}),
    }
}

#[cfg(test)]
mod tests {
    use super::super::options::Options;
    use super::super::{ALL, find};
    use super::*;
    use crate::command::{self, Arg, CommandLine, EnvText, Installed, Mode};

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
