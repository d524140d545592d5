//! One turn of a model, whatever it is asked by.
//!
//! In: a [`Question`], and whoever answers it. Out: `TurnEvent`: events, calls of tools that wait for their results, and how the
//! turn ended.
//!
//! There are two kinds of sources, and the driver can't tell them apart but by where results go: one that ends its turn with
//! the calls it makes (print, live, an API: [`TurnBased`]), and one whose calls come back in the middle of the turn, by a
//! callback that waits for the result (`Turn::calls`).

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinHandle};

use crate::bridge::ToolCallRequest;
use crate::error::{Code, ProviderError};
use crate::event::Event;
use crate::process::Vars;
use crate::redact::Redactor;
use crate::run::model::{Model, Question};
use crate::run::{Ended, Run};

/// A future that gives a turn, or says why there can be none.
pub type Beginning<'a> = Pin<Box<dyn Future<Output = Result<Turn, Box<ProviderError>>> + Send + 'a>>;

/// Whatever an agent can talk to.
pub trait Conversation: fmt::Debug + Send + Sync {
    /// The provider's id.
    fn id(&self) -> &str;

    /// What is missing before it can be asked, as far as a look at this machine tells.
    ///
    /// # Errors
    /// What a turn would fail with.
    fn ready(&self, env: &Arc<Vars>) -> Result<(), Box<ProviderError>>;

    /// What takes secrets out of the log and the errors of a run it takes part in; `env` is what its processes inherit.
    fn redactor(&self, env: &Vars) -> Redactor;

    /// Begins a turn: the model is sent the whole thread, of which it may know the beginning.
    fn begin(&self, question: Question) -> Beginning<'_>;
}

/// A model whose turn ends with the calls it makes.
#[derive(Debug)]
pub struct TurnBased(pub Arc<dyn Model>);

impl Conversation for TurnBased {
    fn id(&self) -> &str {
        self.0.id()
    }

    fn ready(&self, env: &Arc<Vars>) -> Result<(), Box<ProviderError>> {
        self.0.ready(env)
    }

    fn redactor(&self, env: &Vars) -> Redactor {
        self.0.redactor(env)
    }

    fn begin(&self, question: Question) -> Beginning<'_> {
        let run = Arc::clone(&self.0).begin(question);
        Box::pin(async move { Ok(Turn::new(run, None)) })
    }
}

/// What happens in a turn.
#[derive(Debug)]
pub(super) enum TurnEvent {
    Events(Vec<Event>),
    /// A call that waits for its result in the middle of the turn.
    Call(ToolCallRequest),
    Ended(Ended),
}

/// One turn under way. Dropping it ends it.
pub struct Turn {
    run: Arc<Run>,
    calls: Option<mpsc::Receiver<ToolCallRequest>>,
    calls_back: bool,
    /// No further event will come: what is left is the end.
    ending: Option<JoinHandle<Ended>>,
}

impl fmt::Debug for Turn {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("Turn").field("run", &self.run).finish_non_exhaustive()
    }
}

impl Turn {
    /// The turn that `run` is. With `calls`, its calls come from there, and `run` reports none of them itself.
    pub fn new(run: Run, calls: Option<mpsc::Receiver<ToolCallRequest>>) -> Turn {
        Turn {
            run: Arc::new(run),
            calls_back: calls.is_some(),
            calls,
            ending: None,
        }
    }

    /// Whether calls come back in the middle of the turn.
    pub(super) fn calls_back(&self) -> bool {
        self.calls_back
    }

    /// What happens next. Nothing is lost if it is dropped before it is ready. Not to be asked again after the end.
    pub(super) async fn next(&mut self) -> TurnEvent {
        loop {
            let step = match &mut self.ending {
                Some(ending) => tokio::select! {
                    biased;
                    call = next_call(&mut self.calls) => Step::Call(call),
                    ended = ending => return TurnEvent::Ended(joined(ended)),
                },
                None => tokio::select! {
                    biased;
                    events = self.run.batch() => Step::Events(events),
                    call = next_call(&mut self.calls) => Step::Call(call),
                },
            };
            match step {
                Step::Events(Some(events)) => return TurnEvent::Events(events),
                Step::Events(None) => {
                    let run = Arc::clone(&self.run);
                    self.ending = Some(tokio::spawn(async move { run.result().await }));
                }
                Step::Call(Some(call)) => return TurnEvent::Call(call),
                Step::Call(None) => self.calls = None,
            }
        }
    }

    /// The run's records for the user's logger, a JSON array.
    pub(super) fn take_log(&self) -> Option<String> {
        self.run.take_log()
    }

    /// Ends the turn and waits until nothing of it is left.
    pub(super) async fn stop(mut self) {
        self.run.cancel();
        match self.ending.take() {
            Some(ending) => drop(ending.await),
            None => drop(self.run.result().await),
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.run.cancel();
    }
}

fn joined(ended: Result<Ended, JoinError>) -> Ended {
    ended.unwrap_or_else(|panic| {
        let reason = format!("a bug in this package stopped the run: {panic}");
        Ended::Failed(Box::new(ProviderError::new("", Code::Internal, reason)))
    })
}

enum Step {
    Events(Option<Vec<Event>>),
    Call(Option<ToolCallRequest>),
}

/// Never ready where there are no callbacks.
async fn next_call(calls: &mut Option<mpsc::Receiver<ToolCallRequest>>) -> Option<ToolCallRequest> {
    match calls {
        Some(calls) => calls.recv().await,
        None => std::future::pending().await,
    }
}
