//! The report of a provider's health, as JavaScript gets it, and what is read into it: the answers of an API, and those of a CLI's
//! commands.
//!
//! In: an [`ApiProvider`], the depth of the check, and an environment; or a question to a CLI, its output and exit code. Out: the
//! [`Report`] of every provider; or a version, a login, or a description of what the command did instead. "Installed" means of an API
//! that the server answers at all; its list of models shows whether it takes the key, if it has such a list.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Check, Checkable, answered, millis, tiny_request};
use dfp_model::error::{Category, ProviderError, clip};
use dfp_process::{End, Output, Vars};
use dfp_provider::classify;
use dfp_provider::{LoginAnswer, LoginCheck, LoginKind, LoginSign, LoginWords};
use dfp_run::EngineChoice;
use dfp_run::api::{ApiProvider, Prepared, Probe};
use dfp_text::decode::lines::strip_ansi;
use dfp_text::redact::{Redactor, plain};

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

// The check of an API: is it there, does it take the key, does it answer.

impl Checkable for ApiProvider {
    fn check(self: Arc<Self>, level: Level, env: Option<Vars>) -> Result<Check, Box<ProviderError>> {
        // The environment is read here, on the caller's thread.
        let prepared = Prepared::new(&self, env.as_ref());
        Check::begin(&self, |api, cancel| async move {
            let mut report = empty(&api, level);
            let look = async {
                reach(&prepared, level, &mut report).await;
                if level >= Level::Request && report.installed {
                    let began = Instant::now();
                    let run = prepared.call(tiny_request());
                    answered(api.id(), &run, &cancel, &mut report).await;
                    report.timings_ms.request = Some(millis(began));
                }
            };
            tokio::select! {
                biased;
                () = cancel.cancelled() => {}
                () = look => {}
            }
            report
        })
    }
}

/// The report before anything was asked.
fn empty(api: &ApiProvider, level: Level) -> Report {
    Report {
        provider: api.id().to_owned(),
        installed: false,
        path: Some(api.place()),
        searched: Vec::new(),
        version: None,
        version_tested: None,
        login: None,
        authenticated: Login::Unknown,
        signed_in_by: None,
        engine: None,
        answering: (level >= Level::Request).then_some(false),
        tool_form: None,
        pure: None,
        problems: Vec::new(),
        timings_ms: Timings::default(),
    }
}

/// Asks for the list of models, whose answer shows that the API is there.
async fn reach(prepared: &Prepared, level: Level, report: &mut Report) {
    let began = Instant::now();
    let probe = prepared.look().await;
    let took = Some(millis(began));
    report.timings_ms.command = took;
    report.installed = !matches!(probe, Probe::Nothing(_));
    let asked = level >= Level::Auth;
    if asked {
        report.timings_ms.auth = took;
        report.signed_in_by = prepared.has_key().then(|| SignedInBy {
            kind: LoginKind::Key,
            why: "it is asked with an API key".to_owned(),
        });
        if let Some(error) = prepared.no_key() {
            report.authenticated = Login::No;
            report.problems.push(Problem::of(error));
        }
    }
    match probe {
        Probe::Nothing(error) => report.problems.push(Problem::of(&error)),
        _ if !asked || prepared.no_key().is_some() => {}
        Probe::Listed => report.authenticated = Login::Yes,
        Probe::Answered(error) if error.category == Category::Authentication => {
            report.authenticated = Login::No;
            report.problems.push(Problem::of(&error));
        }
        Probe::Answered(error) => {
            let status = error.http_status.unwrap_or_default();
            let message =
                format!("the server gives no list of models (HTTP status {status}), so the key was not tried");
            let hint = "level \"request\" tries it with a request";
            report.problems.push(Finding::LoginUnknown.problem(message, hint));
        }
    }
}

// The answers of a CLI's commands.

/// The time that a command of the CLI may take: a cold disk has to bring hundreds of megabytes first (claude 2.1.330: 381 MB).
pub(super) const COMMAND_LIMIT: Duration = Duration::from_secs(20);

/// A description of a command that did not answer.
pub(super) fn description(output: &Output, redactor: &Redactor) -> String {
    let exit = &output.exit;
    match (exit.end, exit.code, &exit.signal) {
        (End::Timeout, ..) => format!("was not over after {} s and was ended", COMMAND_LIMIT.as_secs()),
        (End::OutputLimit, ..) => "printed too much".to_owned(),
        (_, Some(0), _) => "says something else".to_owned(),
        (_, Some(code), _) => {
            let first_line = redactor
                .redact_error(&plain(&exit.stderr))
                .trim()
                .lines()
                .next()
                .map(|line| clip(line.trim(), 160));
            let first_line = first_line
                .filter(|line| !line.is_empty())
                .map(|line| format!(": {line}"));
            format!("failed with exit code {code}{}", first_line.unwrap_or_default())
        }
        (_, None, Some(signal)) => format!("was killed by {signal}"),
        (_, None, None) => "ended in an unknown way".to_owned(),
    }
}

pub(super) fn text(output: &Output) -> String {
    let stdout = String::from_utf8_lossy(&output.stdout);
    let text = if stdout.trim().is_empty() {
        strip_ansi(&output.exit.stderr)
    } else {
        strip_ansi(&stdout)
    };
    text.into_owned()
}

/// The login as the CLI reports it.
pub(super) fn answer(check: &LoginCheck, output: &Output) -> Login {
    if output.exit.end != End::Exited {
        return Login::Unknown;
    }
    match check.answer {
        LoginAnswer::JsonFlag(name) => {
            let json = serde_json::from_str::<Value>(text(output).trim()).unwrap_or(Value::Null);
            match json.get(name).and_then(Value::as_bool) {
                Some(true) => Login::Yes,
                Some(false) => Login::No,
                None => Login::Unknown,
            }
        }
        LoginAnswer::ExitCode(no) => match output.exit.code {
            Some(0) => Login::Yes,
            Some(1) if output.exit.stderr.contains(no) => Login::No,
            _ => Login::Unknown,
        },
    }
}

/// The kind of login that the CLI reports, and its words about it. `is_set` knows its environment.
pub(super) fn kind(
    check: &LoginCheck,
    output: &Output,
    is_set: impl Fn(&str) -> bool,
) -> Option<(LoginKind, Vec<String>)> {
    let text = text(output);
    let json = serde_json::from_str::<Value>(text.trim()).unwrap_or(Value::Null);
    let holds = |sign: &&LoginSign| {
        let has = |(name, value): (&str, &str)| json.get(name).and_then(Value::as_str) == Some(value);
        let is_said = match sign.says {
            LoginWords::Member(name, value) => has((name, value)),
            LoginWords::Line(words) => text.lines().any(|line| line.starts_with(words)),
        };
        is_said && sign.beside.is_none_or(has) && sign.variable.is_none_or(&is_set)
    };
    let sign = check.kinds.iter().find(holds)?;
    let (LoginWords::Member(_, said) | LoginWords::Line(said)) = sign.says;
    let details = check.details.iter().filter_map(|name| json.get(name)?.as_str());
    let words = [said].into_iter().chain(details);
    Some((sign.kind, words.map(|word| clip(word, 60)).collect()))
}

/// The host of the URL `text`, with its port. The rest of the URL is never shown, since it may hold a secret.
pub(super) fn host(text: &str) -> Option<String> {
    let url: http::Uri = text.trim().parse().ok()?;
    let host = url.host()?;
    Some(match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    })
}

/// The first word of `text` that is a version: `2.1.330 (Claude Code)`, `codex-cli 0.169.0`, `v1.2`.
pub(super) fn version(text: &str) -> Option<String> {
    let of_version = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+');
    text.split(|c| !of_version(c)).find_map(|word| {
        let word = word
            .strip_prefix(['v', 'V'])
            .unwrap_or(word)
            .trim_end_matches(['.', '-', '+']);
        let (major, rest) = word.split_once('.')?;
        let is_version = !major.is_empty()
            && major.len() <= 9
            && major.bytes().all(|byte| byte.is_ascii_digit())
            && rest.starts_with(|c: char| c.is_ascii_digit());
        is_version.then(|| clip(word, 60))
    })
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

    #[test]
    fn of_a_gateway_its_host_is_told_and_nothing_else() {
        for (url, expected) in [
            (
                "https://user:secret@gateway.example:8443/v1?key=secret",
                Some("gateway.example:8443"),
            ),
            (" https://api.anthropic.com/ ", Some("api.anthropic.com")),
            ("http://127.0.0.1:9", Some("127.0.0.1:9")),
            ("/v1", None),
            ("not a url", None),
        ] {
            assert_eq!(host(url).as_deref(), expected, "{url}");
        }
    }

    #[test]
    fn versions_are_found_in_what_clis_print() {
        for (text, expected) in [
            ("2.1.330 (Claude Code)\n", Some("2.1.330")),
            ("codex-cli 0.169.0\n", Some("0.169.0")),
            ("v1.18.34", Some("1.18.34")),
            ("cli version: 1.2.3-beta.1+build.", Some("1.2.3-beta.1+build")),
            ("tool/3.4 linux-x64 node-v20.1", Some("3.4")),
            ("usage: tool [-v]", None),
            ("listening on ..5", None),
            ("", None),
        ] {
            assert_eq!(version(text).as_deref(), expected, "{text:?}");
        }
    }
}
