//! Starts the processes of sessions ahead of the call that will need them.
//!
//! In: the expected settings of the next call ([`NextCallJson`]). Out: processes that have started and were set up with them, so that
//! the call does not wait; or the error of one that is not ready. A caller who asks for the models of a login is told by such a process,
//! which stays ([`models`]). No model is asked.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::sleep;

use super::servers::{Wanted, login_missing};
use super::sessions::{Sessions, start_failed};
use crate::auto;
use crate::capabilities::{self, LiveSupport};
use crate::cli_base::{CliBase, not_found};
use crate::programs::Program;
use crate::retry_loop::local_offset_min;
use dfp_exchange::form::{Form, ModelsAsked, OwnProcess, SessionHome, SetupOf};
use dfp_exchange::installed::{Binary, Installed};
use dfp_exchange::live::session::StartState;
use dfp_exchange::live::setup::NextCall;
use dfp_exchange::live::turn;
use dfp_exchange::print::NotStarted;
use dfp_exchange::{EndedProcess, Evidence, Invocation, Unusable};
use dfp_model::error::ProviderError;
use dfp_model::event::{EngineUsed, Reply};
use dfp_model::message::ToolSpec;
use dfp_process::activity::now_ms;
use dfp_process::limit::Permit;
use dfp_process::{ProcessLimits, Vars};
use dfp_provider::judge::{self, CliRules, Context};
use dfp_provider::models::ListedModel;
use dfp_provider::options::EngineKind;
use dfp_text::fold::Fold;
use dfp_text::toolcall::TextCalls;

/// The number of times that a process is started anew because the CLI has refused a flag that it can do without.
const ATTEMPTS: usize = 8;

/// The delay of a spare's start behind a turn that ended with tool calls. The thread's next turn comes as soon as the tools are
/// done, and the half second of processor time that a CLI's start takes is better spent when that turn has begun.
const LOOP_PAUSE: Duration = Duration::from_secs(1);

/// The expected settings of the next call.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct NextCallJson {
    /// The text of the thread's system messages; an empty text says that there are none.
    pub system: Option<String>,
    pub tools: Option<Vec<ToolSpec>>,
}

/// A provider's sessions, and the parts that they are started from.
struct Starting<'a, F: Form> {
    sessions: &'a Arc<Sessions<F>>,
    cli: &'a Arc<CliBase>,
    env: &'a Arc<Vars>,
    installed: &'a Installed,
    setup: Option<&'a Arc<SetupOf<F>>>,
}

/// Starts a process for the next call, or as many as `spares` says, and waits until they have answered.
pub(crate) async fn prewarm<F: Form>(
    sessions: &Arc<Sessions<F>>,
    cli: &Arc<CliBase>,
    next: NextCallJson,
    env: &Arc<Vars>,
) -> Result<(), Box<ProviderError>> {
    let told = NextCall {
        system: next.system.as_deref(),
        tools: next.tools.as_deref(),
        options: &cli.options,
    };
    let setup = F::next_setup(sessions.last_setup().as_deref(), &told).map(Arc::new);
    if let (Some(setup), true) = (&setup, F::PROCESSES.are_shared()) {
        return prewarm_server(sessions, cli, setup, env).await;
    }
    if setup.is_none() && !F::PROCESSES.start_bare() {
        return Ok(());
    }
    let setup = setup.as_ref();
    let line = |program: &Program| {
        let process = F::options(setup.map(|setup| &**setup), None);
        program.installed(&cli.provider, &cli.options, F::ENGINE, process, F::line)
    };
    let start = |installed: Arc<Installed>, is_trial: bool| -> Round<'_> {
        Box::pin(async move {
            let starting = Starting {
                sessions,
                cli,
                env,
                installed: &installed,
                setup,
            };
            match is_trial {
                true => starting.tried().await,
                false => starting.spares().await,
            }
        })
    };
    let ahead = Ahead {
        engine: F::ENGINE,
        is_tried_first: F::PROCESSES.are_tried_first(),
        line: &line,
        start: &start,
    };
    ahead.run(cli, env).await
}

/// Processes that start and answer.
type Round<'a> = Pin<Box<dyn Future<Output = Result<(), Unusable>> + Send + 'a>>;

/// The CLI that was found, with a command line.
type LineOf<'a> = dyn Fn(&Program) -> Result<Arc<Installed>, Box<ProviderError>> + Sync + 'a;

/// The processes to start ahead: what depends on their form is behind functions, so that the code is compiled once.
struct Ahead<'a> {
    engine: EngineUsed,
    is_tried_first: bool,
    /// The CLI with the command line of such a process.
    line: &'a LineOf<'a>,
    /// Starts a process that tries the engine, or as many as `spares` says.
    start: &'a (dyn Fn(Arc<Installed>, bool) -> Round<'a> + Sync),
}

impl Ahead<'_> {
    /// Starts the processes, once more where the CLI has refused a flag.
    async fn run(&self, cli: &CliBase, env: &Arc<Vars>) -> Result<(), Box<ProviderError>> {
        let is_auto = cli.options.engine == EngineKind::Auto;
        let tries = is_auto && self.is_tried_first;
        for _ in 0..ATTEMPTS {
            let program = cli.look(env).map_err(|error| not_found(cli, error))?;
            let installed = (self.line)(&program)?;
            let trial = capabilities::trial_of(&installed.binary);
            let support = || program.support_now(&cli.provider, self.engine);
            let _trying = match support() {
                LiveSupport::Unknown(_) if tries => Some(trial.lock().await),
                _ => None,
            };
            let is_trial = match support() {
                // A call is made without a session.
                LiveSupport::Unserved(_) if is_auto => return Ok(()),
                LiveSupport::Unserved(unserved) if cli.is_refused(self.engine, &unserved) => {
                    return Err(auto::refused(cli, self.engine, &unserved.why, None));
                }
                LiveSupport::Unknown(_) => tries,
                _ => false,
            };
            let round = (self.start)(Arc::clone(&installed), is_trial).await;
            if is_over(cli, self.engine, &installed.binary, round)? {
                break;
            }
        }
        Ok(())
    }
}

/// Returns whether no further process is to be started ahead after a `round` in which some were started of `binary`: one is, if the
/// CLI has refused a flag that it can do without.
fn is_over(
    cli: &CliBase,
    used: EngineUsed,
    binary: &Binary,
    round: Result<(), Unusable>,
) -> Result<bool, Box<ProviderError>> {
    match round {
        Err(Unusable::FlagRefused(_)) => Ok(false),
        Err(Unusable::Failed(error)) => Err(error),
        Err(Unusable::Unsupported { reason, .. }) if cli.options.engine == EngineKind::Auto => {
            if let Some(error) = login_missing(cli, &reason) {
                return Err(error);
            }
            capabilities::remember_unserved(used, binary, reason);
            Ok(true)
        }
        Err(Unusable::Unsupported { reason, ended, .. }) => {
            let evidence = ended.as_ref().map(|ended| &ended.evidence);
            Err(auto::refused(cli, used, &reason, evidence))
        }
        Ok(()) | Err(_) => Ok(true),
    }
}

impl<F: Form> Starting<'_, F> {
    fn start(&self, place: OwnedSemaphorePermit) -> Result<F::Session, NotStarted> {
        let Starting { cli, installed, .. } = self;
        self.sessions.form.session(SessionHome::Own(Box::new(OwnProcess {
            installed,
            surroundings: cli.surroundings(&installed.binary, self.env, Some(Permit::taken(place))),
            closing: &cli.lifecycle.closing,
            setup: self.setup,
            input: None,
        })))
    }

    /// Starts as many processes as `spares` says, at least one, and waits until each is ready.
    async fn spares(&self) -> Result<(), Unusable> {
        let Starting { sessions, cli, .. } = self;
        let pool = &sessions.pool;
        let number = pool.spares().max(1);
        let started = pool.prewarm(number, self.env, self.setup, |place| self.start(place));
        for mut one in started.map_err(|error| start_failed(cli, &error))? {
            let Some((reason, process)) = failure(&mut one, self.setup.is_some()).await else {
                continue;
            };
            return Err(not_ready(cli, self.installed, reason, process));
        }
        Ok(())
    }

    /// Starts one process of a CLI of which nothing is known, and tries it.
    async fn tried(&self) -> Result<(), Unusable> {
        let Starting { sessions, cli, .. } = self;
        let Some(place) = sessions.pool.place_now() else {
            return Ok(());
        };
        let session = self.start(place).map_err(|error| start_failed(cli, &error))?;
        let trial = auto::try_session::<F>(cli, session, self.installed, self.setup);
        match cli.lifecycle.closing.run_until_cancelled(trial).await {
            Some(Ok(session)) => sessions.pool.add_ready(*session, self.env, self.setup),
            Some(Err(error @ (Unusable::FlagRefused(_) | Unusable::Failed(_)))) => return Err(error),
            // The call will be made by another engine.
            Some(Err(_)) | None => {}
        }
        Ok(())
    }
}

/// Starts the missing spares behind a turn that has come to `reply`: at once, or when the thread's next turn has had time to come.
/// A failure to start them will be the next call's own error.
pub(super) fn refill_spares_after<F: Form>(
    sessions: &Arc<Sessions<F>>,
    cli: &Arc<CliBase>,
    reply: &Reply,
    env: &Arc<Vars>,
) {
    if reply.tool_calls.is_empty() {
        return refill_spares(sessions, cli, env);
    }
    let (sessions, cli, env) = (Arc::clone(sessions), Arc::clone(cli), Arc::clone(env));
    let tasks = cli.lifecycle.runs.clone();
    tasks.spawn(async move {
        let pause = cli.lifecycle.closing.run_until_cancelled(sleep(LOOP_PAUSE)).await;
        if pause.is_some() {
            refill_spares(&sessions, &cli, &env);
        }
    });
}

/// Starts the missing spares with the most likely setup. Without one, only forms that can start without a setup get any.
fn refill_spares<F: Form>(sessions: &Arc<Sessions<F>>, cli: &Arc<CliBase>, env: &Arc<Vars>) {
    if sessions.pool.spares() == 0 {
        return;
    }
    let setup = sessions.likely_setup();
    if setup.is_none() && !F::PROCESSES.start_bare() {
        return;
    }
    let process = F::options(setup.as_deref(), None);
    let installed = match cli.look(env) {
        Ok(program) => program.installed(&cli.provider, &cli.options, F::ENGINE, process, F::line),
        Err(_) => return,
    };
    let Ok(installed) = installed else {
        return;
    };
    let starting = Starting {
        sessions,
        cli,
        env,
        installed: &installed,
        setup: setup.as_ref(),
    };
    let start = |place| starting.start(place).ok();
    sessions.pool.fill_spares(env, setup.as_ref(), start);
}

/// The reason why a `process` of `installed` that was started ahead takes no sessions; `reason` is the one that is known beside its
/// end.
fn not_ready(cli: &CliBase, installed: &Installed, reason: Option<String>, process: EndedProcess) -> Unusable {
    let invocation = Invocation::of(cli.id(), &installed.line);
    let (reason, ended) = turn::why_not_ready(invocation, reason, process, &ProcessLimits::default());
    if let Some(flag) = ended.refused_flag {
        capabilities::remember_refused(&installed.binary, &flag);
        return Unusable::FlagRefused(flag);
    }
    match reason {
        Some(reason) => Unusable::Unsupported {
            reason,
            may_have_asked: false,
            ended: Some(Box::new(ended)),
        },
        None => Unusable::Failed(not_ready_error(cli, ended.evidence)),
    }
}

/// The error of a process that was started ahead and has ended.
fn not_ready_error(cli: &CliBase, evidence: Evidence) -> Box<ProviderError> {
    let context = Context {
        provider: cli.id(),
        rules: CliRules::from(&*cli.provider),
        now_ms: now_ms(),
        local_offset_min: local_offset_min(),
    };
    let folded = Fold::new(Default::default(), TextCalls::Off).finish(&mut Vec::new());
    match judge::judge(&context, evidence, folded) {
        Err(error) => error,
        Ok(_) => auto::refused(
            cli,
            EngineUsed::Live,
            "it ended instead of answering the handshake",
            None,
        ),
    }
}

/// Waits until a process that was started ahead is ready, with its setup if it `has_setup`, or a call has taken it. Returns the
/// reason, if one is known, and the end of the process if it has failed.
async fn failure(
    start_state: &mut watch::Receiver<StartState>,
    has_setup: bool,
) -> Option<(Option<String>, EndedProcess)> {
    let is_settled = |now: &StartState| match now {
        StartState::Starting => false,
        StartState::Ready { is_primed } => *is_primed || !has_setup,
        StartState::Failed { .. } => true,
    };
    let settled = start_state.wait_for(is_settled).await;
    match settled.as_deref() {
        Ok(StartState::Failed { reason, process }) => Some((reason.clone(), (**process).clone())),
        _ => None,
    }
}

/// Starts the server, if none runs; `None` if calls are not made in one.
pub(crate) async fn server<F: Form>(
    sessions: &Arc<Sessions<F>>,
    cli: &Arc<CliBase>,
    next: NextCallJson,
    env: &Arc<Vars>,
) -> Result<Option<Arc<F::Server>>, Box<ProviderError>> {
    let told = NextCall {
        system: next.system.as_deref(),
        tools: next.tools.as_deref(),
        options: &cli.options,
    };
    match F::next_setup(None, &told).map(Arc::new) {
        Some(setup) => server_of(sessions, cli, &setup, env).await,
        None => Ok(None),
    }
}

/// Starts the server, if none runs, and waits until it has loaded what a session needs. The server serves any setup, since the
/// calls open the sessions.
async fn prewarm_server<F: Form>(
    sessions: &Arc<Sessions<F>>,
    cli: &Arc<CliBase>,
    setup: &Arc<SetupOf<F>>,
    env: &Arc<Vars>,
) -> Result<(), Box<ProviderError>> {
    if let Some(server) = server_of(sessions, cli, setup, env).await? {
        let prepared = F::prepare(&server, setup);
        if cli.lifecycle.closing.run_until_cancelled(prepared).await.is_some() {
            (*server).as_ref().prewarmed();
        }
    }
    Ok(())
}

/// The server for sessions with `setup`: one that runs, or a new one. `None` if calls are not made in one.
async fn server_of<F: Form>(
    sessions: &Arc<Sessions<F>>,
    cli: &Arc<CliBase>,
    setup: &Arc<SetupOf<F>>,
    env: &Arc<Vars>,
) -> Result<Option<Arc<F::Server>>, Box<ProviderError>> {
    let program = cli.look(env).map_err(|error| not_found(cli, error))?;
    let process = F::options(Some(setup), None);
    let installed = program.installed(&cli.provider, &cli.options, F::ENGINE, process, F::line)?;
    if let LiveSupport::Unserved(unserved) = program.support(&cli.provider, F::ENGINE) {
        if cli.has_another_form() {
            return Ok(None);
        }
        if cli.is_refused(F::ENGINE, unserved) {
            return Err(auto::refused(cli, F::ENGINE, &unserved.why, None));
        }
    }
    let wanted = Wanted {
        installed: &installed,
        env,
        setup: Some(setup),
    };
    let started = sessions.server(cli, wanted).await;
    ready(cli, F::ENGINE, &installed.binary, started)
}

/// A server that was started ahead; `None` if a call will use print form, or is refused.
fn ready<T>(
    cli: &CliBase,
    used: EngineUsed,
    binary: &Binary,
    started: Result<T, Unusable>,
) -> Result<Option<T>, Box<ProviderError>> {
    match started {
        Ok(server) => Ok(Some(server)),
        Err(Unusable::Cancelled | Unusable::Vanished | Unusable::NotLookedAt | Unusable::Left(_)) => Ok(None),
        Err(Unusable::Failed(error)) => Err(error),
        // The call itself is made without the flag.
        Err(Unusable::FlagRefused(flag)) => {
            capabilities::remember_refused(binary, &flag);
            Ok(None)
        }
        Err(Unusable::Unsupported { reason, .. }) if cli.has_another_form() => {
            capabilities::remember_not_begun(used, binary, reason);
            Ok(None)
        }
        Err(Unusable::Unsupported { reason, ended, .. }) => {
            let evidence = ended.as_ref().map(|ended| &ended.evidence);
            Err(auto::refused(cli, used, &reason, evidence))
        }
    }
}

/// The models that a process of `sessions` tells; the reason if there is none to ask, or it does not tell.
///
/// # Errors
/// Those of a call whose CLI can't be started; `NOT_LOGGED_IN` and its like.
pub(crate) async fn models<F: Form>(
    sessions: &Arc<Sessions<F>>,
    cli: &Arc<CliBase>,
    env: &Arc<Vars>,
) -> Result<Result<Vec<ListedModel>, String>, Box<ProviderError>> {
    if !F::LISTS_MODELS {
        return Ok(Err("its kept processes tell no models".to_owned()));
    }
    let next = || NextCallJson {
        system: Some(String::new()),
        tools: Some(Vec::new()),
    };
    if F::PROCESSES.are_shared() {
        let server = server(sessions, cli, next(), env).await?;
        let Some(server) = server else {
            return Ok(Err(no_process()));
        };
        let asked = ModelsAsked {
            options: &cli.options,
            tracker: &cli.lifecycle.runs,
        };
        return match F::models(&server, asked).await {
            Ok(models) => Ok(Ok(models)),
            Err(reason) => match login_missing(cli, &reason) {
                Some(error) => Err(error),
                None => Ok(Err(reason)),
            },
        };
    }
    let program = cli.look(env).map_err(|error| not_found(cli, error))?;
    if let Some(told) = sessions.form.reported_models(program.binary()) {
        return Ok(Ok(told));
    }
    prewarm(sessions, cli, next(), env).await?;
    Ok(sessions.form.reported_models(program.binary()).ok_or_else(no_process))
}

fn no_process() -> String {
    "no process could be started that tells them: the installed CLI keeps none, or `maxProcesses` leaves no room"
        .to_owned()
}
