//! Live calls: queue, find or start the session, take a turn, keep the session for the thread's next call.
//!
//! In: a thread and what its session is told once. Out: the same events and the same verdict as of a print run.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::time::sleep;
use tokio_util::task::TaskTracker;

use super::again::Tried;
use super::attempt::{Attempt, not_started};
use super::learnt::{self, Binary};
use super::log::Level;
use super::turn::{self, Origin, Turned};
use super::{Engine, millis as ms};
use crate::command::{CommandLine, Mode};
use crate::conversation::live::pool::{Claimed, Lapse, Pool, Terms};
use crate::conversation::live::session::Session;
use crate::conversation::live::setup::{SYSTEM_PROMPT, Setup};
use crate::conversation::live::thread::{Known, Thread};
use crate::conversation::print::{Finished, NotStarted, Surroundings};
use crate::error::{Code, ProviderError};
use crate::event::{Event, RunInfo};
use crate::message::{Message, ToolSpec};
use crate::process::limit::Permit;
use crate::process::{Limits, StartError, Tees, Vars};
use crate::prompt::Encoding;
use crate::provider::options::{EngineKind, Options, SystemPrompt};

/// How long after a turn that ended with tool calls a spare is started. The thread's next turn comes as soon as the tools are
/// done, and the half second of processor time that a CLI's start takes is better spent when it has begun.
const LOOP_PAUSE: Duration = Duration::from_secs(1);

/// The sessions of one provider.
#[derive(Debug)]
pub(super) struct Live {
    pool: Arc<Pool>,
    at_work: Arc<AtomicUsize>,
}

impl Live {
    /// `None` where the options want no sessions.
    pub fn new(options: &Options, runs: &TaskTracker) -> Option<Live> {
        let pool = || {
            Pool::new(
                options.max_concurrency,
                options.keep_alive,
                options.spares,
                runs.clone(),
            )
        };
        (options.engine != EngineKind::Print).then(|| Live {
            pool: Arc::new(pool()),
            at_work: Arc::default(),
        })
    }

    /// Counts a process as working until the seat is dropped.
    fn seat(&self) -> Seat {
        self.at_work.fetch_add(1, Ordering::Relaxed);
        Seat(Arc::clone(&self.at_work))
    }

    /// How many processes work just now.
    fn at_work(&self) -> usize {
        self.at_work.load(Ordering::Relaxed)
    }
}

struct Seat(Arc<AtomicUsize>);

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A call as a live session takes it.
pub(super) struct Asked {
    thread: Thread,
    setup: Arc<Setup>,
    encoding: Encoding,
    /// Why the whole of it can't be told to a session that knows nothing of it.
    untellable: Option<Box<ProviderError>>,
}

impl Asked {
    /// The thread's system messages are the session's system prompt, behind that of the options.
    pub fn new(messages: Vec<Message>, tools: &[ToolSpec], encoding: Encoding, options: &Options) -> Asked {
        let thread = Thread::new(messages);
        let told = thread.system().map(str::to_owned);
        let (system, append) = match (&options.system_prompt, told) {
            (SystemPrompt::Custom(own), None) => (Some(own.clone()), None),
            (SystemPrompt::Custom(own), Some(told)) => (Some(format!("{own}\n\n{told}")), None),
            // The CLI's own tools need the CLI's own instructions.
            (SystemPrompt::Cli, told) => (None, told),
            (SystemPrompt::Default, told) if options.built_in_tools => (None, told),
            (SystemPrompt::Default, told) => (Some(told.unwrap_or_else(|| SYSTEM_PROMPT.to_owned())), None),
        };
        Asked {
            setup: Arc::new(Setup::new(system, append, tools)),
            thread,
            encoding,
            untellable: None,
        }
    }

    /// The same, of which the whole can't be told for this reason.
    pub fn or_refused(self, untellable: Option<Box<ProviderError>>) -> Asked {
        Asked { untellable, ..self }
    }
}

/// A session for this turn.
pub(super) struct Taken {
    pub session: Session,
    /// What it is told.
    pub words: String,
    pub from: Origin,
    /// What there is to say about it.
    pub notes: Vec<Event>,
}

/// What a look for a session comes to.
enum Taking {
    Taken(Box<Taken>),
    /// None knows the thread, and none can be told it.
    Refused(Box<ProviderError>),
}

impl Attempt<'_> {
    /// What becomes known of the run on the way is in `info`, also if it fails.
    pub(super) async fn live(
        &self,
        live: &Live,
        asked: &Asked,
        info: &mut RunInfo,
    ) -> Result<Tried, Box<ProviderError>> {
        let (line, binary) = self.engine.live_line(self.base_env)?;
        let auto = self.engine.options.engine == EngineKind::Auto;
        if auto && learnt::prints_only(&binary) {
            return self.print(info).await;
        }
        let Some(permit) = self.permit(binary.file()).await else {
            self.log(Level::Info, "cancelled in the queue", json!({"attempt": self.number}));
            return Ok(Tried::Cancelled);
        };
        self.began.get_or_init(Instant::now);
        info.queued_ms = Some(ms(permit.queued()));
        let seat = live.seat();
        let terms = Terms {
            setup: Arc::clone(&asked.setup),
            env: Arc::clone(self.base_env),
        };
        let mut waiting_ones = true;
        let (reason, finished) = loop {
            let taken = match self.take(live, asked, &terms, &line, waiting_ones).await {
                Ok(Taking::Taken(taken)) => *taken,
                Ok(Taking::Refused(refused)) => return Err(refused),
                Err(NotStarted::Process(StartError::Cancelled)) => return Ok(Tried::Cancelled),
                Err(error) => return Err(not_started(self.engine, &error)),
            };
            match turn::take(self, taken, &terms.setup, (&line, &binary), info).await? {
                Turned::Replied(mut replied) => {
                    drop(seat);
                    let goes_on = !replied.reply.tool_calls.is_empty();
                    if let Some((session, pending)) = replied.session {
                        let known = asked.thread.known_with(&replied.reply, pending);
                        live.pool.park(session, terms, known, live.at_work());
                    }
                    if goes_on {
                        self.restock_later(line);
                    } else {
                        self.engine.restock(&line, self.base_env);
                    }
                    self.sink.send(&mut replied.events).await;
                    return Ok(Tried::Replied(replied.reply));
                }
                Turned::Cancelled => return Ok(Tried::Cancelled),
                Turned::FlagRefused(flag) => return Ok(Tried::FlagRefused(flag)),
                Turned::Vanished => waiting_ones = false,
                Turned::Unfit(reason, finished) => break (reason, finished),
            }
        };
        drop((seat, permit));
        if !auto {
            return Err(self.unfit(&reason, &finished));
        }
        learnt::remember_print_only(&binary);
        let message = format!("the installed CLI takes no live sessions ({reason}): asked in print form");
        self.sink.send(&mut vec![warning("ENGINE_FALLBACK", message)]).await;
        self.print(info).await
    }

    /// The session that knows the thread's beginning, a spare, or a new process.
    async fn take(
        &self,
        live: &Live,
        asked: &Asked,
        terms: &Terms,
        line: &CommandLine,
        waiting_ones: bool,
    ) -> Result<Taking, NotStarted> {
        let guard = self.engine.provider.guard;
        let thread = &asked.thread;
        let goes_on = |known: &Known| thread.addition(known, guard).is_some();
        if let Some(refused) = &asked.untellable
            && !(waiting_ones && live.pool.knows(terms, thread, goes_on))
        {
            return Ok(Taking::Refused(refused.clone()));
        }
        let claimed = if waiting_ones {
            live.pool.claim(terms, thread, goes_on).await
        } else {
            Claimed::Nothing
        };
        // The one that knew it has died just now.
        if let (Some(refused), Claimed::Spare(_) | Claimed::Nothing) = (&asked.untellable, &claimed) {
            return Ok(Taking::Refused(refused.clone()));
        }
        let whole = || thread.whole(asked.encoding, guard);
        let (session, words, from) = match claimed {
            Claimed::Continued(session, known) => {
                let addition = thread.addition(&known, guard);
                (*session, addition.unwrap_or_else(whole), Origin::Continued)
            }
            Claimed::Spare(session) => (*session, whole(), Origin::Spare),
            Claimed::Nothing => {
                let place = self.place(live).await?;
                let session = self.engine.session(line.clone(), self.base_env, place)?;
                (session, whole(), Origin::Fresh)
            }
        };
        let lapse = (from != Origin::Continued).then(|| live.pool.lapse(terms, thread));
        Ok(Taking::Taken(Box::new(Taken {
            session,
            words,
            from,
            notes: lapse
                .flatten()
                .map(|why| lapsed(why, &self.engine.options))
                .into_iter()
                .collect(),
        })))
    }

    /// The place of a process to be started. A run that another waits for goes on without: the other one's may never be free.
    async fn place(&self, live: &Live) -> Result<Option<Permit>, NotStarted> {
        if self.request.lent.is_some() {
            live.pool.make_room(live.at_work().saturating_sub(1));
            return Ok(None);
        }
        let place = live.pool.place(|| live.at_work());
        match self.cancel.run_until_cancelled(place).await {
            Some(place) => Ok(place.map(Permit::taken)),
            None => Err(NotStarted::Process(StartError::Cancelled)),
        }
    }

    fn restock_later(&self, line: CommandLine) {
        let (engine, env) = (Arc::clone(self.engine), Arc::clone(self.base_env));
        self.engine.runs.spawn(async move {
            if engine.closing.run_until_cancelled(sleep(LOOP_PAUSE)).await.is_some() {
                engine.restock(&line, &env);
            }
        });
    }

    fn unfit(&self, reason: &str, finished: &Finished) -> Box<ProviderError> {
        let mut error = self.engine.refuse(
            Code::LiveUnsupported,
            format!("the installed CLI takes no live sessions: {reason}"),
        );
        let some = |text: &str| (!text.trim().is_empty()).then(|| text.to_owned());
        error.exit_code = finished.exit.code;
        error.stderr_tail = some(&finished.exit.stderr);
        error.stdout_tail = some(&finished.stdout_tail);
        error
    }
}

impl Engine {
    /// Starts the spares there should be, if there should be any. `env` is what they inherit.
    pub async fn prewarm(&self, env: Vars) -> Result<(), Box<ProviderError>> {
        // `close` waits for what holds a token: a process that is being started just now is not overlooked.
        let _starting = self.runs.token();
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
        live.pool.stock(live.at_work(), &env, start);
        failed.map_or(Ok(()), |error| Err(not_started(self, &error)))
    }

    /// The same after a call. That they can't be started will be the next call's own error.
    fn restock(&self, line: &CommandLine, env: &Arc<Vars>) {
        if let Some(live) = &self.live {
            let start = |place| self.session(line.clone(), env, Some(Permit::taken(place))).ok();
            live.pool.stock(live.at_work(), env, start);
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
            tracker: self.runs.clone(),
            tees: Tees::default(),
        };
        Session::start(line, surroundings, &self.closing)
    }
}

fn warning(code: &str, message: String) -> Event {
    Event::Warning {
        code: code.to_owned(),
        message,
    }
}

fn lapsed(why: Lapse, options: &Options) -> Event {
    let reason = match why {
        Lapse::Expired => format!(
            "unused for {} ms, the option `keepAlive`",
            options.keep_alive.as_millis()
        ),
        Lapse::Displaced => format!(
            "other threads needed its place: `maxConcurrency` is {}",
            options.max_concurrency
        ),
        Lapse::Grown => "its process took more than 1 GiB of memory".to_owned(),
    };
    warning(
        "SESSION_EXPIRED",
        format!("the session that knew this thread has ended ({reason}): the thread was sent whole to another"),
    )
}
