//! The failures of the imaginary CLI: a sentence, exit codes that are HTTP statuses, and clap's refusal of a flag.

use crate::errors::{CLAP, Condition::*, Errors, ExitCodes, Rule};
use dfp_model::error::Code;

/// The data of its failures.
pub(super) const ERRORS: Errors = Errors {
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
