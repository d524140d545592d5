//! One qwen process that takes one turn after the other.
//!
//! In: an [`Input`] per turn. Out: [`Pulse`]s with the events of the turn, until the model's message is over: with calls in it, it is
//! the turn's end, and the calls wait in the process for the next turn. Between turns, the CLI's requests of their results are
//! taken ([`Keepable::idle`]).

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::chat::Chat;
use super::held::Held;
use super::input::Input;
use super::wire;
use crate::bridge::{Bridge, Connection, ToolCallRequest};
use crate::command::{Arg, CommandLine};
use crate::decode::json::Fields;
use crate::decode::usage::read_usage;
use crate::decode::{Decoder, Wire};
use crate::event::{Event, Outcome};
use crate::exchange::EndedProcess;
use crate::exchange::claude_live::wire::{Inbound, denied, read, refused};
use crate::exchange::live::keep::{Handshake, Idle, Keepable};
use crate::exchange::live::process_turn::{ProcessSession, Pulse};
use crate::exchange::live::setup::Setup;
use crate::exchange::live::streams::{Figures, Step, Streams};
use crate::exchange::print::{self, NotStarted, Surroundings, long_pause};
use crate::exchange::scratch::Scratch;
use crate::message::Usage;
use crate::process::{Running, StartError, StderrWatch, Stdin};
use crate::provider::callbacks::Callbacks;

/// Our request ids; the CLI only repeats them.
const INITIALIZE: &str = "df-initialize";
const INTERRUPT: &str = "df-interrupt";
const GO_ON: &str = "df-go-on";

/// The private folder that the CLI keeps its chats in.
pub const RUNTIME_FOLDER: &str = "runtime";

/// The server of a session's tools, and the calls that come over it.
pub struct Tools {
    /// The server.
    pub bridge: Bridge,
    /// The calls.
    pub calls: mpsc::Receiver<ToolCallRequest>,
}

/// A live process.
pub struct Session {
    streams: Streams,
    decoder: Decoder,
    handshake: Handshake,
    setup: Arc<Setup>,
    tools: Option<Tools>,
    held: Held,
    /// What the first turn begins with, until the CLI knows the tools: a request that is made before goes without them.
    opening: Option<String>,
    /// The results that this turn began with: the CLI repeats them.
    answered: Vec<String>,

    usage: Tokens,
    stderr: StderrWatch,
    long_pauses: &'static [&'static str],
    session_id: Option<String>,
    model: Option<String>,
    tracker: TaskTracker,
    scratch: Option<Scratch>,
}

/// What the model has read and written.
#[derive(Debug, Default)]
struct Tokens {
    /// What was reported of all turns: the CLI tells the sum.
    reported: Usage,
    /// Of the message that is coming in.
    message: Option<Usage>,
}

impl Tokens {
    /// What a turn has taken that ends with a message with calls.
    fn of_message(&mut self) -> Option<Usage> {
        let usage = self.message.take()?;
        self.reported.add(&usage);
        Some(usage)
    }

    /// What a turn has taken at whose end the CLI reports `total`.
    fn of_turn(&mut self, total: &Usage) -> Usage {
        let before = std::mem::replace(&mut self.reported, total.clone());
        let less = |all: u64, before: u64| all.saturating_sub(before);
        let less_of = |all: Option<u64>, before: Option<u64>| all.map(|all| less(all, before.unwrap_or_default()));
        self.message = None;
        Usage {
            input_tokens: less(total.input_tokens, before.input_tokens),
            output_tokens: less(total.output_tokens, before.output_tokens),
            total_tokens: less(total.total_tokens, before.total_tokens),
            cache_read_tokens: less_of(total.cache_read_tokens, before.cache_read_tokens),
            cache_write_tokens: less_of(total.cache_write_tokens, before.cache_write_tokens),
            reasoning_tokens: less_of(total.reasoning_tokens, before.reasoning_tokens),
            estimated: total.estimated,
        }
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("pid", &self.process().pid())
            .finish_non_exhaustive()
    }
}

impl Session {
    /// Starts a process with this setup, which has the tools of `tools` and begins with `chat`.
    ///
    /// # Errors
    /// [`NotStarted`].
    pub fn start(
        mut line: CommandLine,
        surroundings: Surroundings,
        cancel: &CancellationToken,
        (setup, tools, chat): (&Arc<Setup>, Option<Tools>, Option<&Chat>),
        long_pauses: &'static [&'static str],
    ) -> Result<Session, NotStarted> {
        let tracker = surroundings.tracker.clone();
        let program = PathBuf::from(&line.program);
        if let Some(chat) = chat {
            line.args
                .extend(["--resume", &chat.id].map(|arg| Arg::Text(arg.to_owned())));
        }
        let (mut running, scratch) = print::launch_with(line, Stdin::Open, surroundings, cancel, |scratch, cwd| {
            let Some(chat) = chat else { return Ok(()) };
            let cwd = std::fs::canonicalize(cwd)?;
            scratch.write(RUNTIME_FOLDER, &chat.place(&cwd), chat.lines(&cwd).as_bytes())
        })?;
        let stdin = running.stdin().ok_or_else(|| {
            NotStarted::Process(StartError::Os {
                file: program,
                source: io::Error::from(io::ErrorKind::BrokenPipe),
            })
        })?;
        let stderr = running.stderr_watch();
        Ok(Session {
            streams: Streams::new(running, stdin),
            decoder: Decoder::new(Wire::ClaudeStream),
            handshake: Handshake::Unasked,
            setup: Arc::clone(setup),
            tools,
            held: Held::default(),
            opening: None,
            answered: Vec::new(),
            usage: Tokens::default(),
            stderr,
            long_pauses,
            session_id: None,
            model: None,
            tracker,
            scratch,
        })
    }

    /// Begins a turn.
    pub fn begin(&mut self, input: Input) {
        self.streams.begin_turn();
        self.decoder = Decoder::new(Wire::ClaudeStream);
        self.answered.clear();
        if self.handshake == Handshake::Unasked {
            self.handshake = Handshake::Asked(Instant::now());
            let tools = self.tools.as_ref().map(|tools| Callbacks {
                url: tools.bridge.url().to_owned(),
                token: tools.bridge.token().to_owned(),
            });
            self.streams.say(wire::initialize(INITIALIZE, tools.as_ref()));
        }
        match input {
            Input::User(text) => self.opening = Some(wire::user(&text)),
            Input::GoOn => self.opening = Some(wire::go_on(GO_ON)),
            Input::Results(results) => {
                for (id, result) in results {
                    self.held.answer(&id, result);
                    self.answered.push(id);
                }
            }
        }
        self.open();
    }

    /// Says what the turn begins with, once the CLI is ready for it.
    fn open(&mut self) {
        let has_tools = match &self.tools {
            Some(tools) => *tools.bridge.connected().borrow() >= Connection::Listed,
            None => true,
        };
        if self.handshake == Handshake::Done
            && has_tools
            && let Some(line) = self.opening.take()
        {
            self.streams.say(line);
        }
    }

    /// Ends the process in the background.
    pub fn end(self) {
        let tracker = self.tracker.clone();
        tracker.spawn(ProcessSession::finish(self));
    }

    /// The process.
    pub fn process(&self) -> &Running {
        self.streams.process()
    }

    fn read(&mut self, line: &str, events: &mut Vec<Event>) -> Pulse {
        self.streams.count_line();
        if let Some(inbound) = read(line) {
            return self.control(inbound);
        }
        self.note_usage(line);
        let mut decoded = Vec::new();
        self.decoder.push(line.as_bytes(), &mut decoded);
        self.decoder.push(b"\n", &mut decoded);
        let (mut calls, mut foreign, mut over) = (0, Vec::new(), false);
        for event in decoded {
            match event {
                Event::ToolCall { mut tool_call } => match self.setup.ours(&tool_call.name) {
                    Some(name) => {
                        tool_call.name = name.to_owned();
                        self.held.expect(&tool_call);
                        calls += 1;
                        events.push(Event::ToolCall { tool_call });
                    }
                    None => foreign.push(Event::ToolCall { tool_call }),
                },
                Event::ToolResult { tool_call_id, .. } if self.answered.contains(&tool_call_id) => {}
                Event::Usage { usage, raw_stop_reason } => events.push(Event::Usage {
                    usage: self.usage_left(&usage),
                    raw_stop_reason,
                }),
                Event::Outcome(mut outcome) => {
                    outcome.usage = outcome.usage.map(|usage| self.usage.of_turn(&usage));
                    over = true;
                    events.push(Event::Outcome(outcome));
                }
                Event::Session {
                    session_id,
                    model,
                    permission_mode,
                    version,
                } => {
                    self.session_id.clone_from(&session_id);
                    self.model.clone_from(&model);
                    events.push(Event::Session {
                        session_id,
                        model,
                        permission_mode,
                        version,
                    });
                }
                event => events.push(event),
            }
        }
        if calls == 0 {
            // The CLI tells its model itself that there is no such tool, and goes on.
            events.append(&mut foreign);
            if over {
                self.held.close();
            }
            return if over { Pulse::TurnOver } else { Pulse::Alive };
        }
        events.extend(foreign.into_iter().filter_map(|event| match event {
            Event::ToolCall { tool_call } => Some(Event::Warning {
                code: "UNKNOWN_TOOL".to_owned(),
                message: format!(
                    "the model also called {:?}, which is no tool: the CLI tells it so with the results of the others",
                    tool_call.name
                ),
            }),
            _ => None,
        }));
        self.hand_over(events);
        Pulse::TurnOver
    }

    /// The model's message is over, and its calls wait for their results: the turn's last word, as the CLI gives none.
    fn hand_over(&mut self, events: &mut Vec<Event>) {
        self.held.close();
        let usage = self.usage.of_message();
        let stop_reason = Some("tool_use".to_owned());
        if let Some(usage) = usage.clone() {
            events.push(Event::Usage {
                usage,
                raw_stop_reason: stop_reason.clone(),
            });
        }
        events.push(Event::Outcome(Box::new(Outcome {
            subtype: Some("success".to_owned()),
            is_error: false,
            stop_reason,
            num_turns: Some(1),
            usage,
            cost_usd: None,
            duration_ms: None,
            session_id: self.session_id.clone(),
            model: self.model.clone(),
            text: None,
            permission_denials: Vec::new(),
            structured: None,
        })));
    }

    /// The turn's own part of `total`, looked at without counting it as reported.
    fn usage_left(&self, total: &Usage) -> Usage {
        let mut counted = Tokens {
            reported: self.usage.reported.clone(),
            message: None,
        };
        counted.of_turn(total)
    }

    fn note_usage(&mut self, line: &str) {
        #[derive(Deserialize)]
        struct Line<'a> {
            #[serde(borrow)]
            message: Option<Message<'a>>,
        }
        #[derive(Deserialize)]
        struct Message<'a> {
            #[serde(borrow)]
            usage: Option<&'a serde_json::value::RawValue>,
        }
        if !line.starts_with("{\"type\":\"assistant\"") {
            return;
        }
        let message = serde_json::from_str::<Line>(line).ok().and_then(|line| line.message);
        let usage = message.and_then(|message| read_usage(&mut Fields::default(), message.usage));
        // A message may come in several lines, of which one has the figures.
        if let Some(usage) = usage.filter(|usage| usage.total_tokens > 0) {
            self.usage.message = Some(usage);
        }
    }

    fn control(&mut self, inbound: Inbound) -> Pulse {
        let answer = match inbound {
            Inbound::Answer {
                request_id,
                refused: Some(reason),
                ..
            } if request_id == INITIALIZE || request_id == GO_ON => {
                return Pulse::Unsupported(format!("it refuses to begin: {reason}"));
            }
            Inbound::Answer { request_id, .. } if request_id == INITIALIZE => {
                self.handshake = Handshake::Done;
                self.open();
                return Pulse::Alive;
            }
            Inbound::Answer { .. } | Inbound::Nothing => return Pulse::Alive,
            Inbound::Permission { request_id } => denied(&request_id),
            Inbound::Hook { request_id } | Inbound::Mcp { request_id, .. } => {
                refused(&request_id, "deep-factor-providers has asked for nothing of the kind")
            }
            Inbound::Unknown { request_id, subtype } => refused(
                &request_id,
                &format!("deep-factor-providers knows no request {subtype}"),
            ),
        };
        self.streams.say(answer);
        Pulse::Alive
    }
}

/// Resolves when the CLI has asked for the tools; never for a session without any.
async fn listed(connection: Option<watch::Receiver<Connection>>) {
    if let Some(mut connection) = connection {
        let is_listed = |connection: &Connection| *connection >= Connection::Listed;
        if connection.wait_for(is_listed).await.is_ok() {
            return;
        }
    }
    std::future::pending().await
}

/// The next call over the session's server; never where it has none.
async fn next_call(tools: &mut Option<Tools>) -> ToolCallRequest {
    let call = match tools {
        Some(tools) => tools.calls.recv().await,
        None => None,
    };
    match call {
        Some(call) => call,
        None => std::future::pending().await,
    }
}

impl ProcessSession for Session {
    async fn next(&mut self, events: &mut Vec<Event>) -> Pulse {
        loop {
            let waits = self.opening.is_some() && self.handshake == Handshake::Done;
            let connection = self.tools.as_ref().map(|tools| tools.bridge.connected());
            let step = tokio::select! {
                biased;
                step = self.streams.step() => step,
                call = next_call(&mut self.tools) => {
                    self.held.ask(call);
                    continue;
                }
                () = listed(connection), if waits => {
                    self.open();
                    continue;
                }
                failure = long_pause(&self.stderr, self.long_pauses) => {
                    self.decoder.finish(events);
                    events.push(Event::Failure(failure));
                    return Pulse::TurnOver;
                }
            };
            match step {
                Step::Line(Some(line)) => return self.read(&line, events),
                Step::Line(None) => return Pulse::Alive,
                Step::Wrote => {}
                Step::Ended => {
                    let decoder = &mut self.decoder;
                    self.streams.finish(|text| decoder.push(text.as_bytes(), events));
                    decoder.finish(events);
                    return Pulse::Ended;
                }
            }
        }
    }

    async fn interrupt(&mut self, patience: Duration) {
        self.streams.say(wire::interrupt(INTERRUPT));
        let mut unheard = Vec::new();
        let over = async {
            while self.next(&mut unheard).await == Pulse::Alive {
                unheard.clear();
            }
        };
        let _ = tokio::time::timeout(patience, over).await;
    }

    async fn finish(self) -> EndedProcess {
        self.streams.close();
        self.finished().await
    }

    async fn finished(self) -> EndedProcess {
        let Session {
            streams,
            decoder,
            scratch,
            tools,
            ..
        } = self;
        drop(tools);
        let (exit, stdout_tail) = streams.exit().await;
        drop(scratch);
        EndedProcess {
            exit,
            plain: decoder.plain_text(),
            cut_short: decoder.cut_short(),
            diagnostics: decoder.diagnostics().to_vec(),
            stdout_tail,
        }
    }

    fn handshake(&self) -> Handshake {
        self.handshake
    }

    fn figures(&self) -> &Figures {
        self.streams.turn()
    }

    fn diagnostics(&self) -> &[String] {
        self.decoder.diagnostics()
    }
}

impl Keepable for Session {
    type Setup = Setup;

    fn serves_any_start(_: &Setup) -> bool {
        false
    }

    fn pid(&self) -> u32 {
        self.process().pid()
    }

    fn is_ending(&self) -> bool {
        self.process().is_ending()
    }

    /// Nothing is printed between turns: a process that prints has given its calls up, or died.
    async fn idle(&mut self) -> Idle {
        self.streams.rest();
        loop {
            tokio::select! {
                biased;
                step = self.streams.step() => match step {
                    Step::Line(Some(line)) => match read(&line) {
                        Some(inbound) => drop(self.control(inbound)),
                        None if self.held.is_waiting() => return Idle::Ended,
                        None => {}
                    },
                    Step::Line(None) | Step::Wrote => {}
                    Step::Ended => return Idle::Ended,
                },
                call = next_call(&mut self.tools) => {
                    self.held.ask(call);
                    self.held.close();
                }
            }
        }
    }

    fn end(self) {
        Session::end(self);
    }

    async fn ended(self, has_ended: bool) -> Option<EndedProcess> {
        Some(match has_ended {
            true => self.finished().await,
            false => self.finish().await,
        })
    }
}
