//! A session that remembers, between its turns and in them, and the caller's tools in it.
//!
//! One turn opens the session if there is none, sends the new part of the thread, and reads until the agent has answered or waits for
//! the results of its calls. In: an [`AcpInput`]. Out: events, and the end of the turn. Giving the turn up cancels the prompt and ends
//! the session; so does every end but a reply. A resting session either waits for a prompt, or its prompt waits for the results of
//! calls.
//!
//! [`SessionTools`] is an MCP server for the session. In: declarations. Out: the description of the server for `session/new`, the names
//! under which agents know its tools, and the calls that come over it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::{AcpSetup, KeptAgent};
use crate::EndedProcess;
use crate::acp::call::{CallWork, SessionPlace};
use crate::acp::server::AcpServer;
use crate::acp::wire::{self, Update};
use crate::bridge::{self, Bridge, BridgeOptions, Connection, ToolCallRequest};
use crate::form::InServer;
use crate::host::Inbox;
use crate::live::session::{Pulse, Session, SessionProcess, TurnInput};
use crate::live::turn::{Report, TurnEnd};
use crate::rpc::RequestError;
use dfp_model::event::{Event, Failure, Outcome};
use dfp_model::message::{Content, ToolResult};
use dfp_provider::WarmForm;
use dfp_provider::declare::mcp::{Declarations, SERVER};

/// A session that takes one turn after the other.
#[derive(Debug)]
pub struct OpenSession {
    /// The call that is made in the session.
    pub call: CallWork,
    /// The agent's messages about the session.
    pub inbox: Inbox<Update>,
    pub tools: Option<SessionTools>,
    /// The calls for whose results its prompt waits.
    pub open: Vec<ToolCallRequest>,
    /// The number of calls that have come so far.
    pub calls: usize,
    /// False if the agent was seen to make calls of which it tells nothing.
    pub announces_calls: bool,
}

impl OpenSession {
    /// Makes the session of `call`, in which the agent may call `tools`.
    pub fn new(call: CallWork, inbox: Inbox<Update>, tools: Option<SessionTools>) -> OpenSession {
        OpenSession {
            call,
            inbox,
            tools,
            open: Vec::new(),
            calls: 0,
            announces_calls: true,
        }
    }

    /// Returns whether the agent has told of all calls that have come. They come over another connection than what its model says before
    /// them, and may be faster.
    pub fn has_announced_calls(&self) -> bool {
        let protocol = self.server().rpc.protocol();
        let announced = self
            .call
            .session()
            .map_or(0, |session| protocol.announced_calls(session));
        announced >= self.calls
    }

    /// The process in which the session lives.
    pub fn server(&self) -> &Arc<AcpServer> {
        self.call.server()
    }

    /// Ends the prompt, if there is one, and makes the agent forget the session if it can.
    pub async fn close(self) {
        let OpenSession {
            mut call,
            inbox,
            tools,
            open,
            ..
        } = self;
        drop(inbox);
        let server = Arc::clone(call.server());
        if let Some(session) = call.session() {
            server.rpc.protocol().permit_none(session);
        }
        call.cancel().await;
        // Not earlier: a call that fails would make the agent ask its model how to go on.
        drop((open, tools));
        call.close();
    }

    /// Waits until the session can't continue. Cancel safe.
    pub async fn idle(&mut self) -> Pulse {
        let server = Arc::clone(self.server());
        let host = server.host();
        match &mut self.call.asked {
            // Updates that come meanwhile belong to the next turn.
            Some(asked) => {
                let first = self.open.first_mut();
                let taken_back = async {
                    match first {
                        Some(call) => call.reply.closed().await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    () = host.retired().cancelled() => {}
                    _ = asked => self.call.asked = None,
                    () = taken_back => {}
                }
                Pulse::Ended
            }
            None => loop {
                tokio::select! {
                    // Updates that come after an answer belong to nobody.
                    next = self.inbox.next_at_rest(host) => match next {
                        Some(_) => {}
                        None => return Pulse::Ended,
                    },
                    call = next_call(&mut self.tools) => drop(call),
                }
            },
        }
    }
}

/// The MCP server of a session's tools. Dropping it ends the server, and the calls that wait.
#[derive(Debug)]
pub struct SessionTools {
    bridge: Bridge,
    calls: mpsc::Receiver<ToolCallRequest>,
    /// The tools' names on the wire.
    tools: Vec<String>,
}

impl SessionTools {
    /// Serves these tools; `None` if there are none. Must be called inside the runtime.
    ///
    /// # Errors
    /// The system gives no port, or no random bytes.
    pub fn serve(declarations: &Declarations) -> io::Result<Option<SessionTools>> {
        if declarations.tools().is_empty() {
            return Ok(None);
        }
        let (consumer, calls) = bridge::call_channel();
        Ok(Some(SessionTools {
            bridge: Bridge::start_for(declarations.clone(), BridgeOptions::default(), consumer)?,
            calls,
            tools: declarations.tools().iter().map(|tool| tool.name.clone()).collect(),
        }))
    }

    /// The description of the server for the agent.
    pub fn server(&self) -> Value {
        wire::http_server(SERVER, self.bridge.url(), self.bridge.token())
    }

    /// The sentence about the server in the first prompt: some agents hide tools until they are searched for (qwen 0.15.10).
    pub fn introduction(&self) -> String {
        let names = self.tools.join(", ");
        format!("The tools of the MCP server \"{SERVER}\" are yours to call: {names}\n\n")
    }

    /// Returns whether the agent has asked for the list of tools.
    pub fn are_listed(&self) -> bool {
        *self.bridge.connected().borrow() >= Connection::Listed
    }

    /// The names under which agents know the tools: of qwen and claude, of gemini, of opencode.
    pub fn names(&self) -> Vec<String> {
        let names = |tool: &String| {
            [
                format!("mcp__{SERVER}__{tool}"),
                format!("mcp_{SERVER}_{tool}"),
                format!("{SERVER}_{tool}"),
            ]
        };
        self.tools.iter().flat_map(names).collect()
    }
}

/// Waits for the next call; waits forever for a session without tools. Cancel safe.
pub async fn next_call(tools: &mut Option<SessionTools>) -> ToolCallRequest {
    if let Some(tools) = tools
        && let Some(call) = tools.calls.recv().await
    {
        return call;
    }
    std::future::pending().await
}

/// Refuses the calls that have come already: nobody has asked for them.
pub fn refuse_early(tools: &mut Option<SessionTools>) {
    // A dropped call is answered with an error.
    while let Some(tools) = tools
        && tools.calls.try_recv().is_ok()
    {}
}

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
    place: InServer<KeptAgent>,
    /// The agent's own data.
    form: WarmForm,
    /// The agent's side of it, as soon as there is one.
    session: Option<OpenSession>,
}

impl AcpConversation {
    /// Makes a session that its first turn opens.
    pub fn new(place: InServer<KeptAgent>, form: WarmForm) -> AcpConversation {
        AcpConversation {
            place,
            form,
            session: None,
        }
    }

    /// Opens a session and sends it `prompt`.
    async fn open(&mut self, prompt: &str, report: &Report) -> Result<(), TurnEnd<()>> {
        let server = &self.place.server;
        let unfit = |error: io::Error| {
            let reason = format!("the tools can't be declared: {error}");
            report.fail(Failure::named(NO_TOOLS, reason))
        };
        let (tools, folder) = match self.place.setup.tools.tools() {
            [] => (None, None),
            _ => {
                let folder = server.own_folder().map_err(unfit)?;
                (
                    SessionTools::serve(&self.place.setup.tools).map_err(unfit)?,
                    Some(folder),
                )
            }
        };
        let introduction = tools.as_ref().map(SessionTools::introduction).unwrap_or_default();
        let place = SessionPlace {
            folder,
            servers: tools.iter().map(SessionTools::server).collect(),
        };
        let prompt = (introduction + prompt).into();
        let mut call = CallWork::new(Arc::clone(server), self.form, prompt, None)
            .tracked(&self.place.tracker)
            .choosing(self.place.setup.chosen.clone())
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

    fn process(&self) -> Option<SessionProcess<'_>> {
        self.place.process()
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

    async fn idle(&mut self) -> Pulse {
        match &mut self.session {
            Some(session) => session.idle().await,
            None => Pulse::Ended,
        }
    }

    async fn ended(self, _: bool) -> Option<EndedProcess> {
        self.session?.close().await;
        None
    }
}
