//! Models that call tools in the middle of a turn, as an agent talks to them; and which way a model's calls come.
//!
//! In: a question, and the model's own calls as the bridge hands them over. Out: an [`Turn`] whose calls take the
//! executor's answers. Each call is carried over by a task of its own, so a fast result never waits for a slow one.

use std::sync::Arc;

use super::conversation::{Beginning, Conversation, Turn, TurnBased};
use crate::error::{Code, ProviderError};
use crate::process::Vars;
use crate::redact::Redactor;
use crate::run::model::{Calls, Model, Question};

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
            return Box::pin(async move { Ok(Turn::new(run, None)) });
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
            Ok(Turn::new(run, Some(calls)))
        })
    }
}
