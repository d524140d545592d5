//! Tests of waiting for a plan, with a paused clock, so that no test takes longer for it.

mod ask_again;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use tokio::sync::mpsc;
use tokio::time::Instant as Moment;

use super::*;
use crate::ledger::Ledger;
use crate::record::Log;
use crate::retry_loop::UsedUp;
use dfp_model::budget::{Budget, Per};
use dfp_model::error::Code;
use dfp_model::event::{EngineUsed, Reply};

/// The beginning of a test, ms since the epoch.
const NOW: u64 = 1_800_000_000_000;
const HOUR: u64 = 3_600_000;

/// A call with scripted attempts, one after the other. It notes the moments at which they were made.
struct Scripted<'a> {
    ends: Mutex<VecDeque<Option<ProviderError>>>,
    quota: Option<QuotaWait>,
    used_up: &'a UsedUp,
    began: Moment,
    made: Mutex<Vec<u64>>,
    policy: Policy,
    /// True if the provider is closed in the middle of the attempt behind the last of `ends`.
    closes: bool,
    /// True if its attempts get a place in the queue.
    in_queue: bool,
    /// The number of the attempt whose reply does not fit.
    misfit: Option<usize>,
}

impl<'a> Scripted<'a> {
    /// In `ends`, `None` is an answer.
    fn new(used_up: &'a UsedUp, began: Moment, ends: impl IntoIterator<Item = Option<ProviderError>>) -> Self {
        Scripted {
            ends: Mutex::new(ends.into_iter().collect()),
            quota: Some(QuotaWait { max_wait_ms: 3 * HOUR }),
            used_up,
            began,
            made: Mutex::default(),
            policy: Policy {
                jitter: 0.0,
                ..Policy::default()
            },
            closes: false,
            in_queue: true,
            misfit: None,
        }
    }

    /// The moments of its attempts, ms since the test began.
    fn made(&self) -> Vec<u64> {
        self.made.lock().unwrap().iter().map(|at| at - NOW).collect()
    }
}

impl RetryableCall for Scripted<'_> {
    fn extend(&mut self, _: Vec<Message>, _: &RejectedReply) -> Result<(), Box<ProviderError>> {
        Ok(())
    }

    fn retry(&self) -> &Policy {
        &self.policy
    }

    fn quota(&self) -> Option<QuotaWait> {
        self.quota
    }

    fn timeout(&self) -> Option<Duration> {
        None
    }

    fn plan(&self) -> Plan<'_> {
        plan(self.used_up)
    }

    fn login(&self) -> Option<&str> {
        Some("/logins/a")
    }

    fn now_ms(&self) -> u64 {
        NOW + millis(self.began.elapsed())
    }

    fn closed(&self) -> Option<Box<ProviderError>> {
        self.closes
            .then(|| Box::new(ProviderError::new("claude", Code::Closed, "closed")))
    }

    async fn attempt(
        &self,
        _: u32,
        began: &OnceLock<Instant>,
        info: &mut RunInfo,
    ) -> Result<AttemptOutcome, Box<ProviderError>> {
        began.get_or_init(Instant::now);
        self.made.lock().unwrap().push(self.now_ms());
        info.queued_ms = self.in_queue.then_some(0);
        match self.ends.lock().unwrap().pop_front().flatten() {
            Some(error) => {
                info.engine = Some(EngineUsed::Live);
                Err(Box::new(error))
            }
            None if self.closes => {
                info.engine = Some(EngineUsed::Print);
                Ok(AttemptOutcome::Cancelled)
            }
            None if self.misfit == Some(self.made().len()) => Ok(AttemptOutcome::AskAgain(Box::new(RejectedReply {
                reply: Reply::default(),
                messages: Vec::new(),
                error: Box::new(ProviderError::new("claude", Code::OutputInvalid, "it does not fit")),
            }))),
            None => Ok(AttemptOutcome::Replied(Box::new(Reply {
                run: Some(info.clone()),
                ..Reply::default()
            }))),
        }
    }
}

/// The plan of these calls.
fn plan(used_up: &UsedUp) -> Plan<'_> {
    Plan {
        used_up,
        env: None,
        model: "m",
    }
}

/// The plan is used up until this moment, ms after the test began.
fn used_up(resets: u64) -> ProviderError {
    ProviderError {
        resets_at: Some(NOW + resets),
        ..ProviderError::new("claude", Code::UsageLimit, "session limit")
    }
}

fn overloaded() -> ProviderError {
    ProviderError::new("claude", Code::Overloaded, "busy")
}

fn sink() -> (Sink, mpsc::Receiver<Event>) {
    let (sender, receiver) = mpsc::channel(64);
    let log = Arc::new(Log::new("claude".into(), "r".to_owned()));
    (Sink::new(Some(sender), false, log, None, true), receiver)
}

/// Drives `call`; returns how it ended, and the events on the way.
async fn drive_it(call: &mut Scripted<'_>) -> (Result<RunInfo, (Code, u32)>, Vec<String>) {
    let (sink, mut events) = sink();
    let ended = answer(call, &CancellationToken::new(), &sink).await;
    drop(sink);
    let mut news = Vec::new();
    while let Some(event) = events.recv().await {
        news.push(match event {
            Event::Waiting { until, reason } => format!("waiting {} {reason}", (until - NOW) / HOUR),
            Event::Retry { attempt, delay_ms, .. } => format!("retry {attempt} {delay_ms}"),
            other => format!("{other:?}"),
        });
    }
    let ended = match ended {
        Ended::Replied(reply) => Ok(reply.run.unwrap_or_default()),
        Ended::Failed(error) => Err((error.code, error.attempts)),
        Ended::Cancelled => Err((Code::Closed, 0)),
    };
    (ended, news)
}

fn of_login() -> RunInfo {
    RunInfo {
        id: "r".to_owned(),
        login: Some("/logins/a".to_owned()),
        queued_ms: Some(0),
        ..RunInfo::default()
    }
}

/// The engine of the run that `call` names in its error, and the code and the number of attempts of that.
async fn failure_of(call: &mut Scripted<'_>, cancel: &CancellationToken) -> (Code, u32, Option<EngineUsed>) {
    let (sink, _events) = sink();
    let Ended::Failed(error) = answer(call, cancel, &sink).await else {
        panic!("no failure")
    };
    let run = error.run.unwrap();
    assert_eq!((error.run_id.as_deref(), run.id.as_str()), (Some("r"), "r"));
    (error.code, error.attempts, run.engine)
}

#[tokio::test(start_paused = true)]
async fn whatever_ends_a_call_between_attempts_names_the_last_ones_run() {
    let known = UsedUp::default();
    let cancel = CancellationToken::new();
    // The provider is closed in the second attempt.
    let mut call = Scripted {
        closes: true,
        ..Scripted::new(&known, Moment::now(), [Some(overloaded())])
    };
    assert_eq!(
        failure_of(&mut call, &cancel).await,
        (Code::Closed, 2, Some(EngineUsed::Print))
    );
    // The provider is closed before any attempt.
    let closed = CancellationToken::new();
    closed.cancel();
    let mut call = Scripted {
        closes: true,
        ..Scripted::new(&known, Moment::now(), [])
    };
    assert_eq!(failure_of(&mut call, &closed).await, (Code::Closed, 0, None));
    // Between two attempts, another call learns that the plan is used up.
    let mut call = Scripted {
        quota: Some(QuotaWait { max_wait_ms: 0 }),
        ..Scripted::new(&known, Moment::now(), [Some(overloaded()), None])
    };
    let another = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        plan(&known).note(&used_up(HOUR), NOW);
    };
    let (failure, ()) = tokio::join!(failure_of(&mut call, &cancel), another);
    assert_eq!(failure, (Code::UsageLimit, 1, Some(EngineUsed::Live)));
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_for_its_plan_and_keeps_its_attempts() {
    let known = UsedUp::default();
    // The greatest number of failures that is possible in all, before and behind the wait.
    let ends = [Some(overloaded()), Some(used_up(HOUR)), Some(overloaded()), None];
    let mut call = Scripted::new(&known, Moment::now(), ends);
    let (ended, news) = drive_it(&mut call).await;
    assert_eq!(ended, Ok(of_login()));
    assert_eq!(news, ["retry 1 500", "waiting 1 session limit", "retry 3 1000"]);
    let made = call.made();
    assert_eq!(made[..2], [0, 500]);
    assert!((HOUR..HOUR + 5_000).contains(&made[2]), "{made:?}");
    assert_eq!(made[3], made[2] + 1_000);
}

#[tokio::test(start_paused = true)]
async fn a_later_call_waits_with_it_and_asks_nobody_first() {
    let known = UsedUp::default();
    let began = Moment::now();
    let mut first = Scripted::new(&known, began, [Some(used_up(HOUR)), None]);
    let mut later = Scripted::new(&known, began, [None]);
    let one_after_the_other = async {
        tokio::time::sleep(Duration::from_secs(60)).await;
        drive_it(&mut later).await
    };
    let ((ended, _), (later_ended, news)) = tokio::join!(drive_it(&mut first), one_after_the_other);
    assert_eq!((ended.is_ok(), later_ended.is_ok()), (true, true));
    assert_eq!(news, ["waiting 1 session limit"]);
    let made = later.made();
    assert!(made.len() == 1 && (HOUR..HOUR + 5_000).contains(&made[0]), "{made:?}");
    // The plan is available again, so its reset is forgotten.
    assert!(plan(&known).known(NOW).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_plan_that_is_too_far_away_or_unknown_fails_at_once() {
    for (quota, ends, expected) in [
        (Some(HOUR), used_up(HOUR + 1), vec![]),
        (Some(0), used_up(1), vec![]),
        (None, used_up(HOUR), vec![]),
        (
            Some(HOUR),
            ProviderError::new("claude", Code::UsageLimit, "until who knows when"),
            vec![],
        ),
    ] {
        let known = UsedUp::default();
        let mut call = Scripted {
            quota: quota.map(|max_wait_ms| QuotaWait { max_wait_ms }),
            ..Scripted::new(&known, Moment::now(), [Some(ends)])
        };
        let (ended, news): (_, Vec<String>) = drive_it(&mut call).await;
        assert_eq!((ended, news), (Err((Code::UsageLimit, 1)), expected));
        assert_eq!(call.made(), [0]);
    }
}

#[tokio::test(start_paused = true)]
async fn who_may_not_wait_for_so_long_is_not_asked_where_that_is_known() {
    let known = UsedUp::default();
    plan(&known).note(&used_up(2 * HOUR), NOW);
    let mut call = Scripted {
        quota: Some(QuotaWait { max_wait_ms: HOUR }),
        ..Scripted::new(&known, Moment::now(), [None])
    };
    assert_eq!(drive_it(&mut call).await, (Err((Code::UsageLimit, 0)), Vec::new()));
    assert_eq!(call.made(), [0; 0]);
    // A call that does not wait for plans makes its attempt.
    let mut call = Scripted {
        quota: None,
        ..Scripted::new(&known, Moment::now(), [None])
    };
    assert_eq!(drive_it(&mut call).await, (Ok(of_login()), Vec::new()));
}

#[tokio::test(start_paused = true)]
async fn an_abort_ends_the_wait_at_once() {
    let known = UsedUp::default();
    let began = Moment::now();
    let mut call = Scripted::new(&known, began, [Some(used_up(HOUR))]);
    let (sink, mut events) = sink();
    let cancel = CancellationToken::new();
    let aborting = async {
        assert!(matches!(events.recv().await, Some(Event::Waiting { .. })));
        cancel.cancel();
    };
    let (ended, ()) = tokio::join!(answer(&mut call, &cancel, &sink), aborting);
    assert!(matches!(ended, Ended::Cancelled));
    assert_eq!(began.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn every_wait_counts_towards_the_longest() {
    let known = UsedUp::default();
    let mut call = Scripted::new(&known, Moment::now(), (1..9).map(|hour| Some(used_up(hour * HOUR))));
    let (ended, news) = drive_it(&mut call).await;
    // The third wait ends after three hours and a little.
    assert_eq!(ended, Err((Code::UsageLimit, 4)));
    let hours = [1, 2, 3].map(|hour| format!("waiting {hour} session limit"));
    assert_eq!(news, hours);
}

#[tokio::test(start_paused = true)]
async fn what_was_waited_before_counts_as_well() {
    let known = UsedUp::default();
    // Its second reply does not fit, and is asked for again.
    let ends = [Some(used_up(2 * HOUR)), None, Some(used_up(4 * HOUR))];
    let mut call = Scripted {
        misfit: Some(2),
        ..Scripted::new(&known, Moment::now(), ends)
    };
    let (sink, _events) = sink();
    let ended = answer(&mut call, &CancellationToken::new(), &sink).await;
    let Ended::Failed(error) = ended else {
        panic!("three hours are all it may wait: {ended:?}");
    };
    assert_eq!((error.code, error.attempts), (Code::UsageLimit, 3));
}

/// A budget that begins when the test does.
fn one_per_hour() -> Arc<Ledger> {
    let budget = Budget {
        requests: Some(1),
        tokens: None,
        cost_usd: None,
        plan: None,
        per: Per::Hour,
        store: None,
    };
    Arc::new(Ledger::new("claude", budget))
}

#[tokio::test(start_paused = true)]
async fn a_budget_is_waited_for_as_a_plan_is() {
    let (known, began) = (UsedUp::default(), Moment::now());
    let ledger = one_per_hour();
    ledger.admit(NOW).await.unwrap();
    let mut call = Scripted::new(&known, began, [None]);
    let (sink, mut events) = sink();
    let sink = sink.counting(Some(Arc::clone(&ledger)));
    let ended = answer(&mut call, &CancellationToken::new(), &sink).await;
    assert!(matches!(ended, Ended::Replied(_)));
    let [made] = call.made()[..] else { panic!("once") };
    assert!((HOUR..=HOUR + 5_000).contains(&made), "{made}");
    let Ok(Event::Waiting { until, reason }) = events.try_recv() else {
        panic!("it waits");
    };
    assert_eq!(until, NOW + made);
    assert!(
        reason.starts_with("the budget is used up: 1 of 1 requests per hour; "),
        "{reason}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_asked_nobody_is_given_back_and_one_that_failed_is_not() {
    let known = UsedUp::default();
    let ledger = one_per_hour();
    let missing = ProviderError::new("claude", Code::CliNotFound, "there is none");
    for (end, expected) in [
        (Some(missing), (Code::CliNotFound, 1)),
        (Some(overloaded()), (Code::Overloaded, 1)),
        (None, (Code::BudgetExceeded, 0)),
    ] {
        let is_missing = expected.0 == Code::CliNotFound;
        let mut call = Scripted {
            quota: None,
            policy: Policy::NEVER,
            in_queue: !is_missing,
            ..Scripted::new(&known, Moment::now(), [end])
        };
        let (sink, _events) = sink();
        let sink = sink.counting(Some(Arc::clone(&ledger)));
        let ended = answer(&mut call, &CancellationToken::new(), &sink).await;
        let Ended::Failed(error) = ended else {
            panic!("it fails");
        };
        assert_eq!((error.code, error.attempts), expected);
    }
}

fn refusal(at: u64) -> ProviderError {
    ProviderError {
        resets_at: Some(at),
        ..ProviderError::new("claude", Code::UsageLimit, "session limit")
    }
}

#[test]
fn what_one_login_has_used_up_is_not_another_ones() {
    let used_up = UsedUp::default();
    let token = |token: &str| Arc::new(vec![("CLAUDE_CODE_OAUTH_TOKEN".into(), token.into())]);
    let (a, b) = (token("a"), token("b"));
    fn plan<'a>(used_up: &'a UsedUp, env: &'a Arc<Vars>, model: &'a str) -> Plan<'a> {
        let env = Some(env);
        Plan { used_up, env, model }
    }
    let until = |env: &Arc<Vars>, model: &str| plan(&used_up, env, model).known(20).map(|reset| reset.at);
    plan(&used_up, &a, "m").note(&refusal(100), 10);
    // The environment has the same content, but was read again.
    assert_eq!(until(&token("a"), "m"), Some(100));
    assert_eq!([until(&b, "m"), until(&a, "n")], [None, None]);
    plan(&used_up, &b, "m").clear();
    assert_eq!(until(&a, "m"), Some(100));
    plan(&used_up, &token("a"), "m").clear();
    assert_eq!(until(&a, "m"), None);
}

#[test]
fn no_more_plans_are_known_than_are_looked_through_in_no_time() {
    let used_up = UsedUp::default();
    for number in 0..200 {
        let env = Arc::new(vec![("TOKEN".into(), number.to_string().into())]);
        let plan = Plan {
            used_up: &used_up,
            env: Some(&env),
            model: "m",
        };
        plan.note(&refusal(100), 10);
    }
    assert_eq!(used_up.locked().len(), MOST_PLANS);
    Plan {
        used_up: &used_up,
        env: None,
        model: "m",
    }
    .note(&refusal(300), 200);
    assert_eq!(used_up.locked().len(), 1);
}
