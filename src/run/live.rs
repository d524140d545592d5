//! Live calls: queue, find or start the session, take a turn, keep the session for the thread's next call.
//!
//! In: a thread and what its session is told once. Out: the same events and the same verdict as of a print run.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;

use super::attempt::{Attempted, Opening, run_attempt};
use super::capabilities;
use super::capabilities::Binary;
use super::cli_attempt::{CliAttempt, CliCall};
use super::engine::{Engine, not_started};
use super::live_request::LiveRequest;
use super::live_sessions::{LiveSessions, Seat};
use super::retry_loop::AttemptOutcome;
use crate::command::{CommandLine, Mode};
use crate::error::{Code, ProviderError};
use crate::event::{Event, RunInfo};
use crate::exchange::claude_live::pool::{Claimed, EvictionReason, SessionKey};
use crate::exchange::claude_live::session::Session;
use crate::exchange::claude_live::setup::Setup;
use crate::exchange::claude_live::thread::Known;
use crate::exchange::claude_live::turn::{LiveTurn, Origin, Park, Unusable};
use crate::exchange::print::{NotStarted, Surroundings};
use crate::exchange::{Ended, Evidence, Invocation};
use crate::fold::Fold;
use crate::judge;
use crate::process::limit::Permit;
use crate::process::{Limits, StartError, Tees, Vars};
use crate::provider::options::{EngineKind, Options};
use crate::toolcall::TextCalls;

/// How long after a turn that ended with tool calls a spare is started. The thread's next turn comes as soon as the tools are
/// done, and the half second of processor time that a CLI's start takes is better spent when it has begun.
const LOOP_PAUSE: Duration = Duration::from_secs(1);

/// A session for this turn.
struct ClaimedSession {
    session: Session,
    /// What it is sent.
    user_line: String,
    origin: Origin,
    /// What there is to say about it.
    notes: Vec<Event>,
}

/// What a look for a session comes to.
enum Claim {
    Session(Box<ClaimedSession>),
    /// None knows the thread, and none can be sent it.
    Refused(Box<ProviderError>),
}

impl CliAttempt<'_> {
    /// A turn of a session.
    pub async fn live(
        &self,
        live: &LiveSessions,
        request: &LiveRequest,
        info: &mut RunInfo,
    ) -> Result<AttemptOutcome, Box<ProviderError>> {
        let CliCall {
            engine, base_env, sink, ..
        } = *self.call;
        let (line, binary) = engine.live_line(base_env)?;
        let auto = engine.options.engine == EngineKind::Auto;
        if auto && capabilities::prints_only(&binary) {
            return self.print(info).await;
        }
        let Some(permit) = self.permit(binary.file(), info).await else {
            return Ok(AttemptOutcome::Cancelled);
        };
        let key = SessionKey {
            setup: Arc::clone(&request.setup),
            env: Arc::clone(base_env),
        };
        let mut waiting_ones = true;
        let (reason, ended) = loop {
            let seat = live.seat();
            let claimed = match self.claim(live, request, &key, &line, waiting_ones).await {
                Ok(Claim::Session(claimed)) => *claimed,
                Ok(Claim::Refused(refused)) => return Err(refused),
                Err(NotStarted::Process(StartError::Cancelled)) => return Ok(AttemptOutcome::Cancelled),
                Err(error) => return Err(not_started(engine, &error)),
            };
            let park = self.park(live, request, &key, &line, seat);
            match self.turn(claimed, &key.setup, &line, park, info).await? {
                Attempted::Outcome(outcome) => {
                    if let AttemptOutcome::FlagRefused(flag) = &outcome {
                        capabilities::remember_refused(&binary, flag);
                    }
                    return Ok(outcome);
                }
                Attempted::Unusable(Unusable::Vanished, _) => waiting_ones = false,
                Attempted::Unusable(Unusable::Unsupported(reason), ended) => break (reason, ended),
            }
        };
        drop(permit);
        if !auto {
            return Err(self.unsupported(&reason, ended.as_deref()));
        }
        capabilities::remember_print_only(&binary);
        let message = format!("the installed CLI takes no live sessions ({reason}): asked in print form");
        sink.send(&mut vec![warning("ENGINE_FALLBACK", message)]).await;
        self.print(info).await
    }

    /// One turn of a session.
    async fn turn(
        &self,
        claimed: ClaimedSession,
        setup: &Arc<Setup>,
        line: &CommandLine,
        park: Park,
        info: &mut RunInfo,
    ) -> Result<Attempted<Unusable>, Box<ProviderError>> {
        let CliCall {
            engine, request, sink, ..
        } = *self.call;
        let ClaimedSession {
            session,
            user_line,
            origin,
            notes,
        } = claimed;
        info.continued = Some(origin == Origin::Continued);
        let opening = Opening {
            message: match origin {
                Origin::Continued => "continued",
                Origin::Fresh | Origin::Spare => "started",
            },
            fields: json!({"attempt": self.number, "spare": origin == Origin::Spare, "flags": line.flags}),
            notes,
        };
        let fold = Fold::new(request.call_ids.clone(), TextCalls::Off).with_listener(sink.has_listener());
        let invocation = Invocation::of(engine.id(), line);
        let turn = LiveTurn::begin(session, (&user_line, setup), invocation, origin, self.limits(), park);
        run_attempt(self.attempt(&user_line, fold, opening), turn, info).await
    }

    /// What becomes of the session when its turn has a reply.
    fn park(
        &self,
        live: &LiveSessions,
        request: &LiveRequest,
        key: &SessionKey,
        line: &CommandLine,
        seat: Seat,
    ) -> Park {
        let (engine, base_env) = (Arc::clone(self.call.engine), Arc::clone(self.call.base_env));
        let (pool, at_work) = (Arc::clone(&live.pool), Arc::clone(&live.at_work));
        let (thread, key, line) = (Arc::clone(&request.thread), key.clone(), line.clone());
        Box::new(move |session, reply| {
            drop(seat);
            if let Some((session, pending)) = session {
                let known = thread.known_with(reply, pending);
                pool.park(session, key, known, at_work.load(Ordering::Relaxed));
            }
            if reply.tool_calls.is_empty() {
                engine.restock(&line, &base_env);
            } else {
                restock_later(&engine, line, base_env);
            }
        })
    }

    /// The session that knows the thread's beginning, a spare, or a new process.
    async fn claim(
        &self,
        live: &LiveSessions,
        request: &LiveRequest,
        key: &SessionKey,
        line: &CommandLine,
        waiting_ones: bool,
    ) -> Result<Claim, NotStarted> {
        let guard = self.call.engine.provider.guard;
        let thread = &request.thread;
        let goes_on = |known: &Known| thread.addition(known, guard).is_some();
        if let Some(refused) = &request.untellable
            && !(waiting_ones && live.pool.knows(key, thread, goes_on))
        {
            return Ok(Claim::Refused(refused.clone()));
        }
        let claimed = if waiting_ones {
            live.pool.claim(key, thread, goes_on).await
        } else {
            Claimed::Nothing
        };
        // The one that knew it has died just now.
        if let (Some(refused), Claimed::Spare(_) | Claimed::Nothing) = (&request.untellable, &claimed) {
            return Ok(Claim::Refused(refused.clone()));
        }
        let whole = || thread.whole(request.encoding, guard);
        let (session, user_line, origin) = match claimed {
            Claimed::Continued(session, known) => {
                let addition = thread.addition(&known, guard);
                (*session, addition.unwrap_or_else(whole), Origin::Continued)
            }
            Claimed::Spare(session) => (*session, whole(), Origin::Spare),
            Claimed::Nothing => {
                let place = self.place(live).await?;
                let session = self.call.engine.session(line.clone(), self.call.base_env, place)?;
                (session, whole(), Origin::Fresh)
            }
        };
        let evicted = (origin != Origin::Continued).then(|| live.pool.eviction(key, thread));
        Ok(Claim::Session(Box::new(ClaimedSession {
            session,
            user_line,
            origin,
            notes: evicted
                .flatten()
                .map(|why| evicted_warning(why, &self.call.engine.options))
                .into_iter()
                .collect(),
        })))
    }

    /// The place of a process to be started. A run that another waits for goes on without: the other one's may never be free.
    async fn place(&self, live: &LiveSessions) -> Result<Option<Permit>, NotStarted> {
        if self.call.request.lent.is_some() {
            live.pool.make_room(live.working().saturating_sub(1));
            return Ok(None);
        }
        let place = live.pool.place(|| live.working());
        match self.call.cancel.run_until_cancelled(place).await {
            Some(place) => Ok(place.map(Permit::taken)),
            None => Err(NotStarted::Process(StartError::Cancelled)),
        }
    }

    fn unsupported(&self, reason: &str, ended: Option<&Ended>) -> Box<ProviderError> {
        let reason = format!("the installed CLI takes no live sessions: {reason}");
        let mut error = self.call.engine.refuse(Code::LiveUnsupported, reason);
        if let Some(Evidence::Process(process)) = ended.map(|ended| &ended.evidence) {
            judge::with_process(&mut error, process);
        }
        error
    }
}

/// Starts spares when the thread's next turn has had time to come.
fn restock_later(engine: &Arc<Engine>, line: CommandLine, env: Arc<Vars>) {
    let waiting = Arc::clone(engine);
    engine.lifecycle.runs.spawn(async move {
        let engine = waiting;
        if engine
            .lifecycle
            .closing
            .run_until_cancelled(sleep(LOOP_PAUSE))
            .await
            .is_some()
        {
            engine.restock(&line, &env);
        }
    });
}

impl Engine {
    /// Starts the spares there should be, if there should be any. `env` is what they inherit.
    pub async fn prewarm(&self, env: Vars) -> Result<(), Box<ProviderError>> {
        // `close` waits for what holds a token: a process that is being started just now is not overlooked.
        let _starting = self.lifecycle.runs.token();
        self.refusal().map_or(Ok(()), Err)?;
        let Some(live) = self.live.as_ref().filter(|live| live.pool.wants_spares()) else {
            return Ok(());
        };
        let env = Arc::new(env);
        let (line, _) = self.live_line(&env)?;
        let mut failed = None;
        let start = |place| match self.session(line.clone(), &env, Some(Permit::taken(place))) {
            Ok(session) => Some(session),
            Err(error) => {
                failed = Some(error);
                None
            }
        };
        live.pool.stock(live.working(), &env, start);
        failed.map_or(Ok(()), |error| Err(not_started(self, &error)))
    }

    /// The same after a call. That they can't be started will be the next call's own error.
    fn restock(&self, line: &CommandLine, env: &Arc<Vars>) {
        if let Some(live) = &self.live {
            let start = |place| self.session(line.clone(), env, Some(Permit::taken(place))).ok();
            live.pool.stock(live.working(), env, start);
        }
    }

    /// Pieces of messages are always asked for: a session serves calls that want them and calls that don't.
    fn live_line(&self, base_env: &Arc<Vars>) -> Result<(CommandLine, Binary), Box<ProviderError>> {
        self.line(Mode::Live, &self.options, true, base_env)
    }

    /// A process that is told nothing yet, and its place among those of the provider. Its turns have the limits; it has none but
    /// the provider's end.
    fn session(&self, line: CommandLine, base_env: &Arc<Vars>, place: Option<Permit>) -> Result<Session, NotStarted> {
        let surroundings = Surroundings {
            base_env: Arc::clone(base_env),
            limits: Limits {
                kill_grace: self.options.kill_grace,
                max_stdout: usize::MAX,
                ..Limits::default()
            },
            owner: self.owner,
            permit: place,
            tracker: self.lifecycle.runs.clone(),
            tees: Tees::default(),
        };
        Session::start(line, surroundings, &self.lifecycle.closing)
    }
}

fn warning(code: &str, message: String) -> Event {
    Event::Warning {
        code: code.to_owned(),
        message,
    }
}

fn evicted_warning(why: EvictionReason, options: &Options) -> Event {
    let reason = match why {
        EvictionReason::Expired => format!(
            "unused for {} ms, the option `keepAlive`",
            options.keep_alive.as_millis()
        ),
        EvictionReason::Displaced => format!(
            "other threads needed its place: `maxConcurrency` is {}",
            options.max_concurrency
        ),
        EvictionReason::Grown => "its process took more than 1 GiB of memory".to_owned(),
    };
    warning(
        "SESSION_EXPIRED",
        format!("the session that knew this thread has ended ({reason}): the thread was sent whole to another"),
    )
}
