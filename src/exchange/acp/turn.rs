//! One turn of a session that remembers: opens the session if there is none, sends the new part of the thread, and reads until the
//! agent has answered or waits for the results of its calls.
//!
//! In: an [`AcpInput`]. Out: events, and the end of the turn. Giving the turn up cancels the prompt and ends the session; so does
//! every end but a reply.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};
use tokio_util::task::TaskTracker;

use super::form::{AcpSetup, KeptAgent};
use super::session::{OpenSession, SessionTools, next_call, refuse_early};
use crate::EndedProcess;
use crate::acp::call::{CallWork, SessionPlace};
use crate::acp::server::AcpServer;
use crate::form::InServer;
use crate::host::Host;
use crate::live::session::{Pulse, Session, TurnInput};
use crate::live::turn::{Report, TurnEnd};
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

/// The input of a turn.
#[derive(Debug)]
pub enum AcpInput {
    /// The whole thread as a prompt, for a session that is to be opened.
    Whole(String),
    /// The next prompt, for a session that knows the beginning.
    Prompt(String),
    /// The results of all calls that wait.
    Results(Vec<AcpCallResult>),
}

/// A session of an agent that remembers.
#[derive(Debug)]
pub struct AcpConversation {
    server: Arc<AcpServer>,
    /// The agent's own data.
    form: WarmForm,
    setup: Arc<AcpSetup>,
    /// The agent's side of it, as soon as there is one.
    session: Option<OpenSession>,
    tracker: TaskTracker,
}

impl AcpConversation {
    /// Makes a session that its first turn opens.
    pub fn new(place: InServer<'_, KeptAgent>, form: WarmForm) -> AcpConversation {
        AcpConversation {
            server: place.server,
            form,
            setup: place.setup,
            session: None,
            tracker: place.tracker.clone(),
        }
    }

    /// Opens a session and sends it `prompt`.
    async fn open(&mut self, prompt: &str, report: &Report) -> Result<(), TurnEnd<()>> {
        let server = &self.server;
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
        let prompt = (introduction + prompt).into();
        let mut call = CallWork::new(Arc::clone(server), self.form, prompt, None)
            .tracked(&self.tracker)
            .choosing(self.setup.chosen.clone())
            .placed(place);
        let opened = call.open(report).await?;
        if let Some(tools) = &tools {
            server.rpc.protocol().permit(&opened.session_id, tools.names());
        }
        let inbox = call.ask(opened, report);
        self.session = Some(OpenSession::new(call, inbox, tools));
        Ok(())
    }

    /// Sends `new` to the session, and returns whether the session could take it.
    async fn go_on(&mut self, input: AcpInput, report: &Report) -> bool {
        let Some(session) = &mut self.session else {
            return false;
        };
        let is_there = session.server().host().takes_calls();
        match input {
            AcpInput::Prompt(prompt) if is_there && session.call.asked.is_none() => {
                refuse_early(&mut session.tools);
                // Updates that came late belong to nobody.
                while session.inbox.take().is_some() {}
                session.call.begin(report);
                session.call.say_to_it(&prompt).await;
            }
            AcpInput::Results(results) if is_there => {
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
            AcpInput::Whole(_) | AcpInput::Prompt(_) | AcpInput::Results(_) => return false,
        }
        true
    }

    /// Reads until the reply has come.
    async fn read(&mut self, is_fresh: bool, report: &Report) -> TurnEnd<()> {
        let Some(session) = &mut self.session else {
            return TurnEnd::Vanished;
        };
        let before = session.inbox.bytes();
        let mut events = Vec::new();
        let mut quiet: Option<Instant> = None;
        let mut ahead_until = Instant::now();
        let answer = loop {
            let OpenSession {
                call,
                inbox,
                tools,
                open,
                ..
            } = &mut *session;
            let Some(asked) = &mut call.asked else {
                return TurnEnd::Vanished;
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
                    return TurnEnd::Vanished;
                }
                None => return call.gone(report).await,
            }
            report.tell(&mut events).await;
        };
        let OpenSession {
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
        call.answered(answer, report).await
    }

    /// Ends the turn with the agent's calls, for whose results the agent waits.
    fn calls(&mut self, report: &Report) -> TurnEnd<()> {
        let Some(OpenSession { call, open, .. }) = &mut self.session else {
            return TurnEnd::Vanished;
        };
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
        TurnEnd::reply(true, ())
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

impl Session for AcpConversation {
    type Setup = AcpSetup;
    type Input = AcpInput;
    type ReplyFacts = ();

    fn pid(&self) -> u32 {
        self.server.host().pid()
    }

    fn host(&self) -> Option<&Host> {
        Some(self.server.host())
    }

    async fn turn(&mut self, turn: TurnInput<AcpConversation>, report: &Report) -> TurnEnd<()> {
        let is_fresh = self.session.is_none();
        match turn.input {
            AcpInput::Whole(prompt) => {
                if let Err(end) = self.open(&prompt, report).await {
                    return end;
                }
            }
            // The model was not asked anything yet: another session can take the turn.
            new => {
                if !self.go_on(new, report).await {
                    return TurnEnd::Vanished;
                }
            }
        }
        self.read(is_fresh, report).await
    }

    async fn stop(self, _: Duration) -> Option<EndedProcess> {
        if let Some(session) = self.session {
            session.close().await;
        }
        None
    }

    async fn idle(&mut self) -> Pulse {
        match &mut self.session {
            Some(session) => session.idle().await,
            None => Pulse::Ended,
        }
    }

    fn end(self) {
        if let Some(session) = self.session {
            self.tracker.spawn(session.close());
        }
    }
}
