//! An installed CLI: its file, the command line that starts it, and the launcher before it: `docker exec`, `ssh`, `bwrap` (the option
//! `launch`).
//!
//! In: the plan of a process. Out: the plan of its launcher, which starts it (`put_before`). There is no shell in between, unless the
//! launcher has one: then the whole command line is quoted for it. What is cancelled here is the launcher with its process group, and on
//! this machine every process with the run's mark, which goes along with the other variables.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::time::SystemTime;

use dfp_process::{RUN_VARIABLE, Resolved, Spec, StartError, next_run_id};
use dfp_provider::command::CommandLine;
use dfp_provider::options::{ENV_PLACE, LAUNCH_NAME, LAUNCH_VALUE, Launch, LaunchEnv, on_command_line};
use dfp_text::redact::is_secret_name;

/// A binary: its place, and marks of the file there, so that an updated CLI counts as another one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Binary {
    resolved: Resolved,
    changed: Option<SystemTime>,
    size: u64,
    /// Device and inode, on systems that have them.
    identity: Option<(u64, u64)>,
    /// The folder of the login, if it is not the default one: the CLI's behaviour may depend on the settings there.
    login: Option<String>,
    /// The arguments that make a program of the user's own an agent: a runtime may be any agent.
    args: Vec<String>,
    /// A digest of the environment and the further arguments, which choose the settings: a failure with a broken configuration
    /// says nothing about another configuration.
    surroundings: u64,
    /// The launcher, which is the file here: nothing is known of the CLI's own.
    launcher: Option<String>,
}

impl Binary {
    /// Describes the binary that was found, with this login.
    pub fn new(resolved: Resolved, login: Option<&str>) -> Binary {
        let metadata = std::fs::metadata(resolved.script()).ok();
        Binary {
            changed: metadata.as_ref().and_then(|metadata| metadata.modified().ok()),
            size: metadata.as_ref().map_or(0, std::fs::Metadata::len),
            identity: metadata.as_ref().and_then(identity),
            login: login.map(str::to_owned),
            args: Vec::new(),
            surroundings: 0,
            launcher: None,
            resolved,
        }
    }

    /// This binary as the agent that it is with these arguments.
    #[must_use]
    pub fn with_args(self, args: &[String]) -> Binary {
        Binary {
            args: args.to_vec(),
            ..self
        }
    }

    /// This binary in surroundings with this digest.
    #[must_use]
    pub fn in_surroundings(self, surroundings: u64) -> Binary {
        Binary { surroundings, ..self }
    }

    /// This binary as the CLI that it starts, if it is a `launcher`.
    #[must_use]
    pub fn behind(self, launcher: Option<&str>) -> Binary {
        Binary {
            launcher: launcher.map(str::to_owned),
            ..self
        }
    }

    /// The launcher that starts the CLI.
    pub fn launcher(&self) -> Option<&str> {
        self.launcher.as_deref()
    }

    /// The file that is executed.
    pub fn resolved(&self) -> &Resolved {
        &self.resolved
    }

    /// The binary's own file: the script, if Windows runs it by a runtime.
    pub fn file(&self) -> &Path {
        self.resolved.script()
    }
}

#[cfg(unix)]
fn identity(metadata: &std::fs::Metadata) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    Some((metadata.dev(), metadata.ino()))
}

#[cfg(not(unix))]
fn identity(_: &std::fs::Metadata) -> Option<(u64, u64)> {
    None
}

/// A CLI, as calls with the same options and the same environment start it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installed {
    /// The command line that starts it.
    pub line: CommandLine,
    pub binary: Binary,
}

/// Puts `launch` before the program of `spec`.
///
/// # Errors
/// [`StartError::InvalidInput`]: an argument that is to be quoted, or a variable that is to be an argument, is not Unicode; or such a
/// variable is a secret, which the caller's `env` has not, but this package sets (an API's key, the bridge's token).
pub(super) fn put_before(launch: &Launch, spec: &mut Spec) -> Result<(), StartError> {
    let program = std::mem::replace(&mut spec.program, launch.command.clone().into());
    let mut cli: Vec<OsString> = Vec::new();
    let mut own: Vec<OsString> = Vec::new();
    match &launch.env {
        LaunchEnv::Inherit => own.extend(launch.args.iter().map(Into::into)),
        LaunchEnv::Listed(list) => {
            own.extend(launch.args.iter().map(Into::into));
            let variables = variables(spec, &launch.env)?;
            // What Windows names otherwise can't be listed, and its folders are none of the other side's.
            let is_plain = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            let goes_along = |name: &str| is_plain(name) && name != *list && !name.eq_ignore_ascii_case("PATH");
            let names = variables
                .iter()
                .filter(|(name, value)| value.is_some() && goes_along(name));
            let known = spec.env.get(list).and_then(|known| known.into_string().ok());
            let listed = known
                .filter(|known| !known.is_empty())
                .into_iter()
                .chain(names.map(|(name, _)| format!("{name}/u")));
            let listed = listed.collect::<Vec<_>>().join(":");
            spec.env.user.push(((*list).into(), Some(listed.into())));
        }
        LaunchEnv::Arguments => {
            own.extend(launch.args.iter().map(Into::into));
            cli.push("env".into());
            for (name, value) in variables(spec, &launch.env)? {
                match value {
                    Some(value) => cli.push(format!("{name}={value}").into()),
                    // `env` takes options before variables only.
                    None => drop(cli.splice(1..1, ["-u".into(), name.into()])),
                }
            }
            // They are arguments now; the launcher runs in this process's own environment.
            spec.env.set.clear();
            spec.env.user.clear();
        }
        LaunchEnv::Each(each) => {
            let variables = variables(spec, &launch.env)?;
            for arg in &launch.args {
                if arg != ENV_PLACE {
                    own.push(arg.into());
                    continue;
                }
                // What is removed here is not there on the other side.
                for (name, value) in variables
                    .iter()
                    .filter_map(|(name, value)| Some((name, value.as_ref()?)))
                {
                    own.extend(each.iter().map(|arg| filled(arg, name, value).into()));
                }
            }
        }
    }
    cli.push(program);
    cli.append(&mut spec.args);
    match launch.is_quoted {
        true => own.push(quoted(&cli)?.into()),
        false => own.append(&mut cli),
    }
    spec.args = own;
    Ok(())
}

/// `arg` with the name and the value of a variable in their places. Neither is searched for places.
fn filled(arg: &str, name: &str, value: &str) -> String {
    let parts = arg.split(LAUNCH_VALUE).map(|part| part.replace(LAUNCH_NAME, name));
    parts.collect::<Vec<_>>().join(value)
}

/// The variables that the process of `spec` is given beside those of its host, and those that it must not have (`None`). The mark of the
/// run is one of them. A secret is refused where its value would be an argument.
fn variables(spec: &mut Spec, env: &LaunchEnv) -> Result<BTreeMap<String, Option<String>>, StartError> {
    let run_id = spec.run_id.get_or_insert_with(next_run_id).clone();
    let drop = spec.env.drop.iter().map(|name| (name, None));
    let set = spec.env.set.iter().map(|(name, value)| (name, Some(value)));
    let user = spec.env.user.iter().map(|(name, value)| (name, value.as_ref()));
    let mut all = BTreeMap::new();
    for (name, value) in drop.chain(set).chain(user) {
        let value = value.map(text).transpose()?;
        all.insert(text(name)?, value);
    }
    let shown = |(name, value): &(&String, &Option<String>)| {
        env.shows_values() && is_secret_name(name) && value.as_ref().is_some_and(|value| !value.is_empty())
    };
    if let Some((name, _)) = all.iter().find(shown) {
        let what = format!("option \"launch.env\" can't hand it on: {}", on_command_line(name));
        return Err(StartError::InvalidInput { what });
    }
    all.insert(RUN_VARIABLE.to_owned(), Some(run_id));
    Ok(all)
}

/// `command` as one line for a POSIX shell, which reads the same words again.
fn quoted(command: &[OsString]) -> Result<String, StartError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=,@%+".contains(c);
    let mut words = Vec::new();
    for word in command {
        let word = text(word)?;
        words.push(match !word.is_empty() && word.chars().all(plain) {
            true => word,
            false => format!("'{}'", word.replace('\'', r"'\''")),
        });
    }
    Ok(words.join(" "))
}

fn text(value: &OsString) -> Result<String, StartError> {
    value
        .to_str()
        .map(str::to_owned)
        .ok_or_else(|| StartError::InvalidInput {
            what: format!("{value:?} is not Unicode, so it can't stand on the command line of `launch`"),
        })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn spec() -> Spec {
        let mut spec = Spec::new("claude");
        spec.args = ["-p", "", "it's $HOME"].map(Into::into).to_vec();
        spec.env.drop = vec!["CLAUDECODE".into()];
        spec.env.set = vec![("CI".into(), "true".into()), ("KEPT".into(), "{name}".into())];
        spec.env.user = vec![("CI".into(), None), ("A".into(), Some("b c".into()))];
        spec.run_id = Some("1-2".to_owned());
        spec
    }

    fn started(env: LaunchEnv, args: &[&str], is_quoted: bool) -> Vec<String> {
        let launch = Launch {
            command: "box".to_owned(),
            args: args.iter().map(|arg| (*arg).to_owned()).collect(),
            env,
            shares_files: false,
            is_quoted,
        };
        let mut spec = spec();
        put_before(&launch, &mut spec).unwrap();
        let args = spec.args.into_iter().map(|arg| arg.into_string().unwrap());
        [spec.program.into_string().unwrap()].into_iter().chain(args).collect()
    }

    #[test]
    fn the_command_stands_behind_the_launchers_own() {
        assert_eq!(
            started(LaunchEnv::Inherit, &["exec", "-i", "x"], false),
            ["box", "exec", "-i", "x", "claude", "-p", "", "it's $HOME"]
        );
    }

    #[test]
    fn the_variables_that_go_along_are_listed_behind_the_users_own() {
        let launch = |env: LaunchEnv| Launch {
            command: "wsl.exe".to_owned(),
            args: vec!["--exec".to_owned()],
            env,
            shares_files: false,
            is_quoted: false,
        };
        let list = |users: Option<&str>| {
            let mut spec = spec();
            spec.env.base = Some(Arc::new(vec![("WSLENV".into(), "OLD/p".into())]));
            // What a host of Windows has, and Linux can't take.
            for name in ["Path", "ProgramFiles(x86)"] {
                spec.env.user.push((name.into(), Some("C:\\x".into())));
            }
            if let Some(users) = users {
                spec.env.user.push(("WSLENV".into(), Some(users.into())));
            }
            put_before(&launch(LaunchEnv::Listed("WSLENV")), &mut spec).unwrap();
            assert_eq!(spec.args[..2], ["--exec", "claude"]);
            let last = spec.env.user.pop().unwrap();
            assert_eq!(last.0, "WSLENV");
            last.1.unwrap().into_string().unwrap()
        };
        assert_eq!(list(None), "OLD/p:A/u:DEEP_FACTOR_RUN/u:KEPT/u");
        assert_eq!(list(Some("")), "A/u:DEEP_FACTOR_RUN/u:KEPT/u");
        assert_eq!(list(Some("MINE/l")), "MINE/l:A/u:DEEP_FACTOR_RUN/u:KEPT/u");
    }

    #[test]
    fn a_secret_of_this_packages_own_stands_on_no_command_line() {
        let refused = |env: LaunchEnv, value: &str| {
            let launch = Launch {
                command: "box".to_owned(),
                args: vec!["{env}".to_owned()],
                env,
                shares_files: true,
                is_quoted: false,
            };
            let mut spec = spec();
            spec.env.set.push(("X_API_KEY".into(), value.into()));
            put_before(&launch, &mut spec).map_err(|error| error.to_string()).err()
        };
        let each = |arg: &str| LaunchEnv::Each(vec![arg.to_owned()]);
        for env in [LaunchEnv::Arguments, each("{name}={value}")] {
            let why = refused(env.clone(), "sk-1").unwrap();
            assert!(
                why.contains("the value of X_API_KEY would stand on a command line"),
                "{why}"
            );
            assert!(!why.contains("sk-1"), "{why}");
            assert_eq!(refused(env, ""), None);
        }
        assert_eq!(refused(each("--env={name}"), "sk-1"), None);
        assert_eq!(refused(LaunchEnv::Inherit, "sk-1"), None);
    }

    #[test]
    fn a_shell_reads_the_words_again() {
        assert_eq!(
            started(LaunchEnv::Inherit, &["host"], true),
            ["box", "host", r"claude -p '' 'it'\''s $HOME'"]
        );
    }

    #[test]
    fn variables_go_along_as_arguments() {
        assert_eq!(
            started(LaunchEnv::Arguments, &["x"], false),
            [
                "box",
                "x",
                "env",
                "-u",
                "CLAUDECODE",
                "-u",
                "CI",
                "A=b c",
                "DEEP_FACTOR_RUN=1-2",
                "KEPT={name}",
                "claude",
                "-p",
                "",
                "it's $HOME"
            ]
        );
        let each = LaunchEnv::Each(vec!["-e".to_owned(), "{name}={value}".to_owned()]);
        assert_eq!(
            started(each, &["exec", "{env}", "x"], false),
            [
                "box",
                "exec",
                "-e",
                "A=b c",
                "-e",
                "DEEP_FACTOR_RUN=1-2",
                "-e",
                "KEPT={name}",
                "x",
                "claude",
                "-p",
                "",
                "it's $HOME"
            ]
        );
    }
}
