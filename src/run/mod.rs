//! The orchestrator: render, queue, spawn, decode, fold, judge, try again.
//!
//! In: an [`Engine`] (one provider object) and the JSON of one call. Out: a [`Run`]: batches of events while it goes, and
//! how it [`Ended`]. Everything here happens on the runtime's threads.

pub mod api;
pub mod ask;
mod attempt;
mod callbacks;
mod capabilities;
mod cli;
mod content;
pub mod exec;
pub(crate) mod id;
mod live;
mod log;
pub mod model;
pub(crate) mod record;
mod request;
mod retry_loop;
mod sink;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::{Mutex as AsyncMutex, mpsc};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use cli::CliCall;
use live::Live;
use log::Log;
use model::Question;
use request::Request;
use sink::Sink;

use crate::classify;
use crate::error::{Code, ProviderError};
use crate::event::{Event, Reply};
use crate::process::{Tees, Vars, limit};
use crate::provider::options::Options;
use crate::provider::{self, Provider, described};
use crate::thread::Thread;

/// Events that may wait for a slow consumer; then the process's output waits in its pipe.
const EVENTS_WAITING: usize = 256;

/// One provider object: its options, and the runs it has.
#[derive(Debug)]
pub struct Engine {
    provider: Cow<'static, Provider>,
    options: Options,
    owner: u64,
    closing: CancellationToken,
    /// No further call begins; those that have go on.
    draining: CancellationToken,
    /// Those that go on or wait.
    calls: TaskTracker,
    runs: TaskTracker,
    /// The sessions between calls, if there are any.
    live: Option<Live>,
}

/// How a run ended.
#[derive(Debug)]
pub enum Ended {
    /// With a reply.
    Replied(Box<Reply>),
    /// With an error.
    Failed(Box<ProviderError>),
    /// Because it was told to.
    Cancelled,
}

/// A run that goes on, or has ended.
#[derive(Debug)]
pub struct Run {
    cancel: CancellationToken,
    events: AsyncMutex<Option<mpsc::Receiver<Event>>>,
    task: AsyncMutex<Option<JoinHandle<Ended>>>,
    log: Arc<Log>,
    over: CancellationToken,
    /// It is over, and has a reply.
    replied: Arc<AtomicBool>,
}

impl Engine {
    /// The engine of provider `kind` with the options of `options_json`; its processes belong to `owner`.
    ///
    /// # Errors
    /// `INVALID_OPTION`, naming the option, what was given and what is allowed.
    pub fn new(kind: &str, options_json: &str, owner: u64) -> Result<Engine, Box<ProviderError>> {
        let provider = provider::find(kind)
            .ok_or_else(|| ProviderError::new(kind, Code::InvalidOption, format!("there is no provider \"{kind}\"")))?;
        Engine::with(Cow::Borrowed(provider), options_json, owner)
    }

    /// The engine of the CLI that `config_json` describes.
    ///
    /// # Errors
    /// `INVALID_CONFIG` or `INVALID_OPTION`, naming the field or the option, what was given and what is allowed.
    pub fn described(config_json: &str, options_json: &str, owner: u64) -> Result<Engine, Box<ProviderError>> {
        let provider = described::provider(config_json)?;
        Engine::with(Cow::Owned(provider), options_json, owner)
    }

    /// The CLI, described.
    pub fn provider(&self) -> &Provider {
        &self.provider
    }

    /// The provider's id.
    pub fn id(&self) -> &str {
        &self.provider.id
    }

    fn with(provider: Cow<'static, Provider>, options_json: &str, owner: u64) -> Result<Engine, Box<ProviderError>> {
        let options = Options::parse(&provider, options_json)?;
        Ok(Engine::of(provider, options, owner))
    }

    /// The engine of `provider` with `options`; its processes belong to `owner`.
    pub fn of(provider: Cow<'static, Provider>, options: Options, owner: u64) -> Engine {
        // Who asks for more at a time than all providers together may have by default, is given it.
        limit::global().raise_limit(options.max_concurrency);
        let runs = TaskTracker::new();
        Engine {
            provider,
            live: Live::new(&options, &runs),
            options,
            owner,
            closing: CancellationToken::new(),
            draining: CancellationToken::new(),
            calls: TaskTracker::new(),
            runs,
        }
    }

    /// Begins a run. Must be called inside the runtime; returns at once.
    ///
    /// `env` is what the process inherits; `None` is this process's own, which is read here, on the caller's thread: that
    /// of JavaScript, which alone may change it.
    pub fn start(engine: &Arc<Engine>, messages: Thread, tools: String, call: String, env: Option<Vars>) -> Run {
        Engine::answer(
            engine,
            Question {
                messages,
                tools,
                call,
                env,
                lent: None,
            },
        )
    }

    fn answer(engine: &Arc<Engine>, question: Question) -> Run {
        let Question {
            messages,
            tools,
            call,
            env,
            lent,
        } = question;
        let read = move |engine: &Engine| Ok(Request::read(engine, (&messages, &tools, &call), None)?.with(lent));
        Engine::begin(engine, read, env)
    }

    /// Begins a run of a CLI that is to work for itself: `prompt` goes to it as it is, its events are told as they are, and
    /// `tees` get all it prints. Otherwise as [`Engine::start`].
    pub fn watch(engine: &Arc<Engine>, prompt: String, tees: Tees, env: Option<Vars>) -> Run {
        Engine::begin(engine, move |_| Ok(Request::watched(prompt, tees)), env)
    }

    fn begin(
        engine: &Arc<Engine>,
        read: impl FnOnce(&Engine) -> Result<Request, Box<ProviderError>> + Send + 'static,
        env: Option<Vars>,
    ) -> Run {
        let base_env: Arc<Vars> = Arc::new(env.unwrap_or_else(|| std::env::vars_os().collect()));
        let cancel = engine.closing.child_token();
        let (task_engine, task_cancel) = (Arc::clone(engine), cancel.clone());
        // Decided now: what was begun before `drain` is not refused by it.
        let (refused, call) = (engine.refusal(), engine.calls.token());
        Run::begin(
            engine.provider.id.clone(),
            cancel,
            &engine.runs,
            |log, consumer| async move {
                let _call = call;
                let closed = task_engine.closed();
                if let Some(closed) = refused.or(closed) {
                    return Ended::Failed(closed);
                }
                if task_cancel.is_cancelled() {
                    return Ended::Cancelled;
                }
                let request = match read(&task_engine) {
                    Ok(request) => request,
                    Err(error) => return Ended::Failed(error),
                };
                let recorder = match task_engine.recorder(&request, &base_env, log.run_id()).await {
                    Ok(recorder) => recorder,
                    Err(error) => return Ended::Failed(error),
                };
                let acts = task_engine.options.built_in_tools;
                let (of_engine, of_env) = (Arc::clone(&task_engine), Arc::clone(&base_env));
                let redactor = sink::lazy(move || of_engine.redactor(&of_env));
                let sink = Sink::of_call(&request.call, consumer, acts, log, recorder)
                    .redacting(redactor)
                    .ending_with(&task_cancel);
                let call = CliCall {
                    engine: &task_engine,
                    request: &request,
                    base_env: &base_env,
                    cancel: &task_cancel,
                    sink: &sink,
                };
                let ended = retry_loop::drive(&call, &task_cancel, &sink).await;
                sink.close(record::end_of(&ended).as_ref()).await;
                ended
            },
        )
    }

    /// Refuses further calls with `CLOSED` from now on; those that run or wait go on.
    pub fn refuse_further(&self) {
        self.draining.cancel();
    }

    /// Lets the calls that run or wait come to their ends, and refuses further ones. [`Engine::close`] ends it.
    pub async fn drain(&self) {
        self.refuse_further();
        self.calls.close();
        self.calls.wait().await;
    }

    /// Ends all runs and waits until their processes are no more. Later calls fail with `CLOSED`.
    pub async fn close(&self) {
        self.closing.cancel();
        self.runs.close();
        self.runs.wait().await;
    }

    /// The error of a call whose provider was closed meanwhile.
    fn closed(&self) -> Option<Box<ProviderError>> {
        self.closing.is_cancelled().then(|| Box::new(closed(self)))
    }

    fn refuse(&self, code: Code, reason: impl Into<String>) -> Box<ProviderError> {
        let id = self.id();
        Box::new(ProviderError::new(id, code, reason).with_hint(classify::hint(id, code)))
    }
}

fn closed(engine: &Engine) -> ProviderError {
    *engine.refuse(Code::Closed, "the provider was closed")
}

impl Run {
    /// Begins `work` as one of `runs`. It gets the run's records and where events go.
    fn begin<F>(
        provider: Cow<'static, str>,
        cancel: CancellationToken,
        runs: &TaskTracker,
        work: impl FnOnce(Arc<Log>, mpsc::Sender<Event>) -> F,
    ) -> Run
    where
        F: Future<Output = Ended> + Send + 'static,
    {
        let (sender, receiver) = mpsc::channel(EVENTS_WAITING);
        let log = Arc::new(Log::new(provider, id::next("run")));
        let (over, replied) = (CancellationToken::new(), Arc::new(AtomicBool::new(false)));
        let (work, of_run, of_reply) = (
            work(Arc::clone(&log), sender),
            over.clone().drop_guard(),
            Arc::clone(&replied),
        );
        let task = runs.spawn(async move {
            // Also if it panics.
            let _of_run = of_run;
            let ended = work.await;
            of_reply.store(matches!(ended, Ended::Replied(_)), Ordering::Relaxed);
            ended
        });
        Run {
            over,
            replied,
            cancel,
            events: AsyncMutex::new(Some(receiver)),
            task: AsyncMutex::new(Some(task)),
            log,
        }
    }

    /// The next batch of events as a JSON array; `None` when no more will come. Waits for the consumer bound the memory a
    /// run takes, so nothing is dropped.
    pub async fn next(&self) -> Option<String> {
        let batch = self.batch().await?;
        Some(serde_json::to_string(&batch).unwrap_or_else(|error| {
            let warning = serde_json::json!([{"type": "warning", "code": "INTERNAL", "message": error.to_string()}]);
            warning.to_string()
        }))
    }

    /// As [`Run::next`], for this side. Nothing is lost if it is dropped before it is ready.
    pub async fn batch(&self) -> Option<Vec<Event>> {
        let mut events = self.events.lock().await;
        let mut batch = Vec::new();
        if events.as_mut()?.recv_many(&mut batch, EVENTS_WAITING).await == 0 {
            *events = None;
            return None;
        }
        Some(batch)
    }

    /// Waits for the end. Events nobody has asked for by then are let go.
    pub async fn result(&self) -> Ended {
        if let Ok(mut events) = self.events.try_lock() {
            *events = None;
        }
        let Some(task) = self.task.lock().await.take() else {
            return Ended::Failed(Box::new(ProviderError::new(
                "",
                Code::Internal,
                "the run's result was taken before",
            )));
        };
        match task.await {
            Ok(ended) => ended,
            Err(panic) => Ended::Failed(Box::new(
                ProviderError::new(
                    "",
                    Code::Internal,
                    format!("a bug in this package stopped the run: {panic}"),
                )
                .with_hint("Please report it with what you did."),
            )),
        }
    }

    /// Waits until nobody needs to wait for the run's consumer any more: it has failed, was told to end, or its time is up.
    pub async fn lost(&self) {
        self.over.cancelled().await;
        if self.replied.load(Ordering::Relaxed) {
            tokio::select! {
                () = self.cancel.cancelled() => {}
                () = self.log.time_up() => {}
            }
        }
    }

    /// The next records, for the user's logger, as soon as there are any: a JSON array; `None` when the run is over and all
    /// are taken.
    pub async fn next_log(&self) -> Option<String> {
        loop {
            let is_over = self.over.is_cancelled();
            if let Some(records) = self.log.take() {
                return Some(records);
            }
            if is_over {
                return None;
            }
            tokio::select! {
                () = self.log.added() => {}
                () = self.over.cancelled() => {}
            }
        }
    }

    /// What the run has told since the last call, for the user's logger: a JSON array; `None` if nothing.
    pub fn take_log(&self) -> Option<String> {
        self.log.take()
    }

    /// Ends the run's processes; [`Run::result`] then gives [`Ended::Cancelled`].
    pub fn cancel(&self) {
        self.cancel.cancel();
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, millis)
}

/// Minutes by which local time is east of UTC now.
fn local_offset_min() -> Option<i32> {
    crate::process::zone::local_offset_min(now_ms())
}

fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
