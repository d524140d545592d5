//! ax-grok (Grok of xAI behind ax-cli), which is ax-glm with another service: `dialect: "ax"`. Nothing was measured. Its argv tests
//! are glm's.

use std::borrow::Cow;

use super::super::errors::Errors;
use super::super::options::{self, OptionSpec, OutputFormat};
use super::super::places;
use super::super::{About, Provider, glm};
use crate::models::Models;
use dfp_model::error::Code;
use dfp_text::decode::Wire;

/// The ax-grok CLI.
pub static AX_GROK: Provider = Provider {
    id: Cow::Borrowed("grok"),
    command: Cow::Borrowed("ax-grok"),
    // No installer of it is known.
    places: &[places::LOCAL_BIN, places::HOMEBREW, places::NODE, places::WINDOWS],
    about: About {
        name: "Grok",
        versions: &[],
        sent: "what the CLI adds by itself; the login is `XAI_API_KEY`",
        not_isolated: glm::NOT_ISOLATED,
        limits: glm::LIMITS,
    },
    defaults: glm::DEFAULTS,
    flags: glm::FLAGS,
    wires: &[(OutputFormat::StreamJson, Wire::GenericStream)],
    own_options: OPTIONS,
    system_prompt: "",
    models: Models {
        company: Some("x_ai"),
        ..Models::ANY
    },
    error_message: glm::ERROR_MESSAGE,
    errors: Errors {
        hints: &[
            (Code::NotLoggedIn, "set XAI_API_KEY"),
            (Code::AuthenticationFailed, "correct XAI_API_KEY"),
            (Code::InvalidApiKey, "correct XAI_API_KEY"),
            (Code::CliNotFound, "install `ax-grok`, or set `cliPath`"),
        ],
        ..Errors::NONE
    },
    ..Provider::BASE
};

const OPTIONS: &[OptionSpec] = &[options::DIALECT, options::ARGV_PROMPT_STYLE];
