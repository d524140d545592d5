//! Reads the output of a CLI's commands: (the question, output and exit code) -> a version, a login, or a description of what the
//! command did instead.

use std::time::Duration;

use serde_json::Value;

use super::report::Login;
use dfp_model::error::clip;
use dfp_process::{End, Output};
use dfp_provider::{LoginAnswer, LoginCheck, LoginKind, LoginSign, LoginWords};
use dfp_text::decode::ansi::strip_ansi;
use dfp_text::redact::{Redactor, plain};

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
        let is_said = match sign.says {
            LoginWords::Member(name, value) => json.get(name).and_then(Value::as_str) == Some(value),
            LoginWords::Line(words) => text.lines().any(|line| line.starts_with(words)),
        };
        is_said && sign.variable.is_none_or(&is_set)
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
