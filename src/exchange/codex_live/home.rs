//! The home that codex gets: a private folder with links to the user's login and configuration, and nothing else of theirs.
//!
//! In: a command line. Out: the command line with `CODEX_HOME` in its private folder, and the model catalog beside it. AGENTS.md,
//! skills, hooks, memories and prompts of the user's home are not there, and files that codex writes are removed with the folder;
//! a token that it renews is written through the link (CODEX-LIVE §3.2).

use serde_json::Value;

use dfp_provider::PrivateHome;
use dfp_provider::command::{Arg, CommandLine, Cwd, EnvText, PrivateFile};

/// The home's folder within the private one.
pub const FOLDER: &str = "codex-home";
/// A home with nothing in it.
const EMPTY: PrivateHome = PrivateHome {
    when: &[&[]],
    variable: "CODEX_HOME",
    folder: FOLDER,
    users: ".codex",
    by_system: true,
    login: &[],
    rest: &[],
    named: None,
    hides_folder: false,
};
/// The variable of the folder of codex's databases.
const DATABASES: &str = "CODEX_SQLITE_HOME";
/// The file of the catalog.
const CATALOG: &str = "catalog.json";

/// The kind of home that codex gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Home {
    /// A private home with links.
    Links,
    /// The user's own home, but for databases and logs: the key ring finds the login by its path. Its AGENTS.md is sent.
    Users,
}

/// Gives `line` this home and this catalog. `with_config`: the user's configuration applies.
pub fn prepare(line: &mut CommandLine, home: Home, with_config: bool, catalog: &Value) {
    // No project may be found.
    line.cwd = Cwd::Private;
    line.files.push(PrivateFile {
        name: CATALOG,
        content: catalog.to_string(),
    });
    line.args.push(Arg::Text("-c".to_owned()));
    line.args.push(Arg::FileSetting("model_catalog_json", CATALOG));
    // codex keeps the text of threads that it resumes in its databases: they go to the private folder, wherever the user has theirs. So do
    // logs.
    line.user_env.retain(|(name, _)| name != DATABASES);
    line.set_env.push((DATABASES, EnvText::Folder(FOLDER)));
    for setting in ["sqlite_home", "log_dir"] {
        line.args.push(Arg::Text("-c".to_owned()));
        line.args.push(Arg::FileSetting(setting, FOLDER));
    }
    match home {
        Home::Links => {
            line.home = Some(PrivateHome {
                login: &["auth.json"],
                rest: if with_config { &["config.toml", ".env"] } else { &[] },
                ..EMPTY
            });
        }
        Home::Users => {}
    }
}

/// Gives `line` an empty home, for a question about codex alone.
pub fn with_empty_home(line: &mut CommandLine) {
    line.cwd = Cwd::Private;
    line.home = Some(EMPTY);
}
