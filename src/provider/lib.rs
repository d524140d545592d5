//! The providers: a folder for each CLI, put together in one registry.
//!
//! Into this room come a caller's options, a prompt, and what is known of an exchange that has ended. Out of it come command lines
//! ([`command`]), requests to APIs ([`api`]), tools as APIs take them ([`declare`]), and verdicts: a reply, or which error it was
//! ([`judge`], [`classify`]). All of it is decided by `const` tables; nothing here starts a process or opens a file. A provider is data, in the types of `vocabulary` and `flags`. If a CLI needs something that these can't express, it is added to them as a
//! variant, never as `if id == "claude"` elsewhere.

// Tests read recordings and write goldens.
#![cfg_attr(test, allow(clippy::disallowed_methods, clippy::disallowed_types))]

pub mod api;
pub mod capability;
pub mod choices;
pub mod classify;
pub mod claude;
pub mod codex;
pub mod command;
pub mod copilot;
pub mod custom;
pub mod declare;
pub mod errors;
pub mod flags;
pub mod gemini;
pub mod glm;
pub mod grok;
pub mod installed;
pub mod judge;
pub mod models;
pub mod opencode;
pub mod options;
pub mod output;
pub mod qwen;
mod vocabulary;

#[cfg(test)]
mod tests;

pub use flags::{Flag, When, Word, same_flag};
pub(crate) use flags::{flag, optional};
pub use installed::{
    Announced, Checks, EndedLogin, EngineCheck, GatewayVariable, LoginAnswer, LoginCheck, LoginKind, LoginSign,
    LoginWords, Reading, Versions,
};
pub use vocabulary::{
    APPENDED_PROMPT_FILE, About, AcpErrors, AcpUsage, Compose, Defaults, EnvValue, FileSpec, Guard, LiveForm, LoginDir,
    MediaForm, MediaSupport, OUTPUT_SCHEMA_FILE, OwnSettings, PrivateHome, PromptLimit, Provider,
    STANDARD_SYSTEM_PROMPT, SYSTEM_PROMPT_FILE, SchemaForm, SessionParts, SessionSpec, SettingsFile, SettingsForm,
    SettingsPlace, ToolNaming, Unbeaten, UserSettings, Var, WarmForm, WarmThread, appended_prompt, output_schema,
    system_prompt,
};
pub(crate) use vocabulary::{choice_var, nobody, pure, unbeaten, var, var_when};

/// All providers.
pub static ALL: &[&Provider] = &[
    &claude::CLAUDE,
    &codex::CODEX,
    &gemini::GEMINI,
    &qwen::QWEN,
    &glm::GLM,
    &grok::GROK,
    &opencode::OPENCODE,
    &copilot::COPILOT,
];

/// All providers; in tests also the CLI that shows how one is added.
pub fn every() -> impl Iterator<Item = &'static Provider> {
    #[cfg(test)]
    static MORE: &[&Provider] = &[&tests::imaginary::IMAGINARY];
    #[cfg(not(test))]
    static MORE: &[&Provider] = &[];
    ALL.iter().chain(MORE).copied()
}

/// The flags with which a CLI is asked for an answer by a schema.
pub fn schema_flags() -> impl Iterator<Item = &'static str> {
    let flags = every().flat_map(|provider| provider.flags);
    flags.filter_map(|flag| match flag.args {
        [Word::Lit(name), Word::OutputSchema | Word::File(OUTPUT_SCHEMA_FILE)] => Some(*name),
        _ => None,
    })
}

impl Provider {
    /// Returns whether the print form has a flag for the schema of an answer.
    pub fn prints_by_schema(&self) -> bool {
        self.has_word(&[Word::OutputSchema, Word::File(OUTPUT_SCHEMA_FILE)])
    }

    /// Returns whether that schema is an argument itself, and not the path of a file.
    pub fn has_schema_argument(&self) -> bool {
        self.has_word(&[Word::OutputSchema])
    }

    fn has_word(&self, words: &[Word]) -> bool {
        let mut all = self.flags.iter().flat_map(|flag| flag.args);
        all.any(|word| words.contains(word))
    }
}

/// Other programs under a provider's id: the dialect `ax` of a provider `x` is `ax-x`.
static DIALECTS: &[&Provider] = &[
    // The dialect of CLI-ADAPTER-PROTOCOL.
    &glm::AX_GROK,
];

/// Returns `provider` in the dialect that the options of `options_json` choose, if that is another program: by `dialect`, or else
/// by the file name of `cliPath`.
pub fn in_dialect(provider: &'static Provider, options_json: &str) -> &'static Provider {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Named {
        dialect: Option<serde_json::Value>,
        cli_path: Option<serde_json::Value>,
    }
    let mut dialects = DIALECTS.iter().filter(|other| other.id == provider.id).peekable();
    if dialects.peek().is_none() {
        return provider;
    }
    let Ok(Named { dialect, cli_path }) = serde_json::from_str(options_json) else {
        return provider;
    };
    let text = |value: Option<serde_json::Value>| value.and_then(|value| value.as_str().map(str::to_owned));
    let command = match dialect {
        Some(dialect) => text(Some(dialect)).map(|dialect| format!("{dialect}-{}", provider.id)),
        None => text(cli_path).map(|path| {
            let file = path.rsplit(['/', '\\']).next().unwrap_or_default();
            file.split('.').next().unwrap_or_default().to_ascii_lowercase()
        }),
    };
    dialects
        .find(|other| command.as_deref() == Some(&*other.command))
        .copied()
        .unwrap_or(provider)
}

/// The provider called `id`.
pub fn find(id: &str) -> Option<&'static Provider> {
    every().find(|provider| provider.id == id)
}
