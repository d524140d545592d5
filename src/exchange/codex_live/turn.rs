//! One session of codex: opens a thread if there is none, sends the new part, and reads until the reply has come.
//!
//! In: a [`CodexInput`]. Out: events, and the end of the turn. Giving the turn up stops it and forgets the thread; so does every
//! end but a reply, since codex keeps failed turns in its history (CODEX-LIVE pitfall 17). A new thread costs 10 to 17 ms.
//!
//! The first turn resumes the thread that is remembered, or starts a new one. A thread that can't be resumed, for whatever reason, is
//! started anew, and told its history.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::Codex;
use super::conversation::{CodexThread, forget};
use super::inbound::ThreadEvent;
use super::items::{self, KnownCodexThread};
use super::reader::CodexTurnReader;
use super::rollout::RecalledItems;
use super::service::CodexService;
use super::settings::CodexSetup;
use super::wire::{CodexTurnStart, InjectItems, ToolAnswer};
use crate::EndedProcess;
use crate::codex_live::conversation::{ResumedThread, TakenId};
use crate::codex_live::rollout::{self, Rollout, ThreadParts};
use crate::codex_live::settings::refused_setting;
use crate::codex_live::wire::{DynamicTool, ThreadResume, ThreadStart};
use crate::form::InServer;
use crate::host::Heartbeat;
use crate::live::session::{
    Incoming, Program, Pulse, Session, SessionProcess, TurnInput, TurnStep, UNFIT, not_opened, opening, request_failed,
};
use crate::live::turn::{Report, TurnEnd};
use crate::rpc::message::RpcError;
use crate::rpc::{Answering, RequestError};
use dfp_model::error::Code;
use dfp_model::event::Event;
use dfp_model::iso;
use dfp_process::activity::now_ms;

/// The time for which a stream may be silent if no option sets it: codex's own limit.
const SILENCE: Duration = Duration::from_secs(300);
/// The time after its own limit that codex takes to report it.
const SLACK: Duration = Duration::from_secs(1);
/// The words for codex in the reasons of failures.
const PROGRAM: Program = Program {
    process: "codex app-server",
    session: "thread",
};

/// The input of a turn: a history for a thread that is to be opened, or the new part for one that knows the beginning.
#[derive(Debug)]
pub struct CodexInput {
    /// The results of its calls, by the API's ids.
    pub results: Vec<(String, ToolAnswer)>,
    /// The items after the results, or those of the whole history.
    pub items: Vec<Value>,
    /// The thread of codex's that knows the history, if it is remembered; then `items` has only what is said behind it.
    pub known: Option<KnownCodexThread>,
}

/// The facts that are known of a reply beside its events.
#[derive(Debug)]
pub struct CodexReplyFacts {
    pub recalled: RecalledItems,
    /// The model that was asked, as far as it is known.
    pub model: String,
}

/// A session of a codex server.
#[derive(Debug)]
pub struct CodexSession {
    place: InServer<Codex>,
    /// True if a turn has chosen a level of reasoning, which later turns have until they choose another.
    has_chosen_effort: bool,
    /// True if a turn has chosen a service tier, which later turns have until they give it up.
    has_chosen_tier: bool,
    /// The time for which nothing may come after a call.
    silence: Duration,
    /// The thread, as soon as there is one.
    thread: Option<CodexThread>,
    /// The thread that is being opened.
    opening: Option<CodexOpening>,
}

impl CodexSession {
    /// Makes a session without a thread, which its first turn opens.
    pub fn new(place: InServer<Codex>) -> CodexSession {
        CodexSession {
            has_chosen_effort: false,
            has_chosen_tier: false,
            silence: place.limits.idle_timeout.unwrap_or(SILENCE) + SLACK,
            thread: None,
            opening: None,
            place,
        }
    }

    /// Takes on the choices of the turn `turn` in a thread that knows the beginning, and returns whether that goes: a turn in progress
    /// keeps its own, and a level of reasoning is given up by choosing the default, if it is known.
    fn takes_on(&mut self, turn: &TurnInput<CodexSession>) -> bool {
        let goes = match turn.input.results.is_empty() {
            true => !self.has_chosen_effort || self.effort_of(&turn.setup).is_some(),
            false => self.place.setup.has_choices_of(&turn.setup),
        };
        self.place.setup = Arc::clone(&turn.setup);
        goes
    }

    /// The level of reasoning to be sent with a turn.
    fn effort_of<'a>(&'a self, setup: &'a CodexSetup) -> Option<&'a str> {
        let chosen = setup.choices.effort.as_deref();
        let asked = || asked_model(&self.place.server, setup);
        chosen.or_else(|| match self.has_chosen_effort {
            true => self.place.server.default_effort(&asked()),
            false => None,
        })
    }

    /// The warning that codex leaves out the service tier of a turn in the open thread, which it does silently (0.150.0, 0.169.0).
    fn tier_ignored(&self, setup: &CodexSetup) -> Option<Event> {
        let tier = setup.choices.service_tier.as_deref()?;
        let model = self.thread.as_ref().map(|thread| thread.model.as_str());
        // Of a model that is not named, nothing is known.
        let model = model.filter(|model| !model.is_empty())?;
        let sent = self.place.server.tiers(model)?;
        // These two are what is served without a choice.
        let is_served = ["auto", "default"].contains(&tier) || sent.contains(&tier);
        (!is_served).then(|| Event::Warning {
            code: Code::UnsupportedOption.as_str().to_owned(),
            message: match sent.as_slice() {
                [] => format!("`serviceTier` has no effect: codex's model {model} has no service tiers"),
                sent => format!(
                    "`serviceTier` has no effect: codex's model {model} has no tier \"{tier}\"; it has: {}",
                    sent.join(", ")
                ),
            },
        })
    }

    /// Injects `items` into an idle thread, and starts a turn. The two are sent one directly after the other, which loses nothing
    /// (CODEX-LIVE pitfall 10).
    async fn start_turn(&mut self, items: &[Value]) -> Result<(), RequestError> {
        let setup = Arc::clone(&self.place.setup);
        if setup.choices.service_tier.is_some() {
            self.place.server.learn_tiers().await;
        }
        let effort = self.effort_of(&setup).map(str::to_owned);
        self.has_chosen_effort |= effort.is_some();
        let tier = setup.choices.service_tier.as_deref();
        // A choice is given up by the tier of the user's configuration, or by codex's own, which is null.
        let given_up = self.place.server.config.service_tier.as_deref();
        let service_tier = (tier.is_some() || self.has_chosen_tier).then_some(tier.or(given_up));
        self.has_chosen_tier = tier.is_some();
        let thread = self.thread.as_mut().ok_or(RequestError::Gone)?;
        thread.is_starting = true;
        if let Some(resumed) = &mut thread.resumed {
            resumed.rollout.begins();
        }
        let (server, thread_id) = (&thread.service.server, thread.id.as_str());
        let injected =
            (!items.is_empty()).then(|| server.post("thread/inject_items", &InjectItems { thread_id, items }));
        let start = CodexTurnStart {
            thread_id,
            input: [],
            environments: thread.resumed.is_some().then_some([]),
            effort: effort.as_deref(),
            service_tier,
            output_schema: setup.choices.output.as_ref(),
        };
        let started = server.post("turn/start", &start);
        for answer in injected.into_iter().chain([started]) {
            server.answer(answer).await?;
        }
        Ok(())
    }

    /// Sends the new part to a thread that waits. The heartbeat is that of results, which have no answer.
    async fn continue_turn(
        &mut self,
        CodexInput { results, items, .. }: CodexInput,
    ) -> Result<Heartbeat, RequestError> {
        if results.is_empty() {
            self.start_turn(&items).await?;
            return Ok(Heartbeat::default());
        }
        let thread = self.thread.as_mut().ok_or(RequestError::Gone)?;
        let service = Arc::clone(&thread.service);
        if service.host().is_over() {
            return Err(RequestError::Gone);
        }
        let mut heartbeat = Heartbeat::default();
        if items.is_empty() {
            heartbeat = service.heartbeat();
        } else {
            // Sent directly before the results, most of the items would miss the request (CODEX-LIVE pitfall 10).
            let inject = InjectItems {
                thread_id: &thread.id,
                items: &items,
            };
            service.server.request("thread/inject_items", &inject).await?;
        }
        for (call, answer) in results {
            thread.answer(&call, answer);
        }
        Ok(heartbeat)
    }

    /// Reads until the reply has come.
    async fn read(&mut self, is_fresh: bool, heartbeat: Heartbeat, report: &Report) -> TurnEnd<CodexReplyFacts> {
        let Some(thread) = &mut self.thread else {
            return TurnEnd::Vanished;
        };
        let mut reader = CodexTurnReader::new(&self.place.setup.tools, &thread.id, &thread.model, thread.turn.clone());
        reader.told = std::mem::take(&mut thread.told);
        let opening = opening(&thread.id, &thread.model, self.place.server.version.as_deref());
        let mut incoming = Incoming::new(report, &thread.inbox, heartbeat, opening);
        let step = loop {
            let next = thread
                .next(&mut incoming, reader.waits_behind_call(), self.silence)
                .await;
            let limits = self.place.server.server.protocol().limits();
            let step = match next {
                Ok(Some(ThreadEvent::ToolCall { request, call })) => {
                    thread.unended.get_or_insert_with(Instant::now);
                    thread.asked(call, request);
                    TurnStep::More
                }
                Ok(Some(event)) => reader.push(event, &limits, &mut incoming.events),
                Ok(None) => return incoming.closed(self.place.server.host(), is_fresh, PROGRAM).await,
                Err(_) => reader.silent(&limits, &mut incoming.events),
            };
            thread.turn.clone_from(&reader.turn);
            thread.is_starting &= reader.turn.is_none() && step == TurnStep::More;
            for call in reader.take_unfit() {
                thread.answer(&call, items::answer_of(UNFIT));
            }
            if step != TurnStep::More {
                incoming.push();
                break step;
            }
            incoming.tell().await;
        };
        match step {
            TurnStep::Reply => {
                thread.unended = None;
                let known = CodexReplyFacts {
                    recalled: reader.into_recalled(),
                    model: asked_model(&self.place.server, &self.place.setup),
                };
                TurnEnd::reply(true, known)
            }
            _ => TurnEnd::Failed,
        }
    }

    /// Returns whether a server that failed in this way has got nothing of the turn, and another one may do better.
    fn may_try_another(&self, error: &RequestError) -> bool {
        // A server that never was of use would fail again.
        matches!(error, RequestError::Unanswered(_)) && self.place.server.host().sessions() > 1
    }

    /// The end of a turn that could not be begun.
    async fn not_started(&self, error: RequestError, report: &Report) -> TurnEnd<CodexReplyFacts> {
        request_failed(report, self.place.server.host(), PROGRAM, error).await
    }

    /// Forgets the thread that is being opened, if there is one: it is opened for nobody.
    fn forget_opening(&mut self) {
        let Some(CodexOpening { answer, resumed }) = self.opening.take() else {
            return;
        };
        // A call that comes before the answer finds it so.
        if let Some(resumed) = &resumed {
            self.place.server.server.protocol().closing(&resumed.taken.id);
        }
        // This wait must not keep the server alive.
        let service = Arc::downgrade(&self.place.server);
        self.place.tracker.spawn(async move {
            let answer = answer.await;
            if let Ok(Ok(answer)) = answer
                && let Ok(opened) = serde_json::from_str::<CodexOpened>(answer.get())
                && let Some(service) = service.upgrade()
            {
                let id = &opened.thread.id;
                let resumed = resumed.filter(|resumed| resumed.taken.id == *id);
                if resumed.is_some() {
                    service.server.protocol().opened(id);
                }
                forget(&service, id, resumed).await;
            }
        });
    }
}

impl Session for CodexSession {
    type Setup = CodexSetup;
    type Input = CodexInput;
    type ReplyFacts = CodexReplyFacts;

    fn process(&self) -> Option<SessionProcess<'_>> {
        self.place.process()
    }

    async fn turn(&mut self, turn: TurnInput<CodexSession>, report: &Report) -> TurnEnd<CodexReplyFacts> {
        let is_fresh = self.thread.is_none();
        if !is_fresh && !self.takes_on(&turn) {
            // The thread is forgotten, and resumed with these choices.
            return TurnEnd::Vanished;
        }
        let begins = turn.input.results.is_empty();
        let sent = match is_fresh {
            true => match self.open_for(turn.input, report).await {
                Ok(items) => self.start_turn(&items).await.map(|()| Heartbeat::default()),
                Err(end) => return end,
            },
            false => match self.continue_turn(turn.input).await {
                // The model was not asked anything yet: another thread can take the turn.
                Err(_) => return TurnEnd::Vanished,
                sent => sent,
            },
        };
        match sent {
            Ok(heartbeat) => {
                report.push(begins.then(|| self.tier_ignored(&turn.setup)).flatten());
                self.read(is_fresh, heartbeat, report).await
            }
            Err(error) if self.may_try_another(&error) => TurnEnd::Vanished,
            Err(error) => {
                if let Some(thread) = &mut self.thread {
                    thread.is_starting &= matches!(error, RequestError::Unanswered(_));
                }
                self.not_started(error, report).await
            }
        }
    }

    async fn ended(mut self, _: bool) -> Option<EndedProcess> {
        self.forget_opening();
        self.thread?.close().await;
        None
    }

    async fn idle(&mut self) -> Pulse {
        match &mut self.thread {
            Some(thread) => thread.idle().await,
            None => Pulse::Ended,
        }
    }

    fn end(mut self) {
        self.forget_opening();
        if let Some(thread) = self.thread {
            // A call that comes before the task has begun finds it so.
            self.place.server.server.protocol().closing(&thread.id);
            self.place.tracker.spawn(thread.close());
        }
    }
}

/// The model that is asked, as far as it is known before its answer; empty if nothing names one.
pub fn asked_model(service: &CodexService, setup: &CodexSetup) -> String {
    let model = setup.model.as_ref().or(service.config.model.as_ref());
    model.cloned().unwrap_or_default()
}

impl CodexSession {
    /// Opens a thread, without the settings that an older codex does not take.
    async fn open(&mut self, report: &Report) -> Result<(), TurnEnd<CodexReplyFacts>> {
        let (service, setup) = (Arc::clone(&self.place.server), Arc::clone(&self.place.setup));
        let silence = self.silence;
        let namespace = setup.namespace();
        let mut settings = service
            .config
            .thread_settings(silence, namespace, setup.choices.searches_web);
        for name in service.refused_settings() {
            settings.remove(&name);
        }
        let tools = setup.dynamic_tools();
        loop {
            let start = ThreadStart {
                cwd: &service.folder,
                approval_policy: "never",
                sandbox: "read-only",
                base_instructions: (!setup.own_instructions).then_some(""),
                developer_instructions: setup.instructions(),
                ephemeral: true,
                environments: [],
                experimental_raw_events: true,
                config: &settings,
                model: setup.model.as_deref(),
                model_provider: service.config.thread_provider(),
                dynamic_tools: &tools,
            };
            let opening = self.opening.insert(CodexOpening {
                answer: service.server.post("thread/start", &start),
                resumed: None,
            });
            let answer = service.server.answer(&mut opening.answer).await;
            if !matches!(answer, Err(RequestError::Unanswered(_))) {
                self.opening = None;
            }
            match answer {
                Ok(answer) => return self.opened(&answer, report).await,
                Err(RequestError::Refused(refused)) => match refused_setting(&refused.message, &settings) {
                    Some(name) => {
                        settings.remove(&name);
                        service.remember_refused(name);
                    }
                    None => return Err(self.not_started(RequestError::Refused(refused), report).await),
                },
                Err(error) => {
                    let had_served = service.host().has_served();
                    return Err(not_opened(report, service.host(), had_served, PROGRAM, error).await);
                }
            }
        }
    }

    /// Opens the thread for `input`: the one that knows the history, or else a new one. Returns what a turn in it has to be told first.
    async fn open_for(&mut self, input: CodexInput, report: &Report) -> Result<Vec<Value>, TurnEnd<CodexReplyFacts>> {
        let CodexInput { items, known, .. } = input;
        let Some(known) = known else {
            return self.open(report).await.map(|()| items);
        };
        let known = Arc::new(known);
        let resumed = self.resume(&known).await;
        let known = Arc::unwrap_or_clone(known);
        if let Some((resumed, answer)) = resumed {
            self.opened(&answer, report).await?;
            if let Some(thread) = &mut self.thread {
                thread.told = known.told;
                thread.resumed = Some(resumed);
            }
            return Ok(items);
        }
        self.open(report).await?;
        // A new thread gets its instructions as such.
        let instructions = usize::from(items::instructions(&self.place.setup).is_some());
        Ok(known.items.into_iter().skip(instructions).chain(items).collect())
    }

    /// Has the server resume `known`; `None` if it can't, for whatever reason.
    async fn resume(&mut self, known: &Arc<KnownCodexThread>) -> Option<(ResumedThread, Box<RawValue>)> {
        let (service, setup) = (Arc::clone(&self.place.server), Arc::clone(&self.place.setup));
        service.resumes().filter(|_| rollout::is_thread_id(&known.id))?;
        let taken = TakenId::take(&service, &known.id).await?;
        let resumed = written(Arc::clone(&service), setup.dynamic_tools(), Arc::clone(known), taken).await?;
        let mut settings = service
            .config
            .thread_settings(self.silence, setup.namespace(), setup.choices.searches_web);
        for name in service.refused_settings() {
            settings.remove(&name);
        }
        let resume = ThreadResume {
            thread_id: &known.id,
            cwd: &service.folder,
            approval_policy: "never",
            sandbox: "read-only",
            base_instructions: (!setup.own_instructions).then_some(""),
            developer_instructions: (),
            exclude_turns: true,
            config: &settings,
            model: setup.model.as_deref(),
            model_provider: service.config.thread_provider(),
        };
        let opening = self.opening.insert(CodexOpening {
            answer: service.server.post("thread/resume", &resume),
            resumed: Some(resumed),
        });
        let answer = service.server.answer(&mut opening.answer).await;
        if matches!(answer, Err(RequestError::Unanswered(_))) {
            self.forget_opening();
            return None;
        }
        let resumed = self.opening.take()?.resumed?;
        let answer = answer.ok()?;
        let opened: CodexOpened = serde_json::from_str(answer.get()).ok()?;
        if opened.thread.id != known.id {
            service.unsubscribe(&opened.thread.id);
            return None;
        }
        Some((resumed, answer))
    }

    async fn opened(&mut self, answer: &RawValue, report: &Report) -> Result<(), TurnEnd<CodexReplyFacts>> {
        let Ok(opened) = serde_json::from_str::<CodexOpened>(answer.get()) else {
            let error = RpcError::of("codex opened a thread without an id");
            return Err(self.not_started(RequestError::Refused(error), report).await);
        };
        let service = Arc::clone(&self.place.server);
        service.host().count_session();
        report.begun();
        let (id, model) = (opened.thread.id, opened.model);
        if !opened.instruction_sources.is_empty() {
            let sources = opened.instruction_sources.join(", ");
            let message = format!("codex sends instructions of the user's with this thread: {sources}");
            report.push([Event::Warning {
                code: "INSTRUCTIONS_SENT".to_owned(),
                message,
            }]);
        }
        let tracker = self.place.tracker.clone();
        let thread = CodexThread::new(service, id, model, tracker);
        if thread.inbox.is_second() {
            // The thread is sent nothing: it belongs to another call, and continues as it is.
            let error = RpcError::of("codex opened a thread with the id of one that is open");
            return Err(self.not_started(RequestError::Refused(error), report).await);
        }
        thread.service.server.protocol().opened(&thread.id);
        self.thread = Some(thread);
        Ok(())
    }
}

/// Writes the file of the thread `known`, whose id was `taken`. It may have many megabytes, so it is written on the pool for blocking
/// work; if nobody waits for it any more, it goes as soon as it is whole, and the id behind it.
async fn written(
    service: Arc<CodexService>,
    tools: Vec<DynamicTool>,
    known: Arc<KnownCodexThread>,
    taken: TakenId,
) -> Option<ResumedThread> {
    let write = move || {
        let parts = ThreadParts {
            id: &known.id,
            items: &known.items,
            tools: &tools,
            cwd: &service.folder,
            version: service.version.as_deref().unwrap_or_default(),
            model_provider: service.config.provider_name(),
            time: &iso(now_ms()),
        };
        let rollout = Rollout::write(service.resumes()?, &parts).ok()?;
        Some(ResumedThread { rollout, taken })
    };
    tokio::task::spawn_blocking(write).await.ok()?
}

/// A thread that is being opened.
#[derive(Debug)]
struct CodexOpening {
    /// The answer that is to come.
    pub answer: Answering,
    /// The file of a thread that is resumed.
    pub resumed: Option<ResumedThread>,
}

/// The answer to `thread/start`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CodexOpened {
    pub thread: OpenedThread,
    #[serde(default)]
    model: String,
    #[serde(default)]
    instruction_sources: Vec<String>,
}

#[derive(Deserialize)]
struct OpenedThread {
    pub id: String,
}
