//! One turn of a codex thread as an exchange.
//!
//! A task of its own opens the thread where there is none, says what is new, and reads until the reply is there; [`CodexTurn`] hands on
//! what it finds. Whatever a turn comes to but a reply ends its thread, for codex keeps failed turns in its history (CODEX-LIVE
//! pitfall 17): a new one costs 10 to 17 ms.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use super::conversation::Conversation;
use super::items;
use super::reader::{Reader, Step};
use super::recall::Recalled;
use super::server::RequestError;
use super::service::Service;
use super::settings::refused_setting;
use super::setup::Setup;
use super::wire::{InjectItems, RpcError, ThreadEvent, ThreadStart, ToolAnswer, TurnStart, Unsubscribe};
use crate::event::{Event, Failure, Outcome, Reply};
use crate::exchange::live::keep::Keepable;
use crate::exchange::live::thread::Pending;
use crate::exchange::{
    Ended, EndedProcess, Evidence, Exchange, Finish, Invocation, Progress, ProviderCallId, StopReason,
};
use crate::judge::TurnEvidence;
use crate::process::{Exit, Limits};

/// How many events may wait for who drives the turn.
const QUEUE: usize = 256;
/// How long a stream may be silent where no option says so: codex's own limit.
const SILENCE: Duration = Duration::from_secs(300);
/// What codex needs longer than its own limit to say so.
const SLACK: Duration = Duration::from_secs(1);
/// How long the exit of a process is waited for that has closed its output.
const EXIT: Duration = Duration::from_secs(10);
/// What codex gets for a call that no tool can take.
const UNFIT: &str = "Error: the arguments must be a JSON object";

/// What is said, and where.
#[derive(Debug)]
pub enum Opening {
    /// A history, to a thread that is to be opened.
    Fresh {
        /// Where.
        service: Arc<Service>,
        /// The whole history.
        items: Vec<Value>,
    },
    /// What is new, to a thread that knows the beginning.
    Continued {
        /// The thread.
        conversation: Box<Conversation>,
        /// The results of its calls, by the API's ids.
        results: Vec<(String, ToolAnswer)>,
        /// What follows them.
        items: Vec<Value>,
    },
}

/// Why a turn came to nothing that is no failure of the call's.
#[derive(Debug)]
pub enum Unusable {
    /// The thread or its process was gone before it heard of this turn.
    Vanished,
}

/// A thread that goes on: its calls, and what its reply is made of.
#[derive(Debug)]
pub struct Kept {
    /// The thread.
    pub conversation: Conversation,
    /// The calls whose results it waits for.
    pub pending: Vec<Pending>,
}

/// Keeps what a turn with a reply leaves: the thread, if it can go on, and the items of the reply.
pub type Park = Box<dyn FnOnce(Option<Kept>, &Reply, Recalled) + Send>;

/// What the task comes to.
enum TurnEnd {
    /// The reply is there.
    Reply(Box<Conversation>, Recalled),
    /// It failed; why was an event. The thread is being forgotten.
    Failed,
    /// The thread was gone before it heard anything.
    Vanished,
    /// The process is gone.
    ProcessGone(Option<Arc<Exit>>),
    /// It was given up, and has stopped.
    Stopped,
}

/// A turn under way.
pub struct CodexTurn {
    events: mpsc::Receiver<Event>,
    task: JoinHandle<TurnEnd>,
    stop: CancellationToken,
    _stop_on_drop: DropGuard,
    reason: Option<StopReason>,
    began: Instant,
    received: Arc<AtomicU64>,
    pid: u32,
    is_fresh: bool,
    invocation: Invocation,
    limits: Limits,
    park: Park,
}

impl CodexTurn {
    /// Begins a turn by `setup`; its task is tracked by `tracker`.
    pub fn begin(
        setup: Arc<Setup>,
        opening: Opening,
        (invocation, limits): (Invocation, Limits),
        tracker: &TaskTracker,
        park: Park,
    ) -> CodexTurn {
        let (sender, events) = mpsc::channel(QUEUE);
        let stop = CancellationToken::new();
        let received = Arc::new(AtomicU64::new(0));
        let (service, is_fresh) = match &opening {
            Opening::Fresh { service, .. } => (service, true),
            Opening::Continued { conversation, .. } => (&conversation.service, false),
        };
        let service = Arc::clone(service);
        let pid = service.server.pid();
        let work = Work {
            service,
            setup,
            silence: limits.idle_timeout.unwrap_or(SILENCE) + SLACK,
            events: sender,
            received: Arc::clone(&received),
            conversation: None,
            is_fresh,
            opened: None,
            tracker: tracker.clone(),
        };
        let task = tracker.spawn(work.run(opening, stop.clone()));
        CodexTurn {
            events,
            task,
            _stop_on_drop: stop.clone().drop_guard(),
            stop,
            reason: None,
            began: Instant::now(),
            received,
            pid,
            is_fresh,
            invocation,
            limits,
            park,
        }
    }

    fn evidence(invocation: Invocation, stopped: Option<StopReason>) -> Evidence {
        Evidence::Turn(TurnEvidence {
            wire: invocation.wire,
            flags: invocation.flags,
            stopped,
            diagnostics: Vec::new(),
            // The lines of all threads are mixed there, and hold what the users say.
            stdout_tail: String::new(),
        })
    }
}

impl Exchange for CodexTurn {
    type Unusable = Unusable;

    fn pid(&self) -> Option<u32> {
        Some(self.pid)
    }

    fn has_begun(&self) -> bool {
        // Of a thread that has rested nobody knows yet whether it is still there.
        self.is_fresh || self.received_bytes() > 0
    }

    fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    fn received_bytes(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Cancel safe.
    async fn next(&mut self, events: &mut Vec<Event>) -> Progress {
        let Some(event) = self.events.recv().await else {
            return Progress::Over;
        };
        events.push(event);
        while let Ok(event) = self.events.try_recv() {
            events.push(event);
        }
        Progress::More
    }

    fn stop(&mut self, reason: StopReason) {
        self.reason = Some(reason);
        self.stop.cancel();
    }

    async fn finish(mut self) -> Finish<Unusable> {
        self.events.close();
        let CodexTurn {
            task,
            reason,
            invocation,
            limits,
            park,
            ..
        } = self;
        let end = task.await.unwrap_or(TurnEnd::ProcessGone(None));
        let ended = match (end, reason) {
            (TurnEnd::Reply(conversation, _), Some(reason)) => {
                conversation.close().await;
                Ended::new(CodexTurn::evidence(invocation, Some(reason)))
            }
            (TurnEnd::Reply(conversation, recalled), None) => Ended {
                on_verdict: Some(Box::new(move |verdict| keep(*conversation, verdict, recalled, park))),
                ..Ended::new(CodexTurn::evidence(invocation, None))
            },
            (TurnEnd::Stopped | TurnEnd::Failed | TurnEnd::Vanished, Some(reason)) => {
                Ended::new(CodexTurn::evidence(invocation, Some(reason)))
            }
            (TurnEnd::Failed | TurnEnd::Stopped, None) => Ended::new(CodexTurn::evidence(invocation, None)),
            (TurnEnd::Vanished, None) => return Finish::Unusable(Unusable::Vanished, None),
            (TurnEnd::ProcessGone(Some(exit)), _) => invocation.ended(of_exit(&exit), &limits),
            (TurnEnd::ProcessGone(None), reason) => Ended::new(CodexTurn::evidence(invocation, reason)),
        };
        Finish::Ended(Box::new(ended))
    }
}

/// The end of the process as that of a run.
fn of_exit(exit: &Exit) -> EndedProcess {
    EndedProcess {
        exit: exit.clone(),
        plain: None,
        cut_short: true,
        diagnostics: Vec::new(),
        stdout_tail: String::new(),
    }
}

/// The thread of a turn that has its reply goes on, if it can.
fn keep(conversation: Conversation, verdict: Option<(&Reply, &[ProviderCallId])>, recalled: Recalled, park: Park) {
    let Some((reply, calls)) = verdict else {
        return conversation.end();
    };
    let pending = |call: &ProviderCallId| Pending {
        api: call.provider.clone(),
        given: call.given.clone(),
    };
    if calls.len() == reply.tool_calls.len() {
        let kept = Kept {
            conversation,
            pending: calls.iter().map(pending).collect(),
        };
        park(Some(kept), reply, recalled);
    } else {
        conversation.end();
        park(None, reply, recalled);
    }
}

/// The task of a turn.
struct Work {
    service: Arc<Service>,
    setup: Arc<Setup>,
    /// How long nothing may come behind a call.
    silence: Duration,
    events: mpsc::Sender<Event>,
    received: Arc<AtomicU64>,
    /// The thread, when there is one.
    conversation: Option<Box<Conversation>>,
    /// The thread is opened for this turn.
    is_fresh: bool,
    /// A thread that is being opened.
    opened: Option<oneshot::Receiver<Result<Box<RawValue>, RequestError>>>,
    tracker: TaskTracker,
}

/// The driver is gone, or has given the turn up.
struct Abandoned;

impl Work {
    async fn run(mut self, opening: Opening, stop: CancellationToken) -> TurnEnd {
        let end = tokio::select! {
            biased;
            () = stop.cancelled() => Err(Abandoned),
            end = self.turn(opening) => end,
        };
        let end = end.unwrap_or(TurnEnd::Stopped);
        if let Some(conversation) = self.conversation.take() {
            match end {
                TurnEnd::Stopped => conversation.close().await,
                // Nobody waits for it.
                _ => drop(self.tracker.spawn(conversation.close())),
            }
        }
        if let Some(answer) = self.opened.take() {
            // Opened for nobody.
            let server = Arc::clone(&self.service.server);
            self.tracker.spawn(async move {
                if let Ok(Ok(answer)) = answer.await
                    && let Ok(opened) = serde_json::from_str::<Opened>(answer.get())
                {
                    let thread_id = &opened.thread.id;
                    let _ = server.post("thread/unsubscribe", &Unsubscribe { thread_id });
                }
            });
        }
        end
    }

    async fn turn(&mut self, opening: Opening) -> Result<TurnEnd, Abandoned> {
        let said = match opening {
            Opening::Fresh { items, .. } => match self.open().await? {
                Ok(()) => self.say(items).await,
                Err(end) => return Ok(end),
            },
            Opening::Continued {
                conversation,
                results,
                items,
            } => {
                self.conversation = Some(conversation);
                match self.go_on(results, items).await {
                    // Nothing was asked of the model yet: another thread can be.
                    Err(_) => return Ok(TurnEnd::Vanished),
                    said => said,
                }
            }
        };
        match said {
            Ok(()) => self.read().await,
            Err(error) => self.unsaid(error).await,
        }
    }

    /// Opens a thread, without the settings that an older codex does not take.
    async fn open(&mut self) -> Result<Result<(), TurnEnd>, Abandoned> {
        let (service, setup) = (Arc::clone(&self.service), Arc::clone(&self.setup));
        let silence = self.silence;
        let namespace = setup.namespace();
        let mut settings = service.config.thread_settings(silence, namespace);
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
                developer_instructions: &setup.system,
                ephemeral: true,
                environments: [],
                experimental_raw_events: true,
                config: &settings,
                model: setup.model.as_deref(),
                model_provider: service.config.thread_provider(),
                dynamic_tools: &tools,
            };
            let answer = self.opened.insert(service.server.post("thread/start", &start));
            let answer = answer.await.unwrap_or(Err(RequestError::Gone));
            self.opened = None;
            match answer {
                Ok(answer) => return self.opened(&answer).await,
                Err(RequestError::Refused(refused)) => match refused_setting(&refused.message, &settings) {
                    Some(name) => {
                        settings.remove(&name);
                        service.remember_refused(name);
                    }
                    None => return Ok(Err(self.unsaid(RequestError::Refused(refused)).await?)),
                },
                Err(RequestError::Gone) => return Ok(Err(self.unsaid(RequestError::Gone).await?)),
            }
        }
    }

    async fn opened(&mut self, answer: &RawValue) -> Result<Result<(), TurnEnd>, Abandoned> {
        let Ok(opened) = serde_json::from_str::<Opened>(answer.get()) else {
            let error = RpcError {
                code: 0,
                message: "codex opened a thread without an id".to_owned(),
            };
            return Ok(Err(self.unsaid(RequestError::Refused(error)).await?));
        };
        let service = Arc::clone(&self.service);
        let (id, model) = (opened.thread.id, opened.model);
        if !opened.instruction_sources.is_empty() {
            let sources = opened.instruction_sources.join(", ");
            let message = format!("codex sends instructions of the user's with this thread: {sources}");
            self.emit(vec![Event::Warning {
                code: "INSTRUCTIONS_SENT".to_owned(),
                message,
            }])
            .await?;
        }
        let tracker = self.tracker.clone();
        self.conversation = Some(Box::new(Conversation::new(service, id, model, tracker)));
        Ok(Ok(()))
    }

    /// Says `items` to an idle thread, and has it answer. In one breath: that loses nothing (CODEX-LIVE pitfall 10).
    async fn say(&mut self, items: Vec<Value>) -> Result<(), RequestError> {
        let Some(conversation) = &self.conversation else {
            return Err(RequestError::Gone);
        };
        let (server, thread_id) = (&conversation.service.server, conversation.id.as_str());
        let injected = (!items.is_empty()).then(|| {
            let inject = InjectItems {
                thread_id,
                items: &items,
            };
            server.post("thread/inject_items", &inject)
        });
        let start = TurnStart { thread_id, input: [] };
        let started = server.post("turn/start", &start);
        for answer in injected.into_iter().chain([started]) {
            answer.await.unwrap_or(Err(RequestError::Gone))?;
        }
        Ok(())
    }

    /// Says what is new to a thread that waits.
    async fn go_on(&mut self, results: Vec<(String, ToolAnswer)>, items: Vec<Value>) -> Result<(), RequestError> {
        if results.is_empty() {
            return self.say(items).await;
        }
        let Some(conversation) = &mut self.conversation else {
            return Err(RequestError::Gone);
        };
        if conversation.service.server.is_over() {
            return Err(RequestError::Gone);
        }
        if !items.is_empty() {
            // In one breath with the results, most of them would miss the request (CODEX-LIVE pitfall 10).
            let inject = InjectItems {
                thread_id: &conversation.id,
                items: &items,
            };
            conversation
                .service
                .server
                .request("thread/inject_items", &inject)
                .await?;
        }
        for (call, answer) in results {
            conversation.answer(&call, answer);
        }
        Ok(())
    }

    /// Reads until the reply is there.
    async fn read(&mut self) -> Result<TurnEnd, Abandoned> {
        let setup = Arc::clone(&self.setup);
        let Some(conversation) = self.conversation.as_mut() else {
            return Ok(TurnEnd::Vanished);
        };
        let (session, model) = (conversation.id.clone(), conversation.model.clone());
        let mut reader = Reader::new(&setup.tools, &session, &model, conversation.turn.clone());
        let before = conversation.inbox.bytes();
        let mut told = Some(Event::Session {
            session_id: Some(session.clone()),
            model: Some(model.clone()).filter(|model| !model.is_empty()),
            permission_mode: None,
            version: self.service.version.clone(),
        });
        let mut events = Vec::new();
        let end = loop {
            let next = conversation.inbox.next();
            let next = match reader.waits_behind_call() {
                false => Ok(next.await),
                true => tokio::time::timeout(self.silence, next).await,
            };
            self.received
                .store(conversation.inbox.bytes() - before, Ordering::Relaxed);
            events.extend(told.take_if(|_| matches!(next, Ok(Some(_)))));
            let limits = conversation.service.server.limits();
            let step = match next {
                Ok(Some(ThreadEvent::ToolCall { request, call })) => {
                    conversation.asked(call, request);
                    Step::More
                }
                Ok(Some(event)) => reader.push(event, &limits, &mut events),
                Ok(None) => break None,
                Err(_) => reader.silent(&limits, &mut events),
            };
            conversation.turn.clone_from(&reader.turn);
            for call in reader.take_unfit() {
                conversation.answer(&call, items::answer_of(UNFIT));
            }
            for event in events.drain(..) {
                self.events.send(event).await.map_err(|_| Abandoned)?;
            }
            if step != Step::More {
                break Some(step);
            }
        };
        match end {
            Some(Step::Reply) => {
                let (items, callers) = reader.into_items();
                let conversation = self.conversation.take().ok_or(Abandoned)?;
                Ok(TurnEnd::Reply(conversation, Recalled::new(items, callers)))
            }
            Some(_) => Ok(TurnEnd::Failed),
            None if !conversation.service.server.is_over() => {
                let reason = "more came for this thread than could be taken";
                self.fail(reason.to_owned()).await
            }
            // Nobody has heard of it.
            None if told.is_some() && conversation.turn.is_none() && !self.is_fresh => Ok(TurnEnd::Vanished),
            None => self.unsaid(RequestError::Gone).await,
        }
    }

    /// What becomes of a turn that could not be begun.
    async fn unsaid(&mut self, error: RequestError) -> Result<TurnEnd, Abandoned> {
        match error {
            RequestError::Refused(refused) => self.fail(refused.message).await,
            RequestError::Gone => Ok(TurnEnd::ProcessGone(self.service.server.ended(EXIT).await)),
        }
    }

    async fn fail(&mut self, message: String) -> Result<TurnEnd, Abandoned> {
        let failure = Event::Failure(Failure {
            message,
            ..Failure::default()
        });
        let outcome = Event::Outcome(Box::new(Outcome {
            is_error: true,
            ..Outcome::default()
        }));
        self.emit(vec![failure, outcome]).await?;
        Ok(TurnEnd::Failed)
    }

    async fn emit(&mut self, events: Vec<Event>) -> Result<(), Abandoned> {
        for event in events {
            self.events.send(event).await.map_err(|_| Abandoned)?;
        }
        Ok(())
    }
}

/// The answer to `thread/start`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Opened {
    thread: OpenedThread,
    #[serde(default)]
    model: String,
    #[serde(default)]
    instruction_sources: Vec<String>,
}

#[derive(Deserialize)]
struct OpenedThread {
    id: String,
}
