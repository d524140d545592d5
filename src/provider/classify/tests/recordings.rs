//! Classifies every recorded run that failed, of all CLIs.
//!
//! In: `__tests__/fixtures/recordings/<cli>/<case>.{meta.json,stdout,stderr}`. Out: one line per run in
//! `__tests__/fixtures/classify/<cli>.txt`: case, code, category, figures, message. `UPDATE_GOLDENS=1 cargo test` writes the files
//! anew, and their diff is reviewed.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::super::{FailureFacts, classify};
use dfp_model::error::Code;
use dfp_model::event::{Event, Failure, Outcome};
use dfp_text::decode::golden::wire_of;
use dfp_text::decode::{Decoder, Wire};

/// The time is 2026-11-21T21:00:00Z: before every reset that the recordings name.
const NOW: u64 = 1_795_294_800_000;

/// Recordings that are no runs: commands that answer a question or do a chore, and sessions that got no input, or a broken line.
const NO_RUNS: &[&str] = &[
    "auth-status-json-nokey",
    "auth-status-nokey",
    "cmd-session-delete",
    "session-eof-noinput",
    "session-malformed-line",
];

/// Runs that stay unclassified, with the reason.
const UNKNOWN: &[(&str, &str)] = &[];

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../__tests__/fixtures")
}

/// One recorded run.
struct Run {
    case: String,
    exit: Option<i32>,
    timed_out: bool,
    /// Standard output was recorded; outputs of megabytes are not kept.
    kept: bool,
    argv: Vec<String>,
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
                argv: serde_json::from_value(meta["argv"].clone()).unwrap(),
                stdout: read(format!("{case}.stdout")),
                stderr: read(format!("{case}.stderr")),
                case,
            })
        })
        .collect();
    runs.sort_by(|a, b| a.case.cmp(&b.case));
    runs
}

/// The decoders' reports of a run's standard output.
#[derive(Default)]
struct Decoded {
    failure: Option<Failure>,
    outcome: Option<Outcome>,
    resets_at: Option<u64>,
    text: Option<String>,
}

impl Decoded {
    /// Takes an event. Of several texts the last one of the last turn counts.
    fn take(&mut self, event: Event) {
        match event {
            Event::Failure(failure) => (self.failure, self.outcome) = (Some(failure), None),
            Event::Outcome(outcome) => {
                self.failure = self.failure.take().filter(|_| self.outcome.is_none());
                self.outcome = Some(*outcome);
            }
            Event::RateLimit { resets_at, .. } => self.resets_at = resets_at,
            _ => {}
        }
    }
}

fn decoded(cli: &str, run: &Run) -> Decoded {
    let mut found = Decoded::default();
    let wire = wire_of(cli, &run.argv).unwrap_or(Wire::Text);
    if wire == Wire::Text {
        found.text = Some(run.stdout.clone()).filter(|_| run.exit != Some(0) || run.stdout == "Execution error");
        return found;
    }
    let mut decoder = Decoder::new(wire);
    let mut events = Vec::new();
    decoder.push(run.stdout.as_bytes(), &mut events);
    decoder.finish(&mut events);
    events.into_iter().for_each(|event| found.take(event));
    found.text = decoder.plain_text();
    found
}

/// `true` if the run failed, by the tests of success in CLI-FACTS.
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
        let decoded = decoded(cli, run);
        if !failed(run, &decoded) {
            continue;
        }
        let case = &run.case;
        match run.exit {
            _ if run.timed_out => writeln!(golden, "{case}: stopped by the recorder's own time limit").unwrap(),
            None => writeln!(golden, "{case}: not started, argument list too long").unwrap(),
            Some(exit) => {
                let signal = [(-2, "SIGINT"), (-9, "SIGKILL"), (-15, "SIGTERM")]
                    .iter()
                    .find(|s| s.0 == exit)
                    .map(|s| s.1);
                let found = classify(&FailureFacts {
                    provider,
                    failure: decoded.failure.as_ref(),
                    outcome: decoded.outcome.as_ref(),
                    exit_code: signal.is_none().then_some(exit),
                    signal,
                    stdout_text: decoded.text.as_deref().filter(|_| tells_on_stdout(provider)),
                    stderr_text: Some(&run.stderr),
                    resets_at: decoded.resets_at,
                    now_ms: NOW,
                    ..FailureFacts::default()
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

fn tells_on_stdout(provider: &str) -> bool {
    crate::find(provider).is_some_and(|known| known.errors.channel.fails_on_stdout)
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
        ("qwen-0.24.4", 10),
        ("opencode", 30),
        ("copilot", 10),
        ("grok", 10),
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
