//! Live calls: queue, find or start the session, take a turn, keep the session for the thread's next call.
//!
//! In: a thread and what its session is set up with. Out: the same events and the same verdict as of a print run.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::json;

use super::attempt::{Attempted, Opening, run_attempt};
use super::auto::Trial;
use super::capabilities::{self, Binary};
use super::cli_attempt::{CliAttempt, CliCall};
use super::engine::not_started;
use super::live_request::LiveRequest;
use super::live_sessions::{LiveSessions, Seat, evicted_warning, warning};
use super::live_support::{LiveSupport, Unserved};
use super::retry_loop::AttemptOutcome;
use crate::command::CommandLine;
use crate::error::ProviderError;
use crate::event::{EngineUsed, Event, RunInfo};
use crate::exchange::Invocation;
use crate::exchange::claude_live::session::Session;
use crate::exchange::live::pool::{Claimed, SessionKey};
use crate::exchange::live::process_turn::{LiveTurn, Origin, Park, Unusable};
use crate::exchange::live::setup::Setup;
use crate::exchange::live::thread::{Known, Thread};
use crate::exchange::print::NotStarted;
use crate::fold::Fold;
use crate::process::StartError;
use crate::process::limit::Permit;
use crate::provider::options::{EngineKind, Options};
use crate::toolcall::TextCalls;

/// A session for this turn.
struct ClaimedSession {
    session: Session,
    /// What it is sent.
    user_line: String,
    origin: Origin,
    /// What there is to say about it.
    notes: Vec<Event>,
}

/// What a look at an untried CLI comes to.
enum TrialOutcome {
    /// It is tried no more.
    Known(LiveSupport),
    /// A process that has answered the handshake.
    Served(Box<Session>),
    /// It takes no sessions, for this reason.
    Unserved(String),
    /// What the attempt comes to.
    Outcome(AttemptOutcome),
}

impl CliAttempt<'_> {
    /// A turn of a session.
    pub async fn live(
        &self,
        live: &LiveSessions<Session>,
        request: &LiveRequest,
        info: &mut RunInfo,
    ) -> Result<AttemptOutcome, Box<ProviderError>> {
        let CliCall { engine, base_env, .. } = *self.call;
        let (line, binary) = engine.live_line(request.setup.choices(), base_env)?;
        let auto = engine.options.engine == EngineKind::Auto;
        if auto && let Some(unserved) = engine.unserved(&binary, base_env) {
            return self.unserved(&unserved, info).await;
        }
        let Some(permit) = self.permit(binary.file(), info).await else {
            return Ok(AttemptOutcome::Cancelled);
        };
        info.engine = Some(EngineUsed::Live);
        live.note(&request.setup);
        let key = SessionKey {
            setup: Arc::clone(&request.setup),
            env: Arc::clone(base_env),
        };
        let mut seat = live.seat();
        let mut tried = None;
        if auto {
            match self.tried(live, request, (&line, &binary)).await? {
                TrialOutcome::Known(LiveSupport::Unserved(unserved)) => {
                    drop((seat, permit));
                    return self.unserved(&unserved, info).await;
                }
                TrialOutcome::Known(_) => {}
                TrialOutcome::Served(session) => tried = Some(session),
                TrialOutcome::Unserved(reason) => {
                    drop((seat, permit));
                    return self.fall_back(&reason, info).await;
                }
                TrialOutcome::Outcome(outcome) => return Ok(outcome),
            }
        }
        let mut waiting_ones = true;
        let (reason, may_have_asked, ended) = loop {
            let claimed = match tried.take() {
                Some(session) => self.begun_anew(live, request, &key, *session),
                None => match self.claim(live, request, &key, (&line, &binary), waiting_ones).await {
                    Ok(claimed) => claimed,
                    Err(NotStarted::Process(StartError::Cancelled)) => return Ok(AttemptOutcome::Cancelled),
                    Err(error) => return Err(not_started(engine, &error)),
                },
            };
            let park = self.park(live, request, &key, seat);
            match self.turn(claimed, &key.setup, &line, park, info).await? {
                Attempted::Outcome(outcome) => {
                    if let AttemptOutcome::FlagRefused(flag) = &outcome {
                        capabilities::remember_refused(&binary, flag);
                    }
                    return Ok(outcome);
                }
                Attempted::Unusable(Unusable::Vanished, _) => waiting_ones = false,
                Attempted::Unusable(Unusable::Unsupported { reason, may_have_asked }, ended) => {
                    break (reason, may_have_asked, ended);
                }
            }
            seat = live.seat();
        };
        drop(permit);
        if auto {
            capabilities::remember_no_live(&binary, reason.clone());
        }
        // No model is asked twice.
        if !auto || may_have_asked {
            let ended = ended.as_deref();
            return Err(engine.no_sessions(&reason, ended.map(|ended| &ended.evidence)));
        }
        self.fall_back(&reason, info).await
    }

    /// Without a session, for what is known of the CLI. The caller is told, each time, unless it is what the options or the file are.
    pub(super) async fn unserved(
        &self,
        unserved: &Unserved,
        info: &mut RunInfo,
    ) -> Result<AttemptOutcome, Box<ProviderError>> {
        match self.call.engine.tells(unserved) {
            true => self.fall_back(&unserved.why, info).await,
            false => self.without_session(info).await,
        }
    }

    /// In print form after all, for this reason.
    pub(super) async fn fall_back(
        &self,
        reason: &str,
        info: &mut RunInfo,
    ) -> Result<AttemptOutcome, Box<ProviderError>> {
        let message = format!("the installed CLI takes no live sessions ({reason}): asked in print form");
        self.call
            .sink
            .send(&mut vec![warning("ENGINE_FALLBACK", message)])
            .await;
        self.without_session(info).await
    }

    /// Tries a CLI of which nothing is known, once for all calls; nothing of the thread is sent to it.
    async fn tried(
        &self,
        live: &LiveSessions<Session>,
        request: &LiveRequest,
        (line, binary): (&CommandLine, &Binary),
    ) -> Result<TrialOutcome, Box<ProviderError>> {
        let CliCall {
            engine,
            base_env,
            cancel,
            ..
        } = *self.call;
        let known = engine.support(binary, base_env);
        if !matches!(known, LiveSupport::Unknown(_)) {
            return Ok(TrialOutcome::Known(known));
        }
        let lock = capabilities::trial_of(binary);
        let Some(_trying) = cancel.run_until_cancelled(lock.lock()).await else {
            return Ok(TrialOutcome::Outcome(AttemptOutcome::Cancelled));
        };
        // Another call may have tried it meanwhile.
        let known = engine.support(binary, base_env);
        if !matches!(known, LiveSupport::Unknown(_)) {
            return Ok(TrialOutcome::Known(known));
        }
        let session = match self.place(live).await {
            Ok(place) => engine.session((line, binary), base_env, place),
            Err(error) => Err(error),
        };
        let session = match session {
            Ok(session) => session,
            Err(NotStarted::Process(StartError::Cancelled)) => {
                return Ok(TrialOutcome::Outcome(AttemptOutcome::Cancelled));
            }
            Err(error) => return Err(not_started(engine, &error)),
        };
        let trial = engine.trial(session, (line, binary), Some(&request.setup));
        Ok(match cancel.run_until_cancelled(trial).await {
            None => TrialOutcome::Outcome(AttemptOutcome::Cancelled),
            Some(Trial::Served(session)) => TrialOutcome::Served(session),
            Some(Trial::Unserved(reason)) => TrialOutcome::Unserved(reason),
            Some(Trial::Crashed(error)) => return Err(error),
            Some(Trial::FlagRefused(flag)) => TrialOutcome::Outcome(AttemptOutcome::FlagRefused(flag)),
        })
    }

    /// One turn of a session.
    async fn turn(
        &self,
        claimed: ClaimedSession,
        setup: &Arc<Setup>,
        line: &CommandLine,
        park: Park<Session>,
        info: &mut RunInfo,
    ) -> Result<Attempted<Unusable>, Box<ProviderError>> {
        let CliCall {
            engine, request, sink, ..
        } = *self.call;
        let ClaimedSession {
            mut session,
            user_line,
            origin,
            mut notes,
        } = claimed;
        notes.extend(self.untold_note());
        info.continued = Some(origin == Origin::Continued);
        let opening = Opening {
            message: match origin {
                Origin::Continued => "continued",
                Origin::Fresh | Origin::Spare => "started",
            },
            fields: json!({"attempt": self.number, "spare": origin == Origin::Spare, "flags": line.flags}),
            notes: request.notes(self.number).into_iter().chain(notes).collect(),
        };
        let fold = Fold::new(request.call_ids.clone(), TextCalls::Off).with_listener(sink.has_listener());
        let invocation = Invocation::of(engine.id(), line);
        session.begin(&user_line, setup);
        let turn = LiveTurn::of(session, invocation, origin, self.limits(EngineUsed::Live), park);
        let attempt = self.attempt(EngineUsed::Live, &user_line, fold, opening);
        run_attempt(attempt, turn, info).await
    }

    /// What becomes of the session when its turn has a reply.
    fn park(
        &self,
        live: &LiveSessions<Session>,
        request: &LiveRequest,
        key: &SessionKey<Setup>,
        seat: Seat,
    ) -> Park<Session> {
        let (engine, base_env) = (Arc::clone(self.call.engine), Arc::clone(self.call.base_env));
        let (pool, at_work) = (Arc::clone(&live.pool), Arc::clone(&live.at_work));
        let (thread, key) = (Arc::clone(&request.callers), key.clone());
        let once = self.call.request.options.once;
        Box::new(move |session, reply| {
            drop(seat);
            if let Some((session, pending)) = session {
                if once {
                    return session.end();
                }
                let known = thread.known_with(reply, pending);
                pool.park(session, key, known, at_work.load(Ordering::Relaxed));
            }
            engine.restock_behind(reply, &base_env);
        })
    }

    /// The session that knows the thread's beginning, a spare, or a new process.
    async fn claim(
        &self,
        live: &LiveSessions<Session>,
        request: &LiveRequest,
        key: &SessionKey<Setup>,
        (line, binary): (&CommandLine, &Binary),
        waiting_ones: bool,
    ) -> Result<ClaimedSession, NotStarted> {
        let guard = self.call.engine.provider.guard;
        let thread = &request.thread;
        let note = request.note.as_deref();
        let goes_on = |known: &Known| thread.addition(known, guard, note).is_some();
        let claimed = if waiting_ones {
            live.pool.claim(key, thread, goes_on).await
        } else {
            Claimed::Nothing
        };
        let whole = || thread.whole(request.encoding, guard, note);
        let (session, user_line, origin) = match claimed {
            Claimed::Continued(session, known) => {
                let addition = thread.addition(&known, guard, note);
                (*session, addition.unwrap_or_else(whole), Origin::Continued)
            }
            Claimed::Spare(session) => (*session, whole(), Origin::Spare),
            Claimed::Nothing => {
                let place = self.place(live).await?;
                let session = self.call.engine.session((line, binary), self.call.base_env, place)?;
                (session, whole(), Origin::Fresh)
            }
        };
        Ok(ClaimedSession {
            session,
            user_line,
            origin,
            notes: match origin {
                Origin::Continued => Vec::new(),
                Origin::Fresh | Origin::Spare => self.eviction_notes(live, key, thread),
            },
        })
    }

    /// A process that knows nothing of the thread, and the whole of it.
    fn begun_anew(
        &self,
        live: &LiveSessions<Session>,
        request: &LiveRequest,
        key: &SessionKey<Setup>,
        session: Session,
    ) -> ClaimedSession {
        let guard = self.call.engine.provider.guard;
        ClaimedSession {
            session,
            user_line: request.thread.whole(request.encoding, guard, request.note.as_deref()),
            origin: Origin::Fresh,
            notes: self.eviction_notes(live, key, &request.thread),
        }
    }

    fn eviction_notes(&self, live: &LiveSessions<Session>, key: &SessionKey<Setup>, thread: &Thread) -> Vec<Event> {
        let evicted = live.pool.eviction(key, thread);
        evicted
            .map(|why| evicted_warning(why, &self.call.engine.options, &places(&self.call.engine.options)))
            .into_iter()
            .collect()
    }

    /// The place of a process to be started. A run that another waits for goes on without: the other one's may never be free.
    async fn place(&self, live: &LiveSessions<Session>) -> Result<Option<Permit>, NotStarted> {
        if self.call.request.nested_permit.is_some() {
            live.pool.make_room(live.working().saturating_sub(1));
            return Ok(None);
        }
        let place = live.pool.place(|| live.working());
        match self.call.cancel.run_until_cancelled(place).await {
            Some(place) => Ok(place.map(Permit::taken)),
            None => Err(NotStarted::Process(StartError::Cancelled)),
        }
    }
}

/// How many sessions there may be as text.
fn places(options: &Options) -> String {
    format!("`maxConcurrency` is {}", options.max_concurrency)
}
