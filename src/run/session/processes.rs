//! Sessions in processes for one conversation each: the one that knows the thread's beginning, a spare, or a new one.

use std::path::Path;
use std::sync::Arc;

use serde_json::json;

use super::ahead;
use super::drive::invocation;
use super::places::{self, not_begun, place};
use super::source::{Begun, NotBegun, Source, TurnAsked};
use super::trial;
use crate::session::pools::{Processes, evicted_warning, warning};
use dfp_exchange::form::{ProcessForm, ProcessOptions, ProcessStart, SessionCall, WhyAnew};
use dfp_exchange::live::keep::Keepable;
use dfp_exchange::live::pool::SessionKey;
use dfp_exchange::live::process_turn::{ProcessSession, ProcessWork};
use dfp_exchange::live::setup::Setup;
use dfp_exchange::live::turn::{Kept, Origin, Park, Turn, TurnStart};
use dfp_exchange::print::NotStarted;
use dfp_model::event::{EngineUsed, Event};
use dfp_provider::command::CommandLine;

impl<F: ProcessForm> Source for Processes<F> {
    const ENGINE: EngineUsed = EngineUsed::Live;

    type Call = SessionCall<Setup>;
    type Turn = Turn<F::Session, ()>;

    fn may_continue(call: &SessionCall<Setup>) -> bool {
        call.may_continue()
    }

    fn options(call: &SessionCall<Setup>) -> ProcessOptions {
        F::options(Some(&call.setup), call.choices.as_ref())
    }

    fn line(line: CommandLine, file: &Path) -> CommandLine {
        F::line(line, file)
    }

    async fn begin(self: &Arc<Self>, asked: &TurnAsked<'_, SessionCall<Setup>>) -> Result<Begun<Self::Turn>, NotBegun> {
        let TurnAsked { attempt, call, .. } = *asked;
        let engine = attempt.call.engine;
        let key = &SessionKey {
            setup: Arc::clone(&call.setup),
            env: Arc::clone(attempt.call.base_env),
        };
        if asked.takes_waiting {
            self.note(&call.setup);
        }
        let tried = match F::IS_TRIED_FIRST {
            true => trial::of_call(self, asked).await?,
            false => None,
        };
        let mut why_anew = None;
        let claimed = match (tried, asked.takes_waiting) {
            (Some(session), _) => Claimed::Started(session),
            (None, true) => {
                let next = |known: &_| match F::addition(call, known) {
                    Ok(input) => Some(input),
                    Err(why) => {
                        why_anew = Some(why).filter(|why| *why != WhyAnew::OtherThread).or(why_anew);
                        None
                    }
                };
                match self.pool.claim(key, &call.thread, next).await {
                    Some((session, input)) => Claimed::Continued(session, input),
                    None => Claimed::Nothing,
                }
            }
            (None, false) => Claimed::Nothing,
        };
        let (mut session, input, origin) = match claimed {
            Claimed::Continued(session, input) => (*session, input, Origin::Continued),
            Claimed::Started(session) => (*session, whole::<F>(asked)?, Origin::Fresh),
            Claimed::Nothing => {
                asked.looked_at()?;
                let input = whole::<F>(asked)?;
                let spare = match asked.takes_waiting && !F::needs_own_process(&input) {
                    true => self.pool.claim_spare(key).await,
                    false => None,
                };
                match spare {
                    Some(session) => (*session, input, Origin::Spare),
                    None => (start(self, asked, &input).await?, input, Origin::Fresh),
                }
            }
        };
        let notes = match origin {
            Origin::Continued => Vec::new(),
            Origin::Fresh | Origin::Spare => {
                let places = format!("`maxProcesses` is {}", engine.options.max_processes);
                let evicted = self.pool.eviction(key, &call.thread);
                let evicted = evicted.map(|why| evicted_warning(why, &engine.options, &places));
                why_anew.and_then(too_long).into_iter().chain(evicted).collect()
            }
        };
        let sent = F::text(&input);
        F::begin(&mut session, input, &call.setup);
        let limits = attempt.limits(EngineUsed::Live);
        let start = TurnStart {
            invocation: invocation(attempt, asked.installed),
            pid: session.pid(),
            // A process that has waited may be gone, so its turn has not begun before it answers.
            has_begun: origin == Origin::Fresh,
            tracker: &engine.lifecycle.runs,
            park: park(self, asked, key.clone()),
            limits,
        };
        Ok(Begun {
            exchange: Turn::begin(ProcessWork::new(session, origin, start.limits.kill_grace), start),
            origin,
            notes,
            sent: Box::new(move || sent),
            figures: json!({"spare": origin == Origin::Spare}),
        })
    }
}

/// The session that was found for a thread.
enum Claimed<S, I> {
    /// The session that knows the thread's beginning.
    Continued(Box<S>, I),
    /// A process that was started for the thread, and has answered.
    Started(Box<S>),
    Nothing,
}

fn whole<F: ProcessForm>(asked: &TurnAsked<'_, SessionCall<Setup>>) -> Result<F::Input, NotBegun> {
    F::whole(asked.call).map_err(|source| {
        let folder = std::env::temp_dir();
        not_begun(asked.attempt.call.engine, &NotStarted::Scratch { folder, source })
    })
}

/// Starts a process whose first input is `input`.
async fn start<F: ProcessForm>(
    processes: &Processes<F>,
    asked: &TurnAsked<'_, SessionCall<Setup>>,
    input: &F::Input,
) -> Result<F::Session, NotBegun> {
    let place = place(processes, asked).await?;
    let start = ProcessStart {
        setup: Some(&asked.call.setup),
        input: Some(input),
    };
    let started = places::start(processes, asked, place, start);
    started.map_err(|error| not_begun(asked.attempt.call.engine, &error))
}

/// The decision what becomes of the session when its turn has a reply.
fn park<F: ProcessForm>(
    processes: &Arc<Processes<F>>,
    asked: &TurnAsked<'_, SessionCall<Setup>>,
    key: SessionKey<Setup>,
) -> Park<F::Session, ()> {
    let call = asked.attempt.call;
    let (engine, env) = (Arc::clone(call.engine), Arc::clone(call.base_env));
    let thread = Arc::clone(&asked.call.callers);
    let once = call.request.options.once;
    let processes = Arc::clone(processes);
    Box::new(move |kept, reply, ()| {
        if let Some(Kept { session, pending }) = kept {
            if once || session.is_worn_out() {
                Keepable::end(session);
            } else {
                let known = thread.known_with(reply, pending);
                processes.pool.park(session, key, known);
            }
        }
        ahead::refill_spares_after(&processes, &engine, reply, &env);
    })
}

/// The warning that results can't go to the process that waits for them.
fn too_long(why: WhyAnew) -> Option<Event> {
    let WhyAnew::LongResults { length, longest } = why else {
        return None;
    };
    let message = format!(
        "the results of a call have {length} characters, and a live session shortens one of more than {longest}: the thread was sent \
         whole to another process"
    );
    Some(warning("RESULT_TOO_LONG", message))
}
