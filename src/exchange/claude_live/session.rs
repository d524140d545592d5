//! One claude process that takes one turn after the other.
//!
//! In: a [`ClaudeInput`] per turn. Out: [`Pulse`]s with the events of the turn, until it is over. Requests of the CLI's are answered on
//! the way, and between turns as well ([`ClaudeSession::idle`]).
//!
//! ```text
//! start ─▶ spare ─begin─▶ handshake + turn ─▶ resting ─begin─▶ turn ─▶ resting …
//!   └─prime─▶ handshake ─▶ ready ─begin─▶ turn ─┘
//! start with a transcript ─begin─▶ handshake + turn, or, where it ends in a deferred call: handshake ─▶ resumed ─▶ turn
//! any of them ── end (killed, removed, awaited in the background)
//! ```

use std::sync::Arc;

use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::memory::{self, ApiMessage, Opening, TurnMessages};
use super::process::{self, Readiness, Resumed, ResumedBeginning};
use super::turns::{self, CacheWatch, ClaudeInput, Turns};
use super::wire::{self, Changes};
use super::{ReportedModels, RunFolder, read_models};
use crate::EndedProcess;
use crate::installed::Binary;
use crate::live::session::{self, HANDSHAKE, Handshake, Pulse, Session, SessionProcess, TurnInput};
use crate::live::setup::{Changeable, Setup};
use crate::live::streams::{LineProcess, StreamEvent};
use crate::live::turn::{Report, TurnEnd};
use crate::print::{NotStarted, Surroundings, schema_left_out};
use crate::scratch::Leftover;
use crate::stream_json::{self, Inbound};
use dfp_model::error::Code;
use dfp_model::event::{Event, Outcome};
use dfp_process::activity::now_ms;
use dfp_provider::choices::lacking;
use dfp_provider::claude::requests::TOOL_CHOICE;
use dfp_provider::command::CommandLine;
use dfp_provider::declare::mcp::{self, Answered};
use dfp_provider::models::ListedModel;
use dfp_text::decode::{Decoder, MAX_OUTPUT_TOKENS, Wire};

/// Our request ids; the CLI only repeats them.
const INITIALIZE: &str = "df-initialize";
const INTERRUPT: &str = "df-interrupt";
const VERSION: &str = "df-version";
const COST: &str = "df-cost";

/// The CLI's own tool for answers by a schema. Tools of the caller's have a prefix here.
const ANSWER_TOOL: &str = "StructuredOutput";

/// A live process.
#[derive(Debug)]
pub struct ClaudeSession {
    process: LineProcess,
    turns: Turns,
    setup: Arc<Setup>,
    readiness: Readiness,
    /// The cost of all turns before this one, US dollars: the CLI reports the sum (CLI-FACTS 1.6).
    cost_usd: f64,
    owner: u64,
    socket: Option<Leftover>,
    /// The transcript that the process was started with, and what is left to do of it.
    resumed: Option<Resumed>,
    /// The model's messages of the turn, as the CLI reports them.
    messages: TurnMessages,
    facts: SessionFacts,
    /// The choices that are in force in the process.
    changes: Changes,
    /// True if the turn is to call no tool: what its model calls all the same is left out.
    forbids_calls: bool,
    /// True once such a call was left out: the CLI would tell its model of it, and of a result that it makes up.
    has_left_out_call: bool,
    /// The folder that it runs in, which others of its provider share.
    folder: Option<Arc<RunFolder>>,
    /// Where the models are kept that it tells, and its binary.
    reported_models: Option<(Binary, Arc<ReportedModels>)>,
    cache: CacheWatch,
    /// The models that it has, once it has told them.
    models: Vec<ListedModel>,
    /// The choices of the turn, until they are compared with those of the model.
    unchecked: Option<Changeable>,
    /// The effort of the last turn, if the CLI keeps it while it takes the results of the turn's calls.
    turn_effort: Option<String>,
    /// The effort that is kept in place of another that the turn asks for.
    kept_effort: Option<String>,
}

/// Facts of a process that its lines don't tell.
#[derive(Debug, Clone, Default)]
pub struct SessionFacts {
    /// The model that it was asked for; "" for the CLI's own choice.
    pub model: String,
    /// The effort of the turn; `None` for the model's own.
    pub effort: Option<String>,
    /// The surroundings that it tells its model.
    pub opening: Opening,
}

/// Facts of a reply that its events don't tell.
#[derive(Debug)]
pub struct ClaudeReply {
    /// The model's messages, if they are all that the API was told in the turn.
    pub messages: Option<Vec<ApiMessage>>,
    pub facts: SessionFacts,
}

/// The parts that a process is started with beside its command line.
#[derive(Debug)]
pub(super) struct StartWith {
    pub changes: Changes,
    pub facts: SessionFacts,
    pub folder: Option<Arc<RunFolder>>,
    pub resumed: Option<Resumed>,
    /// Where the models are kept that it tells, and its binary.
    pub reported_models: Option<(Binary, Arc<ReportedModels>)>,
}

impl ClaudeSession {
    /// Starts a process without a setup, with the transcript that it resumes, if there is one.
    ///
    /// # Errors
    /// [`NotStarted`].
    pub(super) fn start(
        line: CommandLine,
        surroundings: Surroundings,
        cancel: &CancellationToken,
        with: StartWith,
    ) -> Result<ClaudeSession, NotStarted> {
        let StartWith {
            changes,
            facts,
            folder,
            mut resumed,
            reported_models,
        } = with;
        let owner = surroundings.owner;
        let process = LineProcess::start(line, surroundings, cancel, decoder(), |_, _| Ok(()))?;
        if let (Some(resumed), Some(folder)) = (&mut resumed, process.folder()) {
            resumed.file_is_in(&folder);
        }
        Ok(ClaudeSession {
            process,
            turns: Turns::default(),
            setup: Arc::new(Setup::new(None, None, &[])),
            readiness: Readiness::default(),
            cost_usd: 0.0,
            owner,
            socket: None,
            resumed,
            messages: TurnMessages::default(),
            facts,
            changes,
            forbids_calls: false,
            has_left_out_call: false,
            folder,
            reported_models,
            cache: CacheWatch::default(),
            models: Vec::new(),
            unchecked: None,
            turn_effort: None,
            kept_effort: None,
        })
    }

    fn initialize(&mut self, setup: &Arc<Setup>) -> String {
        self.process.handshake = Handshake::Asked(Instant::now());
        self.setup = Arc::clone(setup);
        wire::initialize(INITIALIZE, setup)
    }

    /// Begins a turn with a user line. The first turn sends the CLI `setup` in the same write: it reaches the API in 41 ms that way,
    /// and the CLI takes its lines in order (CLI-FACTS 1.7). A transcript that ends in a deferred call is resumed before the line.
    fn begin(&mut self, input: ClaudeInput, setup: &Arc<Setup>) {
        self.process.begin_turn(decoder());
        self.messages = TurnMessages::default();
        self.unchecked = Some(setup.changeable().clone());
        if self.facts.opening.date.is_none() {
            self.facts.opening.date = memory::date_told(now_ms());
        }
        let mut lines = String::new();
        if self.process.handshake == Handshake::Unasked {
            lines = self.initialize(setup);
        }
        lines.push_str(&self.changes.lines(setup.changeable()));
        let choice = setup.changeable().fields.get(TOOL_CHOICE.name);
        self.forbids_calls = choice.is_some_and(|choice| choice["type"] == "none");
        let asked = self.changes.effort();
        let last = self.turn_effort.take();
        let kept = match &input.transcript {
            Some(transcript) => transcript.kept_effort.clone(),
            None => last.filter(|_| input.goes_on),
        };
        self.kept_effort = kept.clone().filter(|kept| asked.is_some_and(|asked| asked != kept));
        self.facts.effort = kept.or_else(|| asked.map(str::to_owned));
        match (
            self.changes.waits(),
            self.resumed.as_mut().filter(|resumed| resumed.waits()),
        ) {
            (true, _) => self.changes.hold(input.line),
            (false, Some(resumed)) => resumed.hold(input.line),
            (false, None) => lines.push_str(&self.turns.begin(&input.line)),
        }
        self.process.streams.say(lines);
    }

    /// Sends the user line that waits for the end of a resumption, or for changes.
    fn go_on(&mut self) {
        if let Some(line) = self.changes.line() {
            match self.resumed.as_mut().filter(|resumed| resumed.waits()) {
                Some(resumed) => resumed.hold(line),
                None => {
                    let line = self.turns.begin(&line);
                    return self.process.streams.say(line);
                }
            }
        }
        if self.process.handshake == Handshake::Done
            && let Some(line) = self.resumed.as_mut().and_then(Resumed::line)
        {
            let line = self.turns.begin(&line);
            self.process.streams.say(line);
        }
    }

    /// Returns whether the CLI has answered all that it was sent ahead, and has got all answers.
    fn is_ready(&self) -> bool {
        self.process.streams.is_all_written() && self.readiness.is_complete(self.process.handshake)
    }

    /// Adds the warnings about those of the turn's choices that its `model` does not have, once in a turn.
    fn check_choices(&mut self, model: &str, events: &mut Vec<Event>) {
        if let Some(wanted) = self.unchecked.take() {
            events.extend(lacking("claude", &self.models, model, &wanted.choices()));
            events.extend(self.kept_effort.take().map(|kept| effort_kept(&kept)));
        }
    }

    /// Takes the messages of a turn that has ended, if they are all that the API was told in it.
    fn take_messages(&mut self) -> Option<Vec<ApiMessage>> {
        let messages = std::mem::take(&mut self.messages).whole();
        let last = messages.as_ref().and_then(|messages| messages.last());
        let default = last.and_then(ApiMessage::default_effort);
        // A version that does not report the efforts of turns does not report user lines either.
        self.turn_effort = default
            .filter(|_| self.turns.tells_of_lines())
            .map(|default| self.facts.effort.clone().unwrap_or_else(|| default.to_owned()));
        messages
    }

    /// Reads a line of the turn: a control line is answered, any other decoded. Three things fail the turn at once: an answer
    /// that was not asked for, a bound tool that the CLI does not offer, and an answer that has reached its limit. Calls get the
    /// caller's names, and the cost becomes the turn's own.
    fn read(&mut self, line: &str, events: &mut Vec<Event>) -> Pulse {
        self.process.streams.count_line();
        if self.unchecked.is_some() && self.process.handshake == Handshake::Done && !self.facts.model.is_empty() {
            let model = self.facts.model.clone();
            self.check_choices(&model, events);
        }
        match stream_json::read(line) {
            Some(Inbound::Answer { request_id, answer, .. }) if request_id == COST => {
                let cause = answer.and_then(|answer| turns::cause_of_miss(answer.get()));
                return self.release(cause, events);
            }
            Some(inbound) => return self.control(inbound),
            None => {}
        }
        self.note_socket(line);
        if let Some(resumed) = &mut self.resumed {
            match resumed.read(line, self.process.handshake == Handshake::Done) {
                ResumedBeginning::Over => {}
                ResumedBeginning::Waits => {
                    self.go_on();
                    return Pulse::Alive;
                }
                ResumedBeginning::Lost => return Pulse::Lost,
            }
        }
        self.messages.read(line, self.resumed.as_ref().and_then(Resumed::call));
        let before = events.len();
        self.process.decode(line, events);
        // Where no option names the model, the turn's first line does.
        let model = events[before..].iter().find_map(|event| match event {
            Event::Session { model, .. } => model.clone(),
            _ => None,
        });
        if let Some(model) = model.filter(|_| self.unchecked.is_some()) {
            self.check_choices(&model, events);
        }
        if self.turns.is_unasked(line, &events[before..]) {
            events.truncate(before);
            // The turn has its answer. The end of what nobody has asked for is noticed between the turns.
            if self.cache.release(None, events) {
                return Pulse::TurnOver;
            }
            events.extend(turns::unasked());
            return Pulse::TurnOver;
        }
        match self.process.offered(self.setup.declarations()) {
            Ok(None) => {}
            Ok(Some(offered)) => {
                let wants_answer = self.setup.output().is_some();
                events.extend(schema_left_out(wants_answer.then_some(ANSWER_TOOL), &offered));
            }
            Err(failed) => {
                events.truncate(before);
                events.extend(failed);
                return Pulse::TurnOver;
            }
        }
        if events[before..].iter().any(is_at_limit) {
            // An interrupt, or the grace of an end, would leave it the time to do so.
            self.process.streams.kill();
            events.push(Event::Outcome(Box::new(Outcome {
                is_error: true,
                ..Outcome::default()
            })));
        }
        let mut over = false;
        for event in &mut events[before..] {
            match event {
                Event::ToolCall { tool_call } if tool_call.name == ANSWER_TOOL && self.setup.output().is_some() => {
                    let tool_call = tool_call.clone();
                    *event = Event::Answer { tool_call };
                }
                Event::ToolCall { tool_call } => tool_call.name = self.setup.callers_name(&tool_call.name),
                Event::ToolCallDelta { name, .. } => match self.setup.ours(name) {
                    Some(own) => *name = own.to_owned(),
                    // The call of a tool of the CLI's own, or of the answer itself, is no call of the caller's.
                    None => name.clear(),
                },
                Event::Outcome(outcome) => {
                    outcome.cost_usd = outcome.cost_usd.map(|total| turn_cost(&mut self.cost_usd, total));
                    over = true;
                }
                _ => {}
            }
        }
        let deferred = self.resumed.as_ref().and_then(Resumed::call);
        let (forbids_calls, has_left_out_call) = (self.forbids_calls, &mut self.has_left_out_call);
        events.retain(|event| match event {
            Event::ToolCall { .. } | Event::InvalidToolCall { .. } | Event::ToolCallDelta { .. } if forbids_calls => {
                *has_left_out_call = true;
                false
            }
            Event::ToolCallDelta { name, .. } => !name.is_empty(),
            // The CLI has asked for a result that the caller knows.
            Event::ToolResult { tool_call_id, .. } => deferred != Some(tool_call_id.as_str()),
            _ => true,
        });
        if !over {
            return Pulse::Alive;
        }
        self.turns.end();
        self.resumed = None;
        if self.cache.asks(&events[before..], self.messages.requests()) {
            self.process.streams.say(wire::session_cost(COST));
            self.cache.hold(events.split_off(before));
            return Pulse::Alive;
        }
        Pulse::TurnOver
    }

    /// Ends a turn that has waited for the cause of a miss of the prompt cache, if there is one.
    fn release(&mut self, cause: Option<String>, events: &mut Vec<Event>) -> Pulse {
        match self.cache.release(cause, events) {
            true => Pulse::TurnOver,
            false => Pulse::Alive,
        }
    }

    /// Answers a control line, and keeps what it tells of the process's readiness.
    fn control(&mut self, inbound: Inbound) -> Pulse {
        let answer = match inbound {
            Inbound::Hook { request_id, call } => match self.resumed.as_ref().and_then(Resumed::call) {
                Some(deferred) if call.as_deref() == Some(deferred) => wire::allowed(&request_id),
                _ => wire::deferred(&request_id),
            },
            Inbound::Mcp { request_id, message } => {
                self.readiness.server_asked = true;
                let message: mcp::Message = serde_json::from_str(message.get()).unwrap_or_default();
                match mcp::answer(self.setup.tools(), false, &message) {
                    Answered::Nothing => wire::mcp_answer(&request_id, &mcp::acknowledged(&message)),
                    Answered::With(answer) => wire::mcp_answer(&request_id, &answer),
                    Answered::Tools(answer) => {
                        self.readiness.tools_listed = true;
                        wire::mcp_answer(&request_id, &answer)
                    }
                    Answered::Call
                        if let Some(outcome) = self.resumed.as_ref().and_then(|resumed| resumed.outcome(&message)) =>
                    {
                        wire::mcp_answer(&request_id, &mcp::called(&message, outcome))
                    }
                    Answered::Call => {
                        return Pulse::Unsupported(
                            "it runs tools instead of leaving them to the caller (its hooks are off)".into(),
                        );
                    }
                }
            }
            Inbound::Permission { request_id } => stream_json::denied(&request_id),
            Inbound::Unknown { request_id, subtype } => stream_json::unknown(&request_id, &subtype),
            // A refusal is an answer as well: the CLI has started.
            Inbound::Answer {
                request_id, version, ..
            } if request_id == VERSION => {
                self.readiness.answered = true;
                self.readiness.version = version;
                return Pulse::Alive;
            }
            Inbound::Answer {
                request_id,
                refused,
                answer,
                ..
            } if request_id == INITIALIZE => {
                if let Some(reason) = refused {
                    return Pulse::Unsupported(format!("it refuses to be initialised: {reason}"));
                }
                if let Some(models) = answer.and_then(|answer| read_models(answer.get())) {
                    if let Some((binary, reported)) = &self.reported_models {
                        reported.note(binary, models.clone());
                    }
                    self.models = models;
                }
                self.process.handshake = Handshake::Done;
                if let Some(resumed) = &mut self.resumed {
                    resumed.is_read();
                }
                self.go_on();
                // Lines are taken in order: a CLI that has answered this one will not answer the one before any more.
                self.readiness.answered = true;
                return Pulse::Alive;
            }
            Inbound::Answer {
                request_id, refused, ..
            } if self.changes.answered(&request_id) => {
                if let Some(reason) = refused {
                    return Pulse::Unsupported(format!("it takes no other choices in a running process: {reason}"));
                }
                self.go_on();
                return Pulse::Alive;
            }
            Inbound::Answer { .. } | Inbound::Nothing => return Pulse::Alive,
        };
        self.process.streams.say(answer);
        Pulse::Alive
    }

    /// Takes note of the CLI's socket, which is removed when the process is gone.
    fn note_socket(&mut self, line: &str) {
        if self.socket.is_none()
            && let Some(path) = process::socket_named_in(line, self.process.pid())
        {
            self.socket = Some(Leftover::adopt(path, self.owner));
        }
    }
}

impl Session for ClaudeSession {
    type Setup = Setup;
    type Input = ClaudeInput;
    type ReplyFacts = ClaudeReply;

    /// 2.1.197 to 2.1.332 put "[Tool use interrupted]" in the place of such a call.
    const LOSES_REPEATED_IDS: bool = true;

    fn process(&self) -> Option<SessionProcess<'_>> {
        Some(SessionProcess::Own(&self.process))
    }

    async fn turn(&mut self, turn: TurnInput<ClaudeSession>, report: &Report) -> TurnEnd<ClaudeReply> {
        self.begin(turn.input, &turn.setup);
        session::read_turn(self, turn.origin, report, |session| ClaudeReply {
            messages: session.take_messages(),
            facts: session.facts.clone(),
        })
        .await
    }

    async fn idle(&mut self) -> Pulse {
        let mut unheard = Vec::new();
        loop {
            let is_ready = self.is_ready();
            if self.process.becomes_ready(is_ready) {
                return Pulse::Ready {
                    is_primed: self.process.handshake != Handshake::Unasked,
                };
            }
            match self.process.streams.step().await {
                StreamEvent::Line(Some(line)) => {
                    match self.read(&line, &mut unheard) {
                        Pulse::Unsupported(reason) => return Pulse::Unsupported(reason),
                        Pulse::TurnOver => return Pulse::Unsupported("it answers what nobody has asked".to_owned()),
                        Pulse::Alive | Pulse::Ready { .. } | Pulse::Ended | Pulse::Lost => {}
                    }
                    unheard.clear();
                }
                StreamEvent::Line(None) | StreamEvent::Progress => {}
                StreamEvent::Ended => return Pulse::Ended,
            }
        }
    }

    fn is_worn_out(&self) -> bool {
        self.has_left_out_call
    }

    async fn next(&mut self, events: &mut Vec<Event>) -> Pulse {
        let overdue = self.cache.until();
        let step = tokio::select! {
            biased;
            () = sleep_until(overdue.unwrap_or_else(Instant::now)), if overdue.is_some() => {
                return self.release(None, events);
            }
            step = self.process.streams.step() => step,
        };
        if matches!(step, StreamEvent::Ended | StreamEvent::Line(None)) && self.cache.release(None, events) {
            return Pulse::TurnOver;
        }
        match self.process.line_of(step, events) {
            Ok(line) => self.read(&line, events),
            Err(pulse) => pulse,
        }
    }

    /// Stops the turn. A user line that still waits must not be sent behind it: the API would be asked for nobody.
    fn say_interrupt(&mut self) {
        self.changes.give_up();
        if let Some(resumed) = &mut self.resumed {
            resumed.give_up();
        }
        self.process.streams.say(wire::interrupt(INTERRUPT));
    }

    async fn ended(self, has_ended: bool) -> Option<EndedProcess> {
        Some(self.process.ended(has_ended, (self.socket, self.folder)).await)
    }

    fn serves_any_start(setup: &Setup) -> bool {
        setup.choices().is_none()
    }

    /// Sends the CLI `setup` ahead of its first turn. Only a process without a setup takes it.
    fn prime(&mut self, setup: &Arc<Setup>) {
        self.process.report_again();
        if self.process.handshake == Handshake::Unasked {
            let line = self.initialize(setup);
            self.process.streams.say(line);
        }
    }

    /// Asks for the CLI's version, which shows that it has started and tells it nothing.
    fn ask_version(&mut self) {
        self.readiness.asked = Some(Instant::now());
        self.process.report_again();
        self.process.streams.say(wire::binary_version(VERSION));
    }

    fn version(&self) -> Option<&str> {
        self.readiness.version.as_deref()
    }

    fn answers_by(&self) -> Option<Instant> {
        self.readiness
            .asked_at(self.process.handshake)
            .map(|asked| asked + HANDSHAKE)
    }
}

/// Makes the warning that a turn which takes results keeps its effort (2.1.330, 2.1.332; 2.1.197 takes another at once).
fn effort_kept(effort: &str) -> Event {
    Event::Warning {
        code: Code::UnsupportedOption.as_str().to_owned(),
        message: format!(
            "`reasoning.effort` has no effect on this reply: claude keeps the effort \"{effort}\" of the turn whose results it takes; \
             another one is in force from the user's next message on"
        ),
    }
}

/// Makes the decoder of a turn.
fn decoder() -> Decoder {
    Decoder::new(Wire::ClaudeStream).with_call_deltas().ending_at_limit()
}

/// Returns whether `event` means that the answer has reached its limit of tokens: left alone, the CLI asks its API for the rest
/// up to three times.
fn is_at_limit(event: &Event) -> bool {
    matches!(event, Event::Failure(failure) if failure.kind.as_deref() == Some(MAX_OUTPUT_TOKENS))
}

/// The cost of a turn, in US dollars, if all turns together cost `total` and those before it cost `before`, which becomes
/// `total`.
fn turn_cost(before: &mut f64, total: f64) -> f64 {
    let cost = (total - *before).max(0.0);
    *before = total;
    // The CLI's own sums have no more digits than this; the difference of two would.
    (cost * 1e9).round() / 1e9
}
