//! ax-glm (GLM of Z.ai behind ax-cli), by its source and CLI-ADAPTER-PROTOCOL, and ax-grok, the same program for Grok of xAI. Neither
//! was ever run, so nothing was measured.
//!
//! A bare argument, the document's form, starts its interactive mode, which asks for `--prompt`. So the prompt is the value of that
//! flag, limited in length and visible to others on the machine, and the document's form is `promptStyle: "arg"`. The output is
//! JSON lines of messages (`{"role": …}`, `{"messages": […]}`); an error is a message of the assistant that begins `Error: `, with
//! exit code 1.

use std::borrow::Cow;

use Word::Lit;

use super::errors::Errors;
use super::installed;
use super::models::Models;
use super::options::{self, OptionSpec, OutputFormat, PromptStyle};
use super::{About, Defaults, Flag, Provider, When, Word, flag};
use dfp_model::error::Code;
use dfp_text::decode::Wire;

/// The ax-glm CLI.
pub static GLM: Provider = Provider {
    id: Cow::Borrowed("glm"),
    command: Cow::Borrowed("ax-glm"),
    // No installer of it is known.
    places: &[
        installed::LOCAL_BIN,
        installed::HOMEBREW,
        installed::NODE,
        installed::WINDOWS,
    ],
    about: About {
        name: "Glm",
        versions: &[],
        sent: "what the CLI adds by itself; the login is `ZAI_API_KEY`",
        not_isolated: NOT_ISOLATED,
        limits: LIMITS,
    },
    defaults: DEFAULTS,
    flags: FLAGS,
    wires: &[(OutputFormat::StreamJson, Wire::GenericStream)],
    own_options: OPTIONS,
    system_prompt: "",
    error_message: ERROR_MESSAGE,
    errors: Errors {
        hints: &[
            (Code::NotLoggedIn, "set ZAI_API_KEY"),
            (Code::AuthenticationFailed, "correct ZAI_API_KEY"),
            (Code::InvalidApiKey, "correct ZAI_API_KEY"),
            (Code::CliNotFound, "install `ax-glm`, or set `cliPath`"),
        ],
        ..Errors::NONE
    },
    ..Provider::BASE
};

/// The ax-grok CLI: the dialect `ax` of grok.
pub static AX_GROK: Provider = Provider {
    id: Cow::Borrowed("grok"),
    command: Cow::Borrowed("ax-grok"),
    // No installer of it is known.
    places: &[
        installed::LOCAL_BIN,
        installed::HOMEBREW,
        installed::NODE,
        installed::WINDOWS,
    ],
    about: About {
        name: "Grok",
        versions: &[],
        sent: "what the CLI adds by itself; the login is `XAI_API_KEY`",
        not_isolated: NOT_ISOLATED,
        limits: LIMITS,
    },
    defaults: DEFAULTS,
    flags: FLAGS,
    wires: &[(OutputFormat::StreamJson, Wire::GenericStream)],
    own_options: &[options::DIALECT, options::ARGV_PROMPT_STYLE],
    system_prompt: "",
    models: Models {
        company: Some("x_ai"),
        ..Models::ANY
    },
    error_message: ERROR_MESSAGE,
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

/// The flags of ax-cli.
const FLAGS: &[Flag] = &[
    flag(&[When::Model], &[Lit("--model"), Word::Model]),
    flag(&[When::PromptFlag], &[Lit("--prompt"), Word::Prompt]),
    flag(&[When::PromptArg], &[Word::Prompt]),
];

const DEFAULTS: Defaults = Defaults {
    prompt_style: PromptStyle::Flag,
    ..Defaults::STANDARD
};

const NOT_ISOLATED: &str = "the prompt, in `ps`; the CLI's own configuration and tools (in an empty folder)";

const LIMITS: &str = "a prompt of 128 KiB on Linux, as an argument; known from its source and document, and never run";

/// The prefix with which ax-cli, by its source, prints an error as a message of the assistant.
const ERROR_MESSAGE: Option<&str> = Some("Error: ");

const OPTIONS: &[OptionSpec] = &[options::ARGV_PROMPT_STYLE];

#[cfg(test)]
mod tests {
    use super::super::tests::argv::line;
    use super::*;
    use crate::command::{Cwd, MAX_ARG_BYTES};

    #[test]
    fn the_prompt_is_the_value_of_a_flag_and_the_documents_form_an_option() {
        for provider in [&GLM, &AX_GROK] {
            let line = line(provider, "{}");
            assert_eq!(line.argv(), "--prompt PROMPT");
            assert_eq!((line.0.stdin.as_str(), &line.0.cwd), ("", &Cwd::Private));
            assert_eq!(line.0.wire, Wire::GenericStream);
            assert_eq!(
                super::super::tests::argv::line(provider, r#"{"model":"m"}"#).argv(),
                "--model m --prompt PROMPT"
            );
            let documents = super::super::tests::argv::line(provider, r#"{"promptStyle":"arg"}"#);
            assert_eq!((documents.argv().as_str(), documents.0.stdin.as_str()), ("PROMPT", ""));
        }
        assert_eq!((GLM.command.as_ref(), AX_GROK.command.as_ref()), ("ax-glm", "ax-grok"));
    }

    #[test]
    fn a_prompt_too_long_for_argv_is_refused_with_the_limit() {
        assert!(line(&GLM, "{}").with_prompt(&"x".repeat(MAX_ARG_BYTES)).is_ok());
        let error = line(&GLM, "{}")
            .with_prompt(&"x".repeat(MAX_ARG_BYTES + 1))
            .unwrap_err();
        assert_eq!(
            error.message,
            "the prompt has 131072 bytes and promptStyle \"flag\" takes 131071, the operating system's limit of one argument. \
             Shorten the thread: this CLI takes its prompt as an argument"
        );
    }
}
