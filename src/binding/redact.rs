//! Redacts text that leaves the process through JavaScript (telemetry with `content: "redacted"`).

use std::collections::BTreeMap;

use napi::bindgen_prelude::Utf16String;
use napi_derive::napi;
use serde::Deserialize;

use super::{Text, text};
use dfp_model::thread::utf8;
use dfp_text::redact::{Channel, Redactor};

/// The secrets that the façade knows.
#[derive(Deserialize)]
struct KnownSecrets {
    env: BTreeMap<String, String>,
    secrets: Vec<String>,
}

/// A redactor of the known shapes of secrets, and of the variables in an environment whose name says that they are secret.
#[napi]
pub struct NativeRedactor {
    redactor: Redactor,
}

#[napi]
impl NativeRedactor {
    /// Makes a redactor. `known_json`: `{"env": {name: value}, "secrets": [value]}`; `secrets` are secret without regard to a name,
    /// such as an API key.
    #[napi(constructor, catch_unwind)]
    pub fn new(known_json: String) -> napi::Result<Self> {
        let known: KnownSecrets =
            serde_json::from_str(&known_json).map_err(|error| napi::Error::from_reason(error.to_string()))?;
        let pairs = known.env.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        Ok(NativeRedactor {
            redactor: Redactor::new(pairs, known.secrets.iter().map(String::as_str)),
        })
    }

    /// `plain` without its secrets, redacted as for a run log.
    #[napi(catch_unwind)]
    pub fn redact(&self, plain: Utf16String) -> Text {
        text(self.redactor.redact(Channel::Record, &utf8(&plain)).into_owned())
    }

    /// JSON text without the secrets in its strings.
    #[napi(catch_unwind)]
    pub fn redact_json(&self, json: Utf16String) -> Text {
        text(self.redactor.redact_json(Channel::Record, &utf8(&json)).into_owned())
    }
}
