//! The setup of an opencode session: the system prompt, the tools, the model.

use crate::declare::mcp::Declarations;
use crate::message::ToolSpec;

/// By this, sessions are distinguished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setup {
    /// The system prompt, told with every message; empty where there is none.
    pub system: String,
    /// The model, where one is chosen.
    pub model: Option<Model>,
    pub tools: Declarations,
}

/// A model as opencode names it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct Model {
    /// Its provider in opencode's configuration.
    #[serde(rename = "providerID")]
    pub provider: String,
    /// Its name there.
    #[serde(rename = "modelID")]
    pub id: String,
}

impl Setup {
    /// The setup of a session whose `model` is written `provider/model`.
    pub fn new(system: String, model: Option<&str>, tools: &[ToolSpec]) -> Setup {
        Setup {
            system,
            model: model.and_then(Model::read),
            tools: Declarations::new(tools),
        }
    }
}

impl Model {
    /// That of `provider/model`.
    pub fn read(name: &str) -> Option<Model> {
        let (provider, id) = name.split_once('/')?;
        Some(Model {
            provider: provider.to_owned(),
            id: id.to_owned(),
        })
    }
}

impl std::fmt::Display for Model {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.provider, self.id)
    }
}
