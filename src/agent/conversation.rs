//! What an agent talks to, and one turn of it.
//!
//! In: a [`Request`]. Out: `TurnEvent`: events, calls of tools that wait for their results, and how the turn ended.
//!
//! Calls come in one of two ways, and the driver can't tell them apart but by where results go: with the end of a turn (print,
//! live, an API), or in the middle of it, by a callback that waits for the result (`Turn::calls`).

use std::fmt;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinHandle};

use crate::bridge::ToolCallRequest;
use crate::error::{Code, ProviderError};
use crate::event::Event;
use crate::run::model::{CallDelivery, Model};
use crate::run::request::Request;
use crate::run::{Ended, LogRecord, Run};

/// Which way an agent's tool calls come: the option `toolCalls`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ToolCalls {
    /// The provider's best way.
    #[default]
    Auto,
    /// With the end of a turn.
    Turns,
    /// In the middle of a turn.
    Callbacks,
}

impl ToolCalls {
    pub(super) fn from_word(word: &str) -> ToolCalls {
        match word {
            "turns" => ToolCalls::Turns,
            "callbacks" => ToolCalls::Callbacks,
            _ => ToolCalls::Auto,
        }
    }
}

/// What an agent talks to.
#[derive(Debug)]
pub struct Conversation {
    pub(super) model: Arc<dyn Model>,
    /// Its calls come in the middle of a turn.
    pub(super) calls_back: bool,
    /// The provider's best way: which one that is depends on the CLI that is installed.
    is_auto: bool,
}

impl Conversation {
    /// `path` is what the option `toolCalls` is called.
    ///
    /// # Errors
    /// `INVALID_OPTION`: the model takes no callbacks, which were asked for.
    pub fn new(model: &Arc<dyn Model>, way: ToolCalls, path: &str) -> Result<Conversation, Box<ProviderError>> {
        let calls_back = match (way, model.calls()) {
            (ToolCalls::Callbacks, CallDelivery::Turns) => {
                let reason = format!(
                    "{path} can't be \"callbacks\": {} takes no tools in the middle of a turn with these options",
                    model.id()
                );
                return Err(Box::new(ProviderError::new(model.id(), Code::InvalidOption, reason)));
            }
            (ToolCalls::Callbacks, _) | (ToolCalls::Auto, CallDelivery::Callbacks) => true,
            (ToolCalls::Auto | ToolCalls::Turns, _) => false,
        };
        Ok(Conversation {
            model: Arc::clone(model),
            calls_back,
            is_auto: way == ToolCalls::Auto,
        })
    }

    /// Begins a turn: the model is sent the whole thread, of which it may know the beginning.
    pub(super) fn begin(&self, request: Request) -> Turn {
        let model = Arc::clone(&self.model);
        // Without tools there is nothing to call, and a CLI need not ask for them.
        let calls_back = || match self.is_auto {
            true => model.calls_now(request.env.as_ref()) == CallDelivery::Callbacks,
            false => self.calls_back,
        };
        let (run, calls) = match !request.tools.is_empty() && calls_back() {
            true => model.begin_with_callbacks(request),
            false => (model.begin(request), None),
        };
        Turn {
            run: Arc::new(run),
            calls_back: calls.is_some(),
            calls,
            ending: None,
        }
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
pub(super) struct Turn {
    run: Arc<Run>,
    /// Calls in the middle of it, of which `run` itself reports none.
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
                    call = next_call(&mut self.calls) => Arrival::Call(call),
                    ended = ending => return TurnEvent::Ended(joined(ended)),
                },
                None => tokio::select! {
                    biased;
                    events = self.run.batch() => Arrival::Events(events),
                    call = next_call(&mut self.calls) => Arrival::Call(call),
                },
            };
            match step {
                Arrival::Events(Some(events)) => return TurnEvent::Events(events),
                Arrival::Events(None) => {
                    let run = Arc::clone(&self.run);
                    self.ending = Some(tokio::spawn(async move { run.result().await }));
                }
                Arrival::Call(Some(call)) => return TurnEvent::Call(call),
                Arrival::Call(None) => self.calls = None,
            }
        }
    }

    /// The run's records for the user's logger.
    pub(super) fn take_log(&self) -> Vec<LogRecord> {
        self.run.take_log().map_or_else(Vec::new, |batch| batch.records)
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

enum Arrival {
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
