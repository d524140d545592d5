//! Models that call tools in the middle of a turn, as an agent talks to them; and which way a model's calls come.
//!
//! In: a question, and the model's own calls as the bridge hands them over. Out: an [`Exchange`] whose calls take the
//! executor's answers. Each call is carried over by a task of its own, so a fast result never waits for a slow one.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use super::conversation::{Beginning, Called, Conversation, Exchange, TurnBased};
use crate::bridge;
use crate::error::{Code, ProviderError};
use crate::executor::Answer;
use crate::message::{Content, ToolResult};
use crate::process::Vars;
use crate::redact::Redactor;
use crate::run::model::{Calls, Model, Question};

/// Calls that may wait for the run to take them.
const CALLS_WAITING: usize = 16;

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

/// What an agent talks to. `path` is what the option is called.
///
/// # Errors
/// `INVALID_OPTION`: the model takes no callbacks, which were asked for.
pub fn conversation(
    model: &Arc<dyn Model>,
    (way, path): (ToolCalls, &str),
) -> Result<Arc<dyn Conversation>, Box<ProviderError>> {
    let model = Arc::clone(model);
    match (way, model.calls()) {
        (ToolCalls::Callbacks, Calls::Turns) => {
            let reason = format!(
                "{path} can't be \"callbacks\": {} takes no tools in the middle of a turn with these options",
                model.id()
            );
            Err(Box::new(ProviderError::new(model.id(), Code::InvalidOption, reason)))
        }
        (ToolCalls::Callbacks, _) | (ToolCalls::Auto, Calls::Callbacks) => Ok(Arc::new(CalledBack(model))),
        (ToolCalls::Auto | ToolCalls::Turns, _) => Ok(Arc::new(TurnBased(model))),
    }
}

/// A model that calls back.
#[derive(Debug)]
struct CalledBack(Arc<dyn Model>);

impl Conversation for CalledBack {
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
        // Without tools there is nothing to call, and a CLI need not ask for them.
        if question.tools == "[]" {
            let run = Arc::clone(&self.0).begin(question);
            return Box::pin(async move { Ok(Exchange::new(run, None)) });
        }
        let begun = Arc::clone(&self.0).begin_with_callbacks(question);
        Box::pin(async move {
            let Some((run, calls)) = begun else {
                let reason = "it takes no tools in the middle of a turn";
                return Err(Box::new(ProviderError::new(
                    self.id(),
                    Code::CallbacksUnavailable,
                    reason,
                )));
            };
            let (sender, receiver) = mpsc::channel(CALLS_WAITING);
            tokio::spawn(hand_over(calls, sender));
            Ok(Exchange::new(run, Some(receiver)))
        })
    }
}

/// Until either side is gone.
async fn hand_over(mut calls: mpsc::Receiver<bridge::Called>, run: mpsc::Sender<Called>) {
    loop {
        let call = tokio::select! {
            call = calls.recv() => call,
            () = run.closed() => None,
        };
        let Some(bridge::Called {
            id,
            name,
            args,
            reply: mut result,
        }) = call
        else {
            return;
        };
        let (reply, answer) = oneshot::channel();
        let (takes_back, taken_back) = oneshot::channel();
        let called = Called {
            id,
            name,
            args,
            reply,
            taken_back,
        };
        if run.send(called).await.is_err() {
            return;
        }
        tokio::spawn(async move {
            tokio::select! {
                biased;
                // Dropped unanswered, the bridge answers it.
                answer = answer => drop(answer.map(|answer| result.send(to_result(answer)))),
                // The run may be over, and then it hears nothing.
                () = result.closed() => drop(takes_back.send(())),
            }
        });
    }
}

fn to_result(Answer { content, is_error }: Answer) -> ToolResult {
    let content = serde_json::from_str(content.get()).unwrap_or(Content::Blocks(content));
    ToolResult { content, is_error }
}
