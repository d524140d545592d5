//! The sessions of one form that a provider has: those at work, those that wait, and new ones.
//!
//! In: a call ([`TurnAsked`]). Out: a turn that has begun ([`Begun`]), in the session that knows the thread's beginning, in a process
//! that was started ahead, or in a new session, whose process is started or [shared](super::servers).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tokio_util::task::TaskTracker;

use super::ahead;
use super::servers::{Shared, Starts, Wanted};
use crate::auto;
use crate::capabilities::{self, LiveSupport};
use crate::cli_attempt::CliAttempt;
use crate::cli_base::{CliBase, not_started};
use crate::request::refuse_content;
use dfp_exchange::form::{
    Caller, Form, InServer, InputOf, OwnProcess, Processes, Retold, SentText, SessionCall, SessionHome, SetupOf,
    ToStart, WhyAnew,
};
use dfp_exchange::installed::Installed;
use dfp_exchange::live::kept::{KeptReplies, StoreRefused};
use dfp_exchange::live::pool::{Bounds, EvictionReason, Pool, SessionKey};
use dfp_exchange::live::session::{Origin, Session, TurnInput};
use dfp_exchange::live::turn::{Kept, Park, Turn, TurnStart};
use dfp_exchange::print::NotStarted;
use dfp_exchange::{Exchange, Invocation, Unusable};
use dfp_model::error::Code;
use dfp_model::event::{Event, SessionUsed};
use dfp_model::message::content::{self, Accepts};
use dfp_process::limit::Permit;
use dfp_process::{StartError, Vars};
use dfp_provider::options::Options;

/// A turn that is to be begun.
pub(crate) struct TurnAsked<'a, F: Form> {
    pub attempt: &'a CliAttempt<'a>,
    pub call: &'a SessionCall<SetupOf<F>>,
    /// The CLI as the call's process is started. Code that starts a process, or opens a session, takes it from
    /// [`looked_at`](TurnAsked::looked_at).
    pub installed: &'a Installed,
    /// The known support of the engine by the CLI.
    pub support: &'a LiveSupport,
    /// True if the program was looked at for this turn.
    pub is_looked_at: bool,
    /// False once a waiting process turned out to be gone: then no other waiting one is taken.
    pub takes_waiting: bool,
}

impl<'a, F: Form> TurnAsked<'a, F> {
    /// The key of the call's session.
    fn key(&self) -> SessionKey<SetupOf<F>> {
        SessionKey {
            setup: Arc::clone(&self.call.setup),
            env: Arc::clone(self.attempt.call.base_env),
        }
    }

    /// The input of a session that knows nothing, which may be one of `server`, or in a process that is to be started.
    fn whole(&self, form: &F, server: Option<&F::Server>, starts: bool) -> Result<InputOf<F>, Unusable> {
        let cli = self.attempt.call.cli;
        let check = cli.provider.checks.live;
        let start = starts.then(|| ToStart {
            installed: self.installed,
            version: check.and_then(|check| capabilities::version(&check, &self.installed.binary)),
            owner: cli.owner,
            own_tools: cli.options.built_in_tools,
        });
        let caller = Caller {
            key: &self.key(),
            provider: cli.id(),
            login: cli.login(),
            server,
            start,
        };
        form.whole(self.call, &caller).map_err(|source| {
            let folder = std::env::temp_dir();
            start_failed(cli, &NotStarted::Scratch { folder, source })
        })
    }

    /// Loads what the store has of the thread, for a session that knows nothing, which may be one of `server`.
    async fn recollect(&self, form: &F, server: Option<&F::Server>) -> Result<(), Unusable> {
        let cli = self.attempt.call.cli;
        let key = self.key();
        let caller = Caller {
            key: &key,
            provider: cli.id(),
            login: cli.login(),
            server,
            start: None,
        };
        form.recollect(self.call, &caller).await.map_err(|refused| {
            let StoreRefused { folder, why } = refused;
            let reason = format!("option \"sessions.store\" names a folder that can't be used: {folder}: {why}");
            let error = cli.refuse(Code::InvalidOption, reason);
            Unusable::Failed(Box::new(
                error.with_hint("name a folder of yours alone, or one that is not there yet"),
            ))
        })
    }

    /// The CLI as it is installed now.
    ///
    /// # Errors
    /// `NotLookedAt` if nobody has looked at it for this turn.
    pub fn looked_at(&self) -> Result<&'a Installed, Unusable> {
        self.is_looked_at.then_some(self.installed).ok_or(Unusable::NotLookedAt)
    }
}

/// A turn that was begun.
pub(crate) struct Begun {
    pub turn: Box<dyn Exchange>,
    pub origin: Origin,
    /// The way in which the session has come to know the thread.
    pub session: SessionUsed,
    /// The events that are reported about the session.
    pub notes: Vec<Event>,
    /// The text that was sent; called only if nobody reports usage.
    pub sent: SentText,
    /// The fields of the session for the log: an object.
    pub figures: Value,
}

/// The reason for which there is no process.
pub(super) fn start_failed(cli: &CliBase, error: &NotStarted) -> Unusable {
    match error {
        NotStarted::Process(StartError::Cancelled) => Unusable::Cancelled,
        error => Unusable::Failed(not_started(cli, error)),
    }
}

/// A warning.
pub(crate) fn warning(code: &str, message: String) -> Event {
    Event::Warning {
        code: code.to_owned(),
        message,
    }
}

/// The warning that the thread was sent whole to another session than the one that knew it, of a form with these `processes`.
fn evicted_warning(why: EvictionReason, options: &Options, processes: Processes) -> Event {
    let places = match processes {
        Processes::Own { .. } => format!("`maxProcesses` is {}", options.max_processes),
        Processes::Shared { most_resting, .. } => format!("at most {most_resting} conversations rest"),
    };
    let reason = match why {
        EvictionReason::Expired => format!(
            "unused for {} ms, the option `keepAlive`",
            options.keep_alive.as_millis()
        ),
        EvictionReason::Displaced => format!("other threads needed its place: {places}"),
        EvictionReason::Crowded => "those at rest took too much of the machine's memory".to_owned(),
        EvictionReason::Grown => "its process took more than 1 GiB of memory".to_owned(),
    };
    warning(
        "SESSION_EXPIRED",
        format!("the session that knew this thread has ended ({reason}): the thread was sent whole to another"),
    )
}

/// The sessions of one form and their processes.
#[derive(Debug)]
pub(crate) struct Sessions<F: Form> {
    pub form: F,
    pub pool: Arc<Pool<F::Session>>,
    /// The shared processes, for a form that has them.
    pub(super) servers: Shared<F::Server>,
    /// The starts of such processes that go on.
    pub(super) starts: Starts,
    recent: Mutex<Recent<SetupOf<F>>>,
}

/// The setups of the last calls' sessions.
#[derive(Debug)]
struct Recent<T> {
    setup: Option<Arc<T>>,
    /// The number of calls in a row with this setup.
    times: u32,
}

/// The number of calls in a row that need the same setup before the next call is expected to need it, too.
const STABLE: u32 = 2;

/// A session, the input of its turn, and the session's origin.
type TakenSession<F> = (Box<<F as Form>::Session>, InputOf<F>, Origin);

impl<F: Form> Sessions<F> {
    /// Creates the set, without sessions.
    pub fn new(form: F, options: &Options, runs: &TaskTracker) -> Sessions<F> {
        let (bounds, at_work, spares) = match F::PROCESSES {
            Processes::Own { .. } => (
                Bounds::of_processes(options.max_processes),
                options.max_concurrency,
                options.spares,
            ),
            Processes::Shared { most_resting, .. } => (Bounds::of_sessions(most_resting), 0, 0),
        };
        let pool = Pool::new(bounds, at_work, options.keep_alive, spares, runs.clone());
        Sessions {
            form,
            pool: Arc::new(pool),
            servers: Shared::default(),
            starts: Starts::default(),
            recent: Mutex::new(Recent { setup: None, times: 0 }),
        }
    }

    /// Notes that a call's session has the setup `setup`.
    pub fn note(&self, setup: &Arc<SetupOf<F>>) {
        let mut recent = self.recent();
        recent.times = match recent.setup.as_ref() == Some(setup) {
            true => recent.times.saturating_add(1),
            false => 1,
        };
        recent.setup = Some(Arc::clone(setup));
    }

    /// The setup of the last call's session.
    pub fn last_setup(&self) -> Option<Arc<SetupOf<F>>> {
        self.recent().setup.clone()
    }

    /// The most likely setup of the next call's session.
    pub fn likely_setup(&self) -> Option<Arc<SetupOf<F>>> {
        let recent = self.recent();
        recent.setup.clone().filter(|_| recent.times >= STABLE)
    }

    fn recent(&self) -> MutexGuard<'_, Recent<SetupOf<F>>> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `call`, or its other form that has all system messages in the system prompt, if a session knows the thread so.
    pub fn as_known<'a>(&self, call: &'a SessionCall<SetupOf<F>>, env: &Arc<Vars>) -> &'a SessionCall<SetupOf<F>> {
        let joined = call.joined.as_deref().filter(|joined| {
            let key = SessionKey {
                setup: Arc::clone(&joined.setup),
                env: Arc::clone(env),
            };
            self.pool.knows(&key, &joined.thread)
        });
        joined.unwrap_or(call)
    }

    /// Begins a turn of a session that knows the thread's beginning, or of another. The future is dropped when the call's time is
    /// up.
    pub async fn begin(self: &Arc<Self>, asked: &TurnAsked<'_, F>) -> Result<Begun, Unusable> {
        let TurnAsked { attempt, call, .. } = *asked;
        let cli = attempt.call.cli;
        let key = asked.key();
        if asked.takes_waiting && !F::PROCESSES.are_shared() {
            self.note(&call.setup);
        }
        let tried = match F::PROCESSES.are_tried_first() {
            true => auto::try_for_call(self, asked).await?,
            false => None,
        };
        let mut why_anew = None;
        let claimed = match (&tried, asked.takes_waiting) {
            (None, true) => {
                let next = |known: &_| match F::addition(call, known) {
                    Ok(input) => Some(input),
                    Err(why) => {
                        why_anew = Some(why).filter(|why| *why != WhyAnew::OtherThread).or(why_anew);
                        None
                    }
                };
                self.pool.claim(&key, &call.thread, next).await
            }
            _ => None,
        };
        let (session, input, origin) = match claimed {
            Some((session, input)) => (session, input, Origin::Continued),
            None => self.open(asked, &key, tried).await?,
        };
        // Only a call that sends an image waits for the answer.
        if session.host().is_some()
            && let Err(refused) = content::check(call.thread.messages(), &Accepts::TEXT)
            && let Some(who) = session.blind_model().await
        {
            session.end();
            return Err(Unusable::Failed(refuse_content(cli, &refused, &who, &Accepts::TEXT)));
        }
        let retold = F::retold(&input);
        let session_used = match origin {
            Origin::Continued => SessionUsed::Continued,
            Origin::Fresh | Origin::Spare if !call.may_continue() => SessionUsed::New,
            Origin::Fresh | Origin::Spare if retold == Retold::Natively => SessionUsed::Restored,
            Origin::Fresh | Origin::Spare => SessionUsed::Replayed,
        };
        let notes = match origin {
            Origin::Continued => Vec::new(),
            Origin::Fresh | Origin::Spare => {
                let evicted = self.pool.eviction(&key, &call.thread);
                let evicted = evicted.map(|why| evicted_warning(why, &cli.options, F::PROCESSES));
                let in_words = in_words_warning(retold);
                let too_long = why_anew.and_then(too_long);
                let of_store = store_warning(self.form.kept());
                [too_long, evicted, in_words, of_store].into_iter().flatten().collect()
            }
        };
        let figures = match session.host() {
            None => json!({"spare": origin == Origin::Spare}),
            Some(host) => json!({"spare": false, "sessions": host.sessions()}),
        };
        let sent = F::text(call, &input);
        let start = TurnStart {
            invocation: Invocation::of(cli.id(), &asked.installed.line),
            limits: attempt.limits(F::ENGINE),
            tracker: &cli.lifecycle.runs,
            park: self.park(asked, key),
        };
        let setup = Arc::clone(&call.setup);
        Ok(Begun {
            turn: Box::new(Turn::begin(session, TurnInput { input, setup, origin }, start)),
            origin,
            session: session_used,
            notes,
            sent,
            figures,
        })
    }

    /// Finds or makes a session that knows nothing: `tried`, a spare, or a new one.
    async fn open(
        self: &Arc<Self>,
        asked: &TurnAsked<'_, F>,
        key: &SessionKey<SetupOf<F>>,
        tried: Option<Box<F::Session>>,
    ) -> Result<TakenSession<F>, Unusable> {
        if let Some(session) = tried {
            asked.recollect(&self.form, None).await?;
            return Ok((session, asked.whole(&self.form, None, false)?, Origin::Fresh));
        }
        let installed = asked.looked_at()?;
        let (attempt, setup) = (asked.attempt, &asked.call.setup);
        let cli = attempt.call.cli;
        if !F::PROCESSES.are_shared() {
            asked.recollect(&self.form, None).await?;
            let input = asked.whole(&self.form, None, true)?;
            if asked.takes_waiting
                && !F::needs_own_process(&input)
                && let Some(session) = self.pool.claim_spare(key).await
            {
                return Ok((session, input, Origin::Spare));
            }
            let session = self.start(asked, Some(setup), Some(&input)).await?;
            return Ok((Box::new(session), input, Origin::Fresh));
        }
        let wanted = Wanted {
            installed,
            env: attempt.call.base_env,
            setup: Some(setup),
        };
        let server = self.server(&cli.base, wanted).await?;
        if let Some(what) = F::lacks(&server, setup) {
            return Err(Unusable::Left(what));
        }
        asked.recollect(&self.form, Some(&server)).await?;
        let input = asked.whole(&self.form, Some(&server), false)?;
        let place = InServer {
            server,
            setup: Arc::clone(setup),
            limits: attempt.limits(F::ENGINE),
            tracker: cli.lifecycle.runs.clone(),
        };
        let session = self.form.session(SessionHome::Shared(place));
        let session = session.map_err(|error| start_failed(cli, &error))?;
        Ok((Box::new(session), input, Origin::Fresh))
    }

    /// Starts a process for a turn whose first input is `input`, in its place among those of its provider. A run that another run
    /// waits for goes on without a place, since the other's may never become free.
    pub(crate) async fn start(
        &self,
        asked: &TurnAsked<'_, F>,
        setup: Option<&Arc<SetupOf<F>>>,
        input: Option<&InputOf<F>>,
    ) -> Result<F::Session, Unusable> {
        let call = asked.attempt.call;
        let place = match call.request.nested_permit {
            Some(_) => None,
            None => match call.cancel.run_until_cancelled(self.pool.place()).await {
                Some(place) => place.map(Permit::taken),
                None => return Err(Unusable::Cancelled),
            },
        };
        let home = SessionHome::Own(Box::new(OwnProcess {
            installed: asked.installed,
            surroundings: call.cli.surroundings(&asked.installed.binary, call.base_env, place),
            closing: &call.cli.lifecycle.closing,
            setup,
            input,
        }));
        let started = self.form.session(home);
        started.map_err(|error| start_failed(call.cli, &error))
    }

    /// The decision what becomes of the session when its turn has a reply.
    fn park(self: &Arc<Self>, asked: &TurnAsked<'_, F>, key: SessionKey<SetupOf<F>>) -> Park<F::Session> {
        let call = asked.attempt.call;
        let (cli, env) = (Arc::clone(&call.cli.base), Arc::clone(call.base_env));
        let thread = Arc::clone(&asked.call.callers);
        // Such a thread does not go on: its session ends, and a call that waits is interrupted.
        let once = call.request.options.once;
        let sessions = Arc::clone(self);
        Box::new(move |kept, reply, known| {
            if !once {
                let caller = Caller {
                    key: &key,
                    provider: cli.id(),
                    login: cli.login(),
                    server: None,
                    start: None,
                };
                sessions.form.remember(known, reply, &thread, &caller);
            }
            if let Some(Kept { session, pending }) = kept {
                if once || session.is_worn_out() {
                    session.end();
                } else {
                    let known = thread.known_with(reply, pending);
                    sessions.pool.park(session, key, known);
                }
            }
            if !F::PROCESSES.are_shared() {
                ahead::refill_spares_after(&sessions, &cli, reply, &env);
            }
        })
    }
}

/// The warning that the thread was told as text, if that has a reason worth telling.
fn in_words_warning(retold: Retold) -> Option<Event> {
    let Retold::InWords(Some(why)) = retold else {
        return None;
    };
    let message = format!("the conversation was told to a new process as text, since {why}");
    Some(warning("THREAD_AS_TEXT", message))
}

/// The warning that something is wrong with the store of a form's replies, if that was not told yet.
pub(super) fn store_warning(kept: Option<&KeptReplies>) -> Option<Event> {
    let why = kept?.trouble()?;
    let message = format!("the folder of the option `sessions` lacks something of this conversation: {why}");
    Some(warning("SESSION_STORE_FAILED", message))
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
