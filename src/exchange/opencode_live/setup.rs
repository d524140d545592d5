//! The setup of an opencode session: the system prompt, the tools, the model.

use dfp_model::message::ToolSpec;
use dfp_provider::declare::mcp::Declarations;

/// The setup of a session. Sessions with different setups are not exchangeable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setup {
    /// The system prompt, sent with every message; empty if there is none.
    pub system: String,
    /// The model, if one is chosen.
    pub model: Option<Model>,
    /// The variant of the model: its effort.
    pub variant: Option<String>,
    /// The schema of the answer, as JSON.
    pub schema: Option<String>,
    pub tools: Declarations,
}

/// A model as opencode names it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct Model {
    /// The model's provider in opencode's configuration.
    #[serde(rename = "providerID")]
    pub provider: String,
    /// The model's name there.
    #[serde(rename = "modelID")]
    pub id: String,
}

impl Setup {
    /// Makes the setup of a session whose `model` is written `provider/model`.
    pub fn new(system: String, model: Option<&str>, tools: &[ToolSpec]) -> Setup {
        Setup {
            system,
            model: model.and_then(Model::read),
            variant: None,
            schema: None,
            tools: Declarations::new(tools),
        }
    }
}

impl Model {
    /// Reads a name of the form `provider/model`.
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
