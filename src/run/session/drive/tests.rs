//! Tests of what the calls of a provider find out about the installed CLI, and when: with a made-up source of sessions, whose
//! processes are never started.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::*;
use crate::cli_attempt::Dropped;
use crate::cli_request::CliRequest;
use crate::log::Log;
use crate::request::Request;
use crate::sink::Sink;
use dfp_exchange::form::ProcessOptions;
use dfp_exchange::{Ended, Evidence, Exchange, Finish, Progress, StopReason};
use dfp_model::event::Outcome;
use dfp_model::message::{Message, Role};
use dfp_process::counted::RESOLVED;
use dfp_provider::command::counted::BUILT;
use dfp_provider::judge::TurnEvidence;
use dfp_text::prompt::counted::RENDERED;

/// A turn that answers at once.
struct Answered;

impl Exchange for Answered {
    type Unusable = Unusable;

    fn elapsed(&self) -> Duration {
        Duration::ZERO
    }

    fn received_bytes(&self) -> u64 {
        1
    }

    async fn next(&mut self, events: &mut Vec<Event>) -> Progress {
        events.push(Event::Message {
            id: None,
            content: "yes".to_owned(),
        });
        events.push(Event::Outcome(Box::new(Outcome {
            subtype: Some("success".to_owned()),
            ..Outcome::default()
        })));
        Progress::Over
    }

    fn stop(&mut self, _: StopReason) {}

    async fn finish(self) -> Finish<Unusable> {
        Finish::Ended(Box::new(Ended::new(Evidence::Turn(TurnEvidence {
            wire: dfp_text::decode::Wire::ClaudeStream,
            flags: Vec::new(),
            stopped: None,
            diagnostics: Vec::new(),
            stdout_tail: String::new(),
        }))))
    }
}

/// A source of sessions that wait, or must be started.
#[derive(Debug, Default)]
struct MadeUp {
    waits: AtomicBool,
    /// The programs that were started, and their flags.
    started: Mutex<Vec<(PathBuf, Vec<&'static str>)>>,
}

impl Source for MadeUp {
    const ENGINE: EngineUsed = EngineUsed::Live;

    /// True if a session may know the thread.
    type Call = bool;
    type Turn = Answered;

    fn may_continue(call: &bool) -> bool {
        *call
    }

    fn options(_: &bool) -> ProcessOptions {
        ProcessOptions::default()
    }

    async fn begin(self: &Arc<Self>, asked: &TurnAsked<'_, bool>) -> Result<Begun<Answered>, NotBegun> {
        let origin = match self.waits.load(Ordering::Relaxed) && *asked.call {
            true => Origin::Continued,
            false => {
                let installed = asked.looked_at()?;
                let start = (installed.binary.file().to_owned(), installed.line.flags.clone());
                self.started.lock().unwrap().push(start);
                Origin::Fresh
            }
        };
        Ok(Begun {
            exchange: Answered,
            origin,
            notes: Vec::new(),
            sent: Box::new(String::new),
            figures: Value::Null,
        })
    }
}

/// A folder with claude in it, as npm installs it.
struct Folder(tempfile::TempDir);

impl Folder {
    fn with(version: &str) -> Folder {
        let folder = Folder(tempfile::tempdir().unwrap());
        folder.install(version);
        folder
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("claude")
    }

    /// Installs another version in the place of the present one.
    fn install(&self, version: &str) {
        let (manifest, new) = (self.0.path().join("package.json"), self.0.path().join("new"));
        let text = json!({"name": "@anthropic-ai/claude-code", "version": version}).to_string();
        std::fs::write(manifest, text).unwrap();
        std::fs::write(&new, format!("#!/bin/sh\n# {version}\n")).unwrap();
        std::fs::set_permissions(&new, PermissionsExt::from_mode(0o755)).unwrap();
        std::fs::rename(new, self.file()).unwrap();
    }

    fn env(&self) -> Arc<Vars> {
        Arc::new(vec![("PATH".into(), self.0.path().into())])
    }
}

/// The number of command lines built, programs searched and prompts rendered so far.
fn counted() -> [usize; 3] {
    [BUILT.get(), RESOLVED.get(), RENDERED.get()]
}

/// Makes a call; returns its outcome, and the number of things built, searched and rendered for it.
async fn call(base: &Arc<Base>, source: &Arc<MadeUp>, env: &Arc<Vars>, may_continue: bool) -> (String, [usize; 3]) {
    let before = counted();
    let request = Request {
        messages: vec![
            Message::new(Role::Human, "a"),
            Message::new(Role::Ai, "b"),
            Message::new(Role::Human, "c"),
        ],
        ..Request::default()
    };
    let request = CliRequest::new(base, request, None).unwrap();
    let log = Arc::new(Log::new("claude".into(), "run-1".to_owned()));
    let sink = Sink::new(None, false, log, None, true);
    let call = CliCall {
        engine: base,
        request: &request,
        base_env: env,
        cancel: &CancellationToken::new(),
        sink: &sink,
        dropped: Dropped::default(),
    };
    let attempt = CliAttempt {
        call: &call,
        number: 1,
        began: &Default::default(),
        clock: Default::default(),
    };
    let mut info = RunInfo::default();
    let way = drive(source, &attempt, &may_continue, Reading::default(), &mut info).await;
    let came = match way {
        Ok(EngineResult::Outcome(AttemptOutcome::Replied(_))) => match info.continued {
            Some(true) => "continued".to_owned(),
            _ => "started".to_owned(),
        },
        Ok(EngineResult::Outcome(_)) => "no reply".to_owned(),
        Ok(EngineResult::Next(told)) => format!("print, told: {}", told.is_some()),
        Err(error) => format!("{:?}: {}", error.code, error.message),
    };
    let after = counted();
    (came, [0, 1, 2].map(|at| after[at] - before[at]))
}

fn base(options: &str) -> Arc<Base> {
    Arc::new(Base::new("claude", options, u64::MAX).unwrap())
}

fn waiting() -> Arc<MadeUp> {
    let source = Arc::new(MadeUp::default());
    source.waits.store(true, Ordering::Relaxed);
    source
}

fn is(came: &str, counts: [usize; 3]) -> (String, [usize; 3]) {
    (came.to_owned(), counts)
}

#[tokio::test]
async fn a_turn_that_goes_on_builds_searches_and_renders_nothing() {
    for options in ["{}", r#"{"engine": "live"}"#] {
        let (folder, base, source) = (Folder::with("2.1.330"), base(options), waiting());
        let env = folder.env();
        assert_eq!(
            call(&base, &source, &env, false).await,
            is("started", [1, 1, 0]),
            "{options}"
        );
        // Each call has its own copy of the environment.
        for _ in 0..3 {
            assert_eq!(
                call(&base, &source, &folder.env(), true).await,
                is("continued", [0, 0, 0]),
                "{options}"
            );
        }
        // The file is looked at for another process, and has not changed.
        assert_eq!(
            call(&base, &source, &env, false).await,
            is("started", [0, 1, 0]),
            "{options}"
        );
    }
}

#[tokio::test]
async fn a_session_that_is_gone_has_the_file_looked_at() {
    let (folder, base, source) = (Folder::with("2.1.330"), base("{}"), waiting());
    let env = folder.env();
    assert_eq!(call(&base, &source, &env, true).await, is("continued", [1, 1, 0]));
    source.waits.store(false, Ordering::Relaxed);
    assert_eq!(call(&base, &source, &env, true).await, is("started", [0, 1, 0]));
}

#[tokio::test]
async fn an_update_is_noticed_by_the_next_start() {
    let (folder, base, source) = (Folder::with("2.1.330"), base("{}"), waiting());
    let env = folder.env();
    assert_eq!(call(&base, &source, &env, false).await, is("started", [1, 1, 0]));
    folder.install("2.0.0");
    assert_eq!(call(&base, &source, &env, true).await, is("continued", [0, 0, 0]));
    // A CLI that serves no sessions is called in print form, and the caller is warned.
    assert_eq!(
        call(&base, &source, &env, false).await,
        is("print, told: true", [1, 1, 0])
    );
    folder.install("2.1.331");
    assert_eq!(call(&base, &source, &env, false).await, is("started", [1, 1, 0]));
}

#[tokio::test]
async fn a_file_that_is_gone_is_named_by_the_next_start() {
    let (folder, source) = (Folder::with("2.1.330"), waiting());
    let options = json!({"cliPath": folder.file()}).to_string();
    let (base, env) = (base(&options), folder.env());
    assert_eq!(call(&base, &source, &env, false).await, is("started", [1, 1, 0]));
    std::fs::remove_file(folder.file()).unwrap();
    assert_eq!(call(&base, &source, &env, true).await, is("continued", [0, 0, 0]));
    let reason = format!(
        "CliNotFound: the CLI can't be started: {} does not exist. Install it with `npm install -g @anthropic-ai/claude-code`, or set \
         `cliPath`",
        folder.file().display()
    );
    assert_eq!(call(&base, &source, &env, false).await, is(&reason, [0, 1, 0]));
    // The process that was expected to wait is gone as well.
    source.waits.store(false, Ordering::Relaxed);
    assert_eq!(call(&base, &source, &env, true).await, is(&reason, [0, 1, 0]));
}

#[tokio::test]
async fn another_path_leads_to_another_file() {
    let (one, two) = (Folder::with("2.1.330"), Folder::with("2.1.330"));
    let (base, source) = (base("{}"), waiting());
    for folder in [&one, &two, &one] {
        assert_eq!(call(&base, &source, &folder.env(), false).await.0, "started");
    }
    let files: Vec<PathBuf> = source
        .started
        .lock()
        .unwrap()
        .iter()
        .map(|start| start.0.clone())
        .collect();
    assert_eq!(files, [one.file(), two.file(), one.file()]);
}

#[tokio::test]
async fn a_flag_that_was_refused_is_left_out_from_then_on() {
    let (folder, base, source) = (Folder::with("2.1.330"), base("{}"), waiting());
    let env = folder.env();
    assert_eq!(call(&base, &source, &env, false).await, is("started", [1, 1, 0]));
    let program = base.programs.known(&env).unwrap();
    let flag = {
        let line = &program
            .installed(
                &base.provider,
                &base.options,
                EngineUsed::Live,
                ProcessOptions::default(),
                MadeUp::line,
            )
            .unwrap()
            .line;
        line.optional_flags.first().unwrap().clone()
    };
    capabilities::remember_refused(program.binary(), &flag);
    // The known facts have changed, so even a turn that goes on looks again, once.
    assert_eq!(call(&base, &source, &env, true).await, is("continued", [1, 1, 0]));
    assert_eq!(call(&base, &source, &env, false).await, is("started", [0, 1, 0]));
    let started = source.started.lock().unwrap();
    let has = |at: usize| started[at].1.contains(&flag.as_str());
    assert_eq!([has(0), has(1)], [true, false]);
}
