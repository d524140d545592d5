//! One turn of a live session, from its user line to the verdict.
//!
//! In: a session and what it is told. Out: events on the way, and how it [`Turned`] out. Whatever a turn comes to but a
//! reply ends its session: the CLI keeps a failed turn in its history (CLI-FACTS 1.6), and no thread shall hear of another.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, sleep_until};

use super::attempt::{Attempt, ending, refused_flag};
use super::learnt::{self, Binary};
use super::live::Taken;
use super::log::Level;
use super::{local_offset_min, millis as ms, now_ms};
use crate::classify;
use crate::command::CommandLine;
use crate::conversation::live::session::{Handshake, Pulse, Session};
use crate::conversation::live::setup::Setup;
use crate::conversation::live::thread::Pending;
use crate::conversation::print::Finished;
use crate::decode::Wire;
use crate::error::ProviderError;
use crate::event::{Event, Reply, RunInfo};
use crate::fold::{Fold, Folded};
use crate::judge::{Ending, Facts, judge};
use crate::message::Usage;
use crate::process::{End, Limits};
use crate::toolcall::TextCalls;

/// How long the CLI may take to answer the handshake: half a second on an idle machine.
const HANDSHAKE: Duration = Duration::from_secs(30);
/// How long a turn that is given up may take to say so before its process is told to end: 1 ms on an idle machine.
const INTERRUPT: Duration = Duration::from_millis(500);

/// Where a turn's session comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// Started for it.
    Fresh,
    /// Started ahead, and told nothing yet.
    Spare,
    /// It knows the thread's beginning.
    Continued,
}

/// How a turn came out.
pub(super) enum Turned {
    /// With a reply.
    Replied(Box<Replied>),
    Cancelled,
    /// The CLI refused a flag the run can do without.
    FlagRefused(String),
    /// The process that waited for a turn has died before it heard of this one.
    Vanished,
    /// The CLI can't do this, for this reason.
    Unfit(String, Box<Finished>),
}

/// A turn with a reply.
pub(super) struct Replied {
    pub reply: Box<Reply>,
    /// If it can go on: the session, and the calls whose results it waits for.
    pub session: Option<(Session, Vec<Pending>)>,
    /// The last events, to be sent when the session is where the thread's next call finds it.
    pub events: Vec<Event>,
}

/// Why the driving stopped.
enum Over {
    Result,
    /// The process is going or gone.
    Ended,
    Cancelled,
    Late(End),
    Unfit(String),
}

/// A turn under way.
struct Turn<'a> {
    attempt: &'a Attempt<'a>,
    line: &'a CommandLine,
    from: Origin,
    limits: Limits,
    /// What the session was told.
    words: String,
    fold: Fold,
    pending: Vec<Pending>,
    /// Ready to go out.
    events: Vec<Event>,
    /// Go out behind the first.
    notes: Option<Vec<Event>>,
}

/// Takes one turn. `binary` is what `line` runs.
pub(super) async fn take(
    attempt: &Attempt<'_>,
    taken: Taken,
    setup: &Arc<Setup>,
    (line, binary): (&CommandLine, &Binary),
    info: &mut RunInfo,
) -> Result<Turned, Box<ProviderError>> {
    let Taken {
        mut session,
        words,
        from,
        notes,
    } = taken;
    session.begin(&words, setup);
    info.continued = Some(from == Origin::Continued);
    let mut turn = Turn {
        attempt,
        line,
        from,
        limits: attempt.limits(),
        words,
        fold: Fold::new(attempt.request.call_ids.clone(), TextCalls::Off).heard(attempt.sink.heard()),
        pending: Vec::new(),
        events: Vec::new(),
        notes: Some(notes),
    };
    // Of a process that has waited nobody knows yet whether it is still there.
    if from == Origin::Fresh {
        turn.announce(&session, info);
        attempt.sink.send(&mut turn.events).await;
    }
    match turn.drive(&mut session, info).await {
        Over::Result => turn.replied(session, info).await,
        Over::Ended if from != Origin::Fresh && session.turn_lines() == 0 => {
            session.end();
            Ok(Turned::Vanished)
        }
        Over::Ended => {
            let handshaken = session.handshake() == Handshake::Done;
            let finished = session.finished().await;
            turn.ended(finished, handshaken, binary, info).await
        }
        Over::Cancelled => {
            session.interrupt(turn.patience()).await;
            let finished = session.finish().await;
            attempt.ended(&finished.exit, info);
            Ok(Turned::Cancelled)
        }
        Over::Late(end) => {
            session.interrupt(turn.patience()).await;
            let mut finished = session.finish().await;
            finished.exit.end = end;
            attempt.ended(&finished.exit, info);
            turn.failed(&finished, info).await
        }
        Over::Unfit(reason) => {
            let finished = session.finish().await;
            attempt.ended(&finished.exit, info);
            Ok(Turned::Unfit(reason, Box::new(finished)))
        }
    }
}

impl Turn<'_> {
    /// Hands on what the session says until the turn is over, one way or another.
    async fn drive(&mut self, session: &mut Session, info: &mut RunInfo) -> Over {
        let began = Instant::now();
        let deadline = self.limits.timeout.map(|limit| began + limit);
        self.attempt.sink.log.ends_at(deadline);
        let mut heard = began;
        let mut decoded = Vec::new();
        loop {
            let handshake = match session.handshake() {
                Handshake::Asked(asked) => Some(asked + HANDSHAKE),
                _ => None,
            };
            let pulse = tokio::select! {
                biased;
                () = self.attempt.cancel.cancelled() => return Over::Cancelled,
                () = at(deadline) => return Over::Late(End::Timeout),
                () = at(self.limits.idle_timeout.map(|limit| heard + limit)) => return Over::Late(End::IdleTimeout),
                () = at(handshake) => {
                    let reason = format!("it did not answer the handshake within {} s", HANDSHAKE.as_secs());
                    return Over::Unfit(reason);
                }
                pulse = session.next(&mut decoded) => pulse,
            };
            if session.turn_lines() > 0 {
                self.announce(session, info);
                info.first_byte_ms.get_or_insert_with(|| ms(session.elapsed()));
            }
            if !decoded.is_empty() {
                info.first_event_ms.get_or_insert_with(|| ms(session.elapsed()));
            }
            for event in decoded.drain(..) {
                self.push(event);
            }
            self.attempt.sink.send(&mut self.events).await;
            heard = Instant::now();
            match pulse {
                Pulse::Alive if session.turn_bytes() > self.limits.max_stdout => return Over::Late(End::OutputLimit),
                Pulse::Alive => {}
                Pulse::TurnOver => return Over::Result,
                Pulse::Unfit(reason) => return Over::Unfit(reason),
                Pulse::Ended => return Over::Ended,
            }
        }
    }

    fn push(&mut self, event: Event) {
        let api = match &event {
            Event::ToolCall { tool_call } => Some(tool_call.id.clone()),
            _ => None,
        };
        let before = self.events.len();
        self.fold.push(event, &mut self.events);
        // None, where it was printed before.
        let new = self.events.get(before..).and_then(<[Event]>::last);
        if let (Some(api), Some(Event::ToolCall { tool_call })) = (api, new) {
            let given = tool_call.id.clone();
            self.pending.push(Pending { api, given });
        }
    }

    /// Sends the first event and what goes with it, once.
    fn announce(&mut self, session: &Session, info: &mut RunInfo) {
        let Some(notes) = self.notes.take() else { return };
        let attempt = self.attempt;
        let pid = session.process().pid();
        info.pid = Some(pid);
        attempt.sink.log.about(Some(pid));
        let message = match self.from {
            Origin::Continued => "continued",
            Origin::Fresh | Origin::Spare => "started",
        };
        let fields = json!({"attempt": attempt.number, "spare": self.from == Origin::Spare, "flags": self.line.flags});
        attempt.log(Level::Info, message, fields);
        self.events.push(Event::Start {
            run_id: attempt.run_id.to_owned(),
            provider: attempt.engine.id().to_owned(),
            pid: Some(pid),
            attempt: attempt.number,
            queued_ms: info.queued_ms.unwrap_or_default(),
        });
        self.events.extend(notes);
    }

    fn patience(&self) -> Duration {
        INTERRUPT.min(self.limits.kill_grace)
    }

    /// The turn has its result: the verdict.
    async fn replied(mut self, mut session: Session, info: &RunInfo) -> Result<Turned, Box<ProviderError>> {
        let mut folded = self.fold.finish(&mut self.events);
        folded.reply.cost_usd = folded.reply.cost_usd.map(|total| session.turn_cost(total));
        let (tail, flags) = (session.turn_tail(), self.line.all_flags());
        let facts = Facts {
            diagnostics: session.diagnostics(),
            stdout_tail: &tail,
            ..no_facts(self.attempt, &flags)
        };
        let call = (self.words.as_str(), info, self.attempt.sink.heard());
        let verdict = verdict(&facts, folded, call, &mut self.events);
        let fields = json!({"turnMs": ms(session.elapsed()), "failed": verdict.is_err()});
        self.attempt.log(Level::Info, "turn over", fields);
        let reply = match verdict {
            Ok(reply) => reply,
            Err(error) => {
                session.end();
                self.attempt.sink.send(&mut self.events).await;
                return Err(error);
            }
        };
        let mut pending = self.pending;
        // Those the CLI has answered itself are nobody's to answer.
        pending.retain(|call| reply.tool_calls.iter().any(|known| known.id == call.given));
        let session = if pending.len() == reply.tool_calls.len() {
            Some((session, pending))
        } else {
            // A call that the session does not wait for: no result of it can be given back natively.
            session.end();
            None
        };
        let events = self.events;
        Ok(Turned::Replied(Box::new(Replied { reply, session, events })))
    }

    /// The process has ended in the middle of the turn.
    async fn ended(
        self,
        finished: Finished,
        handshaken: bool,
        binary: &Binary,
        info: &mut RunInfo,
    ) -> Result<Turned, Box<ProviderError>> {
        let exit = &finished.exit;
        self.attempt.ended(exit, info);
        if matches!(exit.end, End::Cancelled | End::Closed) {
            return Ok(Turned::Cancelled);
        }
        let provider = self.attempt.engine.id();
        if let Some(flag) = refused_flag(provider, exit, &self.line.optional_flags) {
            learnt::remember(binary, &flag);
            return Ok(Turned::FlagRefused(flag));
        }
        if !handshaken {
            if let Some(flag) = classify::unsupported_flag(provider, &exit.stderr) {
                return Ok(Turned::Unfit(format!("it does not know {flag}"), Box::new(finished)));
            }
            if exit.code == Some(0) {
                let reason = "it ended with exit code 0 instead of answering the handshake".to_owned();
                return Ok(Turned::Unfit(reason, Box::new(finished)));
            }
        }
        self.failed(&finished, info).await
    }

    /// Why a turn whose process is no more has failed.
    async fn failed(mut self, finished: &Finished, info: &RunInfo) -> Result<Turned, Box<ProviderError>> {
        let folded = self.fold.finish(&mut self.events);
        let (exit, flags) = (&finished.exit, self.line.all_flags());
        let facts = Facts {
            ending: ending(exit.end, self.limits),
            exit_code: exit.code,
            signal: exit.signal.as_deref(),
            stderr: &exit.stderr,
            plain: finished.plain.as_deref(),
            cut_short: finished.cut_short,
            diagnostics: &finished.diagnostics,
            stdout_tail: &finished.stdout_tail,
            ..no_facts(self.attempt, &flags)
        };
        let call = (self.words.as_str(), info, self.attempt.sink.heard());
        let verdict = verdict(&facts, folded, call, &mut self.events);
        self.attempt.sink.send(&mut self.events).await;
        let events = Vec::new();
        verdict.map(|reply| {
            Turned::Replied(Box::new(Replied {
                reply,
                session: None,
                events,
            }))
        })
    }
}

fn no_facts<'a>(attempt: &'a Attempt<'_>, flags: &'a [String]) -> Facts<'a> {
    let provider = &attempt.engine.provider;
    Facts {
        provider: attempt.engine.id(),
        versions: provider.about.versions,
        fatal_stderr: provider.fatal_stderr,
        fatal_stdout: provider.fatal_stdout,
        error_message: provider.error_message,
        flags,
        user_rules: &[],
        unreached: false,
        wire: Wire::ClaudeStream,
        ending: Ending::TurnOver,
        exit_code: None,
        signal: None,
        stderr: "",
        plain: None,
        cut_short: false,
        diagnostics: &[],
        stdout_tail: "",
        now_ms: now_ms(),
        local_offset_min: local_offset_min(),
    }
}

/// The reply, or why there is none. What the end adds to the events is in `events`, the reply only if they are `heard`.
fn verdict(
    facts: &Facts,
    mut folded: Folded,
    (words, info, heard): (&str, &RunInfo, bool),
    events: &mut Vec<Event>,
) -> Result<Box<Reply>, Box<ProviderError>> {
    let told = folded.usage_told;
    let measured = folded.usage.clone();
    folded.reply.usage = measured.unwrap_or_else(|| Usage::estimate(words, &folded.text()));
    let mut reply = judge(facts, folded)?;
    reply.run = Some(info.clone());
    if !told {
        events.push(Event::Usage {
            usage: reply.usage.clone(),
            raw_stop_reason: reply.stop_reason.clone(),
        });
    }
    let reply = Box::new(reply);
    if heard {
        events.push(Event::Done { reply: reply.clone() });
    }
    Ok(reply)
}

async fn at(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => pending().await,
    }
}
