//! Every recorded run that failed, of all CLIs, and what it is said to be.
//!
//! In: `__tests__/fixtures/recordings/<cli>/<case>.{meta.json,stdout,stderr}`. Out: one line per run in
//! `__tests__/fixtures/classify/<cli>.txt`: case, code, category, figures, message. `UPDATE_GOLDENS=1 cargo test` writes
//! them anew; the diff is the review. The fields of a failure are read here by hand, so that rules and decoders are
//! tested apart.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::super::{Evidence, classify};
use crate::error::Code;
use crate::event::{Failure, Outcome};

/// 2026-11-21T21:00:00Z: before every reset that the recordings name.
const NOW: u64 = 1_795_294_800_000;

/// Commands that answer a question or do a chore, and a session that was sent nothing: no runs.
const NO_RUNS: &[&str] = &[
    "auth-status-json-nokey",
    "auth-status-nokey",
    "cmd-session-delete",
    "session-eof-noinput",
];

/// Runs of which nothing better can be said, and why.
const UNKNOWN: &[(&str, &str)] = &[];

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("__tests__/fixtures")
}

/// One recorded run.
struct Run {
    case: String,
    exit: Option<i32>,
    timed_out: bool,
    /// Standard output is at hand; outputs of megabytes are not.
    kept: bool,
    stdout: String,
    stderr: String,
}

fn runs(cli: &str) -> Vec<Run> {
    let folder = fixtures().join("recordings").join(cli);
    let read = |name: String| {
        fs::read(folder.join(name)).map_or_else(|_| String::new(), |b| String::from_utf8_lossy(&b).into_owned())
    };
    let mut runs: Vec<Run> = fs::read_dir(&folder)
        .unwrap()
        .filter_map(|entry| {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let case = name.strip_suffix(".meta.json")?.to_owned();
            let meta: Value = serde_json::from_str(&read(name.clone())).unwrap();
            Some(Run {
                exit: meta["exit_code"].as_i64().map(|code| i32::try_from(code).unwrap()),
                timed_out: meta["timed_out"] == true || (meta["exit_code"] == -9 && meta["signal"].is_null()),
                kept: folder.join(format!("{case}.stdout")).exists(),
                stdout: read(format!("{case}.stdout")),
                stderr: read(format!("{case}.stderr")),
                case,
            })
        })
        .collect();
    runs.sort_by(|a, b| a.case.cmp(&b.case));
    runs
}

/// What a decoder would report of a run's standard output.
#[derive(Default)]
struct Decoded {
    failure: Option<Failure>,
    outcome: Option<Outcome>,
    resets_at: Option<u64>,
    text: Option<String>,
}

fn lines(stdout: &str) -> Vec<Value> {
    match serde_json::from_str(stdout) {
        Ok(Value::Array(events)) => events,
        Ok(event) => vec![event],
        Err(_) => stdout.lines().filter_map(|l| serde_json::from_str(l).ok()).collect(),
    }
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn decoded(run: &Run) -> Decoded {
    let mut found = Decoded::default();
    let events = lines(&run.stdout);
    if events.is_empty() && !run.stdout.trim().is_empty() {
        found.text = Some(run.stdout.clone());
    }
    let mut kind = None;
    for event in events {
        match event["type"].as_str() {
            Some("assistant") => kind = text(&event["error"]).or(kind),
            Some("rate_limit_event") => {
                found.resets_at = event["rate_limit_info"]["resetsAt"].as_u64().map(|s| s * 1000);
            }
            Some("result") if event["status"].is_string() => {
                found.failure = (event["status"] == "error").then(|| Failure {
                    kind: text(&event["error"]["type"]),
                    message: text(&event["error"]["message"]).unwrap(),
                    ..Failure::default()
                });
            }
            Some("result") => {
                let errors = event["errors"]
                    .as_array()
                    .map(|e| e.iter().filter_map(text).collect::<Vec<_>>().join("; "));
                let message = text(&event["error"]["message"])
                    .or(errors)
                    .or_else(|| text(&event["result"]));
                let message = message.unwrap_or_default();
                let is_error = event["is_error"] == true || message.starts_with("[API Error: ");
                found.failure = is_error.then(|| Failure {
                    kind: text(&event["api_error"])
                        .or_else(|| kind.take())
                        .or_else(|| text(&event["api_error_type"])),
                    message,
                    http_status: event["api_error_status"].as_u64().map(|s| u16::try_from(s).unwrap()),
                    terminal_reason: text(&event["terminal_reason"]),
                    resets_at: None,
                });
                found.outcome = Some(Outcome {
                    subtype: text(&event["subtype"]),
                    is_error,
                    text: text(&event["result"]),
                    stop_reason: text(&event["stop_reason"]),
                    num_turns: event["num_turns"].as_u64().map(|n| u32::try_from(n).unwrap()),
                    ..Outcome::default()
                });
            }
            Some("turn.failed") => {
                found.failure = Some(Failure {
                    message: text(&event["error"]["message"]).unwrap(),
                    ..Failure::default()
                });
            }
            Some("error") if event["error"]["name"].is_string() => {
                found.failure = Some(Failure {
                    kind: text(&event["error"]["name"]),
                    message: text(&event["error"]["data"]["message"]).unwrap(),
                    http_status: event["error"]["data"]["statusCode"]
                        .as_u64()
                        .map(|s| u16::try_from(s).unwrap()),
                    ..Failure::default()
                });
            }
            _ => {}
        }
    }
    found
}

/// Whether the run failed, by CLI-FACTS' tests of success.
fn failed(run: &Run, decoded: &Decoded) -> bool {
    run.exit != Some(0)
        || decoded.failure.is_some()
        || decoded
            .outcome
            .as_ref()
            .is_some_and(|o| o.num_turns == Some(0) && o.subtype.as_deref() == Some("success"))
        || run.stdout == "Execution error"
        || (run.kept && run.stdout.trim().is_empty())
        || run.stderr.contains("Falling back to default agent")
}

fn golden(cli: &str) -> String {
    let provider = cli.split('-').next().unwrap();
    let mut golden = String::new();
    for run in runs(cli).iter().filter(|run| !NO_RUNS.contains(&run.case.as_str())) {
        let decoded = decoded(run);
        if !failed(run, &decoded) {
            continue;
        }
        let case = &run.case;
        match run.exit {
            None => writeln!(golden, "{case}: not started, argument list too long").unwrap(),
            _ if run.timed_out => writeln!(golden, "{case}: stopped by the recorder's own time limit").unwrap(),
            Some(exit) => {
                let signal = [(-2, "SIGINT"), (-9, "SIGKILL"), (-15, "SIGTERM")]
                    .iter()
                    .find(|s| s.0 == exit)
                    .map(|s| s.1);
                let found = classify(&Evidence {
                    provider,
                    failure: decoded.failure.as_ref(),
                    outcome: decoded.outcome.as_ref(),
                    exit_code: signal.is_none().then_some(exit),
                    signal,
                    stdout_text: decoded.text.as_deref(),
                    stderr_text: Some(&run.stderr),
                    resets_at: decoded.resets_at,
                    now_ms: NOW,
                    ..Evidence::default()
                });
                if found.code == Code::Unknown {
                    let reason = UNKNOWN.iter().find(|(name, _)| name == case);
                    assert!(
                        reason.is_some(),
                        "{cli}/{case} is unknown, and nobody says why: {}",
                        found.reason
                    );
                }
                write!(golden, "{case}: {} {}", found.category.as_str(), found.code.as_str()).unwrap();
                for (name, figure) in [
                    ("http", found.http_status.map(u64::from)),
                    ("retry", found.retry_after_ms),
                    ("resets", found.resets_at),
                ] {
                    if let Some(figure) = figure {
                        write!(golden, " {name}={figure}").unwrap();
                    }
                }
                writeln!(golden, " | {}", found.into_error(provider).message).unwrap();
            }
        }
    }
    golden
}

#[test]
fn every_recorded_failure_is_known() {
    let update = std::env::var_os("UPDATE_GOLDENS").is_some();
    for (cli, at_least) in [
        ("claude", 60),
        ("claude-2.1.330", 70),
        ("codex", 18),
        ("gemini", 15),
        ("qwen", 14),
        ("opencode", 30),
    ] {
        let path = fixtures().join("classify").join(format!("{cli}.txt"));
        let golden = golden(cli);
        assert!(
            golden.lines().count() >= at_least,
            "{cli}: {} failures",
            golden.lines().count()
        );
        if update {
            fs::write(&path, &golden).unwrap();
        }
        assert_eq!(
            golden,
            fs::read_to_string(&path).unwrap_or_default(),
            "{cli}: UPDATE_GOLDENS=1 writes it anew"
        );
    }
}
