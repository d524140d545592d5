//! One qwen process that takes one turn after the other.
//!
//! In: an [`QwenInput`] per turn. Out: [`Pulse`]s with the events of the turn, until the model's message is over. If it has calls,
//! that is the turn's end, and the calls wait in the process for the next turn. Between turns, the CLI's requests for their
//! results are taken ([`Session::idle`]).
//!
//! The CLI does not report the end of a turn whose model has made calls, since it waits for the results: the events of that end are made
//! here, of the known facts of the model's message. The figures of one turn are made of those of each message of the model's, and of the
//! CLI's sum over all turns.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::calls::{CallLimits, PendingCalls, Tools, listed, next_call};
use super::input::{self, Chat, FirstInput, QwenInput};
use crate::EndedProcess;
use crate::live::session::{self, HANDSHAKE, Handshake, Pulse, Session, SessionProcess, TurnInput};
use crate::live::setup::Setup;
use crate::live::streams::{LineProcess, StreamEvent};
use crate::live::turn::{Report, TurnEnd};
use crate::print::{NotStarted, Surroundings, long_pause};
use crate::stream_json::{Inbound, denied, read, refused, unknown};
use dfp_model::event::{Event, Outcome};
use dfp_model::message::Usage;
use dfp_process::StderrWatch;
use dfp_provider::command::{Arg, CommandLine};
use dfp_text::decode::format::read_usage;
use dfp_text::decode::json::Fields;
use dfp_text::decode::{Decoder, Wire};

/// Our request ids; the CLI only repeats them.
const INITIALIZE: &str = "df-initialize";
const INTERRUPT: &str = "df-interrupt";
const GO_ON: &str = "df-go-on";

/// The private folder in which the CLI keeps its chats.
pub const RUNTIME_FOLDER: &str = "runtime";

/// A live process.
pub struct QwenSession {
    process: LineProcess,
    /// The time since which an answer to what was sent ahead of the first turn is due.
    asked_ahead: Option<Instant>,
    setup: Arc<Setup>,
    tools: Option<Tools>,
    held: PendingCalls,
    call_limits: CallLimits,
    /// The input of the first turn, until the CLI knows the tools: a request that it makes earlier would go without them.
    opening: Option<String>,
    /// The ids of the results with which this turn began: the CLI repeats them.
    answered: Vec<String>,
    usage: QwenTokens,
    stderr: StderrWatch,
    long_pauses: &'static [&'static str],
    names: Names,
    /// True if the turn has not reported its session yet: the CLI reports it only once.
    is_untold: bool,
}

/// The parts with which a process begins.
#[derive(Debug)]
pub struct SessionStart<'a> {
    /// The setup: its system prompt, which is on its command line already, and its tools.
    pub setup: Arc<Setup>,
    /// The MCP server of these tools.
    pub tools: Option<Tools>,
    /// The thread that it reads first.
    pub chat: Option<&'a Chat>,
    /// The beginnings of lines on standard error with which the CLI announces a long pause.
    pub long_pauses: &'static [&'static str],
}

impl std::fmt::Debug for QwenSession {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("pid", &self.process.pid())
            .finish_non_exhaustive()
    }
}

impl QwenSession {
    /// Starts a process.
    ///
    /// # Errors
    /// [`NotStarted`].
    pub fn start(
        mut line: CommandLine,
        surroundings: Surroundings,
        cancel: &CancellationToken,
        start: SessionStart<'_>,
    ) -> Result<QwenSession, NotStarted> {
        let SessionStart {
            setup,
            tools,
            chat,
            long_pauses,
        } = start;
        if let Some(chat) = chat {
            line.args
                .extend(["--resume", &chat.id].map(|arg| Arg::Text(arg.to_owned())));
        }
        let decoder = Decoder::new(Wire::QwenStream);
        let process = LineProcess::start(line, surroundings, cancel, decoder, |scratch, cwd| {
            let Some(chat) = chat else { return Ok(()) };
            let cwd = std::fs::canonicalize(cwd)?;
            scratch.write(RUNTIME_FOLDER, &chat.place(&cwd), chat.lines(&cwd).as_bytes())
        })?;
        let stderr = process.streams.process().stderr_watch();
        Ok(QwenSession {
            process,
            asked_ahead: None,
            setup,
            tools,
            held: PendingCalls::default(),
            call_limits: CallLimits::default(),
            opening: None,
            answered: Vec::new(),
            usage: QwenTokens::default(),
            stderr,
            long_pauses,
            names: Names::default(),
            is_untold: false,
        })
    }

    /// Begins a turn.
    pub fn begin(&mut self, input: QwenInput) {
        self.process.begin_turn(Decoder::new(Wire::QwenStream));
        self.answered.clear();
        self.is_untold = self.names.session_id.is_some();
        self.initialize();
        if !matches!(input, QwenInput::Results(_)) {
            self.call_limits.begin();
        }
        match input {
            QwenInput::User(text) => self.opening = Some(input::user(&text)),
            QwenInput::GoOn => self.opening = Some(input::go_on(GO_ON)),
            QwenInput::Results(results) => {
                for (id, result) in results {
                    self.held.answer(&id, result);
                    self.answered.push(id);
                }
            }
        }
        self.open();
    }

    /// Sends the CLI the address of its tools, unless it knows it.
    fn initialize(&mut self) {
        if self.process.handshake == Handshake::Unasked {
            self.process.handshake = Handshake::Asked(Instant::now());
            let callbacks = self.tools.as_ref().map(Tools::callbacks);
            self.process
                .streams
                .say(input::initialize(INITIALIZE, callbacks.as_ref()));
        }
    }

    /// Returns whether it has answered the handshake, and knows the tools.
    fn is_ready(&self) -> bool {
        self.process.handshake == Handshake::Done && self.tools.as_ref().is_none_or(Tools::are_listed)
    }

    /// Sends the turn's input, once the CLI is ready for it.
    fn open(&mut self) {
        if self.is_ready()
            && let Some(line) = self.opening.take()
        {
            self.process.streams.say(line);
        }
    }

    /// Reads a line of the turn: a control line is answered, any other decoded. A message with calls of the caller's tools ends
    /// the turn, and the calls are held; usage becomes the turn's own. A bound tool that the CLI does not offer fails the turn.
    fn read(&mut self, line: &str, events: &mut Vec<Event>) -> Pulse {
        self.process.streams.count_line();
        if let Some(inbound) = read(line) {
            return self.control(inbound);
        }
        self.usage.note(line);
        let mut decoded = Vec::new();
        self.process.decode(line, &mut decoded);
        if let Err(failed) = self.process.offered(self.setup.declarations()) {
            events.extend(failed);
            return Pulse::TurnOver;
        }
        let (mut calls, mut foreign, mut over) = (0, Vec::new(), false);
        if self.is_untold && !decoded.is_empty() {
            self.is_untold = false;
            if !decoded.iter().any(|event| matches!(event, Event::Session { .. })) {
                events.push(self.names.session_event());
            }
        }
        for event in decoded {
            match event {
                Event::ToolCall { mut tool_call } => match self.setup.ours(&tool_call.name) {
                    Some(name) => {
                        tool_call.name = name.to_owned();
                        self.held.expect(&tool_call);
                        self.call_limits.note(&tool_call);
                        calls += 1;
                        events.push(Event::ToolCall { tool_call });
                    }
                    None => foreign.push(Event::ToolCall { tool_call }),
                },
                Event::ToolResult { tool_call_id, .. } if self.answered.contains(&tool_call_id) => {}
                Event::Usage { usage, raw_stop_reason } => events.push(Event::Usage {
                    usage: self.usage.left(&usage),
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
                    self.names = Names {
                        session_id,
                        model,
                        permission_mode,
                        version,
                    };
                    events.push(self.names.session_event());
                }
                event => events.push(event),
            }
        }
        if calls == 0 {
            // The CLI itself tells its model that there is no such tool, and continues.
            events.append(&mut foreign);
            if over {
                self.held.close();
            }
            return if over { Pulse::TurnOver } else { Pulse::Alive };
        }
        events.extend(foreign.into_iter().filter_map(|event| match event {
            Event::ToolCall { tool_call } => Some(unknown_tool(&tool_call.name)),
            _ => None,
        }));
        self.held.close();
        events.extend(end_events(self.usage.of_message(), &self.names));
        Pulse::TurnOver
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
                self.process.handshake = Handshake::Done;
                self.open();
                return Pulse::Alive;
            }
            Inbound::Answer { .. } | Inbound::Nothing => return Pulse::Alive,
            Inbound::Permission { request_id } => denied(&request_id),
            Inbound::Hook { request_id, .. } | Inbound::Mcp { request_id, .. } => {
                refused(&request_id, "deep-factor-providers has asked for nothing of the kind")
            }
            Inbound::Unknown { request_id, subtype } => unknown(&request_id, &subtype),
        };
        self.process.streams.say(answer);
        Pulse::Alive
    }
}

impl Session for QwenSession {
    type Setup = Setup;
    type Input = FirstInput;
    type ReplyFacts = ();

    fn process(&self) -> Option<SessionProcess<'_>> {
        Some(SessionProcess::Own(&self.process))
    }

    async fn turn(&mut self, turn: TurnInput<QwenSession>, report: &Report) -> TurnEnd<()> {
        self.begin(turn.input.input);
        session::read_turn(self, turn.origin, report, |_| ()).await
    }

    /// Between turns nothing is printed: a process that prints has given its calls up, or died.
    async fn idle(&mut self) -> Pulse {
        let mut unheard = Vec::new();
        loop {
            let is_ready = self.is_ready();
            if self.process.becomes_ready(is_ready) {
                return Pulse::Ready { is_primed: true };
            }
            let is_coming = !self.process.is_reported() && self.process.handshake == Handshake::Done;
            let connection = self.tools.as_ref().map(Tools::connection);
            tokio::select! {
                biased;
                step = self.process.streams.step() => match step {
                    StreamEvent::Line(Some(line)) => match read(&line) {
                        Some(inbound) => {
                            if let Pulse::Unsupported(reason) = self.control(inbound) {
                                return Pulse::Unsupported(reason);
                            }
                        }
                        None if self.held.is_waiting() => return Pulse::Ended,
                        None if self.process.is_reported() => {}
                        None => {
                            self.process.decode(&line, &mut unheard);
                            for event in unheard.drain(..) {
                                if let Event::Session { session_id, model, permission_mode, version } = event {
                                    self.names = Names { session_id, model, permission_mode, version };
                                }
                            }
                        }
                    },
                    StreamEvent::Line(None) | StreamEvent::Progress => {}
                    StreamEvent::Ended => return Pulse::Ended,
                },
                call = next_call(&mut self.tools) => {
                    self.held.ask(call);
                    self.held.close();
                }
                () = listed(connection), if is_coming => {}
            }
        }
    }

    fn is_worn_out(&self) -> bool {
        self.call_limits.are_reached()
    }

    /// Waits for the next line. In the meantime, it takes the CLI's requests for results, sends the first input once the tools
    /// are listed, and ends the turn when the CLI announces a long pause.
    async fn next(&mut self, events: &mut Vec<Event>) -> Pulse {
        loop {
            let waits = self.opening.is_some() && self.process.handshake == Handshake::Done;
            let connection = self.tools.as_ref().map(Tools::connection);
            let step = tokio::select! {
                biased;
                step = self.process.streams.step() => step,
                call = next_call(&mut self.tools) => {
                    self.held.ask(call);
                    continue;
                }
                () = listed(connection), if waits => {
                    self.open();
                    continue;
                }
                failure = long_pause(&self.stderr, self.long_pauses) => {
                    self.process.decoder.finish(events);
                    events.push(Event::Failure(failure));
                    return Pulse::TurnOver;
                }
            };
            return match self.process.line_of(step, events) {
                Ok(line) => self.read(&line, events),
                Err(pulse) => pulse,
            };
        }
    }

    fn say_interrupt(&mut self) {
        self.process.streams.say(input::interrupt(INTERRUPT));
    }

    async fn ended(self, has_ended: bool) -> Option<EndedProcess> {
        // If the server of a call went away first, the call would fail, and the CLI would ask its model how to go on.
        Some(self.process.ended(has_ended, (self.tools, self.held)).await)
    }

    fn serves_any_start(_: &Setup) -> bool {
        false
    }

    /// The process was started with this setup: only the handshake is left.
    fn prime(&mut self, _: &Arc<Setup>) {
        self.asked_ahead = Some(Instant::now());
        self.initialize();
    }

    fn answers_by(&self) -> Option<Instant> {
        self.asked_ahead
            .filter(|_| !self.is_ready())
            .map(|asked| asked + HANDSHAKE)
    }
}

/// The tokens that the model has read and written.
#[derive(Debug, Default)]
struct QwenTokens {
    /// The usage reported for all turns so far: the CLI tells the sum.
    reported: Usage,
    /// The usage of the message that is being received.
    message: Option<Usage>,
}

impl QwenTokens {
    /// Reads the usage in the line `line` of the CLI's output, if it is about one of the model's messages.
    pub fn note(&mut self, line: &str) {
        #[derive(Deserialize)]
        struct QwenLine<'a> {
            #[serde(borrow)]
            message: Option<QwenMessage<'a>>,
        }
        #[derive(Deserialize)]
        struct QwenMessage<'a> {
            #[serde(borrow)]
            usage: Option<&'a RawValue>,
        }
        if !line.starts_with("{\"type\":\"assistant\"") {
            return;
        }
        let message = serde_json::from_str::<QwenLine>(line)
            .ok()
            .and_then(|line| line.message);
        let usage = message.and_then(|message| read_usage(&mut Fields::default(), message.usage));
        // A message may come in several lines, of which one has the figures.
        if let Some(usage) = usage.filter(|usage| usage.total_tokens > 0) {
            self.message = Some(usage);
        }
    }

    /// The usage of a turn that ends with a message with calls.
    pub fn of_message(&mut self) -> Option<Usage> {
        let usage = self.message.take()?;
        self.reported.add(&usage);
        Some(usage)
    }

    /// The usage of a turn at whose end the CLI reports `total`.
    pub fn of_turn(&mut self, total: &Usage) -> Usage {
        let turn = self.left(total);
        self.reported = total.clone();
        self.message = None;
        turn
    }

    /// The turn's own part of `total`, without counting it as reported.
    pub fn left(&self, total: &Usage) -> Usage {
        let before = &self.reported;
        let less = |all: u64, before: u64| all.saturating_sub(before);
        let less_of = |all: Option<u64>, before: Option<u64>| all.map(|all| less(all, before.unwrap_or_default()));
        Usage {
            input_tokens: less(total.input_tokens, before.input_tokens),
            output_tokens: less(total.output_tokens, before.output_tokens),
            total_tokens: less(total.total_tokens, before.total_tokens),
            cache_read_tokens: less_of(total.cache_read_tokens, before.cache_read_tokens),
            cache_write_tokens: less_of(total.cache_write_tokens, before.cache_write_tokens),
            reasoning_tokens: less_of(total.reasoning_tokens, before.reasoning_tokens),
            estimated: total.estimated,
            ..Usage::default()
        }
    }
}

/// The session and the model, as the CLI has named them.
#[derive(Debug, Default)]
struct Names {
    pub session_id: Option<String>,
    pub model: Option<String>,
    pub permission_mode: Option<String>,
    pub version: Option<String>,
}

impl Names {
    /// The `session` event with which each turn of this session begins.
    pub fn session_event(&self) -> Event {
        Event::Session {
            session_id: self.session_id.clone(),
            model: self.model.clone(),
            permission_mode: self.permission_mode.clone(),
            version: self.version.clone(),
        }
    }
}

/// The events at the end of the turn, in the CLI's place.
fn end_events(usage: Option<Usage>, names: &Names) -> impl Iterator<Item = Event> {
    let stop_reason = Some("tool_use".to_owned());
    let tokens = usage.clone().map(|usage| Event::Usage {
        usage,
        raw_stop_reason: stop_reason.clone(),
    });
    let outcome = Event::Outcome(Box::new(Outcome {
        subtype: Some("success".to_owned()),
        is_error: false,
        stop_reason,
        num_turns: Some(1),
        usage,
        session_id: names.session_id.clone(),
        model: names.model.clone(),
        ..Outcome::default()
    }));
    tokens.into_iter().chain([outcome])
}

/// The warning that the model has also called the tool `name`, which does not exist.
fn unknown_tool(name: &str) -> Event {
    Event::Warning {
        code: "UNKNOWN_TOOL".to_owned(),
        message: format!(
            "the model also called {name:?}, which is no tool: the CLI tells it so with the results of the others"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(input: u64, output: u64) -> Usage {
        Usage {
            input_tokens: input,
            output_tokens: output,
            total_tokens: input + output,
            ..Usage::default()
        }
    }

    #[test]
    fn a_turn_takes_what_the_sum_has_grown_by() {
        let mut tokens = QwenTokens::default();
        tokens.note(
            r#"{"type":"assistant","message":{"usage":{"input_tokens":20,"output_tokens":7,"total_tokens":27}}}"#,
        );
        tokens.note(r#"{"type":"assistant","message":{"usage":{"input_tokens":0,"output_tokens":0}}}"#);
        assert_eq!(tokens.of_message(), Some(usage(20, 7)));
        assert_eq!(tokens.of_message(), None);
        assert_eq!(tokens.left(&usage(50, 16)), usage(30, 9));
        assert_eq!(tokens.of_turn(&usage(50, 16)), usage(30, 9));
        assert_eq!(tokens.of_turn(&usage(60, 17)), usage(10, 1));
    }
}
