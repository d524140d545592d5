//! The home that codex gets: a private folder with links to the user's login and configuration, and nothing else of theirs.
//!
//! In: a command line. Out: the same with `CODEX_HOME` in its private folder, and the model catalog beside it. AGENTS.md, skills, hooks,
//! memories and prompts of the user's home are not there, and what codex writes goes with the folder; a token that it renews is
//! written through the link (CODEX-LIVE §3.2).

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;

use crate::command::{Arg, CommandLine, Cwd, EnvText, PrivateFile, PrivateLink};
use crate::exchange::print;
use crate::process::Vars;

/// The variable that names the home.
const VARIABLE: &str = "CODEX_HOME";
/// Its folder in the private one.
const FOLDER: &str = "codex-home";
/// The catalog's file.
const CATALOG: &str = "catalog.json";

/// Whose home it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Home {
    /// A private one with links.
    Links,
    /// The user's own: the key ring knows the login by it. Its AGENTS.md is sent.
    Users,
}

/// `line` with this home and this catalog. `with_config`: the user's configuration is in force.
pub fn prepare(line: &mut CommandLine, base: &Arc<Vars>, home: Home, with_config: bool, catalog: &Value) {
    // Nothing of a project may be found.
    line.cwd = Cwd::Private;
    line.files.push(PrivateFile {
        name: CATALOG,
        content: catalog.to_string(),
    });
    line.args.push(Arg::Text("-c".to_owned()));
    line.args.push(Arg::FileSetting("model_catalog_json", CATALOG));
    match home {
        Home::Links => {
            let names: &[&str] = match with_config {
                true => &["auth.json", "config.toml", ".env"],
                false => &["auth.json"],
            };
            if let Some(users) = users_home(|name| print::variable(line, base, name)) {
                let links = names.iter().map(|name| PrivateLink {
                    name: format!("{FOLDER}/{name}"),
                    target: users.join(name),
                });
                // The login may come later; the others are there or not.
                let links = links.filter(|link| link.target.ends_with("auth.json") || link.target.exists());
                line.links.extend(links);
            }
            line.user_env.retain(|(name, _)| name != VARIABLE);
            line.set_env.push((VARIABLE, EnvText::Folder(FOLDER)));
        }
        Home::Users => {
            // Its databases and logs go to the private folder all the same.
            line.set_env.push(("CODEX_SQLITE_HOME", EnvText::Folder(FOLDER)));
            for setting in ["sqlite_home", "log_dir"] {
                line.args.push(Arg::Text("-c".to_owned()));
                line.args.push(Arg::FileSetting(setting, FOLDER));
            }
        }
    }
}

/// The home that codex would take by itself.
fn users_home(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let value = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let own = if cfg!(windows) { "USERPROFILE" } else { "HOME" };
    value(VARIABLE).or_else(|| Some(value(own)?.join(".codex")))
}

/// `line` with an empty home: for a question about codex alone.
pub fn with_empty_home(line: &mut CommandLine) {
    line.cwd = Cwd::Private;
    line.user_env.retain(|(name, _)| name != VARIABLE);
    line.set_env.push((VARIABLE, EnvText::Folder(FOLDER)));
}
