//! ax-grok (Grok of xAI behind ax-cli), which is ax-glm with another service: `dialect: "ax"`. Nothing was measured. Its argv tests
//! are glm's.

use std::borrow::Cow;

use super::super::capability::{ByEngine, Capabilities};
use super::super::errors::Errors;
use super::super::options::{self, OptionSpec, OutputFormat};
use super::super::{About, Checks, Provider, SchemaForm, glm};
use crate::decode::Wire;
use crate::error::Code;
use crate::provider::callbacks::McpClient;
use crate::provider::media::MediaSupport;
use crate::provider::models::Models;

/// The ax-grok CLI.
pub static AX_GROK: Provider = Provider {
    id: Cow::Borrowed("grok"),
    command: Cow::Borrowed("ax-grok"),
    about: About {
        name: "Grok",
        versions: &[],
        sent: "what the CLI adds by itself; the login is `XAI_API_KEY`",
        not_isolated: glm::NOT_ISOLATED,
        limits: glm::LIMITS,
    },
    defaults: glm::DEFAULTS,
    flags: glm::FLAGS,
    env: &[],
    drop_env: &[],
    key_env: &[],
    files: &[],
    user_settings: None,
    home: None,
    session: None,
    wires: &[(OutputFormat::StreamJson, Wire::GenericStream)],
    own_options: OPTIONS,
    system_prompt: "",
    guard: None,
    reads_references: false,
    live: None,
    warm: None,
    capabilities: ByEngine::print_only(Capabilities::LEAST),
    efforts: &[],
    media: MediaSupport::NONE,
    models: Models {
        company: Some("x_ai"),
        ..Models::ANY
    },
    mcp: McpClient::PLAIN,
    schema: SchemaForm::Asked,
    prompt_limit: None,
    stop_on: &[],
    fatal_stderr: &[],
    fatal_stdout: &[],
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
    checks: Checks::VERSION_ONLY,
    login_dir: None,
    custom: None,
};

const OPTIONS: &[OptionSpec] = &[options::DIALECT, options::ARGV_PROMPT_STYLE];
