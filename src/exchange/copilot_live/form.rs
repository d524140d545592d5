//! copilot's headless server as a form, the setup of its sessions, and the models of its login.
//!
//! The models are read from the answer to `models.list`. The shape is that of copilot's own SDK (1.0.102, `ModelInfo`); a login was not at
//! hand. Without one copilot refuses, and a model API of the user's own has no list.

use std::io;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};

use super::history;
use super::service::CopilotService;
use super::turn::{CopilotCallResult, CopilotInput, CopilotSession};
use crate::form::{
    Caller, Form, ListedModels, ModelsAsked, Processes, Proof, ServerStart, SessionCall, SessionHome, WhyAnew,
};
use crate::host::Host;
use crate::live::setup::{ServerSetup, SetupParts};
use crate::live::thread::KnownThread;
use crate::print::NotStarted;
use dfp_model::listed_model::ListedModel;
use dfp_model::message::{Content, Message};
use dfp_provider::declare::{MAX_NAME, Tools};

/// One copilot process for all conversations.
#[derive(Debug, Default)]
pub struct Copilot;

impl AsRef<Host> for CopilotService {
    fn as_ref(&self) -> &Host {
        self.host()
    }
}

impl Form for Copilot {
    // About 3 MB each (1.0.102: 287 MB with 8, 262 MB with one).
    const PROCESSES: Processes = Processes::shared(100);

    const RETELLS: bool = true;

    const LISTS_MODELS: bool = true;

    type Session = CopilotSession;
    type Server = CopilotService;

    /// The thread's system messages are its system prompt, after that of the options.
    fn setup(parts: &SetupParts<'_>) -> CopilotSetup {
        let chosen = &parts.options.choices;
        let choices = CopilotChoices {
            effort: chosen.effort.clone(),
            searches_tools: chosen.searches_tools() && !parts.tools.is_empty(),
        };
        CopilotSetup::of(parts, Tools::new(parts.tools, MAX_NAME), choices)
    }

    fn whole(&self, call: &SessionCall<CopilotSetup>, _: &Caller<'_, Copilot>) -> io::Result<CopilotInput> {
        Ok(CopilotInput::Whole(Arc::clone(&call.thread), call.note.clone()))
    }

    /// Only results, and only of text: a message of the user's would be a prompt of copilot's, and images would be one
    /// ([`history`]).
    fn addition(call: &SessionCall<CopilotSetup>, known: &KnownThread) -> Result<CopilotInput, WhyAnew> {
        let new = call.thread.continuation(known).ok_or(WhyAnew::OtherThread)?;
        let is_text = |(_, result): &(_, &Message)| matches!(result.content, Content::Text(_));
        if new.results.is_empty() || !new.results.iter().all(is_text) || !new.rest.is_empty() || call.note.is_some() {
            return Err(WhyAnew::OtherThread);
        }
        let results = new.results.iter().map(|(call, result)| CopilotCallResult {
            call: call.api.clone(),
            text: history::result_of(result),
            is_error: result.is_error,
        });
        Ok(CopilotInput::Results(results.collect()))
    }

    fn session(&self, home: SessionHome<'_, Copilot>) -> Result<CopilotSession, NotStarted> {
        Ok(CopilotSession::new(home.shared()?))
    }

    async fn serve(&self, start: ServerStart<'_, Copilot>) -> Result<CopilotService, NotStarted> {
        CopilotService::start(&start.installed.line, (start.surroundings)(), start.closing).await
    }

    async fn models(service: &Arc<CopilotService>, _: ModelsAsked<'_>) -> ListedModels {
        list(service).await
    }

    fn proof(service: &CopilotService) -> Proof<'_> {
        let version = service.version.as_deref().unwrap_or("without a version");
        Proof::Probe(format!(
            "copilot {version} speaks the protocol {}",
            super::wire::PROTOCOL
        ))
    }
}

/// The words that copilot puts before the reason of a refusal.
const REFUSAL: &str = "Request models.list failed with message: ";

#[derive(Deserialize)]
struct Listed {
    models: Vec<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CopilotModel {
    id: String,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    capabilities: ModelCapabilities,
    #[serde(default)]
    supported_reasoning_efforts: Option<Vec<String>>,
    #[serde(default)]
    default_reasoning_effort: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ModelCapabilities {
    supports: Supports,
    limits: Limits,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Supports {
    vision: Option<bool>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Limits {
    max_context_window_tokens: Option<u64>,
    max_output_tokens: Option<u64>,
}

/// The models that `service` lists.
///
/// # Errors
/// The reason why it does not tell.
pub(super) async fn list(service: &CopilotService) -> ListedModels {
    if service.api.is_some() {
        return Err(
            "copilot lists the models of a GitHub login, and its environment names another model API".to_owned(),
        );
    }
    let refused = |reason: String| reason.strip_prefix(REFUSAL).unwrap_or(&reason).to_owned();
    service
        .server
        .listed("models.list", &json!({}), refused)
        .await
        .map(read)
}

fn read(Listed { models }: Listed) -> Vec<ListedModel> {
    let models = models.iter().filter_map(|model| CopilotModel::deserialize(model).ok());
    let models = models.map(|model| {
        let CopilotModel {
            id,
            name,
            capabilities: ModelCapabilities { supports, limits },
            ..
        } = model;
        let kinds = supports.vision.map(|sees| match sees {
            true => vec!["text".to_owned(), "image".to_owned()],
            false => vec!["text".to_owned()],
        });
        ListedModel {
            id,
            name,
            efforts: model.supported_reasoning_efforts.filter(|efforts| !efforts.is_empty()),
            default_effort: model.default_reasoning_effort,
            input_modalities: kinds,
            context_window: limits.max_context_window_tokens,
            max_output_tokens: limits.max_output_tokens,
            ..ListedModel::default()
        }
    });
    models.collect()
}

/// The setup of a session.
pub type CopilotSetup = ServerSetup<CopilotChoices>;

/// The choices that a session of copilot takes beside its model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CopilotChoices {
    /// The model's level of reasoning, if it is chosen.
    pub effort: Option<String>,
    /// True if the model is told the names of the tools alone, and finds them by copilot's own search.
    pub searches_tools: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_in_the_shape_of_the_vendors_sdk() {
        let answer = json!({"models": [
            {"id": "claude-sonnet-5-5", "name": "Claude Sonnet 5.5", "billing": {"multiplier": 1},
             "capabilities": {"supports": {"vision": true, "reasoningEffort": true},
                              "limits": {"max_context_window_tokens": 200_000, "max_prompt_tokens": 128_000}},
             "supportedReasoningEfforts": ["low", "high"], "defaultReasoningEffort": "low"},
            {"id": 7},
            {"id": "plain"},
        ]});
        let sonnet = ListedModel {
            id: "claude-sonnet-5-5".to_owned(),
            name: Some("Claude Sonnet 5.5".to_owned()),
            efforts: Some(vec!["low".to_owned(), "high".to_owned()]),
            default_effort: Some("low".to_owned()),
            input_modalities: Some(vec!["text".to_owned(), "image".to_owned()]),
            context_window: Some(200_000),
            ..ListedModel::default()
        };
        let plain = ListedModel {
            id: "plain".to_owned(),
            ..ListedModel::default()
        };
        assert_eq!(read(serde_json::from_value(answer).unwrap()), [sonnet, plain]);
        assert!(serde_json::from_str::<Listed>("[]").is_err());
    }
}
