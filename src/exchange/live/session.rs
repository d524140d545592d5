//! A session: one conversation of a kept process, in its turns and between them.
//!
//! In: the [input](TurnInput) of one turn after the other. Out: the events of the turn, in its [`Report`], and its [`TurnEnd`].
//! A session either has a process of its own, or lives in a [`Host`] with others. Between its turns, the
//! [pool](super::pool::Pool) holds it; in a turn, a [`Turn`](super::turn::Turn) does.
//!
//! Some parts of a turn are the same for every form. A session with its own process reads until the turn's result has come, or the process
//! is gone ([`read_turn`]). One that shares its process gets the events about it by its [`Inbox`] ([`Incoming`]); a process that says
//! nothing more ([`Incoming::closed`]) or does not take a request ([`request_failed`]) ends the turn.
//!
//! While no call holds a session, a task does: it answers the CLI, ends the session when necessary, and tells the progress of its start
//! ([`StartState`]).

use std::fmt::Debug;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until};
use tokio_util::task::TaskTracker;

use super::streams::LineProcess;
use super::turn::{Report, TurnEnd};
use crate::EndedProcess;
use crate::host::{Heartbeat, Host, Inbox};
use crate::rpc::RequestError;
use dfp_model::event::{Event, Failure, Outcome};

/// The time that a CLI may take to answer the handshake, the same as for a host: half a second on an idle machine. qwen 0.24.4 was
/// seen to take more than 30 s on two cores with a load of 20.
pub const HANDSHAKE: Duration = Duration::from_secs(60);

/// The progress of the handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handshake {
    /// Nothing was sent to the CLI yet.
    Unasked,
    /// `initialize` was sent at this time, and is not answered yet.
    Asked(Instant),
    /// The CLI speaks the protocol.
    Done,
}

/// The origin of a turn's session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A session that knows nothing.
    Fresh,
    /// A session that knows nothing, in a process that was started ahead.
    Spare,
    /// A session that knows the thread's beginning.
    Continued,
}

/// The beginning of a turn.
#[derive(Debug)]
pub struct TurnInput<S: Session> {
    /// The whole thread for a session that knows nothing, or else its new part.
    pub input: S::Input,
    /// The setup that the session has, or is to get with this turn.
    pub setup: Arc<S::Setup>,
    pub origin: Origin,
}

/// A report of a session's own process, in a turn or between two turns.
#[derive(Debug, PartialEq, Eq)]
pub enum Pulse {
    /// A line came, and perhaps events.
    Alive,
    /// The session has answered what it was sent ahead: a turn would not wait for its start. Reported once for each priming.
    Ready {
        /// True if that was its [setup](Session::prime).
        is_primed: bool,
    },
    /// The turn's result is among the events.
    TurnOver,
    /// The CLI lacks something that a session needs; the reason.
    Unsupported(String),
    /// The process is going or gone, or the session can't continue.
    Ended,
    /// The process could not read what it was started with: another one can take the turn.
    Lost,
}

/// The process in which a session lives.
#[derive(Debug, Clone, Copy)]
pub enum SessionProcess<'a> {
    /// A process of its own.
    Own(&'a LineProcess),
    /// The host that it shares with others; the tracker tracks what the session leaves behind.
    Shared(&'a Host, &'a TaskTracker),
}

/// A session of any form. The methods with a body are for some forms alone.
pub trait Session: Debug + Send + Sized + 'static {
    /// The setup of the session. Sessions with different setups are not exchangeable.
    type Setup: PartialEq + Debug + Send + Sync + 'static;
    /// The input that a turn begins with.
    type Input: Debug + Send + Sync + 'static;
    /// The facts known of a reply beside its events.
    type ReplyFacts: Send + 'static;

    /// True if the CLI loses the result of a call whose id it has had before: a session whose API repeats an id is not continued.
    const LOSES_REPEATED_IDS: bool = false;

    /// The process in which it lives; `None` only for a made-up one.
    fn process(&self) -> Option<SessionProcess<'_>> {
        None
    }

    /// Its own process; `None` for a session that shares one.
    fn own(&self) -> Option<&LineProcess> {
        match self.process() {
            Some(SessionProcess::Own(process)) => Some(process),
            _ => None,
        }
    }

    /// The host that it shares with others; `None` for a session with a process of its own.
    fn host(&self) -> Option<&Host> {
        match self.process() {
            Some(SessionProcess::Shared(host, _)) => Some(host),
            _ => None,
        }
    }

    /// The id of its process.
    fn pid(&self) -> u32 {
        match self.process() {
            Some(SessionProcess::Own(process)) => process.pid(),
            Some(SessionProcess::Shared(host, _)) => host.pid(),
            None => std::process::id(),
        }
    }

    /// Makes a turn; dropped if the turn is given up.
    fn turn(
        &mut self,
        turn: TurnInput<Self>,
        report: &Report,
    ) -> impl Future<Output = TurnEnd<Self::ReplyFacts>> + Send;

    /// Stops the turn, and ends the session. A process of its own is killed `kill_grace` after it was asked to end; the result is
    /// its end.
    fn stop(self, kill_grace: Duration) -> impl Future<Output = Option<EndedProcess>> + Send {
        let is_own = self.own().is_some();
        async move {
            match is_own {
                true => stop_turn(self, kill_grace).await,
                false => self.ended(false).await,
            }
        }
    }

    /// Answers the CLI's requests between turns, until there is something to report of the session. Cancel safe.
    fn idle(&mut self) -> impl Future<Output = Pulse> + Send;

    /// Ends the session, unless its process `has_ended` by itself, and waits for that; returns the end of a process of its own.
    fn ended(self, has_ended: bool) -> impl Future<Output = Option<EndedProcess>> + Send;

    /// Ends the session in the background.
    fn end(self) {
        let tracker = match self.process() {
            Some(SessionProcess::Own(process)) => process.tracker().clone(),
            Some(SessionProcess::Shared(_, tracker)) => tracker.clone(),
            None => return,
        };
        tracker.spawn(self.ended(false));
    }

    /// Returns whether its process is gone or ending already, though nobody has noticed yet.
    fn is_ending(&self) -> bool {
        self.own().is_some_and(|process| process.streams.process().is_ending())
    }

    /// Returns whether the session can take no more turns, though nothing is wrong with it.
    fn is_worn_out(&self) -> bool {
        false
    }

    /// The model that answers, if the CLI knows that it takes no images. Asked only for calls with an image.
    fn blind_model(&self) -> impl Future<Output = Option<String>> + Send {
        std::future::ready(None)
    }

    // A session with a process of its own, which may be started ahead of a call, as a spare:

    /// Waits for the next line of the turn, and adds its meaning to `events`. Cancel safe.
    fn next(&mut self, _events: &mut Vec<Event>) -> impl Future<Output = Pulse> + Send {
        std::future::ready(Pulse::Ended)
    }

    /// Queues the request to stop the turn.
    fn say_interrupt(&mut self) {}

    /// Returns whether a process that was started without knowing its setup can be told this one.
    fn serves_any_start(_setup: &Self::Setup) -> bool {
        true
    }

    /// Sends `setup` ahead of the first turn.
    fn prime(&mut self, _setup: &Arc<Self::Setup>) {}

    /// Asks for the CLI's version, in a process that can't be sent anything else yet: an answer shows that it has started.
    fn ask_version(&mut self) {}

    /// The CLI's version, if the CLI has reported it when it was [asked](Session::ask_version).
    fn version(&self) -> Option<&str> {
        None
    }

    /// The deadline for the answer to what was sent ahead; `None` if nothing is due.
    fn answers_by(&self) -> Option<Instant> {
        None
    }
}

/// The time that an interrupted turn may take to say so before its process is asked to end: 1 ms on an idle machine.
const INTERRUPT: Duration = Duration::from_millis(500);

/// The time that a process that has waited for a turn may take to print something of it: claude and qwen print a line of their
/// own before they ask their API, in milliseconds on an idle machine. A process that prints nothing is stopped or hangs, and the
/// model has seen nothing of the turn.
const PATIENCE: Duration = Duration::from_secs(20);

/// The events of a turn that fails for a reason that the CLI does not report as one.
pub fn failed_turn(failure: Failure) -> [Event; 2] {
    let outcome = Outcome {
        is_error: true,
        ..Outcome::default()
    };
    [Event::Failure(failure), Event::Outcome(Box::new(outcome))]
}

/// Reports the events of the turn that `session` has begun, until its end. A process that had waited and prints nothing for
/// `PATIENCE`, or ends without having printed anything, has vanished: another one can take the turn. `known` gets the facts known of
/// a reply.
pub async fn read_turn<S: Session>(
    session: &mut S,
    origin: Origin,
    report: &Report,
    known: impl FnOnce(&mut S) -> S::ReplyFacts,
) -> TurnEnd<S::ReplyFacts> {
    let mut events = Vec::new();
    let overdue = Instant::now() + PATIENCE;
    let pulse = loop {
        let has_waited = origin != Origin::Fresh && handshake(session) == Handshake::Done;
        let is_silent = has_waited && lines(session) == 0;
        let pulse = tokio::select! {
            biased;
            pulse = pulse(session, &mut events) => pulse,
            () = sleep_until(overdue), if is_silent => return TurnEnd::Vanished,
        };
        report.received(session.own().map_or(0, |process| process.streams.turn().bytes as u64));
        // Until a process that has waited prints something, nobody knows whether it is still there.
        if lines(session) > 0 {
            report.begun();
        }
        match pulse {
            Pulse::Alive | Pulse::Ready { .. } => report.tell(&mut events).await,
            pulse => break pulse,
        }
    };
    report.push(events);
    let is_handshaken = handshake(session) == Handshake::Done;
    match pulse {
        Pulse::Alive | Pulse::Ready { .. } | Pulse::TurnOver => TurnEnd::Reply {
            goes_on: true,
            known: known(session),
            diagnostics: (session.own()).map_or_else(Vec::new, |process| process.decoder.diagnostics().to_vec()),
            stdout_tail: (session.own()).map_or_else(String::new, |process| process.streams.turn().tail()),
        },
        Pulse::Unsupported(reason) => TurnEnd::Unsupported {
            reason,
            may_have_asked: is_handshaken,
        },
        Pulse::Lost => TurnEnd::Vanished,
        Pulse::Ended if origin != Origin::Fresh && lines(session) == 0 => TurnEnd::Vanished,
        Pulse::Ended => TurnEnd::ProcessGone {
            process: None,
            is_handshaken,
        },
    }
}

/// The number of lines of the turn.
fn lines(session: &impl Session) -> u64 {
    session.own().map_or(0, |process| process.streams.turn().lines)
}

/// The progress of the handshake of `session`.
fn handshake(session: &impl Session) -> Handshake {
    session.own().map_or(Handshake::Done, |process| process.handshake)
}

/// Waits for the next line in the turn of `session`; a CLI that is asked for the handshake has to answer it in time.
async fn pulse<S: Session>(session: &mut S, events: &mut Vec<Event>) -> Pulse {
    let deadline = match handshake(session) {
        Handshake::Asked(asked) => Some(asked + HANDSHAKE),
        _ => None,
    };
    let handshake_late = async {
        match deadline {
            Some(deadline) => sleep_until(deadline).await,
            None => pending().await,
        }
    };
    tokio::select! {
        biased;
        () = handshake_late => {
            Pulse::Unsupported(format!("it did not answer the handshake within {} s", HANDSHAKE.as_secs()))
        }
        pulse = session.next(events) => pulse,
    }
}

/// Asks the CLI to stop the turn, waits a moment for its result or its end, and ends the process.
pub async fn stop_turn<S: Session>(mut session: S, kill_grace: Duration) -> Option<EndedProcess> {
    session.say_interrupt();
    let mut unheard = Vec::new();
    let over = async {
        while session.next(&mut unheard).await == Pulse::Alive {
            unheard.clear();
        }
    };
    let _ = tokio::time::timeout(INTERRUPT.min(kill_grace), over).await;
    session.ended(false).await
}

/// The time to wait for the exit of a process that has closed its output.
pub const EXIT: Duration = Duration::from_secs(10);
/// The kind of failure of a turn whose process has ended, or hangs.
pub const GONE: &str = "server_gone";
/// The answer to a call that no tool can take.
pub const UNFIT: &str = "Error: the arguments must be a JSON object";

/// The words for a process in the reasons of failures.
#[derive(Debug, Clone, Copy)]
pub struct Program {
    /// The program and its arguments.
    pub process: &'static str,
    /// The CLI's name of a session.
    pub session: &'static str,
}

/// The next step for a turn whose events are read one by one.
#[derive(Debug, PartialEq, Eq)]
pub enum TurnStep {
    /// There is more to come.
    More,
    /// The reply has come, with the calls of the caller's tools.
    Reply,
    /// The turn failed; the reason is among the events.
    Failed,
}

/// Adds the last events of a turn: its usage, if that is known, and its `outcome`.
pub fn push_outcome(outcome: Outcome, events: &mut Vec<Event>) {
    events.extend(outcome.usage.clone().map(|usage| Event::Usage {
        usage,
        raw_stop_reason: outcome.stop_reason.clone(),
    }));
    events.push(Event::Outcome(Box::new(outcome)));
}

/// The event that tells of the session `id`. An empty `model` is one that is not known.
pub fn opening(id: &str, model: &str, version: Option<&str>) -> Event {
    Event::Session {
        session_id: Some(id.to_owned()),
        model: Some(model.to_owned()).filter(|model| !model.is_empty()),
        permission_mode: None,
        version: version.map(str::to_owned),
    }
}

/// The incoming events of one turn.
pub struct Incoming<'a> {
    report: &'a Report,
    /// The check whether the process answers, for messages that have no answer.
    pub heartbeat: Heartbeat,
    /// The event that tells of the session, until something has come.
    opening: Option<Event>,
    /// The number of bytes that had come before the turn.
    before: u64,
    /// The events that are to be reported.
    pub events: Vec<Event>,
    /// True if the process leaves the heartbeat unanswered.
    hangs: bool,
}

impl<'a> Incoming<'a> {
    /// Makes the beginning of a turn to which `inbox` belongs. `opening` is reported before its first event.
    pub fn new<E>(report: &'a Report, inbox: &Inbox<E>, heartbeat: Heartbeat, opening: Event) -> Incoming<'a> {
        Incoming {
            report,
            heartbeat,
            opening: Some(opening),
            before: inbox.bytes(),
            events: Vec::new(),
            hangs: false,
        }
    }

    /// Waits for the next event; `None` if none will come, or if the process does not answer and nobody knows whether it has got
    /// the turn. Cancel safe.
    pub async fn wait<E>(&mut self, inbox: &mut Inbox<E>) -> Option<E> {
        tokio::select! {
            biased;
            event = inbox.next() => event,
            () = self.heartbeat.missed(), if self.opening.is_some() => {
                self.hangs = true;
                None
            }
        }
    }

    /// Waits for the next event like [`Incoming::wait`]; with the first one, the turn has begun. Cancel safe.
    pub async fn next<E>(&mut self, inbox: &mut Inbox<E>) -> Option<E> {
        let event = self.wait(inbox).await;
        match event {
            Some(_) => self.begun(inbox),
            None => self.received(inbox),
        }
        event
    }

    /// Notes that the turn has begun.
    pub fn begun<E>(&mut self, inbox: &Inbox<E>) {
        self.received(inbox);
        self.report.begun();
        self.events.splice(0..0, self.opening.take());
    }

    fn received<E>(&self, inbox: &Inbox<E>) {
        let received = inbox.bytes() - self.before;
        self.report.received(received);
        if received > 0 {
            self.report.begun();
        }
    }

    /// Returns whether the process leaves the heartbeat unanswered.
    pub fn hangs(&self) -> bool {
        self.hangs
    }

    /// Returns whether nothing has come of the turn.
    pub fn is_untouched(&self) -> bool {
        self.opening.is_some()
    }

    /// Reports the events so far, and waits until they were taken.
    pub async fn tell(&mut self) {
        self.report.tell(&mut self.events).await;
    }

    /// Reports the last events.
    pub fn push(&mut self) {
        self.report.push(self.events.drain(..));
    }

    /// The end of a turn for which nothing more comes. `is_fresh`: its session was opened for it.
    pub async fn closed<R>(self, host: &Host, is_fresh: bool, program: Program) -> TurnEnd<R> {
        if self.hangs {
            // Nobody gets the input any more: the whole thread goes to another process.
            return TurnEnd::Vanished;
        }
        if !host.is_over() {
            let reason = format!("more came for this {} than could be taken", program.session);
            return self.report.fail(Failure::of(reason));
        }
        // Nothing came back, not even for results, which are reported at once: the process was gone by then.
        if self.is_untouched() && !is_fresh {
            return TurnEnd::Vanished;
        }
        request_failed(self.report, host, program, RequestError::Gone).await
    }
}

/// The end of a turn whose session could not be opened. A process that `had_served`, and is gone or hangs now, got nothing of the
/// turn, so that another one may take it; one that never was of use would fail again.
pub async fn not_opened<R>(
    report: &Report,
    host: &Host,
    had_served: bool,
    program: Program,
    error: RequestError,
) -> TurnEnd<R> {
    match error {
        RequestError::Gone | RequestError::Unanswered(_) if had_served => TurnEnd::Vanished,
        error => request_failed(report, host, program, error).await,
    }
}

/// The end of a turn for which the process has not taken a request.
pub async fn request_failed<R>(report: &Report, host: &Host, program: Program, error: RequestError) -> TurnEnd<R> {
    let process = program.process;
    match error {
        RequestError::Refused(refused) => report.fail(Failure::of(refused.message)),
        RequestError::TooLong => {
            let reason = format!("{process} answered with a line that is longer than can be taken");
            report.fail(Failure::named("line_too_long", reason))
        }
        RequestError::Unanswered(unanswered) => {
            report.fail(Failure::named(GONE, format!("{process} hangs: {unanswered}")))
        }
        RequestError::Gone => {
            let exit = host.ended(EXIT).await;
            let failure = Failure::named(GONE, format!("{process} ended in the middle of a turn"));
            report.host_gone(exit.as_deref(), failure)
        }
    }
}

/// A command to the task.
pub(super) enum IdleCommand<S: Session> {
    /// Hand over the session.
    Hand(oneshot::Sender<Box<S>>),
    /// Send this setup ahead of the first turn.
    Prime(Arc<S::Setup>),
}

/// The channel to the task; dropping it ends the session.
pub(super) type IdleHandle<S> = mpsc::UnboundedSender<IdleCommand<S>>;

/// The progress of a process that was started ahead.
#[derive(Debug, Clone)]
pub enum StartState {
    /// The process has not answered yet.
    Starting,
    /// The process has answered what it was sent ahead.
    Ready {
        /// True if that was its setup. Whoever has just ordered the setup may still see the state before.
        is_primed: bool,
    },
    /// The process takes no turn.
    Failed {
        /// The feature that it lacks; `None` if it has ended by itself.
        reason: Option<String>,
        /// The end of the process.
        process: Box<EndedProcess>,
    },
}

/// Watches `session` until it is fetched through the returned channel, or must end, at the latest after `longest`. When it ends,
/// `forget` is called with whether it was unused for too long. The task is tracked by `tracker`.
pub(super) fn watch<S: Session>(
    mut session: S,
    longest: Duration,
    start_state: Option<watch::Sender<StartState>>,
    tracker: &TaskTracker,
    forget: impl FnOnce(bool) + Send + 'static,
) -> IdleHandle<S> {
    let (line, mut orders) = mpsc::unbounded_channel();
    tracker.spawn(async move {
        let tell = |now| {
            if let Some(start_state) = &start_state {
                start_state.send_replace(now);
            }
        };
        let expires = Instant::now() + longest;
        let reason = loop {
            let answers_by = session.answers_by();
            tokio::select! {
                biased;
                order = orders.recv() => match order {
                    Some(IdleCommand::Hand(caller)) => {
                        // A caller that is gone leaves the session in an unknown state.
                        if let Err(session) = caller.send(Box::new(session)) {
                            session.end();
                        }
                        return;
                    }
                    Some(IdleCommand::Prime(setup)) => {
                        tell(StartState::Starting);
                        session.prime(&setup);
                    }
                    None => {
                        forget(false);
                        return session.end();
                    }
                },
                idle = session.idle() => match idle {
                    Pulse::Ready { is_primed } => tell(StartState::Ready { is_primed }),
                    Pulse::Unsupported(reason) => break Some(reason),
                    Pulse::Alive => {}
                    Pulse::TurnOver | Pulse::Ended | Pulse::Lost => break None,
                },
                () = sleep_until(answers_by.unwrap_or(expires)), if answers_by.is_some() => {
                    let limit = HANDSHAKE.as_secs();
                    break Some(format!("it did not answer the handshake within {limit} s"));
                }
                () = sleep_until(expires) => {
                    forget(true);
                    return session.end();
                }
            }
        };
        forget(false);
        if let Some(process) = session.ended(reason.is_none()).await {
            let process = Box::new(process);
            tell(StartState::Failed { reason, process });
        }
    });
    line
}

/// Fetches the session from the task at the other end; `None` if its process has died meanwhile.
pub(super) async fn fetch<S: Session>(line: IdleHandle<S>) -> Option<Box<S>> {
    let (caller, session) = oneshot::channel();
    line.send(IdleCommand::Hand(caller)).ok()?;
    session.await.ok()
}
