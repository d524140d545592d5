//! The options that a user gives a provider: a table of names, types and limits, and their values.
//!
//! In: the JSON text of the options object. Out: [`Options`], or one error that names the option, its value and the allowed ones.
//! No process starts before the options are checked.

mod check;
mod engine;
mod launch;
mod login;
mod read;
mod spec;
mod values;

pub(crate) use check::{allowed, check_fields};
pub use check::{check, checked, checked_within, describe, environment, exit_code_of, nearest, number, texts, wrong};
pub use launch::{ENV_PLACE, Launch, LaunchEnv, NAME as LAUNCH_NAME, VALUE as LAUNCH_VALUE, on_command_line};
pub use read::{budget, check_timeout, quota, retry};
pub use spec::*;
pub use values::{
    Auth, CacheTtl, EngineKind, InputEncoding, Options, OutputFormat, OwnApi, PromptStyle, SessionStore, SystemPrompt,
    TextToolCalls, Workspace,
};

#[cfg(test)]
mod tests;
