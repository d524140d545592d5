//! Live calls of qwen: find the session that knows the thread's beginning, or start one that reads the thread from a chat file; take a
//! turn; keep the session, with the calls that wait in it, for the thread's next call.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;

use super::attempt::{Attempted, Opening, run_attempt};
use super::capabilities::{self, Binary};
use super::cli_attempt::{CliAttempt, CliCall};
use super::engine::not_started;
use super::live_request::LiveRequest;
use super::live_sessions::{LiveSessions, Seat, evicted_warning, warning};
use super::live_support::Basis;
use super::retry_loop::AttemptOutcome;
use crate::command::CommandLine;
use crate::error::ProviderError;
use crate::event::{EngineUsed, Event, RunInfo};
use crate::exchange::Invocation;
use crate::exchange::live::keep::Keepable;
use crate::exchange::live::pool::SessionKey;
use crate::exchange::live::process_turn::{LiveTurn, Origin, Park, Unusable};
use crate::exchange::live::setup::Setup;
use crate::exchange::print::NotStarted;
use crate::exchange::qwen_live::input::{self, Input, Misfit};
use crate::exchange::qwen_live::session::Session;
use crate::fold::Fold;
use crate::process::StartError;
use crate::process::limit::Permit;
use crate::provider::options::EngineKind;
use crate::toolcall::TextCalls;

/// A session for this turn.
struct ClaimedSession {
    session: Session,
    input: Input,
    origin: Origin,
    notes: Vec<Event>,
}

impl CliAttempt<'_> {
    /// A turn of a session.
    pub async fn qwen_live(
        &self,
        live: &LiveSessions<Session>,
        request: &LiveRequest,
        info: &mut RunInfo,
    ) -> Result<AttemptOutcome, Box<ProviderError>> {
        let CliCall { engine, base_env, .. } = *self.call;
        let (line, binary) = engine.qwen_line(&request.setup, base_env)?;
        let auto = engine.options.engine == EngineKind::Auto;
        if let Some(unserved) = engine.unserved(&binary, base_env) {
            return match (auto, unserved.basis) {
                (true, Basis::Trial) => self.unserved(&unserved, info).await,
                // Another version, which is warm or print.
                (true, _) => self.without_session(info).await,
                (false, _) => Err(engine.no_sessions(&unserved.why, None)),
            };
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
        let mut waiting_ones = true;
        loop {
            let seat = live.seat();
            let claimed = match self
                .claim_qwen(live, request, &key, (&line, &binary), waiting_ones)
                .await
            {
                Ok(claimed) => claimed,
                Err(NotStarted::Process(StartError::Cancelled)) => return Ok(AttemptOutcome::Cancelled),
                Err(error) => return Err(not_started(engine, &error)),
            };
            let park = self.park_qwen(live, request, &key, seat);
            match self.qwen_turn(claimed, &line, park, info).await? {
                Attempted::Outcome(outcome) => {
                    if let AttemptOutcome::FlagRefused(flag) = &outcome {
                        capabilities::remember_refused(&binary, flag);
                    }
                    return Ok(outcome);
                }
                Attempted::Unusable(Unusable::Vanished, _) => waiting_ones = false,
                Attempted::Unusable(Unusable::Unsupported { reason, may_have_asked }, ended) => {
                    drop(permit);
                    // No model is asked twice.
                    if !auto || may_have_asked {
                        let ended = ended.as_deref();
                        return Err(engine.no_sessions(&reason, ended.map(|ended| &ended.evidence)));
                    }
                    capabilities::remember_no_live(&binary, reason.clone());
                    return self.fall_back(&reason, info).await;
                }
            }
        }
    }

    async fn qwen_turn(
        &self,
        claimed: ClaimedSession,
        line: &CommandLine,
        park: Park<Session>,
        info: &mut RunInfo,
    ) -> Result<Attempted<Unusable>, Box<ProviderError>> {
        let CliCall {
            engine, request, sink, ..
        } = *self.call;
        let ClaimedSession {
            mut session,
            input,
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
        let prompt = match &input {
            Input::User(text) => text.clone(),
            Input::Results(results) => results.iter().map(|(_, result)| result.content.as_text()).collect(),
            Input::GoOn => String::new(),
        };
        session.begin(input);
        let invocation = Invocation::of(engine.id(), line);
        let turn = LiveTurn::of(session, invocation, origin, self.limits(EngineUsed::Live), park);
        let attempt = self.attempt(EngineUsed::Live, &prompt, fold, opening);
        run_attempt(attempt, turn, info).await
    }

    /// What becomes of the session when its turn has a reply.
    fn park_qwen(
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
                if once || session.is_worn_out() {
                    Keepable::end(session);
                } else {
                    let known = thread.known_with(reply, pending);
                    pool.park(session, key, known, at_work.load(Ordering::Relaxed));
                }
            }
            engine.restock_behind(reply, &base_env);
        })
    }

    /// The session that knows the thread's beginning, a spare for a thread that begins, or a new process.
    async fn claim_qwen(
        &self,
        live: &LiveSessions<Session>,
        request: &LiveRequest,
        key: &SessionKey<Setup>,
        (line, binary): (&CommandLine, &Binary),
        waiting_ones: bool,
    ) -> Result<ClaimedSession, NotStarted> {
        let CliCall { engine, base_env, .. } = *self.call;
        let thread = &request.thread;
        let (guard, note) = (engine.provider.guard, request.note.as_deref());
        let long = AtomicUsize::new(0);
        let goes_on = |known: &_| match input::addition(thread, known, guard, note) {
            Ok(_) => true,
            Err(Misfit::Thread) => false,
            Err(Misfit::LongResults(length)) => {
                long.store(length, Ordering::Relaxed);
                false
            }
        };
        if waiting_ones && let Some((session, known)) = live.pool.claim_session(key, thread, goes_on).await {
            match input::addition(thread, &known, guard, note) {
                Ok(input) => {
                    return Ok(ClaimedSession {
                        session: *session,
                        input,
                        origin: Origin::Continued,
                        notes: Vec::new(),
                    });
                }
                Err(_) => Keepable::end(*session),
            }
        }
        let mut notes: Vec<Event> = Some(long.into_inner())
            .filter(|length| *length > 0)
            .map(too_long)
            .into_iter()
            .collect();
        let places = format!("`maxConcurrency` is {}", engine.options.max_concurrency);
        let evicted = live.pool.eviction(key, thread);
        notes.extend(evicted.map(|why| evicted_warning(why, &engine.options, &places)));
        let id = chat_id().map_err(|source| NotStarted::Scratch {
            folder: std::env::temp_dir(),
            source,
        })?;
        let declarations = request.setup.declarations();
        let opening = input::opening(thread, declarations, request.encoding, (guard, note), id);
        // A chat file is read by a process that is started with it.
        let spare = match waiting_ones && opening.chat.is_none() {
            true => live.pool.claim_spare(key).await,
            false => None,
        };
        let (session, origin) = match spare {
            Some(session) => (*session, Origin::Spare),
            None => {
                let place = self.place_qwen(live).await?;
                let session =
                    engine.qwen_session((line, binary), base_env, place, (&request.setup, opening.chat.as_ref()))?;
                (session, Origin::Fresh)
            }
        };
        Ok(ClaimedSession {
            session,
            input: opening.input,
            origin,
            notes,
        })
    }

    /// The place of a process to be started. A run that another waits for goes on without: the other one's may never be free.
    async fn place_qwen(&self, live: &LiveSessions<Session>) -> Result<Option<Permit>, NotStarted> {
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

/// The random bits of a chat's name.
fn chat_id() -> std::io::Result<u128> {
    let random = getrandom::u64().and_then(|high| Ok((high, getrandom::u64()?)));
    let (high, low) = random.map_err(|error| std::io::Error::other(error.to_string()))?;
    Ok(u128::from(high) << 64 | u128::from(low))
}

/// That results can't go to the process that waits for them.
fn too_long(length: usize) -> Event {
    let message = format!(
        "the results of a call have {length} characters, and a live session shortens one of more than {}: the thread was sent whole to \
         another process",
        input::LONGEST_RESULT
    );
    warning("RESULT_TOO_LONG", message)
}
