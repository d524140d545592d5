//! Tests of attempts with a scripted exchange, driven like every other: a new engine is one type that implements [`Exchange`].

use std::collections::{HashSet, VecDeque};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use tokio::sync::mpsc;

use super::*;
use crate::record::{Log, LogRecord};
use crate::reply_check::tests::wants;
use dfp_model::error::Code;
use dfp_model::event::{Failure, Outcome};
use dfp_model::message::{ToolCall, Usage};
use dfp_provider::judge::{HttpEvidence, ProcessEvidence, TurnEvidence};
use dfp_text::redact::Redactor;
use dfp_text::toolcall::TextCalls;

/// The next step of a scripted exchange.
enum Step {
    /// Bytes come, which are decoded to these events.
    Receive(u64, Vec<Event>),
    End(Vec<Event>),
    Silence,
    /// The caller cancels.
    Cancelled(CancellationToken),
}

/// An engine without a process and without a connection.
struct Scripted {
    steps: VecDeque<Step>,
    /// True if the exchange counts as begun only when its first bytes have come.
    waits: bool,
    bytes: u64,
    stopped: Option<StopReason>,
    /// The reason for which the exchange is unusable, if it is.
    unusable: Option<&'static str>,
    refused_flag: Option<String>,
    failing: bool,
    /// The exchange notes here how it is ended.
    notes: Arc<Mutex<Vec<String>>>,
}

#[async_trait]
impl Exchange for Scripted {
    fn has_begun(&self) -> bool {
        !self.waits || self.bytes > 0
    }

    fn elapsed(&self) -> Duration {
        Duration::from_millis(7)
    }

    fn received_bytes(&self) -> u64 {
        self.bytes
    }

    async fn next(&mut self, events: &mut Vec<Event>) -> ControlFlow<()> {
        match self.steps.pop_front().unwrap_or(Step::Silence) {
            Step::Receive(bytes, new) => {
                self.bytes += bytes;
                events.extend(new);
                ControlFlow::Continue(())
            }
            Step::End(new) => {
                events.extend(new);
                ControlFlow::Break(())
            }
            Step::Silence => pending().await,
            Step::Cancelled(token) => {
                token.cancel();
                pending().await
            }
        }
    }

    fn stop(&mut self, reason: StopReason) {
        self.stopped = Some(reason);
    }

    async fn finish(self: Box<Self>) -> Result<Box<Ended>, Unusable> {
        if let Some(why) = self.unusable {
            return Err(Unusable::Unsupported {
                reason: why.to_owned(),
                may_have_asked: false,
                ended: None,
            });
        }
        let (diagnostics, stdout_tail) = (vec!["odd".to_owned()], "tail".to_owned());
        let flags = Vec::new();
        let wire = dfp_text::decode::Wire::ClaudeStream;
        let evidence = match self.stopped {
            Some(reason) => Evidence::Http(HttpEvidence {
                origin: "memory".to_owned(),
                end: HttpEnd::Stopped(reason),
                status: None,
                diagnostics,
                redactor: Redactor::default(),
            }),
            None if self.failing || self.refused_flag.is_some() => Evidence::Process(ProcessEvidence {
                end: ProcessEnd::Exited,
                exit_code: Some(3),
                stderr: "Invalid API key".to_owned(),
                ..TurnEvidence {
                    wire,
                    flags,
                    stopped: None,
                    diagnostics,
                    stdout_tail,
                }
                .into()
            }),
            None => Evidence::Turn(TurnEvidence {
                wire,
                flags,
                stopped: None,
                diagnostics,
                stdout_tail,
            }),
        };
        let notes = self.notes;
        Ok(Box::new(Ended {
            refused_flag: self.refused_flag,
            on_verdict: Some(Box::new(move |verdict| {
                let note = match verdict {
                    Some((reply, calls)) => format!("kept with \"{}\" and {calls:?}", reply.content),
                    None => "ended".to_owned(),
                };
                notes.lock().unwrap().push(note);
            })),
            ..Ended::new(evidence)
        }))
    }
}

/// The traces of a scripted exchange: the outcome, the events' types, the log's messages, the notes.
struct Seen {
    outcome: Result<AttemptOutcome, Unusable>,
    info: RunInfo,
    events: Vec<String>,
    log: Vec<String>,
    notes: Vec<String>,
}

impl Seen {
    fn outcome(&self) -> String {
        match &self.outcome {
            Ok(AttemptOutcome::Replied(reply)) => format!("replied {}", reply.content),
            Ok(AttemptOutcome::Cancelled) => "cancelled".to_owned(),
            Ok(AttemptOutcome::FlagRefused(flag)) => format!("refused {flag}"),
            Ok(AttemptOutcome::SchemaRefused(reason)) => format!("refused: {reason}"),
            Ok(AttemptOutcome::AskAgain(rejected)) => {
                format!("ask again: {}", rejected.error.message)
            }
            Err(Unusable::Unsupported { reason, .. }) => format!("unusable {reason}"),
            Err(Unusable::Failed(error)) => format!("{:?}: {}", error.code, error.message),
            Err(other) => format!("{other:?}"),
        }
    }
}

fn scripted(steps: Vec<Step>) -> Scripted {
    Scripted {
        steps: steps.into(),
        waits: false,
        bytes: 0,
        stopped: None,
        unusable: None,
        refused_flag: None,
        failing: false,
        notes: Arc::default(),
    }
}

async fn drive(exchange: Scripted, limits: CallLimits, cancel: &CancellationToken) -> Seen {
    checked(exchange, limits, cancel, Checks::default()).await
}

async fn checked(exchange: Scripted, limits: CallLimits, cancel: &CancellationToken, checks: Checks) -> Seen {
    let (sender, mut receiver) = mpsc::channel(64);
    let log = Arc::new(Log::new("memory".into(), "run-1".to_owned()));
    log.want();
    let sink = Sink::new(Some(sender), false, Arc::clone(&log), None, true).ending_with(cancel);
    let mut info = RunInfo {
        id: "run-1".to_owned(),
        queued_ms: Some(5),
        ..RunInfo::default()
    };
    let notes = Arc::clone(&exchange.notes);
    let attempt = Attempt {
        provider: "memory",
        rules: CliRules::default(),
        limits,
        number: 2,
        cancel,
        sink: &sink,
        prompt: Box::new(|| "Hi.".to_owned()),
        fold: Fold::new(HashSet::from(["c1".to_owned()]), TextCalls::Off),
        checks,
        model: None,
        shown: ShownChoices::default(),
        opening: Some(AttemptStart {
            message: "started",
            fields: json!({"attempt": 2}),
            notes: vec![Event::Warning {
                code: "NOTE".to_owned(),
                message: String::new(),
            }],
        }),
    };
    let outcome = run_attempt(attempt, Box::new(exchange), &mut info).await;
    drop(sink);
    let mut events = Vec::new();
    while let Some(event) = receiver.recv().await {
        let value = serde_json::to_value(event).unwrap();
        events.push(value["type"].as_str().unwrap().to_owned());
    }
    let records = log.take().map_or_else(Vec::new, |batch| batch.records);
    let line = |record: &LogRecord| {
        let record = serde_json::to_value(record).unwrap();
        let why = record["fields"]["why"].as_str().unwrap_or_default();
        format!("{} {why}", record["message"].as_str().unwrap())
            .trim_end()
            .to_owned()
    };
    let notes = notes.lock().unwrap().clone();
    Seen {
        outcome,
        info,
        events,
        log: records.iter().map(line).collect(),
        notes,
    }
}

const LIMITS: CallLimits = CallLimits {
    timeout: Some(Duration::from_secs(60)),
    since: None,
    idle_timeout: Some(Duration::from_secs(10)),
    max_output: 100,
};

fn message(content: &str) -> Event {
    Event::Message {
        id: None,
        content: content.to_owned(),
    }
}

fn last_word() -> Event {
    Event::Outcome(Box::new(Outcome {
        subtype: Some("success".to_owned()),
        num_turns: Some(1),
        ..Outcome::default()
    }))
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_does_not_fit_is_never_the_last_event() {
    let says = |content: &str| {
        scripted(vec![
            Step::Receive(9, vec![message(content)]),
            Step::End(vec![last_word()]),
        ])
    };
    let asked = |content: &'static str, checks: Checks| async move {
        checked(says(content), LIMITS, &CancellationToken::new(), checks).await
    };
    let first = asked("no", wants("yes")).await;
    assert_eq!(first.outcome(), "ask again: it says \"no\", not \"yes\"");
    // A process that has answered goes on: its next turn says what is wrong.
    assert_eq!(first.notes, ["kept with \"no\" and []"]);
    assert_eq!(first.events, ["start", "warning", "text_delta", "message"]);
    let Ok(AttemptOutcome::AskAgain(rejected)) = first.outcome else {
        panic!("it does not fit");
    };
    let fits = asked("yes", wants("yes").after_misfit(&rejected)).await;
    assert_eq!(fits.outcome(), "replied yes");
    assert_eq!(
        fits.events,
        ["start", "warning", "text_delta", "message", "usage", "done"]
    );
    let fails = asked("never", wants("yes").after_misfit(&rejected)).await;
    assert_eq!(fails.outcome(), "MalformedResponse: it says \"never\", not \"yes\"");
    assert_eq!(fails.notes, ["ended"]);
    assert_eq!(fails.events, ["start", "warning", "text_delta", "message"]);
}

#[tokio::test(start_paused = true)]
async fn a_reply_is_kept_before_it_goes_out() {
    let call = Event::ToolCall {
        tool_call: ToolCall {
            id: "c1".to_owned(),
            name: "add".to_owned(),
            args: serde_json::value::RawValue::from_string("{}".to_owned()).unwrap(),
        },
    };
    let steps = vec![
        Step::Receive(3, vec![]),
        Step::Receive(97, vec![message("Hello."), call]),
        Step::End(vec![last_word()]),
    ];
    let seen = drive(scripted(steps), LIMITS, &CancellationToken::new()).await;
    assert_eq!(seen.outcome(), "replied Hello.");
    assert_eq!(
        seen.events,
        [
            "start",
            "warning",
            "text_delta",
            "message",
            "tool_call",
            "usage",
            "done"
        ]
    );
    assert_eq!(seen.log, ["started", "warned", "first byte", "turn over"]);
    let Ok(AttemptOutcome::Replied(reply)) = seen.outcome else {
        panic!("no reply")
    };
    let id = &reply.tool_calls[0].id;
    assert_ne!(id, "c1");
    assert_eq!(
        seen.notes,
        [format!(
            "kept with \"Hello.\" and [ProviderCallId {{ provider: \"c1\", id: {id:?} }}]"
        )]
    );
    assert_eq!(reply.diagnostics, ["odd"]);
    assert_eq!(reply.usage, Usage::estimate("Hi.", "Hello."));
    let run = RunInfo {
        id: "run-1".to_owned(),
        queued_ms: Some(5),
        first_byte_ms: Some(7),
        first_event_ms: Some(7),
        ..RunInfo::default()
    };
    assert_eq!((reply.run.as_ref(), &seen.info), (Some(&run), &run));
}

#[tokio::test(start_paused = true)]
async fn a_calls_time_runs_since_its_clock_was_started() {
    let limits = CallLimits {
        since: Some(Instant::now()),
        idle_timeout: None,
        ..LIMITS
    };
    tokio::time::sleep(Duration::from_secs(40)).await;
    let began = Instant::now();
    let step = Step::Receive(1, vec![message("x")]);
    let seen = drive(scripted(vec![step]), limits, &CancellationToken::new()).await;
    assert!(
        seen.outcome().starts_with("Timeout: no whole answer within 60000 ms"),
        "{}",
        seen.outcome()
    );
    assert_eq!(began.elapsed(), Duration::from_secs(20));
}

#[tokio::test(start_paused = true)]
async fn every_limit_ends_it() {
    let piece = || Step::Receive(1, vec![message("x")]);
    let slowly = |count: usize| -> Vec<Step> { (0..count).map(|_| piece()).collect() };
    let timeout_alone = CallLimits {
        idle_timeout: None,
        ..LIMITS
    };
    let cancel = CancellationToken::new();
    for (steps, limits, outcome, end) in [
        (
            slowly(1),
            timeout_alone,
            "Timeout: no whole answer within 60000 ms: the connection was closed",
            "ended timeout",
        ),
        (
            slowly(1),
            LIMITS,
            "IdleTimeout: the server sent nothing for 10000 ms: the connection was closed",
            "ended idleTimeout",
        ),
        (
            vec![Step::Receive(101, vec![message("x")])],
            LIMITS,
            "OutputLimit: the answer has more than 100 bytes, the limit of the option `maxBuffer`",
            "ended maxBuffer",
        ),
        (
            vec![piece(), Step::Cancelled(cancel.clone())],
            LIMITS,
            "cancelled",
            "ended cancelled",
        ),
    ] {
        let too_much = end == "ended maxBuffer";
        let seen = drive(scripted(steps), limits, &cancel).await;
        // The hint stands behind the message.
        assert!(seen.outcome().starts_with(outcome), "{}", seen.outcome());
        // The output above the limit reaches nobody.
        let messages = usize::from(!too_much);
        assert_eq!(
            seen.events.iter().filter(|event| *event == "message").count(),
            messages,
            "{outcome}"
        );
        assert_eq!(seen.log, ["started", "warned", "first byte", end], "{outcome}");
        if let Err(Unusable::Failed(error)) = &seen.outcome {
            let partial = error.partial.as_ref().unwrap();
            assert_eq!(partial.text, "x".repeat(messages), "{outcome}");
            assert_eq!(seen.notes, ["ended"], "{outcome}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_failure_has_all_that_is_known() {
    let failure = Event::Failure(Failure {
        message: "Invalid API key".to_owned(),
        ..Failure::default()
    });
    let exchange = Scripted {
        failing: true,
        ..scripted(vec![Step::Receive(1, vec![message("Hel")]), Step::End(vec![failure])])
    };
    let seen = drive(exchange, LIMITS, &CancellationToken::new()).await;
    assert_eq!(seen.log, ["started", "warned", "first byte", "ended exited"]);
    assert_eq!(seen.notes, ["ended"]);
    let Err(Unusable::Failed(error)) = seen.outcome else {
        panic!("no failure")
    };
    assert_eq!((error.code, error.exit_code), (Code::InvalidApiKey, Some(3)));
    assert_eq!(error.stderr_tail.as_deref(), Some("Invalid API key"));
    assert_eq!(error.stdout_tail.as_deref(), Some("tail"));
    assert_eq!(error.partial.map(|partial| partial.text).as_deref(), Some("Hel"));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_told_of_what_never_was() {
    let gone = Scripted {
        waits: true,
        unusable: Some("vanished"),
        ..scripted(vec![Step::End(vec![])])
    };
    let seen = drive(gone, LIMITS, &CancellationToken::new()).await;
    assert_eq!(
        (seen.outcome().as_str(), seen.events.len(), seen.log.len()),
        ("unusable vanished", 0, 0)
    );

    let late = Scripted {
        waits: true,
        ..scripted(vec![
            Step::Receive(1, vec![message("Hi.")]),
            Step::End(vec![last_word()]),
        ])
    };
    let seen = drive(late, LIMITS, &CancellationToken::new()).await;
    assert_eq!(seen.outcome(), "replied Hi.");
    assert_eq!(seen.events[..3], ["start", "warning", "text_delta"]);

    let refused = Scripted {
        refused_flag: Some("--new".to_owned()),
        ..scripted(vec![Step::End(vec![])])
    };
    assert_eq!(
        drive(refused, LIMITS, &CancellationToken::new()).await.outcome(),
        "refused --new"
    );
}
