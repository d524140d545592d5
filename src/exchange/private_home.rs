//! The home that a CLI gets in place of the user's: a private folder with links to the user's login, and nothing else of theirs.
//!
//! In: a command line with a [`PrivateHome`]. Out: the command line with the links, and with the variable that names the folder.

use std::ffi::OsString;
use std::path::PathBuf;

use dfp_provider::PrivateHome;
use dfp_provider::command::{CommandLine, EnvText, PrivateLink};

/// Gives `line` its private home. `variable` looks up a variable of the process.
pub(super) fn prepare(line: &mut CommandLine, variable: impl Fn(&CommandLine, &str) -> Option<OsString>) {
    let Some(home) = line.home.take() else { return };
    let users = users_home(&home, |name| variable(line, name));
    if let Some(users) = &users {
        let rest = home.rest.iter().filter(|name| users.join(name).exists());
        // The linked file may not exist yet: a login may come later.
        line.links.extend(home.login.iter().chain(rest).map(|name| PrivateLink {
            name: format!("{}/{name}", home.folder),
            target: users.join(name),
        }));
    }
    // A file that the user names by this variable has precedence, as has a call that must not have a login.
    if let Some(((variable, file), users)) = home.named.zip(users)
        && line.set_env.iter().all(|(set, _)| *set != variable)
    {
        line.set_env
            .push((variable, EnvText::Text(users.join(file).to_string_lossy().into_owned())));
    }
    line.user_env.retain(|(name, _)| name != home.variable);
    line.set_env.push((home.variable, EnvText::Folder(home.folder)));
}

/// The home that the CLI would take by itself.
fn users_home(home: &PrivateHome, variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let value = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    #[cfg(not(windows))]
    let own = || value("HOME");
    #[cfg(windows)]
    let own = || match home.by_system {
        true => dfp_process::profile_folder(),
        false => value("USERPROFILE"),
    };
    value(home.variable).or_else(|| Some(own()?.join(home.users)))
}
