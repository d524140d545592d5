//! A turn in a session that shares its process: the part that is the same for every form.
//!
//! In: the events that the process sends about the session, by its [`Inbox`]. Out: the turn's [reports](Report), and how a turn
//! ends whose process says nothing more ([`Incoming::closed`]) or does not take a request ([`request_failed`]).

use std::time::Duration;

use super::inbox::Inbox;
use super::turn::{Report, TurnEnd};
use crate::host::{Heartbeat, Host};
use crate::rpc::RequestError;
use dfp_model::event::{Event, Failure};

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
