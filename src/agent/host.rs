//! Requests that JavaScript answers: tools to run, decisions to make, entries to store.
//!
//! In: a call of some run, and later the answer under the request's number. Out: the executor's input, sent to the run that asked. An answer
//! that comes twice or too late is ignored.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;

use crate::executor::Input;
use dfp_model::error::{Code, ProviderError};
use dfp_model::message::{Content, ToolResult};

/// Receives the store's answer to one entry.
type Stored = oneshot::Sender<Result<(), Box<ProviderError>>>;

/// The requests that JavaScript has not answered yet.
#[derive(Debug, Default)]
pub(super) struct HostRequests {
    asked: Mutex<OpenRequests>,
}

/// The open requests by number. `last` is the latest number; `open` has the channel of the run and the call's id.
#[derive(Debug, Default)]
struct OpenRequests {
    last: u32,
    open: HashMap<u32, (UnboundedSender<Input>, String)>,
    /// Entries that the store has not confirmed yet.
    stores: HashMap<u32, Stored>,
}

/// The answer to the request to run a tool.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Completed {
    content: Content,
    #[serde(default)]
    is_error: bool,
}

/// The reason why a store did not take an entry.
#[derive(Deserialize)]
struct Refused {
    /// Another process has taken over the run.
    locked: bool,
    message: String,
}

/// The answer to the request to decide about a call.
#[derive(Deserialize)]
struct Decided {
    allow: bool,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    args: Option<Box<RawValue>>,
}

impl HostRequests {
    /// Opens a request about call `id`, whose answer is sent to `inbox`. Returns its number.
    pub fn ask(&self, inbox: &UnboundedSender<Input>, id: &str) -> u32 {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.last = asked.last.wrapping_add(1);
        let number = asked.last;
        asked.open.insert(number, (inbox.clone(), id.to_owned()));
        number
    }

    /// Drops a request: its answer is no longer needed.
    pub fn forget(&self, request: u32) {
        self.take(request);
    }

    /// Opens a request to store an entry. Returns its number, and the future answer.
    pub fn store(&self) -> (u32, oneshot::Receiver<Result<(), Box<ProviderError>>>) {
        let (sender, receiver) = oneshot::channel();
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.last = asked.last.wrapping_add(1);
        let number = asked.last;
        asked.stores.insert(number, sender);
        (number, receiver)
    }

    /// Takes the store's answer: `null`, or `{"locked": boolean, "message": string}`.
    pub fn stored(&self, request: u32, answer: &str) -> Result<(), serde_json::Error> {
        let refused: Option<Refused> = serde_json::from_str(answer)?;
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(waits) = asked.stores.remove(&request) {
            let stored = refused.map_or(Ok(()), |Refused { locked, message }| {
                let code = if locked {
                    Code::RunLocked
                } else {
                    Code::CheckpointFailed
                };
                Err(Box::new(ProviderError::new("", code, message)))
            });
            // A run that has ended doesn't receive any more.
            let _ = waits.send(stored);
        }
        Ok(())
    }

    pub fn complete(&self, request: u32, answer: &str) -> Result<(), serde_json::Error> {
        let Completed { content, is_error } = serde_json::from_str(answer)?;
        self.send(request, |id| Input::Executed {
            id,
            answer: ToolResult { content, is_error },
        });
        Ok(())
    }

    pub fn decide(&self, request: u32, decision: &str) -> Result<(), serde_json::Error> {
        let Decided { allow, reason, args } = serde_json::from_str(decision)?;
        self.send(request, |id| Input::Decided {
            id,
            allow,
            reason,
            args,
        });
        Ok(())
    }

    fn take(&self, request: u32) -> Option<(UnboundedSender<Input>, String)> {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.open.remove(&request)
    }

    fn send(&self, request: u32, input: impl FnOnce(String) -> Input) {
        if let Some((inbox, id)) = self.take(request) {
            // A run that has ended doesn't receive any more.
            let _ = inbox.send(input(id));
        }
    }
}
