//! Where a run's tools are served: what a CLI is told of the bridge by its own configuration.
//!
//! In: a run's URL and token. Out: the pieces of configuration that several CLIs share. The token goes to private files and
//! variables only: argv can be read by every user of the machine.

use std::fmt;

use serde_json::{Value, json};

use super::Provider;
use super::When;
use super::options::Options;

/// The variable that holds the token for CLIs that take the name of one.
pub const TOKEN_VARIABLE: &str = "DEEP_FACTOR_BRIDGE_TOKEN";

/// Longer than any run, ms: how long a call may take is the caller's to say.
pub const CALL_LIMIT_MS: u64 = 24 * 60 * 60 * 1000;

/// The default system prompt of a run whose tools are called natively: the other one forbids what the thread does not list.
pub const SYSTEM_PROMPT: &str = "You are the model behind an agent. Each request is a conversation: as <thread> XML with one \
<event> per message, tool call and tool result in order, or as labelled text. Do what its last message asks: call your tools \
where you need them, then reply with the assistant's next message, plain text, not XML and no label.";

/// The bridge of a run.
#[derive(Clone, PartialEq, Eq)]
pub struct Callbacks {
    /// Where it is; fit for argv.
    pub url: String,
    /// Its bearer token.
    pub token: String,
}

impl fmt::Debug for Callbacks {
    /// Without the token.
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

/// A configuration with the bridge in it, `{"mcpServers": {"df": …}}`, in which `server` says how a CLI spells it; empty
/// without one.
pub(super) fn servers(options: &Options, server: impl Fn(&Callbacks) -> Value) -> Value {
    match &options.callbacks {
        Some(callbacks) => json!({(crate::declared::SERVER): server(callbacks)}),
        None => json!({}),
    }
}

impl Provider {
    /// Whether the CLI can call the caller's tools in the middle of a run.
    pub fn takes_callbacks(&self) -> bool {
        let flags = self.flags.iter().map(|flag| flag.when);
        let whens = flags
            .chain(self.env.iter().map(|var| var.when))
            .chain(self.files.iter().map(|file| file.when));
        let mut words = whens.flatten();
        words.any(|when| *when == When::Callbacks)
    }
}

#[cfg(test)]
mod tests {
    use super::super::ALL;

    #[test]
    fn who_takes_callbacks() {
        let takers: Vec<&str> = ALL
            .iter()
            .filter(|provider| provider.takes_callbacks())
            .map(|provider| provider.id.as_ref())
            .collect();
        assert_eq!(takers, ["claude", "codex", "gemini", "qwen", "opencode"]);
    }
}
