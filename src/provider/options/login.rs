//! Whether a provider can be given a login of its own.

use serde_json::{Map, Value};

use super::{describe, environment};
use crate::provider::{self, Provider};

/// The option `login` names a folder, for a CLI that has a variable for it, which `env` does not set as well.
pub(super) fn check(provider: &Provider, map: &Map<String, Value>) -> Result<(), String> {
    let Some(Value::Object(login)) = map.get("login") else {
        return Ok(());
    };
    let Some(folder) = login.get("configDir").and_then(Value::as_str) else {
        let reason = "option \"login.configDir\" is missing: it must be the folder in which the login's files are";
        return Err(reason.to_owned());
    };
    let Some(own) = provider.login_dir else {
        let able = provider::ALL.iter().filter(|other| other.login_dir.is_some());
        let able: Vec<&str> = able.map(|other| &*other.id).collect();
        return Err(format!(
            "option \"login\" is not for {}: no variable is known that names the folder of its login. It is for {}; given: {}",
            provider.id,
            able.join(", "),
            describe(&Value::Object(login.clone()))
        ));
    };
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
