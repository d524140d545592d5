//! One turn of a kept session: opens the session if there is none, sends the new part of the thread, and reads until the agent
//! has answered or waits for the results of its calls.
//!
//! In: an [`AcpTurnInput`]. Out: events, and the result of the turn. Giving the turn up cancels the prompt and ends the session; so
//! does every result but a reply.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};
use tokio_util::task::TaskTracker;

use super::session::KeptSession;
use super::setup::AcpSetup;
use super::tools::{SessionTools, next_call, refuse_early};
use crate::EndedProcess;
use crate::acp::call::{CallWork, SessionPlace};
use crate::acp::server::AcpServer;
use crate::form::WorkParts;
use crate::live::keep::Keepable;
use crate::live::turn::{self, Report, Work};
use crate::rpc::RequestError;
use dfp_model::event::{Event, Failure, Outcome};
use dfp_model::message::{Content, ToolResult};
use dfp_provider::WarmForm;

/// The time without an update after which a call counts as the last of those that are made at once: opencode makes them within a
/// few milliseconds, gemini and qwen one after the other. A later call belongs to the next turn.
const QUIET: Duration = Duration::from_millis(100);
/// The time that a call is ahead of what the agent tells at most: of the call itself, and of what its model has said before it. It comes
/// over another connection; on a busy machine opencode's was half a second late.
const AHEAD: Duration = Duration::from_secs(2);
/// The kind of failure of a session for which there are no tools.
const NO_TOOLS: &str = "no_tools";

/// The result of a call, by the API's id.
#[derive(Debug)]
pub struct AcpCallResult {
    pub call: String,
    pub result: ToolResult,
}

/// The new part of a thread for a session.
#[derive(Debug)]
pub enum AcpNew {
    /// The next prompt.
    Prompt(String),
    /// The results of all calls that wait.
    Results(Vec<AcpCallResult>),
}

/// The input of a turn, and its session.
#[derive(Debug)]
pub enum AcpTurnInput {
    /// The whole thread as a prompt, for a session that is to be opened.
    Fresh {
        server: Arc<AcpServer>,
        form: WarmForm,
        prompt: String,
    },
    /// The new part, for a session that knows the beginning.
    Continued { session: Box<KeptSession>, new: AcpNew },
}

type KeptTurnEnd = turn::TurnEnd<KeptSession, ()>;

/// The work of a turn.
#[derive(Debug)]
pub struct AcpSessionWork {
    /// The input, until it is sent.
    unsent: Option<AcpUnsent>,
    /// The session, as soon as there is one.
    session: Option<Box<KeptSession>>,
    /// True if the session is opened for this turn.
    is_fresh: bool,
    setup: Arc<AcpSetup>,
    tracker: TaskTracker,
}

#[derive(Debug)]
enum AcpUnsent {
    Whole(Arc<AcpServer>, WarmForm, String),
    New(AcpNew),
}

impl AcpSessionWork {
    /// Makes the work of the turn that begins with `input`.
    pub fn new(input: AcpTurnInput, parts: WorkParts<'_, AcpSetup>) -> AcpSessionWork {
        let (unsent, session) = match input {
            AcpTurnInput::Fresh { server, form, prompt } => (AcpUnsent::Whole(server, form, prompt), None),
            AcpTurnInput::Continued { session, new } => (AcpUnsent::New(new), Some(session)),
        };
        AcpSessionWork {
            unsent: Some(unsent),
            is_fresh: session.is_none(),
            session,
            setup: parts.setup,
            tracker: parts.tracker.clone(),
        }
    }

    /// Opens a session and sends it `prompt`.
    async fn open(
        &mut self,
        server: Arc<AcpServer>,
        form: WarmForm,
        prompt: String,
        report: &Report,
    ) -> Result<(), KeptTurnEnd> {
        let unfit = |error: io::Error| {
            let reason = format!("the tools can't be declared: {error}");
            report.fail(Failure::named(NO_TOOLS, reason))
        };
        let (tools, folder) = match self.setup.tools.tools() {
            [] => (None, None),
            _ => {
                let folder = server.own_folder().map_err(unfit)?;
                (SessionTools::serve(&self.setup.tools).map_err(unfit)?, Some(folder))
            }
        };
        let introduction = tools.as_ref().map(SessionTools::introduction).unwrap_or_default();
        let place = SessionPlace {
            folder,
            servers: tools.iter().map(SessionTools::server).collect(),
        };
        let prompt = (introduction + &prompt).into();
        let mut call = CallWork::new(Arc::clone(&server), form, prompt, None)
            .tracked(&self.tracker)
            .choosing(self.setup.chosen.clone())
            .placed(place);
        let opened = call.open(report).await?;
        if let Some(tools) = &tools {
            server.rpc.protocol().permit(&opened.session_id, tools.names());
        }
        let inbox = call.ask(opened, report);
        let session = KeptSession::new(call, inbox, tools, self.tracker.clone());
        self.session = Some(Box::new(session));
        Ok(())
    }

    /// Sends `new` to the session, and returns whether the session could take it.
    async fn go_on(&mut self, new: AcpNew, report: &Report) -> bool {
        let Some(session) = self.session.as_deref_mut() else {
            return false;
        };
        let is_there = session.server().host().takes_calls();
        match new {
            AcpNew::Prompt(prompt) if is_there && session.call.asked.is_none() => {
                refuse_early(&mut session.tools);
                // Updates that came late belong to nobody.
                while session.inbox.take().is_some() {}
                session.call.begin(report);
                session.call.say_to_it(&prompt).await;
            }
            AcpNew::Results(results) if is_there => {
                let mut open = std::mem::take(&mut session.open);
                let is_waiting = |result: &AcpCallResult| {
                    let call = open.iter().find(|open| open.call.id == result.call);
                    call.is_some_and(|call| !call.reply.is_closed())
                };
                if !results.iter().all(is_waiting) {
                    return false;
                }
                session.call.begin(report);
                // What came while the calls waited belongs to this turn, and tells nothing of whether the process has heard of it.
                let mut events = Vec::new();
                while let Some(update) = session.inbox.take() {
                    if update.acts {
                        report.begun();
                    }
                    session.call.update(update, &mut events, report);
                }
                report.push(events);
                let most = session.server().rpc.protocol().known().most_of_result;
                for AcpCallResult { call, result } in results {
                    report.push(most.and_then(|most| cut(&call, &result.content, most)));
                    if let Some(at) = open.iter().position(|open| open.call.id == call) {
                        // If the call's receiver is gone, the next update of the agent tells.
                        let _ = open.swap_remove(at).reply.send(result);
                    }
                }
            }
            AcpNew::Prompt(_) | AcpNew::Results(_) => return false,
        }
        true
    }

    /// Reads until the reply has come.
    async fn read(&mut self, report: &Report) -> KeptTurnEnd {
        let Some(session) = self.session.as_deref_mut() else {
            return KeptTurnEnd::Vanished;
        };
        let before = session.inbox.bytes();
        let is_fresh = self.is_fresh;
        let mut events = Vec::new();
        let mut quiet: Option<Instant> = None;
        let mut ahead_until = Instant::now();
        let answer = loop {
            let KeptSession {
                call,
                inbox,
                tools,
                open,
                ..
            } = &mut *session;
            let Some(asked) = &mut call.asked else {
                return KeptTurnEnd::Vanished;
            };
            let update = tokio::select! {
                biased;
                update = inbox.next() => update,
                request = next_call(tools) => {
                    open.push(request);
                    session.calls += 1;
                    let now = Instant::now();
                    quiet = Some(now + QUIET);
                    ahead_until = now + AHEAD;
                    continue;
                }
                answer = asked => break answer,
                () = sleep_until(quiet.unwrap_or_else(Instant::now)), if quiet.is_some() => {
                    if session.announces_calls && !session.has_announced_calls() {
                        if Instant::now() < ahead_until {
                            quiet = Some(Instant::now() + QUIET);
                            continue;
                        }
                        session.announces_calls = false;
                    }
                    report.push(events);
                    return self.calls(report);
                }
            };
            report.received(inbox.bytes() - before);
            if inbox.bytes() > before {
                report.begun();
            }
            match update {
                Some(update) => call.update(update, &mut events, report),
                // The process has died since its last turn, and told nothing of this one.
                None if !is_fresh && inbox.bytes() == before && call.server().host().is_over() => {
                    return KeptTurnEnd::Vanished;
                }
                None => return call.gone(report).await,
            }
            report.tell(&mut events).await;
        };
        let KeptSession {
            call,
            inbox,
            tools,
            open,
            ..
        } = &mut *session;
        // Updates that came before the answer belong to it.
        while let Some(update) = inbox.take() {
            call.update(update, &mut events, report);
        }
        report.push(events);
        report.received(inbox.bytes() - before);
        call.asked = None;
        call.rest();
        // The agent has ended its turn without their results.
        open.clear();
        if tools.as_ref().is_some_and(|tools| !tools.are_listed()) {
            report.push([Event::Warning {
                code: "TOOLS_NOT_CALLABLE".to_owned(),
                message: "the agent has answered without having asked for the tools: it does not use the server that it was told \
                          of, so its model knows none of them"
                    .to_owned(),
            }]);
        }
        let answer = answer.unwrap_or(Err(RequestError::Gone));
        match call.answered(answer, report).await {
            KeptTurnEnd::Reply { .. } => self.reply(),
            end => end,
        }
    }

    /// Ends the turn with the agent's calls, for whose results the agent waits.
    fn calls(&mut self, report: &Report) -> KeptTurnEnd {
        let Some(session) = self.session.as_deref_mut() else {
            return KeptTurnEnd::Vanished;
        };
        let KeptSession { call, open, .. } = session;
        call.say(report);
        report.push(open.iter().map(|request| Event::ToolCall {
            tool_call: request.call.clone(),
        }));
        let stop_reason = Some("tool_use".to_owned());
        let usage = call.take_usage();
        report.push(usage.clone().map(|usage| Event::Usage {
            usage,
            raw_stop_reason: stop_reason.clone(),
        }));
        let outcome = Outcome {
            stop_reason,
            usage,
            ..call.known()
        };
        report.push([Event::Outcome(Box::new(outcome))]);
        self.reply()
    }

    fn reply(&mut self) -> KeptTurnEnd {
        KeptTurnEnd::Reply {
            session: self.session.take(),
            known: (),
            diagnostics: Vec::new(),
            stdout_tail: String::new(),
        }
    }
}

/// The warning that the agent's model gets the result of `call` only up to `most` bytes of text, if the result has more.
fn cut(call: &str, result: &Content, most: usize) -> Option<Event> {
    let bytes = match result {
        Content::Text(text) => text.len(),
        Content::Blocks(raw) if raw.get().len() <= most => return None,
        Content::Blocks(raw) => {
            let blocks: Vec<serde_json::Value> = serde_json::from_str(raw.get()).unwrap_or_default();
            let texts = blocks.iter().filter_map(|block| block.get("text")?.as_str());
            texts.map(str::len).sum()
        }
    };
    (bytes > most).then(|| Event::Warning {
        code: "RESULT_TOO_LONG".to_owned(),
        message: format!(
            "the result of call {call} has {bytes} bytes of text: the agent cuts what is longer than {most}, so its model gets a part, and it \
             keeps the whole in a folder of its own. Shorten such results"
        ),
    })
}

impl Work for AcpSessionWork {
    type Session = KeptSession;
    type ReplyFacts = ();

    async fn turn(&mut self, report: &Report) -> KeptTurnEnd {
        match self.unsent.take() {
            Some(AcpUnsent::Whole(server, form, prompt)) => {
                if let Err(end) = self.open(server, form, prompt, report).await {
                    return end;
                }
            }
            Some(AcpUnsent::New(new)) => {
                // The model was not asked anything yet: another session can take the turn.
                if !self.go_on(new, report).await {
                    return KeptTurnEnd::Vanished;
                }
            }
            None => return KeptTurnEnd::Vanished,
        }
        self.read(report).await
    }

    async fn stop(mut self) -> Option<EndedProcess> {
        if let Some(session) = self.session.take() {
            session.close().await;
        }
        None
    }

    fn end(self) {
        if let Some(session) = self.session {
            session.end();
        }
    }
}
