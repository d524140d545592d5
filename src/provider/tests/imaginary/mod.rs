//! An imaginary CLI, which shows what adding one takes: this folder and its name in the registry (in tests, `every`).
//!
//! The tests show that no other code has to know it: its command line is built, its output is read and judged. The rooms that run
//! providers and check their health can't know it: they only see what this room hands them.

use std::borrow::Cow;

use crate::errors::{CLAP, Condition::*, Errors, ExitCodes, Rule};
use crate::options::{self, OutputFormat};
use crate::{About, Checks, EnvValue, LoginAnswer, LoginCheck, Provider, When, Word, flag, optional, var};
use Word::Lit;
use dfp_model::error::Code;
use dfp_text::decode::Wire;

/// The imaginary CLI.
pub static IMAGINARY: Provider = Provider {
    id: Cow::Borrowed("imaginary"),
    command: Cow::Borrowed("imaginary"),
    about: About {
        name: "Imaginary",
        versions: &["1.2.3"],
        sent: "nothing",
        not_isolated: "nothing",
        limits: "it does not exist",
    },
    flags: &[
        flag(&[], &[Lit("ask"), Lit("--lines")]),
        optional(&[], &[Lit("--quiet")]),
        flag(&[When::Model], &[Lit("--model"), Word::Model]),
    ],
    env: &[var("IMAGINARY_HOME", EnvValue::Folder("home"))],
    drop_env: &["IMAGINARY_DEBUG"],
    wires: &[(OutputFormat::StreamJson, Wire::GenericStream)],
    own_options: &[options::TIMEOUT_ALWAYS, options::SANDBOX],
    errors: ERRORS,
    checks: Checks {
        login: Some(LoginCheck {
            args: &["login", "status"],
            answer: LoginAnswer::ExitCode("nobody"),
            kinds: &[],
            details: &[],
            gateways: &[],
        }),
        ..Checks::VERSION_ONLY
    },
    ..Provider::BASE
};

/// The failures of the imaginary CLI: a sentence, exit codes that are HTTP statuses, and clap's refusal of a flag.
const ERRORS: Errors = Errors {
    rules: RULES,
    hints: &[(Code::AuthenticationFailed, "run `imaginary login`")],
    exit_codes: ExitCodes::HttpStatus,
    refused_flags: &[CLAP],
    ..Errors::NONE
};

const RULES: &[Rule] = &[Rule::new(
    &[Text("<out of imagination>")],
    Code::QuotaExceeded,
    "out of imagination",
)
.hint("dream first")];

mod tests {
    use super::super::argv::line;
    use super::super::docs;
    use super::IMAGINARY;
    use crate::classify::{FailureFacts, classify, unsupported_flag};
    use crate::find;
    use crate::options::{Options, OutputFormat};
    use crate::output;
    use dfp_model::error::{Category, Code};

    #[test]
    fn it_is_found_and_has_its_row_in_the_docs() {
        assert!(std::ptr::eq(find("imaginary").unwrap(), &IMAGINARY));
        assert_eq!(
            docs::row(&IMAGINARY),
            "| imaginary | 1.2.3 | `imaginary ask --lines --quiet` | nothing | nothing | it does not exist |\n"
        );
    }

    #[test]
    fn it_gets_its_command_line() {
        let made = line(&IMAGINARY, r#"{"model":"m1","extraArgs":["--more"]}"#);
        assert_eq!(made.argv(), "ask --lines --quiet --model m1 --more");
        assert_eq!(
            (made.env("IMAGINARY_HOME"), made.env("CI")),
            ("<home/>".to_owned(), "true".to_owned())
        );
        assert_eq!(made.0.stdin, "PROMPT");
        assert_eq!(
            made.0.drop_env,
            ["NODE_OPTIONS", "VSCODE_INSPECTOR_OPTIONS", "IMAGINARY_DEBUG"]
        );
        assert_eq!(made.without("--quiet").argv(), "ask --lines --model m1 --more");
    }

    /// The options are those of every CLI, one of them with another limit, and its own behind them.
    #[test]
    fn it_takes_every_common_option_and_its_own() {
        let refusal = |json: &str| Options::parse(&IMAGINARY, json).unwrap_err().message;
        assert_eq!(
            refusal(r#"{"frequencyPenalty":1}"#),
            "unknown option \"frequencyPenalty\"; allowed: model, cliPath, cliSearch, launch, timeout, maxBuffer, inputEncoding, \
             threadDocuments, textToolCalls, cwd, env, extraArgs, idleTimeout, killGrace, maxConcurrency, engine, retry, quota, budget, login, reasoning, maxOutputTokens, \
             stop, temperature, serviceTier, speed, webSearch, tools, onUnsupported, sandbox"
        );
        assert_eq!(
            refusal(r#"{"timeout":0}"#),
            "option \"timeout\" must be a whole number of ms from 1 to 2147483647; given: 0"
        );
    }

    #[test]
    fn its_output_is_read_and_its_failures_are_known() {
        let answer = "{\"role\":\"assistant\",\"content\":\"Hi.\"}\n";
        let parsed = output::parse(answer, OutputFormat::StreamJson, Some("imaginary"), 0);
        assert_eq!((parsed.content.as_str(), parsed.is_error), ("Hi.", false));

        let verdict = |stderr, exit| {
            let found = classify(&FailureFacts {
                provider: "imaginary",
                stderr_text: Some(stderr),
                exit_code: Some(exit),
                ..FailureFacts::default()
            });
            (found.code, found.hint.unwrap_or_default())
        };
        assert_eq!(
            verdict("Error: out of imagination", 1),
            (Code::QuotaExceeded, "dream first".to_owned())
        );
        // 401 modulo 256.
        assert_eq!(
            verdict("Error: the stars are wrong", 145),
            (Code::AuthenticationFailed, "run `imaginary login`".to_owned())
        );
        let refused = "error: unexpected argument '--quiet' found";
        assert_eq!(unsupported_flag("imaginary", refused).as_deref(), Some("--quiet"));
        assert_eq!(Code::QuotaExceeded.category(), Category::Quota);
    }
}
