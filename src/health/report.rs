//! The report of a provider's health, as JavaScript gets it.

use serde::{Deserialize, Serialize};

use dfp_model::error::ProviderError;
use dfp_provider::LoginKind;
use dfp_provider::classify;
use dfp_run::EngineChoice;

/// The depth of the check. Each level includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Checks that the program is there. Nothing is started.
    Command,
    /// Checks its version.
    Version,
    /// Checks that it is logged in, if the CLI can tell.
    Auth,
    /// Checks that it answers: one tiny request, which is billed like any other.
    Request,
}

/// The state of the CLI's login: `true`, `false` or `"unknown"` in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Login {
    /// The CLI says that it is logged in, or it has answered.
    Yes,
    /// The CLI says that it is not logged in, or a request was refused for that reason.
    No,
    /// The CLI was not asked, or can't tell.
    Unknown,
}

impl Serialize for Login {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Login::Yes => serializer.serialize_bool(true),
            Login::No => serializer.serialize_bool(false),
            Login::Unknown => serializer.serialize_str("unknown"),
        }
    }
}

/// The report: index.d.ts's `HealthReport`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    pub provider: String,
    /// True if the program is there and can be executed.
    pub installed: bool,
    /// The program's path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The places outside of the PATH that were searched, if the program is in none of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub searched: Vec<String>,
    /// The program's version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// True if that is one of the versions that everything was measured with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version_tested: Option<bool>,
    /// The folder of its login, if the option `login` names one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub login: Option<String>,
    /// The state of the login.
    pub authenticated: Login,
    /// The kind of the login, if the CLI tells it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signed_in_by: Option<SignedInBy>,
    /// The engine of calls, if there is more than one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine: Option<EngineChoice>,
    /// True if a request was answered; only with the level that makes one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answering: Option<bool>,
    /// The form in which its model was offered a tool and called it; only with the level that makes a request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_form: Option<&'static str>,
    /// `false` if tools of the CLI's or the agent's own may act; absent for a model alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pure: Option<bool>,
    /// The problems, and facts that are worth knowing.
    pub problems: Vec<Problem>,
    /// The time that each fact took, ms.
    pub timings_ms: Timings,
}

/// The login that is in effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SignedInBy {
    /// The kind: who lets requests in, and who is paid.
    pub kind: LoginKind,
    /// The sign of that in words, without a secret.
    pub why: String,
}

/// The time that each fact took, ms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Timings {
    /// The search for the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<u64>,
    /// The question for its version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// The question for its login.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth: Option<u64>,
    /// The tiny request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<u64>,
}

/// A problem, or a fact that is worth knowing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The code of an error, or one of the health check's own.
    pub code: &'static str,
    /// The problem's severity.
    pub severity: Severity,
    pub message: String,
    /// Advice about it.
    pub hint: String,
}

/// The severity of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    Error,
    /// Requests may succeed all the same.
    Warning,
}

/// A problem that no failed request would show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Finding {
    VersionNotMeasured,
    VersionUnknown,
    LoginUnknown,
    KeyBeatsLogin,
    LoginEnded,
    ToolForm,
    UserSettings,
}

impl Finding {
    /// Makes the problem, as a warning.
    pub fn problem(self, message: String, hint: impl Into<String>) -> Problem {
        let code = match self {
            Finding::VersionNotMeasured => "VERSION_NOT_MEASURED",
            Finding::VersionUnknown => "VERSION_UNKNOWN",
            Finding::LoginUnknown => "LOGIN_UNKNOWN",
            Finding::KeyBeatsLogin => "KEY_BEATS_LOGIN",
            Finding::LoginEnded => "LOGIN_ENDED",
            Finding::ToolForm => "TOOL_FORM",
            Finding::UserSettings => "USER_SETTINGS",
        };
        Problem {
            code,
            severity: Severity::Warning,
            message,
            hint: hint.into(),
        }
    }
}

impl Problem {
    pub(super) fn of(error: &ProviderError) -> Problem {
        let hint = error.hint.clone();
        Problem {
            code: error.code.as_str(),
            severity: Severity::Error,
            message: reason(error),
            hint: hint.unwrap_or_else(|| classify::hint(&error.provider, error.code).to_owned()),
        }
    }
}

/// The error's message without the hint, which stands beside it (as [`ProviderError::with_hint`] adds it).
fn reason(error: &ProviderError) -> String {
    let message = &error.message;
    let reason = error.hint.as_deref().and_then(|hint| {
        let (reason, end) = message.split_at_checked(message.len().checked_sub(hint.len() + 2)?)?;
        end.strip_prefix(". ")?.eq_ignore_ascii_case(hint).then_some(reason)
    });
    reason.unwrap_or(message).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use dfp_model::error::Code;

    #[test]
    fn a_problem_does_not_say_its_hint_twice() {
        let error = ProviderError::new("x", Code::CliNotFound, "x is not there").with_hint("install `x`");
        let problem = Problem::of(&error);
        assert_eq!(
            (problem.message.as_str(), problem.hint.as_str()),
            ("x is not there", "install `x`")
        );
        let plain = ProviderError::new("codex", Code::NotLoggedIn, "no login");
        let problem = Problem::of(&plain);
        assert_eq!(
            (problem.message.as_str(), problem.hint.as_str()),
            ("no login", "run `codex login`")
        );
    }
}
