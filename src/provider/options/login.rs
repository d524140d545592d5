//! Checks whether a provider can be given a login of its own.

use serde_json::{Map, Value};

use super::environment;
use crate::capability::Feature;
use crate::{Provider, support};
use dfp_model::error::{Code, ProviderError};

/// The error of the option `login` for a CLI that has no such variable.
pub(super) fn refusal(provider: &Provider, map: &Map<String, Value>) -> Option<Box<ProviderError>> {
    let is_refused = map.contains_key("login") && provider.login_dir.is_none();
    let hint = "leave it out, use a provider that can, or set the variable that the CLI itself has for it in `env`";
    let error = || {
        let reason = support::refusal(Feature::Login, &provider.id, None);
        Box::new(ProviderError::new(&provider.id, Code::UnsupportedOption, reason).with_hint(hint))
    };
    is_refused.then(error)
}

/// Checks that the option `login` names a folder, that the CLI has a variable for it, and that `env` does not set that as well.
pub(super) fn check(provider: &Provider, map: &Map<String, Value>) -> Result<(), String> {
    let Some(Value::Object(login)) = map.get("login") else {
        return Ok(());
    };
    let Some(folder) = login.get("configDir").and_then(Value::as_str) else {
        let reason = "option \"login.configDir\" is missing: it must be the folder in which the login's files are";
        return Err(reason.to_owned());
    };
    let Some(own) = provider.login_dir else { return Ok(()) };
    let same = |name: &str| match cfg!(windows) {
        true => name.eq_ignore_ascii_case(own.variable),
        false => name == own.variable,
    };
    match environment(map, "env")
        .iter()
        .any(|(name, value)| same(name) && value.is_some())
    {
        true => Err(format!(
            "options \"login\" and \"env\" contradict each other: both say what {} is; given: login.configDir: {folder:?}",
            own.variable
        )),
        false => Ok(()),
    }
}
