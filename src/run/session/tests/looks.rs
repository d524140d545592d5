//! Tests of what the calls of a provider find out about the installed CLI, and when: with a made-up form, whose processes are never
//! started.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use tokio_util::sync::CancellationToken;

use super::super::*;
use crate::cli_attempt::Dropped;
use crate::cli_provider::CliProvider;
use crate::cli_request::CliRequest;
use crate::record::{Log, Sink};
use crate::request::{CallOptions, Request};
use crate::session::tests::made_up::{Answers, MadeUp};
use dfp_exchange::form::{CallParts, ProcessOptions};
use dfp_exchange::live::pool::SessionKey;
use dfp_exchange::live::setup::SessionOutput;
use dfp_exchange::live::thread::SessionThread;
use dfp_model::event::Reply;
use dfp_model::message::{Message, Role};
use dfp_process::counted::RESOLVED;
use dfp_provider::command::counted::BUILT;
use dfp_text::prompt::Encoding;
use dfp_text::prompt::counted::RENDERED;

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

/// Makes a call, whose thread has a reply if it `may_continue`; returns its outcome, and the number of things built, searched and
/// rendered for it.
async fn call(
    base: &Arc<CliProvider>,
    sessions: &Arc<Sessions<MadeUp>>,
    env: &Arc<Vars>,
    may_continue: bool,
) -> (String, [usize; 3]) {
    if may_continue && sessions.form.waits.load(Ordering::Relaxed) {
        let reply = Reply {
            content: "b".to_owned(),
            ..Reply::default()
        };
        let first = SessionThread::new(vec![Message::new(Role::Human, "a")]);
        let key = SessionKey {
            setup: Arc::new(()),
            env: Arc::clone(env),
        };
        let known = first.known_with(&reply, Vec::new());
        sessions.pool.park(Answers, key, known);
    }
    let before = counted();
    let messages = match may_continue {
        true => vec![
            Message::new(Role::Human, "a"),
            Message::new(Role::Ai, "b"),
            Message::new(Role::Human, "c"),
        ],
        false => vec![Message::new(Role::Human, "a")],
    };
    let of_session = SessionCall::new::<MadeUp>(CallParts {
        messages: messages.clone(),
        note: None,
        callers: None,
        tools: &[],
        tool_choice: None,
        forbidden: &[],
        options: &base.options,
        choices: None,
        own: &base.options.choices,
        output: SessionOutput::Text,
        encoding: Encoding::Xml,
        guard: None,
    });
    let request = Request {
        messages,
        options: CallOptions {
            once: true,
            ..CallOptions::default()
        },
        ..Request::default()
    };
    let request = CliRequest::new(base, request).unwrap();
    let log = Arc::new(Log::new("claude".into(), "run-1".to_owned()));
    let (sender, mut events) = tokio::sync::mpsc::channel(8);
    let sink = Sink::new(Some(sender), false, log, None, true);
    let call = CliCall {
        cli: base,
        request,
        base_env: env,
        cancel: &CancellationToken::new(),
        sink: &sink,
        engines: Vec::new(),
        dropped: Dropped::default(),
    };
    let attempt = CliAttempt {
        call: &call,
        number: 1,
        began: &Default::default(),
        clock: Default::default(),
    };
    let mut info = RunInfo::default();
    let way = drive(sessions, Some(&of_session), &attempt, &mut info).await;
    let came = match way {
        Ok(Some(AttemptOutcome::Replied(_))) => match info.continued {
            Some(true) => "continued".to_owned(),
            _ => "started".to_owned(),
        },
        Ok(Some(_)) => "no reply".to_owned(),
        Ok(None) => format!("print, told: {}", events.try_recv().is_ok()),
        Err(error) => format!("{:?}: {}", error.code, error.message),
    };
    let after = counted();
    (came, [0, 1, 2].map(|at| after[at] - before[at]))
}

fn base(options: &str) -> Arc<CliProvider> {
    Arc::new(CliProvider::new("claude", options, u64::MAX).unwrap())
}

/// Sessions of a provider, one of which waits for each thread.
fn waiting(base: &CliBase) -> Arc<Sessions<MadeUp>> {
    let sessions = Sessions::new(MadeUp::default(), &base.options, &base.lifecycle.runs);
    sessions.form.waits.store(true, Ordering::Relaxed);
    Arc::new(sessions)
}

fn is(came: &str, counts: [usize; 3]) -> (String, [usize; 3]) {
    (came.to_owned(), counts)
}

#[tokio::test]
async fn a_turn_that_goes_on_builds_searches_and_renders_nothing() {
    for options in ["{}", r#"{"engine": "live"}"#] {
        let (folder, base) = (Folder::with("2.1.330"), base(options));
        let sessions = waiting(&base);
        let env = folder.env();
        assert_eq!(
            call(&base, &sessions, &env, false).await,
            is("started", [1, 1, 0]),
            "{options}"
        );
        // Each call has its own copy of the environment.
        for _ in 0..3 {
            assert_eq!(
                call(&base, &sessions, &folder.env(), true).await,
                is("continued", [0, 0, 0]),
                "{options}"
            );
        }
        // The file is looked at for another process, and has not changed.
        assert_eq!(
            call(&base, &sessions, &env, false).await,
            is("started", [0, 1, 0]),
            "{options}"
        );
    }
}

#[tokio::test]
async fn a_session_that_is_gone_has_the_file_looked_at() {
    let (folder, base) = (Folder::with("2.1.330"), base("{}"));
    let sessions = waiting(&base);
    let env = folder.env();
    assert_eq!(call(&base, &sessions, &env, true).await, is("continued", [1, 1, 0]));
    sessions.form.waits.store(false, Ordering::Relaxed);
    assert_eq!(call(&base, &sessions, &env, true).await, is("started", [0, 1, 0]));
}

#[tokio::test]
async fn an_update_is_noticed_by_the_next_start() {
    let (folder, base) = (Folder::with("2.1.330"), base("{}"));
    let sessions = waiting(&base);
    let env = folder.env();
    assert_eq!(call(&base, &sessions, &env, false).await, is("started", [1, 1, 0]));
    folder.install("2.0.0");
    assert_eq!(call(&base, &sessions, &env, true).await, is("continued", [0, 0, 0]));
    // A CLI that serves no sessions is called in print form, and the caller is warned.
    assert_eq!(
        call(&base, &sessions, &env, false).await,
        is("print, told: true", [1, 1, 0])
    );
    folder.install("2.1.331");
    assert_eq!(call(&base, &sessions, &env, false).await, is("started", [1, 1, 0]));
}

#[tokio::test]
async fn a_file_that_is_gone_is_named_by_the_next_start() {
    let folder = Folder::with("2.1.330");
    let options = json!({"cliPath": folder.file()}).to_string();
    let (base, env) = (base(&options), folder.env());
    let sessions = waiting(&base);
    assert_eq!(call(&base, &sessions, &env, false).await, is("started", [1, 1, 0]));
    std::fs::remove_file(folder.file()).unwrap();
    assert_eq!(call(&base, &sessions, &env, true).await, is("continued", [0, 0, 0]));
    let reason = format!(
        "CliNotFound: the CLI can't be started: {} does not exist. Install it with `npm install -g @anthropic-ai/claude-code`, or set \
         `cliPath`",
        folder.file().display()
    );
    assert_eq!(call(&base, &sessions, &env, false).await, is(&reason, [0, 1, 0]));
    // The process that was expected to wait is gone as well.
    sessions.form.waits.store(false, Ordering::Relaxed);
    assert_eq!(call(&base, &sessions, &env, true).await, is(&reason, [0, 1, 0]));
}

#[tokio::test]
async fn another_path_leads_to_another_file() {
    let (one, two) = (Folder::with("2.1.330"), Folder::with("2.1.330"));
    let base = base("{}");
    let sessions = waiting(&base);
    for folder in [&one, &two, &one] {
        assert_eq!(call(&base, &sessions, &folder.env(), false).await.0, "started");
    }
    let files: Vec<PathBuf> = sessions
        .form
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
    let (folder, base) = (Folder::with("2.1.330"), base("{}"));
    let sessions = waiting(&base);
    let env = folder.env();
    assert_eq!(call(&base, &sessions, &env, false).await, is("started", [1, 1, 0]));
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
    assert_eq!(call(&base, &sessions, &env, true).await, is("continued", [1, 1, 0]));
    assert_eq!(call(&base, &sessions, &env, false).await, is("started", [0, 1, 0]));
    let started = sessions.form.started.lock().unwrap();
    let has = |at: usize| started[at].1.contains(&flag.as_str());
    assert_eq!([has(0), has(1)], [true, false]);
}
