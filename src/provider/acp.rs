//! An agent of the user's own that speaks the Agent Client Protocol.
//!
//! In: the JSON of its config, which says how it is started. Out: a [`Provider`] whose process serves sessions that are kept, or
//! one for each call. The agent's instructions and its tools stay its own.

use std::borrow::Cow;

use serde_json::Value;

use super::custom::{CustomCli, FORM, field, is_id, wrong};
use crate::capability::{ByEngine, Capabilities, NATIVE};
use crate::options::{self, EngineKind, Kind, OptionSpec};
use crate::{
    Announced, Checks, Defaults, EngineCheck, EnvValue, Flag, LiveForm, Provider, ToolNaming, Var, Versions, WarmForm,
    Word, flag, var,
};
use dfp_model::error::{Code, ProviderError, clip};

/// The fields with which a config says how the agent is started.
const FIELDS: &[OptionSpec] = &[
    field("command", Kind::Text),
    field("args", Kind::TextList),
    field("name", Kind::Text),
];

/// The agent that `json` describes.
///
/// # Errors
/// `INVALID_CONFIG`, naming the field, what it holds and what is allowed.
pub fn agent(json: &str) -> Result<Provider, Box<ProviderError>> {
    let value: Value = serde_json::from_str(json).unwrap_or(Value::Null);
    read(&value).map_err(|reason| {
        let error = ProviderError::new("acp", Code::InvalidConfig, reason);
        Box::new(error.with_hint("correct what starts the agent"))
    })
}

fn read(value: &Value) -> Result<Provider, String> {
    let Some(map) = value.as_object().filter(|map| !map.contains_key("$notJson")) else {
        return Err(format!("config must be an object; given: {}", options::describe(value)));
    };
    if let Some(name) = map.keys().find(|name| !FIELDS.iter().any(|spec| spec.name == *name)) {
        return Err(format!("unknown field config.{}", clip(name, 60)));
    }
    for spec in FIELDS {
        if let Some(value) = map.get(spec.name) {
            options::check(spec, value).map_err(|allowed| wrong(spec.name, &allowed, value))?;
        }
    }
    let text = |name: &str| map.get(name).and_then(Value::as_str);
    let Some(command) = text("command") else {
        return Err("config.command is missing: it must be the program that is the agent".to_owned());
    };
    let id = text("name").unwrap_or("acp");
    if !is_id(id) {
        let allowed = "at most 64 letters, digits and \"-\", \"_\", \".\"";
        return Err(wrong("name", allowed, &Value::from(id)));
    }
    Ok(Provider {
        id: Cow::Owned(id.to_owned()),
        command: Cow::Owned(command.to_owned()),
        defaults: Defaults {
            engine: EngineKind::Auto,
            ..Defaults::STANDARD
        },
        flags: FLAGS,
        env: ENV,
        own_options: &[options::KEEP_ALIVE],
        live: Some(LiveForm {
            folder: "acp",
            takes_schema: false,
            may_have_tools: false,
            has_turns_in_print: false,
            always_gets: None,
        }),
        warm: Some(WarmForm::ANY),
        capabilities: CAPABILITIES,
        checks: Checks {
            version: &[],
            live: Some(CHECK),
            warm: Some(CHECK),
            ..Checks::VERSION_ONLY
        },
        off_effort: Some(OFF),
        custom: Some(Box::new(CustomCli::agent(options::texts(map, "args")))),
        ..FORM.clone()
    })
}

/// The known facts of an agent, found by the name that it gives itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KnownAgent {
    /// The field of its messages by which a call's tool is recognised, if it does not name the tool.
    pub naming: ToolNaming,
    /// The part of a tool's result that its model gets, bytes; the rest stays in a file of the agent's own.
    pub most_of_result: Option<usize>,
}

impl KnownAgent {
    const fn naming(naming: ToolNaming) -> KnownAgent {
        KnownAgent {
            naming,
            most_of_result: None,
        }
    }
}

/// The agents whose facts were measured: gemini 0.61.0, opencode 1.18.34, kimi 2.1.0.
const KNOWN: &[(&str, KnownAgent)] = &[
    ("gemini-cli", KnownAgent::naming(ToolNaming::Id)),
    (
        "OpenCode",
        KnownAgent {
            naming: ToolNaming::FirstTitle,
            most_of_result: Some(50 * 1024),
        },
    ),
    ("Kimi Code CLI", KnownAgent::naming(ToolNaming::FirstTitle)),
];

/// The known facts of the agent that calls itself `agent`; the defaults for an unknown one.
pub fn known_agent(agent: &str) -> KnownAgent {
    let known = KNOWN.iter().find(|(name, _)| *name == agent);
    known.map(|(_, known)| *known).unwrap_or_default()
}

/// The level of reasoning of an agent's that means none (kimi 2.1.0); others call it [`NONE`].
pub const OFF: &str = "off";
/// See [`OFF`] (opencode 1.18.34).
pub const NONE: &str = "none";

/// The arguments with which its config says that it is started.
const FLAGS: &[Flag] = &[flag(&[], &[Word::DefaultArgs])];

/// A private folder for temporary files, since some agents leave theirs (opencode 1.18.34).
const ENV: &[Var] = &[var("TMPDIR", EnvValue::Folder("tmp"))];

/// The capabilities that every agent has.
pub const CAPABILITIES: ByEngine = ByEngine {
    print: OF_EACH,
    live: Some(OF_EACH),
};

const OFFERED: &str = "where the agent offers it to its sessions";

const OF_EACH: Capabilities = Capabilities {
    model: NATIVE.but(OFFERED),
    reasoning_effort: NATIVE.but(OFFERED),
    reasoning_off: NATIVE.but("where the agent offers it to its sessions, as `off` or `none`"),
    reasoning_out: NATIVE.but("where the agent tells it"),
    ..Capabilities::LEAST
};

/// The check of an agent, which accepts any file: only the handshake tells what it serves.
const CHECK: EngineCheck = EngineCheck {
    package: "",
    version_folders: &[],
    program: "",
    versions: Versions::Since([0, 0, 0]),
    print_flags: &[],
    print_env: &[],
    announces: Announced::Versions,
    measured_only: false,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_starts_it_and_nothing_else() {
        let made = agent(r#"{"command":"some-agent","args":["--acp"],"name":"mine"}"#).unwrap();
        assert_eq!(
            (&*made.id, &*made.command, made.engines()),
            ("mine", "some-agent", &["live", "warm", "auto"][..])
        );
        assert!(!made.has_print() && made.is_agent());
        for (json, reason) in [
            (
                "{}",
                "config.command is missing: it must be the program that is the agent",
            ),
            (r#"{"command":"a","x":1}"#, "unknown field config.x"),
            (
                r#"{"command":"a","name":"../x"}"#,
                "config.name must be at most 64 letters, digits and \"-\", \"_\", \".\"; given: \"../x\"",
            ),
        ] {
            let error = agent(json).unwrap_err();
            assert_eq!(error.code, Code::InvalidConfig);
            assert!(error.message.starts_with(reason), "{}", error.message);
        }
    }
}
